several_formulas <- c(
  sum = "Sum_Reduction(Exp(-g*SqDist(x,y))*b,1)",
  down = "Sum_Reduction(Exp(-g*SqDist(x,y))*Concat(x,b),0)",
  lse = "LogSumExp_Reduction(-SqDist(x,y)*b,1)",
  min = "Min_Reduction(SqDist(x,y)-b,1)",
  arg = "ArgMax_Reduction(Sin(x-y)*b,1)",
  two = "Sum_Reduction(Exp(-SqDist(x,y)-LogSumExp_Reduction(-SqDist(x,y),1))*b,0)",
  grad = "Grad(Sum_Reduction(Exp(-g*SqDist(x,y))*b,1),y,e)",
  param = "Grad(LogSumExp_Reduction(-g*SqDist(x,y),1),g,e)"
)
several_args <- c("x=Vi(3)", "y=Vj(3)", "b=Vj(1)", "g=Pm(1)", "e=Vi(1)")
several_data <- function(m, n) {
  list(matrix(rnorm(3 * m), m), matrix(rnorm(3 * n), n), runif(n), 0.5, rnorm(m))
}

test_that("1, 2 and 3 threads give the same bits", {
  set.seed(1)
  shapes <- list(c(1500, 1100), c(3, 60000), c(60000, 2), c(1, 1))
  each_backend(function(backend, precision) {
    for (name in names(several_formulas)) {
      op <- keops_kernel(several_formulas[[name]], several_args)
      for (shape in shapes) {
        data <- several_data(shape[1], shape[2])
        out <- lapply(1:3, function(threads) op(data, threads = threads))
        label <- sprintf("%s at %d x %d (%s, %s)", name, shape[1], shape[2], backend, precision)
        expect_identical(out[[2]], out[[1]], label = paste(label, "2 threads"))
        expect_identical(out[[3]], out[[1]], label = paste(label, "3 threads"))
      }
    }
  })
})

test_that("interpreter and compiled kernels agree", {
  skip_without_compiler()
  set.seed(2)
  for (name in names(several_formulas)) {
    op <- keops_kernel(several_formulas[[name]], several_args)
    for (shape in list(c(700, 900), c(5, 3001), c(2999, 7))) {
      data <- several_data(shape[1], shape[2])
      for (precision in c("double", "single")) {
        a <- op(data, backend = "interpreted", precision = precision)
        b <- op(data, backend = "compiled", precision = precision)
        label <- sprintf("%s at %d x %d (%s)", name, shape[1], shape[2], precision)
        if (name == "arg") {
          expect_gt(mean(a == b), if (precision == "single") 0.999 else 0.999999, label = label)
        } else {
          terms <- if (name == "param") sum(abs(data[[5]])) else max(abs(b))
          expect_close(a, b, tol(precision), scale = max(1, terms), label = label)
        }
      }
    }
  }
})

test_that("single precision stays close to double, at any place on the map", {
  set.seed(3)
  x <- matrix(runif(300), 100) + rep(c(700000, 4600000, -5e6), each = 100)
  y <- matrix(runif(600), 200) + rep(c(700000, 4600000, -5e6), each = 200)
  b <- runif(200)
  for (text in c("Sum_Reduction(Exp(-SqDist(x,y))*b,1)", "Sum_Reduction(Exp(-SqDist(x,y)),0)",
                 "Sum_Reduction(Sqrt(SqDist(x,y))*b,1)", "Min_Reduction(SqDist(x,y),1)",
                 "Grad(Sum_Reduction(Exp(-SqDist(x,y))*b,1),x,w)", "Grad(Sum_Reduction(Exp(-SqDist(x,y))*b,1),y,w)")) {
    op <- keops_kernel(text, c("x=Vi(3)", "y=Vj(3)", "b=Vj(1)", "w=Vi(1)"))
    data <- list(x, y, b, rep(1, 100))
    reference <- op(data, backend = "interpreted", precision = "double")
    each_backend(function(backend, precision) {
      expect_close(op(data), reference, tol(precision), label = paste(text, backend, precision))
    })
  }
})

