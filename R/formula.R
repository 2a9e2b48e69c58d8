# Operators: R functions made from the text of a formula.

#' Make an operator from a formula
#'
#' Turns a formula of the KeOps language and the declaration of its variables into an R function of
#' matrices. The formula is parsed and checked here; the work for all pairs is done when the function is
#' called, without storing anything of the size of all pairs.
#'
#' @param formula One string: a reduction of an expression, e.g.
#'   `"Sum_Reduction(Exp(-g * SqDist(x, y)) * b, 1)"`. The last number says which index is reduced: `1` sums
#'   over j, one row of the result for each i; `0` sums over i, one row for each j. See [keops_formula] for
#'   the reductions and operations. Several formulas with `;` between them are answered together, in as few
#'   passes over the pairs as they need. Numbers inside the text count from 0, as KeOps does.
#' @param args Character vector with a declaration of each variable, in the order in which data will be
#'   given: `"x=Vi(3)"` is a variable with a value of dimension 3 for each i, `"y=Vj(3)"` one for each j,
#'   `"g=Pm(1)"` a parameter, the same for all pairs. Declarations without a name (`"Vi(3)"`) are reached in
#'   the formula as `Var(position, dimension, category)`, all counted from 0.
#' @param precision,device,... Settings of this operator: `precision` (`"double"`, `"single"`), `device`
#'   (`"auto"`, `"cpu"`, `"gpu"`, `"gpu:1"`), `backend` (`"auto"`, `"interpreted"`, `"compiled"`), `threads`,
#'   `sum_scheme`. `NULL`: as
#'   [keops_options()] says when the operator is called.
#'
#' @return A function of class `keops_kernel`, `op(args, inner_dim = c("col", "row"), ..., ranges = NULL)`:
#'   \describe{
#'     \item{`args`}{One list with the data of all variables, in the order declared, or by name in any order.
#'       An i-variable of dimension d is a matrix M x d, a j-variable N x d: rows are points. A vector is one
#'       column. A parameter is a vector of length d, or a matrix with one row or one column. Integers,
#'       logicals and data frames of numbers are taken as numbers. All i-variables have the same number of
#'       rows, and so have all j-variables. `NA`, `NaN` and `Inf` pass through: sums follow the rules of
#'       floating point, minima and maxima skip `NaN`.}
#'     \item{`inner_dim`}{`"row"`: i- and j-variables are given as d x M and d x N, points in columns. The
#'       result is not transposed.}
#'     \item{`...`}{Settings of this call: `precision`, `device`, `backend`, `threads`, `sum_scheme`.}
#'     \item{`ranges`}{An object of [keops_ranges()]: only these pairs are visited. `NULL`: all of them.}
#'   }
#'   It returns a matrix with one row for each i (or j) and one column for each component of the formula;
#'   row names are those of the first variable of that index that has some. Reductions that give the numbers of
#'   items (`ArgMin`, `ArgKMin`, ...) give integers counted from 1, `NA` where no item is left; those that give
#'   both (`Min_ArgMin`, ...) a list of `values` and `indices`. `KMin` and its kin give a matrix with K columns
#'   for a formula of one component, else an array of n x K x D; beyond the last item stand `Inf` and `NA`.
#'   Several formulas give a list with one result each. Results are double in both precisions.
#'
#'   An operator holds text and settings only, so it can be saved and loaded. `formula(op)` is its text.
#'
#' @section Batches:
#' Several problems of one size can be given at once, along a third dimension: i- and j-variables as arrays
#' M x d x B and N x d x B (d x M x B with `inner_dim = "row"`), parameters as 1 x d x B. Variables given as
#' before, or with an extent of 1 there, are shared by all B. The result has one more dimension, too:
#' `out[, , b]` is the result for batch b, as an own call would give it; indices count within the batch. A
#' gradient made by [keops_grad()] in a variable that is shared is summed over the batches and has the shape
#' of that variable. Batches can't be combined with `ranges`.
#'
#' @section Errors:
#' `keops_error_parse` and `keops_error_dimension` when the formula is made, with the place marked;
#' `keops_error_input` for declarations, data and settings, naming the argument, what was found and what is
#' allowed; `keops_error_compile` if `backend = "compiled"` and no compiler works; `keops_error_device` if a
#' GPU was asked for and cannot be used, or its memory is too small. All are of class `keops_error`.
#'
#' @references
#' Charlier, B., Feydy, J., Glaunès, J. A., Collin, F.-D., Durif, G. (2021). Kernel operations on the GPU,
#' with autodiff, without memory overflows. *Journal of Machine Learning Research*, 22(74), 1-6.
#'
#' @seealso [keops_grad()] for derivatives, [keops_options()] for settings.
#'
#' @examples
#' # a Gaussian kernel sum: a_i = sum_j exp(-g |x_i - y_j|^2) b_j
#' op <- keops_kernel(
#'   "Sum_Reduction(Exp(-g * SqDist(x, y)) * b, 1)",
#'   c("x=Vi(3)", "y=Vj(3)", "b=Vj(1)", "g=Pm(1)")
#' )
#' op
#' x <- matrix(rnorm(300), 100, 3)
#' y <- matrix(rnorm(600), 200, 3)
#' b <- rnorm(200)
#' a <- op(list(x, y, b, 0.5))
#' dim(a)
#'
#' # by name, in any order
#' all.equal(a, op(list(g = 0.5, b = b, x = x, y = y)))
#'
#' # the nearest y of each x
#' nearest <- keops_kernel("ArgMin_Reduction(SqDist(x, y), 1)", c("x=Vi(3)", "y=Vj(3)"))
#' head(nearest(list(x, y)))
#' @export
keops_kernel <- function(formula, args, precision = NULL, device = NULL, ...) {
  call <- sys.call()
  if (missing(formula)) formula <- NULL
  if (missing(args)) args <- NULL
  if (!is.character(formula) || length(formula) != 1L || is.na(formula) || !nzchar(formula)) {
    stop_input("`formula`", if (identical(as.vector(formula), "")) "an empty string" else describe(formula), "one string, such as \"Sum_Reduction(SqDist(x, y), 1)\"", call)
  }
  if (!is.character(args) || anyNA(args)) {
    stop_input("`args`", describe(args), "a character vector, such as c(\"x=Vi(3)\", \"y=Vj(3)\")", call)
  }
  given <- c(list(precision = precision, device = device), list(...))
  given <- check_settings(given, call_settings, call)
  new_operator(enc2utf8(as.vector(formula)), enc2utf8(as.vector(args)), given, call)
}

