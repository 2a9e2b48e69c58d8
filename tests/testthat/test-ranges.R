# Block-sparse ranges against dense R: the items that each row sees are written out, one by one.

# ---- what rows see: intervals counted from 1, both ends included ----

# list(j, i): the items j of each i, the items i of each j, in increasing order, as often as they are seen
seen_items <- function(rows, items, m, n) {
  j <- replicate(m, integer(), simplify = FALSE)
  for (k in seq_along(rows)) {
    found <- sort(unlist(lapply(items[[k]], function(v) seq(v[1], v[2]))))
    for (i in seq(rows[[k]][1], rows[[k]][2])) j[[i]] <- as.integer(found)
  }
  i <- lapply(seq_len(n), function(at) rep(seq_len(m), vapply(j, function(v) sum(v == at), 0L)))
  list(j = j, i = i)
}

raw_ranges <- function(rows, items, m, n) {
  as_matrix <- function(x) matrix(as.numeric(unlist(x)), ncol = 2, byrow = TRUE)
  keops_ranges_raw(as_matrix(rows), cumsum(lengths(items)), as_matrix(unlist(items, recursive = FALSE)), c(m, n))
}

# Clusters that leave rows uncovered and are in no order, a row that sees nothing, overlaps, repetitions,
# intervals in no order, one that is hidden in another.
mixed_rows <- list(c(8, 11), c(1, 3), c(4, 4), c(5, 6))
mixed_items <- list(
  list(c(5, 9), c(2, 6)), list(c(1, 13)), list(), list(c(12, 12), c(3, 4), c(3, 4), c(7, 12))
)

# ---- reductions of the items of one row: f[n, D], weights g[n, E], the numbers of the items ----

least <- function(f, k) vapply(seq_len(k), function(n) if (n <= length(f)) sort(f)[n] else Inf, 0)
arg_least <- function(f, index, k) index[order(f, index)][seq_len(k)]
shift <- function(f) max(-Inf, f)
shifted_sum <- function(f, g) if (length(f) == 0) 0 * g[0, 1] else colSums(exp(c(f) - shift(f)) * g)
sums <- function(f, g) if (length(f) == 0) numeric(ncol(g)) else shifted_sum(f, g)
each <- function(f, fun, ...) c(apply(f, 2, fun, ...))

K <- 3
masked_reductions <- list(
  Sum = function(f, g, index) colSums(f),
  Min = function(f, g, index) each(f, function(v) min(Inf, v)),
  Max = function(f, g, index) each(f, function(v) max(-Inf, v)),
  ArgMin = function(f, g, index) each(f, function(v) index[which.min(v)][1]),
  ArgMax = function(f, g, index) each(f, function(v) index[which.max(v)][1]),
  Min_ArgMin = function(f, g, index) c(masked_reductions$Min(f), masked_reductions$ArgMin(f, g, index)),
  Max_ArgMax = function(f, g, index) c(masked_reductions$Max(f), masked_reductions$ArgMax(f, g, index)),
  KMin = function(f, g, index) each(f, least, K),
  ArgKMin = function(f, g, index) each(f, arg_least, index, K),
  KMin_ArgKMin = function(f, g, index) c(each(f, least, K), each(f, arg_least, index, K)),
  LogSumExp = function(f, g, index) shift(f) + log(sums(f, 1 + 0 * f)),
  LogSumExpWeight = function(f, g, index) shift(f) + log(sums(f, g)),
  SumSoftMaxWeight = function(f, g, index) sums(f, g) / sums(f, 1 + 0 * f),
  SoftMax = function(f, g, index) masked_reductions$SumSoftMaxWeight(f, g, index),
  Max_SumShiftExp = function(f, g, index) c(shift(f), sums(f, 1 + 0 * f)),
  Max_SumShiftExpWeight = function(f, g, index) c(shift(f), sums(f, g)),
  Zero = function(f, g, index) numeric(ncol(f))
)
scores_only <- c("LogSumExp", "LogSumExpWeight", "SumSoftMaxWeight", "SoftMax", "Max_SumShiftExp",
                 "Max_SumShiftExpWeight") # of one component
weighted <- grep("Weight|SoftMax", names(masked_reductions), value = TRUE)
without_gradient <- grep("Arg|Zero", names(masked_reductions), value = TRUE)
compiled_reductions <- c("Sum", "Min_ArgMin", "KMin", "LogSumExp", "SumSoftMaxWeight") # one of each kind of state

