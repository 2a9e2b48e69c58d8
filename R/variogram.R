# Empirical variograms, and covariances fitted to them.

#' Estimate a variogram
#'
#' Half the mean squared difference of the trend's residuals, for pairs of points in classes of distance. All pairs are visited by
#' the engine; none are stored.
#'
#' @param formula,data As in [keops_gp()]: `response ~ coordinates`. Rows with missing values are left out.
#' @param trend A formula whose residuals by ordinary least squares are used.
#' @param width Width of the classes. `NULL`: `cutoff` / 15.
#' @param cutoff Largest distance. `NULL`: a third of the diagonal of the bounding box.
#' @param n_max Above so many rows, a sample of this size is used, drawn with R's random numbers.
#'
#' @return A data frame of class `keops_variogram` with a row for each class that holds pairs: `np` their number, `dist` their mean distance,
#'   `gamma`. Class k holds distances in ((k - 1) width, k width], the first also 0. `plot()` draws it, with the line of a fitted
#'   model if one is given.
#'
#' @section Errors: `keops_error_input`.
#'
#' @references
#' Cressie, N. A. C. (1993). *Statistics for Spatial Data*. Wiley. \doi{10.1002/9781119115151}
#'
#' @examples
#' set.seed(1)
#' d <- data.frame(a = runif(300), b = runif(300))
#' d$z <- sin(8 * d$a) + cos(5 * d$b) + rnorm(300, sd = 0.2)
#' v <- keops_variogram(z ~ a + b, d)
#' v
#' model <- keops_fit_variogram(v, "spherical")
#' model
#' plot(v, model)
#' @export
keops_variogram <- function(formula, data, trend = ~ 1, width = NULL, cutoff = NULL, n_max = 20000L) {
  call <- sys.call()
  data <- if (missing(data)) environment(formula) else plain_frame(data, "data", call)
  parts <- gp_frame(quote(keops_variogram()), formula, trend, data, parent.frame(), call)
  x <- unname(take_points(parts$x, "x", call))
  n <- nrow(x)
  y <- take_numbers(parts$y, n, "y", call)
  z <- if (ncol(parts$trend) > 0L) qr.resid(qr(parts$trend), y) else y
  n_max <- take_count(n_max, "n_max", call, 2L)
  if (n > n_max) {
    rows <- sample.int(n, n_max)
    x <- x[rows, , drop = FALSE]
    z <- z[rows]
  }
  diagonal <- widest_distance(x)
  cutoff <- if (is.null(cutoff)) diagonal / 3 else take_number(cutoff, "cutoff", call, 0, strict = TRUE)
  width <- if (is.null(width)) cutoff / 15 else take_number(width, "width", call, 0, strict = TRUE)
  if (!(width > 0)) stop_input("`data`", "points that are all at one place", "points at several places", call)
  out <- pair_classes(x, z, width, ceiling(round(cutoff / width, 9)), call)
  structure(out, class = c("keops_variogram", "data.frame"), width = width, cutoff = cutoff, dimension = ncol(x))
}

# np, dist, gamma of each class; every pair is visited from both sides, and each point meets itself in the first.
pair_classes <- function(x, z, width, classes, call) {
  d <- ncol(x)
  scale <- scale_metric(metrics$euclidean, x)$scale
  x <- x * scale
  width <- width * scale
  op <- new_operator(
    paste0("Sum_Reduction(LessThan(low,Norm2(x-y))*LessOrEqual(Norm2(x-y),high)",
           "*Concat(Concat(IntCst(1),Norm2(x-y)),Square(u-v)),1)"),
    c(sprintf(c("x=Vi(%d)", "y=Vj(%d)"), d), "u=Vi(1)", "v=Vj(1)", "low=Pm(1)", "high=Pm(1)"), list(precision = "double"), call
  )
  rows <- lapply(seq_len(classes), function(k) {
    low <- if (k == 1L) -1 else (k - 1) * width
    sums <- colSums(op(list(x, x, z, z, low, k * width)))
    np <- (sums[1L] - if (k == 1L) nrow(x) else 0) / 2
    if (np > 0) data.frame(np = np, dist = sums[2L] / (2 * np) / scale, gamma = sums[3L] / (4 * np))
  })
  out <- do.call(rbind, rows)
  if (is.null(out)) out <- data.frame(np = numeric(), dist = numeric(), gamma = numeric())
  out
}

