# Gaussian processes and kriging: from data and arguments to a fit. Likelihood and prediction are in gp_dense.R,
# (gp_cg.R: iterative), covariances in gp_kernels.R, methods in gp_methods.R.

#' Fit a Gaussian process (kriging)
#'
#' Models a response as a trend, a smooth random process with a covariance function of the inputs, and independent noise.
#' Parameters are given or estimated by maximum likelihood; `predict()` is simple, ordinary or universal kriging.
#'
#' @param x A formula `response ~ inputs` of the covariance (`log(zinc) ~ x + y`), or the inputs: points in rows, n x D.
#' @param y The response, n numbers.
#' @param formula,data,subset,na.action As in [stats::lm()]. Factors among the inputs enter by their contrasts. Data of sp and sf
#'   are taken with their coordinates, if these are projected.
#' @param trend Formula method: a formula evaluated in `data`: `~ 1` a constant (ordinary kriging), `~ x + y` or others universal
#'   kriging, `~ 0` none. Default method: the model matrix, n x p; `NULL` is a constant.
#' @param kernel The covariance: `"matern52"`, `"matern32"`, `"exponential"`, `"gaussian"`, `"spherical"`,
#'   `"rational_quadratic"`, `"periodic"`, `"linear"`, or an object made by [cov_gaussian()] and its kin, their sums and products.
#' @param range,variance Parameters of a kernel that is given by name or has none of its own: numbers fix them, `NULL` estimates.
#' @param nugget Variance of the independent noise; `NULL` estimates it (0 if `noise` is given).
#' @param noise Known variances of the noise of each row, added to the nugget: n numbers, at least 0. In the formula method it is
#'   evaluated in `data` and follows `subset`.
#' @param ard One range for each input.
#' @param method `"ML"`: likelihood with the trend by generalised least squares. `"REML"`: likelihood of the n - p contrasts free of
#'   the trend, without the term 0.5 log|X'X|; it compares kernels under one trend only.
#' @param mean A known mean (simple kriging); there is no trend then.
#' @param solver `"cholesky"`: dense, memory 8 n^2 bytes several times. `"cg"`: conjugate gradients with the covariance as a lazy matrix,
#'   in memory that grows with n; see Details. `"auto"` is the first up to `dense_max` rows of [keops_gp_control()], then the second.
#' @param nstart Number of starts of the optimiser. The first is made from the data, see Details; the others are drawn between the
#'   bounds with R's random numbers.
#' @param lower,upper Bounds of estimated parameters that replace the default ones: numbers named by the parameters as `coef(fit,
#'   "kernel")` names them, or by their kind (`"range"`, `"variance"`, `"nugget"`).
#' @param scale Centre the inputs and divide them by their standard deviations first (constant columns are only centred). Ranges are
#'   then in that scale.
#' @param trace 1: a line for each evaluation of the likelihood.
#' @param control Of [keops_gp_control()].
#' @param ... Not used; anything here is an error.
#'
#' @details
#' Estimation maximises the likelihood over the logarithms of the parameters, with analytic gradients, by L-BFGS-B. Let E be the extent
#' of the inputs (the diagonal of their bounding box; for `ard` and product forms the width of each column) and s the variance of the
#' residuals of the trend by ordinary least squares. Ranges lie between E / 1000 and 10 E, variances between 1e-6 s and 1e4 s, the nugget between 1e-8 s and
#' 10 s, periods between E / 100 and 2 E, `alpha` between 0.01 and 100, other parameters of formulas between 1e-4 and 1e4. The first
#' start is the best of the ranges E / 30, E / 10, E / 3 and E with a nugget of 1, 10 or 50 % of the variance. An estimate on its
#' bound is a warning.
#'
#' Where the covariance matrix is positive definite only up to rounding, the least sufficient multiple of its mean diagonal from 1e-13 to
#' 1e-6 is added to the diagonal, and reported by `print()` and in `solver$jitter`. Equal rows need a nugget or noise.
#'
#' With `solver = "cg"` the trend, the weights and predictions are solved for to a relative residual of `cg_tol`. Parameters that are not given
#' are estimated by the dense path on a subset of `subset` rows, drawn once (`optim$rows`; `print()` says so) with R's random numbers;
#' bounds and the trend are of all rows. The likelihood and what follows from it, and leave-one-out, need a dense factor: they are errors.
#' A standard error costs a solution of its own: new points are taken in blocks, and their time is announced in interactive sessions.
#'
#' @return An object of class `keops_gp`: a list with `call`, `formula`, `terms`, `trend` (its model matrix), `xlevels`, `na.action`, `x`,
#'   `y`, `coefficients` (trend), `kernel` (with the estimates), `variance`, `range`, `nugget`, `noise`, `alpha` (the weights of kriging,
#'   V^-1 (y - trend)), `loglik`, `loglik_se` (0: exact), `df`, `nobs` (n, or n - p for REML), `method`, `solver` (`type`,
#'   `iterations`, `residual`, `rank`, `converged`, `jitter`; `residual` and `rank` of conjugate gradients only), `optim` (`start`, `gradient` in the logarithms, `at_bound`, `value` of
#'   each start, `rows` of a subset) and `timings`. `loglik` is `NA` for conjugate gradients. See [predict.keops_gp()] for its methods.
#'
#' @section Errors: `keops_error_input` for data and arguments, naming them; `keops_error_singular` for equal rows without noise and
#'   covariances that are not positive definite, with the nearest `rows`. Warnings: `keops_warning_bound`, `keops_warning_convergence`.
#'
#' @references
#' Rasmussen, C. E., Williams, C. K. I. (2006). *Gaussian Processes for Machine Learning*. MIT Press.
#'
#' Cressie, N. A. C. (1993). *Statistics for Spatial Data*. Wiley. \doi{10.1002/9781119115151}
#'
#' @examples
#' set.seed(1)
#' d <- data.frame(a = runif(60), b = runif(60))
#' d$z <- sin(6 * d$a) + d$b + rnorm(60, sd = 0.1)
#' fit <- keops_gp(z ~ a + b, d)
#' fit
#' new <- data.frame(a = c(0.2, 0.5), b = 0.5)
#' predict(fit, new, interval = "prediction")
#'
#' # universal kriging with given parameters
#' keops_gp(z ~ a + b, d, trend = ~ b, kernel = "gaussian", range = 0.3, variance = 0.5, nugget = 0.01)
#' @export
keops_gp <- function(x, ...) UseMethod("keops_gp")

