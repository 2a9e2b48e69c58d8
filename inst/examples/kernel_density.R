# Gaussian kernel density of the Old Faithful eruptions, with a bandwidth chosen by leave-one-out likelihood.

library(keops)
x <- scale(as.matrix(faithful))
n <- nrow(x)

# log of the density at rows `to` from the points `from`, stable far away from all of them
log_density <- function(to, from, h) {
  as.vector(logsumexp(-sqdist(Vi(to), Vj(from)) / (2 * h^2), "j")) - log(nrow(from)) - ncol(from) * log(h * sqrt(2 * pi))
}

# the sum over all points but the point itself: its own term, exp(0), is taken out
leave_one_out <- function(h) {
  all <- rowSums(exp(-sqdist(Vi(x), Vj(x)) / (2 * h^2))) - 1
  sum(log(all / (n - 1))) - n * 2 * log(h * sqrt(2 * pi))
}

best <- optimize(leave_one_out, c(0.05, 1), maximum = TRUE) # each h is a number: one kernel for all of them
cat("bandwidth", format(best$maximum, digits = 4), "log likelihood", format(best$objective, digits = 6), "\n")

# the density integrates to 1
side <- seq(-5, 5, length.out = 150)
grid <- as.matrix(expand.grid(side, side))
mass <- sum(exp(log_density(grid, x, best$maximum))) * diff(side[1:2])^2
cat("mass on the grid:", format(mass), "\n")
stopifnot(abs(mass - 1) < 1e-3)
