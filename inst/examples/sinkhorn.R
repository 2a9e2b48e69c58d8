# Optimal transport between two clouds of 1,500 points by Sinkhorn's iteration in the log domain.
#
# Dual potentials f, g solve f_i = -eps log sum_j w_j exp((g_j - C_ij) / eps), g_j likewise, with the cost
# C_ij = |x_i - y_j|^2 / 2. Each half step is one logsumexp() over a lazy matrix.

library(keops)
set.seed(4)
n <- 1500
x <- matrix(rnorm(2 * n, sd = 0.2), n)
shift <- c(1, 0.5)
y <- matrix(rnorm(2 * n, sd = 0.2), n) + rep(shift, each = n)
C <- sqdist(Vi(x), Vj(y)) / 2
eps <- 0.05

soft_min <- function(potential, index) -eps * as.vector(logsumexp((potential - C) / eps, index)) + eps * log(n)
f <- g <- numeric(n)
for (step in 1:200) {
  f <- soft_min(Vj(g), "j")
  before <- g
  g <- soft_min(Vi(f), "i")
  if (max(abs(g - before)) < 1e-6) break
}
plan <- exp((Vi(f) + Vj(g) - C) / eps) / n^2 # the transport plan, not stored
cost <- sum(plan * C)
moved <- n * (plan %*% y) # where each point goes on average
cat("steps:", step, " transport cost:", format(cost), " marginal error:", format(max(abs(rowSums(plan) * n - 1))), "\n")
cat("mean displacement:", format(colMeans(moved - x), digits = 3), "\n")
stopifnot(max(abs(rowSums(plan) * n - 1)) < 1e-2, max(abs(colMeans(moved - x) - (colMeans(y) - colMeans(x)))) < 1e-2)