#' @rdname keops_gp
#' @export
keops_gp.formula <- function(formula, data, trend = ~ 1, subset, na.action, kernel = "matern52", range = NULL, variance = NULL,
                             nugget = NULL, noise = NULL, ard = FALSE, method = c("ML", "REML"), mean = NULL,
                             solver = c("auto", "cholesky", "cg"), nstart = 1L, lower = NULL, upper = NULL,
                             scale = FALSE, trace = 0L, control = keops_gp_control(), ...) {
  shown <- sys.call()
  call <- match.call(expand.dots = FALSE)
  check_dots(shown, ...)
  data <- if (missing(data)) environment(formula) else plain_frame(data, "data", shown)
  parts <- gp_frame(call, formula, trend, data, parent.frame(), shown)
  settings <- list(kernel = kernel, range = range, variance = variance, nugget = nugget, ard = ard, method = method, mean = mean,
                   solver = solver, nstart = nstart, lower = lower, upper = upper, scale = scale, trace = trace,
                   control = control)
  fit <- fit_gp(parts$x, parts$y, parts$trend, parts$noise, settings, shown)
  fit[c("call", "formula", "terms", "xlevels", "na.action")] <-
    list(rename_call(match.call(), "keops_gp"), formula, parts$terms, parts$xlevels, parts$na.action)
  fit$design <- parts[c("terms", "input_terms", "trend_terms", "xlevels", "contrasts", "columns")]
  fit
}

