# Kriging by its textbook formulas, with solve() and determinant(): all that a fit with these parameters should say.
dense_kriging <- function(k, x, y, trend, noise, x_new, trend_new, reml = FALSE) {
  v <- k(x, x) + diag(noise, nrow(x))
  w <- solve(v)
  p <- ncol(trend)
  info <- t(trend) %*% w %*% trend
  beta <- if (p > 0) solve(info, t(trend) %*% w %*% y) else numeric()
  e <- y - if (p > 0) trend %*% beta else 0
  cross <- k(x_new, x)
  miss <- t(trend_new) - t(trend) %*% w %*% t(cross)
  known <- diag(k(x_new, x_new)) - rowSums((cross %*% w) * cross)
  n <- nrow(x) - if (reml) p else 0
  list(
    beta = drop(beta), mean = drop((if (p > 0) trend_new %*% beta else 0) + cross %*% w %*% e),
    sk = known, uk = known + if (p > 0) colSums(miss * solve(info, miss)) else 0,
    loglik = -0.5 * (n * log(2 * pi) + determinant(v)$modulus + sum(e * (w %*% e)) + if (reml) determinant(info)$modulus else 0)
  )
}
distances <- function(x, y) sqrt(Reduce(`+`, lapply(seq_len(ncol(x)), function(k) outer(x[, k], y[, k], "-")^2)))
rbf <- function(l, v = 1) function(x, y) v * exp(-distances(x, y)^2 / (2 * l^2))

set.seed(1)
gp_x <- cbind(a = runif(50), b = runif(50))
gp_y <- sin(6 * gp_x[, 1]) + gp_x[, 2]^2 + rnorm(50, sd = 0.1)
gp_new <- cbind(a = runif(8), b = runif(8))

# The correlation of every kernel, written out.
plain_kernels <- list(
  gaussian = list(cov_gaussian(0.3, 1.3), function(h) exp(-h^2 / (2 * 0.3^2))),
  exponential = list(cov_exponential(0.3, 1.3), function(h) exp(-h / 0.3)),
  matern12 = list(cov_matern(0.5, 0.3, 1.3), function(h) exp(-h / 0.3)),
  matern32 = list(cov_matern(1.5, 0.3, 1.3), function(h) (1 + sqrt(3) * h / 0.3) * exp(-sqrt(3) * h / 0.3)),
  matern52 = list(cov_matern(2.5, 0.3, 1.3), function(h) (1 + sqrt(5) * h / 0.3 + 5 * h^2 / (3 * 0.3^2)) * exp(-sqrt(5) * h / 0.3)),
  spherical = list(cov_spherical(0.6, 1.3), function(h) ifelse(h < 0.6, 1 - 1.5 * h / 0.6 + 0.5 * (h / 0.6)^3, 0)),
  rq = list(cov_rational_quadratic(0.3, 1.3, alpha = 0.7), function(h) (1 + h^2 / (2 * 0.7 * 0.3^2))^-0.7),
  formula = list(cov_formula("Exp(-Norm2(x-y)/a)", a = 0.3, variance = 1.3), function(h) exp(-h / 0.3))
)

test_that("every kernel's likelihood, trend, mean and variance are those of dense R", {
  trend <- cbind(1, gp_x[, "b"])
  trend_new <- cbind(1, gp_new[, "b"])
  for (name in names(plain_kernels)) {
    k <- function(x, y) 1.3 * plain_kernels[[name]][[2]](distances(x, y))
    for (reml in c(FALSE, TRUE)) {
      fit <- keops_gp(gp_x, gp_y, trend = trend, kernel = plain_kernels[[name]][[1]], nugget = 0.02, method = if (reml) "REML" else "ML")
      ref <- dense_kriging(k, gp_x, gp_y, trend, 0.02, gp_new, trend_new, reml)
      expect_equal(unname(coef(fit)), ref$beta, tolerance = 1e-8, label = name)
      expect_equal(as.numeric(logLik(fit)), as.numeric(ref$loglik), tolerance = 1e-8, label = name)
    }
    uk <- predict(fit, gp_new, se.fit = TRUE, trend = trend_new)
    expect_equal(uk$fit, ref$mean, tolerance = 1e-8, label = name)
    expect_equal(uk$se.fit^2, ref$uk + 0.02, tolerance = 1e-8, label = name)
    sk <- predict(fit, gp_new, se.fit = TRUE, trend = trend_new, kriging = "SK", type = "latent")
    expect_equal(sk$se.fit^2, ref$sk, tolerance = 1e-8, label = name)
  }
})

