# Time the package on a GPU beside classical.cu, in one run.
#
#   Rscript bench/cuda/run.R [largest N, default 1e6]        (or: make bench-cuda)
#
# "kernel": the device's own events around the package's launches (merges and copies between them included);
# "call": the whole call from R with host matrices, median of several; "classical": the kernel alone, data on the
# device. Targets are those of an NVIDIA H200. Results are compared with the classical kernel's before.

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

kinds <- c(gauss = 0L, grad = 1L, logsumexp = 2L, argmin = 3L, laplace = 4L, matern32 = NA)
formulas <- c(
  gauss = "Sum_Reduction(Exp(-g * SqDist(x, y)) * b, 1)",
  grad = "Grad(Sum_Reduction(Exp(-g * SqDist(x, y)) * b, 1), x, IntCst(1))",
  logsumexp = "LogSumExp_Reduction(-g * SqDist(x, y), 1)",
  argmin = "ArgMin_Reduction(SqDist(x, y), 1)",
  laplace = "Sum_Reduction(Exp(-g * Sqrt(SqDist(x, y))) * b, 1)",
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

bench <- function(kind, d, n, e = 1L, precision = "single", m = n, target = NA, peer = NA) {
  if (max(m, n) > most) return(invisible())
  set.seed(1)
  # bandwidths at which arguments are of order 1 to 10
  data <- list(x = matrix(runif(m * d), m), y = matrix(runif(n * d), n), b = matrix(rnorm(n * e), n),
               g = if (d <= 3) 12.5 else 6 / d)
  args <- c(sprintf(c("x=Vi(%d)", "y=Vj(%d)"), d), sprintf("b=Vj(%d)", e), "g=Pm(1)")
  op <- keops_kernel(formulas[[kind]], args, precision = precision, device = "gpu")
  input <- unname(data)
  start <- proc.time()[["elapsed"]]
  out <- op(input)
  first <- proc.time()[["elapsed"]] - start
  repeats <- if (max(m, n) >= 1e6 || d > 200) 3L else 15L
  kernel <- call <- numeric(repeats)
  for (k in seq_len(repeats)) {
    start <- as.numeric(Sys.time())
    op(input)
    call[k] <- 1e3 * (as.numeric(Sys.time()) - start)
    kernel[k] <- keops:::engine_cuda_ms()
  }
  error <- classic <- NA
  if (!is.na(kinds[[kind]])) {
    peer_run <- classical(kind, if (precision == "single") 4L else 8L, data, min(repeats, 5L))
    classic <- peer_run$ms
    error <- if (kind == "argmin") mean(out - 1 != peer_run$out) else sqrt(sum((out - peer_run$out)^2) / sum(peer_run$out^2))
  }
  exact <- keops_kernel(formulas[[kind]], args, precision = "double", device = "cpu")
  few <- seq_len(min(m, 64))
  truth <- exact(list(data$x[few, , drop = FALSE], data$y, data$b, data$g))
  err <- if (kind == "argmin") mean(truth != out[few, ]) else sqrt(sum((out[few, ] - truth)^2) / sum(truth^2))
  cat(sprintf("%-9s %-6s D %3d E %3d %7g x %-7g kernel %9.4f ms  call %9.4f  classical %9.4f  target %7s  peer %7s  error %.1e  first %.2f s\n",
              kind, precision, d, e, m, n, median(kernel), median(call), classic, format(target), format(peer), err, first))
}

cat(format(Sys.Date()), "\n")
print(keops_info())
bench("gauss", 3, 1e3, target = 0.006, peer = 0.17)
bench("gauss", 3, 1e4, target = 0.055, peer = 0.75)
bench("gauss", 3, 1e5, target = 3.4, peer = 5.6)
bench("gauss", 3, 1e6, target = 320, peer = 474)
bench("gauss", 10, 1e5, target = 4.5, peer = 13)
bench("gauss", 50, 1e5, target = 10, peer = 67)
bench("gauss", 100, 1e5, target = 19, peer = 222)
bench("gauss", 784, 1e5, target = 180, peer = 1823)
bench("gauss", 3, 1e5, precision = "double", target = 13, peer = 28.5)
bench("grad", 3, 1e5, target = 5, peer = 9.8)
bench("grad", 3, 1e6, target = 480, peer = 821)
bench("laplace", 3, 1e5, target = 6.2, peer = 7.4)
bench("matern32", 3, 1e5, target = 6.4, peer = 7.8)
bench("logsumexp", 3, 1e5, target = 5.5, peer = 9.1)
bench("gauss", 3, 1e5, e = 10, target = 8.5, peer = 12.3)
bench("gauss", 3, 1e5, e = 100, target = 30, peer = 190)
bench("argmin", 10, 1e3, m = 1e6, target = 0.8, peer = 1.4)
bench("argmin", 3, 1e5)
