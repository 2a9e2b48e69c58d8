# Kernel density estimates and kernel regression.

# Kernels as products over the columns of u = (x - y) / a, with a = width * bw so that bw is the standard deviation, and the
# integral over u of one column.
density_kernels <- list(
  gaussian = list(width = 1, text = "Exp(-%s*%s/2)", integral = sqrt(2 * pi)),
  epanechnikov = list(width = sqrt(5), text = "ReLU(1-%s*%s)", integral = 4 / 3),
  rectangular = list(width = sqrt(3), text = "LessThan(%s*%s,1)", integral = 2),
  triangular = list(width = sqrt(6), text = "ReLU(1-Sqrt(%s*%s))", integral = 1),
  biweight = list(width = sqrt(7), text = "Square(ReLU(1-%s*%s))", integral = 16 / 15)
)

#' Estimate a density by kernels
#'
#' The density at given points as a weighted mean of kernels at the data, exactly, without binning or a grid, in any dimension and with
#' linear memory.
#'
#' @param x Data: points in rows, n x D, or a vector.
#' @param bw Standard deviation of the kernel, in the unit of the data: one number, or one a column. For one column also a
#'   rule of [stats::density()]: `"nrd0"`, `"nrd"`, `"ucv"`, `"bcv"`, `"SJ"`. With several columns the default is Scott's rule, the standard deviation of each
#'   column times n^(-1/(D+4)).
#' @param kernel `"gaussian"`, `"epanechnikov"`, `"rectangular"`, `"triangular"` or `"biweight"`; of several columns, the product.
#' @param weights Of the data: n numbers, at least 0; they are divided by their sum. `NULL`: equal.
#' @param at Points where the density is wanted, m x D. `NULL`: the data.
#'
#' @return A list of class `keops_kde`: `estimate` (m numbers named by the rows of `at`), `at`, `x`, `bw` (one a column), `kernel`,
#'   `weights`, `call`. `predict(object, newdata)` gives the density at other points.
#'
#' @section Errors: `keops_error_input` for data that are not finite numbers, and for `bw` and `weights`.
#' @references
#' Scott, D. W. (2015). *Multivariate Density Estimation*. Wiley. \doi{10.1002/9781118575574}
#' @examples
#' fit <- keops_kde(faithful$eruptions)
#' fit
#' predict(fit, c(2, 4.5))
#' both <- keops_kde(faithful)
#' head(both$estimate)
#' @export
keops_kde <- function(x, bw = "nrd0", kernel = "gaussian", weights = NULL, at = NULL) {
  call <- sys.call()
  shown <- match.call()
  x <- take_points(x, "x", call)
  kernel <- take_choice(kernel, names(density_kernels), "kernel", call)
  bw <- take_bandwidth(if (missing(bw)) NULL else bw, x, call)
  if (!is.null(weights)) {
    weights <- take_numbers(weights, nrow(x), "weights", call, low = 0)
    if (sum(weights) == 0) stop_input("`weights`", "only zeros", "a positive sum", call)
    weights <- weights / sum(weights)
  }
  fit <- structure(class = "keops_kde", list(estimate = NULL, at = NULL, x = x, bw = bw, kernel = kernel, weights = weights, call = shown))
  if (is.null(at)) {
    fit$at <- x
  } else {
    fit$at <- match_points(at, colnames(x), ncol(x), "at", call)
    check_finite(fit$at, "at", call)
  }
  fit$estimate <- stats::setNames(density_at(fit, unname(fit$at), call), rownames(fit$at))
  fit
}

take_bandwidth <- function(bw, x, call) {
  d <- ncol(x)
  if (is.null(bw)) bw <- if (d == 1L) "nrd0" else "scott"
  if (is.character(bw)) {
    rules <- if (d == 1L) c("nrd0", "nrd", "ucv", "bcv", "SJ", "scott") else "scott"
    bw <- take_choice(bw, rules, "bw", call)
    if (nrow(x) < 2L) stop_input("`bw`", paste0("\"", bw, "\" for one point"), "a number", call)
    bw <- if (bw == "scott") apply(x, 2L, stats::sd) * nrow(x)^(-1 / (d + 4)) else switch(bw,
      nrd0 = stats::bw.nrd0(x), nrd = stats::bw.nrd(x), ucv = stats::bw.ucv(x), bcv = stats::bw.bcv(x), SJ = stats::bw.SJ(x)
    )
  }
  if (!is.numeric(bw) || !length(bw) %in% c(1L, d) || any(!is.finite(bw)) || any(bw <= 0)) {
    stop_input("`bw`", if (is.numeric(bw)) paste(format(bw), collapse = ", ") else describe(bw),
               paste0("a positive number", if (d > 1L) paste(", or", d, "of them")), call)
  }
  stats::setNames(rep_len(as.double(bw), d), colnames(x))
}

