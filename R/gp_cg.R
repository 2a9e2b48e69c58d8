# The iterative path of Gaussian processes: conjugate gradients with the covariance as a lazy matrix. Nothing grows with
# n^2; what needs a determinant or an inverse (likelihood, leave-one-out) is left to the dense path. Parameters that are
# not given are estimated by the dense path on a subset of the rows.

# Diagonals are raised by these multiples of their mean, in this order, where conjugate gradients do not get
# through and there is next to no noise.
cg_jitter <- c(0, 1e-10, 1e-8, 1e-6)

# Standard errors are solved for so many columns at once that a block holds about this many numbers.
cg_entries <- 2^21

fit_cg <- function(problem, table, nstart, trace, control, call) {
  found <- list(par = table$value)
  if (anyNA(found$par)) {
    n <- length(problem$y)
    rows <- if (n > control$subset) sort(sample.int(n, control$subset)) else seq_len(n)
    found <- estimate(subset_problem(problem, rows), table, nstart, trace, control, call)
    if (!is.null(found$optim)) found$optim$rows <- rows
  }
  found$state <- cg_state(problem, found$par, control, call)
  found[c("loglik", "iterations", "converged")] <- list(NA_real_, found$state$iterations, found$state$converged)
  found
}

# Some rows of a problem. A trend that depends on its other columns there is left out: it plays no part in the
# estimates.
subset_problem <- function(problem, rows) {
  trend <- problem$trend[rows, , drop = FALSE]
  kept <- qr(trend)
  problem$trend <- trend[, sort(kept$pivot[seq_len(kept$rank)]), drop = FALSE]
  problem$x <- problem$x[rows, , drop = FALSE]
  problem$y <- problem$y[rows]
  problem$noise <- problem$noise[rows]
  problem
}

# Kriging needs double precision, whatever the session's setting is.
in_double <- function(code) {
  old <- options(keops.precision = "double")
  on.exit(options(old))
  force(code)
}

# Everything at one parameter vector, as dense_state() has it; a fit keeps cg_kept of it:
#   beta, alpha  trend and weights
#   trend_x, trend_r [n, p]   V^-1 trend and what is left of it
#   s, pivot     s's = trend' V^-1 trend, columns in the order pivot
cg_state <- function(problem, par, control, call) {
  own <- par[length(par)] + problem$noise
  scale <- mean(cov_diagonal(problem$node, problem$x, par[-length(par)]) + own)
  if (!is.finite(scale)) stop_singular(problem, "its covariance matrix holds values that are not finite", NA, call)
  if (scale == 0) return(no_variance(problem))
  state <- NULL
  for (step in if (min(own) >= 1e-6 * scale) 0 else cg_jitter) {
    jitter <- step * scale
    state <- tryCatch(in_double(cg_solution(problem, cg_solver(problem, par, own + jitter, control, call), control)), keops_error_singular = function(e) NULL)
    if (!is.null(state) && state$converged) break
  }
  if (is.null(state)) stop_singular(problem, "its covariance matrix is not positive definite", jitter, call)
  if (!state$converged) warn_cg(state$iterations, state$residual, control, call)
  state$jitter <- jitter
  state
}

# No variance at all: the data are the trend, and weights are zero.
no_variance <- function(problem) {
  p <- ncol(problem$trend)
  fit <- qr(problem$trend)
  list(beta = if (p > 0L) qr.coef(fit, problem$y) else numeric(), alpha = numeric(length(problem$y)),
       trend_x = 0 * problem$trend, trend_r = 0 * problem$trend, s = diag(Inf, p), pivot = seq_len(p),
       jitter = 0, iterations = 0L, residual = 0, rank = 0L, converged = TRUE)
}

cg_kept <- c("trend_x", "trend_r", "s", "pivot")

# solve(b) -> list(x, r), x close to V^-1 b, r = b - V x; V = K + diag(ridge). Its preconditioner is made here.
cg_solver <- function(problem, par, ridge, control, call) {
  system <- linear_system(lazy_cov(problem$node, problem$x, problem$x, par), ridge, call)
  rank <- min(control$cg_rank, system$n)
  inverse <- preconditioner(system, "pivchol", rank, call)
  function(b) {
    tick <- solve_progress(control$cg_tol)
    on.exit(tick(NULL))
    found <- refine(system, b, list(x = 0 * b, r = b, iterations = 0L), inverse, control$cg_tol, control$cg_maxit, tick, call)
    list(x = found$x, r = found$r, iterations = found$iterations, residual = found$residual, converged = found$done)
  }
}

