# Wide and high-dimensional problems against dense R, with OpenBLAS where it is found, and the time per pair
# and dimension, which must not jump.

# Environment for an R session with OpenBLAS: KEOPS_BENCH_BLAS names the folder of its libblas.so.3.
blas_environment <- function() {
  folder <- Sys.getenv("KEOPS_BENCH_BLAS", "/usr/lib/x86_64-linux-gnu/openblas-pthread")
  library <- file.path(folder, "libblas.so.3")
  if (file.exists(library)) paste0("LD_PRELOAD=", shQuote(library)) else NULL
}

gauss_code <- "exp(-g * pmax(outer(rowSums(x^2), rowSums(y^2), '+') - 2 * tcrossprod(x, y), 0)) %*% b"
l1_code <- "rowSums(vapply(1:m, function(j) colSums(abs(tx - y[j, ])), numeric(m)))"
dense_jobs <- list(
  linear = list(m = 10000L, d = 700L, e = 2L, code = "tcrossprod(x, y) %*% b"),
  gauss = list(m = 10000L, d = 700L, e = 2L, code = gauss_code),
  gauss = list(m = 5000L, d = 3L, e = 256L, code = gauss_code),
  l1 = list(m = 500L, d = 1000L, e = 1L, code = l1_code))

# All sides in one session, so that they see the same load: median seconds of dense R, of ours in single, in double
dense_code <- function(kind, job) {
  c(sprintf("set.seed(1); m <- %dL; g <- 0.5", job$m),
    sprintf("x <- matrix(runif(m * %1$d), m); y <- matrix(runif(m * %1$d), m); b <- matrix(runif(m * %2$d), m); tx <- t(x)",
            job$d, job$e),
    sprintf("ops <- lapply(c('single', 'double'), function(p) keops_kernel('%s', c('x=Vi(%d)', 'y=Vj(%d)', 'b=Vj(%d)', 'g=Pm(1)'), precision = p, threads = %dL))",
            formula_of(kind, job$d, job$e), job$d, job$d, job$e, threads),
    sprintf("dense <- function() %s", job$code),
    "call <- function(k) ops[[k]](list(x, y, b, g))",
    "w <- dense(); wrong <- function(k) max(abs(call(k) - w)) / max(abs(w))",
    "stopifnot(wrong(1) < 1e-4, wrong(2) < 1e-9)",
    "time <- function(code) { s <- as.numeric(Sys.time()); force(code); as.numeric(Sys.time()) - s }",
    "t <- replicate(3, c(time(dense()), time(call(1)), time(call(2))))", "cat(apply(t, 1, median))")
}

bench_wide <- function(rounds) {
  blas <- blas_environment()
  if (is.null(blas)) cat("OpenBLAS is not there: dense R uses the BLAS it has, and no bound is asked for\n")
  for (k in seq_along(dense_jobs)) {
    kind <- names(dense_jobs)[k]
    job <- dense_jobs[[k]]
    # R's own BLAS takes a minute where OpenBLAS takes seconds
    if (is.null(blas)) job$m <- job$m %/% 5L
    t <- fresh_session(dense_code(kind, job), c(blas, sprintf("OPENBLAS_NUM_THREADS=%d", threads)))
    for (p in 1:2) {
      record("wide", sprintf("%s D=%d E=%d M=N=%d", kind, job$d, job$e, job$m), c("single", "double")[p], "auto",
             t[p + 1L] / t[1L], "x dense R", if (is.null(blas)) NA else 1.2, FALSE,
             note = sprintf("%.0f ms, dense R in double %.0f ms", 1e3 * t[p + 1L], 1e3 * t[1L]))
    }
  }
  dimensions(rounds)
}

# Nanoseconds a pair and dimension. A cliff is a D whose pair costs far more than in proportion to the D before.
dimensions <- function(rounds, d = c(1L, 2L, 3L, 4L, 6L, 8L, 12L, 16L, 17L, 24L, 32L, 48L, 64L, 96L, 128L, 192L, 256L,
                                     384L, 512L, 768L, 1000L)) {
  for (precision in c("single", "double")) {
    before <- Inf
    last <- 1L
    for (dim in d) {
      m <- max(64L, min(2000L, 200000L %/% dim))
      data <- make_data(m, 5000L, dim)
      op <- make_operator("gauss", dim, 1L, precision, "compiled", threads)
      call_operator(op, data)
      ns <- min(replicate(rounds, time_of(call_operator(op, data)))) * threads / (m * 5000) * 1e9
      label <- sprintf("gauss D=%d M=%d N=5000", dim, m)
      record("smooth", label, precision, "compiled", ns / before / (dim / last), "x proportion", 1.3, FALSE,
             note = sprintf("%.4f ns/pair/dim", ns / dim))
      before <- ns
      last <- dim
    }
  }
}