density_at <- function(fit, at, call) {
  d <- ncol(at)
  entry <- density_kernels[[fit$kernel]]
  scale <- fit$bw * entry$width
  each <- vapply(seq_len(d) - 1L, function(k) sprintf(entry$text, sprintf("Elem(x-y,%d)", k), sprintf("Elem(x-y,%d)", k)), "")
  text <- if (fit$kernel == "gaussian") "Exp(-SqDist(x,y)/2)" else paste(each, collapse = "*")
  op <- new_operator(sprintf("Sum_Reduction(%s*w,1)", text), c(sprintf(c("x=Vi(%d)", "y=Vj(%d)"), d), "w=Vj(1)"), list(), call)
  w <- if (is.null(fit$weights)) rep(1 / nrow(fit$x), nrow(fit$x)) else fit$weights
  if (nrow(at) == 0L) return(numeric())
  op(list(at / rep(scale, each = nrow(at)), unname(fit$x) / rep(scale, each = nrow(fit$x)), w))[, 1L] / prod(scale * entry$integral)
}

#' @rdname keops_kde
#' @param object A fit.
#' @param newdata Points, as `at`; rows with missing values get `NA`.
#' @param na.action What to do with rows that hold missing values.
#' @param ... Not used; anything here is an error.
#' @export
predict.keops_kde <- function(object, newdata, na.action = stats::na.pass, ...) {
  call <- sys.call()
  check_dots(call, ...)
  if (missing(newdata) || is.null(newdata)) return(object$estimate)
  rows <- predictable_rows(match_points(newdata, colnames(object$x), ncol(object$x), "newdata", call), na.action, call)
  spread_rows(density_at(object, unname(rows$x), call), rows)
}

#' @export
print.keops_kde <- function(x, ...) {
  cat("<keops_kde> ", format_count(nrow(x$x)), " points in ", ncol(x$x), if (ncol(x$x) == 1L) " dimension" else " dimensions", ", kernel ", x$kernel,
      if (!is.null(x$weights)) ", weighted", "\n", sep = "")
  cat("bw ", paste(format(x$bw, digits = 4L, trim = TRUE), collapse = ", "), "; density at ", format_count(nrow(x$at)), " points", sep = "")
  if (nrow(x$at) > 0L) cat(", ", paste(format(range(x$estimate), digits = 4L), collapse = " to "), sep = "")
  cat("\n")
  invisible(x)
}

# ---- regression ----

#' Regress by kernels
#'
#' The conditional mean of a response as a local mean (Nadaraya-Watson, `degree = 0`) or a local linear fit (`degree = 1`) with
#' Gaussian weights, exact and with linear memory.
#'
#' @param formula,data `response ~ inputs`, as in [stats::lm()].
#' @param bw Standard deviation of the weights, in the unit of the inputs: one number, or one for each input.
#' @param degree 0 or 1. Where a local linear fit is not determined by the points near enough to count, the local mean is taken.
#'
#' @return A list of class `keops_kreg`: `call`, `x`, `y`, `bw`, `degree`, `fitted.values`, `residuals` and parts of the formula. `predict()` gives a vector
#'   named by the rows of the new data; rows with missing values get `NA`. Weights are relative to the largest at each point, so that far
#'   from the data the prediction is that of the nearest points, never 0/0.
#'
#' @section Errors: `keops_error_input` for data, `bw` and `degree`.
#' @references
#' Fan, J., Gijbels, I. (1996). *Local Polynomial Modelling and Its Applications*. Chapman & Hall. \doi{10.1201/9780203748725}
#' @examples
#' fit <- keops_kreg(dist ~ speed, cars, bw = 2, degree = 1)
#' fit
#' predict(fit, data.frame(speed = c(5, 15, 25)))
#' @export
keops_kreg <- function(formula, data, bw, degree = 0L) {
  call <- sys.call()
  shown <- match.call()
  if (missing(bw)) stop_input("`bw`", "nothing", "a positive number, or one for each input", call)
  if (!is.numeric(degree) || length(degree) != 1L || !degree %in% 0:1) stop_input("`degree`", show_value(degree), "0 or 1", call)
  parts <- model_parts(shown, formula, if (!missing(data)) data, parent.frame())
  if (ncol(parts$x) == 0L) stop_input("`formula`", "no inputs", "response ~ inputs", call)
  x <- take_points(parts$x, "x", call)
  if (is.character(bw)) stop_input("`bw`", show_value(bw), "a positive number, or one for each input", call)
  y <- take_numbers(parts$y, nrow(x), "y", call)
  fit <- c(list(call = shown, x = x, y = y, bw = take_bandwidth(bw, x, call), degree = as.integer(degree)),
           parts[c("terms", "xlevels", "contrasts", "columns", "na.action")])
  fit$fitted.values <- stats::setNames(local_fit(fit, unname(x), call), rownames(x))
  fit$residuals <- stats::setNames(y - fit$fitted.values, rownames(x))
  structure(fit, class = "keops_kreg")
}