# The operator's environment is what saveRDS() stores: plain values. `labels` are the names of the results
# of a formula that has several. `taken` says which derivatives keops_grad() took, one entry an order:
# list(of, eta), the positions of the variables that the results are gradients in, and of the cotangent.
new_operator <- function(text, declared, settings, call, labels = NULL, taken = list()) {
  engine_formula(text, declared, call)
  list(settings, labels, taken) # evaluated now, or the caller's frame would be saved too
  rm(call)
  op <- function(args, inner_dim = c("col", "row"), ..., ranges = NULL) {
    call <- sys.call()
    if (missing(args)) stop_input("`args`", "nothing", "a list with the data of all variables", call)
    inner_dim <- if (missing(inner_dim)) "col" else take_choice(inner_dim, c("col", "row"), "inner_dim", call)
    given <- if (...length() > 0L) check_settings(list(...), call_settings, call)
    out <- run_operator(text, declared, replace_settings(settings, given), args, inner_dim, ranges, taken, call)
    if (is.null(labels)) out else stats::setNames(out, labels)
  }
  class(op) <- "keops_kernel"
  on.exit(rm(op))
  op
}

replace_settings <- function(settings, given) {
  settings[names(given)] <- given
  settings
}

run_operator <- function(text, declared, settings, args, inner_dim, ranges, taken, call) {
  entry <- engine_formula(text, declared, call, !is.null(ranges))
  settled <- run_settings(settings, call)
  args <- order_args(args, entry$info, call)
  run <- function(args) run_once(entry, args, inner_dim, ranges, settled, call)
  batches <- find_batches(args, entry$info, inner_dim, call)
  if (is.null(batches)) return(run(args))
  if (!is.null(ranges)) {
    stop_input("`ranges`", "ranges together with batches", "either of them: call the operator for each batch", call)
  }
  run_batches(batches, taken, entry$info, run, call)
}

run_once <- function(entry, args, inner_dim, ranges, settled, call) {
  run_input(entry, take_args(args, entry$info, inner_dim, call), ranges, settled, call)
}