#' @rdname keops_gp
#' @export
keops_gp.default <- function(x, y, trend = NULL, kernel = "matern52", range = NULL, variance = NULL, nugget = NULL,
                             noise = NULL, ard = FALSE, method = c("ML", "REML"), mean = NULL,
                             solver = c("auto", "cholesky", "cg"), nstart = 1L, lower = NULL, upper = NULL,
                             scale = FALSE, trace = 0L, control = keops_gp_control(), ...) {
  shown <- sys.call()
  check_dots(shown, ...)
  if (missing(y)) stop_input("`y`", "nothing", "the response, one number for each row of `x`", shown)
  settings <- list(kernel = kernel, range = range, variance = variance, nugget = nugget, ard = ard, method = method, mean = mean,
                   solver = solver, nstart = nstart, lower = lower, upper = upper, scale = scale, trace = trace,
                   control = control)
  fit <- fit_gp(x, y, trend, noise, settings, shown)
  fit$call <- rename_call(match.call(), "keops_gp")
  fit
}

#' Set how a Gaussian process is fitted
#'
#' @param maxit Largest number of iterations of the optimiser of a start.
#' @param tol Relative tolerance of the log-likelihood: a start ends when a step gains less.
#' @param dense_max Largest number of rows for which `solver = "auto"` takes the dense path.
#' @param subset Conjugate gradients: the number of rows, drawn once with R's random numbers, on which parameters that are not given
#'   are estimated.
#' @param cg_tol,cg_maxit Conjugate gradients end at this residual, relative to the right-hand side, or after so many steps.
#' @param cg_rank Rank of their preconditioner, a partial Cholesky factor, which takes memory of n x rank numbers.
#' @return A list for the argument `control` of [keops_gp()].
#' @examples
#' keops_gp_control(maxit = 50)
#' @export
keops_gp_control <- function(maxit = 200L, tol = 1e-10, dense_max = 5000L, subset = 1000L, cg_tol = 1e-8, cg_maxit = 1000L,
                             cg_rank = 200L) {
  call <- sys.call()
  list(maxit = take_count(maxit, "maxit", call), tol = take_number(tol, "tol", call, 0, strict = TRUE),
       dense_max = take_count(dense_max, "dense_max", call), subset = take_count(subset, "subset", call, low = 2L),
       cg_tol = take_number(cg_tol, "cg_tol", call, 0, strict = TRUE), cg_maxit = take_count(cg_maxit, "cg_maxit", call),
       cg_rank = take_count(cg_rank, "cg_rank", call))
}

# ---- data ----

# A data frame of what holds points; coordinates in degrees are refused.
plain_frame <- function(data, arg, call) {
  degrees <- NULL
  if (inherits(data, "Spatial") && requireNamespace("sp", quietly = TRUE)) {
    degrees <- isFALSE(sp::is.projected(data))
    data <- as.data.frame(data)
  } else if (inherits(data, "sf") && requireNamespace("sf", quietly = TRUE)) {
    degrees <- isTRUE(sf::st_is_longlat(data))
    data <- cbind(sf::st_drop_geometry(data), as.data.frame(sf::st_coordinates(data)))
  }
  if (isTRUE(degrees)) {
    stop_input(quote_names(arg), "longitudes and latitudes", "projected coordinates: distances here are planar", call)
  }
  if (!is.data.frame(data) && !is.environment(data)) data <- as.data.frame(data)
  data
}

# Inputs, trend, response and noise from one model frame, so that rows stay together.
gp_frame <- function(call, formula, trend, data, env, shown) {
  columns <- if (is.data.frame(data)) names(data) else character()
  frame_data <- if (is.data.frame(data)) data
  if (!inherits(trend, "formula") || length(trend) != 2L) {
    stop_input("`trend`", describe(trend), "a formula without response, such as ~ 1 or ~ x + y", shown)
  }
  inputs <- stats::terms(formula, data = frame_data)
  trend_terms <- stats::terms(trend, data = frame_data)
  if (length(attr(inputs, "term.labels")) == 0L || length(formula) != 3L) {
    stop_input("`formula`", paste(deparse(formula), collapse = " "), "response ~ inputs of the covariance", shown)
  }
  if (!is.null(attr(trend_terms, "offset")) || !is.null(attr(inputs, "offset"))) {
    stop_input("`formula`", "an offset", "no offsets: subtract them from the response", shown)
  }
  both <- stats::as.formula(call("~", formula[[2L]], call("+", inputs[[3L]], trend_terms[[2L]])), env = environment(formula))
  call <- call[c(1L, match(c("subset", "na.action", "noise"), names(call), 0L))]
  call[[1L]] <- quote(stats::model.frame)
  call$formula <- both
  call$data <- frame_data
  call$drop.unused.levels <- TRUE
  needed <- setdiff(all.vars(both), c(columns, ".", "pi"))
  for (name in needed) {
    if (!exists(name, envir = environment(formula))) {
      stop_input("`data`", paste("no column", quote_names(name)), paste("the variables", quote_names(all.vars(both))), shown)
    }
  }
  frame <- eval(call, env)
  terms <- attr(frame, "terms")
  xlevels <- stats::.getXlevels(terms, frame)
  x <- design_matrix(inputs, frame)
  h <- trend_matrix(trend_terms, frame)
  list(x = x$x, trend = h$x, y = stats::model.response(frame), noise = frame[["(noise)"]], terms = terms, input_terms = inputs,
       trend_terms = trend_terms, xlevels = xlevels, contrasts = list(x$contrasts, h$contrasts),
       columns = intersect(all.vars(both), columns), na.action = attr(frame, "na.action"))
}