test_that("product forms, ranges by column, periodic and linear kernels are their formulas", {
  value <- function(kernel, x = gp_x, y = gp_new) {
    laid <- keops:::lay_out(kernel, colnames(x), NULL)
    keops:::cov_matrix(laid$node, x, y, laid$table$value)
  }
  d <- lapply(1:2, function(k) abs(outer(gp_x[, k], gp_new[, k], "-")))
  m32 <- function(u) (1 + sqrt(3) * u) * exp(-sqrt(3) * u)
  expect_equal(value(cov_matern(1.5, 0.3, 2, form = "product")), 2 * m32(d[[1]] / 0.3) * m32(d[[2]] / 0.3))
  expect_equal(value(cov_matern(1.5, c(0.3, 0.8), 2, ard = TRUE, form = "product")), 2 * m32(d[[1]] / 0.3) * m32(d[[2]] / 0.8))
  expect_equal(value(cov_matern(1.5, c(0.3, 0.8), 2, ard = TRUE)), 2 * m32(sqrt((d[[1]] / 0.3)^2 + (d[[2]] / 0.8)^2)))
  expect_equal(value(cov_periodic(0.7, c(0.5, 0.9), 2, ard = TRUE)),
               2 * exp(-2 * (sin(pi * d[[1]] / 0.5)^2 + sin(pi * d[[2]] / 0.9)^2) / 0.7^2))
  expect_equal(value(cov_linear(3)), 3 * gp_x %*% t(gp_new))
  expect_equal(value(2 * cov_gaussian(0.3, 1) * cov_linear(1) + cov_exponential(1, 0.5)),
               2 * exp(-distances(gp_x, gp_new)^2 / 0.18) * (gp_x %*% t(gp_new)) + 0.5 * exp(-distances(gp_x, gp_new)))
  # G07: the periodic kernel's values
  expect_equal(value(cov_periodic(1, 1, 1), cbind(x = 0), cbind(c(0, .5, 1, 1.5)))[1, ], c(1, 0.1353352832, 1, 0.1353352832), tolerance = 1e-9)
  # the diagonal is that of the matrix
  for (kernel in list(cov_linear(3) * cov_gaussian(1, 2) + 2 * cov_periodic(1, 1, 1), cov_formula("(x|y)+a", a = 1, variance = 2))) {
    laid <- keops:::lay_out(kernel, colnames(gp_x), NULL)
    expect_equal(keops:::cov_diagonal(laid$node, gp_x, laid$table$value), diag(value(kernel, gp_x, gp_x)))
  }
})

test_that("gradients of the likelihood in every parameter are differences of it", {
  kernels <- list(
    cov_gaussian(), cov_exponential(), cov_matern(1.5), cov_matern(2.5), cov_rational_quadratic(), cov_periodic(), cov_linear(),
    cov_spherical(), cov_gaussian(form = "product"), cov_matern(1.5, ard = TRUE), cov_exponential(ard = TRUE, form = "product"),
    cov_rational_quadratic(form = "product"), cov_gaussian(ard = TRUE) + cov_linear() * cov_matern(2.5), 2 * cov_periodic() * cov_gaussian(),
    cov_formula("Exp(-Norm2(x-y)/range)*(1+c*(x|y))", range = NULL, c = NULL)
  )
  x <- rbind(gp_x, gp_x[1:2, ]) # with coinciding points
  y <- c(gp_y, gp_y[1:2] + 0.1)
  for (kernel in kernels) {
    for (method in c("ML", "REML")) {
      laid <- keops:::lay_out(kernel, colnames(x), NULL)
      problem <- list(x = x, y = y, trend = cbind(1, x[, 1]^2), node = laid$node, noise = seq_along(y) / 1e3, method = method)
      kinds <- c(laid$table$kind, "nugget")
      par <- c(range = 0.4, variance = 1.2, alpha = 0.8, period = 0.7, formula = 0.6, nugget = 0.05)[kinds] * (1 + seq_along(kinds) / 50)
      f <- function(p) keops:::dense_loglik(problem, keops:::dense_state(problem, exp(p)))
      slope <- keops:::dense_gradient(problem, keops:::dense_state(problem, par), par)
      for (k in seq_along(par)) {
        h <- replace(numeric(length(par)), k, 1e-5)
        expect_equal(slope[k], (f(log(par) + h) - f(log(par) - h)) / 2e-5, tolerance = 1e-6, ignore_attr = TRUE,
                     label = paste(format(kernel), method, k))
      }
    }
  }
})

test_that("G06: the gradient is there at every size", {
  set.seed(2)
  for (n in c(461, 462, 801)) {
    x <- cbind(runif(n), runif(n))
    laid <- keops:::lay_out(cov_matern(2.5), c("a", "b"), NULL)
    problem <- list(x = x, y = sin(6 * x[, 1]) + rnorm(n) / 5, trend = matrix(1, n), node = laid$node, noise = 0, method = "ML")
    par <- c(1, 0.3, 0.04)
    slope <- keops:::dense_gradient(problem, keops:::dense_state(problem, par), par)
    f <- function(p) keops:::dense_loglik(problem, keops:::dense_state(problem, exp(p)))
    h <- 1e-4 * c(0.3, -1, 0.7)
    expect_equal(sum(slope * h) * 2, f(log(par) + h) - f(log(par) - h), tolerance = 1e-5)
    expect_true(all(slope != 0))
  }
})

