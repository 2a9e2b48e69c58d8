# What users of such software ran into, with the right answers; the cases that other files don't name.

test_that("E05: a kernel of L1 distances in 1000 dimensions, whole and other scales alike", {
  set.seed(1)
  x <- matrix(rnorm(2e5), 200, 1000)
  answer <- rowSums(exp(-as.matrix(dist(x, "manhattan")) / 7))
  each_backend(function(backend, precision) {
    op <- keops_kernel("Sum_Reduction(Exp(-Sum(Abs(x-y))/s),1)", c("x=Vi(1000)", "y=Vj(1000)", "s=Pm(1)"))
    for (s in list(7L, 7)) expect_close(op(list(x, x, s)), cbind(answer, deparse.level = 0), tol(precision))
  })
})

test_that("E06: nearest neighbours for any number of columns", {
  for (d in c(1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 99, 100, 101, 127, 128, 129, 255, 256, 257, 999, 1000, 24705)) {
    set.seed(d)
    x <- matrix(rnorm(20 * d), 20)
    y <- matrix(rnorm(21 * d), 21)
    d2 <- outer(rowSums(x^2), rowSums(y^2), "+") - 2 * tcrossprod(x, y)
    each_backend(function(backend, precision) {
      found <- keops_kernel("Min_ArgMin_Reduction(SqDist(x,y),1)", sprintf(c("x=Vi(%d)", "y=Vj(%d)"), d))(list(x, y))
      expect_identical(found$indices[, 1], apply(d2, 1, which.min), label = paste("indices in dimension", d))
      expect_close(found$values, cbind(apply(d2, 1, min), deparse.level = 0), tol(precision), scale = max(d2))
    }, backends = if (d %in% c(3, 17, 100, 1000)) c("interpreted", "compiled") else "interpreted")
  }
})

test_that("E08: a scale for each dimension and a wide right-hand side", {
  set.seed(8)
  x <- matrix(rnorm(2400), 24)
  y <- matrix(rnorm(700), 7)
  s <- runif(100, 5, 20)
  v <- matrix(rnorm(7 * 130), 7)
  d2 <- outer(rowSums(sweep(x, 2, s, "/")^2), rowSums(sweep(y, 2, s, "/")^2), "+") -
    2 * tcrossprod(sweep(x, 2, s, "/"), sweep(y, 2, s, "/"))
  expect_each <- function(out, precision) expect_close(out, exp(-d2 / 2) %*% v, tol(precision), scale = 7)
  each_backend(function(backend, precision) {
    op <- keops_kernel("Sum_Reduction(Exp(-SqDist(x/s,y/s)/2)*v,1)", c("x=Vi(100)", "y=Vj(100)", "s=Pm(100)", "v=Vj(130)"))
    expect_each(op(list(x, y, s, v)), precision)
  })
})

test_that("E09: batches of a parameter are each answered", {
  x <- c(0, 0.5, 1, 2, -1)
  y <- c(0, 1, -1, 0.25)
  p <- c(0.5, 1, 2)
  each_backend(function(backend, precision) {
    op <- keops_kernel("Sum_Reduction(Exp(-p*Square(x-y)),1)", c("x=Vi(1)", "y=Vj(1)", "p=Pm(1)"))
    out <- op(list(x, y, array(p, c(1, 1, 3))))
    expect_identical(dim(out), c(5L, 1L, 3L))
    for (b in 1:3) expect_close(matrix(out[, , b]), cbind(rowSums(exp(-p[b] * outer(x, y, "-")^2)), deparse.level = 0), tol(precision))
  })
})

test_that("E11: largest components and extremes of values that are all negative, or all positive", {
  each_backend(function(backend, precision) {
    args <- c("x=Vi(2)", "y=Vj(2)")
    data <- list(matrix(0, 1, 2), matrix(c(1, 2), 1))
    expect_identical(keops_kernel("Sum_Reduction(Max(x-y),1)", args)(data), matrix(-1))
    expect_identical(keops_kernel("Sum_Reduction(Max(Abs(x-y)),1)", args)(data), matrix(2))
    one <- c("x=Vi(1)", "y=Vj(1)")
    expect_identical(keops_kernel("Max_Reduction(x+y,1)", one)(list(0, c(-3, -7))), matrix(-3))
    expect_identical(keops_kernel("Min_Reduction(x+y,1)", one)(list(0, c(3, 7))), matrix(3))
  })
})

