# Block-sparse ranges: which pairs an operator visits, and the clusters of points they are made of.
#
# A keops_ranges is list(dim, i, j): `i` says which items j the rows i see, `j` which items i the rows j see
# (the same pairs the other way round). Each is list(rows, slices, items) as the engine reads it: borders of
# half-open intervals counted from 0, two a cluster in `rows` and two an interval in `items`; `slices` holds
# the cumulated numbers of intervals. Intervals of a cluster are in increasing order.

#' Choose the pairs that an operator visits
#'
#' Makes an object that restricts an operator of [keops_kernel()] to blocks of pairs (i, j), with
#' `op(args, ranges = r)`: reductions and gradients run over these pairs only, and the work for the others is
#' not done. The blocks are clusters of neighbouring rows, so points are sorted by clusters first
#' ([sort_clusters()]).
#'
#' @param cluster_i,cluster_j Labels of the clusters of the M rows of the i-variables and of the N rows of
#'   the j-variables: whole numbers from 1, in increasing order. `cluster_j = NULL`: the same as `cluster_i`.
#' @param keep Logical matrix, clusters of i x clusters of j: `TRUE` where the pairs of two clusters are
#'   visited.
#' @param rows Matrix with two columns, the first and the last row i of each of K clusters, both included
#'   and counted from 1. Clusters must not overlap, and need not cover all rows.
#' @param slices Vector of length K, not decreasing: cluster k sees the intervals `slices[k - 1] + 1` to
#'   `slices[k]` of `items` (from 1 for the first cluster). Two equal numbers in a row: the second cluster
#'   sees nothing.
#' @param items Matrix with two columns, the first and the last j of each interval, both included. Intervals
#'   of one cluster may overlap or repeat: their pairs are then counted as often.
#' @param dim The numbers of rows of i and of j, `c(M, N)`.
#' @param x An object of class `keops_ranges`.
#' @param ... Not used.
#'
#' @details Reductions over j give each row i the items of its cluster; reductions over i give each row j
#'   the rows that see it, and gradients follow: `ranges` of an operator are those of its gradients. Rows
#'   that see nothing get what an empty reduction gives: a sum of 0, a minimum of `Inf`, a `LogSumExp` of
#'   `-Inf`, an index of `NA`. Where a formula does not depend on j, `Sum_Reduction(f, 1)` counts the items
#'   that a row sees. Indices are those of the whole data.
#'
#'   `t(r)` swaps the roles of i and j. `dim(r)` is `c(M, N)`.
#'
#' @return An object of class `keops_ranges`. It holds plain numbers and can be saved. Its size grows with
#'   the numbers of clusters and of intervals (for `keops_ranges_raw()` whose intervals overlap in many ways,
#'   with the number of pieces they cut each other into).
#'
#' @section Errors: `keops_error_input` for labels that are not sorted, a `keep` of another size, intervals
#'   outside the data, clusters of rows that overlap; and by the operator for ranges whose size is not that of
#'   its data.
#'
#' @references
#' Feydy, J., Glaunès, J. A., Charlier, B., Bronstein, M. M. (2020). Fast geometric learning with symbolic
#' matrices. *Advances in Neural Information Processing Systems*, 33, 14448-14462.
#'
#' @seealso [grid_cluster()] for clusters.
#'
#' @examples
#' # A Gaussian kernel sum whose far pairs are left out, coarse to fine: cubes of side 0.1 are clusters, and
#' # two of them see each other if their centres are closer than 6 s plus the cubes' diagonal.
#' set.seed(1)
#' s <- 0.05
#' x <- matrix(runif(3000), ncol = 2)
#' y <- matrix(runif(4000), ncol = 2)
#' b <- rnorm(nrow(y))
#' i <- sort_clusters(x, grid_cluster(x, 0.1))
#' j <- sort_clusters(list(y, b), grid_cluster(y, 0.1))
#' centre_i <- cluster_centroids(i$x, i$cluster)
#' centre_j <- cluster_centroids(j$x[[1]], j$cluster)
#' distance <- sqrt(outer(centre_i[, 1], centre_j[, 1], "-")^2 + outer(centre_i[, 2], centre_j[, 2], "-")^2)
#' r <- keops_ranges(i$cluster, j$cluster, keep = distance < 6 * s + 0.1 * sqrt(2))
#' r
#' op <- keops_kernel("Sum_Reduction(Exp(-g * SqDist(x, y)) * b, 1)",
#'                    c("x=Vi(2)", "y=Vj(2)", "b=Vj(1)", "g=Pm(1)"))
#' args <- list(i$x, j$x[[1]], j$x[[2]], 1 / (2 * s^2))
#' max(abs(op(args, ranges = r) - op(args)))
#'
#' # back in the order of x
#' a <- op(args, ranges = r)
#' a[i$order, ] <- a
#' @export
keops_ranges <- function(cluster_i, cluster_j = NULL, keep) {
  call <- sys.call()
  if (missing(cluster_i)) cluster_i <- NULL
  if (missing(keep)) keep <- NULL
  i <- check_sorted(check_labels(cluster_i, "`cluster_i`", call), "`cluster_i`", call)
  j <- if (is.null(cluster_j)) i else check_sorted(check_labels(cluster_j, "`cluster_j`", call), "`cluster_j`", call)
  clusters <- c(max(i, 0), max(j, 0))
  if (!is.logical(keep) || length(dim(keep)) != 2L || any(dim(keep) < clusters)) {
    stop_input("`keep`", describe(keep), paste("a logical matrix, clusters of i x clusters of j:", size_text(clusters)),
               call)
  }
  if (anyNA(keep)) stop_input("`keep`", "NA", "TRUE or FALSE for each pair of clusters", call)
  i <- label_borders(i, nrow(keep))
  j <- label_borders(j, ncol(keep))
  new_ranges(c(i[length(i)], j[length(j)]), kept_ranges(i, j, keep), kept_ranges(j, i, t(keep)))
}

