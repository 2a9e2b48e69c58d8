# Time the installed package against cpu/reference.c, in one run on one machine.
#
#   Rscript bench/run.R [threads] [rounds]        (or: make bench)
#
# Ratios compare medians of interleaved rounds, so that whatever else the machine does falls on both sides.
# The reference's time is its loop alone; the package's is the whole call from R, packing included. Every
# result is compared with the reference's before it is timed. Lines with a bound end in ok or MISSED, and the
# exit status says whether all were kept. Bounds are for a quiet machine (look at the load printed first) and
# for AVX-512; half of a ratio is asked for where vectors are narrower.

library(keops)

arguments <- commandArgs(trailingOnly = TRUE)
threads <- if (length(arguments) >= 1L) as.integer(arguments[1L]) else keops_info()$cores
rounds <- if (length(arguments) >= 2L) as.integer(arguments[2L]) else 7L
here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)[1L]))
missed <- 0L

seconds <- function() as.numeric(Sys.time())

verdict <- function(ok) {
  if (!ok) missed <<- missed + 1L
  if (ok) "ok" else "MISSED"
}

# ---- the peer ----

build_reference <- function() {
  object <- file.path(tempdir(), paste0("reference", .Platform$dynlib.ext))
  words <- c("-O3", "-fopenmp", "-shared", "-fPIC", shQuote(file.path(here, "cpu", "reference.c")),
             "-o", shQuote(object), "-lm")
  if (system2("gcc", words) != 0L) stop("gcc could not compile bench/cpu/reference.c")
  dyn.load(object)
}

kinds <- c(gauss = 0L, grad = 1L, logsumexp = 2L, argmin = 3L)

run_reference <- function(kind, bytes, data) {
  d <- ncol(data$x)
  n <- nrow(data$x)
  got <- .C("reference", kinds[[kind]], bytes, d, n, n, data$tx, data$ty, data$b, data$g, threads,
            out = double(n * if (kind == "grad") d else 1L), seconds = 0)
  if (got$seconds < 0) stop("the reference has no such loop")
  got[c("out", "seconds")]
}

# ---- our side ----

formulas <- c(
  gauss = "Sum_Reduction(Exp(-g * SqDist(x, y)) * b, 1)",
  grad = "Grad(Sum_Reduction(Exp(-g * SqDist(x, y)) * b, 1), x, IntCst(1))",
  logsumexp = "LogSumExp_Reduction(-g * SqDist(x, y), 1)",
  argmin = "ArgMin_Reduction(SqDist(x, y), 1)"
)

make_data <- function(n, d) {
  x <- matrix(runif(n * d), n, d)
  y <- matrix(runif(n * d), n, d)
  list(x = x, y = y, b = runif(n), g = 0.5, tx = t(x), ty = t(y))
}

make_operator <- function(kind, d, precision, backend) {
  keops_kernel(formulas[[kind]], c(paste0("x=Vi(", d, ")"), paste0("y=Vj(", d, ")"), "b=Vj(1)", "g=Pm(1)"),
               precision = precision, backend = backend, threads = threads)
}

call_operator <- function(op, data) op(data[c("x", "y", "b", "g")])

time_call <- function(op, data) {
  start <- seconds()
  call_operator(op, data)
  seconds() - start
}

check_result <- function(found, wanted, kind, precision, label) {
  wanted <- if (kind == "grad") matrix(wanted, ncol = ncol(found), byrow = TRUE) else wanted
  if (kind == "argmin") { # a near tie may fall either way
    if (mean(found != wanted) > if (precision == "single") 1e-3 else 0) stop(label, ": wrong indices")
    return(invisible())
  }
  # the reference's own float sums are the coarser ones
  error <- max(abs(found - wanted)) / max(abs(wanted))
  if (!(error < if (precision == "single") 1e-4 else 1e-10)) stop(label, ": relative error ", error)
}

# ---- throughput ----

compare <- function(kind, d, n, bounds = NULL) {
  data <- make_data(n, d)
  for (precision in c("single", "double")) {
    bytes <- if (precision == "single") 4L else 8L
    ops <- list(compiled = make_operator(kind, d, precision, "compiled"),
                interpreted = make_operator(kind, d, precision, "interpreted"))
    wanted <- run_reference(kind, bytes, data)$out
    for (backend in names(ops)) {
      check_result(call_operator(ops[[backend]], data), wanted, kind, precision,
                   paste(kind, d, precision, backend))
    }
    times <- matrix(0, rounds, 3L, dimnames = list(NULL, c("reference", names(ops))))
    for (r in seq_len(rounds)) {
      times[r, ] <- c(run_reference(kind, bytes, data)$seconds, time_call(ops$compiled, data),
                      time_call(ops$interpreted, data))
    }
    middle <- apply(times, 2L, median)
    per_pair <- middle * threads / n^2 * 1e9
    for (backend in names(ops)) {
      ratio <- middle[["reference"]] / middle[[backend]]
      spread <- range(times[, "reference"] / times[, backend])
      bound <- bounds[[paste0(backend, ".", precision)]]
      if (keops_info()$vectors != "avx512" && !is.null(bound)) bound <- bound / 2
      cat(sprintf("%-10s D = %3d  N = %5d  %s  %-11s %7.2f ms  %6.3f ns/pair/core  reference %6.2f  ratio %6.2f (%.1f-%.1f)%s\n",
                  kind, d, n, precision, backend, 1e3 * middle[[backend]], per_pair[[backend]],
                  per_pair[["reference"]], ratio, spread[1L], spread[2L],
                  if (is.null(bound)) "" else sprintf("  at least %g: %s", bound, verdict(ratio >= bound))))
    }
  }
}