test_that("meuse: the numbers of gstat and geoR", {
  skip_if_not_installed("sp")
  meuse <- NULL
  data(meuse, package = "sp", envir = environment())
  data(meuse.grid, package = "sp", envir = environment())
  fit <- keops_gp(log(zinc) ~ x + y, meuse, kernel = "exponential", range = 300, variance = 0.5, nugget = 0.05)
  expect_equal(coef(fit)[[1]], 6.008153104, tolerance = 1e-9)
  expect_equal(as.numeric(logLik(fit)), -109.8139438, tolerance = 1e-9)
  expect_equal(as.numeric(logLik(update(fit, method = "REML"))), -110.5925069, tolerance = 1e-9)
  p <- predict(fit, meuse.grid[1:2, ], se.fit = TRUE)
  expect_equal(unname(p$fit), c(6.400286138, 6.530880585), tolerance = 1e-9)
  expect_equal(unname(p$se.fit^2), c(0.3819593629, 0.3155486540), tolerance = 1e-9)
  expect_equal(sqrt(mean(residuals(fit, "loo")^2)), 0.4038574395, tolerance = 1e-9)
  spatial <- meuse
  sp::coordinates(spatial) <- ~ x + y
  expect_equal(logLik(keops_gp(log(zinc) ~ x + y, spatial, kernel = "exponential", range = 300, variance = 0.5, nugget = 0.05)), logLik(fit))
  degrees <- sp::SpatialPointsDataFrame(cbind(x = 1:3, y = 4:6), data.frame(z = 1:3), proj4string = sp::CRS("+proj=longlat"))
  e <- expect_error(keops_gp(z ~ x + y, degrees, range = 1, variance = 1, nugget = 1), class = "keops_error_input")
  expect_match(conditionMessage(e), "`data`.*longitudes.*projected")
})

test_that("P01: posterior mean, deviations, covariance and likelihood of five points", {
  x <- c(-3, -2, 0, 1.5, 4)
  y <- c(1, -1, .5, 2, 0)
  fit <- keops_gp(x, y, kernel = "gaussian", range = 1, variance = 1, nugget = 0.09, mean = 0)
  new <- c(-4, -1, 1, 6)
  latent <- predict(fit, new, se.fit = TRUE, type = "latent", cov = TRUE)
  expect_equal(latent$fit, c(0.980360200758, -0.814078161684, 1.658543530864, -0.009715973426), tolerance = 1e-10)
  expect_equal(latent$se.fit, c(0.7793155437, 0.5896649735, 0.4056088654, 0.9915478658), tolerance = 1e-9)
  expect_equal(latent$cov[1, 2], 0.06369104082, tolerance = 1e-8)
  expect_equal(predict(fit, new, se.fit = TRUE)$se.fit, c(0.8350644985, 0.6615926095, 0.5044983168, 1.0359378215), tolerance = 1e-9)
  expect_equal(as.numeric(logLik(fit)), -8.49383901, tolerance = 1e-9)
  expect_identical(fit$nugget, 0.09)
  expect_equal(diag(predict(fit, new, cov = TRUE)$cov), predict(fit, new, se.fit = TRUE)$se.fit^2)
})

test_that("P02: latent and response at the data", {
  fit <- keops_gp(0:2, c(0, 1, 0), kernel = "gaussian", range = 1, variance = 1, nugget = .25, mean = 0)
  latent <- predict(fit, 0:2, se.fit = TRUE, type = "latent")
  expect_equal(latent$fit, c(0.1522553556, 0.6522439340, 0.1522553556), tolerance = 1e-9)
  expect_equal(latent$se.fit^2, c(0.1827417509, 0.1630609835, 0.1827417509), tolerance = 1e-9)
  response <- predict(fit, 0:2, se.fit = TRUE)
  expect_equal(response$se.fit^2, latent$se.fit^2 + 0.25)
  expect_equal(unname(fitted(fit)), latent$fit)
  expect_equal(unname(residuals(fit)), c(0, 1, 0) - latent$fit)
})

test_that("P03: repeated places need noise, and are named without", {
  x <- c(0, 0, 1)
  y <- c(1, 3, 5)
  for (solver in c("cholesky", "cg")) {
    fixed <- function(...) keops_gp(x, y, kernel = "gaussian", range = 1, variance = 1, mean = 0, solver = solver, ...)
    expect_equal(predict(fixed(nugget = 0.01), c(0, 1, 0.5)), c(2.007823697, 4.941098392, 3.817170984), tolerance = 1e-9)
    expect_equal(predict(fixed(noise = rep(0.01, 3)), 0.5), 3.817170984, tolerance = 1e-9)
    e <- expect_error(fixed(nugget = 0), class = "keops_error_singular")
    expect_match(conditionMessage(e), "rows 1 and 2.*nugget")
    expect_identical(e$rows, 1:2)
  }
})

