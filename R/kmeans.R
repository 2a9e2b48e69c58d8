# k-means and its kin: Lloyd's steps with the assignment on the engine.

#' Cluster points around k centres
#'
#' Lloyd's algorithm, from k-means++ or random starts: each point goes to its nearest centre, each centre to the middle of
#' its points, until no point moves. No matrix of points by centres is stored.
#'
#' @param x Points in rows: a numeric matrix n x D, a data frame of numbers, or a vector (one column).
#' @param centers The number of clusters k, or a matrix k x D of starting centres (used as given; `nstart` and `init` are then
#'   ignored). Columns are matched by name if both sides have names.
#' @param iter.max Largest number of Lloyd steps of a start.
#' @param nstart Number of starts; the one with the smallest `tot.withinss` is returned.
#' @param init `"kmeans++"` draws starting centres one by one, with probability proportional to what a point adds to the
#'   total; `"random"` draws distinct rows. Both use R's random numbers, see [set.seed()].
#' @param metric `"euclidean"`: squared distances are summed and centres are means. `"manhattan"`: distances are
#'   summed and centres are medians of each column. `"cosine"`: one minus the cosine is summed and centres are unit vectors
#'   (spherical k-means).
#' @param trace 1: one line a step.
#'
#' @return An object of class `c("keops_kmeans", "kmeans")` with the components of [stats::kmeans()], `cluster`,
#'   `centers`, `totss`, `withinss`, `tot.withinss`, `betweenss`, `size`, `iter`, `ifault` (2: stopped at `iter.max`), in this
#'   order, then `reseeded` (how often an empty cluster was moved to the point farthest from its centre), `metric` and `call`.
#'   `cluster` is an integer vector named by the rows of `x`; it names the nearest of the returned centres (lowest number
#'   among equals), so that `predict(fit, x)` is `fit$cluster`. `withinss` and `totss` are in the terms of the metric.
#'   No cluster is empty.
#'
#'   `predict()`: for new points the cluster, or a matrix of the distances to all centres (`type = "distance"`: not squared; one minus
#'   the cosine); rows with missing values get `NA`. `summary()`: a table with a row a cluster. `plot()`: the points coloured by cluster if
#'   `data` are given, else the profiles of the centres.
#'
#' @section Errors: `keops_error_input` for data that are not finite numbers, for more centres than distinct rows, for a zero row
#'   (cosine), for columns that do not match, for data so large that the sum of their (squared) distances is no finite number. `keops_warning_convergence` if `iter.max` steps were not enough.
#'
#' @references
#' Lloyd, S. P. (1982). Least squares quantization in PCM. *IEEE Transactions on Information Theory*, 28(2), 129-137.
#' \doi{10.1109/TIT.1982.1056489}
#'
#' Arthur, D., Vassilvitskii, S. (2007). k-means++: the advantages of careful seeding. *Proceedings of the 18th ACM-SIAM
#' Symposium on Discrete Algorithms*, 1027-1035.
#'
#' @examples
#' set.seed(1)
#' fit <- keops_kmeans(iris[, 1:4], 3, nstart = 5)
#' table(fit$cluster, iris$Species)
#' summary(fit)
#' predict(fit, iris[c(1, 100), ])
#' plot(fit, iris)
#' @export
keops_kmeans <- function(x, centers, iter.max = 100L, nstart = 1L, init = c("kmeans++", "random"),
                         metric = c("euclidean", "manhattan", "cosine"), trace = 0L) {
  call <- sys.call()
  shown <- match.call()
  init <- take_choice(init, c("kmeans++", "random"), "init", call)
  metric <- take_choice(metric, names(cluster_middles), "metric", call)
  iter.max <- take_count(iter.max, "iter.max", call)
  nstart <- take_count(nstart, "nstart", call)
  trace <- take_count(trace, "trace", call, low = 0L)
  x <- take_points(x, "x", call)
  if (missing(centers)) stop_input("`centers`", "nothing", "a number of clusters, or a matrix of centres", call)
  task <- cluster_task(x, metric, call)
  given <- !is.null(dim(centers)) || length(centers) != 1L
  if (given) {
    start <- match_points(centers, colnames(x), ncol(x), "centers", call)
    check_finite(start, "centers", call)
    start <- unname(task$prepare(start, "centers", call)) * task$scale
    k <- nrow(start)
    nstart <- 1L
  } else {
    k <- take_count(centers, "centers", call)
  }
  distinct <- count_distinct(task$x, k)
  if (k < 1L || k > distinct) {
    stop_input("`centers`", paste(format_count(k), "centres"),
               paste0("1 to ", format_count(distinct), ", as `x` has ", format_count(distinct), " distinct rows"), call)
  }
  best <- NULL
  for (run in seq_len(nstart)) {
    if (!given) start <- if (init == "random") random_centers(task, k) else spread_centers(task, k)
    fit <- lloyd(task, start, iter.max, trace)
    if (is.null(best) || fit$total < best$total) best <- fit
  }
  if (!best$converged) warn_convergence(paste0("k-means stopped after ", iter.max, " steps (`iter.max`) before it had converged"),
                                        call, iterations = best$iter, residual = best$moved)
  finish_kmeans(best, task, k, rownames(x), colnames(x), shown)
}

