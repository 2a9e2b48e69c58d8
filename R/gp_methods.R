# Methods of Gaussian process fits.

#' Predict from a Gaussian process, and read its parts
#'
#' `predict()` is kriging: the best linear unbiased prediction at new points, with its standard error. The other methods are those of
#' models in R.
#'
#' @param object,x A fit of [keops_gp()].
#' @param newdata New points: a data frame for a fit by formula, else as `x` of the fit, m rows. Left out: the points of the fit.
#' @param se.fit Standard errors too?
#' @param type Of `predict()`: `"response"`, a new noisy observation, or `"latent"`, the smooth process (at the data: below the value
#'   observed there). Both have the same mean; the variance of the response is larger by the nugget, never by `noise`, which belongs to
#'   the rows fitted. Of `coef()`: `"trend"`, `"kernel"` or `"all"`. Of `residuals()`: see Value.
#' @param interval `"confidence"` for the latent value, `"prediction"` for a new observation, whatever `type` is.
#' @param level Probability of the interval.
#' @param kriging `"UK"`: the uncertainty of the trend is included, and quantiles are of the t distribution with n - p degrees
#'   of freedom if a variance was estimated, else normal. `"SK"` (always so with a known `mean`): the trend is taken as known,
#'   with normal quantiles.
#' @param cov The covariance matrix of the predictions too?
#' @param trend For a fit by `x, y` with a `trend` matrix: its rows at the new points.
#' @param na.action What to do with rows of `newdata` that hold missing values.
#' @param ... Not used; anything here is an error. Graphical parameters for `plot()`.
#'
#' @return `predict()`: a vector named by the rows of `newdata`. With `se.fit`, a list `fit`, `se.fit`, `df`, `residual.scale` (root of the
#'   nugget), as [stats::predict.lm()]; with an interval, a matrix `fit`, `lwr`, `upr` (also as `fit` of the list); with `cov`, the list has
#'   `cov`, m x m. Rows with missing values are `NA`. Work is done in blocks of rows, so memory does not grow with m n.
#'
#'   `residuals()`: `"response"`, observed minus latent mean; `"loo"`, observed minus the prediction from all other rows, with the
#'   trend estimated without the row too (parameters are kept), in closed form; `"standardized"`, those divided by their standard
#'   errors. `fitted()`: the latent mean. `vcov()`: of the trend's coefficients. `logLik()`: of class `logLik` with `df`, `nobs`, `se`.
#'   `simulate()`: a data frame with columns `sim_1`, ..., and attribute `seed`: new observations at `newdata` (or the data), given the data
#'   (`conditional = TRUE`) or from the model alone, with the trend estimated. `plot()` shows observed against left-out predictions,
#'   standardized residuals, and their normal quantiles. `logLik()`, `plot()` and residuals other than `"response"` need a dense fit, and
#'   `summary()` leaves these out for fits by conjugate gradients.
#'
#' @section Errors: `keops_error_input` for columns missing in `newdata` and wrong arguments.
#'
#' @references
#' Dubrule, O. (1983). Cross validation of kriging in a unique neighborhood. *Mathematical Geology*, 15(6), 687-699.
#' \doi{10.1007/BF01033232}
#'
#' @examples
#' fit <- keops_gp(dist ~ speed, cars, kernel = "matern32", range = 20, variance = 600, nugget = 200)
#' predict(fit, data.frame(speed = c(10, 30)), se.fit = TRUE)
#' head(residuals(fit, "loo"))
#' logLik(fit)
#' set.seed(1)
#' simulate(fit, 2, newdata = data.frame(speed = c(10, 30)))
#' @export
predict.keops_gp <- function(object, newdata, se.fit = FALSE, type = c("response", "latent"),
                             interval = c("none", "confidence", "prediction"), level = 0.95, kriging = c("UK", "SK"),
                             cov = FALSE, trend = NULL, na.action = stats::na.pass, ...) {
  call <- sys.call()
  check_dots(call, ...)
  type <- take_choice(type, c("response", "latent"), "type", call)
  interval <- take_choice(interval, c("none", "confidence", "prediction"), "interval", call)
  kriging <- take_choice(kriging, c("UK", "SK"), "kriging", call)
  se.fit <- take_flag(se.fit, "se.fit", call)
  cov <- take_flag(cov, "cov", call)
  level <- take_number(level, "level", call, 0, strict = TRUE)
  if (level >= 1) stop_input("`level`", level, "a probability below 1", call)
  new <- new_points(object, if (missing(newdata)) NULL else newdata, trend, na.action, call)
  spread <- se.fit || cov || interval != "none"
  said <- krige(object, new$x, new$trend, spread, cov, kriging == "UK", call)
  out <- spread_rows(said$mean, new$rows)
  if (!spread) return(out)
  extra <- if (type == "response") object$nugget else 0
  if (interval != "none") {
    width <- sqrt(said$variance + if (interval == "prediction") object$nugget else 0) * interval_quantile(object, level, kriging)
    bounds <- cbind(fit = said$mean, lwr = said$mean - width, upr = said$mean + width)
    out <- spread_rows(bounds, new$rows)
  }
  if (!se.fit && !cov) return(out)
  out <- list(fit = out)
  if (se.fit) out$se.fit <- spread_rows(sqrt(said$variance + extra), new$rows)
  out$df <- length(object$y) - ncol(object$trend)
  out$residual.scale <- sqrt(object$nugget)
  if (cov) out$cov <- spread_square(said$cov + diag(extra, nrow(said$cov)), new$rows)
  out
}