trend_matrix <- function(terms, frame, contrasts = NULL) {
  h <- stats::model.matrix(terms, frame, contrasts.arg = contrasts)
  list(x = matrix(h, nrow(h), ncol(h), dimnames = list(NULL, colnames(h))), contrasts = attr(h, "contrasts"))
}

# list(x, trend) of new data for a fit by formula.
new_gp_design <- function(design, newdata, call) {
  newdata <- plain_frame(newdata, "newdata", call)
  check_columns(design, newdata, call)
  terms <- stats::delete.response(design$terms)
  frame <- stats::model.frame(terms, newdata, na.action = stats::na.pass, xlev = design$xlevels)
  check_classes(terms, frame, "newdata", call)
  list(x = design_matrix(design$input_terms, frame, design$contrasts[[1L]])$x,
       trend = trend_matrix(design$trend_terms, frame, design$contrasts[[2L]])$x)
}

take_numbers <- function(value, n, arg, call, low = -Inf) {
  if (is.matrix(value) && ncol(value) == 1L) value <- value[, 1L]
  if (!(is.numeric(value) || is.logical(value)) || is.factor(value) || length(dim(value)) > 1L) {
    stop_input(quote_names(arg), describe(value), paste(format_count(n), "numbers, one a row"), call)
  }
  value <- as.double(value)
  if (length(value) != n) {
    stop_input(quote_names(arg), paste(format_count(length(value)), "values"), paste0(format_count(n), ", one for each row of `x`"), call)
  }
  check_finite(value, arg, call)
  bad <- which(value < low)
  if (length(bad) > 0L) {
    stop_input(quote_names(arg), paste0(format(value[bad[1L]]), " at index ", bad[1L]), paste("numbers of at least", low), call)
  }
  value
}

# The trend's matrix, of full rank; none with a known mean.
take_trend <- function(trend, n, mean, call) {
  if (!is.null(mean)) return(matrix(0, n, 0L))
  if (is.null(trend)) return(matrix(1, n, 1L, dimnames = list(NULL, "(Intercept)")))
  trend <- as_points(trend, "trend", call)
  if (nrow(trend) != n) stop_input("`trend`", describe(trend), paste("a matrix with", format_count(n), "rows, as `x`"), call)
  check_finite(trend, "trend", call)
  rank <- qr(trend)
  if (rank$rank < ncol(trend)) {
    bad <- rank$pivot[rank$rank + 1L]
    name <- if (is.null(colnames(trend))) bad else quote_names(colnames(trend)[bad])
    stop_input("`trend`", paste0("column ", name, " that depends on the others, in ", format_count(n), " rows"), "columns that are linearly independent", call)
  }
  rownames(trend) <- NULL
  trend
}

scale_of <- function(x, scale) {
  if (!scale) return(NULL)
  sd <- if (nrow(x) > 1L) apply(x, 2L, stats::sd) else rep(0, ncol(x))
  list(center = colMeans(x), sd = ifelse(sd > 0, sd, 1))
}

apply_scale <- function(x, scaling) {
  if (is.null(scaling)) return(x)
  (x - rep(scaling$center, each = nrow(x))) / rep(scaling$sd, each = nrow(x))
}

