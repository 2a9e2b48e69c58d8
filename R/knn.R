# Nearest neighbours: exact search by brute force on the engine, and the models that stand on it.

#' Find the nearest neighbours of each point
#'
#' Finds, for each row of `query`, the `k` rows of `x` at the smallest distances, exactly, comparing all pairs and
#' storing only the answer.
#'
#' @param x Points in rows: a numeric matrix n x D, a data frame of numbers, or a vector (one column).
#' @param query Points whose neighbours are sought, m x D. Columns are matched by name if both sides have names, else
#'   by position. `NULL`: the rows of `x`, and then row i never lists itself, by index (a duplicate of it
#'   may stand there at distance 0). With `query` nothing is left out, even if `query` is `x`.
#' @param k Number of neighbours: at most n - 1, or n with a `query`.
#' @param metric `"euclidean"`, `"manhattan"`, `"maximum"`, `"cosine"` (one minus the cosine), `"correlation"` (one minus
#'   the correlation of the two rows), or a formula in x and y of the language [keops_formula], with one component: the
#'   smaller, the nearer. `"Sum(Abs(x-y)/(Abs(x)+Abs(y)))"` is the Canberra distance.
#' @param ranges An object of [keops_ranges()], m x n: only these pairs are compared. Points with fewer than `k` neighbours there get `NA` at
#'   the distance `Inf`. `NULL`: all pairs.
#' @param ... Settings of this call: `precision`, `device`, `backend`, `threads`, see [keops_options()].
#'
#' @return A list of class `keops_knn`:
#'   \describe{
#'     \item{`nn.index`}{integer matrix m x k: rows of `x`, counted from 1, the nearest first. Among equal distances the
#'       lower index comes first, on any number of threads.}
#'     \item{`nn.dist`}{matrix m x k of the distances (not their squares)}
#'     \item{`k`, `metric`}{as given}
#'   }
#'   Both matrices have the row names of `query` (of `x` if there is none). Where a formula gives `NaN`, a point counts as
#'   no neighbour; places left over hold `NA` and `Inf`.
#'
#' @section Errors: `keops_error_input` for data that are not finite numbers, with argument, row and column; for columns
#'   that do not match; for neighbours nearer than 1e-150 times the largest number, whose squared distance is lost (euclidean); for `k`; for a zero row (cosine) or a constant row (correlation), which has no such distance; if
#'   the answer would hold more than 2^31 - 1 neighbours. `keops_error_parse` for a formula.
#'
#' @seealso [keops_frnn()] for all neighbours within a radius, [keops_knn_fit()] for prediction.
#' @examples
#' x <- as.matrix(iris[, 1:4])
#' near <- keops_knn(x, k = 3)
#' head(near$nn.index)
#' # how often the nearest flower is of the same species
#' mean(iris$Species[near$nn.index[, 1]] == iris$Species)
#'
#' keops_knn(x, query = x[1:2, ] + 0.1, k = 2, metric = "manhattan")$nn.dist
#' @export
keops_knn <- function(x, query = NULL, k = 10L, metric = "euclidean", ranges = NULL, ...) {
  call <- sys.call()
  settings <- check_settings(list(...), call_settings, call)
  metric <- take_metric(metric, call)
  sides <- search_sides(x, query, metric, call)
  check_k(k, nrow(sides$x), is.null(query), call)
  if (!is.null(ranges)) check_once(ranges, c(nrow(if (is.null(query)) sides$x else sides$query), nrow(sides$x)), call)
  found <- nearest(sides$x, sides$query, as.integer(k), metric, call, settings, ranges)
  structure(
    class = "keops_knn",
    list(nn.index = found$index, nn.dist = found$dist, k = as.integer(k), metric = metric$name)
  )
}

