# What every part of the bench uses: the machine, peers in C, interleaved timing, records of results.

results <- list()
missed <- 0L

# One line of results, printed and kept. `value` in `unit`; `bound` (at least or at most, NA: none).
record <- function(part, case, precision, backend, value, unit, bound = NA, at_least = TRUE, low = NA, high = NA,
                   note = "") {
  ok <- if (is.na(bound)) NA else if (at_least) value >= bound else value <= bound
  if (isFALSE(ok)) missed <<- missed + 1L
  results[[length(results) + 1L]] <<- data.frame(
    part = part, case = case, precision = precision, backend = backend, value = signif(value, 4L), unit = unit,
    low = signif(low, 4L), high = signif(high, 4L), bound = bound, ok = ok, note = note)
  cat(sprintf("%-8s %-38s %-6s %-11s %9.4g %-12s%s%s %s\n", part, case, precision, backend, value, unit,
              if (is.na(low)) "" else sprintf(" (%.3g-%.3g)", low, high),
              if (is.na(bound)) "" else sprintf(" %s %.3g: %s", if (at_least) "at least" else "at most", bound,
                                                if (ok) "ok" else "MISSED"), note))
}

seconds <- function() as.numeric(Sys.time())

time_of <- function(code) {
  start <- seconds()
  force(code)
  seconds() - start
}

# Times of several functions, `rounds` of them in turn, a column each. Each gives its own seconds.
interleave <- function(timers, rounds) {
  times <- t(replicate(rounds, vapply(timers, function(f) f(), 0)))
  matrix(times, nrow = rounds, dimnames = list(NULL, names(timers)))
}

# Median of the ratios within rounds, and their range
ratio_of <- function(times, over, under) {
  r <- times[, over] / times[, under]
  list(value = median(r), low = min(r), high = max(r))
}

# ---- C by the side ----

compile_c <- function(file, words) {
  object <- file.path(tempdir(), paste0("c", length(list.files(tempdir())), .Platform$dynlib.ext))
  if (system2("gcc", c("-fopenmp", "-shared", "-fPIC", words, shQuote(file.path(here, "cpu", file)), "-o",
                       shQuote(object), "-lm")) != 0L) {
    stop("gcc could not compile bench/cpu/", file)
  }
  dyn.load(object)
}

kinds <- c("gauss", "laplace", "matern32", "matern52", "grad", "logsumexp", "softmax", "argkmin", "argmin", "linear",
           "l1")
references <- new.env()

reference_symbol <- function(kind, d, e, precision) {
  name <- paste(kind, d, e, precision)
  if (is.null(references[[name]])) {
    dll <- compile_c("reference.c", c("-O3", sprintf("-DKIND=%d", match(kind, kinds) - 1L), sprintf("-DD=%d", d),
                                      sprintf("-DE=%d", e),
                                      paste0("-DREAL=", if (precision == "single") "float" else "double")))
    references[[name]] <- getNativeSymbolInfo("reference", dll)
  }
  references[[name]]
}

run_reference <- function(kind, e, precision, data, threads) {
  d <- ncol(data$x)
  width <- switch(kind, grad = d, logsumexp = , argmin = , l1 = 1L, e)
  got <- .C(reference_symbol(kind, d, e, precision), nrow(data$x), nrow(data$y), data$tx, data$ty, data$tb, data$g,
            threads, out = double(nrow(data$x) * width), seconds = 0)
  if (got$seconds < 0) stop("no memory for the reference")
  list(out = matrix(got$out, ncol = width, byrow = TRUE), seconds = got$seconds)
}

# Clock in GHz, and multiply-adds of floats a nanosecond and core
measure_peak <- function() {
  bytes <- c(base = 16L, avx2 = 32L, avx512 = 64L)[[keops_info()$vectors]]
  dll <- compile_c("peak.c", c("-O2", "-march=native", "-ffp-contract=fast", sprintf("-DBYTES=%d", bytes)))
  got <- .C(getNativeSymbolInfo("peak", dll), ghz = 0, rate = 0)
  list(ghz = got$ghz, floats = got$rate * bytes / 4)
}

# ---- our side ----

formula_of <- function(kind, d, e) {
  square <- "SqDist(x, y)"
  root <- "Sqrt(SqDist(x, y))"
  switch(kind,
    gauss = sprintf("Sum_Reduction(Exp(-g * %s) * b, 1)", square),
    laplace = sprintf("Sum_Reduction(Exp(-g * %s) * b, 1)", root),
    matern32 = sprintf("Sum_Reduction((IntCst(1) + g * %s) * Exp(-g * %s) * b, 1)", root, root),
    matern52 = sprintf("Sum_Reduction((IntCst(1) + g * %s + Square(g) * %s / IntCst(3)) * Exp(-g * %s) * b, 1)", root,
                       square, root),
    grad = sprintf("Grad(Sum_Reduction(Exp(-g * %s) * b, 1), x, IntCst(1))", square),
    logsumexp = sprintf("LogSumExp_Reduction(-g * %s, 1)", square),
    softmax = sprintf("SumSoftMaxWeight_Reduction(-g * %s, b, 1)", square),
    argkmin = sprintf("ArgKMin_Reduction(%s, %d, 1)", square, e),
    argmin = sprintf("ArgMin_Reduction(%s, 1)", square),
    linear = "Sum_Reduction((x | y) * b, 1)",
    l1 = "Sum_Reduction(Sum(Abs(x - y)), 1)")
}

columns_of_b <- function(kind, e) if (kind == "argkmin") 1L else e

make_data <- function(m, n, d, e = 1L) {
  x <- matrix(runif(m * d), m, d)
  y <- matrix(runif(n * d), n, d)
  b <- matrix(runif(n * e), n, e)
  list(x = x, y = y, b = b, g = 0.5, tx = t(x), ty = t(y), tb = t(b))
}

make_operator <- function(kind, d, e, precision, backend, threads) {
  b <- columns_of_b(kind, e)
  keops_kernel(formula_of(kind, d, e), c(sprintf("x=Vi(%d)", d), sprintf("y=Vj(%d)", d), sprintf("b=Vj(%d)", b), "g=Pm(1)"),
               precision = precision, backend = backend, threads = threads)
}

call_operator <- function(op, data) op(data[c("x", "y", "b", "g")])

check_result <- function(found, wanted, kind, precision, label) {
  if (kind %in% c("argmin", "argkmin")) { # a near tie may fall either way
    if (mean(found != wanted) > if (precision == "single") 2e-3 else 0) stop(label, ": wrong indices")
    return(invisible())
  }
  # the reference's own float sums are the coarser ones
  error <- max(abs(found - wanted)) / max(abs(wanted))
  if (!(error < if (precision == "single") 1e-3 else 1e-10)) stop(label, ": relative error ", error)
}

# Code in an R session of its own; gives what it printed last, as numbers.
fresh_session <- function(code, env = character()) {
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(c("suppressMessages(library(keops))", code), script)
  out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", shQuote(script)), stdout = TRUE,
                 env = c(env, paste0("R_LIBS=", shQuote(paste(.libPaths(), collapse = .Platform$path.sep)))))
  as.numeric(strsplit(out[length(out)], " ", fixed = TRUE)[[1L]])
}
