test_that("every reduction of the table has a reference", {
  expect_setequal(keops:::engine_reductions(), ref_reduction_names)
})

# The calls to test of a reduction of `f`: with weights, numbers of values, over either axis.
reduction_calls <- function(name, f, weights = "y*p+x", counts = c(1, 3, 40)) {
  between <- if (name %in% ref_counted) paste0(f, ",", counts) else f
  if (name %in% names(ref_weighted)) {
    between <- c(if (name %in% ref_no_weights) f, if (name != "Max_SumShiftExp") paste0(f, ",", weights))
  }
  if (name == "Zero") between <- "2"
  as.vector(outer(between, 0:1, function(between, axis) sprintf("%s_Reduction(%s,%d)", name, between, axis)))
}
scalar_only <- function(name) name %in% names(ref_weighted)

reduction_args <- function(d) sprintf(c("x=Vi(%d)", "y=Vj(%d)", "z=Vj(1)", "p=Pm(%d)"), c(d, d, 1, d))
reduction_data <- function(m, n, d) {
  list(draw(m, d, -2, 2), draw(n, d, -2, 2, 1 / 256), draw(n, 1, 1, 2), draw(1, d, 0.5, 2))
}

test_that("every reduction over either axis, of formulas in i, j, both and neither, is dense R's", {
  for (name in keops:::engine_reductions()) {
    for (d in if (scalar_only(name)) 1 else c(1, 3)) {
      set.seed(d)
      for (f in c("p*x-y*z", "x*p", "y-p", "p+1")) {
        for (formula in reduction_calls(name, f)) {
          pair <- f == "p*x-y*z"
          expect_dense(formula, reduction_args(d), reduction_data(7, 5, d),
                       backends = if (pair) c("interpreted", "compiled") else "interpreted")
        }
      }
    }
  }
})

test_that("an operator without i- or j-variables reduces over one item", {
  x <- draw(6, 3, -2, 2)
  p <- c(1, 2, 3)
  each_backend(function(backend, precision) {
    expect_equal(keops_kernel("Sum_Reduction(x,1)", "x=Vi(3)")(list(x)), x)
    expect_equal(keops_kernel("Sum_Reduction(x,0)", "x=Vj(3)")(list(x)), x)
    expect_equal(keops_kernel("Sum_Reduction(x,0)", "x=Vi(3)")(list(x)), matrix(colSums(x), 1))
    expect_equal(keops_kernel("Sum_Reduction(x+p,0)", c("x=Vi(3)", "p=Pm(3)"))(list(x, p)),
                 matrix(colSums(x) + 6 * p, 1))
    expect_equal(keops_kernel("Sum_Reduction(p*p,1)", "p=Pm(3)")(list(p)), matrix(p^2, 1))
    expect_equal(keops_kernel("LogSumExp_Reduction(x,1)", "x=Vi(1)")(list(x[, 1])), x[, 1, drop = FALSE],
                 tolerance = 1e-7)
    expect_identical(keops_kernel("ArgMin_Reduction(x,1)", "x=Vi(3)")(list(x)), matrix(1L, 6, 3))
  })
})

test_that("a summand without the reduced index counts once an item, also where its variable is not used", {
  x <- cbind(c(1, 2, 4))
  y <- matrix(0, 5, 2)
  each_backend(function(backend, precision) {
    expect_equal(keops_kernel("Sum_Reduction(x,1)", c("x=Vi(1)", "y=Vj(2)"))(list(x, y)), 5 * x)
    expect_equal(keops_kernel("Sum_Reduction(x,0)", c("x=Vi(1)", "y=Vj(2)"))(list(x, y)), matrix(7, 5, 1))
    expect_equal(keops_kernel("Sum_Reduction(1,1)", c("x=Vi(1)", "y=Vj(2)"))(list(x, y)), matrix(5, 3, 1))
    expect_equal(keops_kernel("LogSumExp_Reduction(x,1)", c("x=Vi(1)", "y=Vj(2)"))(list(x, y)), x + log(5),
                 tolerance = 1e-6)
  })
})

test_that("Arg reductions return matrices of 1-based integers", {
  x <- cbind(c(0, 3))
  y <- cbind(c(5, 1, 2))
  args <- c("x=Vi(1)", "y=Vj(1)")
  each_backend(function(backend, precision) {
    near <- keops_kernel("ArgMin_Reduction(SqDist(x,y),1)", args)(list(x, y))
    expect_identical(near, cbind(c(2L, 3L)))
    expect_identical(keops_kernel("ArgMax_Reduction(SqDist(x,y),0)", args)(list(x, y)), cbind(c(1L, 2L, 1L)))
  })
})

