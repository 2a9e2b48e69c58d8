# Gaussian processes by conjugate gradients: the same fits as the dense path makes.

both_ways <- function(...) lapply(c(dense = "cholesky", cg = "cg"), function(solver) keops_gp(..., solver = solver))

set.seed(11)
cg_x <- cbind(a = runif(120), b = runif(120))
cg_y <- sin(6 * cg_x[, 1]) + cg_x[, 2]^2 + rnorm(120, sd = 0.1)
cg_new <- cbind(a = runif(9), b = runif(9))

test_that("both solvers agree for every kernel, with trend, nugget and known noise", {
  kernels <- list(
    cov_gaussian(0.3, 1), cov_exponential(0.3, 1), cov_matern(1.5, 0.3, 1), cov_matern(2.5, 0.3, 1), cov_spherical(0.5, 1),
    cov_rational_quadratic(0.3, 1, alpha = 0.7), cov_periodic(1, 0.7, 1), cov_periodic(1, c(0.5, 0.9), 1, ard = TRUE), cov_linear(1),
    cov_gaussian(c(0.2, 0.4), 1, ard = TRUE), cov_matern(1.5, 0.3, 1, form = "product"), cov_spherical(c(0.5, 0.6), 1, ard = TRUE, form = "product"),
    cov_rational_quadratic(c(0.2, 0.4), 1, alpha = 0.7, ard = TRUE, form = "product"),
    2 * cov_gaussian(0.3, 1) * cov_linear(1) + cov_exponential(1, 0.5),
    cov_formula("Exp(-Norm2(x-y)/a)*(1+Exp(-a))", a = 0.3, variance = 1.3), # `a` is no part of `Exp`
    cov_formula("1", variance = 2) + cov_formula("Exp(-a*SqDist(x,y))", a = 3, variance = 1) * cov_formula("Exp(-SqDist(x*a,y*a))", a = c(1, 3))
  )
  h <- cbind(one = 1, b = cg_x[, 2])
  h_new <- cbind(one = 1, b = cg_new[, 2])
  for (kernel in kernels) {
    fits <- both_ways(cg_x, cg_y, trend = h, kernel = kernel, nugget = 0.01, noise = seq_along(cg_y) / 1e4)
    said <- lapply(fits, predict, cg_new, trend = h_new, se.fit = TRUE, type = "latent", cov = TRUE)
    expect_equal(said$cg, said$dense, tolerance = 1e-7, label = format(kernel))
    simple <- lapply(fits, predict, cg_new, trend = h_new, se.fit = TRUE, kriging = "SK")
    expect_equal(simple$cg, simple$dense, tolerance = 1e-7, label = format(kernel))
    for (get in list(coef, vcov, fitted, residuals)) expect_equal(get(fits$cg), get(fits$dense), tolerance = 1e-7, label = format(kernel))
    expect_identical(fits$cg$solver$type, "cg")
    expect_lt(fits$cg$solver$residual, 1e-7)
  }
})

test_that("both solvers agree without preconditioning, and in blocks of new points", {
  control <- keops_gp_control(cg_rank = 3)
  fits <- both_ways(cg_x, cg_y + 1e6, kernel = "matern32", range = 0.3, variance = 1, nugget = 1e-3, control = control)
  expect_gt(fits$cg$solver$iterations, 20)
  expect_identical(fits$cg$solver$rank, 3L)
  expect_lt(max(abs(predict(fits$cg, cg_new) - predict(fits$dense, cg_new))), 1e-6 * sd(cg_y)) # the mean of 1e6 costs nothing
  ns <- asNamespace("keops")
  old <- get("cg_entries", ns)
  unlockBinding("cg_entries", ns)
  on.exit({ assign("cg_entries", old, ns); lockBinding("cg_entries", ns) })
  assign("cg_entries", 480, ns) # four points a block
  interval <- lapply(fits, predict, cg_new, interval = "prediction", se.fit = TRUE, cov = TRUE)
  expect_equal(interval$cg$se.fit, interval$dense$se.fit, tolerance = 1e-7)
  expect_equal(interval$cg$cov, interval$dense$cov, tolerance = 1e-7)
  expect_equal(interval$cg$fit, interval$dense$fit, tolerance = 1e-10)
})