# Both sides of a search, ready for the metric: list(x, query), query NULL if points search among themselves.
search_sides <- function(x, query, metric, call) {
  x <- take_points(x, "x", call)
  if (!is.null(query)) {
    query <- match_points(query, colnames(x), ncol(x), "query", call)
    check_finite(query, "query", call)
    query <- metric$prepare(query, "query", call)
  }
  list(x = metric$prepare(x, "x", call), query = query)
}

# Ranges of this size that show no row an item twice: it would be its neighbour twice.
check_once <- function(ranges, sizes, call) {
  check_ranges(ranges, sizes, call)
  side <- ranges$i
  count <- length(side$items) %/% 2L
  start <- side$items[2L * seq_len(count) - 1L]
  end <- side$items[2L * seq_len(count)]
  later <- setdiff(seq_len(count), c(1, side$slices + 1)) # not the first of its cluster
  if (any(start[later] < end[later - 1L])) {
    stop_input("`ranges`", "intervals that hold an item twice", "each pair once, as keops_ranges() makes them", call)
  }
}

check_k <- function(k, n, self, call) {
  most <- n - self
  ok <- is.numeric(k) && length(k) == 1L && !is.na(k) && k >= 1 && k == floor(k)
  if (!ok) stop_input("`k`", show_value(k), paste0("a whole number, 1 to ", format_count(most)), call)
  if (k > most) {
    message <- paste0(
      "k = ", format_count(k), " but only ", format_count(most), if (self) " other", " points are available (n = ",
      format_count(n), if (self) ", the point itself excluded", ")"
    )
    stop(keops_condition("input", message, call, arg = "`k`", found = k, expected = most))
  }
}

# list(index, dist), nrow(query) x k. Points searching among themselves (query NULL) are left out by index: of
# the k + 1 nearest the point itself goes, or the last if others at equal distances came before it.
nearest <- function(x, query, k, metric, call, settings = list(), ranges = NULL) {
  self <- is.null(query)
  if (self) query <- x
  m <- nrow(query)
  if (as.double(m) * k > .Machine$integer.max) {
    stop_input("`k`", paste0(format_count(k), " for ", format_count(m), " points: ",
                             format(signif(as.double(m) * k * 12 / 2^30, 3)), " GB"),
               "at most 2^31 - 1 neighbours in one answer; search for a part of the rows at a time", call)
  }
  names <- if (!is.null(rownames(query))) list(rownames(query), NULL)
  if (m == 0L) {
    return(list(index = matrix(0L, 0L, k, dimnames = names), dist = matrix(0, 0L, k, dimnames = names)))
  }
  scaled <- scale_metric(metric, x, query)
  metric <- scaled$metric
  if (scaled$scale != 1) {
    x <- x * scaled$scale
    query <- query * scaled$scale
  }
  op <- metric_operator(metric, sprintf("KMin_ArgKMin_Reduction(%%s,%d,1)", k + self), ncol(x), call, settings = settings)
  found <- op(list(query, x), ranges = ranges)
  index <- found$indices
  value <- found$values
  if (self) {
    own <- index == seq_len(m)
    own[is.na(own)] <- FALSE
    drop <- ifelse(rowSums(own) > 0L, max.col(own, "first"), k + 1L)
    keep <- rep(seq_len(k), each = m)
    keep <- keep + (keep >= drop)
    at <- cbind(rep(seq_len(m), k), keep)
    index <- matrix(index[at], m, k)
    value <- matrix(value[at], m, k)
  }
  check_resolved(value, rep(seq_len(m), k), as.vector(index), query, x, metric, call_precision(settings), call)
  dimnames(index) <- dimnames(value) <- names
  list(index = index, dist = metric$finish(value))
}

call_precision <- function(settings) if (is.null(settings$precision)) setting("precision") else settings$precision

