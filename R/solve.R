# Linear systems with lazy matrices: preconditioned conjugate gradients.

#' Solve a linear system with a lazy matrix
#'
#' Solves (K + ridge I) x = b for a symmetric positive definite lazy matrix by conjugate gradients, all right-hand sides at
#' once. Each step costs one product with K.
#'
#' @param a A lazy matrix, square and symmetric: the same data as i and as j. Or a sum of products of lazy matrices.
#' @param b A vector, or a matrix with one column for each right-hand side.
#' @param ridge Added to the diagonal: one number, or one for each row, at least 0.
#' @param tol Bound of the relative residual |b - (K + ridge I) x| / |b| of each column (Euclidean norms).
#' @param maxit Most steps, 1000 if `NULL`.
#' @param precond `"none"`; `"pivchol"`: a partial Cholesky factor with the largest pivots; `"nystrom"`: an approximation from `rank` columns chosen by
#'   R's random numbers; `"auto"`: plain steps first, and `"pivchol"` if 25 of them were not enough.
#' @param rank Number of columns of the preconditioner, at most 200 and half of them if `NULL`. It takes memory of n x rank numbers.
#' @param ... Not used; anything here is an error.
#'
#' @details
#' Conjugate gradients need a positive definite matrix. When a step finds that the matrix is not (a direction p with p'Kp < 0, a negative
#' pivot), `solve()` stops with an error. A matrix that is singular to rounding is not an error: the result says that it did not converge; a
#' `ridge` helps. The residual that is reported is computed from the solution, not carried along.
#'
#' Computing can be interrupted at any time. In interactive sessions a progress bar is shown after 2 seconds, unless
#' `options(keops.progress = FALSE)`.
#'
#' @return The solution, a vector or matrix like `b`, with attributes `iterations` (number of products), `residual` (relative, one
#'   a column) and `converged` (`TRUE` if all residuals are at most `tol`).
#' @section Errors: `keops_error_singular` for a matrix found not to be positive definite; `keops_error_input` for one that is not square or not symmetric.
#' @section Warnings: `keops_warning_convergence` if `tol` was not reached, with fields `iterations` and `residual`.
#' @references
#' Hestenes, M. R., Stiefel, E. (1952). Methods of conjugate gradients for solving linear systems. *Journal of Research of the National
#' Bureau of Standards*, 49, 409-436.
#'
#' Harbrecht, H., Peters, M., Schneider, R. (2012). On the low-rank approximation by the pivoted Cholesky decomposition. *Applied Numerical
#' Mathematics*, 62, 428-440.
#' @seealso [lazy_matrix]
#' @examples
#' x <- matrix(runif(400), 200, 2)
#' K <- exp(-sqdist(Vi(x), Vj(x)) / 0.08)
#' b <- sin(6 * x[, 1])
#' a <- solve(K, b, ridge = 0.01)
#' attributes(a)
#' range(K %*% a + 0.01 * a - b)
#' @export
solve.keops_lazytensor <- function(a, b, ridge = 0, tol = 1e-6, maxit = NULL,
                                   precond = c("auto", "none", "nystrom", "pivchol"), rank = NULL, ...) {
  call <- sys.call(-1L)
  check_dots(call, ...)
  if (missing(b)) stop_input("`b`", "nothing", "right-hand sides; the inverse of a small K is solve(as.matrix(K))", call)
  precond <- take_choice(precond, c("auto", "none", "nystrom", "pivchol"), "precond", call)
  tol <- take_number(tol, "tol", call, low = 0)
  maxit <- if (is.null(maxit)) 1000L else take_count(maxit, "maxit", call)
  if (any(dim(a) == 0L)) stop_input("`a`", "a lazy matrix without rows", "one row or more", call)
  ridge <- if (length(ridge) == 1L) take_number(ridge, "ridge", call, low = 0) else take_numbers(ridge, nrow(a), "ridge", call, low = 0)
  system <- linear_system(a, ridge, call)
  rhs <- right_side(b, system$n, call)
  rank <- if (is.null(rank)) min(200L, max(1L, system$n %/% 2L)) else take_count(rank, "rank", call, high = system$n)
  if (is.null(system$node) && precond != "none") {
    if (precond != "auto") stop_input("`precond`", show_value(precond), "\"none\" for a product of lazy matrices", call)
    precond <- "none"
  }
  # squares of very small or large numbers are 0 or infinite
  size <- apply(abs(rhs), 2L, max)
  size[size == 0] <- 1
  out <- solve_system(system, rhs / rep(size, each = system$n), tol, maxit, precond, rank, call)
  out$x <- out$x * rep(size, each = system$n)
  finish_solution(out, b, rhs, tol, call)
}

