# Time the package on a GPU beside classical.cu and dense PyTorch (dense.py, where python3 has it), in one run.
#
#   Rscript bench/cuda/run.R [largest N, default 1e6]        (or: make bench-cuda)
#
# "kernel": the device's own events from the first of the package's launches to the last; "call": the whole call from R
# with host matrices, median of several; "classical", "dense": data on the device. "error": relative, against the CPU in
# double. Targets are those of an NVIDIA H200; "peer" is PyKeOps 2.3 on such a one, measured elsewhere.

library(keops)

most <- c(as.numeric(commandArgs(trailingOnly = TRUE)), 1e6)[1L]
here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)[1L]))
source_text <- paste(readLines(file.path(here, "classical.cu")), collapse = "\n")
source_text <- paste0("#define INFINITY __int_as_float(0x7f800000)\n", source_text)

object <- file.path(tempdir(), paste0("classical", .Platform$dynlib.ext))
root <- file.path(here, "..", "..", "src")
words <- c("-O2", "-std=gnu11", "-shared", "-fPIC", paste0("-I", shQuote(file.path(root, c("cuda", "engine")))),
           shQuote(file.path(here, "classical.c")), shQuote(file.path(root, "cuda", "cuda_api.c")),
           shQuote(file.path(root, "engine", "error.c")), "-o", shQuote(object), "-ldl")
if (system2("gcc", words) != 0L) stop("gcc could not compile bench/cuda/classical.c")
dyn.load(object)

kinds <- c(gauss = 0L, grad = 1L, logsumexp = 2L, argmin = 3L, laplace = 4L, matern32 = NA, kmin = NA)
formulas <- c(
  gauss = "Sum_Reduction(Exp(-g * SqDist(x, y)) * b, 1)",
  grad = "Grad(Sum_Reduction(Exp(-g * SqDist(x, y)) * b, 1), x, IntCst(1))",
  logsumexp = "LogSumExp_Reduction(-g * SqDist(x, y), 1)",
  argmin = "ArgMin_Reduction(SqDist(x, y), 1)",
  laplace = "Sum_Reduction(Exp(-g * Sqrt(SqDist(x, y))) * b, 1)",
  kmin = "ArgKMin_Reduction(SqDist(x, y), 10, 1)",
  matern32 = "Sum_Reduction((1 + g * Sqrt(SqDist(x, y))) * Exp(-g * Sqrt(SqDist(x, y))) * b, 1)"
)

classical <- function(kind, bytes, data, repeats) {
  m <- nrow(data$x)
  width <- if (kind == "grad") ncol(data$x) else if (kind %in% c("logsumexp", "argmin")) 1L else ncol(data$b)
  got <- .C("classical", source_text, kinds[[kind]], bytes, ncol(data$x), ncol(data$b), m, nrow(data$y), t(data$x),
            t(data$y), t(data$b), data$g, repeats, out = double(m * width), ms = 0)
  if (got$ms < 0) stop("the classical kernel failed in step ", -got$ms)
  list(out = matrix(got$out, m, byrow = TRUE), ms = got$ms)
}

# One row of the table; `target` and `peer` in milliseconds.
case <- function(kind, d, n, e = 1L, precision = "single", m = n, target = NA, peer = NA) {
  if (max(m, n) > most) return(NULL)
  data.frame(kind, precision, d, e, m, n, target, peer)
}

bench <- function(row, dense) {
  kind <- row$kind
  d <- row$d
  m <- row$m
  n <- row$n
  set.seed(1)
  # bandwidths at which arguments are of order 1 to 10
  data <- list(x = matrix(runif(m * d), m), y = matrix(runif(n * d), n), b = matrix(rnorm(n * row$e), n),
               g = if (d <= 3) 12.5 else 6 / d)
  args <- c(sprintf(c("x=Vi(%d)", "y=Vj(%d)"), d), sprintf("b=Vj(%d)", row$e), "g=Pm(1)")
  op <- keops_kernel(formulas[[kind]], args, precision = row$precision, device = "gpu")
  input <- unname(data)
  start <- proc.time()[["elapsed"]]
  out <- op(input)
  first <- proc.time()[["elapsed"]] - start
  repeats <- if (max(m, n) >= 1e6 || d > 200) 3L else 25L
  kernel <- call <- numeric(repeats)
  for (k in seq_len(repeats)) {
    start <- as.numeric(Sys.time())
    op(input)
    call[k] <- 1e3 * (as.numeric(Sys.time()) - start)
    kernel[k] <- keops:::engine_cuda_ms()
  }
  classic <- NA
  if (!is.na(kinds[[kind]])) {
    classic <- classical(kind, if (row$precision == "single") 4L else 8L, data, min(repeats, 5L))$ms
  }
  exact <- keops_kernel(formulas[[kind]], args, precision = "double", device = "cpu")
  few <- seq_len(min(m, 64))
  truth <- exact(list(data$x[few, , drop = FALSE], data$y, data$b, data$g))
  some <- if (length(dim(out)) == 2L) out[few, , drop = FALSE] else out[few, , , drop = FALSE]
  err <- if (kind %in% c("argmin", "kmin")) mean(truth != some) else sqrt(sum((some - truth)^2) / sum(truth^2))
  cat(sprintf("%-9s %-6s D %3d E %3d %7g x %-7g kernel %9.4f ms  call %9.4f  classical %9.4f  dense %9.4f  target %7s  peer %7s  error %.1e  first %.2f s\n",
              kind, row$precision, d, row$e, m, n, median(kernel), median(call), classic, dense, format(row$target),
              format(row$peer), err, first))
}

