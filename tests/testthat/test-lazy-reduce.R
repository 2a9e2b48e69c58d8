lazy_example <- function() {
  set.seed(6)
  x <- matrix(rnorm(14), 7, 2, dimnames = list(letters[1:7], NULL))
  y <- matrix(rnorm(10), 5, 2)
  d <- as.matrix(dist(rbind(x, y)))[1:7, 8:12]^2
  list(x = x, y = y, D = sqdist(Vi(x), Vj(y)), d = unname(d))
}

test_that("sums, minima and their places are dense R's, over either index", {
  e <- lazy_example()
  expect_equal(sum(e$D, "j"), cbind(rowSums(e$d)), ignore_attr = TRUE)
  expect_equal(sum(e$D, index = "i"), cbind(colSums(e$d)), ignore_attr = TRUE)
  expect_identical(rownames(sum(e$D, "j")), letters[1:7])
  expect_equal(as.vector(min(e$D, "j")), apply(e$d, 1, min))
  expect_equal(as.vector(max(e$D, "i")), apply(e$d, 2, max))
  expect_identical(as.vector(argmin(e$D, "j")), apply(e$d, 1, which.min))
  expect_identical(as.vector(argmax(e$D, "i")), apply(e$d, 2, which.max))
  both <- min_argmin(e$D, "j")
  expect_equal(as.vector(both$values), apply(e$d, 1, min))
  expect_identical(as.vector(both$indices), apply(e$d, 1, which.min))
  expect_identical(as.vector(max_argmax(e$D, "j")$indices), apply(e$d, 1, which.max))
  expect_identical(sum_reduction(e$D, "j"), sum(e$D, "j"))
  expect_identical(argmin_reduction(e$D, "j"), argmin(e$D, "j"))
})

test_that("K least, with their places, are sorted and padded", {
  e <- lazy_example()
  expect_equal(Kmin(e$D, 3, "j"), t(apply(e$d, 1, function(v) sort(v)[1:3])), ignore_attr = TRUE)
  expect_identical(unname(argKmin(e$D, 3, "i")), unname(t(apply(e$d, 2, function(v) order(v)[1:3]))))
  both <- Kmin_argKmin(e$D, 7, "j")
  expect_identical(both$values[1, 6:7], c(Inf, Inf))
  expect_identical(both$indices[1, 6:7], c(NA_integer_, NA_integer_))
  expect_identical(dim(Kmin(Vi(e$x) - Vj(e$y), 3, "j")), c(7L, 3L, 2L))
  expect_error(Kmin(e$D, 0, "j"), class = "keops_error_input", regexp = "K")
})

test_that("log-sum-exp and soft maxima take weights of every kind", {
  e <- lazy_example()
  w <- c(0.5, 1, 2, 0.25, 3)
  expect_equal(as.vector(logsumexp(-e$D, "j")), log(rowSums(exp(-e$d))))
  for (weight in list(w, matrix(w), Vj(w))) {
    expect_equal(as.vector(logsumexp(-e$D, "j", weight)), log(as.vector(exp(-e$d) %*% w)))
    expect_equal(as.vector(sumsoftmaxweight(-e$D, "j", weight)), as.vector(exp(-e$d) %*% w) / rowSums(exp(-e$d)))
  }
  expect_equal(sumsoftmaxweight(-e$D, "i", e$x), crossprod(exp(-e$d), e$x) / colSums(exp(-e$d)), ignore_attr = TRUE)
  expect_equal(as.vector(sumsoftmaxweight(-e$D, "j", Vi(e$x[, 1]) * Vj(w))), as.vector(exp(-e$d) %*% w) * e$x[, 1] / rowSums(exp(-e$d)), ignore_attr = TRUE)
  expect_error(logsumexp(-e$D, "j", w[-1]), class = "keops_error_dimension")
  expect_error(logsumexp(Vi(e$x), "j"), class = "keops_error_dimension", regexp = "2 components")
  scores <- rbind(c(1000, 1000, 1000), -Inf, c(0, -Inf, -Inf))
  S <- Vi(scores) | one_hot(Vj(1:3), 3)
  expect_equal(as.vector(logsumexp(Vi(1000) * Vj(c(1, 1, 1)), "j")), 1000 + log(3))
  expect_equal(as.vector(logsumexp(Vi(1) * Vj(c(-Inf, -Inf, -Inf)), "j")), -Inf)
})