# ---- first answers, each in a session of its own ----

session_seconds <- function(backend, precision, cache, n = 1000L) {
  code <- sprintf(
    paste("suppressMessages(library(keops)); set.seed(1)",
          "x <- matrix(runif(3 * %1$d), ncol = 3); y <- matrix(runif(3 * %1$d), ncol = 3); b <- runif(%1$d)",
          "start <- as.numeric(Sys.time())",
          "op <- keops_kernel('%2$s', c('x=Vi(3)', 'y=Vj(3)', 'b=Vj(1)', 'g=Pm(1)'), precision = '%3$s', backend = '%4$s')",
          "a <- op(list(x, y, b, 0.5))", "cat(as.numeric(Sys.time()) - start)", sep = "; "),
    n, formulas[["gauss"]], precision, backend)
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(code, script)
  out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", shQuote(script)), stdout = TRUE,
                 env = c(paste0("KEOPS_CACHE_DIR=", shQuote(cache)),
                         paste0("R_LIBS=", shQuote(paste(.libPaths(), collapse = .Platform$path.sep)))))
  as.numeric(out[length(out)])
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
    cat(sprintf("%-42s %s %8.2f ms (%.1f-%.1f)  under %g: %s\n", label, precision, 1e3 * median(times),
                1e3 * min(times), 1e3 * max(times), 1e3 * bound, verdict(median(times) < bound)))
  }
}

small_call <- function() {
  data <- make_data(50L, 3L)
  for (backend in c("auto", "interpreted", "compiled")) {
    op <- make_operator("gauss", 3L, "double", backend)
    call_operator(op, data)
    times <- replicate(500L, time_call(op, data))
    cat(sprintf("%-42s %s %8.3f ms (90 %%: %.3f)  under 0.5: %s\n", "warm call, 50 x 50 points", backend,
                1e3 * median(times), 1e3 * quantile(times, 0.9), verdict(median(times) < 5e-4)))
  }
}

# ---- ranges ----

# One tenth of the pairs kept, in blocks along the diagonal: what is left out must not be paid for.
ranges_speed <- function(n = 20000L, clusters = 100L, bound = 6) {
  data <- make_data(n, 3L)
  label <- rep(seq_len(clusters), each = n / clusters)
  gap <- abs(outer(seq_len(clusters), seq_len(clusters), "-"))
  ranges <- keops_ranges(label, keep = pmin(gap, clusters - gap) < clusters / 20)
  for (backend in c("compiled", "interpreted")) {
    op <- make_operator("gauss", 3L, "double", backend)
    args <- data[c("x", "y", "b", "g")]
    op(args, ranges = ranges)
    call_operator(op, data)
    times <- replicate(rounds, c(time_call(op, data), system.time(op(args, ranges = ranges))[["elapsed"]]))
    middle <- apply(times, 1L, median)
    cat(sprintf("ranges, %.1f %% of %d x %d pairs, %-11s %7.2f ms  all %7.2f ms  ratio %5.2f  at least %g: %s\n",
                100 * mean(keep_share(ranges)), n, n, backend, 1e3 * middle[2L], 1e3 * middle[1L],
                middle[1L] / middle[2L], bound, verdict(middle[1L] / middle[2L] >= bound)))
  }
}

# Share of the pairs that are visited, by counting the items of each row.
keep_share <- function(ranges) {
  n <- dim(ranges)
  count <- keops_kernel("Sum_Reduction(1,1)", c("x=Vi(1)", "y=Vj(1)"))
  count(list(numeric(n[1L]), numeric(n[2L])), ranges = ranges) / n[2L]
}

# ---- the run ----

say_machine <- function() {
  cpu <- grep("^model name", tryCatch(readLines("/proc/cpuinfo"), error = function(e) ""), value = TRUE)
  cat("CPU       ", if (length(cpu)) sub(".*: *", "", cpu[1L]) else "not told", "\n", sep = "")
  load <- tryCatch(readLines("/proc/loadavg"), error = function(e) "not told")
  cat("load      ", load, "\n", "threads   ", threads, "\n", "rounds    ", rounds, "\n", sep = "")
  cat("peer      bench/cpu/reference.c, ", system2("gcc", "--version", stdout = TRUE)[1L], ", -O3 -fopenmp\n", sep = "")
  print(keops_info())
  cat("\n")
}

set.seed(1)
old <- keops_options(cache_dir = tempfile("bench-cache"))
build_reference()
say_machine()
compare("gauss", 3L, 10000L, list(compiled.single = 12, compiled.double = 6,
                                  interpreted.single = 9, interpreted.double = 4.5))
compare("grad", 3L, 10000L)
compare("logsumexp", 3L, 10000L)
compare("argmin", 3L, 10000L)
compare("gauss", 10L, 5000L)
compare("grad", 10L, 5000L)
compare("gauss", 100L, 2000L)
compare("grad", 100L, 2000L)
cat("\n")
first_answer("first answer, cold, interpreted, N = 1000", "interpreted", FALSE, 0.03)
first_answer("first answer, cold, compiled, N = 1000", "compiled", FALSE, 0.3)
first_answer("first answer, new session, warm cache", "compiled", TRUE, 0.02)
small_call()
cat("\n")
ranges_speed()
cat("\n", if (missed) paste(missed, "bounds missed") else "all bounds kept", "\n", sep = "")
quit(status = if (missed) 1L else 0L)