# ---- fit ----

fit_gp <- function(x, y, trend, noise, settings, call) {
  started <- proc.time()[["elapsed"]]
  x <- take_points(x, "x", call)
  n <- nrow(x)
  y <- take_numbers(y, n, "y", call)
  mean <- if (!is.null(settings$mean)) take_number(settings$mean, "mean", call)
  trend <- take_trend(trend, n, mean, call)
  known <- if (is.null(noise)) numeric(n) else take_numbers(noise, n, "noise", call, low = 0)
  method <- take_choice(settings$method, c("ML", "REML"), "method", call)
  type <- take_choice(settings$solver, c("auto", "cholesky", "cg"), "solver", call)
  if (type == "auto") type <- if (n > settings$control$dense_max) "cg" else "cholesky"
  trace <- take_count(settings$trace, "trace", call, low = 0L)
  nstart <- take_count(settings$nstart, "nstart", call)
  scaling <- scale_of(x, take_flag(settings$scale, "scale", call))
  cov <- fill_arguments(take_kernel(settings$kernel, call), settings, call)
  columns <- if (is.null(colnames(x))) paste0("x", seq_len(ncol(x))) else colnames(x)
  laid <- lay_out(cov, columns, call)
  table <- add_nugget(laid$table, settings$nugget, !is.null(noise), call)
  problem <- list(x = unname(apply_scale(x, scaling)), y = y - if (is.null(mean)) 0 else mean, trend = unname(trend),
                  node = laid$node, noise = known, method = method)
  table <- add_bounds(table, problem, settings, call)
  refuse_duplicates(problem, table, call)
  check_formulas(problem, table, call)
  found <- (if (type == "cg") fit_cg else estimate)(problem, table, nstart, trace, settings$control, call)
  build_gp(found, problem, table, list(x = x, y = y, trend = trend, noise = if (!is.null(noise)) known, mean = mean,
                                       scaling = scaling, type = type, control = settings$control, started = started))
}

# range, variance and ard of keops_gp() go into a kernel that has but one leaf.
fill_arguments <- function(cov, settings, call) {
  given <- settings[c("range", "variance")]
  given <- given[!vapply(given, is.null, NA)]
  ard <- take_flag(settings$ard, "ard", call)
  if (length(given) == 0L && !ard) return(cov)
  if (cov$op != "leaf") {
    stop_input(if (ard) "`ard`" else quote_names(names(given)[1L]), "a value for a kernel that has several parts",
               "it in cov_*() of the part it is for", call)
  }
  if (ard && !"range" %in% names(cov$values)) stop_input("`ard`", "TRUE", "FALSE for a kernel without range", call)
  if (ard) cov$ard <- TRUE
  for (name in names(given)) {
    if (!name %in% names(cov$values)) {
      stop_input(quote_names(name), show_value(given[[name]]), paste("NULL: the", cov$type, "kernel has no such parameter"), call)
    }
    if (!is.null(cov$values[[name]])) stop_input(quote_names(name), "a value here and in `kernel`", "it in one of them", call)
    check_parameter(given[[name]], name, name == "range", call)
    cov$values[[name]] <- given[[name]]
  }
  cov
}

add_nugget <- function(table, nugget, has_noise, call) {
  if (is.null(nugget)) nugget <- if (has_noise) 0 else NA_real_
  else nugget <- take_number(nugget, "nugget", call, low = 0)
  rbind(table, data.frame(name = "nugget", kind = "nugget", column = 0L, value = nugget))
}