interval_quantile <- function(object, level, kriging) {
  df <- length(object$y) - ncol(object$trend)
  estimated <- any(object$estimated[names(object$estimated) %in% c(names(object$variance))])
  if (kriging == "SK" || !is.null(object$mean) || !estimated) return(stats::qnorm((1 + level) / 2))
  if (df < 1) Inf else stats::qt((1 + level) / 2, df)
}

spread_square <- function(value, rows) {
  n <- length(rows$complete)
  out <- matrix(NA_real_, n, n, dimnames = if (!is.null(rows$names)) list(rows$names, rows$names))
  out[rows$complete, rows$complete] <- value
  out
}

# list(x, trend, rows): inputs (scaled as in the fit) and trend of the rows that can be predicted.
new_points <- function(object, newdata, trend, na.action, call) {
  if (is.null(newdata)) {
    x <- object$x
    h <- object$trend
  } else if (!is.null(object$design)) {
    if (!is.null(trend)) stop_input("`trend`", describe(trend), "NULL: the fit has a formula for it", call)
    new <- new_gp_design(object$design, newdata, call)
    x <- new$x
    h <- if (is.null(object$mean)) new$trend else matrix(0, nrow(x), 0L)
  } else {
    x <- match_points(newdata, colnames(object$x), ncol(object$x), "newdata", call)
    h <- new_trend(object, trend, nrow(x), call)
  }
  rows <- predictable_rows(cbind(x, h), na.action, call)
  d <- ncol(x)
  list(x = unname(apply_scale(rows$x[, seq_len(d), drop = FALSE], object$scaling)),
       trend = unname(rows$x[, d + seq_len(ncol(h)), drop = FALSE]), rows = rows)
}

new_trend <- function(object, trend, m, call) {
  p <- ncol(object$trend)
  if (p == 0L) return(matrix(0, m, 0L))
  if (is.null(trend)) {
    if (identical(colnames(object$trend), "(Intercept)")) return(matrix(1, m, 1L))
    stop_input("`trend`", "NULL", paste0("the trend's matrix at the new rows, ", format_count(m), " x ", p), call)
  }
  h <- match_points(trend, colnames(object$trend), p, "trend", call)
  if (nrow(h) != m) stop_input("`trend`", describe(trend), paste(format_count(m), "rows, as `newdata`"), call)
  h
}