# ---- what is reduced: of x[i], y[j] and p, rows repeated for each pair ----

summands <- list(
  pair = list(text = "p*Square(x-y)", value = function(x, y, p) p * (x - y)^2),
  i = list(text = "p*Square(x)", value = function(x, y, p) p * x^2),
  j = list(text = "Sin(y)-p", value = function(x, y, p) sin(y) - p),
  none = list(text = "p*p", value = function(x, y, p) p^2)
)

range_args <- function(d) sprintf(c("x=Vi(%d)", "y=Vj(%d)", "w=Vj(2)", "p=Pm(%d)"), c(d, d, 1, d))
range_data <- function(m, n, d) {
  list(x = draw(m, d, -2, 2), y = draw(n, d, -2, 2, 1 / 256), w = draw(n, 2, 1, 2), p = draw(1, d, 0.5, 2))
}

# The same with no two items that a small move makes change places: a minimum has its derivative there.
apart <- function(n, d, low, high) replicate(d, sample(seq(low, high, length.out = n)))
slope_data <- function(m, n, d) {
  list(x = apart(m, d, -1.5, -0.7), y = apart(n, d, -0.5, 0.5), w = draw(n, 2, 1, 2), p = draw(1, d, 0.5, 2))
}

range_formula <- function(name, summand, d, axis) {
  if (name == "Zero") return(sprintf("Zero_Reduction(%d,%d)", d, axis))
  k <- if (grepl("KMin", name)) paste0(",", K) else ""
  w <- if (name %in% weighted) ",w" else ""
  sprintf("%s_Reduction(%s%s%s,%d)", name, summands[[summand]]$text, k, w, axis)
}

masked_answer <- function(name, summand, axis, data, seen) {
  rows <- if (axis == 1) seq_along(seen$j) else seq_along(seen$i)
  do.call(rbind, lapply(rows, function(r) {
    items <- if (axis == 1) seen$j[[r]] else seen$i[[r]]
    i <- if (axis == 1) rep(r, length(items)) else items
    j <- if (axis == 1) items else rep(r, length(items))
    f <- summands[[summand]]$value(data$x[i, , drop = FALSE], data$y[j, , drop = FALSE],
                                   data$p[rep(1, length(items)), , drop = FALSE])
    masked_reductions[[name]](f, data$w[j, , drop = FALSE], items)
  }))
}

# Everything that one row has, side by side: of arrays K x D, K counts first.
side_by_side <- function(out) {
  if (is.list(out)) return(do.call(cbind, lapply(unname(out), side_by_side)))
  matrix(as.numeric(out), nrow(out))
}

expect_masked <- function(name, summand, d, axis, data, seen, ranges, ...) {
  formula <- range_formula(name, summand, d, axis)
  reference <- masked_answer(name, summand, axis, data, seen)
  each_backend(function(backend, precision) {
    out <- keops_kernel(formula, range_args(d))(data, ranges = ranges)
    expect_close(side_by_side(out), reference, tol(precision), label = paste0(formula, " (", backend, ", ", precision, ")"))
  }, ...)
}

test_that("every reduction of the table, over either axis, runs over the ranges", {
  expect_setequal(keops:::engine_reductions(), names(masked_reductions))
  ranges <- raw_ranges(mixed_rows, mixed_items, 12, 14)
  seen <- seen_items(mixed_rows, mixed_items, 12, 14)
  for (name in names(masked_reductions)) for (axis in 0:1) {
    set.seed(axis)
    d <- if (name %in% scores_only) 1 else 2
    data <- range_data(12, 14, d)
    for (summand in names(summands)) {
      # over i, compiled kernels are those over j with the variables renamed: one of each kind of state is enough
      compiled <- summand == "pair" && (axis == 1 || name %in% compiled_reductions)
      expect_masked(name, summand, d, axis, data, seen, ranges,
                    backends = c("interpreted", if (compiled) "compiled"))
    }
  }
})

