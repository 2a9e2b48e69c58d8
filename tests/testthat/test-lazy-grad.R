slopes <- function(f, x, h = 1e-5) {
  out <- x
  for (k in seq_along(x)) {
    step <- replace(0 * x, k, h)
    out[k] <- (8 * (f(x + step) - f(x - step)) - (f(x + 2 * step) - f(x - 2 * step))) / (12 * h)
  }
  out
}

test_that("gradients count all places of the data, as i, as j and as a parameter", {
  set.seed(2)
  x <- matrix(rnorm(10), 5, 2)
  y <- matrix(rnorm(6), 3, 2)
  total <- function(K) sum(sum(K, "j"))
  for (f in list(
    function(x) exp(-sqdist(Vi(x), Vj(x))), function(x) exp(-sqdist(Vi(x), Vj(x))) * Vj(x), function(x) t(sqrt(1 + sqdist(Vi(x), Vj(y)))),
    function(x) Vi(x) | Vj(x), function(x) Vj(x)^3 * Vi(1:4), function(x) t(exp(Vi(x) - Vj(y))) * Vj(x)
  )) {
    expect_equal(keops_grad(f(x), x), slopes(function(x) total(f(x)), x), tolerance = 1e-7)
  }
  y_leaf <- Vj(y)
  K <- exp(-sqdist(Vi(y), y_leaf))
  expect_equal(keops_grad(K, y_leaf), keops_grad(K, y) / 2)
})

test_that("gradients in parameters are those of the Pm() that is given", {
  set.seed(2)
  x <- matrix(rnorm(10), 5, 2)
  total <- function(s) sum(exp(-sqdist(Vi(x), Vj(x)) / (2 * s^2)) * 2)
  s <- Pm(2)
  K <- exp(-sqdist(Vi(x), Vj(x)) / (2 * s^2)) * 2
  expect_equal(keops_grad(K, s), slopes(total, 2), tolerance = 1e-7)
  expect_equal(keops_grad(K, 2), slopes(total, 2), tolerance = 1e-7)
  A <- matrix(c(2, 1, 0.5, 3), 2)
  Q <- matvecmult(Pm(A), Vi(x)) | Vj(x)
  expect_equal(keops_grad(Q, A), slopes(function(A) sum(matvecmult(Pm(A), Vi(x)) | Vj(x)), A), tolerance = 1e-7)
  expect_error(keops_grad(exp(-2 * Vi(x)), 2), class = "keops_error_input", regexp = "10|5 x 2")
  expect_error(keops_grad(exp(-Vi(x)), x + 1), class = "keops_error_input", regexp = "5 x 2")
  expect_error(keops_grad(exp(-Vi(x)), Vi(x)^2), class = "keops_error_input", regexp = "expression")
  expect_error(keops_grad(Vi(x) * 1i, x), class = "keops_error_input")
})

test_that("a distance has a finite gradient where points coincide", {
  X <- rbind(c(0, 0), c(3, 4))
  D <- sqrt(sqdist(Vi(X), Vj(X)))
  expect_equal(rowSums(D), c(5, 5))
  expect_equal(keops_grad(D, Vi(X)), rbind(c(-0.6, -0.8), c(0.6, 0.8)))
  expect_equal(keops_grad(D, X), 2 * rbind(c(-0.6, -0.8), c(0.6, 0.8)))
})

test_that("the Hessian times a vector is the derivative of the gradient", {
  set.seed(4)
  x <- matrix(rnorm(10), 5, 2)
  v <- matrix(rnorm(10), 5, 2)
  K <- function(x) exp(-sqdist(Vi(x), Vj(x))) * Vi(x)
  h <- 1e-5
  expect_equal(keops_grad(K(x), x, v = v), (keops_grad(K(x + h * v), x + h * v) - keops_grad(K(x - h * v), x - h * v)) / (2 * h), tolerance = 1e-6)
  z <- x[, 1]
  H <- sapply(1:5, function(k) keops_grad(exp(-sqdist(Vi(z), Vj(z))), z, v = replace(0 * z, k, 1)))
  expect_equal(H, t(H))
  expect_error(keops_grad(K(x), x, v = 1:3), class = "keops_error_input", regexp = "`v`")
})

test_that("the result has the shape and names of the data", {
  x <- matrix(c(1, 2, 3, 4), 2, dimnames = list(c("a", "b"), c("u", "v")))
  expect_identical(dimnames(keops_grad(Vi(x)^2, x)), dimnames(x))
  expect_identical(keops_grad(Vi(c(a = 1, b = 2))^2, c(a = 1, b = 2)), c(a = 2, b = 4))
  expect_equal(keops_grad(Vi(as.data.frame(x))^2, as.data.frame(x)), 2 * x)
})

test_that("optim() follows the gradient to points that repel each other", {
  set.seed(5)
  anchor <- matrix(runif(16), 8, 2)
  energy <- function(p) {
    x <- matrix(p, 4, 2)
    sum(sqrt(0.01 + sqdist(Vi(x), Vj(anchor)))) / 8 - sum(sqrt(0.01 + sqdist(Vi(x), Vj(x)))) / 8
  }
  slope <- function(p) {
    x <- matrix(p, 4, 2)
    keops_grad(sqrt(0.01 + sqdist(Vi(x), Vj(anchor))), x) / 8 - keops_grad(sqrt(0.01 + sqdist(Vi(x), Vj(x))), x) / 8
  }
  fit <- optim(runif(8), energy, slope, method = "BFGS")
  expect_identical(fit$convergence, 0L)
  expect_lt(max(abs(slope(fit$par))), 1e-2)
  by_differences <- optim(fit$par, energy, method = "BFGS")
  expect_equal(by_differences$value, fit$value, tolerance = 1e-4)
})

test_that("the direction of a Hessian is held fixed, also where it equals the data", {
  x <- matrix(c(0.1, 0.4, -0.3, 1, 0.7, -0.2), 3)
  slope <- function(x) keops_grad(exp(-sqdist(Vi(x), Vj(x))), x)
  h <- 1e-5
  expect_equal(keops_grad(exp(-sqdist(Vi(x), Vj(x))), x, v = x), (slope(x + h * x) - slope(x - h * x)) / (2 * h), tolerance = 1e-7)
})

test_that("data that equal what the package made on the way are still found", {
  z <- c(1, 2, 3)
  expect_equal(keops_grad(keops_identity(3) * Vi(z)^2, z), 2 * z)
})

test_that("parameters of a saved lazy matrix are not those of the session that loads it", {
  file <- tempfile()
  on.exit(unlink(file))
  expect_child(c("library(keops)", sprintf("saveRDS(Vi(c(1, 2)) * Pm(2), %s)", deparse(file))))
  expect_child(c("library(keops)", sprintf("K <- readRDS(%s)", deparse(file)),
                 "for (k in 1:1000) {", "  q <- Pm(3)", "  if (keops_grad(K * q, q) != 6) stop(k)", "}"))
  p <- Pm(2)
  both <- unserialize(serialize(list(K = Vi(c(1, 2)) * p, p = p), NULL))
  expect_equal(keops_grad(both$K, both$p), 3)
})
