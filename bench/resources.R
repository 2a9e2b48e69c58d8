# First answers, compile times, calls of small problems, memory.

session_seconds <- function(backend, precision, cache, n = 1000L) {
  fresh_session(c(
    sprintf("set.seed(1); x <- matrix(runif(3 * %1$d), ncol = 3); y <- matrix(runif(3 * %1$d), ncol = 3); b <- runif(%1$d)",
            n),
    "start <- as.numeric(Sys.time())",
    sprintf("op <- keops_kernel('%s', c('x=Vi(3)', 'y=Vj(3)', 'b=Vj(1)', 'g=Pm(1)'), precision = '%s', backend = '%s')",
            formula_of("gauss", 3L, 1L), precision, backend),
    "a <- op(list(x, y, b, 0.5))", "cat(as.numeric(Sys.time()) - start)"),
    paste0("KEOPS_CACHE_DIR=", shQuote(cache)))
}

first_answer <- function(label, backend, warm, bound) {
  for (precision in c("single", "double")) {
    cache <- tempfile("cache")
    if (warm) session_seconds(backend, precision, cache)
    times <- replicate(5L, {
      if (!warm) unlink(cache, recursive = TRUE)
      session_seconds(backend, precision, cache)
    })
    unlink(cache, recursive = TRUE)
    record("first", label, precision, backend, 1e3 * median(times), "ms", 1e3 * bound, FALSE, 1e3 * min(times),
           1e3 * max(times))
  }
}

small_call <- function() {
  data <- make_data(50L, 50L, 3L)
  for (backend in c("auto", "interpreted", "compiled")) {
    op <- make_operator("gauss", 3L, 1L, "double", backend, threads)
    call_operator(op, data)
    times <- 1e3 * replicate(500L, time_of(call_operator(op, data)))
    record("first", "warm call, 50 x 50 points", "double", backend, median(times), "ms", 0.5, FALSE, min(times),
           quantile(times, 0.9))
  }
}

# What a compile adds to the first call of each formula of the table; in sessions of their own, where no
# kernel is loaded yet
compile_times <- function() {
  ms <- numeric()
  for (k in seq_len(nrow(cases))) {
    d <- cases$d[k]
    b <- columns_of_b(cases$kind[k], cases$e[k])
    for (precision in c("single", "double")) {
      t <- fresh_session(c(
        sprintf("x <- matrix(1, 4, %d); b <- matrix(1, 4, %d)", d, b),
        sprintf("op <- keops_kernel('%s', c('x=Vi(%d)', 'y=Vj(%d)', 'b=Vj(%d)', 'g=Pm(1)'), precision = '%s', backend = 'compiled', threads = 1L)",
                formula_of(cases$kind[k], d, cases$e[k]), d, d, b, precision),
        "time <- function() { s <- as.numeric(Sys.time()); op(list(x, x, b, 0.5)); as.numeric(Sys.time()) - s }",
        "first <- time(); cat(1e3 * (first - time()))"), paste0("KEOPS_CACHE_DIR=", shQuote(tempfile("cache"))))
      ms <- c(ms, t)
      record("compile", sprintf("%s D=%d E=%d", cases$kind[k], d, cases$e[k]), precision, "compiled", t, "ms")
    }
  }
  record("compile", "median of the table's formulas", "both", "compiled", median(ms), "ms", 120, FALSE, min(ms), max(ms))
}

# Peak resident memory beyond that before the call and the output. All pairs would take hours: each cluster
# of rows sees one of items, so that every row and item is packed and used.
memory <- function(m = 1000000L) {
  if (!file.exists("/proc/self/clear_refs")) return(invisible())
  for (precision in c("single", "double")) {
    mb <- fresh_session(c(
      "status <- function(field) grep(field, readLines('/proc/self/status'), value = TRUE)",
      "mb <- function(field) as.numeric(gsub('[^0-9]', '', status(field))) / 1024",
      sprintf("m <- %dL; x <- matrix(runif(3 * m), m); y <- matrix(runif(3 * m), m); b <- runif(m)", m),
      "ranges <- keops_ranges(rep(seq_len(1000L), each = m %/% 1000L), keep = diag(1000) > 0)",
      sprintf("op <- keops_kernel('%s', c('x=Vi(3)', 'y=Vj(3)', 'b=Vj(1)', 'g=Pm(1)'), precision = '%s', backend = 'compiled', threads = %dL)",
              formula_of("gauss", 3L, 1L), precision, threads),
      "small <- op(list(x[1:9, ], y[1:9, ], b[1:9], 0.5)); invisible(gc())",
      "writeLines('5', '/proc/self/clear_refs'); before <- mb('^VmRSS')",
      "out <- op(list(x, y, b, 0.5), ranges = ranges); cat(mb('^VmHWM') - before - 8 * m / 2^20)"),
      c(paste0("KEOPS_CACHE_DIR=", shQuote(tempfile("cache"))),
        "MALLOC_MMAP_THRESHOLD_=65536")) # what R has freed goes back at once, and hides no growth
    record("memory", sprintf("growth beyond input and output, M=N=%d D=3", m), precision, "compiled", mb, "MB", 64, FALSE)
  }
}

# All pairs of 100,000 points: more than a dist object could hold
all_pairs <- function(n = 100000L) {
  if (!file.exists("/proc/self/clear_refs")) return(invisible())
  for (kind in c("gauss", "argmin")) {
    got <- fresh_session(c(
      "mb <- function(field) as.numeric(gsub('[^0-9]', '', grep(field, readLines('/proc/self/status'), value = TRUE))) / 1024",
      sprintf("n <- %dL; x <- matrix(runif(3 * n), n); b <- runif(n)", n),
      sprintf("op <- keops_kernel('%s', c('x=Vi(3)', 'y=Vj(3)', 'b=Vj(1)', 'g=Pm(1)'), precision = 'single', threads = %dL)",
              formula_of(kind, 3L, 1L), threads),
      "invisible(gc()); writeLines('5', '/proc/self/clear_refs'); before <- mb('^VmRSS')",
      "start <- as.numeric(Sys.time()); out <- op(list(x, x, b, 50))",
      "cat(mb('^VmHWM') - before, as.numeric(Sys.time()) - start)"), "MALLOC_MMAP_THRESHOLD_=65536")
    record("memory", sprintf("%s, all pairs of %d points, growth", kind, n), "single", "auto", got[1L], "MB", 200, FALSE,
           note = sprintf("%.1f s", got[2L]))
  }
}

bench_resources <- function(rounds) {
  first_answer("first answer, cold, interpreted, N=1000", "interpreted", FALSE, 0.03)
  first_answer("first answer, cold, compiled, N=1000", "compiled", FALSE, 0.3)
  first_answer("first answer, new session, warm cache", "compiled", TRUE, 0.02)
  small_call()
  compile_times()
  memory()
  all_pairs()
}