#' @export
print.keops_knn <- function(x, ...) {
  cat("<keops_knn> ", format_count(nrow(x$nn.index)), " points, ", x$k, " nearest, metric ", x$metric, "\n", sep = "")
  if (nrow(x$nn.dist) > 0L) {
    cat("distances to the nearest: ", paste(format(range(x$nn.dist[, 1L]), digits = 4L), collapse = " to "),
        "; to number ", x$k, ": ", paste(format(range(x$nn.dist[, x$k]), digits = 4L), collapse = " to "), "\n", sep = "")
  }
  cat("in nn.index (rows of x, from 1) and nn.dist\n")
  invisible(x)
}

# ---- all within a radius ----

#' Find all neighbours within a radius
#'
#' Finds, for each row of `query`, all rows of `x` at a distance of at most `radius`, exactly: neighbours are
#' counted first, then fetched, so that only the answer is stored.
#'
#' @inheritParams keops_knn
#' @param radius The largest distance that counts, in the unit of the metric: one number, at least 0.
#' @param sort `TRUE`: the nearest first (equal distances: lower index first). `FALSE`: in the order of the rows of `x`.
#'
#' @return A list of class `keops_frnn`: `id`, a list with an integer vector of rows of `x` for each query point (empty
#'   where nothing is near), `dist`, the distances in the same shape, `radius`, `metric`. Both lists are named by
#'   the row names of `query` (of `x` if there is none).
#'
#' @section Errors: `keops_error_input`, as for [keops_knn()].
#'
#' @seealso [keops_knn()]
#' @examples
#' near <- keops_frnn(matrix(c(0, 1, 2, 4)), radius = 1.5)
#' near$id
#' lengths(keops_frnn(iris[, 1:4], radius = 0.5)$id) # how crowded each flower is
#' @export
keops_frnn <- function(x, query = NULL, radius, metric = "euclidean", sort = TRUE) {
  call <- sys.call()
  if (missing(radius)) stop_input("`radius`", "nothing", "one number, at least 0", call)
  radius <- take_number(radius, "radius", call, low = 0)
  sort <- take_flag(sort, "sort", call)
  metric <- take_metric(metric, call)
  sides <- search_sides(x, query, metric, call)
  found <- within_radius(sides$x, sides$query, radius, metric, sort, call)
  structure(class = "keops_frnn", c(found, list(radius = radius, metric = metric$name)))
}

# Up to so many neighbours a row are fetched for many rows at once, as the K least; more, row by row.
max_listed <- 256L

within_radius <- function(x, query, radius, metric, sort, call) {
  self <- is.null(query)
  if (self) query <- x
  m <- nrow(query)
  id <- rep(list(integer()), m)
  dist <- rep(list(numeric()), m)
  names(id) <- names(dist) <- rownames(query)
  query <- unname(query)
  scaled <- scale_metric(metric, x, query)
  metric <- scaled$metric
  x <- x * scaled$scale
  query <- query * scaled$scale
  bound <- metric$bound(radius)
  if (m > 0L) {
    counting <- metric_operator(metric, "Sum_Reduction(LessOrEqual(%s,r),1)", ncol(x), call, more = "r=Pm(1)")
    count <- counting(list(query, unname(x), bound))[, 1L]
  }
  take <- function(row, index, value) {
    keep <- which(value <= bound & !(self & index == row))
    if (!sort) keep <- keep[order(index[keep])]
    check_resolved(value[keep], rep(row, length(keep)), index[keep], query, x, metric, call_precision(list()), call)
    id[[row]] <<- index[keep]
    dist[[row]] <<- metric$finish(value[keep])
  }
  size <- if (m > 0L) pmin(2^ceiling(log2(pmax(count, 1))), nrow(x)) # rows of like counts together
  for (k in sort(unique(size[count > 0]))) {
    rows <- which(size == k & count > 0)
    if (k <= max_listed) fetch_least(x, query, rows, k, metric, take, call)
    else fetch_rows(x, query, rows, metric, sort, take, call)
  }
  list(id = id, dist = dist)
}

