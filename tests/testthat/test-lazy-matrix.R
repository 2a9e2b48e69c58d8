square_example <- function() {
  set.seed(3)
  x <- matrix(rnorm(12), 6, 2, dimnames = list(letters[1:6], NULL))
  y <- matrix(rnorm(8), 4, 2, dimnames = list(LETTERS[1:4], NULL))
  lazy <- exp(-sqdist(Vi(x), Vj(y)))
  dense <- exp(-outer(rowSums(x^2), rowSums(y^2), "+") + 2 * x %*% t(y))
  dimnames(dense) <- list(letters[1:6], LETTERS[1:4])
  list(x = x, y = y, K = lazy, dense = dense)
}

test_that("L01: a kernel matrix can be looked at: entries, rows, products", {
  X <- matrix(c(0, 1, 2, 3), 2)
  Y <- rbind(c(0, 0), c(1, 1), c(2, 2))
  K <- exp(-sqdist(Vi(X), Vj(Y)) / 2)
  dense <- exp(-as.matrix(dist(rbind(X, Y)))[1:2, 3:5]^2 / 2)
  expect_equal(as.matrix(K), dense, ignore_attr = TRUE)
  expect_equal(K[1, ], unname(dense[1, ]))
  expect_equal(as.vector(K %*% 1:3), c(1.277100015, 1.381046837), tolerance = 1e-9)
  z <- matrix(0, 1e5, 1)
  expect_error(as.matrix(exp(-sqdist(Vi(z), Vj(z)))), class = "keops_error_input", regexp = "74.5 Gb")
  expect_error(as.matrix(K, limit = 5), class = "keops_error_input", regexp = "at most 5")
})

test_that("products are dense R's from both sides, for vectors, matrices and complex numbers", {
  e <- square_example()
  K <- e$K
  A <- e$dense
  B <- matrix(c(1, -1, 2, 0.5, 3, 1, 0, 2, -2, 1, 1, 1), 4, dimnames = list(NULL, c("u", "v", "w")))
  L <- matrix(seq(-1, 1, length.out = 18), 3)
  expect_equal(K %*% B, A %*% B)
  expect_equal(K %*% B[, 1], A %*% B[, 1])
  expect_equal(K %*% as.integer(c(1, 0, 2, 1)), A %*% c(1, 0, 2, 1))
  expect_equal(K %*% as.data.frame(B), A %*% B, ignore_attr = TRUE)
  expect_equal(t(K) %*% e$x, t(A) %*% e$x)
  expect_equal(L %*% K, L %*% A, ignore_attr = TRUE)
  expect_equal(1:6 %*% K, 1:6 %*% A)
  expect_equal(crossprod(K, e$x), crossprod(A, e$x))
  expect_equal(crossprod(e$x, K), crossprod(e$x, A))
  expect_equal(tcrossprod(K, t(B)), tcrossprod(A, t(B)), ignore_attr = TRUE)
  expect_equal(tcrossprod(L, t(K)), tcrossprod(L, t(A)), ignore_attr = TRUE)
  expect_equal(K %*% (B + 2i), A %*% (B + 2i))
  expect_equal(((1 + 2i) * K) %*% (B - 1i), ((1 + 2i) * A) %*% (B - 1i))
  expect_equal(((1 + 2i) * K) %*% B, ((1 + 2i) * A) %*% B)
  expect_equal(Vi(1:3) %*% matrix(1:2, 1), outer(1:3, 1:2) + 0)
  expect_equal(K %*% Vj(B), A %*% B, ignore_attr = TRUE)
  each_backend(function(backend, precision) expect_close(unname(K %*% B), unname(A %*% B), tol(precision)))
})

test_that("more columns than one pass takes are as many passes", {
  x <- c(0.1, 0.5, 0.9)
  B <- matrix(seq_len(3 * 1030) %% 7, 3)
  K <- Vi(x) * Vj(x)
  expect_equal(K %*% B, outer(x, x) %*% B)
})

test_that("operands that do not conform are an error with both sizes", {
  e <- square_example()
  expect_error(e$K %*% 1:3, class = "keops_error_dimension", regexp = "6 x 4 and a 3 x 1")
  expect_error(1:4 %*% e$K, class = "keops_error_dimension")
  expect_error(e$K %*% e$K, class = "keops_error_dimension", regexp = "6 x 4 and a 6 x 4")
  expect_error(e$K %*% letters[1:4], class = "keops_error_input")
  expect_error((Vi(e$x) - Vj(e$y)) %*% 1:4, class = "keops_error_input", regexp = "2 components")
})

