# The dense path of Gaussian processes: one Cholesky factor, from which likelihood, gradient, prediction and
# leave-one-out follow.
#
# A problem is list(x, y, trend [n, p], node, table, noise [n], method). A parameter vector `par` holds the
# covariance's parameters (natural scale) and, last, the nugget.

# Relative additions to the diagonal, tried in this order where the matrix is not positive definite.
jitter_ladder <- c(0, 10^seq(-13, -6))

# Everything at one parameter vector:
#   r [n, n]     upper factor, V = r'r, V = K + nugget + noise + jitter
#   beta [p]     trend by generalised least squares        alpha [n]  V^-1 (y - trend beta)
#   w [n, p]     r^-T trend = q s, columns in the order pivot
dense_state <- function(problem, par, call = NULL) {
  v <- cov_matrix(problem$node, problem$x, problem$x, par[-length(par)])
  own <- par[length(par)] + problem$noise
  scale <- mean(diag(v) + own)
  if (!is.finite(scale) || !all(is.finite(v))) stop_singular(problem, "its covariance matrix holds values that are not finite", NA, call)
  if (scale == 0) { # no variance at all: the data are the trend
    problem$y <- problem$y - trend_residuals(problem)
    scale <- 1e-300
    jitter <- scale
    r <- diag(sqrt(scale), nrow(v))
  } else {
    found <- robust_chol(v, own, scale)
    if (is.null(found)) stop_singular(problem, "its covariance matrix is not positive definite", max(jitter_ladder) * scale, call)
    r <- found$r
    jitter <- found$jitter
  }
  p <- ncol(problem$trend)
  u <- backsolve(r, problem$y, transpose = TRUE)
  w <- if (p > 0L) backsolve(r, problem$trend, transpose = TRUE) else matrix(0, nrow(v), 0L)
  fit <- if (p > 0L) qr(w, LAPACK = TRUE)
  q <- if (p > 0L) qr.Q(fit) else w
  s <- if (p > 0L) qr.R(fit) else matrix(0, 0L, 0L)
  part <- drop(crossprod(q, u))
  e <- if (jitter == 1e-300) 0 * u else u - drop(q %*% part)
  beta <- numeric(p)
  if (p > 0L) beta[fit$pivot] <- backsolve(s, part)
  list(r = r, w = w, q = q, s = s, pivot = fit$pivot, beta = beta, e = e, alpha = drop(backsolve(r, e)), jitter = jitter,
       own = own + jitter, log_det = 2 * sum(log(diag(r))), log_det_trend = 2 * sum(log(abs(diag(s)))))
}

trend_residuals <- function(problem) {
  if (ncol(problem$trend) == 0L) problem$y else qr.resid(qr(problem$trend), problem$y)
}

# list(r, jitter): the factor with the least jitter whose pivots are more than rounding.
robust_chol <- function(v, own, scale) {
  n <- nrow(v)
  least <- n * .Machine$double.eps * max(diag(v) + own)
  at <- cbind(seq_len(n), seq_len(n))
  diagonal <- v[at]
  for (step in jitter_ladder) {
    v[at] <- diagonal + own + step * scale
    r <- tryCatch(chol(v), error = function(e) NULL)
    if (!is.null(r) && min(diag(r))^2 > least) return(list(r = r, jitter = step * scale))
  }
  NULL
}

dense_loglik <- function(problem, state) {
  if (state$jitter == 1e-300) return(Inf) # no variance at all, and the trend fits
  n <- length(problem$y)
  quad <- sum(state$e^2)
  if (problem$method == "REML") {
    -0.5 * ((n - ncol(problem$trend)) * log(2 * pi) + state$log_det + state$log_det_trend + quad)
  } else {
    -0.5 * (n * log(2 * pi) + state$log_det + quad)
  }
}

# Gradient of the log-likelihood in log(par).
dense_gradient <- function(problem, state, par) {
  inverse <- chol2inv(state$r)
  if (problem$method == "REML") inverse <- inverse - tcrossprod(whitened_trend(state))
  m <- 0.5 * (tcrossprod(state$alpha) - inverse)
  nugget <- par[length(par)]
  c(cov_slopes(problem$node, m, problem$x, par[-length(par)]), nugget * sum(diag(m)))
}

# r^-1 q, n x p: its cross product takes V^-1 to P = V^-1 - V^-1 X (X'V^-1 X)^-1 X'V^-1.
whitened_trend <- function(state) {
  if (ncol(state$w) == 0L) state$w else backsolve(state$r, state$q)
}

# list(error, variance): y minus its prediction from the other rows, trend refitted.
dense_loo <- function(state) {
  n <- nrow(state$r)
  p_ii <- rowSums(backsolve(state$r, diag(n))^2) - rowSums(whitened_trend(state)^2)
  list(error = state$alpha / p_ii, variance = 1 / p_ii)
}

# (X'V^-1 X)^-1
trend_vcov <- function(state) {
  p <- ncol(state$s)
  if (p == 0L) return(matrix(0, 0L, 0L))
  order <- order(state$pivot)
  chol2inv(state$s)[order, order, drop = FALSE]
}

# What of the covariance at new points the data take away and the trend's uncertainty adds: list(left, right, trend), all
# with one column a point; variance = k00 - colSums(left * right) + colSums(trend^2), and likewise between points.
dense_update <- function(problem, state, par, x_new, trend_new, with_trend) {
  solved <- backsolve(state$r, cov_matrix(problem$node, problem$x, x_new, par[-length(par)]), transpose = TRUE)
  p <- ncol(state$w)
  if (!with_trend || p == 0L) return(list(left = solved, right = solved, trend = matrix(0, 0L, nrow(x_new))))
  miss <- t(trend_new) - crossprod(state$w, solved)
  list(left = solved, right = solved, trend = backsolve(state$s, miss[state$pivot, , drop = FALSE], transpose = TRUE))
}

stop_singular <- function(problem, what, jitter, call) {
  rows <- near_rows(problem$x)
  stop(keops_condition(
    "singular",
    paste0("the model can't be solved: ", what, if (!is.na(jitter)) paste0(", even with ", format(signif(jitter, 3)), " added to its diagonal"),
           "; the nearest rows are ", paste(rows, collapse = " and "), ". A nugget (or `noise`) makes it positive definite"),
    call, jitter = jitter, rows = rows
  ))
}

# The two rows at the smallest distance.
near_rows <- function(x) {
  if (nrow(x) < 2L) return(1L)
  near <- nearest(unname(x), NULL, 1L, take_metric("euclidean", NULL), NULL)
  i <- which.min(near$dist[, 1L])
  sort(c(i, near$index[i, 1L]))
}
