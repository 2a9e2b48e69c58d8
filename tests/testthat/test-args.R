test_args <- c("x=Vi(2)", "y=Vj(2)", "b=Vj(1)", "p=Pm(2)")
test_op <- function(...) keops_kernel("Sum_Reduction(Exp(-SqDist(p*x,y))*b,1)", test_args, ...)
test_data <- list(x = matrix(c(0, 1, 2, 0, 1, 1), 3), y = matrix(c(0, 1, 1, 0), 2), b = c(1, 2), p = c(1, 2))
test_answer <- ref_run("Sum_Reduction(Exp(-SqDist(p*x,y))*b,1)", test_args, test_data)

test_that("E01: a plain vector is a parameter, and so is a row or a column of one", {
  x <- matrix(as.numeric(1:6), 3, 2)
  op <- keops_kernel("Sum_Reduction(x+p,0)", c("x=Vi(2)", "p=Pm(2)"))
  over_j <- keops_kernel("Sum_Reduction(x+p,1)", c("x=Vj(2)", "p=Pm(2)"))
  each_backend(function(backend, precision) {
    for (p in list(c(10, 20), matrix(c(10, 20), 1), matrix(c(10, 20), 2), c(a = 10, b = 20), c(10L, 20L))) {
      expect_equal(over_j(list(x, p)), matrix(c(36, 75), 1))
      expect_equal(op(list(x, p)), matrix(c(36, 75), 1))
    }
  })
  e <- tryCatch(over_j(list(x, c(10, 20, 30))), keops_error_input = identity)
  expect_s3_class(e, "keops_error_input")
  for (word in c("`p`", "3", "2 numbers")) expect_true(grepl(word, conditionMessage(e), fixed = TRUE), label = word)
})

test_that("E15: one component recycles, other sizes are an error with both dimensions", {
  args <- c("v=Pm(3)", "s=Pm(1)", "u=Pm(2)", "x=Vi(1)")
  data <- list(c(1, 2, 3), 10, c(1, 2), c(0, 0))
  for (f in list(list("v+s+0*x", 11:13), list("s+v", 11:13), list("s*v", 10 * (1:3)), list("v/s", (1:3) / 10),
                 list("s/v", 10 / (1:3)), list("v-s*x", 1:3))) {
    each_backend(function(backend, precision) {
      out <- keops_kernel(sprintf("Sum_Reduction(%s,1)", f[[1]]), args)(data)
      expect_close(out, matrix(as.numeric(f[[2]]), 2, 3, byrow = TRUE), tol(precision), label = f[[1]])
    })
  }
  e <- tryCatch(keops_kernel("Sum_Reduction(v+u,1)", args), keops_error = identity)
  expect_s3_class(e, "keops_error_dimension")
  expect_match(conditionMessage(e), "3 and 2")
})

test_that("E22: integers, logicals and data frames are numbers", {
  x <- matrix(c(0L, 1L, 2L, 0L, 1L, 1L), 3)
  y <- data.frame(a = c(0, 1), b = c(TRUE, FALSE))
  expect_equal(test_op()(list(x, y, c(TRUE, FALSE), c(1L, 2L))),
               test_op()(list(x + 0, as.matrix(y) + 0, c(1, 0), c(1, 2))))
  # E23: integers do not overflow
  far <- matrix(c(0L, 50000L))
  op <- keops_kernel("Sum_Reduction(SqDist(x,y),1)", c("x=Vi(1)", "y=Vj(1)"))
  expect_equal(op(list(far, 0L)), cbind(c(0, 2.5e9)))
})

test_that("lists by position, and named in any order", {
  op <- test_op()
  expect_equal(op(unname(test_data)), test_answer, tolerance = 1e-14)
  expect_equal(op(test_data), test_answer, tolerance = 1e-14)
  expect_equal(op(test_data[c("p", "b", "y", "x")]), test_answer, tolerance = 1e-14)
})