# Each makes the centres of clusters 1..nrow(old) of the rows of x. What it can't say (the sum of unit vectors is zero)
# stays as it was.
cluster_middles <- list(
  euclidean = function(x, label, old) engine_group_sums(x, label, nrow(old)) / tabulate(label, nrow(old)),
  manhattan = function(x, label, old) cluster_medians(x, label, nrow(old)),
  cosine = function(x, label, old) {
    sums <- engine_group_sums(x, label, nrow(old))
    size <- sqrt(rowSums(sums^2))
    known <- size > 1e-12 * tabulate(label, nrow(old))
    old[known, ] <- sums[known, , drop = FALSE] / size[known]
    old
  }
)

# The data with what each step needs: assign(centers) -> list(label, value).
cluster_task <- function(x, metric, call) {
  entry <- take_metric(metric, call)
  prepared <- unname(entry$prepare(x, "x", call))
  scale <- scale_metric(entry, prepared)$scale
  prepared <- prepared * scale
  nearest <- metric_operator(entry, "Min_ArgMin_Reduction(%s,1)", ncol(x), call)
  from <- distances_operator(entry, ncol(x), call)
  list(
    x = prepared, metric = entry, middle = cluster_middles[[metric]], prepare = entry$prepare, scale = scale,
    # sums and centres in the units of the data
    unscale = function(value) {
      for (power in seq_len(if (is.null(entry$degree)) 0L else entry$degree)) value <- value / scale
      if (all(is.finite(value))) return(value)
      stop_input("`x`", paste("values up to", format(max(abs(x)))), "values whose distances (squared, if euclidean) have a finite sum", call)
    },
    assign = function(centers) {
      found <- nearest(list(prepared, centers))
      if (anyNA(found$indices)) {
        stop_input("`x`", paste("values up to", format(max(abs(prepared)))), "values whose distances are finite numbers", call)
      }
      list(label = found$indices[, 1L], value = found$values[, 1L])
    },
    distances = function(center) from(list(center, prepared))[, 1L],
    give_up = function() {
      stop_input("`centers`", "more clusters than points that rounding can tell apart", "fewer clusters", call)
    }
  )
}

cluster_medians <- function(x, label, k) {
  size <- tabulate(label, k)
  first <- cumsum(size) - size
  low <- first + (size + 1L) %/% 2L
  high <- first + size %/% 2L + 1L
  out <- vapply(seq_len(ncol(x)), function(d) {
    sorted <- x[order(label, x[, d], method = "radix"), d]
    sorted[low] / 2 + sorted[high] / 2
  }, numeric(k))
  matrix(out, k)
}

# How many distinct rows x has; counting stops at `enough`.
count_distinct <- function(x, enough) {
  n <- nrow(x)
  size <- min(n, 2 * enough + 100)
  repeat {
    part <- x[seq_len(size), , drop = FALSE]
    part <- part[do.call(order, c(lapply(seq_len(ncol(x)), function(d) part[, d]), method = "radix")), , drop = FALSE]
    count <- 1L + sum(rowSums(part[-1L, , drop = FALSE] != part[-size, , drop = FALSE]) > 0)
    if (count >= enough || size == n) return(count)
    size <- min(n, 4 * size)
  }
}

# ---- starts ----

