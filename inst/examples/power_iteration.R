# Kernel principal components by power iteration: largest eigenvalues of a centred kernel matrix of 2,000 points.

library(keops)
set.seed(5)
n <- 2000
angle <- runif(n, 0, 2 * pi)
radius <- rep(c(1, 3), each = n / 2)
x <- cbind(radius * cos(angle), radius * sin(angle)) + 0.1 * rnorm(2 * n)
K <- exp(-sqdist(Vi(x), Vj(x)) / 2)

# H K H v with H = I - 1 1' / n: all columns of v in one pass
centred <- function(v) {
  v <- K %*% sweep(v, 2, colMeans(v))
  sweep(v, 2, colMeans(v))
}

# a block of vectors, made orthonormal again after each product
v <- qr.Q(qr(matrix(rnorm(n * 8), n)))
for (step in 1:100) {
  w <- centred(v)
  value <- colSums(v * w)
  residual <- sqrt(colSums((w - v * rep(value, each = n))^2)) / value[1]
  v <- qr.Q(qr(w))
  if (max(residual[1:3]) < 1e-4) break
}
cat("steps:", step, " eigenvalues:", format(value[1:3], digits = 5), "\n")

# an iterative eigenvalue solver takes the product as it is
if (requireNamespace("RSpectra", quietly = TRUE)) {
  e <- RSpectra::eigs_sym(function(v, args) as.vector(centred(cbind(v))), 3, n = n)
  stopifnot(all.equal(e$values, value[1:3], tolerance = 1e-3))
}
small <- seq(1, n, length.out = 100) # the residual is that of the true matrix
stopifnot(all.equal((K %*% v)[small, 1], as.vector(K[small, ] %*% v[, 1])), max(residual[1:3]) < 1e-2)
