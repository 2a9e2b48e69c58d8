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
      expect_masked(name, summand, d, axis, data, seen, ranges,
                    backends = if (summand == "pair") c("interpreted", "compiled") else "interpreted")
    }
  }
})

test_that("gradients in all variables, first and second, run over the ranges", {
  ranges <- raw_ranges(mixed_rows, mixed_items, 12, 14)
  seen <- seen_items(mixed_rows, mixed_items, 12, 14)
  for (name in setdiff(names(masked_reductions), without_gradient)) for (axis in 0:1) {
    set.seed(3 + axis)
    d <- if (name %in% scores_only) 1 else 2
    data <- range_data(12, 14, d)
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
        second <- ref_slope(function(h) slope(moved(data, v2, direction2, h)))
        each_backend(function(backend, precision) {
          label <- paste0("d/d", v, " of ", formula(op), " (", backend, ", ", precision, ")")
          grad <- keops_grad(op, v)
          out <- grad(unname(c(data, list(eta_op))), ranges = ranges)
          expect_identical(dim(out), dim(data[[v]]), label = paste("dim of", label))
          expect_close(matrix(sum(out * direction)), matrix(slope(data)), tol(precision, 1),
                       max(1, sum(abs(out * direction))), label = label)
          out <- keops_grad(grad, v2)(unname(c(data, list(eta_op, direction))), ranges = ranges)
          expect_close(matrix(sum(out * direction2)), matrix(second), tol(precision, 2),
                       max(1, sum(abs(out * direction2))), label = paste0("d/d", v2, " ", label))
        }, backends = if (summand == "pair" && axis == 1) c("interpreted", "compiled") else "interpreted",
           precisions = if (axis == 1) c("double", "single") else "double")
      }
    }
  }
})
