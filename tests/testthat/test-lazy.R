test_that("data of all kinds of numbers make lazy matrices", {
  x <- matrix(c(1, 2, 3, 4, 5, 6), 3, 2, dimnames = list(c("a", "b", "c"), NULL))
  for (data in list(x, matrix(1:6, 3), as.data.frame(x))) {
    expect_equal(sum(Vi(data), "j"), x, ignore_attr = TRUE)
    expect_equal(sum(LazyTensor(data, "j"), "i"), x, ignore_attr = TRUE)
  }
  expect_equal(sum(Vi(c(TRUE, FALSE)), "j"), cbind(c(1, 0)))
  expect_equal(as.vector(sum(Pm(2L) * Vi(1:3), "j")), c(2, 4, 6))
  expect_equal(as.vector(sum(LazyTensor(c(1, 2), NA), "j")), c(1, 2))
  expect_equal(as.vector(sum(Vi(1:2, is_complex = TRUE), "j")), c(1 + 0i, 2 + 0i))
  expect_equal(as.vector(sum(Vi(matrix(c(0L, 50000L))) * Vi(matrix(c(0L, 50000L))), "j")), c(0, 2.5e9))
})

test_that("what is not numbers is refused by name", {
  for (bad in list(letters, factor(1:3), list(1, 2), NULL, sum, iris)) {
    expect_error(Vi(bad), class = "keops_error_input", regexp = "x")
  }
  expect_error(Vi(iris), "Species")
  expect_error(Pm("a"), class = "keops_error_input")
  expect_error(Pm(numeric()), class = "keops_error_input")
  expect_error(Vi(Vi(1:3)), class = "keops_error_input", regexp = "lazy matrix")
  expect_error(LazyTensor(1:3, "k"), class = "keops_error_input", regexp = "\"i\" or \"j\" or NA")
  expect_error(Vi(matrix(0, 3, 0)), class = "keops_error_input", regexp = "without columns")
  expect_error(Vi(array(0, c(2, 2, 2))), class = "keops_error_input")
  expect_error(Vi(1:3) + "a", class = "keops_error_input")
})

test_that("L02: dim is rows and columns at every step, components are counted apart", {
  x <- matrix(0, 4, 3)
  y <- matrix(1, 5, 3)
  steps <- list(Vi(x) - Vj(y), (Vi(x) - Vj(y))^2, sum((Vi(x) - Vj(y))^2, "inner"), exp(-sum((Vi(x) - Vj(y))^2, "inner")))
  for (K in steps) {
    expect_identical(dim(K), c(4L, 5L))
    expect_identical(c(nrow(K), ncol(K), length(dim(K)), length(K)), c(4L, 5L, 2L, 20L))
    expect_identical(dim(t(K)), c(5L, 4L))
  }
  expect_identical(vapply(steps, keops_inner_dim, 0L), c(3L, 3L, 1L, 1L))
  expect_identical(dim(steps[[4]] %*% rep(1, 5)), c(4L, 1L))
  expect_identical(dim(steps[[4]] %*% matrix(1, 5, 2)), c(4L, 2L))
  expect_identical(dim(Vi(x)), c(4L, 1L))
  expect_identical(dim(Vj(y)), c(1L, 5L))
  expect_identical(dim(Pm(1)), c(1L, 1L))
})

test_that("L01: print shows size, formula and that nothing is computed", {
  X <- matrix(c(0, 1, 2, 3), 2)
  Y <- rbind(c(0, 0), c(1, 1), c(2, 2))
  K <- exp(-sqdist(Vi(X), Vj(Y)) / 2)
  out <- capture.output(print(K))
  expect_match(out[1], "2 x 3.*not computed")
  expect_match(out[2], "Exp((Minus(SqDist(x0,y1))/p2))", fixed = TRUE)
  expect_lt(length(out), 13)
  expect_identical(capture.output(K), out)
  expect_identical(capture.output(str(K)), out)
  expect_match(capture.output(print(Vi(X) - Vj(Y)))[1], "entries of 2 components")
  expect_match(capture.output(print(K %*% t(K)))[1], "2 x 2.*product")
})

test_that("lazy matrices survive being saved", {
  x <- matrix(c(0.3, 0.7, 1.9), 3)
  K <- exp(-sqdist(Vi(x), Vj(x)))
  file <- tempfile()
  on.exit(unlink(file))
  saveRDS(list(K, K %*% K), file)
  again <- readRDS(file)
  expect_identical(again[[1]] %*% 1:3, K %*% 1:3)
  expect_identical((again[[1]] + K) %*% 1:3, (K + K) %*% 1:3)
  expect_identical(again[[2]] %*% 1:3, K %*% K %*% 1:3)
  expect_child(c("library(keops)", sprintf("K <- readRDS(%s)[[1]]", deparse(file)),
                 sprintf("stopifnot(all.equal(as.vector(K %%*%% 1:3), %s))", paste(deparse(as.vector(K %*% 1:3), control = "digits17"), collapse = ""))))
})

test_that("predicates tell kinds apart", {
  expect_true(is.LazyTensor(Vi(1:3)))
  expect_false(is.LazyTensor(1:3))
  expect_true(is.LazyMatrix(Vi(1:3)))
  expect_false(is.LazyMatrix(Pm(1:3)))
  expect_true(is.LazyVector(Pm(1:3)))
  expect_true(is.LazyParameter(Pm(1)))
  expect_false(is.LazyParameter(Pm(1:3)))
  expect_true(is.ComplexLazyTensor(Pm(1i)))
  expect_false(is.ComplexLazyTensor(Pm(1)))
})