# Milliseconds of dense PyTorch for each row, NA where there is none. Not for matrices of 10^12 numbers.
dense_times <- function(rows) {
  few <- rows$m * rows$n <= 1e10 & rows$d < 784
  asked <- with(rows, sprintf("%s %s %d %d %.0f %.0f", kind, precision, d, e, m, n))
  said <- suppressWarnings(tryCatch(
    system2("python3", shQuote(file.path(here, "dense.py")), input = asked[few], stdout = TRUE, stderr = FALSE),
    error = function(e) character()
  ))
  as.numeric(sub(".* ", "", said))[match(asked, sub(" [^ ]*$", "", said))]
}

# A fresh formula with the context up: the first that NVRTC compiles in a process, the next, and one from the cache.
fresh <- function() {
  code <- c(
    "library(keops); x <- matrix(runif(700), 100)",
    "run <- function(d) { op <- keops_kernel('Sum_Reduction(Exp(-SqDist(x,y)),1)', sprintf(c('x=Vi(%d)','y=Vj(%d)'), d), device = 'gpu', precision = 'single')",
    "start <- as.numeric(Sys.time()); op(list(x[, 1:d], x[, 1:d])); 1e3 * (as.numeric(Sys.time()) - start) }",
    "t <- c(run(2), run(4), run(5), run(4)); cat(sprintf('FRESH %.2f', t), '\n')"
  )
  file <- tempfile(fileext = ".R")
  writeLines(code, file)
  home <- tempfile()
  dir.create(home)
  go <- function() {
    said <- system2("env", c(paste0("HOME=", home), paste0("KEOPS_CACHE_DIR=", file.path(home, "keops")), "Rscript", file),
                    stdout = TRUE)
    strsplit(gsub("FRESH ", "", grep("FRESH", said, value = TRUE)), " +")[[1L]]
  }
  cold <- go()
  unlink(file.path(home, "keops"), recursive = TRUE)
  warm <- go() # NVRTC's own cache, if it keeps one
  cached <- go()
  cat("fresh formula, ms: with the context", cold[1L], ", the next two", cold[2:3], ", again", cold[4L],
      "; NVRTC's cache", warm[2:3], "; cubin cache", cached[2:3], "\n")
}

cat(format(Sys.Date()), "\n")
print(keops_info())
rows <- rbind(
  case("gauss", 3, 1e3, target = 0.006, peer = 0.17),
  case("gauss", 3, 1e4, target = 0.055, peer = 0.75),
  case("gauss", 3, 1e5, target = 3.4, peer = 5.6),
  case("gauss", 3, 1e6, target = 320, peer = 474),
  case("gauss", 10, 1e5, target = 4.5, peer = 13),
  case("gauss", 50, 1e5, target = 10, peer = 67),
  case("gauss", 100, 1e5, target = 19, peer = 222),
  case("gauss", 784, 1e5, target = 180, peer = 1823),
  case("gauss", 3, 1e5, precision = "double", target = 13, peer = 28.5),
  case("grad", 3, 1e5, target = 5, peer = 9.8),
  case("grad", 3, 1e6, target = 480, peer = 821),
  case("laplace", 3, 1e5, target = 6.2, peer = 7.4),
  case("matern32", 3, 1e5, target = 6.4, peer = 7.8),
  case("logsumexp", 3, 1e5, target = 5.5, peer = 9.1),
  case("gauss", 3, 1e5, e = 10, target = 8.5, peer = 12.3),
  case("gauss", 3, 1e5, e = 100, target = 30, peer = 190),
  case("kmin", 3, 1e5, target = 4.2, peer = 10.3),
  case("kmin", 100, 1e5, m = 1e4, target = 8, peer = 55),
  case("argmin", 10, 1e3, m = 1e6, target = 0.8, peer = 1.4),
  case("argmin", 3, 1e5)
)
dense <- dense_times(rows)
for (k in seq_len(nrow(rows))) {
  tryCatch(bench(rows[k, ], dense[k]), keops_error = function(e) cat(rows$kind[k], ":", conditionMessage(e), "\n"))
}
fresh()