fetch_least <- function(x, query, rows, k, metric, take, call) {
  op <- metric_operator(metric, sprintf("KMin_ArgKMin_Reduction(%%s,%d,1)", k), ncol(x), call)
  for (block in row_blocks(length(rows), k)) {
    found <- op(list(query[rows[block], , drop = FALSE], x))
    for (b in seq_along(block)) {
      filled <- !is.na(found$indices[b, ])
      take(rows[block[b]], unname(found$indices[b, filled]), unname(found$values[b, filled]))
    }
  }
}

# All distances of one row at a time.
fetch_rows <- function(x, query, rows, metric, sort, take, call) {
  op <- distances_operator(metric, ncol(x), call)
  for (row in rows) {
    value <- op(list(query[row, ], unname(x)))[, 1L]
    index <- if (sort) order(value) else seq_along(value)
    take(row, index, value[index])
  }
}

# The distances of one point, the parameter x, to all points y, by row.
distances_operator <- function(metric, d, call) {
  new_operator(sprintf("Sum_Reduction(%s,0)", metric$text), sprintf(c("x=Pm(%d)", "y=Vj(%d)"), d), list(), call)
}

# 1..n in pieces of about 4 million entries when each row has `width` of them.
row_blocks <- function(n, width, entries = 2^22) {
  size <- max(1, floor(entries / max(width, 1)))
  unname(split(seq_len(n), (seq_len(n) - 1) %/% size))
}

#' @export
print.keops_frnn <- function(x, ...) {
  n <- lengths(x$id)
  cat("<keops_frnn> ", format_count(length(n)), " points, all within ", format(x$radius), ", metric ", x$metric, "\n", sep = "")
  if (length(n) > 0L) {
    cat("neighbours: ", format_count(sum(n)), " in all, ", min(n), " to ", max(n), " a point\n", sep = "")
  }
  cat("in the lists id (rows of x, from 1) and dist\n")
  invisible(x)
}

# ---- prediction from neighbours ----

#' Predict from the nearest neighbours
#'
#' `keops_knn_fit()` keeps points and what was observed at them; `predict()` answers for a new point with the vote
#' (classes) or the mean (numbers) of its `k` nearest neighbours, found exactly by [keops_knn()].
#'
#' @param x A formula `response ~ inputs`, or points in rows, n x D, as in [keops_knn()].
#' @param y The response, one value a row: a factor (characters and logicals become one) for classes, numbers for
#'   regression.
#' @param formula,data,subset,na.action As in [stats::lm()]. Factors among the inputs enter by their contrasts
#'   (see [stats::model.matrix()]), without an intercept. The inputs are not scaled.
#' @param k Number of neighbours, 1 to n - 1.
#' @param metric As in [keops_knn()].
#' @param weights How neighbours count: `"uniform"`, all alike; `"inverse"`, by 1/d (neighbours at distance 0, where there are
#'   some, count alone); `"gaussian"`, by exp(-(d/h)^2/2) with h the distance of the k-th neighbour.
#' @param ... Not used; anything here is an error.
#'
#' @return An object of class `keops_knn_fit`: a list with `call`, `x`, `y`, `k`, `metric`, `weights`,
#'   `fitted.values` and `residuals`, and for a formula `terms`, `xlevels`, `contrasts`, `na.action`. `fitted()` and
#'   `residuals()` are leave-one-out: a point does not count among its own neighbours. The residual of a class is one minus
#'   the share of the votes for the class observed.
#'
#'   `predict()` gives a vector named by the rows of the new data: numbers for regression; for classes a factor with the levels of `y`
#'   (`type = "class"`) or a matrix with one column a level, rows adding up to 1 (`"prob"`). Classes that tie go to
#'   that of the nearest neighbour among the tied. Rows with missing values get `NA`.
#'
#' @section Errors: `keops_error_input`, as for [keops_knn()], and for `y` and columns missing in `newdata`.
#'
#' @examples
#' set.seed(1)
#' train <- sample(150, 100)
#' fit <- keops_knn_fit(Species ~ ., iris[train, ], k = 7)
#' fit
#' table(predict(fit, iris[-train, ]), iris$Species[-train])
#' head(predict(fit, iris[-train, ], type = "prob"))
#'
#' smooth <- keops_knn_fit(dist ~ speed, cars, k = 5, weights = "gaussian")
#' predict(smooth, data.frame(speed = c(10, 15, 20)))
#' @export
keops_knn_fit <- function(x, ...) UseMethod("keops_knn_fit")