# `input` as take_args() gives it: data that have passed the gate.
run_input <- function(entry, input, ranges, settled, call) {
  sizes <- side_sizes(entry$info, input$rows)
  borders <- if (!is.null(ranges)) check_ranges(ranges, sizes, call)
  start <- if (settled$verbose) proc.time()[["elapsed"]]
  out <- engine_run(entry$handle, input$data, input$rows, settled, borders, call)
  if (settled$verbose) say_run(out, sizes, ranges, settled, proc.time()[["elapsed"]] - start)
  if (!is.null(out$note)) message_once(paste0("keops: ", out$note))
  shape_results(out$results, entry$info, input$row_names)
}

# Rows of i and of j: one where there is no variable of that side.
side_sizes <- function(info, rows) {
  sizes <- rows[match(0:1, info$category)]
  sizes[is.na(sizes)] <- 1
  sizes
}

# One result, or a list of all.
shape_results <- function(results, info, row_names) {
  for (k in seq_along(results)) {
    category <- info$out_category[k]
    results[[k]] <- shape_result(results[[k]], if (category < 2L) row_names[[category + 1L]])
  }
  if (length(results) == 1L) results[[1L]] else results
}

# One matrix (or array), or list(values, indices) for reductions that give pairs.
shape_result <- function(out, row_names) {
  if (is.null(out$indices)) return(shape_part(out$values, out$k, row_names))
  if (is.null(out$values)) return(shape_part(out$indices, out$k, row_names))
  lapply(out[c("values", "indices")], shape_part, out$k, row_names)
}

# `k` blocks of columns, one for each of the k least, are the second dimension of an array.
shape_part <- function(x, k, row_names) {
  if (k > 0L && ncol(x) > k) {
    x <- aperm(array(x, c(nrow(x), ncol(x) %/% k, k)), c(1L, 3L, 2L))
    if (!is.null(row_names)) dimnames(x) <- list(row_names, NULL, NULL)
  } else if (!is.null(row_names)) {
    rownames(x) <- row_names
  }
  x
}

say_run <- function(out, sizes, ranges, settled, seconds) {
  threads <- settled$threads
  pairs <- paste(size_text(sizes), "pairs")
  if (!is.null(ranges)) pairs <- paste(format_count(range_pairs(ranges)), "of", pairs)
  message(sprintf("keops: %s, %s, %s precision, %d thread%s: %.3f s", pairs,
                  where_run(out, settled), settled$precision, threads,
                  if (threads == 1L) "" else "s", seconds))
}

where_run <- function(out, settled) {
  if (out$gpu) return(sprintf("GPU %s (%.3f ms)", paste(settled$gpu[[2L]], collapse = ", "), engine_cuda_ms()))
  if (out$compiled) "compiled" else "interpreted"
}

# What an operator is made of, see new_operator().
operator_parts <- function(op) {
  mget(c("text", "declared", "settings", "labels", "taken"), envir = environment(op))
}

#' @rdname keops_kernel
#' @param x An operator.
#' @importFrom stats formula
#' @export
formula.keops_kernel <- function(x, ...) operator_parts(x)$text

#' @export
print.keops_kernel <- function(x, ...) {
  parts <- operator_parts(x)
  info <- engine_formula(parts$text, parts$declared)$info
  cat("<keops_kernel> ", cut_text(parts$text, 400L), "\n", sep = "")
  name <- vapply(seq_along(info$name), variable_text, "", info = info)
  shape <- paste(c("M x ", "N x ", "1 x ")[info$category + 1L], info$dim, sep = "")
  cat(paste0("  ", format(name), "  ", format(category_words[info$category + 1L]), "  ", shape, "\n"), sep = "")
  label <- if (is.null(parts$labels)) "" else paste0(" ", parts$labels)
  cat(paste0("  result", label, ": ", c("M x ", "N x ", "1 x ")[info$out_category + 1L], info$out_dim, "\n"),
      sep = "")
  if (length(parts$settings) > 0L) {
    cat("  settings:", paste(names(parts$settings), "=", vapply(parts$settings, paste, "", collapse = ","), collapse = ", "), "\n")
  }
  invisible(x)
}

cut_text <- function(text, width) {
  if (nchar(text) > width) paste0(substr(text, 1L, width - 3L), "...") else text
}
