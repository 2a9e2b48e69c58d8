# The table of common formulas: compiled code against the reference loop, the interpreter against compiled code.
#
# `single` and `double`: how many times faster than the loop compiled code is to be with AVX-512 (half of it
# where vectors are narrower). The interpreter may take 1.5 times what compiled code takes.

cases <- read.table(header = TRUE, text = "
kind        d   e     n single double
gauss       3   1 10000     15    7.5
gauss      10   1 10000     16    7.5
gauss     100   1 10000     19     11
gauss     784   1 10000     19     11
gauss       3  10 10000     10    5.5
gauss       3 100 10000      7      5
laplace     3   1 10000     11    5.5
matern32    3   1 10000     11    5.5
matern52    3   1 10000     11    5.5
grad        3   1 10000     12    5.5
grad       10   1 10000     NA     NA
grad      100   1 10000     NA     NA
logsumexp   3   1 10000     12    6.5
softmax     3   1 10000     12    6.5
argkmin     3  10 10000      6      3
argkmin    20  10 10000     11      5
argmin     10   1  1000     13      6
argmin      3   1 10000     NA     NA
")

# Multiply-adds that no kernel can do without: distance, scale and exponential, reduction. Roots, divisions,
# comparisons have ports of their own and are not counted, so that this is a lower bound.
least_multiply_adds <- function(kind, d, e, precision) {
  exponential <- 1 + if (precision == "single") 6 else 11
  d + switch(kind, gauss = , laplace = exponential + e, matern32 = exponential + e + 1, matern52 = exponential + e + 2,
             grad = exponential + 1 + d, logsumexp = exponential, softmax = exponential + e, 0)
}

# Rows enough for `aim` seconds of the reference
rows_for <- function(case, aim) {
  ns <- 4 + 0.7 * case$d + 0.4 * case$e
  max(256L, min(10000L, as.integer(aim * threads / (ns * case$n) * 1e9)))
}

bench_case <- function(case, rounds, aim = 0.2) {
  m <- rows_for(case, aim)
  data <- make_data(m, case$n, case$d, columns_of_b(case$kind, case$e))
  label <- sprintf("%s D=%d%s M=%d N=%d", case$kind, case$d, if (case$e > 1L) paste0(" E=", case$e) else "", m, case$n)
  for (precision in c("single", "double")) {
    ops <- lapply(c(compiled = "compiled", interpreted = "interpreted"), function(backend) {
      make_operator(case$kind, case$d, case$e, precision, backend, threads)
    })
    wanted <- run_reference(case$kind, case$e, precision, data, threads)$out
    for (backend in names(ops)) {
      check_result(call_operator(ops[[backend]], data), wanted, case$kind, precision, paste(label, precision, backend))
    }
    times <- interleave(list(
      reference = function() run_reference(case$kind, case$e, precision, data, threads)$seconds,
      compiled = function() time_of(call_operator(ops$compiled, data)),
      interpreted = function() time_of(call_operator(ops$interpreted, data))), rounds)
    per_pair <- apply(times, 2L, median) * threads / (m * case$n) * 1e9
    lanes <- machine$floats / if (precision == "single") 1 else 2
    floor <- least_multiply_adds(case$kind, case$d, case$e, precision) / lanes
    r <- ratio_of(times, "reference", "compiled")
    record("table", label, precision, "compiled", r$value, "x reference", case[[precision]] * narrower, TRUE, r$low, r$high,
           sprintf("%.3f ns/pair/core (reference %.2f), %.0f %% of the floor", per_pair[["compiled"]],
                   per_pair[["reference"]], 100 * floor / per_pair[["compiled"]]))
    r <- ratio_of(times, "interpreted", "compiled")
    record("table", label, precision, "interpreted", r$value, "x compiled", 1.5, FALSE, r$low, r$high,
           sprintf("%.3f ns/pair/core", per_pair[["interpreted"]]))
  }
}

bench_cases <- function(rounds) {
  for (k in seq_len(nrow(cases))) if (grepl(only, paste0(cases$kind[k], cases$d[k], "-", cases$e[k]))) bench_case(cases[k, ], rounds)
}