test_that("without index, reductions give the number that a matrix gives", {
  e <- lazy_example()
  expect_equal(sum(e$D), sum(e$d))
  expect_equal(mean(e$D), mean(e$d))
  expect_equal(c(min(e$D), max(e$D)), range(e$d))
  expect_equal(range(e$D), range(e$d))
  bad <- Vi(c(1, NaN, 3)) * Vj(c(1, 2))
  expect_identical(max(bad), NaN)
  expect_identical(max(bad, na.rm = TRUE), 6)
  expect_identical(range(bad), c(NaN, NaN))
  expect_identical(sum(bad), NaN)
  expect_identical(as.vector(max(bad, "j")), c(2, -Inf, 6))
  expect_identical(as.vector(argmax(bad, "j")), c(2L, NA, 2L))
})

test_that("a call whose meaning is open lists the choices", {
  e <- lazy_example()
  v <- Vi(e$x) - Vj(e$y)
  for (f in list(sum, max, argmin)) expect_error(f(v), class = "keops_error_input", regexp = "\"j\".*\"i\".*\"inner\"")
  for (f in list(argmin, argmax, min_argmin, logsumexp)) expect_error(f(e$D), class = "keops_error_input", regexp = "\"j\".*\"i\"")
  expect_error(sum(e$D, "k"), class = "keops_error_input", regexp = "\"k\"")
  expect_error(sum(e$D, 1), class = "keops_error_input")
  expect_error(sum(e$D, "j", prec = "single"), class = "keops_error_input", regexp = "prec")
  expect_error(prod(e$D), class = "keops_error_input")
  expect_error(rowSums(v), class = "keops_error_input", regexp = "2 components")
})

test_that("components are reduced by \"inner\", lazily", {
  e <- lazy_example()
  v <- Vi(e$x) - Vj(e$y)
  dense <- lapply(1:2, function(k) outer(e$x[, k], e$y[, k], "-"))
  expect_equal(as.matrix(sum(v^2, "inner")), e$d, ignore_attr = TRUE)
  expect_equal(as.matrix(max(v, "inner")), pmax(dense[[1]], dense[[2]]), ignore_attr = TRUE)
  expect_equal(as.matrix(min(v, "inner")), pmin(dense[[1]], dense[[2]]), ignore_attr = TRUE)
  expect_equal(as.matrix(argmax(v, "inner")), (dense[[2]] > dense[[1]]) + 1, ignore_attr = TRUE)
  expect_equal(as.matrix(max(Vi(matrix(0, 1, 2)) - Vj(matrix(1:2, 1)), "inner")), matrix(-1))
})

test_that("settings of a call reach it", {
  e <- lazy_example()
  each_backend(function(backend, precision) {
    expect_close(sum(exp(-e$D), "j"), cbind(rowSums(exp(-e$d))), tol(precision))
  })
  expect_equal(sum(e$D, "j", precision = "single"), sum(e$D, "j"), tolerance = 1e-6)
  expect_error(sum(e$D, "j", precision = "half"), class = "keops_error_input", regexp = "precision")
})

test_that("empty sides reduce to what nothing gives", {
  none <- matrix(0, 0, 2)
  some <- matrix(1, 3, 2)
  expect_identical(dim(sum(sqdist(Vi(none), Vj(some)), "j")), c(0L, 1L))
  D <- sqdist(Vi(some), Vj(none))
  expect_identical(as.vector(sum(D, "j")), c(0, 0, 0))
  expect_identical(as.vector(min(D, "j")), rep(Inf, 3))
  expect_identical(as.vector(argmin(D, "j")), rep(NA_integer_, 3))
  expect_identical(as.vector(logsumexp(D, "j")), rep(-Inf, 3))
  expect_identical(dim(as.matrix(D)), c(3L, 0L))
  expect_identical(dim(D %*% matrix(0, 0, 2)), c(3L, 2L))
})

test_that("na.rm leaves NaN out of sums and means; any and all of nothing are R's", {
  z <- c(1, NaN, 3, -2)
  K <- Vi(z) * Vj(1:3)
  Z <- outer(z, 1:3)
  expect_equal(sum(K, na.rm = TRUE), sum(Z, na.rm = TRUE))
  expect_equal(mean(K, na.rm = TRUE), mean(Z, na.rm = TRUE))
  expect_equal(as.vector(sum(K, "j", na.rm = TRUE)), rowSums(Z, na.rm = TRUE))
  expect_warning(expect_identical(c(any(Vi(numeric()) > 0), all(Vi(numeric()) > 0)), c(FALSE, TRUE)), NA)
})
