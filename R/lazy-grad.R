# Gradients of lazy matrices in their data.

#' Differentiate the sum of a lazy matrix
#'
#' The gradient of the total sum of K (all rows, columns and components) in some of its data, or the Hessian of that sum
#' times a vector.
#'
#' @param op A lazy matrix. For the gradient of sum(eta * (K %*% b)) it is `Vi(eta) * K * Vj(b)`.
#' @param var The data: the matrix or vector `x` that was given to `Vi(x)`, `Vj(x)` or `Pm(x)`. All places where the same data
#'   stand count together, as i and as j. One of the lazy matrices `Vi(x)`, `Vj(x)`, `Pm(x)` themselves instead: that place alone. Numbers
#'   that are to be differentiated must be given by `Pm()`; with several parameters of one value give the `Pm()` itself.
#' @param v Of the shape of `var`: the result is then the Hessian times `v`.
#' @param ... Settings of this call: `precision`, `device`, `backend`, `threads`.
#'
#' @return Numbers of the shape of `var`.
#' @section Errors: `keops_error_input` if K holds no such data.
#' @seealso [keops_grad()] for operators.
#' @examples
#' x <- matrix(rnorm(20), 10, 2)
#' K <- exp(-sqdist(Vi(x), Vj(x)))
#' keops_grad(K, x)
#' keops_grad(K, x, v = x) # Hessian times x
#'
#' s <- Pm(0.5)
#' keops_grad(exp(-sqdist(Vi(x), Vj(x)) / s), s)
#' @export
keops_grad.keops_lazytensor <- function(op, var, v = NULL, ...) {
  call <- sys.call(-1L)
  if (missing(var)) stop_input("`var`", "nothing", "data of the lazy matrix", call)
  given <- check_settings(list(...), call_settings, call)
  node <- lazy_node(op, call)
  real_only(node, "keops_grad", call)
  places <- find_places(node, var, call)
  if (!is.null(v)) node <- directional_node(node, places, shaped_direction(v, places, call))
  total <- sum_gradient(node, places, given, call, .subset2(op, "ranges"))
  shape_gradient(total, var, places)
}

# Leaves of the node that hold `var`: each with the side it has in the whole expression.
find_places <- function(node, var, call) {
  flat <- lazy_flat(list(node))
  if (is_lazy(var)) {
    leaf <- .subset2(var, "node")
    if (is.null(leaf) || !is.null(leaf$word)) stop_input("`var`", "an expression", "data, or a lazy matrix made by Vi(), Vj() or Pm()", call)
    same <- vapply(seq_along(flat$leaf), function(k) {
      identical(flat$leaf[[k]]$id, leaf$id) || (leaf$side < 2L && flat$side[k] == leaf$side && identical(flat$leaf[[k]]$data, leaf$data))
    }, NA)
  } else {
    same <- vapply(flat$leaf, holds_data, NA, var)
  }
  if (!any(same)) {
    sizes <- unique(vapply(flat$leaf, function(leaf) if (leaf$given) describe(leaf$data) else "", ""))
    sizes <- sizes[nzchar(sizes)]
    stop_input("`var`", if (is_lazy(var)) "a lazy matrix that does not occur" else describe(var),
               if (length(sizes) > 0L) paste("data of the lazy matrix:", paste(sizes, collapse = "; ")) else {
                 "data given by Vi(), Vj() or Pm(): there are none, only numbers"
               }, call)
  }
  places <- Map(function(leaf, side) replace(leaf, "side", side), flat$leaf[same], flat$side[same])
  if (any(vapply(places, function(leaf) leaf$cplx, NA))) stop_input("`var`", "complex data", "real data", call)
  places
}

holds_data <- function(leaf, x) {
  if (!leaf$given || leaf$cplx) return(FALSE)
  same <- function(data) identical(as.vector(data), as.vector(leaf$data))
  numbers <- is.data.frame(x) || ((is.numeric(x) || is.logical(x)) && !is.factor(x))
  if (!numbers || length(leaf$data) != length(unlist(x, use.names = FALSE))) return(FALSE)
  if (is.data.frame(x)) x <- as.matrix(x)
  if (leaf$side < 2L) return(NROW(x) == nrow(leaf$data) && same(as.double(x)))
  same(as.double(if (is.matrix(x)) t(x) else x))
}

# The direction as data of each place.
shaped_direction <- function(v, places, call) {
  lapply(places, function(leaf) {
    x <- if (leaf$side == 2L) gate_vector(if (is.matrix(v)) t(v) else v, "v", call) else gate_matrix(v, "v", call)
    if (length(x) != length(leaf$data) || (is.matrix(x) && nrow(x) != nrow(leaf$data))) {
      stop_input("`v`", describe(v), paste("the shape of `var`,", describe(leaf$data)), call)
    }
    x
  })
}

# The derivative of the node in a direction: a formula again, so its gradient is the Hessian times the direction.
# The direction is a leaf of its own, also where it equals the data: it is held fixed.
directional_node <- function(node, places, direction) {
  terms <- Map(function(leaf, v) op_node("Diff", list(node, leaf, leaf_node(v, leaf$side, given = FALSE)), node$dim), places, direction)
  Reduce(function(a, b) infix_node("+", a, b), terms)
}

# Gradient of the sum over all pairs and components, added over the places; one pass.
sum_gradient <- function(node, places, given, call, ranges) {
  flat <- lazy_flat(c(list(node), places))
  ones <- if (node$dim == 1L) "1" else paste0("SumT(1,", node$dim, ")")
  text <- paste0("Grad(Sum_Reduction(", flat$text[1L], ",1),", flat$text[-1L], ",", ones, ")", collapse = ";")
  parts <- run_flat(text, flat, given, call, ranges)
  if (length(places) == 1L) parts <- list(parts)
  Reduce(`+`, lapply(parts, function(x) unname(x)))
}

shape_gradient <- function(total, var, places) {
  if (is_lazy(var)) var <- places[[1L]]$data
  if (is.data.frame(var)) var <- as.matrix(var)
  if (!is.matrix(var)) return(stats::setNames(as.vector(total), names(var)))
  if (places[[1L]]$side == 2L) total <- matrix(total, nrow(var), ncol(var), byrow = TRUE)
  dimnames(total) <- dimnames(var)
  total
}
