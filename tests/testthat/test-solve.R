spd_example <- function(n = 60, s = 0.3) {
  set.seed(8)
  x <- matrix(runif(2 * n), n)
  list(x = x, K = exp(-sqdist(Vi(x), Vj(x)) / (2 * s^2)), dense = exp(-as.matrix(dist(x))^2 / (2 * s^2)))
}

test_that("systems are solved to the residual asked for, with each preconditioner and for several columns", {
  e <- spd_example()
  B <- cbind(u = sin(6 * e$x[, 1]), v = rnorm(60))
  for (precond in c("auto", "none", "nystrom", "pivchol")) {
    for (tol in c(1e-4, 1e-8)) {
      a <- solve(e$K, B, ridge = 0.01, tol = tol, precond = precond)
      residual <- sqrt(colSums((e$dense %*% a + 0.01 * a - B)^2) / colSums(B^2))
      expect_true(all(residual <= tol * 1.01), label = paste(precond, tol))
      expect_true(attr(a, "converged"))
      expect_equal(attr(a, "residual"), unname(residual), tolerance = 0.05)
      expect_identical(colnames(a), colnames(B))
    }
    expect_equal(a, solve(e$dense + 0.01 * diag(60), B), tolerance = 1e-6, ignore_attr = TRUE)
  }
  one <- solve(e$K, B[, 1], ridge = 0.01)
  expect_null(dim(one))
  expect_type(attr(one, "iterations"), "integer")
})

test_that("a preconditioner saves steps", {
  e <- spd_example(200)
  b <- rnorm(200)
  steps <- vapply(c("none", "nystrom", "pivchol"), function(p) attr(solve(e$K, b, ridge = 1e-3, precond = p), "iterations"), 0L)
  expect_lt(steps[["nystrom"]], steps[["none"]] / 3)
  expect_lt(steps[["pivchol"]], steps[["none"]] / 3)
})

test_that("the ridge may stand in the matrix, and products with a ridge are systems too", {
  e <- spd_example()
  b <- rnorm(60)
  expect_equal(solve(e$K + 0.1 * keops_identity(60), b), solve(e$K, b, ridge = 0.1))
  Q <- crossprod(e$K)
  expect_equal(solve(Q, b, ridge = 0.5, tol = 1e-9), solve(crossprod(e$dense) + 0.5 * diag(60), b), tolerance = 1e-6, ignore_attr = TRUE)
  expect_error(solve(Q, b, precond = "pivchol"), class = "keops_error_input")
})

test_that("a ridge may have a number for each row", {
  set.seed(31)
  x <- matrix(runif(240), 120)
  K <- exp(-sqdist(Vi(x), Vj(x)) / 0.1)
  ridge <- seq(0.001, 0.5, length.out = 120)
  b <- cbind(sin(5 * x[, 1]), x[, 2])
  for (precond in c("none", "pivchol", "nystrom", "auto")) {
    out <- solve(K, b, ridge = ridge, tol = 1e-10, precond = precond)
    expect_lt(max(abs(out - solve(as.matrix(K) + diag(ridge), b))), 1e-6)
    expect_true(attr(out, "converged"))
  }
  for (bad in list(ridge[-1], replace(ridge, 3, -1), replace(ridge, 3, NA), "1")) expect_error(solve(K, b, ridge = bad), class = "keops_error_input")
})

test_that("P17: matrices that are not positive definite are refused, not answered", {
  swap <- 1 - keops_identity(2)
  expect_error(solve(swap, c(1, 2)), class = "keops_error_singular", regexp = "not positive definite")
  set.seed(1)
  x <- matrix(rnorm(100), 50)
  r2 <- sqdist(Vi(x), Vj(x))
  for (precond in c("auto", "none", "nystrom", "pivchol")) {
    expect_error(solve(xlogx(r2) / 2, rnorm(50), precond = precond), class = "keops_error_singular")
    expect_error(solve(exp(-r2) - 0.5 * keops_identity(50), rnorm(50), precond = precond), class = "keops_error_singular")
  }
})

test_that("P17: a solution that has not converged says so", {
  g <- seq(-5, 5, 0.2)
  K <- exp(-sqdist(Vi(g), Vj(g)) / 50)
  expect_warning(a <- solve(K, sin(g), ridge = 1e-10, maxit = 5, precond = "none"), class = "keops_warning_convergence", regexp = "5 steps")
  expect_false(attr(a, "converged"))
  expect_identical(attr(a, "iterations"), 5L)
  expect_equal(attr(a, "residual"), sqrt(sum((K %*% a + 1e-10 * a - sin(g))^2) / sum(sin(g)^2)), tolerance = 1e-6)
  warning <- tryCatch(solve(K, sin(g), ridge = 1e-10, maxit = 5, precond = "none"), warning = identity)
  expect_identical(warning$iterations, 5L)
  expect_warning(a <- solve(K, sin(g), tol = 0, maxit = 200), class = "keops_warning_convergence")
  expect_true(all(is.finite(a)))
})

test_that("right-hand sides of zero and single numbers have their solution", {
  e <- spd_example()
  expect_equal(as.vector(solve(e$K, numeric(60), ridge = 0.1)), numeric(60))
  expect_equal(as.vector(solve(exp(-sqdist(Vi(1), Vj(1))), 3, ridge = 1)), 1.5)
})

test_that("what is no symmetric system is refused", {
  e <- spd_example()
  b <- rnorm(60)
  expect_error(solve(exp(-sqdist(Vi(e$x), Vj(e$x + 1))), b), class = "keops_error_input", regexp = "not symmetric")
  expect_error(solve(exp(-sqdist(Vi(e$x), Vj(e$x[1:5, ]))), b), class = "keops_error_input", regexp = "60 x 5")
  expect_error(solve(e$K), class = "keops_error_input", regexp = "as.matrix")
  expect_error(solve(e$K, b[-1]), class = "keops_error_dimension")
  expect_error(solve(e$K, replace(b, 7, NA)), class = "keops_error_input", regexp = "row 7")
  expect_error(solve(e$K, b, ridge = -1), class = "keops_error_input")
  expect_error(solve(e$K, b, maxit = 0), class = "keops_error_input")
  expect_error(solve(e$K, b, rank = 61), class = "keops_error_input")
  expect_error(solve(e$K, b, precond = "lu"), class = "keops_error_input")
  expect_error(solve(e$K, b, tolerance = 1), class = "keops_error_input", regexp = "tolerance")
  expect_error(solve(Vi(e$x) * Vj(e$x), b), class = "keops_error_input", regexp = "2 components")
  expect_error(solve(e$K * NaN, b), class = "keops_error_input", regexp = "NaN")
})

test_that("right-hand sides of any size are solved, matrices that are not finite are refused", {
  e <- spd_example()
  b <- rnorm(60)
  answer <- solve(e$dense + 0.01 * diag(60), b)
  for (size in c(1e-200, 1e200)) {
    expect_equal(as.vector(solve(e$K, b * size, ridge = 0.01, tol = 1e-9)) / size, unname(answer), tolerance = 1e-6)
  }
  expect_error(solve(e$K / 0, b), class = "keops_error_input", regexp = "Inf")
  expect_error(solve(e$K + Inf * keops_identity(60), b), class = "keops_error_input", regexp = "Inf")
})