#' @rdname keops_ranges
#' @export
keops_ranges_raw <- function(rows, slices, items, dim) {
  call <- sys.call()
  size <- check_counts(if (!missing(dim)) dim, "`dim`", call)
  if (length(size) != 2L) stop_input("`dim`", describe(dim), "two numbers, c(M, N)", call)
  rows <- check_intervals(if (!missing(rows)) rows, size[1L], "`rows`", call)
  items <- check_intervals(if (!missing(items)) items, size[2L], "`items`", call)
  slices <- check_counts(if (!missing(slices)) slices, "`slices`", call)
  if (length(slices) != nrow(rows)) {
    stop_input("`slices`", paste(length(slices), "numbers"), paste0(nrow(rows), ", one for each row of `rows`"), call)
  }
  if (is.unsorted(slices) || max(slices, 0) != nrow(items)) {
    stop_input("`slices`", paste("numbers that", if (is.unsorted(slices)) "decrease" else paste("end with", max(slices, 0))),
               paste("numbers that do not decrease and end with the number of rows of `items`,", nrow(items)), call)
  }
  number <- rep(seq_len(nrow(rows)), diff(c(0, slices))) # cluster of each interval
  sorted <- order(rows[, 1L])
  check_apart(rows[sorted, , drop = FALSE], sorted, call)
  number <- match(number, sorted)
  items <- items[order(number, items[, 1L]), , drop = FALSE]
  number <- sort(number)
  rows <- rows[sorted, , drop = FALSE]
  new_ranges(size, one_side(rows, number, items), turned_ranges(rows, number, items))
}

new_ranges <- function(dim, i, j) {
  structure(list(dim = as.double(dim), i = i, j = j), class = "keops_ranges")
}

# ---- intervals: matrices of borders (from, to), half-open, counted from 0 ----