#' @rdname keops_knn_fit
#' @export
keops_knn_fit.formula <- function(formula, data, subset, na.action, k = 5L, metric = "euclidean",
                                  weights = c("uniform", "inverse", "gaussian"), ...) {
  call <- match.call(expand.dots = FALSE)
  shown <- sys.call(-1L)
  check_dots(shown, ...)
  if (missing(data)) data <- NULL
  parts <- model_parts(call, formula, data, parent.frame())
  if (ncol(parts$x) == 0L) stop_input("`formula`", "no inputs", "response ~ inputs", shown)
  fit <- fit_neighbours(parts$x, parts$y, k, metric, take_choice(weights, weight_kinds, "weights", shown), shown)
  fit$call <- rename_call(call, "keops_knn_fit")
  structure(c(fit, parts[c("terms", "xlevels", "contrasts", "columns", "na.action")]), class = "keops_knn_fit")
}

#' @rdname keops_knn_fit
#' @export
keops_knn_fit.default <- function(x, y, k = 5L, metric = "euclidean",
                                  weights = c("uniform", "inverse", "gaussian"), ...) {
  call <- match.call(expand.dots = FALSE)
  shown <- sys.call(-1L)
  check_dots(shown, ...)
  if (missing(y)) stop_input("`y`", "nothing", "the response, one value for each row of `x`", shown)
  fit <- fit_neighbours(x, y, k, metric, take_choice(weights, weight_kinds, "weights", shown), shown)
  fit$call <- rename_call(call, "keops_knn_fit")
  structure(fit, class = "keops_knn_fit")
}

weight_kinds <- c("uniform", "inverse", "gaussian")

rename_call <- function(call, name) {
  call[[1L]] <- as.name(name)
  call
}

fit_neighbours <- function(x, y, k, metric, weights, call) {
  x <- take_points(x, "x", call)
  y <- take_response(y, nrow(x), call)
  metric <- take_metric(metric, call)
  check_k(k, nrow(x), TRUE, call)
  fit <- list(call = NULL, x = x, y = y, k = as.integer(k), metric = metric$name, weights = weights)
  own <- combine(fit, nearest(metric$prepare(x, "x", call), NULL, fit$k, metric, call))
  if (is.factor(y)) {
    fit$fitted.values <- own$class
    fit$residuals <- 1 - own$prob[cbind(seq_along(y), as.integer(y))]
  } else {
    fit$fitted.values <- own$mean
    fit$residuals <- y - own$mean
  }
  names(fit$fitted.values) <- names(fit$residuals) <- rownames(x)
  fit
}

take_response <- function(y, n, call) {
  if (is.character(y) || is.logical(y)) y <- factor(y)
  if (is.matrix(y) && ncol(y) == 1L) y <- y[, 1L]
  if (!is.factor(y) && !(is.numeric(y) && is.null(dim(y)))) {
    stop_input("`y`", describe(y), "numbers or a factor, one value a row", call)
  }
  if (length(y) != n) stop_input("`y`", paste(format_count(length(y)), "values"), paste(format_count(n), "values, one for each row of `x`"), call)
  if (is.factor(y)) {
    if (anyNA(y)) stop_input("`y`", paste("NA in row", which(is.na(y))[1L]), "no missing values", call)
    return(unname(y))
  }
  y <- as.double(y)
  check_finite(y, "y", call)
  y
}