test_that("gradients in all variables, first and second, run over the ranges", {
  ranges <- raw_ranges(mixed_rows, mixed_items, 12, 14)
  seen <- seen_items(mixed_rows, mixed_items, 12, 14)
  for (name in setdiff(names(masked_reductions), without_gradient)) for (axis in 0:1) {
    set.seed(3 + axis)
    d <- if (name %in% scores_only) 1 else 2
    data <- slope_data(12, 14, d)
    for (summand in c("pair", if (name %in% c("Sum", "LogSumExp")) c("i", "j", "none"))) {
      op <- keops_kernel(range_formula(name, summand, d, axis), range_args(d))
      reference <- masked_answer(name, summand, axis, data, seen)
      # rows that see nothing are infinite, and of no slope
      eta <- draw(nrow(reference), ncol(reference), -1, 1) * is.finite(rowSums(reference))
      value <- function(data) {
        a <- masked_answer(name, summand, axis, data, seen)
        sum((eta * a)[is.finite(a)])
      }
      if (d > 1 && name == "KMin") { # the op's cotangent has the components of the least first
        eta_op <- matrix(aperm(array(eta, c(nrow(eta), K, d)), c(1, 3, 2)), nrow(eta))
      } else {
        eta_op <- eta
      }
      vars <- c("x", "y", "p", if (name %in% weighted) "w")
      moved <- function(data, v, direction, h) {
        data[[v]] <- data[[v]] + h * direction
        data
      }
      for (v in vars) {
        direction <- matrix(runif(length(data[[v]]), -1, 1), nrow(data[[v]]))
        slope <- function(data) ref_slope(function(h) value(moved(data, v, direction, h)))
        v2 <- if (v == "x") "y" else "x"
        direction2 <- matrix(runif(length(data[[v2]]), -1, 1), nrow(data[[v2]]))
        first <- slope(data)
        second <- ref_slope(function(h) slope(moved(data, v2, direction2, h)))
        each_backend(function(backend, precision) {
          label <- paste0("d/d", v, " of ", formula(op), " (", backend, ", ", precision, ")")
          grad <- keops_grad(op, v)
          out <- grad(unname(c(data, list(eta_op))), ranges = ranges)
          # a soft maximum of nothing is NaN, and so is its derivative in the row's own variable
          if (name %in% c("SumSoftMaxWeight", "SoftMax") && v == "y" && axis == 0) {
            expect_identical(which(is.nan(out)), which(lengths(seen$i) == 0))
            out[is.nan(out)] <- 0
          }
          expect_identical(dim(out), dim(data[[v]]), label = paste("dim of", label))
          expect_close(matrix(sum(out * direction)), matrix(first), tol(precision, 1),
                       max(1, sum(abs(out * direction))), label = label)
          out <- keops_grad(grad, v2)(unname(c(data, list(eta_op, direction))), ranges = ranges)
          if (name %in% c("SumSoftMaxWeight", "SoftMax")) out[is.nan(out)] <- 0
          expect_close(matrix(sum(out * direction2)), matrix(second), tol(precision, 2),
                       max(1, sum(abs(out * direction2))), label = paste0("d/d", v2, " ", label))
        }, backends = c("interpreted", if (summand == "pair" && axis == 1 && name %in% compiled_reductions) "compiled"),
           precisions = if (axis == 1) c("double", "single") else "double")
      }
    }
  }
})

test_that("a formula without the reduced index counts the items that are seen", {
  ranges <- raw_ranges(mixed_rows, mixed_items, 12, 14)
  seen <- seen_items(mixed_rows, mixed_items, 12, 14)
  args <- c("x=Vi(1)", "y=Vj(1)")
  data <- list(x <- draw(12, 1, -2, 2), y <- draw(14, 1, -2, 2))
  each_backend(function(backend, precision) {
    count <- function(text, r = ranges) c(keops_kernel(text, args)(data, ranges = r))
    expect_identical(count("Sum_Reduction(1,1)"), as.numeric(lengths(seen$j)))
    expect_identical(count("Sum_Reduction(1,0)"), as.numeric(lengths(seen$i)))
    expect_equal(count("Sum_Reduction(x,1)"), c(x) * lengths(seen$j))
    expect_equal(count("Sum_Reduction(y,1)"), vapply(seen$j, function(j) sum(y[j]), 0))
    expect_equal(count("Sum_Reduction(x,0)"), vapply(seen$i, function(i) sum(x[i]), 0))
  })
})

