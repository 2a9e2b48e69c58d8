# Kriging of many points by conjugate gradients: fit with given parameters, means and standard errors at new points; time and
# peak memory of the session.
#
#   Rscript bench/kriging.R [threads] [points]
#
# The truth is known, so the answers are checked: the error of the means against their standard errors.

library(keops)

arguments <- as.integer(commandArgs(trailingOnly = TRUE))
threads <- if (length(arguments) >= 1L) arguments[1L] else keops_info()$cores
n <- if (length(arguments) >= 2L) arguments[2L] else 20000L
options(keops.threads = threads)

# MB, of this process
peak <- function() as.numeric(gsub("[^0-9]", "", grep("VmHWM", readLines("/proc/self/status"), value = TRUE))) / 1024
timed <- function(what, code) {
  seconds <- system.time(code)[["elapsed"]]
  cat(sprintf("%-52s %8.2f s   peak memory %6.0f MB\n", what, seconds, peak()))
}

set.seed(1)
truth <- function(x) sin(9 * x[, 1]) * cos(7 * x[, 2]) + x[, 2]^2
noise <- 0.1
x <- matrix(runif(2 * n), n)
y <- truth(x) + rnorm(n, sd = noise)
new <- matrix(runif(2 * n), n)

cat(sprintf("%d points, %d threads; a dense covariance matrix would take %.0f MB; the session %.0f MB\n", n, threads, 8 * n^2 / 2^20, peak()))
timed("fit: trend and weights", {
  fit <- keops_gp(x, y, kernel = "matern52", range = 0.3, variance = 1, nugget = noise^2, solver = "cg")
})
cat(sprintf("  %d steps, relative residual %.1e\n", fit$solver$iterations, fit$solver$residual))
timed(sprintf("means at %d new points", n), {
  mean <- predict(fit, new)
})
timed("means and standard errors at 100 new points", {
  p <- predict(fit, new[1:100, ], se.fit = TRUE, type = "latent")
})
z <- (p$fit - truth(new[1:100, ])) / p$se.fit
cat(sprintf("error of the means: root mean square %.4f; in standard errors %.2f\n", sqrt(mean((mean - truth(new))^2)), sqrt(mean(z^2))))
stopifnot(all.equal(p$fit, mean[1:100]), sqrt(mean(z^2)) < 1.5)
