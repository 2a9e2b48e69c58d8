# Gradients: new text around the old, one more argument. The engine differentiates.

#' Differentiate an operator
#'
#' Gives the operator that computes the vector-Jacobian product of `op` with respect to one of its
#' variables: for a result \eqn{a = op(\ldots)}{a = op(...)} and a cotangent \eqn{\eta}{eta} of its shape,
#' \deqn{\partial_v \sum_{k,d} \eta_{kd}\, a_{kd}.}{the gradient of sum(eta * a) in v.}
#' It is the true gradient: summed over all that the variable is not indexed by.
#'
#' @param op An operator of [keops_kernel()], or one made by `keops_grad()`: any order of derivatives.
#' @param var The variable: its name, or its position among the arguments, counted from 1. Several of
#'   them (`c("x", "g")`): all these gradients, made in one pass over the pairs where they can share it.
#' @param ... Not used; anything here is an error.
#'
#' @return An operator of class `keops_kernel` with the arguments of `op` and one more at the end, the
#'   cotangent: a matrix of the shape that `op` returns. It is called `eta`, or `eta2`, `eta3`, ... where
#'   that name is taken. The result has the shape of the variable: M x d, N x d, or 1 x d for a parameter.
#'   For several variables it is a list with one such result each, named by the variables. Settings are those
#'   of `op`. The cotangent of a `KMin` of formulas of D components is a matrix of K D columns, the D of the
#'   least first.
#'
#' @section Errors: `keops_error_input` if there is no such variable, or if `op` gives indices
#'   (`ArgMin`, `ArgMax`), which have no derivative.
#'
#' @seealso [keops_kernel()]
#' @examples
#' op <- keops_kernel(
#'   "Sum_Reduction(Exp(-g * SqDist(x, y)) * b, 1)",
#'   c("x=Vi(3)", "y=Vj(3)", "b=Vj(1)", "g=Pm(1)")
#' )
#' x <- matrix(rnorm(30), 10, 3)
#' y <- matrix(rnorm(36), 12, 3)
#' b <- rnorm(12)
#' eta <- rnorm(10)
#' dx <- keops_grad(op, "x")
#' dx(list(x, y, b, 0.5, eta)) # 10 x 3
#'
#' # a parameter: one row, summed over all pairs
#' dg <- keops_grad(op, "g")
#' dg(list(x, y, b, 0.5, eta))
#' h <- 1e-5
#' (sum(eta * op(list(x, y, b, 0.5 + h))) - sum(eta * op(list(x, y, b, 0.5 - h)))) / (2 * h)
#'
#' # second derivatives
#' dxg <- keops_grad(dx, "g")
#' dxg(list(x, y, b, 0.5, eta, matrix(1, 10, 3)))
#' @export
keops_grad <- function(op, var, ...) UseMethod("keops_grad")

#' @export
keops_grad.default <- function(op, var, ...) {
  stop_input("`op`", describe(op), "an operator made by keops_kernel()", sys.call(-1L))
}

#' @export
keops_grad.keops_kernel <- function(op, var, ...) {
  call <- sys.call(-1L)
  if (...length() > 0L) check_settings(list(...), character(), call)
  if (missing(var)) var <- NULL
  parts <- operator_parts(op)
  info <- engine_formula(parts$text, parts$declared, call)$info
  k <- find_variables(var, info, call)
  if (length(info$out_dim) > 1L) {
    stop_input("`op`", "an operator with several results", "one with a single result", call)
  }
  if (info$out_values < info$out_dim) {
    stop_input("`op`", "an operator whose result holds indices", "one with values only: indices have no derivative",
               call)
  }
  n <- length(info$name)
  added <- seq_len(n) > length(parts$declared) # by Var(...) in the text
  declared <- c(parts$declared, declaration(info, which(added)))
  # the cotangent has a name unless none of the others has
  eta <- if (any(nzchar(info$name))) free_name("eta", info$name) else ""
  whole <- list(name = c(info$name, eta), category = c(info$category, info$out_category),
                dim = c(info$dim, info$out_dim))
  text <- vapply(k, function(k) {
    paste0("Grad(", parts$text, ",", variable_text(whole, k), ",", variable_text(whole, n + 1L), ")")
  }, "")
  new_operator(paste(text, collapse = ";"), c(declared, declaration(whole, n + 1L)), parts$settings, call,
               if (length(k) > 1L) vapply(k, function(k) variable_text(whole, k), ""),
               c(parts$taken, list(list(of = k, eta = n + 1L))))
}

# How a formula calls argument number k, and how the list of arguments declares it.
variable_text <- function(info, k) {
  if (nzchar(info$name[k])) return(info$name[k])
  sprintf("Var(%d,%d,%d)", k - 1L, info$dim[k], info$category[k])
}

declaration <- function(info, k) {
  name <- info$name[k]
  sprintf("%s%s%s(%d)", name, ifelse(nzchar(name), "=", ""), category_marks[info$category[k] + 1L], info$dim[k])
}

# Positions of one or several variables, given by names or by positions.
find_variables <- function(var, info, call) {
  n <- length(info$name)
  k <- if (is.character(var)) match(var, replace(info$name, !nzchar(info$name), NA), incomparables = NA)
       else if (is.numeric(var)) match(var, seq_len(n))
  if (length(k) > 0L && !anyNA(k) && !anyDuplicated(k)) return(k)
  named <- info$name[nzchar(info$name)]
  stop_input("`var`", show_value(var),
             paste0(if (length(named) > 0L) paste(quote_names(named), "or "), "a position, 1 to ", n,
                    ", or several of them"), call)
}

# The first of eta, eta2, eta3, ... that is not taken.
free_name <- function(stem, taken) {
  name <- stem
  k <- 1L
  while (name %in% taken) {
    k <- k + 1L
    name <- paste0(stem, k)
  }
  name
}
