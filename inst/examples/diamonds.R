# Nadaraya-Watson regression of price on the 53,940 diamonds of ggplot2.
#
#   Rscript diamonds.R [folder for the picture]
#
# The estimate at a diamond is the mean of the log prices of all training diamonds, weighted by a Gaussian
# kernel of their distance in six scaled features:
#   m(x_i) = sum_j k(x_i, x_j) w_j y_j / sum_j k(x_i, x_j) w_j,   k = exp(-|x_i - x_j|^2 / 2),
# where w_j is 1 for training diamonds and 0 for the held-out fifth. It is computed at every diamond at once:
# a kernel of 53,940 x 53,940 pairs, 23 GB as a dense matrix, of which nothing is ever stored.

library(keops)
out_dir <- c(commandArgs(trailingOnly = TRUE), ".")[1L]
if (!requireNamespace("ggplot2", quietly = TRUE)) stop("the data set comes with package ggplot2: install it")
diamonds <- as.data.frame(ggplot2::diamonds)

# ---- data: log price, six features scaled to unit spread, a held-out fifth ----
set.seed(20)
n <- nrow(diamonds)
features <- with(diamonds, cbind(
  carat = log(carat), depth = depth, table = table,
  cut = as.integer(cut), color = as.integer(color), clarity = as.integer(clarity)
))
features <- scale(features)
y <- log(diamonds$price)
held_out <- sample(n, round(n / 5))
train <- setdiff(seq_len(n), held_out)

smooth <- keops_kernel(
  "Sum_Reduction(Exp(-SqDist(x, z) / 2) * b, 1)",
  c("x=Vi(6)", "z=Vj(6)", "b=Vj(2)")
)

# Estimates at rows `to` from rows `from` with weights w; NaN where no training row is near.
estimate <- function(to, from, w, bandwidth, ...) {
  x <- sweep(features[to, , drop = FALSE], 2, bandwidth, "/")
  z <- sweep(features[from, , drop = FALSE], 2, bandwidth, "/")
  s <- smooth(list(x, z, cbind(w * y[from], w)), ...)
  s[, 1] / s[, 2]
}

rmse <- function(error) sqrt(mean(error^2))

# ---- bandwidths: a coarse search, one feature after the other, on a subset of the training rows ----
fit_rows <- sample(train, 12000)
check_rows <- sample(setdiff(train, fit_rows), 3000)
score <- function(bandwidth) {
  error <- estimate(check_rows, fit_rows, 1, bandwidth) - y[check_rows]
  error[is.nan(error)] <- 1 # no neighbour: as bad as a factor e
  rmse(error)
}
started <- proc.time()[["elapsed"]]
bandwidth <- c(carat = 0.1, depth = 1, table = 1, cut = 0.5, color = 0.5, clarity = 0.5)
best <- score(bandwidth)
for (factor in c(2, sqrt(2))) {
  for (pass in 1:2) {
    for (k in names(bandwidth)) {
      for (step in c(1 / factor, factor)) {
        repeat {
          trial <- replace(bandwidth, k, bandwidth[[k]] * step)
          trial_score <- if (trial[[k]] < 20) score(trial) else Inf
          if (trial_score >= best) break
          bandwidth <- trial
          best <- trial_score
        }
      }
    }
  }
}
search_seconds <- proc.time()[["elapsed"]] - started

# ---- the job: all diamonds against all diamonds ----
w <- numeric(n)
w[train] <- 1
timed <- function(...) {
  started <- proc.time()[["elapsed"]]
  value <- estimate(seq_len(n), seq_len(n), w, bandwidth, ...)
  list(value = value, seconds = proc.time()[["elapsed"]] - started)
}
double <- timed(precision = "double")
single <- timed(precision = "single")

# ---- a rival: linear regression on the same features, with the grades as factors ----
linear <- lm(log(price) ~ log(carat) + depth + table + factor(cut, ordered = FALSE) +
               factor(color, ordered = FALSE) + factor(clarity, ordered = FALSE),
             data = diamonds[train, ])
linear_value <- predict(linear, diamonds)

fitted <- ifelse(is.nan(double$value), linear_value, double$value)
error <- fitted[held_out] - y[held_out]