test_that("E12: LogSumExp with and without weights, of large and infinite scores, and its gradient", {
  scores <- rbind(c(1000, 1000, 1000), rep(-Inf, 3), c(0, -Inf, -Inf))
  answer <- c(1000 + log(3), -Inf, 0)
  each_backend(function(backend, precision) {
    args <- c("s=Vi(1)", "z=Vj(1)", "one=Pm(1)")
    for (row in 1:3) {
      data <- list(scores[row, ], 1, 1)
      plain <- keops_kernel("LogSumExp_Reduction(s*z,0)", args)
      expect_close(plain(data), matrix(answer[row]), tol(precision))
      expect_identical(keops_kernel("LogSumExp_Reduction(s*z,one,0)", args)(data), plain(data))
    }
    expect_identical(keops_grad(plain, "s")(c(data, 1)), cbind(c(1, 0, 0)))
  })
})

test_that("E14: a one-hot vector of a class that is not there is zero", {
  w <- c(7, 2, 5, 1, 1, -1)
  answer <- matrix(0, 4, 6)
  answer[1, 1] <- 7
  answer[4, 3] <- 5
  each_backend(function(backend, precision) {
    op <- keops_kernel("Sum_Reduction(OneHot(k-1,6)*w,1)", c("k=Vi(1)", "w=Pm(6)"))
    expect_identical(op(list(c(1, 9, -2, 3), w)), answer)
  })
  expect_identical(sum(one_hot(Vi(c(1, 9, -2, 3)), 6) * Pm(w), "j"), answer)
})

test_that("E19: no rows, one row, no columns", {
  args <- c("x=Vi(2)", "y=Vj(2)")
  some <- matrix(c(1, 2, 3, 4), 2)
  none <- some[0, ]
  empty <- list(Sum = 0, Min = Inf, LogSumExp = -Inf, ArgMin = NA_integer_)
  each_backend(function(backend, precision) {
    for (name in names(empty)) {
      op <- keops_kernel(sprintf("%s_Reduction(SqDist(x,y),1)", name), args)
      expect_identical(dim(op(list(none, some))), c(0L, 1L))
      expect_identical(op(list(some, none)), matrix(empty[[name]], 2, 1))
      expect_identical(dim(op(list(some[1, , drop = FALSE], some))), c(1L, 1L))
      expect_error(op(list(some[, 0], some)), "2 x 0", class = "keops_error_input")
    }
  })
  expect_error(keops_kernel("Sum_Reduction(x,1)", "x=Vi(0)"), class = "keops_error_input")
  expect_error(Vi(some[, 0]), class = "keops_error_input")
})

test_that("E20: NA and Inf in data stay in their rows", {
  y <- c(0, 1)
  for (x in list(c(0, NA, 1), c(0, Inf, 1))) {
    bad <- x[2]
    each_backend(function(backend, precision) {
      run <- function(f) keops_kernel(f, c("x=Vi(1)", "y=Vj(1)"))(list(x, y))
      sums <- run("Sum_Reduction(Exp(-SqDist(x,y)),1)")
      expect_close(sums, cbind(c(1 + exp(-1), if (is.na(bad)) NA else 0, 1 + exp(-1))), tol(precision))
      expect_identical(run("ArgMin_Reduction(SqDist(x,y),1)"), cbind(c(1L, NA, 2L)))
      expect_identical(run("Min_Reduction(SqDist(x,y),1)"), cbind(c(0, Inf, 0)))
    })
  }
})