test_that("inner_dim = \"row\" takes points in columns, and the result does not turn", {
  op <- test_op()
  turned <- list(t(test_data$x), t(test_data$y), t(test_data$b), test_data$p)
  expect_equal(op(turned, inner_dim = "row"), test_answer, tolerance = 1e-14)
  expect_equal(op(list(t(test_data$x), t(test_data$y), test_data$b, test_data$p), inner_dim = "row"), test_answer,
               tolerance = 1e-14)
  expect_error(op(test_data, inner_dim = "row"), class = "keops_error_input")
  expect_error(op(test_data, inner_dim = "rows"), class = "keops_error_input")
})

test_that("row names follow the index of the result", {
  x <- test_data$x
  rownames(x) <- c("a", "b", "c")
  y <- test_data$y
  rownames(y) <- c("u", "v")
  out <- test_op()(list(x, y, test_data$b, test_data$p))
  expect_identical(rownames(out), c("a", "b", "c"))
  back <- keops_kernel("ArgMin_Reduction(SqDist(x,y),0)", c("x=Vi(2)", "y=Vj(2)"))
  expect_identical(rownames(back(list(x, y))), c("u", "v"))
  one <- keops_kernel("Sum_Reduction(Sum_Reduction(SqDist(x,y),0),1)", c("x=Vi(2)", "y=Vj(2)"))
  expect_identical(dim(one(list(x, y))), c(1L, 1L))
  frame <- data.frame(a = 1:2, b = 3:4, row.names = c("r", "s"))
  expect_identical(rownames(keops_kernel("Sum_Reduction(x,1)", "x=Vi(2)")(list(frame))), c("r", "s"))
})

test_that("input is not changed and not kept", {
  x <- test_data$x
  before <- x + 0
  out <- test_op()(list(x, test_data$y, test_data$b, test_data$p))
  expect_identical(x, before)
  out[1] <- -1
  expect_equal(test_op()(test_data), test_answer, tolerance = 1e-14)
})

expect_input_error <- function(code, arg, words) {
  e <- tryCatch(code, error = identity)
  expect_s3_class(e, c("keops_error_input", "keops_error", "error"))
  if (!inherits(e, "keops_error_input")) return()
  expect_true(grepl(arg, e$arg, fixed = TRUE), label = paste0("the field arg, \"", e$arg, "\""))
  expect_true(all(c("arg", "found", "expected") %in% names(e)))
  for (word in words) {
    expect_true(grepl(word, conditionMessage(e), fixed = TRUE), label = paste0("\"", word, "\" in \"", conditionMessage(e), "\""))
  }
  expect_false(is.null(conditionCall(e)))
}

test_that("input errors name the argument, what was found and what is allowed", {
  op <- test_op()
  with <- function(...) {
    new <- list(...)
    data <- test_data
    data[names(new)] <- new
    data
  }
  expect_input_error(op(1), "args", c("a list", "4 elements"))
  expect_input_error(op(), "args", "list")
  expect_input_error(op(data.frame(x = 1)), "args", "list")
  expect_input_error(op(test_data[1:3]), "args", c("length 3", "4 elements"))
  expect_input_error(op(unname(c(test_data, list(1)))), "args", c("length 5", "4 elements"))
  expect_input_error(op(setNames(test_data, c("x", "y", "b", "q"))), "args", c("`q`", "`p`"))
  expect_input_error(op(setNames(test_data, c("x", "y", "b", ""))), "args", "names")
  expect_input_error(op(setNames(test_data, c("x", "y", "x", "p"))), "args", "`b`")
  expect_input_error(op(with(x = matrix(0, 3, 3))), "`x`", c("3 x 3", "2 columns"))
  expect_input_error(op(with(x = c(1, 2))), "`x`", c("length 2", "2 columns"))
  expect_input_error(op(with(x = matrix(0, 3, 0))), "`x`", c("3 x 0", "2 columns"))
  expect_input_error(op(with(x = array(0, c(3, 2, 1, 1)))), "`x`", "3 x 2 x 1 x 1")
  expect_input_error(op(with(b = c(1, 2, 3))), "`b`", c("3 rows", "2", "`y`"))
  expect_input_error(op(with(b = matrix(1, 2, 2))), "`b`", c("2 x 2", "1 column"))
  expect_input_error(op(with(p = 1)), "`p`", c("length 1", "2 numbers"))
  expect_input_error(op(with(p = matrix(1, 2, 2))), "`p`", "2 x 2")
  expect_input_error(op(with(x = matrix("a", 3, 2))), "`x`", c("character", "number"))
  expect_input_error(op(with(b = factor(c("u", "v")))), "`b`", "factor")
  expect_input_error(op(unname(list(test_data$x, NULL, 1:2, 1:2))), "`y`", "NULL")
  expect_input_error(op(with(y = list(1, 2))), "`y`", "list")
  expect_input_error(op(with(y = mean)), "`y`", "function")
  expect_input_error(op(with(y = matrix(1i, 2, 2))), "`y`", "complex")
  expect_input_error(op(with(y = data.frame(a = 1:2, s = c("u", "v")))), "`y`", c("`s`", "character"))
  expect_input_error(op(with(y = iris[1:2, 4:5])), "`y`", c("`Species`", "factor"))
  expect_input_error(op(test_data, unknown = 1), "", "`unknown`")
  expect_input_error(test_op(precisoin = "single"), "", "`precisoin`")
  expect_input_error(test_op(precision = "half"), "precision", c("half", "single"))
  expect_input_error(test_op(backend = "gpu"), "backend", "interpreted")
  expect_input_error(test_op(threads = 0), "threads", "0")
  expect_input_error(test_op(threads = 1.5), "threads", "1.5")
})