#' Fit a covariance to a variogram
#'
#' Weighted least squares on the classes of an empirical variogram, with weights np / dist^2: a quick model to start from, or to compare with
#' one estimated by likelihood ([keops_gp()]).
#'
#' @param v Of [keops_variogram()].
#' @param kernel A name or a covariance of the distance alone, as in [keops_gp()]; parameters that have numbers are kept.
#' @param nugget A number fixes it, `NULL` fits it.
#'
#' @return A list of class `keops_variogram_fit`: `kernel` (with numbers, ready for `keops_gp(kernel = )`), `nugget`, `parameters`, `sse` (the weighted
#'   sum of squares), `converged`. `predict()` gives the model's variogram at distances.
#'
#' @section Errors: `keops_error_input` for kernels that are not functions of the distance.
#' @references
#' Cressie, N. (1985). Fitting variogram models by weighted least squares. *Mathematical Geology*, 17(5), 563-586.
#' \doi{10.1007/BF01032109}
#' @examples
#' d <- data.frame(a = runif(300), b = runif(300))
#' d$z <- sin(8 * d$a) + cos(5 * d$b)
#' model <- keops_fit_variogram(keops_variogram(z ~ a + b, d), "matern32")
#' predict(model, c(0.1, 0.2))
#' @export
keops_fit_variogram <- function(v, kernel, nugget = NULL) {
  call <- sys.call()
  if (!inherits(v, "keops_variogram")) stop_input("`v`", describe(v), "a variogram of keops_variogram()", call)
  if (missing(kernel)) stop_input("`kernel`", "nothing", "a kernel's name or a covariance", call)
  kernel <- take_kernel(kernel, call)
  check_isotropic(kernel, attr(v, "dimension"), call)
  laid <- lay_out(kernel, "h", call)
  table <- add_nugget(laid$table, nugget, FALSE, call)
  free <- which(is.na(table$value))
  if (nrow(v) < max(1L, length(free))) {
    stop_input("`v`", paste(nrow(v), "classes"), paste("at least", max(1L, length(free)), "for as many parameters"), call)
  }
  weight <- v$np / pmax(v$dist, attr(v, "width") / 100)^2
  weight <- weight / sum(weight)
  model <- function(par, h) variogram_at(laid$node, par, h)
  loss <- function(p, par = table$value) {
    par[free] <- exp(p)
    sum(weight * (v$gamma - model(par, v$dist))^2)
  }
  best <- fit_classes(table, free, v, loss)
  par <- table$value
  par[free] <- exp(best$p)
  structure(class = "keops_variogram_fit", list(
    kernel = fill_values(laid$node, par), nugget = par[length(par)], parameters = stats::setNames(par, table$name),
    sse = sum(v$np / pmax(v$dist, attr(v, "width") / 100)^2 * (v$gamma - model(par, v$dist))^2),
    converged = best$converged, node = laid$node
  ))
}

variogram_at <- function(node, par, h) {
  at <- matrix(c(0, h))
  k <- cov_matrix(node, at, at[1L, , drop = FALSE], par)[, 1L]
  par[length(par)] * (h > 0) + k[1L] - k[-1L]
}

# Starts with several ranges; bounds are wide, and only keep logarithms finite.
fit_classes <- function(table, free, v, loss) {
  if (length(free) == 0L) return(list(p = numeric(), converged = TRUE))
  kind <- table$kind[free]
  top <- max(v$gamma, .Machine$double.xmin)
  far <- max(v$dist)
  unit <- ifelse(kind %in% c("range", "period"), far, ifelse(kind %in% c("variance", "nugget"), top, 1))
  low <- log(unit) + log(1e-6)
  high <- log(unit) + log(1e4)
  best <- NULL
  for (factor in c(0.1, 0.3, 1)) for (share in if ("nugget" %in% kind) c(0.05, 0.5) else 0) {
    start <- log(unit) + ifelse(kind == "range", log(factor), ifelse(kind == "nugget", log(max(share, 1e-6)), 0))
    run <- stats::optim(start, loss, method = "L-BFGS-B", lower = low, upper = high, control = list(factr = 10, maxit = 500))
    if (is.null(best) || run$value < best$value) best <- run
  }
  list(p = best$par, converged = best$convergence == 0L)
}

# A function of the distance alone: one range, radial (in one dimension the product form is radial too).
check_isotropic <- function(node, d, call) {
  if (node$op == "number") return(invisible())
  if (node$op != "leaf") {
    for (child in node$children) check_isotropic(child, d, call)
    return(invisible())
  }
  if (node$ard || node$type %in% c("linear", "formula") || (node$form == "product" && d > 1L)) {
    stop_input("`kernel`", cov_text(node), "a covariance that is a function of the distance alone", call)
  }
  if (node$type == "spherical" && d > 3L) stop_input("`kernel`", paste("a spherical covariance of", d, "inputs"), "at most 3 inputs", call)
}

#' @rdname keops_fit_variogram
#' @param object A fit.
#' @param newdata Distances.
#' @param ... Not used; anything here is an error.
#' @export
predict.keops_variogram_fit <- function(object, newdata, ...) {
  call <- sys.call()
  check_dots(call, ...)
  variogram_at(object$node, unname(object$parameters), take_numbers(newdata, length(newdata), "newdata", call, low = 0))
}

#' @export
print.keops_variogram_fit <- function(x, ...) {
  cat("<keops_variogram_fit> ", cov_text(x$kernel), "\n", sep = "")
  cat("nugget ", format(x$nugget, digits = 4L), if (!x$converged) ", not converged", "\n", sep = "")
  invisible(x)
}

#' @rdname keops_variogram
#' @param x A variogram.
#' @param model A fit of [keops_fit_variogram()], or `NULL`.
#' @param ... Graphical parameters.
#' @export
plot.keops_variogram <- function(x, model = NULL, ...) {
  plot(x$dist, x$gamma, xlim = c(0, max(x$dist)), ylim = c(0, max(x$gamma)), xlab = "distance", ylab = "semivariance", pch = 19, ...)
  if (!is.null(model)) {
    h <- seq(1e-6, 1, length.out = 200L) * max(x$dist)
    graphics::lines(h, stats::predict(model, h))
  }
  invisible(x)
}