test_that("single precision sums of a million terms keep seven digits", {
  n <- 1e6
  y <- seq_len(n) / n
  each_backend(precisions = "single", function(backend, precision) {
    out <- keops_kernel("Sum_Reduction(Exp(-Square(x-y)),1)", c("x=Vi(1)", "y=Vj(1)"))(list(c(0, 2), y))
    answer <- c(sum(exp(-y^2)), sum(exp(-(2 - y)^2)))
    expect_lt(max(abs(out / answer - 1)), 1e-7)
  })
})

test_that("E17: pairs are counted in 64 bits", {
  n <- 70000
  one <- rep(1, n)
  x <- seq_len(n) / n
  args <- c("x=Vi(1)", "y=Vj(1)", "b=Vj(1)")
  expect_identical(keops_kernel("Sum_Reduction(1,1)", args)(list(x, x, one)), matrix(70000, n, 1))
  expect_identical(keops_kernel("Sum_Reduction(1,0)", args)(list(x, x, one)), matrix(70000, n, 1))
  # each pair looked at: 1 where x >= y or x < y
  each_backend(precisions = "single", function(backend, precision) {
    out <- keops_kernel("Sum_Reduction(Step(Square(x-y))*b,1)", args)(list(x, x, one))
    expect_identical(out, matrix(70000, n, 1))
  })
  expect_identical(keops_kernel("Sum_Reduction(Sum_Reduction(Step(Square(x-y)),1),0)", args[1:2])(list(x, x)),
                   matrix(4.9e9))
})

# What ran, from the message of a verbose call.
backend_of <- function(op, ...) {
  said <- character()
  withCallingHandlers(with_options(list(keops.verbose = TRUE), op(...)), message = function(m) {
    said <<- c(said, conditionMessage(m))
    invokeRestart("muffleMessage")
  })
  unique(regmatches(said, regexpr("interpreted|compiled", said)))
}

test_that("auto interprets small work and compiles large work, whatever ran before", {
  skip_without_compiler()
  set.seed(4)
  few <- list(runif(50), runif(40))
  many <- list(runif(costly_points), runif(costly_points))
  op <- keops_kernel(costly_formula(0.5), costly_args)
  expect_identical(backend_of(op, few), "interpreted")
  first <- op(few)
  expect_identical(backend_of(op, many), "compiled")
  expect_identical(backend_of(op, few), "interpreted")
  op(few, backend = "compiled")
  expect_identical(backend_of(op, few), "interpreted")
  expect_identical(op(few), first)
  # a kernel on disk or none: the same way, the same bits
  large <- op(many)
  keops_cache_clear()
  expect_identical(backend_of(op, many), "compiled")
  expect_identical(op(many), large)
  expect_identical(backend_of(op, few, backend = "compiled"), "compiled")
  expect_identical(backend_of(op, many, backend = "interpreted"), "interpreted")
})

test_that("each instruction set of the interpreter gives the same answers", {
  code <- '
    library(keops)
    set.seed(5)
    x <- matrix(rnorm(300), 100); y <- matrix(rnorm(390), 130); b <- runif(130)
    op <- keops_kernel("Sum_Reduction(Exp(-SqDist(x,y))*b,1)", c("x=Vi(3)", "y=Vj(3)", "b=Vj(1)"))
    lse <- keops_kernel("LogSumExp_Reduction(Sin(x|y),1)", c("x=Vi(3)", "y=Vj(3)", "b=Vj(1)"))
    k <- exp(-as.matrix(dist(rbind(x, y)))[1:100, 101:230]^2)
    for (precision in c("double", "single")) {
      tol <- if (precision == "single") 1e-5 else 1e-12
      stopifnot(max(abs(op(list(x, y, b), precision = precision, backend = "interpreted") - k %*% b)) < tol * 10,
                max(abs(lse(list(x, y, b), precision = precision, backend = "interpreted") -
                        log(rowSums(exp(sin(x %*% t(y))))))) < tol * 10)
    }
    cat(keops_info()$isa)
  '
  for (isa in c("base", "avx2")) expect_child(code, env = paste0("KEOPS_ISA=", isa))
})