test_that("ties go to the first item, wherever the tiles end", {
  y <- numeric(1100)
  y[c(3, 40, 256, 257, 1030)] <- -1
  y[c(5, 300, 1100)] <- 1
  args <- c("x=Vi(1)", "y=Vj(1)")
  for (threads in c(1, 2)) {
    each_backend(function(backend, precision) {
      with_options(list(keops.threads = threads), {
        data <- list(rep(2, 19), y)
        expect_identical(keops_kernel("ArgMin_Reduction(x*y,1)", args)(data), matrix(3L, 19, 1))
        expect_identical(keops_kernel("ArgMax_Reduction(x*y,1)", args)(data), matrix(5L, 19, 1))
        expect_identical(keops_kernel("ArgMin_Reduction(x*y,0)", args)(list(y, rep(2, 19))), matrix(3L, 19, 1))
        expect_identical(keops_kernel("ArgMin_Reduction(x*0*y,1)", args)(data), matrix(1L, 19, 1))
      })
    })
  }
})

test_that("Min, Max and their Arg forms skip NaN; nothing left is an infinite value and NA", {
  x <- cbind(c(0, NA, 1))
  y <- cbind(c(NaN, 0, 3, NA, -1))
  args <- c("x=Vi(1)", "y=Vj(1)")
  for (name in c("Min", "Max", "ArgMin", "ArgMax", "KMin", "ArgKMin")) {
    for (axis in 0:1) {
      f <- if (name %in% ref_counted) "SqDist(x,y),2" else "SqDist(x,y)"
      expect_dense(sprintf("%s_Reduction(%s,%d)", name, f, axis), args, list(x, y))
    }
  }
  each_backend(function(backend, precision) {
    near <- keops_kernel("ArgMin_Reduction(SqDist(x,y),1)", args)(list(x, y))
    expect_identical(near, cbind(c(2L, NA, 2L)))
    sums <- keops_kernel("Sum_Reduction(Exp(-SqDist(x,y)),1)", args)(list(x, cbind(c(0, 1))))
    expect_close(sums, cbind(c(1 + exp(-1), NaN, 1 + exp(-1))), tol(precision))
  })
})

test_that("infinite items never win an Arg from the far side, and win it from the near one", {
  y <- cbind(c(Inf, Inf, Inf), c(Inf, 2, -Inf), c(-Inf, -Inf, -Inf))
  args <- c("x=Vi(1)", "y=Vj(3)")
  for (name in c("Min", "Max", "ArgMin", "ArgMax", "KMin", "ArgKMin")) {
    f <- if (name %in% ref_counted) "x+y,2" else "x+y"
    expect_dense(sprintf("%s_Reduction(%s,1)", name, f), args, list(c(0, 1), y))
  }
  each_backend(function(backend, precision) {
    expect_identical(keops_kernel("ArgMin_Reduction(x+y,1)", args)(list(0, y)), rbind(c(NA, 3L, 1L)))
    expect_identical(keops_kernel("ArgMax_Reduction(x+y,1)", args)(list(0, y)), rbind(c(1L, 1L, NA)))
  })
})

test_that("LogSumExp knows -Inf, Inf, NaN and large scores", {
  scores <- rbind(c(1000, 1000, 1000), rep(-Inf, 3), c(0, -Inf, -Inf), c(-Inf, -Inf, 0), c(Inf, 0, -Inf),
                  c(-1000, -1001, -1002), c(NaN, 0, 0), c(0, -Inf, NaN), c(-1e300, -1e300, -1e300))
  answer <- c(1001.098612288668, -Inf, 0, 0, Inf, -1000 + log(1 + exp(-1) + exp(-2)), NaN, NaN, -1e300)
  # item j of row i is component j of x_i
  formula <- "LogSumExp_Reduction((x|y),1)"
  pick <- "LogSumExp_Reduction(IfElse(-k,Elem(x,0),IfElse(1-k,Elem(x,1),Elem(x,2))),1)"
  each_backend(function(backend, precision) {
    op <- keops_kernel(pick, c("x=Vi(3)", "k=Vj(1)"))
    rows <- if (precision == "single") 1:8 else 1:9
    expect_close(op(list(scores[rows, ], 0:2)), cbind(answer[rows]), tol(precision))
    down <- keops_kernel("LogSumExp_Reduction(s*z,0)", c("s=Vi(1)", "z=Vj(1)"))
    for (row in rows) {
      expect_close(down(list(scores[row, ], 1)), cbind(answer[row]), tol(precision), label = paste("scores", row))
    }
  })
})