# list(mean, variance, cov) of the latent process at x (scaled), block by block.
krige <- function(object, x, trend, spread, cov, with_trend, call) {
  problem <- gp_problem(object)
  par <- unname(object$parameters)
  mean <- drop(trend %*% object$coefficients) + latent_part(object, problem, par, x)
  if (!is.null(object$mean)) mean <- mean + object$mean
  if (!spread) return(list(mean = mean))
  iterative <- is_iterative(object)
  state <- gp_state(object, call)
  if (iterative) state$solve <- fitted_solver(object, problem, par, call)
  variance <- numeric(nrow(x))
  kept <- list()
  worst <- NULL
  blocks <- row_blocks(nrow(x), nrow(problem$x), if (iterative) cg_entries else 2^22)
  for (b in seq_along(blocks)) {
    at <- blocks[[b]]
    x_at <- x[at, , drop = FALSE]
    started <- proc.time()[["elapsed"]]
    change <- (if (iterative) cg_update else dense_update)(problem, state, par, x_at, trend[at, , drop = FALSE], with_trend)
    if (iterative && b == 1L) announce_blocks(length(blocks) - 1L, proc.time()[["elapsed"]] - started)
    variance[at] <- cov_diagonal(problem$node, x_at, par) - colSums(change$left * change$right) + colSums(change$trend^2)
    if (isFALSE(change$converged) && !isTRUE(max(change$residual) < max(worst$residual))) worst <- change
    if (cov) kept[[b]] <- change[c("left", "right", "trend")]
  }
  if (!is.null(worst)) warn_cg(worst$iterations, worst$residual, object$control, call)
  out <- list(mean = mean, variance = pmax(variance, 0))
  if (cov) {
    bind <- function(part, rows) do.call(cbind, c(list(matrix(0, rows, 0L)), lapply(kept, `[[`, part)))
    rows <- nrow(problem$x) * if (iterative) 2L else 1L
    out$cov <- cov_matrix(problem$node, x, x, par[-length(par)]) - crossprod(bind("left", rows), bind("right", rows)) +
      crossprod(bind("trend", if (with_trend) ncol(trend) else 0L))
    out$cov <- (out$cov + t(out$cov)) / 2
    out$cov[cbind(seq_len(nrow(x)), seq_len(nrow(x)))] <- out$variance
  }
  out
}

# The covariance between x and the data, times the weights of kriging.
latent_part <- function(object, problem, par, x) {
  par <- par[-length(par)]
  if (is_iterative(object) && nrow(x) > 0L) return(in_double(drop(lazy_cov(problem$node, x, problem$x, par) %*% object$alpha)))
  out <- numeric(nrow(x))
  for (at in row_blocks(nrow(x), nrow(problem$x))) out[at] <- cov_matrix(problem$node, x[at, , drop = FALSE], problem$x, par) %*% object$alpha
  out
}

#' @rdname predict.keops_gp
#' @export
coef.keops_gp <- function(object, type = c("trend", "kernel", "all"), ...) {
  type <- take_choice(type, c("trend", "kernel", "all"), "type", sys.call())
  switch(type, trend = object$coefficients, kernel = object$parameters, c(object$coefficients, object$parameters))
}

#' @rdname predict.keops_gp
#' @export
vcov.keops_gp <- function(object, ...) {
  check_dots(sys.call(), ...)
  v <- trend_vcov(gp_state(object, sys.call()))
  dimnames(v) <- list(names(object$coefficients), names(object$coefficients))
  v
}

#' @rdname predict.keops_gp
#' @export
logLik.keops_gp <- function(object, ...) {
  call <- sys.call()
  check_dots(call, ...)
  if (is_iterative(object)) stop_iterative("the log-likelihood", object, call)
  structure(object$loglik, df = object$df, nobs = object$nobs, se = object$loglik_se, class = "logLik")
}

#' @rdname predict.keops_gp
#' @export
nobs.keops_gp <- function(object, ...) object$nobs