test_that("P05: a dense grid without noise is interpolated with a jitter that is reported", {
  x <- seq(-5, 5, .2)
  for (solver in c("cholesky", "cg")) {
    fit <- keops_gp(x, sin(x), kernel = "gaussian", range = 1, variance = 1, nugget = 0, mean = 0, solver = solver)
    p <- predict(fit, x, se.fit = TRUE)
    expect_lt(max(abs(p$fit - sin(x))), 1e-3)
    expect_true(all(p$se.fit >= 0 & p$se.fit <= 1))
    expect_gt(fit$solver$jitter, 0)
    expect_lt(fit$solver$jitter, 1e-5)
    expect_output(print(fit), "jitter")
  }
  # too few steps are said
  w <- expect_warning(fit <- keops_gp(x, cos(40 * x), kernel = "matern32", range = 1, variance = 1, nugget = 1e-4, solver = "cg",
                                      control = keops_gp_control(cg_maxit = 1, cg_rank = 1)), class = "keops_warning_convergence")
  expect_match(conditionMessage(w), "stopped after 1 steps.*cg_maxit")
  expect_false(fit$solver$converged)
  expect_output(print(fit), "not converged")
})

test_that("P06: deviations at the data and beside them are small and finite without noise", {
  set.seed(3)
  x <- matrix(runif(60), 30)
  for (kernel in c("gaussian", "matern52", "exponential")) for (solver in c("cholesky", "cg")) {
    fit <- keops_gp(x, sin(5 * x[, 1]), kernel = kernel, range = 0.4, variance = 2, nugget = 0, solver = solver)
    at <- predict(fit, x, se.fit = TRUE)$se.fit
    expect_true(all(is.finite(at) & at >= 0 & at < 1e-4 * sqrt(2)), label = kernel)
    near <- predict(fit, x + 1e-9, se.fit = TRUE)$se.fit
    expect_true(all(is.finite(near) & near >= 0), label = kernel)
  }
})

test_that("P08: columns of new data are found by name, missing ones named", {
  d <- data.frame(gp_x, z = gp_y, g = factor(rep(c("u", "v"), 25)))
  fit <- keops_gp(z ~ a + b, d, range = 0.3, variance = 1, nugget = 0.01)
  new <- data.frame(gp_new)
  right <- predict(fit, new)
  expect_equal(predict(fit, new[2:1]), right)
  expect_equal(predict(fit, cbind(new, c = "text")), right)
  for (bad in list(factor("u"), "1")) {
    e <- expect_error(predict(fit, data.frame(a = bad, b = 1)), class = "keops_error_input")
    expect_match(conditionMessage(e), "`newdata`: found a column `a` of type (factor|character); expected numeric")
  }
  e <- expect_error(predict(fit, new["a"]), class = "keops_error_input")
  expect_match(conditionMessage(e), "`b`")
  by_matrix <- keops_gp(gp_x, gp_y, range = 0.3, variance = 1, nugget = 0.01)
  expect_equal(predict(by_matrix, gp_new[, 2:1]), unname(right))
  e <- expect_error(predict(by_matrix, gp_new[, 1, drop = FALSE]), class = "keops_error_input")
  expect_match(conditionMessage(e), "`b`")
  e <- expect_error(keops_gp(d[c("a", "g")], gp_y, range = 1, variance = 1, nugget = 1), class = "keops_error_input")
  expect_match(conditionMessage(e), "`g`")
  with_factor <- keops_gp(z ~ a, d, trend = ~ g, range = 0.3, variance = 1, nugget = 0.01)
  expect_error(predict(with_factor, data.frame(a = 1, g = "w")), "new level")
  expect_named(coef(with_factor), c("(Intercept)", "gv"))
  new$a[3] <- NA
  expect_identical(which(is.na(predict(fit, new))), c(`3` = 3L))
  expect_length(predict(fit, new, na.action = na.omit), 7)
})

test_that("P09: a constant column changes nothing, and a constant response is fitted", {
  set.seed(4)
  x <- runif(20)
  y <- sin(6 * x)
  for (scale in c(FALSE, TRUE)) {
    one <- suppressWarnings(keops_gp(cbind(x), y, scale = scale))
    two <- suppressWarnings(keops_gp(cbind(x, 1), y, scale = scale))
    expect_equal(logLik(one), logLik(two))
    expect_equal(predict(one, cbind(x = 0.4)), predict(two, cbind(0.4, 1)), tolerance = 1e-6)
  }
  flat <- keops_gp(x, rep(3, 20))
  expect_identical(c(flat$variance, flat$nugget), c(variance = 0, 0))
  p <- predict(flat, c(0.1, 0.9), se.fit = TRUE)
  expect_equal(p$fit, c(3, 3))
  expect_true(all(is.finite(p$se.fit)))
  expect_s3_class(keops_gp(cbind(x, 1), y, ard = TRUE, range = c(0.3, 1), variance = 1, nugget = 0.1), "keops_gp")
})