# rows[k, ] sees the items[n, ] with number[n] == k; number does not decrease.
one_side <- function(rows, number, items) {
  n <- nrow(items)
  if (n > 1L) { # neighbours that touch are one
    joins <- c(FALSE, number[-1L] == number[-n] & items[-1L, 1L] == items[-n, 2L])
    last <- c(!joins[-1L], TRUE)
    items <- cbind(items[!joins, 1L], items[last, 2L])
    number <- number[!joins]
  }
  list(rows = as.double(t(rows)), slices = as.double(cumsum(tabulate(number, nrow(rows)))), items = as.double(t(items)))
}

# Clusters whose borders are given, and those that `keep` lets them see.
kept_ranges <- function(borders, others, keep) {
  at <- which(t(keep)) - 1
  number <- at %/% ncol(keep) + 1
  other <- at %% ncol(keep) + 1
  full <- others[other] < others[other + 1]
  number <- number[full]
  other <- other[full]
  k <- seq_len(nrow(keep))
  one_side(cbind(borders[k], borders[k + 1L]), number, cbind(others[other], others[other + 1]))
}

# The same pairs for the items: all borders cut them into pieces, each seen by the rows whose intervals hold it.
turned_ranges <- function(rows, number, items) {
  borders <- sort(unique(as.vector(items)))
  from <- match(items[, 1L], borders)
  count <- match(items[, 2L], borders) - from
  piece <- sequence(count, from)
  number <- rep(number, count)
  sorted <- order(piece, number)
  piece <- piece[sorted]
  pieces <- length(borders) - 1L
  k <- seq_len(max(pieces, 0L))
  one_side(cbind(borders[k], borders[k + 1L]), piece, rows[number[sorted], , drop = FALSE])
}

# Borders of the clusters 1, .., K of sorted labels: cluster k is [out[k], out[k + 1]).
label_borders <- function(cluster, k) c(0, cumsum(tabulate(cluster, k)))

# ---- checks ----

check_counts <- function(x, arg, call) {
  ok <- is.numeric(x) && !is.object(x) && !anyNA(x) && all(x >= 0 & x == floor(x) & is.finite(x))
  if (!ok) stop_input(arg, describe(x), "whole numbers, 0 or more", call)
  as.double(x)
}

# First and last rows, counted from 1, as half-open borders from 0.
check_intervals <- function(x, n, arg, call) {
  if (!is.numeric(x) || length(dim(x)) != 2L || ncol(x) != 2L) {
    stop_input(arg, describe(x), "a matrix with two columns, first and last of each interval", call)
  }
  ok <- !is.na(x[, 1L]) & !is.na(x[, 2L]) & x[, 1L] == floor(x[, 1L]) & x[, 2L] == floor(x[, 2L]) &
    x[, 1L] >= 1 & x[, 1L] <= x[, 2L] & x[, 2L] <= n
  if (!all(ok)) {
    bad <- which(!ok)[1L]
    stop_input(arg, paste0("the interval ", x[bad, 1L], " to ", x[bad, 2L], " in row ", bad),
               paste("whole numbers from 1 to", format_count(n), "in increasing order"), call)
  }
  cbind(as.double(x[, 1L]) - 1, as.double(x[, 2L]))
}

# `number`: those that the user gave them
check_apart <- function(rows, number, call) {
  n <- nrow(rows)
  bad <- which(rows[-1L, 1L] < rows[-n, 2L])[1L]
  if (!is.na(bad)) {
    stop_input("`rows`", paste("intervals", number[bad], "and", number[bad + 1L], "that overlap"),
               "clusters of rows apart from each other", call)
  }
}

check_labels <- function(cluster, arg, call) {
  if (is.factor(cluster)) cluster <- as.integer(cluster)
  ok <- is.numeric(cluster) && !is.object(cluster) && !anyNA(cluster) &&
    all(cluster >= 1 & cluster <= .Machine$integer.max & cluster == floor(cluster))
  if (!ok) stop_input(arg, describe(cluster), "labels of clusters: whole numbers from 1, none missing", call)
  as.integer(cluster)
}