test_that("a -Inf item anywhere in a long LogSumExp adds nothing", {
  set.seed(1)
  s <- draw(1030, 1, -3, 3)
  s[c(1, 2, 15:20, 256:260, 1024, 1030)] <- -Inf
  answer <- log(sum(exp(s)))
  each_backend(function(backend, precision) {
    op <- keops_kernel("LogSumExp_Reduction(s+x,1)", c("s=Vj(1)", "x=Vi(1)"))
    expect_close(op(list(s, c(0, 1, -2))), cbind(answer + c(0, 1, -2)), tol(precision))
  })
})

test_that("no rows and no items: a result of the right width, neutral elements and NA", {
  args <- c("x=Vi(2)", "y=Vj(2)")
  some <- matrix(c(1, 2, 3, 4, 5, 6), 3)
  none <- some[0, ]
  empty <- list(Sum = 0, Min = Inf, Max = -Inf, ArgMin = NA_integer_, ArgMax = NA_integer_, LogSumExp = -Inf,
                KMin = Inf, ArgKMin = NA_integer_, Zero = 0, SumSoftMaxWeight = NaN)
  expect_empty <- function(out, value, n, width, label) {
    expect_identical(flat(out), matrix(value, n, width), label = label)
  }
  each_backend(function(backend, precision) {
    for (name in names(empty)) {
      f <- switch(name, LogSumExp = "SqDist(x,y)", SumSoftMaxWeight = "SqDist(x,y),x*y", Zero = "2",
                  KMin = , ArgKMin = "x*y,3", "x*y")
      width <- switch(name, LogSumExp = 1, KMin = , ArgKMin = 6, 2)
      over_j <- keops_kernel(sprintf("%s_Reduction(%s,1)", name, f), args)
      over_i <- keops_kernel(sprintf("%s_Reduction(%s,0)", name, f), args)
      label <- paste(name, "of no items")
      expect_empty(over_j(list(some, none)), empty[[name]], 3, width, label)
      expect_empty(over_i(list(none, some)), empty[[name]], 3, width, label)
      expect_identical(dim(flat(over_j(list(none, some)))), c(0L, as.integer(width)))
      expect_identical(dim(flat(over_i(list(some, none)))), c(0L, as.integer(width)))
      expect_identical(dim(flat(over_j(list(none, none)))), c(0L, as.integer(width)))
    }
  })
})

sizes <- c(1, 2, 15, 16, 17, 255, 257, 1000)

test_that("sizes on both sides of every tile border are dense R's", {
  args <- c("x=Vi(3)", "y=Vj(3)", "b=Vj(2)")
  formulas <- c("Sum_Reduction(Exp(-SqDist(x,y))*b,1)", "Sum_Reduction(Exp(-SqDist(x,y))*b,0)",
                "LogSumExp_Reduction(-SqDist(x,y),1)", "Min_Reduction(SqDist(x,y)*b,1)",
                "ArgMax_Reduction(x-y,0)", "KMin_ArgKMin_Reduction(SqDist(x,y)*b,5,1)",
                "SumSoftMaxWeight_Reduction(-SqDist(x,y),b,1)", "Max_SumShiftExp_Reduction(-SqDist(x,y),0)")
  each_backend(function(backend, precision) {
    ops <- lapply(formulas, keops_kernel, args = args)
    for (m in sizes) {
      n <- rev(sizes)[match(m, sizes)]
      set.seed(m)
      data <- list(draw(m, 3, -1, 1), draw(n, 3, -1, 1), draw(n, 2, -1, 1))
      for (k in seq_along(formulas)) {
        expect_close(flat(ops[[k]](data)), ref_run(formulas[k], args, data), tol(precision),
                     label = sprintf("%s at %d x %d (%s, %s)", formulas[k], m, n, backend, precision))
      }
    }
  })
})