test_that("P11: noise by row and nugget agree, and wrong noise is named", {
  x <- seq(0, 1, 0.1)
  y <- cos(3 * x)
  a <- keops_gp(x, y, range = 0.4, variance = 1, noise = rep(0.01, 11))
  b <- keops_gp(x, y, range = 0.4, variance = 1, nugget = 0.01)
  expect_equal(predict(a, 0.33), predict(b, 0.33))
  expect_equal(predict(a, 0.33, se.fit = TRUE)$se.fit, predict(b, 0.33, se.fit = TRUE, type = "latent")$se.fit)
  e <- expect_error(keops_gp(x, y, range = 0.4, variance = 1, noise = c(-1, rep(0.01, 10))), class = "keops_error_input")
  expect_match(conditionMessage(e), "`noise`: found -1 at index 1; expected numbers of at least 0")
  e <- expect_error(keops_gp(x, y, range = 0.4, variance = 1, noise = c(1, 2)), class = "keops_error_input")
  expect_match(conditionMessage(e), "`noise`.*11")
  d <- data.frame(x, y, s = seq_along(x) / 100)
  part <- keops_gp(y ~ x, d, subset = x > 0.25, noise = s, range = 0.4, variance = 1)
  expect_equal(part$noise, d$s[d$x > 0.25])
})

test_that("P12: estimates stay inside their bounds and are no worse than the start", {
  set.seed(5)
  for (seed in 1:6) {
    x <- matrix(runif(20), 10)
    for (y in list(sin(9 * x[, 1]) * x[, 2], rnorm(10), x[, 1])) {
      bound <- NULL
      fit <- withCallingHandlers(keops_gp(x, y), keops_warning_bound = function(w) {
        bound <<- w
        invokeRestart("muffleWarning")
      })
      extent <- sqrt(sum(apply(x, 2, function(v) diff(range(v)))^2))
      expect_true(fit$range >= extent / 1000 * 0.999 && fit$range <= 10.001 * extent)
      expect_false(anyNA(predict(fit, x)))
      expect_identical(bound$parameter, if (length(fit$optim$at_bound) > 0) fit$optim$at_bound)
      start <- fit$optim$start[[1]]
      expect_gte(as.numeric(logLik(fit)), as.numeric(logLik(keops_gp(x, y, range = start[["range"]], variance = start[["variance"]],
                                                                     nugget = start[["nugget"]]))) - 1e-8)
    }
  }
})

test_that("estimates are a maximum: the gradient vanishes, and other starts do not beat several starts", {
  fit <- suppressWarnings(keops_gp(gp_x, gp_y, nstart = 4))
  expect_lt(max(abs(fit$optim$gradient)), 1e-2)
  expect_length(fit$optim$start, 4)
  expect_equal(max(fit$optim$value), as.numeric(logLik(fit)))
  expect_identical(attr(logLik(fit), "df"), 4L)
  fixed <- keops_gp(gp_x, gp_y, range = fit$range, variance = fit$variance, nugget = fit$nugget)
  expect_equal(as.numeric(logLik(fixed)), as.numeric(logLik(fit)))
  w <- expect_warning(tight <- keops_gp(gp_x, gp_y, upper = c(range = 0.05)), class = "keops_warning_bound")
  expect_equal(tight$range[[1]], 0.05)
  expect_identical(w$parameter, "range")
  expect_warning(keops_gp(gp_x, gp_y, control = keops_gp_control(maxit = 1)), class = "keops_warning_convergence")
  expect_error(keops_gp(gp_x, gp_y, upper = c(rang = 1)), class = "keops_error_input")
})