check_sorted <- function(cluster, arg, call) {
  if (is.unsorted(cluster)) {
    bad <- which(diff(cluster) < 0L)[1L]
    stop_input(arg, paste0("label ", cluster[bad + 1L], " after ", cluster[bad]),
               "labels in increasing order: sort_clusters() sorts points by clusters", call)
  }
  cluster
}

# What a call of an operator was given, against its data.
check_ranges <- function(ranges, sizes, call) {
  if (!inherits(ranges, "keops_ranges")) {
    stop_input("`ranges`", describe(ranges), "an object made by keops_ranges(), or NULL", call)
  }
  if (!identical(as.double(ranges$dim), as.double(sizes))) {
    stop_input("`ranges`", paste("ranges for", size_text(ranges$dim), "rows"),
               paste("ranges for those of the data,", size_text(sizes)), call)
  }
  unname(c(ranges$i, ranges$j))
}

# Pairs that are visited, counted as often as they are.
range_pairs <- function(ranges) {
  side <- ranges$i
  n <- function(borders) borders[c(FALSE, TRUE)] - borders[c(TRUE, FALSE)]
  seen <- c(0, cumsum(n(side$items)))[side$slices + 1]
  sum(n(side$rows) * diff(c(0, seen)))
}

#' @rdname keops_ranges
#' @export
dim.keops_ranges <- function(x) x$dim

#' @rdname keops_ranges
#' @export
t.keops_ranges <- function(x) new_ranges(rev(x$dim), x$j, x$i)

#' @rdname keops_ranges
#' @export
print.keops_ranges <- function(x, ...) {
  pairs <- range_pairs(x)
  cat("<keops_ranges> ", size_text(x$dim), ": ", length(x$i$slices), " clusters of i, ", length(x$j$slices),
      " of j\n", sep = "")
  cat("  ", format_count(pairs), " pairs, ", format(100 * pairs / max(prod(x$dim), 1), digits = 3), " % of all\n",
      sep = "")
  invisible(x)
}

# ---- clusters ----

#' Put points into clusters
#'
#' Tools to make the clusters of [keops_ranges()]: cubes of a grid, the mean of each cluster, where it
#' begins and ends, and the points in the order of their clusters. Everything counts from 1.
#'
#' @param x Points: a matrix n x d, a data frame, or a vector (one column). For `sort_clusters()` also
#'   a list of such, with n rows each.
#' @param size Side of the cubes, in the unit of `x`: one number, or one for each column.
#' @param cluster Labels of the n points: whole numbers 1 to K, or a factor.
#' @param weights Weights of the n points, or `NULL` for equal ones.
#'
#' @return
#' `grid_cluster()`: integer labels 1 to K of the cubes that hold a point; the cubes are those of the grid
#' through the origin, in lexicographic order of their places.
#'
#' `cluster_centroids()`: K x d matrix of the (weighted) means; `NaN` for a label that no point has.
#'
#' `cluster_ranges()`: K x 2 matrix, the first and the last row of each cluster of sorted labels; a label that
#' no point has is an empty interval, its last row one before its first.
#'
#' `sort_clusters()`: a list of `x`, the points in the order of their labels (those of one cluster keep
#' their order); `cluster`, the sorted labels; `order`, the rows that they had before, as [order()] gives
#' them.
#'
#' @section Errors: `keops_error_input`, for labels that are no whole numbers from 1, points that are not
#'   finite, a size that is not positive, and lengths that do not fit.
#'
#' @seealso [keops_ranges()], with an example of a kernel sum from coarse to fine.
#' @examples
#' x <- cbind(c(0.1, 2.3, 0.4, 2.9), c(0, 1, 0.2, 1.5))
#' k <- grid_cluster(x, 1)
#' k
#' sorted <- sort_clusters(x, k)
#' sorted
#' cluster_ranges(sorted$cluster)
#' cluster_centroids(x, k)
#' cluster_centroids(x, k, weights = c(1, 1, 3, 1))
#' @export
grid_cluster <- function(x, size) {
  call <- sys.call()
  x <- check_points(x, call)
  ok <- !missing(size) && is.numeric(size) && length(size) %in% c(1L, ncol(x)) && all(is.finite(size) & size > 0)
  if (!ok) {
    stop_input("`size`", if (missing(size)) "nothing" else describe(size),
               paste("a number larger than 0, or", ncol(x), "of them"), call)
  }
  cube <- floor(x / rep(rep_len(size, ncol(x)), each = nrow(x)))
  columns <- lapply(seq_len(ncol(x)), function(k) cube[, k])
  sorted <- do.call(order, columns)
  new <- Reduce(`|`, lapply(columns, function(v) diff(v[sorted]) != 0), logical(max(nrow(x) - 1L, 0L)))
  out <- integer(nrow(x))
  out[sorted] <- cumsum(c(if (nrow(x) > 0L) TRUE, new))
  out
}