test_that("every pair of sizes up to a few vectors agrees with matrix algebra", {
  args <- c("x=Vi(2)", "y=Vj(2)", "b=Vj(1)")
  each_backend(function(backend, precision) {
    op <- keops_kernel("Sum_Reduction(Exp(-SqDist(x,y))*b,1)", args)
    least <- keops_kernel("Min_Reduction(SqDist(x,y),1)", args)
    nearest <- keops_kernel("ArgMin_Reduction(SqDist(x,y),1)", args)
    few <- expand.grid(m = c(1:9, 16, 17), n = c(1:9, 15:17, 31:33, 63:65, 127:129))
    many <- expand.grid(m = c(255, 257, 1000), n = c(255:257, 1000, 1025))
    for (k in seq_len(nrow(few) + nrow(many))) {
      m <- c(few$m, many$m)[k]
      n <- c(few$n, many$n)[k]
      set.seed(100 * m + n)
      x <- matrix(rnorm(2 * m), m)
      y <- matrix(rnorm(2 * n), n)
      b <- rnorm(n)
      d2 <- outer(x[, 1], y[, 1], "-")^2 + outer(x[, 2], y[, 2], "-")^2
      out <- op(list(x, y, b))
      values <- least(list(x, y, b))
      indices <- nearest(list(x, y, b))
      label <- sprintf("%d x %d (%s, %s)", m, n, backend, precision)
      if (max(abs(out - exp(-d2) %*% b)) > tol(precision) * sum(abs(b))) fail(label)
      if (max(abs(values - apply(d2, 1, min))) > tol(precision) * 10) fail(label)
      if (any(abs(d2[cbind(1:m, indices)] - values) > tol(precision) * 10)) fail(label)
    }
    succeed()
  })
})

test_that("sums with many components and many dimensions are dense R's", {
  set.seed(2)
  for (d in c(1, 2, 15, 17, 33, 100, 257)) {
    x <- draw(9, d, -1, 1)
    y <- draw(18, d, -1, 1)
    args <- sprintf(c("x=Vi(%d)", "y=Vj(%d)"), d)
    expect_dense("Sum_Reduction(SqDist(x,y)*y,1)", args, list(x, y), scale = 18 * 4 * d,
                 precisions = if (d %in% c(17, 257)) c("double", "single") else "double")
    expect_dense("Min_Reduction(Abs(x-y),0)", args, list(x, y), backends = "interpreted")
  }
})

test_that("LogSumExp takes weights, of one or more components", {
  args <- c("x=Vi(2)", "y=Vj(2)", "b=Vj(3)")
  set.seed(3)
  data <- list(draw(7, 2, -1, 1), draw(17, 2, -1, 1), draw(17, 3, 0.25, 2))
  for (axis in 0:1) {
    expect_dense(sprintf("LogSumExp_Reduction(-SqDist(x,y),b,%d)", axis), args, data)
    expect_dense(sprintf("LogSumExp_Reduction((x|y),SqDist(x,y)+1,%d)", axis), args, data)
  }
})

test_that("few rows over very many items: partial results merge to dense R's", {
  set.seed(4)
  n <- 100003
  x <- c(0.5, -1, 2)
  y <- draw(n, 1, -2, 2)[, 1]
  y[50000:60000] <- NA_real_
  b <- draw(n, 1, -1, 1)[, 1]
  s <- y
  s[is.na(s)] <- -Inf
  s[seq_len(40000)] <- -Inf
  keep <- !is.na(y)
  each_backend(function(backend, precision) {
    run <- function(text, j, b) keops_kernel(text, c("x=Vi(1)", "y=Vj(1)", "b=Vj(1)"))(list(x, j, b))
    # a grid: each extreme is reached many times, in many pieces
    least <- vapply(x, function(x) which.min((x - y)^2), 1L)
    most <- vapply(x, function(x) which.max((x - y)^2), 1L)
    expect_identical(run("ArgMin_Reduction(Square(x-y),1)", y, b), matrix(least))
    expect_identical(run("ArgMax_Reduction(Square(x-y),1)", y, b), matrix(most))
    expect_identical(run("ArgMin_Reduction(Step(Square(x-b)),1)", y, b), cbind(c(1L, 1L, 1L)))
    expect_equal(run("Min_Reduction(Square(x-y),1)", y, b), cbind((x - y[least])^2))
    expect_equal(run("Max_Reduction(Square(x-y),1)", y, b), cbind((x - y[most])^2))
    lse <- vapply(x, function(x) log(sum(exp(x * 8 + s))), 0)
    expect_close(run("LogSumExp_Reduction(x*8+y,1)", s, b), cbind(lse), tol(precision))
    # the largest score comes late, and the pieces' largest ones differ a lot
    late <- seq_len(n) / 200
    expect_close(run("LogSumExp_Reduction(y+Abs(x-b),1)", late, b),
                 cbind(vapply(x, function(x) 500 + log(sum(exp(late + abs(x - b) - 500))), 0)), tol(precision))
    expect_true(all(is.nan(run("LogSumExp_Reduction(x*8+y,1)", y, b))))
    expect_close(run("Sum_Reduction(Square(x-y)*b,1)", ifelse(keep, y, 0), b),
                 cbind(vapply(x, function(x) sum((x - ifelse(keep, y, 0))^2 * b), 0)), tol(precision), scale = n)
  })
})