# Highest memory use of this R process, in MB; NA where the system does not tell.
peak_memory <- function() {
  status <- "/proc/self/status"
  if (!file.exists(status)) return(NA_real_)
  line <- grep("^VmHWM", readLines(status), value = TRUE)
  as.numeric(gsub("[^0-9]", "", line)) / 1024
}

report <- function(label, ...) cat(format(label, width = 34L), ..., "\n", sep = "")
pairs <- as.numeric(n)^2
print(keops_info())
cat("\n")
report("diamonds", n, ", ", length(held_out), " of them held out")
report("kernel", n, " x ", n, " = ", format(pairs, digits = 3), " pairs; dense: ",
       sprintf("%.1f GB", pairs * 8 / 1e9))
report("bandwidths (in spreads)", paste(names(bandwidth), format(bandwidth, digits = 2), collapse = ", "))
report("  found by search in", sprintf("%.1f s", search_seconds))
report("time, double precision", sprintf("%.2f s, %.2e pairs per second", double$seconds, pairs / double$seconds))
report("time, single precision", sprintf("%.2f s, %.2e pairs per second", single$seconds, pairs / single$seconds))
report("single and double differ by", sprintf("%.1e", max(abs(single$value - double$value), na.rm = TRUE)))
report("peak memory of the whole session", sprintf("%.0f MB", peak_memory()))
report("held-out error of log price", sprintf("%.4f (root mean square)", rmse(error)))
report("  linear regression", sprintf("%.4f", rmse(linear_value[held_out] - y[held_out])))
report("  mean of the training prices", sprintf("%.4f", rmse(mean(y[train]) - y[held_out])))
report("held-out error of price", sprintf("%.0f dollars (median absolute), %.1f %%",
                                          median(abs(exp(fitted) - diamonds$price)[held_out]),
                                          100 * median(abs(exp(error) - 1))))
report("held-out rows with no neighbour", sum(is.nan(double$value[held_out])), " (linear regression there)")

# ---- picture: estimates against prices, and price along carat for three clarities ----
picture <- file.path(out_dir, if (capabilities("png")) "diamonds.png" else "diamonds.pdf")
if (capabilities("png")) png(picture, 1600, 800, res = 150) else pdf(picture, 10.7, 5.3)
par(mfrow = c(1, 2), mar = c(5, 5, 2.5, 1), mgp = c(3.6, 0.7, 0), las = 1)
ticks <- c(500, 1000, 2000, 5000, 10000, 20000)

plot(y[held_out], fitted[held_out], pch = 16, cex = 0.3, col = grDevices::adjustcolor("#20639b", 0.25),
     xaxt = "n", yaxt = "n", xlab = "price, dollars", ylab = "estimate, dollars",
     main = sprintf("%s held-out diamonds", format(length(held_out), big.mark = ",")))
axis(1, log(ticks), ticks)
axis(2, log(ticks), ticks, cex.axis = 0.8)
abline(0, 1, col = "#d1495b", lwd = 2)

some <- sample(n, 6000)
plot(log(diamonds$carat[some]), y[some], pch = 16, cex = 0.3, col = "grey75", xaxt = "n", yaxt = "n",
     xlab = "carat", ylab = "price, dollars", main = "Ideal cut, colour G")
carats <- c(0.25, 0.5, 1, 2, 4)
axis(1, log(carats), carats)
axis(2, log(ticks), ticks, cex.axis = 0.8)
centre <- attr(features, "scaled:center")
spread <- attr(features, "scaled:scale")
grid <- seq(log(0.25), log(2.2), length.out = 200)
clarities <- c(IF = "#20639b", VS2 = "#3caea3", I1 = "#d1495b")
for (clarity in names(clarities)) {
  point <- cbind(grid, median(diamonds$depth), median(diamonds$table), 5,
                 match("G", levels(diamonds$color)), match(clarity, levels(diamonds$clarity)))
  point <- scale(point, centre, spread)
  s <- smooth(list(sweep(point, 2, bandwidth, "/"), sweep(features, 2, bandwidth, "/"), cbind(w * y, w)))
  line <- s[, 1] / s[, 2]
  line[s[, 2] < 1] <- NA # fewer than about one diamond near
  lines(grid, line, col = clarities[[clarity]], lwd = 2.5)
}
legend("topleft", names(clarities), col = clarities, lwd = 2.5, title = "clarity", bty = "n")
invisible(dev.off())
report("picture", normalizePath(picture))