#' @rdname grid_cluster
#' @export
cluster_centroids <- function(x, cluster, weights = NULL) {
  call <- sys.call()
  x <- check_points(x, call)
  cluster <- check_labels(cluster, "`cluster`", call)
  check_length(length(cluster), nrow(x), "`cluster`", "labels", call)
  if (is.null(weights)) weights <- rep(1, nrow(x))
  if (!is.numeric(weights) || anyNA(weights)) stop_input("`weights`", describe(weights), "numbers, none missing", call)
  check_length(length(weights), nrow(x), "`weights`", "weights", call)
  sums <- matrix(0, max(cluster, 0L), ncol(x) + 1L)
  if (nrow(x) > 0L) {
    some <- rowsum(cbind(x * weights, weights), cluster)
    sums[as.integer(rownames(some)), ] <- some
  }
  out <- sums[, seq_len(ncol(x)), drop = FALSE] / sums[, ncol(x) + 1L]
  colnames(out) <- colnames(x)
  out
}

#' @rdname grid_cluster
#' @export
cluster_ranges <- function(cluster) {
  call <- sys.call()
  cluster <- check_sorted(check_labels(cluster, "`cluster`", call), "`cluster`", call)
  last <- cumsum(tabulate(cluster, max(cluster, 0L)))
  cbind(first = c(0L, last)[seq_along(last)] + 1L, last = last)
}

#' @rdname grid_cluster
#' @export
sort_clusters <- function(x, cluster) {
  call <- sys.call()
  cluster <- check_labels(cluster, "`cluster`", call)
  sorted <- order(cluster)
  sort_rows <- function(x) {
    flat <- is.null(dim(x)) && is.atomic(x)
    if (!flat && length(dim(x)) != 2L) stop_input("`x`", describe(x), "matrices, data frames or vectors", call)
    check_length(length(cluster), NROW(x), "`cluster`", "labels", call)
    if (flat) x[sorted] else x[sorted, , drop = FALSE]
  }
  x <- if (is.list(x) && !is.data.frame(x)) lapply(x, sort_rows) else sort_rows(x)
  list(x = x, cluster = cluster[sorted], order = sorted)
}

check_length <- function(found, n, arg, what, call) {
  if (found != n) {
    stop_input(arg, paste(format_count(found), what), paste0(format_count(n), ", one for each point"), call)
  }
}

# A finite double matrix.
check_points <- function(x, call) {
  if (is.data.frame(x)) x <- as.matrix(x)
  if (!is.numeric(x) || is.object(x) || length(dim(x)) > 2L) {
    stop_input("`x`", describe(x), "points: a numeric matrix, data frame or vector", call)
  }
  x <- as.matrix(x)
  storage.mode(x) <- "double"
  bad <- which(!is.finite(x))
  if (length(bad) > 0L) {
    at <- arrayInd(bad[1L], dim(x))
    stop_input("`x`", paste0(x[bad[1L]], " in row ", at[1L], ", column ", at[2L]), "finite numbers", call)
  }
  x
}