# Distinct rows in random order.
random_centers <- function(task, k) {
  order <- sample.int(nrow(task$x))
  taken <- integer()
  for (row in order) {
    fresh <- length(taken) == 0L ||
      all(colSums(t(task$x[taken, , drop = FALSE]) != task$x[row, ]) > 0)
    if (fresh) taken <- c(taken, row)
    if (length(taken) == k) break
  }
  task$x[taken, , drop = FALSE]
}

# k-means++: the next centre is a row drawn by what it would add to the total now.
spread_centers <- function(task, k) {
  n <- nrow(task$x)
  taken <- sample.int(n, 1L)
  value <- task$distances(task$x[taken, ])
  while (length(taken) < k) {
    total <- cumsum(value)
    # all mass gone although distinct rows are left: they differ by less than rounding
    row <- if (total[n] > 0) findInterval(stats::runif(1L) * total[n], total, left.open = TRUE) + 1L else sample.int(n, 1L)
    taken <- c(taken, min(row, n))
    value <- pmin(value, task$distances(task$x[taken[length(taken)], ]))
  }
  task$x[taken, , drop = FALSE]
}

# ---- steps ----

# list(centers, label, value, total, iter, converged, moved, reseeded). `label` and `value` belong to `centers`.
lloyd <- function(task, centers, iter_max, trace) {
  now <- fill_empty(task, centers, task$assign(centers))
  reseeded <- now$reseeded
  converged <- FALSE
  for (iter in seq_len(iter_max)) {
    before <- now
    centers <- task$middle(task$x, before$label, before$centers)
    now <- fill_empty(task, centers, task$assign(centers))
    reseeded <- reseeded + now$reseeded
    moved <- sum(now$label != before$label)
    if (trace > 0L) cat(sprintf("step %d: total %.10g, %d points moved\n", iter, task$unscale(sum(now$value)), moved))
    converged <- moved == 0L && now$reseeded == 0L
    if (converged) break
  }
  list(centers = now$centers, label = now$label, value = now$value, total = sum(now$value), iter = iter,
       converged = converged, moved = moved, reseeded = reseeded)
}

# Empty clusters move to the point farthest from its centre, one by one: each move lowers the total, so it ends.
fill_empty <- function(task, centers, found) {
  k <- nrow(centers)
  reseeded <- 0L
  repeat {
    empty <- which(tabulate(found$label, k) == 0L)
    if (length(empty) == 0L) break
    far <- which.max(found$value)
    if (found$value[far] <= 0) far <- lonely_point(task$x, centers, found$label)
    centers[empty[1L], ] <- task$x[far, ]
    reseeded <- reseeded + 1L
    found <- task$assign(centers)
    if (reseeded > 10L * k + 100L) task$give_up()
  }
  list(centers = centers, label = found$label, value = found$value, reseeded = reseeded)
}

# A row that is none of the centres, where all distances are 0 by rounding only.
lonely_point <- function(x, centers, label) {
  which(rowSums(x != centers[label, , drop = FALSE]) > 0)[1L]
}

finish_kmeans <- function(fit, task, k, rows, columns, call) {
  size <- tabulate(fit$label, k)
  within <- task$unscale(as.vector(rowsum(fit$value, fit$label)))
  one <- task$middle(task$x, rep(1L, nrow(task$x)), task$x[1L, , drop = FALSE])
  totss <- if (k == 1L) sum(within) else task$unscale(sum(task$distances(one[1L, ])))
  structure(
    class = c("keops_kmeans", "kmeans"),
    list(
      cluster = stats::setNames(fit$label, rows),
      centers = matrix(fit$centers / task$scale, k, dimnames = list(seq_len(k), columns)),
      totss = totss, withinss = within, tot.withinss = sum(within), betweenss = totss - sum(within), size = size,
      iter = fit$iter, ifault = if (fit$converged) 0L else 2L,
      reseeded = fit$reseeded, metric = task$metric$name, call = call
    )
  )
}

# ---- methods ----