#' @rdname predict.keops_gp
#' @export
formula.keops_gp <- function(x, ...) {
  if (is.null(x$formula)) stop_input("`x`", "a fit by inputs and response", "a fit by formula", sys.call())
  x$formula
}

#' @rdname predict.keops_gp
#' @export
fitted.keops_gp <- function(object, ...) {
  naresid_rows(object, object$y - response_residuals(object))
}

# y minus the latent mean is what the weights alpha leave: noise times alpha.
response_residuals <- function(object) {
  own <- object$nugget + if (is.null(object$noise)) 0 else object$noise
  (own + object$solver$jitter) * object$alpha
}

naresid_rows <- function(object, value) {
  names(value) <- rownames(object$x)
  stats::naresid(object$na.action, value)
}

# list(error, variance), see dense_loo().
leave_one_out <- function(object, call) {
  if (is_iterative(object)) stop_iterative("leave-one-out", object, call)
  dense_loo(gp_state(object, call))
}

#' @rdname predict.keops_gp
#' @export
residuals.keops_gp <- function(object, type = c("response", "loo", "standardized"), ...) {
  call <- sys.call()
  check_dots(call, ...)
  type <- take_choice(type, c("response", "loo", "standardized"), "type", call)
  if (type == "response") return(naresid_rows(object, response_residuals(object)))
  loo <- leave_one_out(object, call)
  naresid_rows(object, if (type == "loo") loo$error else loo$error / sqrt(loo$variance))
}

#' @rdname predict.keops_gp
#' @param nsim,seed As in [stats::simulate()].
#' @param conditional Given the data?
#' @importFrom stats simulate
#' @export
simulate.keops_gp <- function(object, nsim = 1, seed = NULL, newdata, conditional = TRUE, trend = NULL, ...) {
  call <- sys.call()
  check_dots(call, ...)
  nsim <- take_count(nsim, "nsim", call)
  conditional <- take_flag(conditional, "conditional", call)
  if (!exists(".Random.seed", envir = globalenv(), inherits = FALSE)) stats::runif(1)
  before <- state <- get(".Random.seed", envir = globalenv())
  if (!is.null(seed)) {
    set.seed(seed)
    on.exit(assign(".Random.seed", before, envir = globalenv()))
    state <- structure(seed, kind = as.list(RNGkind()))
  }
  at_data <- missing(newdata) || is.null(newdata)
  new <- new_points(object, if (at_data) NULL else newdata, trend, stats::na.omit, call)
  m <- nrow(new$x)
  if (is_iterative(object) && m > object$control$dense_max) {
    stop_input("`newdata`", paste(format_count(m), if (at_data) "points, the data" else "points"),
               paste0("at most ", format_count(object$control$dense_max), " points (`dense_max` of keops_gp_control()): simulation needs their covariance matrix"), call)
  }
  noise <- object$nugget + if (at_data && !conditional && !is.null(object$noise)) object$noise else 0
  if (conditional) {
    said <- krige(object, new$x, new$trend, TRUE, TRUE, TRUE, call)
  } else {
    said <- list(mean = drop(new$trend %*% object$coefficients) + if (is.null(object$mean)) 0 else object$mean,
                 cov = cov_matrix(object$node, new$x, new$x, unname(object$parameters)))
  }
  root <- covariance_root(said$cov)
  draws <- said$mean + root %*% matrix(stats::rnorm(m * nsim), m) + sqrt(noise) * matrix(stats::rnorm(m * nsim), m)
  out <- as.data.frame(draws)
  names(out) <- paste0("sim_", seq_len(nsim))
  if (!is.null(new$rows$names)) row.names(out) <- new$rows$names[new$rows$complete]
  attr(out, "seed") <- state
  out
}

# a with a a' = v, for v that is positive semidefinite up to rounding.
covariance_root <- function(v) {
  e <- eigen(v, symmetric = TRUE)
  e$vectors %*% (sqrt(pmax(e$values, 0)) * t(e$vectors))
}