right_side <- function(b, n, call) {
  if (is.complex(b)) stop_input("`b`", describe(b), "real numbers", call)
  rhs <- unname(gate_matrix(b, "b", call))
  if (nrow(rhs) != n) stop_dimension(sprintf("`b` has %s rows, the matrix %s", format_count(nrow(rhs)), format_count(n)), "solve", c(nrow(rhs), n), call)
  check_finite(rhs, "b", call)
  rhs
}

# list(n, node, ridge, times, scale): K + diag(ridge) (one number, or n) without multiples of the identity in the node (NULL for a product),
# and about how large the matrix is, by which rounding is told from negative eigenvalues.
linear_system <- function(a, ridge, call) {
  size <- dim(a)
  if (size[1L] != size[2L]) stop_input("`a`", paste("a", size_text(size), "lazy matrix"), "a square one", call)
  if (inherits(a, "keops_lazyproduct")) {
    times <- function(p) lazy_matmul(a, p, call) + ridge * p
    scale <- check_symmetric_product(times, size[1L], call)
    return(list(n = size[1L], node = NULL, ridge = ridge, times = times, scale = scale))
  }
  node <- lazy_node(a, call)
  real_only(node, "solve", call)
  if (node$dim != 1L) stop_input("`a`", sprintf("a lazy matrix with entries of %d components", node$dim), "entries of one component", call)
  ranges <- .subset2(a, "ranges")
  parts <- if (is.null(ranges)) split_identity(node)
  if (!is.null(parts)) {
    node <- parts$node
    ridge <- ridge + parts$factor
  }
  scale <- check_symmetric(node, size[1L], ridge, call, ranges) + max(abs(ridge))
  list(n = size[1L], node = node, ranges = ranges, ridge = ridge, scale = scale, times = function(p) kernel_times(node, p, ranges, call) + ridge * p)
}

# Some rows against the columns: a matrix that passes and is not symmetric is still found by its residual. Gives
# the largest sum of a row.
check_symmetric <- function(node, n, ridge, call, ranges) {
  at <- unique(round(seq(1, n, length.out = min(n, 5L))))
  rows <- dense_values(node, at, NULL, call, ranges)
  columns <- dense_values(transpose_node(node), at, NULL, call, t_ranges(ranges))
  if (!all(is.finite(rows)) || !all(is.finite(ridge))) stop_input("`a`", "a lazy matrix with NA, NaN or Inf", "numbers", call)
  if (max(abs(rows - columns)) > rounding_level() * 100 * max(abs(rows))) stop_asymmetric(call)
  max(rowSums(abs(rows)))
}

check_symmetric_product <- function(times, n, call) {
  p <- cbind(cos(seq_len(n)), sin(seq_len(n) * sqrt(2)))
  q <- times(p)
  if (abs(sum(p[, 1L] * q[, 2L]) - sum(p[, 2L] * q[, 1L])) > 1e-6 * sqrt(sum(q^2) * sum(p^2))) stop_asymmetric(call)
  sqrt(max(colSums(q^2) / colSums(p^2)))
}

# What is too much for an error of rounding in a product, relative to the size of the matrix.
rounding_level <- function() if (setting("precision") == "single") 1e-5 else 1e-10

stop_asymmetric <- function(call) {
  stop_input("`a`", "a lazy matrix that is not symmetric", "a symmetric one: the same data as i and as j", call)
}