# That of a fit, for predictions.
fitted_solver <- function(object, problem, par, call) {
  ridge <- par[length(par)] + problem$noise + object$solver$jitter
  if (all(ridge == 0) && all(cov_diagonal(problem$node, problem$x, par[-length(par)]) == 0)) {
    return(function(b) list(x = b, r = b, converged = TRUE)) # no variance: b is 0
  }
  in_double(cg_solver(problem, par, ridge, object$control, call))
}

cg_solution <- function(problem, solve, control) {
  # residuals of the trend by least squares and an orthonormal basis of it: a large mean costs no digits
  h <- qr(problem$trend)
  p <- ncol(problem$trend)
  q <- if (p > 0L) qr.Q(h) else problem$trend
  e <- if (p > 0L) qr.resid(h, problem$y) else problem$y
  found <- solve(cbind(e, q, deparse.level = 0L))
  x <- found$x[, 1L]
  r <- found$r[, 1L]
  state <- list(beta = numeric(), alpha = x, trend_x = q, trend_r = q, s = matrix(0, 0L, 0L), pivot = integer())
  if (p > 0L) {
    x_q <- found$x[, -1L, drop = FALSE]
    r_q <- found$r[, -1L, drop = FALSE]
    c <- chol(cg_product(q, x_q, r_q, q, x_q))
    g <- backsolve(c, backsolve(c, cg_product(q, x_q, r_q, e, x), transpose = TRUE))
    state$alpha <- x - drop(x_q %*% g)
    r <- r - drop(r_q %*% g)
    state$beta <- qr.coef(h, problem$y - e + drop(q %*% g))
    e <- e - drop(q %*% g)
    to_h <- qr.R(h)[, order(h$pivot), drop = FALSE]
    state$trend_x <- x_q %*% to_h
    state$trend_r <- r_q %*% to_h
    state$s <- c %*% qr.R(h)
    state$pivot <- h$pivot
  }
  residual <- if (any(e != 0)) sqrt(sum(r^2) / sum(e^2)) else 0
  c(state, list(iterations = found$iterations, residual = residual, rank = min(control$cg_rank, length(e)), converged = found$converged))
}

# a' V^-1 b from x_a close to V^-1 a with residual r_a, and x_b: the error is r_a' V^-1 r_b, of second order.
cg_product <- function(a, x_a, r_a, b, x_b) {
  out <- crossprod(x_a, b) + crossprod(r_a, x_b)
  if (ncol(out) == nrow(out) && identical(a, b)) (out + t(out)) / 2 else out
}

# As dense_update(): the variance is k00 - colSums(left * right) + colSums(trend^2).
cg_update <- function(problem, state, par, x_new, trend_new, with_trend) {
  k <- cov_matrix(problem$node, problem$x, x_new, par[-length(par)])
  found <- in_double(state$solve(k))
  trend <- matrix(0, 0L, nrow(x_new))
  if (with_trend && ncol(problem$trend) > 0L) {
    miss <- t(trend_new) - crossprod(state$trend_x, k) - crossprod(state$trend_r, found$x)
    trend <- backsolve(state$s, miss[state$pivot, , drop = FALSE], transpose = TRUE)
  }
  list(left = rbind(k, found$x), right = rbind(found$x, found$r), trend = trend, converged = found$converged,
       iterations = found$iterations, residual = found$residual)
}

warn_cg <- function(iterations, residual, control, call) {
  warn_convergence(
    sprintf("conjugate gradients stopped after %d steps with a relative residual of %s, not %s (`cg_tol` of keops_gp_control()): a nugget, or larger `cg_maxit` and `cg_rank`, help",
            iterations, format(max(residual), digits = 3L), format(control$cg_tol)),
    call, iterations, residual
  )
}

# What only a dense fit can say.
stop_iterative <- function(what, object, call) {
  n <- length(object$y)
  stop_input("`object`", paste("a fit of", format_count(n), "rows by conjugate gradients"),
             paste0("a dense fit: ", what, " needs the factor of a ", size_text(c(n, n)), " matrix (solver = \"cholesky\" takes ",
                    dense_size(n), ")"), call)
}

dense_size <- function(n) paste(format(signif(4 * 8 * n^2 / 2^30, 2)), "GB")

# How long the standard errors will take, once the first block is there.
announce_blocks <- function(blocks, seconds) {
  if (!interactive() || isFALSE(getOption("keops.progress")) || blocks * seconds < 2) return(invisible())
  message("keops: standard errors by conjugate gradients, ", format_count(blocks), " more blocks of points, about ",
          format(signif(blocks * seconds, 2)), " s")
}