#' @export
print.keops_gp <- function(x, ...) {
  n <- length(x$y)
  cat("<keops_gp> ", format_count(n), " points in ", ncol(x$x), if (ncol(x$x) == 1L) " dimension" else " dimensions", ", ", x$method,
      if (any(x$estimated)) "" else " with given parameters", if (!is.null(x$scaling)) ", inputs scaled", "\n", sep = "")
  if (!is.null(x$formula)) cat("formula: ", cut_text(paste(deparse(x$formula), collapse = " "), 80L), "\n", sep = "")
  cat("kernel:  ", cut_text(cov_text(x$kernel), 160L), "\n", sep = "")
  cat("         ", cut_text(kernel_text(x$kernel), 160L), "\n", sep = "")
  cat("nugget:  ", format(x$nugget, digits = 4L), if (!is.null(x$noise)) " and known noise by row", "\n", sep = "")
  if (!is.null(x$mean)) cat("mean:    ", format(x$mean, digits = 4L), " (known)\n", sep = "")
  else cat("trend:   ", cut_text(paste0(names(x$coefficients), " ", format(x$coefficients, digits = 4L, trim = TRUE), collapse = ", "), 80L), "\n", sep = "")
  if (is_iterative(x)) {
    if (!is.null(x$optim$rows)) cat("estimated on ", format_count(length(x$optim$rows)), " of ", format_count(n), " rows\n", sep = "")
    cat("solver:  cg, ", x$solver$iterations, " steps, residual ", format(x$solver$residual, digits = 2L), sep = "")
  } else {
    cat("log-likelihood ", format(x$loglik, digits = 7L), " (df ", x$df, ", nobs ", x$nobs, ")\n", sep = "")
    cat("solver:  cholesky")
  }
  cat(if (x$solver$jitter > 0) paste0(", jitter ", format(x$solver$jitter, digits = 2L)),
      if (!x$solver$converged) if (is_iterative(x)) ", not converged" else ", optimiser not converged", "\n", sep = "")
  if (length(x$optim$at_bound) > 0L) cat("on its bound: ", paste(x$optim$at_bound, collapse = ", "), "\n", sep = "")
  invisible(x)
}

# The formulas of the leaves, as the help page has them.
kernel_text <- function(node) {
  paste(unique(kernel_texts(node)), collapse = "; ")
}
kernel_texts <- function(node) {
  if (node$op == "number") return(NULL)
  if (node$op != "leaf") return(unlist(lapply(node$children, kernel_texts)))
  switch(node$type,
    gaussian = "v exp(-h^2/(2 r^2))", exponential = "v exp(-h/r)", matern32 = "v (1 + sqrt(3) h/r) exp(-sqrt(3) h/r)",
    matern52 = "v (1 + s + s^2/3) exp(-s), s = sqrt(5) h/r", spherical = "v (1 - 3h/(2r) + h^3/(2r^3)), h < r",
    rational_quadratic = "v (1 + h^2/(2 alpha r^2))^-alpha", periodic = "v exp(-2 sum sin^2(pi d/period)/r^2)",
    linear = "v sum(x y)", formula = paste("v", node$text)
  )
}

#' @rdname predict.keops_gp
#' @export
summary.keops_gp <- function(object, ...) {
  call <- sys.call()
  check_dots(call, ...)
  state <- gp_state(object, call)
  se <- sqrt(diag(trend_vcov(state)))
  out <- list(
    fit = object, coefficients = cbind(Estimate = object$coefficients, `Std. Error` = se),
    parameters = data.frame(value = object$parameters, estimated = object$estimated)
  )
  if (!is_iterative(object)) {
    loo <- dense_loo(state)
    out[c("loo_rmse", "loo_standardized", "aic")] <-
      list(sqrt(mean(loo$error^2)), stats::sd(loo$error / sqrt(loo$variance)), stats::AIC(object))
  }
  structure(out, class = "summary.keops_gp")
}