local_fit <- function(fit, at, call) {
  d <- ncol(at)
  if (nrow(at) == 0L) return(numeric())
  data <- list(at / rep(fit$bw, each = nrow(at)), unname(fit$x) / rep(fit$bw, each = nrow(fit$x)), fit$y)
  # weights are exp(-d^2/2) over their sum: local means of what stands in the second place
  means <- if (fit$degree == 0L) "b" else "Concat(Concat(b,b*(y-x)),Concat(y-x,TensorProd(y-x,y-x)))"
  op <- new_operator(sprintf("SumSoftMaxWeight_Reduction(-SqDist(x,y)/2,%s,1)", means),
                     c(sprintf(c("x=Vi(%d)", "y=Vj(%d)"), d), "b=Vj(1)"), list(), call)
  m <- op(data)
  if (fit$degree == 0L) return(m[, 1L])
  local_intercepts(m[, 1L], m[, 1L + seq_len(d), drop = FALSE], m[, 1L + d + seq_len(d), drop = FALSE],
                   m[, 1L + 2L * d + seq_len(d^2), drop = FALSE])
}

# The value at 0 of the weighted line, from weighted means of y, y u, u and u u' (u from the point): the mean less
# slope times the mean of u.
local_intercepts <- function(mean_y, mean_yu, mean_u, mean_uu) {
  d <- ncol(mean_u)
  vapply(seq_along(mean_y), function(i) {
    u <- mean_u[i, ]
    spread <- matrix(mean_uu[i, ], d) - tcrossprod(u)
    # what rounding leaves of a difference of equal numbers is no spread
    if (rcond(spread) < 1e-10 || min(diag(spread)) < 1e-10 * max(mean_uu[i, ])) return(mean_y[i])
    mean_y[i] - sum(u * solve(spread, mean_yu[i, ] - mean_y[i] * u))
  }, 0)
}

#' @rdname keops_kreg
#' @param object A fit.
#' @param newdata A data frame with the inputs. Left out: the fitted values.
#' @param na.action What to do with rows that hold missing values.
#' @param ... Not used; anything here is an error.
#' @export
predict.keops_kreg <- function(object, newdata, na.action = stats::na.pass, ...) {
  call <- sys.call()
  check_dots(call, ...)
  if (missing(newdata) || is.null(newdata)) return(object$fitted.values)
  rows <- predictable_rows(new_design(object, newdata, call), na.action, call)
  spread_rows(local_fit(object, unname(rows$x), call), rows)
}

#' @export
print.keops_kreg <- function(x, ...) {
  cat("<keops_kreg> ", if (x$degree == 0L) "local mean" else "local linear", ", ", format_count(nrow(x$x)), " points in ", ncol(x$x),
      if (ncol(x$x) == 1L) " dimension" else " dimensions", "\n", sep = "")
  cat("bw ", paste(format(x$bw, digits = 4L, trim = TRUE), collapse = ", "), "; residual standard deviation ",
      format(stats::sd(x$residuals), digits = 4L), "\n", sep = "")
  invisible(x)
}