test_that("clusters and a keep matrix give the blocks; one cluster that keeps all is a plain run", {
  set.seed(5)
  for (sizes in list(c(4, 1, 7), rep(1, 12), 12)) {
    label_i <- rep(seq_along(sizes), sizes)
    label_j <- c(1, 1, 1, 2, 4, 4, 4, 4, 5) # no point has label 3
    keep <- matrix(runif(5 * length(sizes)) < 0.5, length(sizes))
    keep[1, c(4, 5)] <- TRUE
    ranges <- keops_ranges(label_i, label_j, keep)
    data <- list(draw(12, 2, -2, 2), draw(9, 2, -2, 2))
    mask <- keep[label_i, label_j, drop = FALSE]
    dense <- exp(-outer(1:12, 1:9, Vectorize(function(i, j) sum((data[[1]][i, ] - data[[2]][j, ])^2))))
    text <- "Sum_Reduction(Exp(-SqDist(x,y)),%d)"
    args <- c("x=Vi(2)", "y=Vj(2)")
    each_backend(function(backend, precision) {
      by_i <- keops_kernel(sprintf(text, 1), args)(data, ranges = ranges)
      by_j <- keops_kernel(sprintf(text, 0), args)(data, ranges = ranges)
      expect_close(by_i, matrix(rowSums(dense * mask)), tol(precision))
      expect_close(by_j, matrix(colSums(dense * mask)), tol(precision))
      expect_identical(keops_kernel(sprintf(text, 1), args)(rev(data), ranges = t(ranges)),
                       keops_kernel(sprintf(text, 0), c("y=Vj(2)", "x=Vi(2)")[2:1])(data, ranges = ranges))
      whole <- keops_ranges(rep(1, 12), rep(1, 9), matrix(TRUE))
      expect_identical(keops_kernel(sprintf(text, 1), args)(data, ranges = whole),
                       keops_kernel(sprintf(text, 1), args)(data))
    })
    expect_identical(dim(ranges), c(12, 9))
    expect_identical(dim(t(ranges)), c(9, 12))
    expect_output(print(ranges), paste(sum(mask), "pairs"))
  }
})

test_that("the bits do not depend on the threads, nor on who sees a split cluster", {
  set.seed(6)
  n <- 60000
  x <- draw(70, 3, -1, 1)
  y <- draw(n, 3, -1, 1)
  # three rows see nearly everything, in two halves: their items are split; others see little
  ranges <- keops_ranges_raw(rbind(c(1, 3), c(10, 70)), c(2, 4),
                             rbind(c(1, 29999), c(30002, n), c(5, 9), c(777, 1290)), c(70, n))
  args <- c("x=Vi(3)", "y=Vj(3)")
  for (text in c("Sum_Reduction(Exp(-SqDist(x,y)),1)", "Sum_Reduction(Exp(-SqDist(x,y)),0)",
                 "ArgMin_Reduction(SqDist(x,y),1)", "LogSumExp_Reduction(-SqDist(x,y),1)")) {
    each_backend(function(backend, precision) {
      op <- keops_kernel(text, args)
      one <- op(list(x, y), ranges = ranges, threads = 1)
      expect_identical(op(list(x, y), ranges = ranges, threads = 2), one)
    })
  }
  dense <- function(i, j) rowSums(exp(-vapply(j, function(k) colSums((t(x[i, ]) - y[k, ])^2), numeric(length(i)))))
  out <- keops_kernel("Sum_Reduction(Exp(-SqDist(x,y)),1)", args)(list(x, y), ranges = ranges)
  expect_equal(out[1:3], dense(1:3, setdiff(seq_len(n), 30000:30001)))
  expect_identical(out[4:9], numeric(6))
  expect_equal(out[10:70], dense(10:70, c(5:9, 777:1290)))
})

test_that("no rows, no items, no clusters", {
  op <- keops_kernel("Min_Reduction(SqDist(x,y),1)", c("x=Vi(1)", "y=Vj(1)"))
  none <- matrix(0, 0, 2)
  empty <- keops_ranges_raw(none, numeric(), none, c(3, 2))
  expect_identical(op(list(1:3, 1:2), ranges = empty), matrix(Inf, 3, 1))
  expect_identical(op(list(numeric(), 1:2), ranges = keops_ranges(integer(), c(1, 1), matrix(TRUE))), matrix(0, 0, 1))
  expect_identical(op(list(1:3, numeric()), ranges = keops_ranges(c(1, 1, 1), integer(), matrix(TRUE))), matrix(Inf, 3, 1))
})