test_that("KMin has the shapes of the help, sorted values, 1-based integers and NA beyond the last item", {
  x <- rbind(a = c(0, 1), b = c(4, 4))
  y <- rbind(c(0, 0), c(3, 1), c(4, 5))
  args <- c("x=Vi(2)", "y=Vj(2)")
  each_backend(function(backend, precision) {
    near <- keops_kernel("KMin_ArgKMin_Reduction(SqDist(x,y),4,1)", args)(list(x, y))
    expect_identical(near$values, rbind(a = c(1, 9, 32, Inf), b = c(1, 10, 32, Inf)))
    expect_identical(near$indices, rbind(a = c(1L, 2L, 3L, NA), b = c(3L, 2L, 1L, NA)))
    apart <- keops_kernel("KMin_Reduction(Abs(x-y),2,1)", args)(list(x, y))
    expect_identical(apart, array(c(0, 0, 3, 1, 0, 1, 1, 3), c(2, 2, 2), list(c("a", "b"), NULL, NULL)))
    one <- keops_kernel("ArgKMin_Reduction(Abs(x-y),1,0)", args)(list(x, y))
    expect_identical(one, array(c(1L, 2L, 2L, 1L, 1L, 2L), c(3, 1, 2)))
  })
})

test_that("the k least of many tied items are those of the lowest indices, for k beyond a vector or a tile too", {
  set.seed(5)
  y <- floor(runif(3001, 0, 40))
  x <- c(0, 20.25, 100)
  args <- c("x=Vi(1)", "y=Vj(1)")
  for (k in c(1, 7, 100, 1500, 3001)) {
    wanted <- t(vapply(x, function(x) order((x - y)^2)[seq_len(k)], integer(k)))
    if (k == 1) wanted <- matrix(wanted)
    for (threads in 1:2) {
      each_backend(function(backend, precision) {
        op <- keops_kernel(sprintf("ArgKMin_Reduction(Square(x-y),%d,1)", k), args)
        expect_identical(op(list(x, y), threads = threads), wanted)
      })
    }
  }
})

test_that("a wrong K is an error with its place", {
  for (k in c("0", "-1", "2.5", "x", "9000000000")) {
    expect_error(keops_kernel(sprintf("KMin_Reduction(x,%s,1)", k), "x=Vi(1)"), class = "keops_error")
  }
  expect_error(keops_kernel("KMin_Reduction(x,1)", "x=Vi(1)"), "F, K, axis", class = "keops_error_parse")
  expect_error(keops_kernel("KMin_Reduction(x,9000000,1)", "x=Vi(1)"), "too wide", class = "keops_error_dimension")
})

test_that("several formulas are answered at once, as one by one", {
  set.seed(6)
  args <- c("x=Vi(2)", "y=Vj(2)", "p=Pm(1)")
  data <- list(draw(5, 2, -1, 1), draw(4, 2, -1, 1), 2)
  rownames(data[[1]]) <- letters[1:5]
  texts <- c("Sum_Reduction(Exp(-p*SqDist(x,y)),1)", "Min_ArgMin_Reduction(SqDist(x,y),0)", "Sum_Reduction(x*y,1)*p",
             "Sum_Reduction(Sum_Reduction(Exp(-p*SqDist(x,y)),1),0)")
  each_backend(function(backend, precision) {
    together <- keops_kernel(paste(texts, collapse = " ; "), args)(data)
    expect_identical(together, lapply(texts, function(text) keops_kernel(text, args)(data)))
    expect_identical(rownames(together[[1]]), letters[1:5])
  })
  expect_output(print(keops_kernel(paste(texts, collapse = ";"), args)), "M x 1.*N x 2.*M x 2.*1 x 1")
  expect_error(keops_kernel("Sum_Reduction(x,1);", args), class = "keops_error_parse")
  expect_error(keops_kernel("Sum_Reduction(x,1);x*y", args), "no reduction", class = "keops_error_parse")
})

