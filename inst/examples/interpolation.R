# Kernel interpolation: ridge regression with a Gaussian kernel on 3,000 points, by conjugate gradients.
#
# The weights a solve (K + lambda I) a = y with K_ij = exp(-|x_i - x_j|^2 / (2 s^2)), which is never stored. The
# curve at new points is K(new, x) a.

library(keops)
set.seed(1)
n <- 3000
x <- runif(n)
signal <- function(t) sin(6 * pi * t) * t + 0.5
y <- signal(x) + 0.1 * rnorm(n)

s <- 0.05
lambda <- 0.5
kernel <- function(a, b) exp(-sqdist(Vi(a), Vj(b)) / (2 * s^2))

K <- kernel(x, x)
a <- solve(K, y, ridge = lambda)
cat("solved in", attr(a, "iterations"), "products, relative residual", format(attr(a, "residual")), "\n")

new <- seq(0.02, 0.98, length.out = 200)
curve <- as.vector(kernel(new, x) %*% a)
error <- sqrt(mean((curve - signal(new))^2))
cat("root mean square distance to the signal:", format(error), "\n")
stopifnot(attr(a, "converged"), error < 0.05)