test_that("transposition swaps what is i and j, also inside an expression", {
  e <- square_example()
  expect_equal(as.matrix(t(e$K)), t(e$dense))
  expect_equal(as.matrix(t(e$K) * Vj(1:6) + t(Vj(1:4))), t(e$dense) * rep(1:6, each = 4) + 1:4)
  expect_identical(t(t(e$K)), e$K)
  S <- Vi(e$x[, 1]) - 2 * Vj(e$x[, 1])
  expect_equal(as.matrix(S - t(S)), 3 * outer(e$x[, 1], e$x[, 1], "-"), ignore_attr = TRUE)
  expect_equal(dimnames(t(e$K)), rev(dimnames(e$dense)))
})

test_that("rows, columns and entries are taken as from a matrix", {
  e <- square_example()
  K <- e$K
  A <- e$dense
  expect_equal(K[2, ], A[2, ])
  expect_equal(K[2, , drop = FALSE], A[2, , drop = FALSE])
  expect_equal(K[, 3], A[, 3])
  expect_equal(K[c(5, 1, 5), -1], A[c(5, 1, 5), -1])
  expect_equal(K[c("f", "a"), "B"], A[c("f", "a"), "B"])
  expect_equal(K[c(TRUE, FALSE), c(FALSE, TRUE, TRUE, FALSE)], A[c(TRUE, FALSE), c(FALSE, TRUE, TRUE, FALSE)])
  expect_equal(K[3, 2], A[3, 2])
  expect_equal(K[[3, 2]], A[[3, 2]])
  expect_equal(K[c(1, 8, 24)], as.vector(A)[c(1, 8, 24)])
  expect_equal(K[cbind(c(1, 6, 2), c(4, 1, 2))], A[cbind(c(1, 6, 2), c(4, 1, 2))])
  expect_equal(K[integer(), ], A[integer(), ])
  expect_identical(K[], K)
  expect_equal(dim((Vi(e$x) - Vj(e$y))[1:2, ]), c(2L, 4L, 2L))
  expect_equal(as.array(Vi(e$x) - Vj(e$y))[, , 2], outer(e$x[, 2], e$y[, 2], "-"))
  expect_equal(as.vector(K), as.vector(A))
  expect_error(K[7, ], class = "keops_error_input", regexp = "1 to 6")
  expect_error(K["z", ], class = "keops_error_input", regexp = "\"z\"")
  expect_error(K[1, 1, 1], class = "keops_error_input")
  expect_error(K[K > 0], class = "keops_error_input", regexp = "lazy")
  expect_error(K[1, ] <- 0, class = "keops_error_input", regexp = "no stored entries")
})

test_that("sums and means of rows and columns, and the diagonal, are named vectors", {
  e <- square_example()
  expect_equal(rowSums(e$K), rowSums(e$dense))
  expect_equal(colSums(e$K), colSums(e$dense))
  expect_equal(rowMeans(e$K), rowMeans(e$dense))
  expect_equal(colMeans(e$K), colMeans(e$dense))
  expect_equal(diag(e$K), unname(diag(e$dense)))
  S <- sqdist(Vi(e$x), Vj(2 * e$x))
  expect_equal(diag(S), rowSums(e$x^2))
  expect_equal(diag(Vi(1:3) + 0 * Vj(1:5)), c(1, 2, 3))
  expect_error(rowSums(e$K, na.rm = TRUE), class = "keops_error_input")
  expect_error(diag(Vi(e$x)), class = "keops_error_input")
})

test_that("multiples of the identity are added, whichever way they are written", {
  e <- square_example()
  K <- exp(-sqdist(Vi(e$x), Vj(e$x)))
  A <- exp(-as.matrix(dist(e$x))^2)
  I <- keops_identity(6)
  b <- c(1, -2, 3, 0, 1, 2)
  two <- 2
  for (f in list(function(K, I) K + I, function(K, I) K + 0.5 * I, function(K, I) I * two + K, function(K, I) K - I / 4, function(K, I) K + I - 3 * (I * 2),
                 function(K, I) exp(K + I), function(K, I) K * I, function(K, I) I, function(K, I) 1 - I, function(K, I) t(K + 2 * t(I)))) {
    expect_equal(as.matrix(f(K, I)), f(A, diag(6)), ignore_attr = TRUE)
    expect_equal(f(K, I) %*% b, f(A, diag(6)) %*% b, ignore_attr = TRUE)
  }
  expect_equal(keops:::split_identity(keops:::lazy_node(K + 0.5 * I - I / 4))$factor, 0.25)
  expect_error(keops_identity(2.5), class = "keops_error_input")
})