test_that("P14: many new points are predicted in blocks", {
  set.seed(6)
  new <- matrix(runif(60000), 30000, dimnames = list(NULL, c("a", "b")))
  fit <- keops_gp(gp_x, gp_y, range = 0.3, variance = 1, nugget = 0.01)
  blocks <- keops:::row_blocks(30000, 50, entries = 5e5)
  expect_length(blocks, 3)
  whole <- predict(fit, new, se.fit = TRUE)
  at <- c(1, 83886, 15000, 30000)[-2]
  part <- predict(fit, new[at, ], se.fit = TRUE)
  expect_equal(whole$fit[at], part$fit)
  expect_equal(whole$se.fit[at], part$se.fit)
  grown <- peak_growth("
    set.seed(6)
    x <- matrix(runif(400), 200)
    fit <- keops_gp(x, sin(6 * x[, 1]), range = 0.3, variance = 1, nugget = 0.01)
    new <- matrix(runif(2 * 256562), 256562)
  ", "
    p <- predict(fit, new, se.fit = TRUE)
  ")
  expect_lt(grown, 500)
})

test_that("P15: one column, one new row, one row of data", {
  fit <- keops_gp(c(1, 2, 4), c(1, 3, 2), trend = cbind(c(0, 1, 5)), range = 1, variance = 1, nugget = 0.1)
  p <- predict(fit, 3, trend = 2, se.fit = TRUE, cov = TRUE)
  expect_length(p$fit, 1)
  expect_identical(dim(p$cov), c(1L, 1L))
  one <- keops_gp(matrix(c(1, 2), 1), 5, range = 1, variance = 1, nugget = 0.1)
  expect_equal(predict(one, matrix(c(1, 2), 1)), 5)
  expect_length(predict(fit, numeric(), trend = matrix(0, 0, 1)), 0)
  two <- suppressWarnings(keops_gp(1:2, c(1, 3)))
  expect_true(all(is.finite(unlist(predict(two, 1.5, se.fit = TRUE)[1:2]))))
  known <- keops_gp(1, 2, mean = 0, range = 1, variance = 1, nugget = 0)
  expect_equal(predict(known, 1, se.fit = TRUE)$fit, 2)
})

test_that("leave-one-out in closed form is a refit without the row, trend and all", {
  for (case in list(list(trend = cbind(1, gp_x[, 1]), mean = NULL), list(trend = NULL, mean = 0.5))) {
    fit_rows <- function(rows) {
      keops_gp(gp_x[rows, ], gp_y[rows], trend = case$trend[rows, ], mean = case$mean, kernel = "matern32", range = 0.4,
               variance = 0.8, noise = (seq_along(gp_y) / 1e3)[rows], nugget = 0.02)
    }
    fit <- fit_rows(1:50)
    for (i in c(1, 17, 50)) {
      p <- predict(fit_rows(-i), gp_x[i, , drop = FALSE], se.fit = TRUE, trend = case$trend[i, , drop = FALSE])
      expect_equal(residuals(fit, "loo")[[i]], gp_y[i] - p$fit, tolerance = 1e-8)
      expect_equal(residuals(fit, "standardized")[[i]], (gp_y[i] - p$fit) / sqrt(p$se.fit^2 + i / 1e3), tolerance = 1e-8)
    }
  }
})

test_that("intervals cover what they say", {
  set.seed(7)
  x <- seq(0, 10, length.out = 40)
  k <- rbf(1.5)(cbind(x), cbind(x)) + diag(0.1, 40)
  root <- t(chol(k))
  inside <- replicate(150, {
    y <- 2 + drop(root %*% rnorm(40))
    fit <- keops_gp(x[-20], y[-20], kernel = "gaussian", range = 1.5, variance = 1, nugget = 0.1)
    p <- predict(fit, x[20], interval = "prediction", level = 0.9)
    y[20] >= p[1, "lwr"] && y[20] <= p[1, "upr"]
  })
  expect_gt(mean(inside), 0.9 - 3 * sqrt(0.09 / 150))
  expect_lt(mean(inside), 0.9 + 3 * sqrt(0.09 / 150))
})

test_that("intervals use t when a variance was estimated, else normal quantiles", {
  width <- function(fit, ...) {
    p <- predict(fit, gp_new, interval = "confidence", se.fit = TRUE, type = "latent", ...)
    mean((p$fit[, "upr"] - p$fit[, "lwr"]) / (2 * p$se.fit))
  }
  given <- keops_gp(gp_x, gp_y, range = 0.3, variance = 1, nugget = 0.01)
  estimated <- keops_gp(gp_x, gp_y, range = 0.3, nugget = 0.01)
  expect_equal(width(given), qnorm(0.975))
  expect_equal(width(estimated), qt(0.975, 49))
  expect_equal(width(estimated, kriging = "SK"), qnorm(0.975))
  expect_equal(width(keops_gp(gp_x, gp_y, range = 0.3, nugget = 0.01, mean = 0)), qnorm(0.975))
  both <- predict(given, gp_new, interval = "prediction", se.fit = TRUE)
  expect_equal(both$fit[, "upr"] - both$fit[, "fit"], qnorm(0.975) * both$se.fit)
})

test_that("parameters of other packages convert to ours", {
  h <- cbind(h = c(0, 0.1, 0.5, 1, 3))
  ours <- function(kernel) {
    laid <- keops:::lay_out(kernel, "h", NULL)
    keops:::cov_matrix(laid$node, cbind(h = 0), h, laid$table$value)[1, ]
  }
  a <- 0.7
  # fields, GpGp, gstat "Mat": h/a in the Bessel form without the factor sqrt(2 nu)
  bessel <- function(nu) ifelse(h == 0, 1, 2^(1 - nu) / gamma(nu) * (h / a)^nu * besselK(h / a, nu))[, 1]
  expect_equal(ours(cov_matern(1.5, range = sqrt(3) * a, variance = 1)), bessel(1.5))
  expect_equal(ours(cov_matern(2.5, range = sqrt(5) * a, variance = 1)), bessel(2.5))
  expect_equal(ours(cov_gaussian(range = a / sqrt(2), variance = 1)), exp(-(h / a)^2)[, 1]) # gstat "Gau"
  expect_equal(ours(cov_exponential(range = a, variance = 1)), exp(-h / a)[, 1]) # gstat "Exp"
  expect_equal(ours(cov_spherical(range = a, variance = 1)), ifelse(h < a, 1 - 1.5 * h / a + 0.5 * (h / a)^3, 0)[, 1]) # gstat "Sph"
  # DiceKriging: products over the columns, also with one theta for all
  x <- cbind(u = c(0.1, 0.4, 0.9), v = c(0.3, 0.2, 0.8))
  theta <- c(0.5, 1.2)
  m52 <- function(h) (1 + sqrt(5) * h + 5 / 3 * h^2) * exp(-sqrt(5) * h)
  for (iso in c(TRUE, FALSE)) {
    kernel <- cov_matern(2.5, range = if (iso) theta[1] else theta, variance = 2, ard = !iso, form = "product")
    laid <- keops:::lay_out(kernel, c("u", "v"), NULL)
    theirs <- 2 * m52(abs(outer(x[, 1], x[, 1], "-")) / theta[1]) * m52(abs(outer(x[, 2], x[, 2], "-")) / theta[if (iso) 1 else 2])
    expect_equal(keops:::cov_matrix(laid$node, x, x, laid$table$value), theirs)
  }
  # GpGp: variance (correlation + nugget I)
  y <- c(1, -1, 0.5)
  gpgp <- 2 * (exp(-as.matrix(dist(x)) / a) + diag(0.1, 3))
  fit <- keops_gp(x, y, kernel = "exponential", range = a, variance = 2, nugget = 2 * 0.1, mean = 0)
  expect_equal(as.numeric(logLik(fit)), -0.5 * (3 * log(2 * pi) + as.numeric(determinant(gpgp)$modulus) + sum(y * solve(gpgp, y))))
  sigma <- 2.3 # kernlab rbfdot
  expect_equal(ours(cov_gaussian(range = 1 / sqrt(2 * sigma), variance = 1)), exp(-sigma * h^2)[, 1])
})

test_that("what is no covariance is refused, with what is allowed", {
  x <- matrix(runif(40), 10)
  e <- expect_error(keops_gp(x, 1:10, kernel = "spherical"), class = "keops_error_input")
  expect_match(conditionMessage(e), "4 inputs.*at most 3")
  expect_s3_class(keops_gp(x, 1:10, kernel = cov_spherical(1, 1, form = "product"), nugget = 1), "keops_gp")
  e <- expect_error(keops_gp(gp_x, gp_y, kernel = cov_formula("-SqDist(x,y)", variance = 1), nugget = 0.1), class = "keops_error_singular")
  expect_length(e$rows, 2)
  expect_error(keops_gp(gp_x, gp_y, kernel = "matern"), class = "keops_error_input")
  expect_error(cov_matern(nu = 2), class = "keops_error_input")
  expect_error(cov_gaussian(range = -1), class = "keops_error_input")
  expect_error(cov_gaussian() - cov_gaussian(), class = "keops_error_input")
  expect_error(-1 * cov_gaussian(), class = "keops_error_input")
  expect_error(keops_gp(gp_x, gp_y, kernel = cov_gaussian(1) + cov_linear(), range = 1), class = "keops_error_input")
  expect_error(keops_gp(gp_x, gp_y, kernel = cov_gaussian(range = 1), range = 2), class = "keops_error_input")
  expect_error(keops_gp(gp_x, gp_y, range = c(1, 2)), class = "keops_error_input")
  expect_error(keops_gp(gp_x, gp_y, nugget = -1), class = "keops_error_input")
  expect_error(keops_gp(gp_x, gp_y, trend = cbind(1, rep(2, 50))), class = "keops_error_input")
  expect_error(keops_gp(gp_x, gp_y[-1]), class = "keops_error_input")
  expect_error(keops_gp(gp_x, replace(gp_y, 3, NA)), "row 3", class = "keops_error_input")
  expect_error(keops_gp(gp_x, gp_y, approx = "vecchia"), class = "keops_error_input")
  expect_error(keops_gp(gp_x, gp_y, method = "LOO"), class = "keops_error_input")
  e <- expect_error(keops_gp(gp_x, gp_y, kernel = cov_formula("Exp(-Abs(x-y))"), nugget = 0.1), class = "keops_error_input")
  expect_match(conditionMessage(e), "2 components.*with one")
  e <- expect_error(keops_gp(gp_x, gp_y, kernel = cov_formula("Exp(-SqDist(x,2*y))"), nugget = 0.1), class = "keops_error_input")
  expect_match(conditionMessage(e), "`kernel`: found a formula that is not symmetric")
  e <- expect_error(cov_formula("Exp(-SqDist(Var(0,2,0),y))"), class = "keops_error_input")
  expect_match(conditionMessage(e), "by their names")
})

test_that("inputs of any size give the fit in their unit", {
  fit <- keops_gp(gp_x, gp_y, kernel = "matern32", range = c(0.3, 0.5), ard = TRUE, nugget = 0.01)
  for (size in c(1e-200, 1e200)) {
    other <- keops_gp(gp_x * size, gp_y, kernel = "matern32", range = c(0.3, 0.5) * size, ard = TRUE, nugget = 0.01)
    expect_equal(predict(other, gp_new * size, se.fit = TRUE), predict(fit, gp_new, se.fit = TRUE), tolerance = 1e-6)
    expect_equal(unname(keops_gp(gp_x * size, gp_y, nugget = 0.01)$range), unname(keops_gp(gp_x, gp_y, nugget = 0.01)$range) * size, tolerance = 1e-4)
  }
})

test_that("of a product only the first variance is estimated", {
  laid <- keops:::lay_out(2 * cov_gaussian() * (cov_linear() + cov_exponential()) + cov_periodic(), "a", NULL)
  free <- laid$table$name[is.na(laid$table$value)]
  expect_setequal(free, c("k1.variance", "k1.range", "k3.range", "k4.variance", "k4.range", "k4.period"))
})

test_that("simulations have the moments of the prediction", {
  fit <- keops_gp(gp_x, gp_y, range = 0.3, variance = 1, nugget = 0.05)
  before <- .Random.seed
  sims <- simulate(fit, 4000, seed = 1, newdata = gp_new)
  expect_identical(dim(sims), c(8L, 4000L))
  expect_identical(.Random.seed, before) # a seed given leaves the session's as it was
  expect_named(sims[1:2], c("sim_1", "sim_2"))
  p <- predict(fit, gp_new, se.fit = TRUE, cov = TRUE)
  expect_true(all(abs(rowMeans(sims) - p$fit) < 4.5 * p$se.fit / sqrt(4000)))
  expect_true(all(abs(cov(t(sims)) - p$cov) < 6 * max(p$se.fit)^2 / sqrt(4000)))
  expect_identical(simulate(fit, 2, seed = 1, newdata = gp_new), simulate(fit, 2, seed = 1, newdata = gp_new))
  free <- simulate(fit, 4000, seed = 2, conditional = FALSE, newdata = gp_new)
  expect_true(all(abs(apply(free, 1, var) - 1.05) < 6 * 1.05 * sqrt(2 / 4000)))
  set.seed(8)
  a <- simulate(fit, 1)
  set.seed(8)
  expect_identical(simulate(fit, 1), a)
  expect_identical(nrow(a), 50L)
})

test_that("methods of models work", {
  d <- data.frame(gp_x, z = gp_y)
  d$z[4] <- NA
  fit <- keops_gp(z ~ a + b, d, trend = ~ poly(a, 2) + b, kernel = "matern32", range = 0.4, variance = 0.5, nugget = 0.02, na.action = na.exclude)
  expect_length(fitted(fit), 50)
  expect_identical(which(is.na(residuals(fit, "loo"))), c(`4` = 4L))
  expect_identical(nobs(fit), 49L)
  expect_identical(nobs(update(fit, method = "REML")), 45L)
  expect_equal(AIC(fit), -2 * as.numeric(logLik(fit)) + 2 * 4)
  expect_identical(formula(fit), z ~ a + b)
  # poly() at new data is that of the fit
  expect_equal(predict(fit, d[1:3, ]), predict(fit)[1:3])
  ref <- dense_kriging(function(x, y) { s <- sqrt(3) * distances(x, y) / 0.4; 0.5 * (1 + s) * exp(-s) }, gp_x[-4, ], gp_y[-4], fit$trend, 0.02,
                       gp_new, matrix(0, 8, 4))
  expect_equal(coef(fit), ref$beta, tolerance = 1e-8)
  v <- solve(t(fit$trend) %*% solve({ s <- sqrt(3) * distances(gp_x[-4, ], gp_x[-4, ]) / 0.4; 0.5 * (1 + s) * exp(-s) } + diag(0.02, 49), fit$trend))
  expect_equal(vcov(fit), v, tolerance = 1e-8)
  expect_named(coef(fit, "kernel"), c("variance", "range", "nugget"))
  expect_length(coef(fit, "all"), 7)
  expect_output(print(fit), "matern32\\(variance = 0.5, range = 0.4\\)")
  expect_lte(length(capture.output(print(fit))), 12)
  expect_output(print(summary(fit)), "leave-one-out RMSE")
  pdf(NULL)
  on.exit(dev.off())
  expect_silent(plot(fit))
  file <- tempfile()
  saveRDS(fit, file)
  expect_identical(predict(readRDS(file), data.frame(gp_new)), predict(fit, data.frame(gp_new)))
})

test_that("fits give their parts to the generics", {
  skip_if_not_installed("generics")
  fit <- keops_gp(dist ~ speed, cars, range = 20, variance = 600, nugget = 200)
  expect_identical(generics::tidy(fit)$term, c("(Intercept)", "variance", "range", "nugget"))
  expect_equal(generics::glance(fit)$logLik, as.numeric(logLik(fit)))
  expect_equal(generics::augment(fit)$.loo.resid, unname(residuals(fit, "loo")))
})