#' @export
print.summary.keops_gp <- function(x, ...) {
  print(x$fit)
  if (nrow(x$coefficients) > 0L) {
    cat("\nTrend:\n")
    print(x$coefficients, digits = 4L)
  }
  cat("\nCovariance:\n")
  print(x$parameters, digits = 4L)
  if (!is.null(x$aic)) cat("\nAIC ", format(x$aic, digits = 6L), "; leave-one-out RMSE ", format(x$loo_rmse, digits = 4L),
      ", standard deviation of the standardized residuals ", format(x$loo_standardized, digits = 3L), "\n", sep = "")
  invisible(x)
}

#' @rdname predict.keops_gp
#' @export
plot.keops_gp <- function(x, ...) {
  loo <- leave_one_out(x, sys.call())
  predicted <- x$y - loo$error
  standard <- loo$error / sqrt(loo$variance)
  old <- graphics::par(mfrow = c(1L, 3L))
  on.exit(graphics::par(old))
  plot(predicted, x$y, xlab = "predicted without the point", ylab = "observed", main = "Leave-one-out", ...)
  graphics::abline(0, 1, col = "grey50")
  plot(predicted, standard, xlab = "predicted without the point", ylab = "standardized residual", main = "Residuals", ...)
  graphics::abline(h = 0, col = "grey50")
  stats::qqnorm(standard, ...)
  stats::qqline(standard, col = "grey50")
  invisible(x)
}

#' Read a fit as data frames
#'
#' Methods of the generics of package generics (and broom): `tidy()` a row a parameter, `glance()` one row a fit, `augment()` a row a
#' point.
#'
#' @param x A fit of [keops_gp()].
#' @param ... Not used; anything here is an error.
#' @return A data frame: `tidy()` has `term`, `estimate`, `std.error` (of the trend only), `group`; `glance()` has `logLik`, `AIC`, `BIC`,
#'   `nobs`, `df`, `loo.rmse`; `augment()` has the inputs, `.observed`, `.fitted`, `.resid`, `.loo.resid`, `.std.resid`.
#'   What needs a dense factor is `NA` or left out for fits by conjugate gradients.
#' @examples
#' if (requireNamespace("generics", quietly = TRUE)) {
#'   fit <- keops_gp(dist ~ speed, cars, range = 20, variance = 600, nugget = 200)
#'   generics::tidy(fit)
#' }
#' @name tidy.keops_gp
#' @exportS3Method generics::tidy
tidy.keops_gp <- function(x, ...) {
  check_dots(sys.call(), ...)
  trend <- sqrt(diag(stats::vcov(x)))
  data.frame(term = c(names(x$coefficients), names(x$parameters)), estimate = unname(c(x$coefficients, x$parameters)),
             std.error = c(unname(trend), rep(NA_real_, length(x$parameters))),
             group = rep(c("trend", "covariance"), c(length(x$coefficients), length(x$parameters))))
}

#' @rdname tidy.keops_gp
#' @exportS3Method generics::glance
glance.keops_gp <- function(x, ...) {
  check_dots(sys.call(), ...)
  dense <- !is_iterative(x)
  data.frame(logLik = x$loglik, AIC = if (dense) stats::AIC(x) else NA_real_, BIC = if (dense) stats::BIC(x) else NA_real_,
             nobs = x$nobs, df = x$df, loo.rmse = if (dense) sqrt(mean(stats::na.omit(stats::residuals(x, "loo"))^2)) else NA_real_)
}

#' @rdname tidy.keops_gp
#' @exportS3Method generics::augment
augment.keops_gp <- function(x, ...) {
  check_dots(sys.call(), ...)
  left <- response_residuals(x)
  out <- cbind(as.data.frame(x$x), .observed = x$y, .fitted = x$y - left, .resid = left)
  if (is_iterative(x)) return(out)
  loo <- dense_loo(gp_state(x, sys.call()))
  cbind(out, .loo.resid = loo$error, .std.resid = loo$error / sqrt(loo$variance))
}