test_that("wrong ranges are refused with what was found", {
  refused <- function(code, message) expect_error(code, message, class = "keops_error_input")
  keep <- matrix(TRUE, 2, 2)
  refused(keops_ranges(c(2, 1), c(1, 2), keep), "sort_clusters()")
  refused(keops_ranges(c(0, 1), c(1, 2), keep), "whole numbers from 1")
  refused(keops_ranges(c(1, 3), c(1, 2), keep), "clusters of i x clusters of j: 3 x 2")
  refused(keops_ranges(c(1, 2), c(1, 2), keep + 0), "logical matrix")
  refused(keops_ranges(c(1, 2), c(1, 2), matrix(NA, 2, 2)), "NA")
  refused(keops_ranges_raw(rbind(c(3, 5), c(1, 3)), 0:1, rbind(c(1, 2)), c(5, 5)), "intervals 2 and 1 that overlap")
  refused(keops_ranges_raw(rbind(c(1, 6)), 1, rbind(c(1, 2)), c(5, 5)), "interval 1 to 6 in row 1")
  refused(keops_ranges_raw(rbind(c(1, 2)), 1, rbind(c(0, 2)), c(5, 5)), "interval 0 to 2")
  refused(keops_ranges_raw(rbind(c(1, 2)), 2, rbind(c(1, 2)), c(5, 5)), "end with 2")
  refused(keops_ranges_raw(rbind(c(1, 2)), c(1, 1), rbind(c(1, 2)), c(5, 5)), "`slices`")
  op <- keops_kernel("Sum_Reduction(x*y,1)", c("x=Vi(1)", "y=Vj(1)"))
  refused(op(list(1:3, 1:2), ranges = keops_ranges(c(1, 1), c(1, 1), matrix(TRUE))), "ranges for 2 x 2 rows.*3 x 2")
  refused(op(list(1:3, 1:2), ranges = list()), "keops_ranges()")
})

test_that("clusters of a grid, their centres, borders and order", {
  x <- cbind(c(0.1, 2.3, 0.4, 2.9, -0.5), c(0, 1, 0.2, 1.5, 9))
  k <- grid_cluster(x, 1)
  expect_identical(k, c(2L, 3L, 2L, 3L, 1L))
  expect_identical(grid_cluster(x, c(100, 5)), c(2L, 2L, 2L, 2L, 1L))
  expect_identical(grid_cluster(matrix(0, 0, 2), 1), integer())
  sorted <- sort_clusters(x, k)
  expect_identical(sorted, list(x = x[c(5, 1, 3, 2, 4), ], cluster = c(1L, 2L, 2L, 3L, 3L), order = c(5L, 1L, 3L, 2L, 4L)))
  expect_identical(sort_clusters(list(x, 1:5), k)$x, list(sorted$x, c(5L, 1L, 3L, 2L, 4L)))
  expect_identical(cluster_ranges(c(1, 1, 3)), cbind(first = c(1L, 3L, 3L), last = c(2L, 2L, 3L)))
  expect_equal(cluster_centroids(x, k), rbind(x[5, ], colMeans(x[c(1, 3), ]), colMeans(x[c(2, 4), ])))
  expect_equal(cluster_centroids(1:3, c(1, 1, 3), c(3, 1, 2)), matrix(c(1.25, NaN, 3)))
  expect_error(grid_cluster(x, 0), "larger than 0", class = "keops_error_input")
  expect_error(grid_cluster(c(1, NA), 1), "NA in row 2", class = "keops_error_input")
  expect_error(cluster_ranges(c(2, 1)), "sort_clusters", class = "keops_error_input")
  expect_error(cluster_centroids(1:3, 1:2), "one for each point", class = "keops_error_input")
})

test_that("the k least of ranges whose parts have fewer than k items are all of them, once", {
  set.seed(2)
  m <- 90
  n <- 700
  x <- matrix(runif(3 * m, -1, 1), m)
  y <- matrix(runif(3 * n, -1, 1), n)
  w <- matrix(runif(30 * n, -1, 1), n)[, 1]
  labels <- function(n) rep(seq_len(n), sample(40, n, replace = TRUE))[seq_len(n)]
  i <- labels(m)
  j <- labels(n)
  keep <- matrix(runif(max(i) * max(j)) < 0.4, max(i))
  dense <- t(vapply(seq_len(m), function(r) {
    at <- which(keep[i[r], j])
    c(sort(colSums((t(y[at, , drop = FALSE]) - x[r, ])^2) * w[at]), rep(Inf, 70))[1:70]
  }, numeric(70)))
  op <- keops_kernel("KMin_Reduction(SqDist(x,y)*w,70,1)", c("x=Vi(3)", "y=Vj(3)", "w=Vj(1)"))
  each_backend(function(backend, precision) {
    expect_close(op(list(x, y, w), ranges = keops_ranges(i, j, keep)), dense, tol(precision), label = paste(backend, precision))
  })
})
