# Other ways to the same answers, where this machine has them.

have <- function(package) {
  found <- requireNamespace(package, quietly = TRUE)
  if (!found) cat(package, "is not installed\n")
  found
}

against <- function(case, peer, ours, theirs, rounds, bound = NA) {
  ours()
  times <- interleave(list(ours = function() time_of(ours()), peer = function() time_of(theirs())), rounds)
  r <- ratio_of(times, "peer", "ours")
  record("peers", case, "double", "auto", r$value, paste("x", peer), bound, TRUE, r$low, r$high,
         note = sprintf("%.1f ms, %s %.1f ms", 1e3 * median(times[, "ours"]), peer, 1e3 * median(times[, "peer"])))
}

neighbours <- function(k = 10L) {
  for (d in c(3L, 20L)) {
    n <- if (d > 10L) 4000L else 10000L # where trees no longer help they take minutes
    data <- make_data(n, n, d)
    op <- make_operator("argkmin", d, k, "double", "auto", threads)
    case <- sprintf("%d nearest D=%d M=N=%d", k, d, n)
    ours <- function() call_operator(op, data)
    if (have("FNN")) {
      for (how in c("kd_tree", "brute")) {
        against(case, paste("FNN", how), ours, function() FNN::get.knnx(data$y, data$x, k, algorithm = how), 3L)
      }
    }
    if (have("RANN")) against(case, "RANN", ours, function() RANN::nn2(data$y, data$x, k), 3L)
  }
}

# The k least where k is no small number
many_neighbours <- function(n = 20000L, m = 2000L, k = 3000L) {
  data <- make_data(m, n, 3L)
  op <- make_operator("argkmin", 3L, k, "double", "auto", threads)
  call_operator(op, data)
  times <- replicate(3L, time_of(call_operator(op, data)))
  record("peers", sprintf("%d nearest D=3 M=%d N=%d", k, m, n), "double", "auto", 1e3 * median(times), "ms",
         low = 1e3 * min(times), high = 1e3 * max(times))
}

# Ten of Lloyd's steps from the same centres
clusters <- function(k = 100L) {
  for (size in list(c(100000L, 3L), c(100000L, 20L), c(1000000L, 10L))) {
    x <- matrix(rnorm(size[1L] * size[2L]), size[1L])
    start <- x[seq_len(k), ]
    against(sprintf("k-means K=%d N=%d D=%d, 10 steps", k, size[1L], size[2L]), "stats::kmeans Lloyd",
            function() suppressWarnings(keops_kmeans(x, start, iter.max = 10L)),
            function() suppressWarnings(stats::kmeans(x, start, iter.max = 10L, algorithm = "Lloyd")), 3L,
            if (size[1L] > 100000L) 5 else NA)
  }
}

# A fit with given parameters and a prediction: by conjugate gradients, against the dense solver where that
# still fits; the larger one alone
kriging <- function() {
  for (n in c(4000L, 20000L)) {
    x <- matrix(runif(2L * n), n)
    y <- sin(9 * x[, 1L]) * cos(7 * x[, 2L]) + rnorm(n, sd = sqrt(1e-3))
    new <- matrix(runif(2000L), 1000L)
    run <- function(solver) {
      fit <- keops_gp(x, y, kernel = "matern52", range = 0.2, variance = 1, nugget = 1e-3, solver = solver)
      stats::predict(fit, new)
    }
    case <- sprintf("kriging, fit and predict, n=%d", n)
    if (n < 10000L) {
      against(case, "dense solver", function() run("cg"), function() run("cholesky"), 1L)
    } else {
      record("peers", case, "double", "auto", time_of(run("cg")), "s")
    }
  }
}

dense <- function(m = 4000L) {
  for (d in c(3L, 100L)) {
    data <- make_data(m, m, d)
    op <- make_operator("gauss", d, 1L, "double", "auto", threads)
    against(sprintf("gauss D=%d M=N=%d", d, m), "dense R (its own BLAS)", function() call_operator(op, data),
            function() {
              s <- outer(rowSums(data$x^2), rowSums(data$y^2), "+") - 2 * tcrossprod(data$x, data$y)
              exp(-data$g * pmax(s, 0)) %*% data$b
            }, 3L)
  }
}

numpy <- function(m = 4000L) {
  python <- Filter(function(p) system2(p, c("-c", shQuote("import numpy")), stdout = FALSE, stderr = FALSE) == 0L,
                   unique(c(Sys.which("python3"), Filter(file.exists, "/usr/bin/python3"))))[1L]
  if (is.na(python)) {
    cat("numpy is not installed\n")
    return(invisible())
  }
  for (d in c(3L, 100L)) {
    code <- paste("import numpy as n, time",
                  sprintf("x=n.random.rand(%1$d,%2$d);y=n.random.rand(%1$d,%2$d);b=n.random.rand(%1$d)", m, d),
                  "f=lambda: n.exp(-.5*n.maximum((x*x).sum(1)[:,None]+(y*y).sum(1)-2*(x@y.T),0))@b", "f();t=[]",
                  "for k in range(5):", " s=time.time();f();t.append(time.time()-s)", "print(n.median(t))", sep = "\n")
    theirs <- as.numeric(system2(python, c("-c", shQuote(code)), stdout = TRUE))
    data <- make_data(m, m, d)
    op <- make_operator("gauss", d, 1L, "double", "auto", threads)
    call_operator(op, data)
    ours <- median(replicate(5L, time_of(call_operator(op, data))))
    record("peers", sprintf("gauss D=%d M=N=%d", d, m), "double", "auto", theirs / ours, "x numpy",
           note = sprintf("%.1f ms, numpy %.1f ms, one after the other", 1e3 * ours, 1e3 * theirs))
  }
}

bench_peers <- function(rounds) {
  dense()
  numpy()
  neighbours()
  many_neighbours()
  clusters()
  kriging()
}