test_that("products of lazy matrices act on vectors from right to left", {
  e <- square_example()
  K <- e$K
  A <- unname(e$dense)
  b <- c(1, -1, 2, 3, 0.5, 1)
  P <- K %*% t(K)
  expect_identical(dim(P), c(6L, 6L))
  expect_equal(P %*% b, A %*% t(A) %*% b, ignore_attr = TRUE)
  expect_equal(K %*% t(K) %*% K %*% 1:4, A %*% t(A) %*% A %*% 1:4, ignore_attr = TRUE)
  expect_equal(as.matrix(crossprod(K)), crossprod(A), ignore_attr = TRUE)
  expect_equal(as.matrix(tcrossprod(K)), tcrossprod(A), ignore_attr = TRUE)
  M <- exp(-sqdist(Vi(e$x), Vj(e$x)))
  D <- exp(-as.matrix(dist(e$x))^2)
  for (f in list(function(P, M) P + M, function(P, M) M - 2 * P, function(P, M) -P / 3 + M %*% M, function(P, M) t(M %*% P))) {
    expect_equal(f(P, M) %*% b, f(A %*% t(A), D) %*% b, ignore_attr = TRUE)
    expect_equal(as.matrix(f(P, M)), f(A %*% t(A), D), ignore_attr = TRUE)
    expect_equal(t(f(P, M)) %*% b, t(f(A %*% t(A), D)) %*% b, ignore_attr = TRUE)
  }
  expect_equal(rowSums(P), rowSums(A %*% t(A)), ignore_attr = TRUE)
  expect_equal(sum(P), sum(A %*% t(A)))
  expect_equal(P[2, 3:4], (A %*% t(A))[2, 3:4])
  expect_error(exp(P), class = "keops_error_input", regexp = "product of lazy matrices")
  expect_error(P * M, class = "keops_error_input")
  expect_error(P + 1, class = "keops_error_input")
  expect_error(diag(P), class = "keops_error_input")
})

test_that("blocks are bound by rows and columns", {
  e <- square_example()
  A <- unname(e$dense)
  expect_equal(as.matrix(cbind(e$K, 2 * e$K)), cbind(A, 2 * A), ignore_attr = TRUE)
  R <- rbind(e$K, e$K[1, 1] * e$K)
  expect_equal(R %*% 1:4, rbind(A, A[1, 1] * A) %*% 1:4, ignore_attr = TRUE)
  expect_equal(t(R) %*% 1:12, t(rbind(A, A[1, 1] * A)) %*% 1:12, ignore_attr = TRUE)
  expect_error(cbind(e$K, t(e$K)), class = "keops_error_dimension")
  expect_error(cbind(e$K, 1:6), class = "keops_error_input")
})

test_that("what needs a dense matrix gets one, or an error that says what to do", {
  e <- square_example()
  K <- exp(-sqdist(Vi(e$x), Vj(e$x)))
  expect_equal(apply(e$K, 1, max), apply(e$dense, 1, max))
  expect_equal(svd(e$K)$d, svd(e$dense)$d)
  expect_identical(max.col(e$K), max.col(e$dense))
  expect_error(chol(K), class = "keops_error_input", regexp = "solve\\(K, b\\)")
  expect_error(det(K), class = "keops_error_input")
  expect_error(qr(K), class = "keops_error_input")
})

test_that("block-sparse ranges restrict sums, products, entries, gradients and systems", {
  set.seed(12)
  x <- matrix(rnorm(16), 8)
  y <- matrix(rnorm(12), 6)
  keep <- matrix(c(TRUE, FALSE, TRUE, FALSE, TRUE, FALSE), 3)
  r <- keops_ranges(c(1, 1, 1, 2, 2, 3, 3, 3), c(1, 1, 1, 1, 2, 2), keep)
  mask <- keep[c(1, 1, 1, 2, 2, 3, 3, 3), c(1, 1, 1, 1, 2, 2)]
  K <- exp(-sqdist(Vi(x), Vj(y)))
  full <- as.matrix(K)
  A <- full * mask
  for (S in list(K * r, r * K)) {
    expect_equal(as.matrix(S), A)
    expect_equal(S %*% 1:6, A %*% 1:6)
    expect_equal(t(S) %*% 1:8, t(A) %*% 1:8)
    expect_equal(rowSums(S), rowSums(A))
    expect_equal(sum(2 * S), 2 * sum(A))
    expect_equal(diag(S), diag(A[1:6, ]))
    expect_equal(S[4:5, 3], A[4:5, 3])
    expect_equal(S[c(1, 20, 48)], A[c(1, 20, 48)])
  }
  expect_equal(as.vector(max(K, "j", ranges = r)), apply(ifelse(mask, full, -Inf), 1, max))
  expect_equal(as.vector(argmin(K, "i", ranges = r)), apply(ifelse(mask, full, Inf), 2, which.min))
  expect_equal(as.vector(logsumexp(K, "j", ranges = r)), log(rowSums(ifelse(mask, exp(full), 0))))
  masked_sum <- function(x) sum(as.matrix(exp(-sqdist(Vi(x), Vj(y)))) * mask)
  step <- replace(0 * x, 3, 1e-5)
  expect_equal(keops_grad(K * r, x)[3], (masked_sum(x + step) - masked_sum(x - step)) / 2e-5, tolerance = 1e-7)
  step <- replace(0 * y, 2, 1e-5)
  shifted <- function(y) sum(as.matrix(exp(-sqdist(Vi(x), Vj(y)))) * mask)
  expect_equal(keops_grad(K * r, y)[2], (shifted(y + step) - shifted(y - step)) / 2e-5, tolerance = 1e-7)

  blocks <- keops_ranges(c(1, 1, 1, 2, 2, 3, 3, 3), keep = diag(3) > 0)
  S <- exp(-sqdist(Vi(x), Vj(x))) * blocks
  D <- exp(-as.matrix(dist(x))^2) * outer(c(1, 1, 1, 2, 2, 3, 3, 3), c(1, 1, 1, 2, 2, 3, 3, 3), "==")
  for (precond in c("none", "nystrom", "pivchol")) {
    expect_equal(solve(S, 1:8, ridge = 0.1, tol = 1e-10, precond = precond), solve(D + 0.1 * diag(8), 1:8), ignore_attr = TRUE, tolerance = 1e-7)
  }
  expect_error(K * blocks, class = "keops_error_input", regexp = "8 x 8")
  other <- keops_ranges(c(1, 1, 1, 2, 2, 3, 3, 3), c(1, 1, 1, 1, 2, 2), !keep)
  expect_error(K * r + K * other, class = "keops_error_input", regexp = "different")
})