# What neighbours say: list(class, prob) or list(mean).
combine <- function(fit, near) {
  m <- nrow(near$index)
  w <- neighbour_weights(near$dist, fit$weights)
  if (!is.factor(fit$y)) return(list(mean = rowSums(w * matrix(fit$y[near$index], m)) / rowSums(w)))
  levels <- levels(fit$y)
  code <- matrix(as.integer(fit$y)[near$index], m)
  votes <- vapply(seq_along(levels), function(l) rowSums(w * (code == l)), numeric(m))
  prob <- matrix(votes, m, length(levels), dimnames = list(rownames(near$index), levels)) / rowSums(w)
  best <- row_maxima(prob)
  # of classes with as many votes, up to rounding, that of the nearest
  tied <- matrix(prob[cbind(rep(seq_len(m), fit$k), as.vector(code))], m) >= best * (1 - 1e-12)
  list(class = factor(levels[code[cbind(seq_len(m), max.col(tied, "first"))]], levels), prob = prob)
}

neighbour_weights <- function(d, kind) {
  if (kind == "inverse") {
    zero <- d == 0
    w <- 1 / d
    alone <- rowSums(zero) > 0
    w[alone, ] <- zero[alone, ]
    # scaled by the nearest, so that tiny distances do not overflow
    w[!alone, ] <- d[!alone, 1L] / d[!alone, , drop = FALSE]
    return(w)
  }
  if (kind == "gaussian") {
    h <- d[, ncol(d)]
    return(exp(-(d / ifelse(h > 0, h, 1))^2 / 2))
  }
  array(1, dim(d))
}

#' @rdname keops_knn_fit
#' @param object A fit.
#' @param newdata New points: a data frame for a fit by formula, else as `x`. Left out: the leave-one-out fit.
#' @param type `"response"` (numbers, or the class), `"class"` or `"prob"`.
#' @export
predict.keops_knn_fit <- function(object, newdata, type = c("response", "class", "prob"), na.action = stats::na.pass, ...) {
  call <- sys.call()
  check_dots(call, ...)
  type <- take_choice(type, c("response", "class", "prob"), "type", call)
  if (!is.factor(object$y) && type != "response") {
    stop_input("`type`", show_value(type), "\"response\" for a fit of numbers", call)
  }
  metric <- take_metric(object$metric, call)
  x <- metric$prepare(object$x, "x", call)
  if (missing(newdata) || is.null(newdata)) {
    if (type != "prob") return(object$fitted.values)
    return(combine(object, nearest(x, NULL, object$k, metric, call))$prob)
  }
  new <- if (is.null(object$terms)) match_points(newdata, colnames(object$x), ncol(object$x), "newdata", call)
         else new_design(object, newdata, call)
  rows <- predictable_rows(new, na.action, call)
  said <- combine(object, nearest(x, metric$prepare(rows$x, "newdata", call), object$k, metric, call))
  spread_rows(if (!is.factor(object$y)) said$mean else if (type == "prob") said$prob else said$class, rows)
}

#' @export
print.keops_knn_fit <- function(x, ...) {
  classes <- is.factor(x$y)
  cat("<keops_knn_fit> ", if (classes) paste(nlevels(x$y), "classes") else "regression", ", ", x$k, " nearest of ",
      format_count(nrow(x$x)), " points in ", ncol(x$x), if (ncol(x$x) == 1L) " dimension" else " dimensions", "\n", sep = "")
  cat("metric ", x$metric, ", weights ", x$weights, "\n", sep = "")
  if (classes) cat("leave-one-out error rate: ", format(mean(x$fitted.values != x$y), digits = 4L), "\n", sep = "")
  else cat("leave-one-out RMSE: ", format(sqrt(mean(x$residuals^2)), digits = 4L), "\n", sep = "")
  invisible(x)
}