test_that("3000 points: dense and iterative predictions and standard errors agree to 1e-6 of sd(y)", {
  set.seed(12)
  n <- 3000
  x <- matrix(runif(2 * n), n)
  y <- sin(9 * x[, 1]) * cos(7 * x[, 2]) + rnorm(n, sd = sqrt(1e-3))
  new <- matrix(runif(16), 8)
  fits <- both_ways(x, y, kernel = "matern52", range = 0.2, variance = 1, nugget = 1e-3)
  said <- lapply(fits, predict, new, se.fit = TRUE, type = "latent")
  expect_lt(max(abs(said$cg$fit - said$dense$fit)), 1e-6 * sd(y))
  expect_lt(max(abs(said$cg$se.fit - said$dense$se.fit)), 1e-6 * sd(y))
  expect_lt(max(abs(coef(fits$cg) - coef(fits$dense))), 1e-6 * sd(y))
  expect_lt(max(abs(fitted(fits$cg) - fitted(fits$dense))), 1e-6 * sd(y))
})

test_that("above the dense limit parameters are estimated on a subset drawn once", {
  d <- data.frame(cg_x, z = cg_y, g = factor(c(rep(c("u", "v"), 59), "u", "rare")))
  set.seed(13)
  fit <- keops_gp(z ~ a + b, d, trend = ~ g, control = keops_gp_control(dense_max = 100, subset = 60))
  expect_identical(fit$solver$type, "cg")
  rows <- fit$optim$rows
  expect_length(rows, 60)
  set.seed(13)
  expect_identical(sort(sample.int(120, 60)), rows)
  expect_output(print(fit), "estimated on 60 of 120 rows")
  expect_lte(length(capture.output(print(fit))), 12)
  # the estimates are those of these rows (bounds and starts are of all rows), whatever levels are left there
  part <- keops_gp(z ~ a + b, droplevels(d[rows, ]), trend = if (nlevels(droplevels(d$g[rows])) > 1) ~ g else ~ 1)
  expect_equal(coef(fit, "kernel"), coef(part, "kernel"), tolerance = 1e-3)
  # the rest is of all rows
  fixed <- keops_gp(z ~ a + b, d, trend = ~ g, range = fit$range, variance = fit$variance, nugget = fit$nugget)
  expect_identical(fixed$solver$type, "cholesky")
  expect_equal(predict(fit, d[1:5, ], se.fit = TRUE)$se.fit, predict(fixed, d[1:5, ], se.fit = TRUE)$se.fit, tolerance = 1e-7)
  expect_equal(coef(fit), coef(fixed), tolerance = 1e-7)
  expect_identical(attr(logLik(fixed), "df") + 3L, fit$df)
  # given parameters draw nothing
  set.seed(13)
  keops_gp(cg_x, cg_y, range = 1, variance = 1, nugget = 1, solver = "cg", control = keops_gp_control(subset = 60))
  now <- runif(1)
  set.seed(13)
  expect_identical(runif(1), now)
  whole <- suppressWarnings(keops_gp(cg_x, cg_y, solver = "cg"))
  expect_identical(whole$optim$rows, 1:120)
  expect_equal(coef(whole, "kernel"), coef(suppressWarnings(keops_gp(cg_x, cg_y)), "kernel"))
})