#' @rdname keops_kmeans
#' @param object,newdata A fit, and new points, as `x`. Left out: the points of the fit (`type = "cluster"` only).
#' @param type `"cluster"` or `"distance"`.
#' @param na.action What to do with rows that hold missing values, see [stats::na.pass()].
#' @param ... Not used by `predict()` and `summary()`, where anything here is an error; graphical parameters for `plot()`.
#' @export
predict.keops_kmeans <- function(object, newdata, type = c("cluster", "distance"), na.action = stats::na.pass, ...) {
  call <- sys.call()
  check_dots(call, ...)
  type <- take_choice(type, c("cluster", "distance"), "type", call)
  if (missing(newdata) || is.null(newdata)) {
    if (type == "cluster") return(object$cluster)
    stop_input("`newdata`", "nothing", "points: a fit does not keep those it was made from", call)
  }
  centers <- object$centers
  new <- match_points(newdata, colnames(centers), ncol(centers), "newdata", call)
  rows <- predictable_rows(new, na.action, call)
  entry <- take_metric(object$metric, call)
  rows$x <- unname(entry$prepare(rows$x, "newdata", call))
  scaled <- scale_metric(entry, rows$x, centers)
  rows$x <- rows$x * scaled$scale
  centers <- centers * scaled$scale
  entry <- scaled$metric
  spread_rows(if (nrow(rows$x) == 0L) no_clusters(type, centers)
              else if (type == "cluster") nearest_center(rows$x, unname(centers), entry, call)
              else center_distances(rows$x, centers, entry, call), rows)
}

no_clusters <- function(type, centers) {
  if (type == "cluster") integer() else matrix(0, 0L, nrow(centers), dimnames = list(NULL, rownames(centers)))
}

nearest_center <- function(x, centers, metric, call) {
  metric_operator(metric, "Min_ArgMin_Reduction(%s,1)", ncol(x), call)(list(x, centers))$indices[, 1L]
}

center_distances <- function(x, centers, metric, call) {
  op <- distances_operator(metric, ncol(x), call)
  out <- vapply(seq_len(nrow(centers)), function(k) metric$finish(op(list(centers[k, ], x))[, 1L]), numeric(nrow(x)))
  matrix(out, nrow(x), dimnames = list(NULL, rownames(centers)))
}

#' @rdname keops_kmeans
#' @export
summary.keops_kmeans <- function(object, ...) {
  check_dots(sys.call(), ...)
  clusters <- data.frame(size = object$size, withinss = object$withinss, mean = object$withinss / object$size)
  explained <- if (object$totss > 0) object$betweenss / object$totss else NA_real_
  structure(class = "summary.keops_kmeans",
            c(object[c("call", "metric", "totss", "tot.withinss", "iter", "ifault", "reseeded")],
              list(clusters = clusters, explained = explained)))
}

#' @export
print.summary.keops_kmeans <- function(x, ...) {
  cat("k-means of ", format_count(sum(x$clusters$size)), " points, ", nrow(x$clusters), " clusters, metric ", x$metric, "\n", sep = "")
  shown <- utils::head(x$clusters, 8L)
  print(shown, digits = 4L)
  if (nrow(shown) < nrow(x$clusters)) cat("... and ", nrow(x$clusters) - nrow(shown), " more in `clusters`\n", sep = "")
  cat("total within ", format(x$tot.withinss, digits = 6L), " of ", format(x$totss, digits = 6L), " (", format(100 * x$explained, digits = 3L),
      " % explained); ", x$iter, " steps", if (x$ifault == 2L) ", not converged", "\n", sep = "")
  invisible(x)
}

#' @rdname keops_kmeans
#' @param data Points to show: those of the fit, or others with the same columns. `NULL`: the centres only.
#' @param columns Two columns of the data, the axes of the plot.
#' @importFrom graphics plot
#' @export
plot.keops_kmeans <- function(x, data = NULL, columns = 1:2, ...) {
  centers <- x$centers
  k <- nrow(centers)
  if (is.null(data)) {
    labels <- if (is.null(colnames(centers))) seq_len(ncol(centers)) else colnames(centers)
    graphics::matplot(t(centers), type = "b", pch = 19, lty = 1, xaxt = "n", xlab = "", ylab = "centre", ...)
    graphics::axis(1, seq_along(labels), labels)
    return(invisible(x))
  }
  label <- stats::predict(x, data)
  shown <- match_points(data, colnames(centers), ncol(centers), "data", sys.call())
  if (ncol(shown) < 2L) {
    shown <- cbind(index = seq_len(nrow(shown)), shown)
    centers <- cbind(nrow(shown) / 2, centers)
  }
  colours <- grDevices::hcl.colors(k, "Dark 3")
  plot(shown[, columns], col = colours[label], pch = 20, ...)
  graphics::points(centers[, columns, drop = FALSE], pch = 4, cex = 2, lwd = 2)
  invisible(x)
}