test_that("unnamed arguments are named by their number", {
  op <- keops_kernel("Sum_Reduction(Var(0,2,0)*Var(1,1,1),1)", c("Vi(2)", "Vj(1)"))
  expect_input_error(op(list(matrix(0, 3, 2), matrix(0, 3, 2))), "number 2", "3 x 2")
})

test_that("NA, NaN and Inf go through operators", {
  op <- test_op()
  x <- test_data$x
  x[2, 1] <- NA
  out <- op(list(x, test_data$y, test_data$b, test_data$p))
  expect_identical(is.na(c(out)), c(FALSE, TRUE, FALSE))
  expect_equal(out[-2], test_answer[-2], tolerance = 1e-14)
  x[2, 1] <- Inf
  expect_equal(op(list(x, test_data$y, test_data$b, test_data$p))[2], 0)
})

test_that("asking for a GPU is an error of its own class, auto is not", {
  if (!has_gpu()) expect_error(test_op(device = "gpu")(test_data), class = "keops_error_device")
  expect_error(test_op(device = "gpu:99")(test_data), class = "keops_error_device")
  expect_input_error(test_op(device = "gpu:x"), "device", "gpu:1")
  expect_input_error(test_op(device = c("cpu", "gpu")), "device", "gpu:0")
  expect_equal(test_op(device = "auto")(test_data), test_answer, tolerance = 1e-14)
  expect_equal(test_op(device = "cpu")(test_data), test_answer, tolerance = 1e-14)
})

test_that("settings: an argument wins over the option, the option over the environment", {
  old <- Sys.getenv("KEOPS_PRECISION", NA)
  on.exit(if (is.na(old)) Sys.unsetenv("KEOPS_PRECISION") else Sys.setenv(KEOPS_PRECISION = old))
  Sys.setenv(KEOPS_PRECISION = "single")
  third <- function(...) {
    op <- keops_kernel("Sum_Reduction(Exp(x*y),1)", c("x=Vi(1)", "y=Vj(1)"), ...)
    abs(op(list(1 / 3, 1)) - exp(1 / 3)) < 1e-12
  }
  expect_identical(keops_options("precision")$precision, "single")
  expect_false(c(third()))
  with_options(list(keops.precision = "double"), {
    expect_true(c(third()))
    expect_false(c(third(precision = "single")))
  })
  expect_true(c(third(precision = "double")))
  Sys.setenv(KEOPS_PRECISION = "quadruple")
  expect_error(third(), "KEOPS_PRECISION", class = "keops_error_input")
})

test_that("keops_options() gets, sets and sets back", {
  old <- keops_options(precision = "single", threads = 1)
  on.exit(keops_options(old))
  expect_identical(keops_options("precision", "threads"), list(precision = "single", threads = 1L))
  keops_options(old)
  expect_identical(keops_options("threads")$threads, 2L)
  expect_error(keops_options(wrong = 1), "`precision`", class = "keops_error_input")
  expect_error(keops_options(precision = "triple"), class = "keops_error_input")
})
