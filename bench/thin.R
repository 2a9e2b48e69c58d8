# Small and thin problems: one row, few rows of many items, one item, few of both; threads; ranges.

thin_sizes <- read.table(header = TRUE, text = "
m       n
1       1000000
32      1000000
1000000 1
50      50
1000    32
")

# A call again and again, until it has taken a few milliseconds
repeated <- function(f, least = 0.02) {
  once <- max(1e-6, f())
  times <- max(1L, as.integer(ceiling(least / once)))
  function() mean(vapply(seq_len(times), function(k) f(), 0))
}

bench_thin <- function(rounds) {
  for (k in seq_len(nrow(thin_sizes))) {
    m <- thin_sizes$m[k]
    n <- thin_sizes$n[k]
    data <- make_data(m, n, 3L)
    for (precision in c("single", "double")) {
      op <- make_operator("gauss", 3L, 1L, precision, "auto", threads)
      label <- sprintf("gauss D=3 M=%d N=%d", m, n)
      check_result(call_operator(op, data), run_reference("gauss", 1L, precision, data, threads)$out, "gauss",
                   precision, label)
      times <- interleave(list(
        reference = repeated(function() run_reference("gauss", 1L, precision, data, threads)$seconds),
        compiled = repeated(function() time_of(call_operator(op, data)))), rounds)
      r <- ratio_of(times, "reference", "compiled")
      record("thin", label, precision, "auto", r$value, "x reference", 1, TRUE, r$low, r$high,
             sprintf("%.3f ms, the call from R included", 1e3 * median(times[, "compiled"])))
    }
  }
  thread_scaling(rounds)
  ranges_speed(rounds)
}

thread_scaling <- function(rounds) {
  if (threads < 2L) return(invisible())
  for (size in list(c(1L, 4000000L), c(3L, 2000000L), c(32L, 1000000L), c(1000L, 30000L), c(10000L, 10000L))) {
    data <- make_data(size[1L], size[2L], 3L)
    ops <- lapply(c(one = 1L, two = 2L), function(t) make_operator("gauss", 3L, 1L, "double", "compiled", t))
    lapply(ops, call_operator, data)
    times <- interleave(lapply(ops, function(op) function() time_of(call_operator(op, data))), rounds)
    r <- ratio_of(times, "one", "two")
    record("thin", sprintf("threads 1 -> 2, M=%d N=%d", size[1L], size[2L]), "double", "compiled", r$value,
           "x one thread", if (median(times[, "one"]) > 0.005) 1.85 else NA, TRUE, r$low, r$high,
           sprintf("one thread %.1f ms", 1e3 * median(times[, "one"])))
  }
}

# One tenth of the pairs kept, in blocks along the diagonal: what is left out must not be paid for.
ranges_speed <- function(rounds, n = 20000L, clusters = 100L) {
  data <- make_data(n, n, 3L)
  label <- rep(seq_len(clusters), each = n / clusters)
  gap <- abs(outer(seq_len(clusters), seq_len(clusters), "-"))
  ranges <- keops_ranges(label, keep = pmin(gap, clusters - gap) < clusters / 20)
  for (backend in c("compiled", "interpreted")) {
    op <- make_operator("gauss", 3L, 1L, "double", backend, threads)
    args <- data[c("x", "y", "b", "g")]
    op(args, ranges = ranges)
    times <- interleave(list(all = function() time_of(op(args)), some = function() time_of(op(args, ranges = ranges))),
                        rounds)
    r <- ratio_of(times, "all", "some")
    record("thin", sprintf("ranges, %.0f %% of %d x %d", 100 * mean(keep_share(ranges)), n, n), "double", backend,
           r$value, "x all pairs", 6, TRUE, r$low, r$high)
  }
}

# Share of the pairs that are visited, by counting the items of each row.
keep_share <- function(ranges) {
  n <- dim(ranges)
  count <- keops_kernel("Sum_Reduction(1,1)", c("x=Vi(1)", "y=Vj(1)"))
  count(list(numeric(n[1L]), numeric(n[2L])), ranges = ranges) / n[2L]
}