stop_indefinite <- function(how, ridge, call) {
  stop(keops_condition(
    "singular",
    paste0("the matrix is not positive definite: ", how, "; conjugate gradients need a positive definite one. ",
           "A larger `ridge` makes it so if the negative eigenvalues are small; else use solve(as.matrix(K), b) for a small K"),
    call, jitter = max(ridge), rows = NULL
  ))
}

# ---- conjugate gradients ----

solve_system <- function(system, rhs, tol, maxit, precond, rank, call) {
  tick <- solve_progress(tol)
  on.exit(tick(NULL))
  state <- list(x = matrix(0, nrow(rhs), ncol(rhs)), r = rhs, iterations = 0L)
  plain <- function(r) r
  if (precond == "auto") {
    state <- refine(system, rhs, state, plain, tol, min(25L, maxit), tick, call)
    if (state$done || state$iterations >= maxit) return(state)
    precond <- "pivchol"
  }
  apply_inverse <- switch(precond, none = plain, preconditioner(system, precond, rank, call))
  refine(system, rhs, state, apply_inverse, tol, maxit, tick, call)
}

# Steps until the true residuals are small: rounding parts those carried along from the true ones, so steps start
# again from the solution as long as that helps.
refine <- function(system, rhs, state, apply_inverse, tol, maxit, tick, call) {
  norms <- sqrt(colSums(rhs^2))
  last <- Inf
  repeat {
    state <- descend(system, state, norms, apply_inverse, tol, maxit, tick, call)
    state$r <- rhs - system$times(state$x)
    residual <- relative_norm(state$r, norms)
    state$residual <- residual
    state$done <- all(residual <= tol)
    worst <- max(residual, 0)
    if (state$done || state$iterations >= maxit || !is.finite(worst) || worst > last / 2) return(state)
    last <- worst
  }
}

relative_norm <- function(r, norms) {
  size <- sqrt(colSums(r^2))
  ifelse(norms > 0, size / norms, size)
}

# One run of steps; columns that have converged, or cannot go on, stay as they are.
descend <- function(system, state, norms, apply_inverse, tol, maxit, tick, call) {
  x <- state$x
  r <- state$r
  z <- apply_inverse(r)
  p <- z
  rz <- colSums(r * z)
  stuck <- rep(FALSE, ncol(r))
  scale <- system$scale
  repeat {
    residual <- relative_norm(r, norms)
    tick(max(residual, 0))
    active <- residual > tol & !stuck
    if (!any(active) || state$iterations >= maxit) break
    q <- system$times(p)
    state$iterations <- state$iterations + 1L
    pq <- colSums(p * q)
    pp <- colSums(p^2)
    scale <- max(scale, sqrt(colSums(q^2) / pp)[active], na.rm = TRUE)
    if (anyNA(pq)) stop_input("`a`", "products with NA or NaN", "a lazy matrix of numbers", call)
    if (any(pq[active] < -rounding_level() * scale * pp[active])) {
      stop_indefinite(sprintf("p'Kp < 0 was found in step %d", state$iterations), system$ridge, call)
    }
    stuck <- stuck | pq <= 1e-16 * scale * pp # singular to rounding in this direction
    active <- active & !stuck
    alpha <- ifelse(active, rz / pq, 0)
    x <- x + p * rep(alpha, each = nrow(p))
    r <- r - q * rep(alpha, each = nrow(q))
    z <- apply_inverse(r)
    rz_new <- colSums(r * z)
    beta <- ifelse(active, rz_new / rz, 0)
    p <- z + p * rep(beta, each = nrow(p))
    rz <- ifelse(active, rz_new, rz)
  }
  state$x <- x
  state
}