# Bounds, as the help page states them.
add_bounds <- function(table, problem, settings, call) {
  width <- apply(problem$x, 2L, function(v) diff(base::range(v)))
  diagonal <- widest_distance(problem$x)
  extent <- ifelse(table$column > 0L, width[pmax(table$column, 1L)], if (has_product_form(problem$node)) max(width) else diagonal)
  extent[extent == 0] <- 1
  n <- length(problem$y)
  s <- sum(trend_residuals(problem)^2) / max(1, n - ncol(problem$trend))
  # what is left of a trend that fits the response up to rounding
  constant <- s <= (1e-14 * max(abs(problem$y)))^2
  if (constant) s <- 0
  size <- if (s > 0) s else 1
  limits <- list(range = c(1e-3, 10), period = c(1e-2, 2), variance = c(1e-6, 1e4), nugget = c(1e-8, 10), alpha = c(1e-2, 100),
                 formula = c(1e-4, 1e4))
  # the variance of a linear kernel is per squared unit of the inputs
  slope <- mean(rowSums(problem$x^2))
  unit <- ifelse(table$kind %in% c("range", "period"), extent, ifelse(table$kind %in% c("variance", "nugget"), size, 1))
  linear <- table$name %in% linear_variances(problem$node, table)
  if (slope > 0) unit[linear] <- unit[linear] / slope
  table$lower <- unit * vapply(limits[table$kind], `[`, 0, 1L)
  table$upper <- unit * vapply(limits[table$kind], `[`, 0, 2L)
  table$unit <- unit
  table$constant <- constant
  table <- user_bounds(table, settings$lower, "lower", call)
  table <- user_bounds(table, settings$upper, "upper", call)
  bad <- which(is.na(table$value) & table$lower > table$upper)
  if (length(bad) > 0L) {
    stop_input("`lower`", paste0(format(table$lower[bad[1L]]), " for ", quote_names(table$name[bad[1L]])),
               paste("at most its upper bound,", format(table$upper[bad[1L]])), call)
  }
  table
}

has_product_form <- function(node) {
  switch(node$op, leaf = node$form == "product", number = FALSE, any(vapply(node$children, has_product_form, NA)))
}

linear_variances <- function(node, table) {
  switch(node$op, leaf = if (node$type == "linear") table$name[node$at$variance], number = NULL,
         unlist(lapply(node$children, linear_variances, table = table)))
}

user_bounds <- function(table, bounds, which, call) {
  if (is.null(bounds)) return(table)
  bounds <- unlist(bounds)
  if (!is.numeric(bounds) || is.null(names(bounds)) || any(!is.finite(bounds)) || any(bounds <= 0)) {
    stop_input(quote_names(which), show_value(bounds), "positive numbers named by parameters", call)
  }
  for (name in names(bounds)) {
    at <- table$name == name | table$kind == name
    if (!any(at)) stop_input(quote_names(which), quote_names(name), paste("names among", quote_names(unique(c(table$name, table$kind)))), call)
    table[[which]][at] <- bounds[[name]]
  }
  table
}

# Formulas are the user's: they have one component, and are symmetric.
check_formulas <- function(problem, table, call) {
  texts <- formula_leaves(problem$node)
  if (length(texts) == 0L) return(invisible())
  for (node in texts) {
    found <- formula_components(node, ncol(problem$x))
    if (found != 1L) stop_input("`kernel`", paste0("\"", node$text, "\", which has ", found, " components"), "a formula with one, the covariance", call)
  }
  x <- problem$x[unique(round(seq(1, nrow(problem$x), length.out = min(nrow(problem$x), 20L)))), , drop = FALSE]
  par <- ifelse(is.na(table$value), table$unit, table$value)
  v <- cov_matrix(problem$node, x, x, par[-length(par)])
  if (any(abs(v - t(v)) > 1e-8 * max(abs(v)), na.rm = TRUE)) {
    stop_input("`kernel`", "a formula that is not symmetric in x and y", "a covariance: the same for (x, y) and (y, x)", call)
  }
}

formula_leaves <- function(node) {
  switch(node$op, leaf = if (node$type == "formula") list(node), number = NULL, do.call(c, lapply(node$children, formula_leaves)))
}

# Equal rows make V singular when neither has noise.
refuse_duplicates <- function(problem, table, call) {
  nugget <- table$value[nrow(table)]
  if (is.na(nugget) || nugget > 0 || nrow(problem$x) < 2L) return(invisible())
  bare <- which(problem$noise == 0)
  x <- problem$x[bare, , drop = FALSE]
  if (length(bare) < 2L || count_distinct(x, length(bare)) == length(bare)) return(invisible())
  key <- do.call(paste, c(lapply(seq_len(ncol(x)), function(k) match(x[, k], x[, k])), sep = "/"))
  second <- which(duplicated(key))[1L]
  rows <- bare[c(match(key[second], key), second)]
  stop(keops_condition(
    "singular",
    paste0("rows ", rows[1L], " and ", rows[2L], " of `x` are equal and have no noise (nugget 0): their covariance matrix is singular. ",
           "Give a nugget or `noise`, or leave the nugget to be estimated"),
    call, jitter = 0, rows = rows
  ))
}