test_that("G04: gradients of half of m'Km in points and weights, and the Hessian times a vector", {
  set.seed(4)
  n <- 50
  x <- matrix(rnorm(3 * n), n)
  m <- matrix(rnorm(3 * n), n)
  energy <- function(x, m) 0.5 * sum(m * (exp(-as.matrix(dist(x))^2) %*% m))
  args <- c("x=Vi(3)", "y=Vj(3)", "m=Vi(3)", "n=Vj(3)")
  op <- keops_kernel("Sum_Reduction(Exp(-SqDist(x,y))*(m|n),1)", args)
  ones <- rep(0.5, n)
  both <- function(g) g$x + g$y
  dx <- function(x, m) both(keops_grad(op, c("x", "y"))(list(x, x, m, m, ones)))
  dm <- {
    g <- keops_grad(op, c("m", "n"))(list(x, x, m, m, ones))
    g$m + g$n
  }
  u <- matrix(rnorm(3 * n), n)
  expect_identical(dim(dx(x, m)), c(50L, 3L))
  expect_equal(sum(dx(x, m) * u), ref_slope(function(h) energy(x + h * u, m)), tolerance = 1e-7)
  expect_equal(sum(dm * u), ref_slope(function(h) energy(x, m + h * u)), tolerance = 1e-7)
  # gradient of sum(dx), along u, in x and in m
  parts <- lapply(c("x", "y"), function(v) keops_grad(op, v))
  second <- function(vars) {
    Reduce(`+`, lapply(parts, function(d) Reduce(`+`, keops_grad(d, vars)(list(x, x, m, m, ones, matrix(1, n, 3))))))
  }
  expect_equal(sum(second(c("x", "y")) * u), ref_slope(function(h) sum(dx(x + h * u, m))), tolerance = 1e-5)
  expect_equal(sum(second(c("m", "n")) * u), ref_slope(function(h) sum(dx(x, m + h * u))), tolerance = 1e-5)
})

test_that("T01: many columns of points, and many right-hand sides", {
  set.seed(11)
  x <- matrix(runif(150 * 700), 150)
  y <- matrix(runif(210 * 700), 210)
  b <- matrix(rnorm(420), 210)
  d2 <- outer(rowSums(x^2), rowSums(y^2), "+") - 2 * tcrossprod(x, y)
  u <- matrix(runif(90 * 3), 90)
  v <- matrix(runif(120 * 3), 120)
  w <- matrix(rnorm(120 * 256), 120)
  k <- exp(-(outer(rowSums(u^2), rowSums(v^2), "+") - 2 * tcrossprod(u, v)))
  each_backend(function(backend, precision) {
    wide <- c("x=Vi(700)", "y=Vj(700)", "b=Vj(2)")
    expect_close(keops_kernel("Sum_Reduction((x|y)*b,1)", wide)(list(x, y, b)), tcrossprod(x, y) %*% b, tol(precision), scale = 1e4)
    expect_close(keops_kernel("Sum_Reduction(Exp(-SqDist(x,y)/200)*b,1)", wide)(list(x, y, b)), exp(-d2 / 200) %*% b, tol(precision), scale = 100)
    thin <- keops_kernel("Sum_Reduction(Exp(-SqDist(x,y))*b,1)", c("x=Vi(3)", "y=Vj(3)", "b=Vj(256)"))
    expect_close(thin(list(u, v, w)), k %*% w, tol(precision), scale = 50)
  })
})

test_that("T03: densities and nearest neighbours among 100000 points, the last of them too", {
  set.seed(3)
  n <- 100000L
  y <- matrix(runif(3 * n), n)
  rows <- c(1:20, n - 19:0)
  d2 <- vapply(rows, function(i) colSums((t(y) - y[i, ])^2), numeric(n))
  each_backend(function(backend, precision) {
    density <- keops_kernel("Sum_Reduction(Exp(-g*SqDist(x,y)),1)", c("x=Vi(3)", "y=Vj(3)", "g=Pm(1)"))
    expect_close(density(list(y[rows, ], y, 50)), cbind(colSums(exp(-50 * d2)), deparse.level = 0), tol(precision), scale = n / 10)
    nearest <- keops_kernel("ArgKMin_Reduction(SqDist(x,y),2,1)", c("x=Vi(3)", "y=Vj(3)"))(list(y[rows, ], y))
    expect_identical(as.integer(nearest[, 1]), rows) # itself
    expect_identical(as.integer(nearest[, 2]), vapply(seq_along(rows), function(r) order(d2[, r])[2], 1L))
  })
})

test_that("T04: 100 points against 75000 are the same for any number of threads", {
  set.seed(4)
  x <- matrix(runif(300), 100)
  y <- matrix(runif(225000), 75000)
  each_backend(function(backend, precision) {
    op <- keops_kernel("Sum_Reduction(Exp(-SqDist(x,y)),1)", c("x=Vi(3)", "y=Vj(3)"))
    answer <- op(list(x, y), threads = 1)
    for (threads in c(2, 4, 16)) expect_identical(op(list(x, y), threads = threads), answer, label = paste(threads, "threads"))
    expect_identical(op(list(x, y)), answer)
    expect_close(answer[7, , drop = FALSE], matrix(sum(exp(-colSums((t(y) - x[7, ])^2)))), tol(precision), scale = 75000)
  }, gpu = FALSE)
})