finish_solution <- function(state, b, rhs, tol, call) {
  x <- state$x
  if (is.null(dim(b))) {
    x <- stats::setNames(as.vector(x), names(b))
  } else if (!is.data.frame(b)) {
    dimnames(x) <- dimnames(b)
  }
  if (!state$done) {
    warn_convergence(
      sprintf("conjugate gradients stopped after %d steps with a relative residual of %s, not %s: raise `maxit` or `ridge`, or try another `precond`",
              state$iterations, format(max(state$residual), digits = 3L), format(tol)),
      call, state$iterations, state$residual
    )
  }
  structure(x, iterations = state$iterations, residual = state$residual, converged = state$done)
}

# ---- preconditioners: K close to L L', so (K + ridge I)^-1 close to (L L' + D)^-1, D diagonal ----

preconditioner <- function(system, kind, rank, call) {
  low <- if (kind == "pivchol") pivoted_cholesky(system, rank, call) else nystrom(system, rank, call)
  if (length(low$factor) == 0L) return(function(r) r)
  root <- sqrt(pmax(system$ridge, low$left, 1e-13 * low$largest))
  s <- svd(low$factor / root, nv = 0L)
  weight <- s$d^2 / (s$d^2 + 1)
  function(r) {
    r <- r / root
    (r - s$u %*% (weight * crossprod(s$u, r))) / root
  }
}

# K close to L L' with the rows of the largest remaining diagonal: list(factor n x k, left: mean of the remaining diagonal).
pivoted_cholesky <- function(system, rank, call) {
  left <- as.vector(pair_values(system$node, seq_len(system$n), seq_len(system$n), call, system$ranges))
  largest <- max(left, 0)
  check_pivots(left, largest, system$ridge, call)
  factor <- matrix(0, system$n, rank)
  k <- 0L
  while (k < rank) {
    p <- which.max(left)
    if (left[p] <= max(1e-14 * largest, 1e-3 * min(system$ridge))) break
    row <- as.vector(dense_values(system$node, p, NULL, call, system$ranges))
    if (k > 0L) row <- row - as.vector(factor[, seq_len(k), drop = FALSE] %*% factor[p, seq_len(k)])
    k <- k + 1L
    factor[, k] <- row / sqrt(left[p])
    left <- left - factor[, k]^2
    left[p] <- 0
    check_pivots(left, largest, system$ridge, call)
  }
  list(factor = factor[, seq_len(k), drop = FALSE], left = mean(pmax(left, 0)), largest = largest)
}

check_pivots <- function(left, largest, ridge, call) {
  if (min(left + ridge) < -1e-8 * largest) stop_indefinite("a negative pivot was found", ridge, call)
}

nystrom <- function(system, rank, call) {
  at <- sort(sample.int(system$n, rank))
  columns <- dense_values(system$node, NULL, at, call, system$ranges)
  columns <- matrix(columns, system$n, rank)
  e <- eigen(columns[at, , drop = FALSE], symmetric = TRUE)
  largest <- max(abs(e$values))
  if (min(e$values) + max(system$ridge) < -1e-8 * largest) stop_indefinite("a block of it has a negative eigenvalue", system$ridge, call)
  keep <- e$values > 1e-12 * largest
  factor <- columns %*% (e$vectors[, keep, drop = FALSE] %*% diag(1 / sqrt(e$values[keep]), sum(keep)))
  all <- as.vector(pair_values(system$node, seq_len(system$n), seq_len(system$n), call, system$ranges))
  list(factor = factor, left = mean(pmax(all - rowSums(factor^2), 0)), largest = max(all))
}

# ---- progress ----

# A function of the largest residual; NULL ends the bar. It appears after 2 seconds.
solve_progress <- function(tol) {
  if (!interactive() || isFALSE(getOption("keops.progress"))) return(function(residual) NULL)
  start <- proc.time()[["elapsed"]]
  bar <- NULL
  function(residual) {
    if (is.null(residual)) {
      if (!is.null(bar)) close(bar)
    } else if (proc.time()[["elapsed"]] - start > 2 && residual > 0 && tol > 0 && tol < 1) {
      if (is.null(bar)) bar <<- utils::txtProgressBar(style = 3)
      utils::setTxtProgressBar(bar, min(1, max(0, log(residual) / log(tol))))
    }
  }
}