test_that("a product times a complex number is transposed, not conjugated", {
  x <- matrix(c(1, -1, 0.5, 2, 0, 3), 3)
  P <- (Vi(x) | Vj(x)) %*% (Vi(x) | Vj(x)) * (1 + 2i)
  Q <- tcrossprod(x) %*% tcrossprod(x) * (1 + 2i)
  expect_equal(as.matrix(t(P)), t(Q))
  expect_equal(t(P) %*% 1:3, t(Q) %*% 1:3)
})

test_that("single entries are taken by positions, logicals, negatives and pairs as from a matrix", {
  e <- square_example()
  K <- e$K
  A <- unname(e$dense)
  for (i in list(-1, c(-1, -1, -24), 0, c(0, 2, 0), c(TRUE, FALSE), A > 0.3, integer(), NULL, 2.7)) expect_equal(K[i], A[i])
  pairs <- cbind(c(0, 1, 2, 6), c(1, 0, 2, 4))
  expect_equal(K[pairs], A[pairs])
  expect_error(K[cbind(-1, 2)], class = "keops_error_input", regexp = "negative")
  expect_error(K[cbind(NA, 2)], class = "keops_error_input", regexp = "NA")
  expect_error(K[25], class = "keops_error_input", regexp = "1 to 24")
  expect_error(K[[1:2]], class = "keops_error_input", regexp = "one entry")
  expect_equal(K[NULL, ], e$dense[NULL, ])
  z <- matrix(0, 1e5, 1)
  expect_error(sqdist(Vi(z), Vj(z))[-1], class = "keops_error_input", regexp = "limit")
})

test_that("functions that take the entries of a matrix get them", {
  e <- square_example()
  K <- e$K
  A <- e$dense
  for (f in list(sort, order, median, quantile, function(x) rep(x, 2), function(x) c(x, 1), function(x) sapply(x, identity),
                 function(x) c(1, unlist(lapply(x, sqrt))))) expect_equal(f(K), f(A), ignore_attr = TRUE)
  for (f in list(as.array, as.integer, function(x) as.logical(x > 0.5), function(x) isSymmetric(crossprod(x)),
                 function(x) kronecker(x, diag(2)), function(x) outer(unname(as.array(x)), 1:2))) {
    expect_equal(f(K), f(A), ignore_attr = TRUE)
    expect_identical(dim(f(K)), dim(f(A)))
  }
  for (f in list(unique, aperm, duplicated, anyNA)) expect_equal(f(K), f(A), ignore_attr = TRUE)
  expect_equal(as.matrix(is.finite(1 / Vi(c(0, 2)) + Vj(c(1, NaN, Inf)))), is.finite(outer(1 / c(0, 2), c(1, NaN, Inf), "+")) + 0)
  expect_equal(sum(is.infinite(Vi(c(1, -Inf, Inf, NaN)))), 2)
  expect_true(all.equal(K, A))
  expect_equal(as.array(K), A)
  expect_equal(kronecker(K, diag(2)), kronecker(A, diag(2)), ignore_attr = TRUE)
  expect_match(all.equal(K, A + 1), "difference")
  for (f in list(function(K) { length(K) <- 3 }, function(K) { names(K) <- "a" }, function(K) { K$node <- 1 })) {
    expect_error(f(K), class = "keops_error_input", regexp = "no stored entries")
  }
  expect_identical(dim(K %*% matrix(0, 4, 0)), c(6L, 0L))
})