test_that("what needs a dense factor is an error that names the size", {
  fit <- keops_gp(cg_x, cg_y, range = 0.3, variance = 1, nugget = 0.01, solver = "cg")
  for (f in list(logLik, AIC, BIC, function(m) residuals(m, "loo"), function(m) residuals(m, "standardized"), plot)) {
    e <- expect_error(f(fit), class = "keops_error_input")
    expect_match(conditionMessage(e), "`object`: found a fit of 120 rows by conjugate gradients; expected a dense fit.*120 x 120 matrix.*GB")
  }
  expect_identical(fit$loglik, NA_real_)
  expect_output(print(fit), "solver:  cg, [0-9]+ steps, residual")
  expect_output(print(summary(fit)), "Trend:")
  expect_no_match(capture.output(print(summary(fit))), "AIC|leave-one-out")
  expect_identical(nobs(fit), 120L)
  expect_identical(update(fit, solver = "cholesky")$solver$type, "cholesky")
  file <- tempfile()
  saveRDS(fit, file)
  expect_identical(predict(readRDS(file), cg_new), predict(fit, cg_new))
  expect_error(keops_gp(cg_x, cg_y, solver = "qr"), class = "keops_error_input")
  for (bad in list(list(subset = 1), list(cg_tol = 0), list(cg_maxit = 0), list(cg_rank = 0.5))) {
    expect_error(do.call(keops_gp_control, bad), class = "keops_error_input")
  }
  large <- keops_gp(cg_x, cg_y, range = 0.3, variance = 1, nugget = 0.01, solver = "cg", control = keops_gp_control(dense_max = 50))
  e <- expect_error(simulate(large), class = "keops_error_input")
  expect_match(conditionMessage(e), "120 points, the data.*at most 50")
  expect_identical(dim(simulate(large, 2, newdata = cg_new)), c(9L, 2L))
  e <- expect_error(keops_gp(cg_x, cg_y, kernel = cov_formula("-SqDist(x,y)", variance = 1), nugget = 0.1, solver = "cg"), class = "keops_error_singular")
  expect_match(conditionMessage(e), "not positive definite.*nearest rows")
  expect_length(e$rows, 2)
})

test_that("degenerate data have their answer by conjugate gradients, too", {
  flat <- keops_gp(cg_x, rep(3, 120), solver = "cg")
  expect_equal(predict(flat, cg_new, se.fit = TRUE)[c("fit", "se.fit")], list(fit = rep(3, 9), se.fit = rep(0, 9)))
  expect_equal(unname(vcov(flat)), matrix(0))
  one <- keops_gp(matrix(c(1, 2), 1), 5, range = 1, variance = 1, nugget = 0.1, solver = "cg")
  expect_equal(predict(one, matrix(c(1, 2), 1)), 5)
  known <- both_ways(1, 2, mean = 0, range = 1, variance = 1, nugget = 0)
  expect_equal(predict(known$cg, c(1, 2), se.fit = TRUE), predict(known$dense, c(1, 2), se.fit = TRUE))
  expect_length(predict(one, matrix(0, 0, 2)), 0)
  expect_length(predict(one, matrix(0, 0, 2), se.fit = TRUE)$se.fit, 0)
  # the session's precision does not matter
  fits <- with_options(list(keops.precision = "single"), both_ways(cg_x, cg_y, range = 0.3, variance = 1, nugget = 0.01))
  said <- with_options(list(keops.precision = "single"), lapply(fits, predict, cg_new, se.fit = TRUE))
  expect_equal(said$cg, said$dense, tolerance = 1e-7)
})

test_that("a fit of 12,000 points takes memory that grows with n", {
  grown <- peak_growth("
    set.seed(1)
    x <- matrix(runif(24000), 12000)
    y <- sin(9 * x[, 1]) + rnorm(12000) / 10
  ", "
    fit <- keops_gp(x, y, kernel = 'gaussian', range = 0.3, variance = 1, nugget = 0.01)
    p <- predict(fit, x[1:40, ], se.fit = TRUE)
    stopifnot(fit$solver$type == 'cg', max(abs(p$fit - sin(9 * x[1:40, 1]))) < 0.1)
  ")
  expect_lt(grown, 400) # the matrix has 1152
})