# ---- estimation ----

# list(par, state, loglik, optim): par is that of dense_state().
estimate <- function(problem, table, nstart, trace, control, call) {
  free <- which(is.na(table$value))
  par <- table$value
  if (table$constant[1L]) { # nothing varies: no variance is what fits best
    par[is.na(par) & table$kind %in% c("variance", "nugget")] <- 0
    free <- which(is.na(par))
    par[free] <- table$unit[free]
    free <- integer()
  }
  if (length(free) == 0L) {
    state <- dense_state(problem, par, call)
    return(list(par = par, state = state, loglik = dense_loglik(problem, state), optim = NULL, iterations = 0L))
  }
  objective <- likelihood_functions(problem, par, free, trace, call)
  low <- log(table$lower[free])
  high <- log(table$upper[free])
  starts <- c(list(first_start(problem, table, free, objective, low, high)),
              lapply(seq_len(nstart - 1L), function(k) stats::runif(length(free), low, high)))
  runs <- lapply(starts, function(start) {
    tryCatch(climb(start, objective, low, high, control), keops_error_singular = function(e) if (nstart == 1L) stop(e))
  })
  runs <- runs[!vapply(runs, is.null, NA)]
  if (length(runs) == 0L) objective$value(starts[[1L]]) # signals what is wrong
  values <- vapply(runs, function(run) run$value, 0)
  best <- runs[[which.max(values)]]
  finish_estimate(best, starts, values, objective, problem, table, free, low, high, control, call)
}

# value(p) and slope(p) at logarithms of the free parameters. The state is kept for the gradient at the same place.
likelihood_functions <- function(problem, par, free, trace, call) {
  last <- NULL
  at <- function(p) {
    if (is.null(last) || !identical(last$p, p)) {
      par[free] <- exp(p)
      state <- dense_state(problem, par, call)
      last <<- list(p = p, par = par, state = state, value = dense_loglik(problem, state))
      if (trace > 0L) cat("log-likelihood", format(last$value, digits = 10L), "at", format(exp(p), digits = 5L), "\n")
    }
    last
  }
  list(
    at = at,
    value = function(p) at(p)$value,
    slope = function(p) {
      now <- at(p)
      dense_gradient(problem, now$state, now$par)[free]
    }
  )
}

# The best of a few ranges and shares of the nugget, variances made to fit in all.
first_start <- function(problem, table, free, objective, low, high) {
  kind <- table$kind[free]
  start <- log(table$unit[free])
  start[kind == "period"] <- start[kind == "period"] + log(0.3)
  parts <- sum(kind == "variance")
  start[kind == "variance"] <- start[kind == "variance"] - log(max(1, parts))
  best <- list(value = -Inf, p = pmin(pmax(start, low), high))
  shares <- if ("nugget" %in% kind) c(0.01, 0.1, 0.5) else 0
  factors <- if ("range" %in% kind) c(1 / 30, 1 / 10, 1 / 3, 1) else 1
  for (share in shares) for (factor in factors) {
    p <- start
    p[kind == "range"] <- p[kind == "range"] + log(factor)
    if (parts > 0L) p[kind == "variance"] <- p[kind == "variance"] + log(1 - share)
    if (share > 0) p[kind == "nugget"] <- p[kind == "nugget"] + log(share)
    p <- pmin(pmax(p, low), high)
    value <- tryCatch(objective$value(p), keops_error_singular = function(e) -Inf)
    if (value > best$value) best <- list(value = value, p = p)
  }
  best$p
}

