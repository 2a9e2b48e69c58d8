test_that("densities of one column are those of stats::density's kernels", {
  set.seed(1)
  x <- draw(60, 1, -2, 2, 1 / 7)
  at <- draw(15, 1, -3, 3, 1 / 11)
  w <- runif(60)
  for (kernel in names(keops:::density_kernels)) {
    # a fine grid around, read off exactly at its nodes
    each_backend(function(backend, precision) {
      fit <- keops_kde(x, 0.4, kernel, w, at)
      a <- 0.4 * keops:::density_kernels[[kernel]]$width
      u <- outer(at[, 1], x[, 1], "-") / a
      k <- switch(kernel, gaussian = dnorm(u), epanechnikov = 0.75 * pmax(1 - u^2, 0), rectangular = 0.5 * (abs(u) < 1),
                  triangular = pmax(1 - abs(u), 0), biweight = 15 / 16 * pmax(1 - u^2, 0)^2) / a
      expect_equal(fit$estimate, drop(k %*% w) / sum(w), tolerance = 10 * tol(precision), label = paste(kernel, precision))
    }, backends = "interpreted")
    peer <- density(x[, 1], 0.4, kernel = kernel, n = 2^14)
    fit <- keops_kde(x, 0.4, kernel, at = peer$x[seq(1, 2^14, 512)])
    expect_lt(max(abs(fit$estimate - peer$y[seq(1, 2^14, 512)])), 0.02 * max(peer$y))
    # bw is the standard deviation, and the whole is one
    g <- seq(-3, 3, 0.001)
    one <- keops_kde(0, 0.7, kernel, at = g)$estimate
    if (kernel != "gaussian") expect_equal(c(sum(one), sum(one * g^2)) * 0.001, c(1, 0.49), tolerance = 2e-3)
  }
  expect_equal(keops_kde(faithful$eruptions)$bw, bw.nrd0(faithful$eruptions))
  expect_equal(keops_kde(faithful$eruptions, "SJ")$bw, bw.SJ(faithful$eruptions))
})

test_that("several columns have product kernels, Scott's bandwidth by default", {
  x <- as.matrix(faithful)
  fit <- keops_kde(faithful)
  bw <- apply(x, 2, sd) * nrow(x)^(-1 / 6)
  expect_equal(fit$bw, bw)
  dense <- sapply(1:5, function(i) mean(dnorm(x[, 1], x[i, 1], bw[1]) * dnorm(x[, 2], x[i, 2], bw[2])))
  expect_equal(unname(fit$estimate[1:5]), dense, tolerance = 1e-10)
  tri <- keops_kde(faithful, c(0.5, 6), "triangular")
  t1 <- function(d, a) pmax(1 - abs(d) / a, 0) / a
  expect_equal(tri$estimate[[3]], mean(t1(x[, 1] - x[3, 1], 0.5 * sqrt(6)) * t1(x[, 2] - x[3, 2], 6 * sqrt(6))), tolerance = 1e-10)
  expect_equal(predict(fit, faithful[2:1, 2:1]), c(`2` = dense[2], `1` = dense[1]), ignore_attr = TRUE)
  expect_identical(is.na(predict(fit, rbind(c(1, NA), c(2, 60)))), c(TRUE, FALSE))
  expect_error(keops_kde(faithful, "SJ"), class = "keops_error_input")
  for (bw in list(0, -1, 1:3, NA, "nosuch")) expect_error(keops_kde(faithful, bw), class = "keops_error_input")
  expect_error(keops_kde(1:3, weights = c(1, -1, 1)), "index 2", class = "keops_error_input")
  expect_error(keops_kde(c(1, NA)), class = "keops_error_input")
  expect_output(print(fit), "272 points in 2 dimensions")
})

test_that("local means and local lines are weighted least squares", {
  set.seed(2)
  d <- data.frame(a = runif(70), b = runif(70))
  d$z <- sin(5 * d$a) + d$b^2 + rnorm(70) / 10
  new <- data.frame(a = c(0.1, 0.5, 2), b = c(0.9, 0.4, -1))
  for (degree in 0:1) {
    fit <- keops_kreg(z ~ a + b, d, bw = c(0.2, 0.3), degree = degree)
    dense <- function(p) {
      w <- exp(-((d$a - p$a) / 0.2)^2 / 2 - ((d$b - p$b) / 0.3)^2 / 2)
      local <- lm(if (degree == 0) z ~ 1 else z ~ I(a - p$a) + I(b - p$b), d, weights = w / max(w))
      coef(local)[[1]]
    }
    expect_equal(unname(predict(fit, new[1:2, ])), c(dense(new[1, ]), dense(new[2, ])), tolerance = 1e-8)
    expect_equal(fitted(fit)[[7]], dense(d[7, ]), tolerance = 1e-8)
    expect_equal(residuals(fit), d$z - fitted(fit), ignore_attr = TRUE)
    expect_false(anyNA(predict(fit, data.frame(a = 1e6, b = -1e6))))
  }
  # a plane is its own local linear fit
  d$z <- 1 + 2 * d$a - 3 * d$b
  expect_equal(unname(fitted(keops_kreg(z ~ a + b, d, 0.3, 1))), d$z, tolerance = 1e-8)
  expect_equal(unname(predict(keops_kreg(z ~ a, data.frame(a = 1, z = 4), 1, 1), data.frame(a = 3))), 4)
  expect_output(print(fit), "local linear")
  for (bw in list(0, "SJ", c(1, 2, 3))) expect_error(keops_kreg(z ~ a + b, d, bw), class = "keops_error_input")
  expect_error(keops_kreg(z ~ a, d, 1, degree = 2), class = "keops_error_input")
  e <- expect_error(predict(fit, data.frame(a = 1)), class = "keops_error_input")
  expect_match(conditionMessage(e), "`b`")
})

test_that("T03: densities and nearest neighbours of 100,000 points take next to no memory", {
  grown <- peak_growth("set.seed(1); x <- matrix(runif(3e5), 1e5)", "
    fit <- keops_kde(x, bw = 0.1)
    near <- keops_knn(x, k = 1)
    i <- c(1, 500, 1e5)
    dense <- sapply(i, function(i) mean(exp(-colSums((t(x) - x[i, ])^2) / 0.02))) / (2 * pi * 0.01)^1.5
    apart <- sapply(i, function(i) sqrt(min(colSums((t(x) - x[i, ])^2)[-i])))
    stopifnot(all.equal(fit$estimate[i], dense), all.equal(near$nn.dist[i, 1], apart))
  ")
  expect_lt(grown, 200)
})