test_that("every scheme of summation gives the dense answer", {
  set.seed(7)
  args <- c("x=Vi(3)", "y=Vj(3)", "b=Vj(2)")
  data <- list(draw(5, 3, -1, 1), draw(2100, 3, -1, 1), draw(2100, 2, -1, 1))
  for (formula in c("Sum_Reduction(Exp(-SqDist(x,y))*b,1)", "Sum_Reduction(x-y,0)", "Sum_Reduction(SqDist(x,y),1)",
                    "Grad(Sum_Reduction(Exp(-SqDist(x,y))*b,1),b,Elem(x,0))")) {
    if (startsWith(formula, "Grad")) formula <- sub("Elem(x,0)", "Extract(x,0,2)", formula, fixed = TRUE)
    plain <- keops_kernel(formula, args)(data)
    each_backend(function(backend, precision) {
      for (scheme in c("auto", "block", "direct", "kahan")) {
        out <- keops_kernel(formula, args)(data, sum_scheme = scheme)
        expect_close(out, plain, tol(precision), scale = 2100, label = paste(formula, scheme, backend, precision))
      }
    })
  }
  expect_error(keops_kernel("Sum_Reduction(x,1)", args)(data, sum_scheme = "pairwise"), class = "keops_error_input")
})

test_that("Kahan's sums keep what a plain sum loses, and infinite ones stay infinite", {
  big <- 2^60 # exact in both precisions, far beyond their digits
  y <- c(rep(c(1, big, 1, -big), 700), 3)
  args <- c("x=Vi(1)", "y=Vj(1)")
  each_backend(function(backend, precision) {
    sum_of <- function(y, ...) keops_kernel("Sum_Reduction(x*y,1)", args)(list(c(1, -2), y), ...)
    expect_identical(sum_of(y, sum_scheme = "kahan"), cbind(c(1403, -2806)))
    expect_identical(sum_of(c(y, Inf), sum_scheme = "kahan"), cbind(c(Inf, -Inf)))
    expect_identical(sum_of(c(Inf, y, -Inf), sum_scheme = "kahan"), cbind(c(NaN, NaN)))
  })
})

test_that("a single precision sum over 10^7 items is the double one within 1e-6, whatever the scheme", {
  set.seed(8)
  n <- 1e7
  y <- runif(n)
  args <- c("x=Vi(1)", "y=Vj(1)")
  op <- keops_kernel("Sum_Reduction(Exp(-Square(x-y)),1)", args)
  exact <- exp(-(0.25 - y)^2)
  exact <- sum(exact)
  each_backend(function(backend, precision) {
    for (scheme in c("auto", "direct", "kahan")) {
      out <- op(list(0.25, y), sum_scheme = scheme)
      expect_lt(abs(out - exact) / exact, if (scheme == "direct") 1e-4 else 1e-6)
    }
  }, precisions = "single")
})

# Up to 32 are kept as a sorted list in vectors, more in a pool that is thinned; rows of one unit see several chunks of items.
test_that("any number of least values comes out in order, the lower index first, NaN and Inf never", {
  set.seed(7)
  n <- 700L
  x <- round(runif(11), 1)
  y <- round(runif(n), 2) # many ties
  y[c(5, 600)] <- NaN
  y[c(9, 10)] <- Inf
  each_backend(function(backend, precision) {
    for (k in c(1L, 2L, 7L, 8L, 9L, 16L, 31L, 32L, 33L, 70L, 300L, 698L)) {
      op <- keops_kernel(sprintf("KMin_ArgKMin_Reduction(Abs(x-y)*256,%d,1)", k), c("x=Vi(1)", "y=Vj(1)"))
      # quotients of 256: exact in single precision too
      got <- op(list(round(x * 256) / 256, round(y * 256) / 256))
      w <- abs(outer(round(x * 256), round(y * 256), "-"))
      w[!is.finite(w)] <- NA
      order_k <- matrix(apply(w, 1L, function(r) order(r, na.last = NA)[seq_len(k)]), ncol = k, byrow = TRUE)
      least_k <- matrix(apply(w, 1L, function(r) sort(r)[seq_len(k)]), ncol = k, byrow = TRUE)
      expect_identical(unname(got$indices) == order_k, order_k == order_k, info = paste(backend, precision, k))
      expect_equal(unname(got$values), ifelse(is.na(least_k), Inf, least_k), info = paste(backend, precision, k))
    }
  })
})