climb <- function(start, objective, low, high, control) {
  # a place where the matrix is singular is as bad as can be, but finite, or the search would stop
  floor <- objective$value(start) - 1e10
  value <- function(p) tryCatch(-objective$value(p), keops_error_singular = function(e) -floor)
  slope <- function(p) tryCatch(-objective$slope(p), keops_error_singular = function(e) numeric(length(p)))
  run <- stats::optim(start, value, slope, method = "L-BFGS-B", lower = low, upper = high,
                      control = list(maxit = control$maxit, factr = control$tol / .Machine$double.eps, lmm = 10L))
  list(p = run$par, value = -run$value, iterations = run$counts[[1L]], code = run$convergence, message = run$message)
}

finish_estimate <- function(best, starts, values, objective, problem, table, free, low, high, control, call) {
  now <- objective$at(best$p)
  slope <- objective$slope(best$p)
  bound <- ifelse(best$p <= low + 1e-6, "lower", ifelse(best$p >= high - 1e-6, "upper", ""))
  # a parameter that changes nothing is on no bound
  at_bound <- which(bound != "" & slope != 0)
  names <- table$name[free]
  if (best$code == 1L) {
    warn_convergence(paste0("the optimiser stopped after ", best$iterations, " evaluations (`maxit` of keops_gp_control() is ", control$maxit, ")"),
                     call, best$iterations, max(abs(slope)))
  }
  if (length(at_bound) > 0L) {
    limit <- signif(exp(best$p[at_bound]), 4)
    warning(structure(
      class = c("keops_warning_bound", "keops_warning", "warning", "condition"),
      list(message = paste0("estimated on its bound: ", paste0(names[at_bound], " = ", format(limit, trim = TRUE), " (", bound[at_bound], ")", collapse = ", "),
                            "; the data say little about it, or `lower` and `upper` are too narrow"),
           call = call, parameter = names[at_bound], bound = stats::setNames(limit, bound[at_bound]))
    ))
  }
  list(par = now$par, state = now$state, loglik = now$value, iterations = best$iterations, converged = best$code != 1L,
       optim = list(start = lapply(starts, function(p) stats::setNames(exp(p), names)), value = values,
                    gradient = stats::setNames(slope, names), at_bound = names[at_bound], message = best$message))
}

build_gp <- function(found, problem, table, data) {
  state <- found$state
  par <- stats::setNames(found$par, table$name)
  n <- length(data$y)
  p <- ncol(data$trend)
  kernel <- fill_values(problem$node, found$par)
  last <- length(par)
  iterative <- data$type == "cg"
  estimated <- is.na(table$value)
  structure(class = "keops_gp", list(
    call = NULL, formula = NULL, terms = NULL, trend = data$trend, xlevels = NULL, na.action = NULL, x = data$x, y = data$y,
    coefficients = stats::setNames(state$beta, colnames(data$trend)), kernel = kernel,
    variance = par[table$kind == "variance"], range = par[table$kind == "range"], nugget = par[[last]], noise = data$noise,
    alpha = state$alpha, loglik = found$loglik, loglik_se = if (iterative) NA_real_ else 0, df = p + sum(estimated),
    nobs = if (problem$method == "REML") n - p else n, method = problem$method,
    solver = list(type = data$type, iterations = found$iterations, residual = if (iterative) state$residual else NA_real_,
                  rank = if (iterative) state$rank else NA_integer_, converged = !isFALSE(found$converged), jitter = state$jitter),
    optim = found$optim, timings = c(fit = proc.time()[["elapsed"]] - data$started),
    mean = data$mean, scaling = data$scaling, parameters = par, estimated = stats::setNames(estimated, table$name),
    node = problem$node, control = data$control,
    kept = if (iterative) state[cg_kept], design = NULL
  ))
}

# The problem a fit has solved, for the methods that need its factor again.
gp_problem <- function(object) {
  list(x = unname(apply_scale(object$x, object$scaling)), y = object$y - if (is.null(object$mean)) 0 else object$mean,
       trend = unname(object$trend), node = object$node, noise = if (is.null(object$noise)) numeric(length(object$y)) else object$noise,
       method = object$method)
}

# The state of a dense fit, or what a fit by conjugate gradients has kept of it (enough for the trend).
gp_state <- function(object, call) {
  if (is_iterative(object)) object$kept else dense_state(gp_problem(object), unname(object$parameters), call)
}

is_iterative <- function(object) object$solver$type == "cg"
