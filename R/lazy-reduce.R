# Reductions of lazy matrices: where something is computed.

# ---- one reduction ----

# over: 0 reduces i, 1 reduces j, as the text has it.
lazy_reduce <- function(x, name, index, call, weight = NULL, ints = "", given = NULL) {
  node <- lazy_node(x, call)
  over <- check_index(index, call)
  nodes <- list(node)
  if (!is.null(weight)) nodes <- list(node, weight)
  out <- run_reduction(nodes, name, over, ints, given, call, .subset2(x, "ranges"))
  if (node$cplx) out <- deinterleave(out)
  out
}

check_real_reduction <- function(node, name, call) {
  if (node$cplx) stop_input(paste0(name, "()"), "a complex lazy matrix", "a real one; Mod(K), Re(K), Im(K) are real", call)
}

# The lazy matrix of a call with argument `ranges`, and the other arguments.
take_ranges <- function(x, more, call) {
  if (!is.null(more$ranges)) x <- attach_ranges(x, more$ranges, call)
  more$ranges <- NULL
  list(x = x, more = more)
}

# The index of a call such as sum(K, "j") or sum(K, index = "j"), NA if there is none, and settings.
reduction_args <- function(more, call) {
  index <- NA
  at <- if (is.null(names(more))) seq_along(more) else which(names(more) %in% c("", "index"))
  if (length(at) > 0L) {
    index <- more[[at[1L]]]
    check_index(index, call, c("i", "j", NA, "inner"))
    more <- more[-at[1L]]
  }
  list(index = index, given = check_settings(more, call_settings, call))
}

#' Reduce lazy matrices
#'
#' Sums, minima, maxima and more over the rows or the columns of a lazy matrix, without storing it.
#'
#' @param x,... A lazy matrix; for `sum()`, `min()`, `max()` then the index, `ranges` ([keops_ranges()]: only
#'   these pairs), and settings (`precision`, `device`, `backend`, `threads`).
#' @param index The index **reduced away**: `"j"` gives one row for each i (as `rowSums()`), `"i"` one for each j. For `sum`,
#'   `prod`, `min`, `max`, `argmin`, `argmax` also `"inner"`: over the components of each entry, which gives a lazy matrix again.
#' @param na.rm `TRUE` leaves `NaN` out of sums, and of `min()`, `max()`, `range()` without index; `FALSE` gives `NaN` if there is one, as R
#'   does.
#' @param K How many.
#' @param weight A lazy matrix, a vector with one element for each item summed over, or a matrix with such rows.
#'
#' @details
#' Without index, `sum(K)`, `mean(K)`, `min(K)`, `max(K)`, `range(K)`, `any(K)`, `all(K)` are the single number that they are for a matrix; for entries of
#' several components that is an error which lists the choices. `argmin()` and `argmax()` always need an index.
#'
#' Minima and maxima over an index, `Kmin` and their `arg` forms skip `NaN`, as [which.min()] does; where no item is left, the value is `Inf` (`-Inf`) and the
#' index `NA`. Sums and `logsumexp` of `NaN` are `NaN`. Ties go to the lower index.
#'
#' `logsumexp(K, "j")` is log(rowSums(exp(K))) without overflow, with weights log(rowSums(exp(K) * weight)). `sumsoftmaxweight(K, "j", w)` is
#' rowSums(exp(K) * w) / rowSums(exp(K)). `sum_reduction()` and the like are the names of KeOps.
#'
#' @return A matrix with one row for each i (or j) and one column a component, with the row names of the data; `argmin`, `argmax`, `argKmin`
#'   are integers counted from 1. `Kmin` and `argKmin` give one column for each of the K items, in increasing order, padded with `Inf` and `NA`,
#'   and an array n x K x D for entries of D components. `min_argmin`, `max_argmax` and `Kmin_argKmin` are lists of `values` and `indices`.
#'   `rowSums()`, `colSums()` and their means are vectors: see [lazy_matrix].
#'
#' @section Errors: `keops_error_input` for a missing or wrong index, with the choices.
#' @seealso [lazy_matrix] for `rowSums()` and products.
#' @examples
#' x <- matrix(rnorm(20), 10, 2)
#' y <- matrix(rnorm(14), 7, 2)
#' D <- sqdist(Vi(x), Vj(y))
#' argmin(D, "j") # the nearest y of each x
#' logsumexp(-D, "j")
#' sum(D)
#' sum(Vi(x) - Vj(y), "j")
#' @name lazy_reductions
NULL

#' @rdname lazy_reductions
#' @export
Summary.keops_lazytensor <- function(..., na.rm = FALSE) {
  call <- call(.Generic, quote(K), quote(...)) # R hands the values, not the words, to methods of this group
  more <- list(...)
  x <- more[[1L]]
  name <- .Generic
  if (inherits(x, "keops_lazyproduct")) return(product_summary(name, x, call))
  taken <- take_ranges(x, more[-1L], call)
  x <- taken$x
  if (name == "sum" && na.rm) x <- ifelse(is.na(x), 0, x)
  set <- reduction_args(taken$more, call)
  if (identical(set$index, "inner")) return(reduce_inner(x, name, call))
  if (is.na(set$index)) return(summary_scalar(x, name, na.rm, set$given, call))
  word <- c(sum = "Sum", min = "Min", max = "Max")[name]
  if (is.na(word)) return(summary_indexed(x, name, set, call))
  if (word != "Sum") check_real_reduction(lazy_node(x, call), name, call)
  lazy_reduce(x, word, set$index, call, given = set$given)
}

# any and all of each row.
summary_indexed <- function(x, name, set, call) {
  if (!name %in% c("any", "all")) {
    stop_unavailable(paste0(name, "(K, \"", set$index, "\")"), "sum, min, max, any, all with an index", call)
  }
  out <- lazy_reduce(truth(x, call), if (name == "any") "Max" else "Min", set$index, call, given = set$given)
  out > 0
}

# 1 where an entry is not 0.
truth <- function(x, call) {
  node <- lazy_node(x, call)
  if (node$flag == "logical") return(x)
  new_lazy(infix_node("!=", real_only(node, "!=", call), constant_node("0"), "logical"), .subset2(x, "ranges"))
}

inner_words <- c(sum = "Sum", min = "Min", max = "Max", argmin = "ArgMin", argmax = "ArgMax")

# Over the components of each entry; positions from 1.
reduce_inner <- function(x, name, call) {
  node <- lazy_node(x, call)
  word <- inner_words[name]
  if (is.na(word)) stop_unavailable(paste0(name, "(K, \"inner\")"), paste(names(inner_words), collapse = ", "), call)
  if (node$cplx && word == "Sum") {
    out <- op_node("ComplexSum", list(node), 2L, cplx = TRUE)
  } else {
    out <- op_node(word[[1L]], list(real_only(node, name, call)), 1L)
    if (startsWith(name, "arg")) out <- infix_node("+", out, constant_node("1"))
  }
  new_lazy(out, .subset2(x, "ranges"))
}

stop_open <- function(name, node, call) {
  stop_input(paste0(name, "(K)"), if (count_components(node) == 1L) "no index" else {
    sprintf("no index, of entries with %d components", count_components(node))
  }, paste0("one of ", paste0(name, "(K, \"", c("j", "i", "inner"), "\")", collapse = ", "),
            ": over columns (one row for each i), over rows (one for each j), over the components of each entry"), call)
}

# What the matrix would give: one number.
summary_scalar <- function(x, name, na.rm, given, call) {
  node <- lazy_node(x, call)
  if (count_components(node) != 1L) stop_open(name, node, call)
  total <- function(x, word) lazy_reduce(x, word, "j", call, given = given)
  if (name == "sum") return(sum(total(x, "Sum")))
  check_real_reduction(node, name, call)
  switch(name,
    any = any(total(truth(x, call), "Max") > 0),
    all = all(total(truth(x, call), "Min") > 0),
    prod = stop_unavailable("prod(K)", "exp(sum(log(K)))", call),
    {
      # reductions skip NaN, R does not
      if (!na.rm && sum(total(is.na(x), "Sum")) > 0) return(rep(NaN, if (name == "range") 2L else 1L))
      switch(name, min = min(total(x, "Min")), max = max(total(x, "Max")), range = c(min(total(x, "Min")), max(total(x, "Max"))))
    }
  )
}

#' @export
mean.keops_lazytensor <- function(x, na.rm = FALSE, ...) {
  call <- sys.call()
  check_dots(call, ...)
  if (isTRUE(na.rm)) return(sum(x, na.rm = TRUE) / (prod(dim(x)) - sum(is.na(x))))
  sum(x) / prod(dim(x))
}

# ---- by name ----

# Minima and the like that are not functions of R: index needed, numbers of one component or more.
named_reduction <- function(x, index, word, name, call, ints = "", ...) {
  if (!is_lazy(x)) stop_input("`x`", describe(x), "a lazy matrix", call)
  node <- lazy_node(x, call)
  if (is.na(index)) stop_open(name, node, call)
  check_real_reduction(node, name, call)
  taken <- take_ranges(x, list(...), call)
  lazy_reduce(taken$x, word, index, call, ints = ints, given = check_settings(taken$more, call_settings, call))
}

arg_reduction <- function(x, index, word, name, call, ...) {
  if (identical(index, "inner")) return(reduce_inner(x, name, call))
  named_reduction(x, index, word, name, call, ...)
}

#' @rdname lazy_reductions
#' @export
argmin <- function(x, index = NA, ...) arg_reduction(x, index, "ArgMin", "argmin", sys.call(), ...)
#' @rdname lazy_reductions
#' @export
argmax <- function(x, index = NA, ...) arg_reduction(x, index, "ArgMax", "argmax", sys.call(), ...)
#' @rdname lazy_reductions
#' @export
min_argmin <- function(x, index = NA, ...) named_reduction(x, index, "Min_ArgMin", "min_argmin", sys.call(), ...)
#' @rdname lazy_reductions
#' @export
max_argmax <- function(x, index = NA, ...) named_reduction(x, index, "Max_ArgMax", "max_argmax", sys.call(), ...)

k_reduction <- function(x, K, index, word, call, ...) {
  K <- take_count(K, "K", call)
  name <- c(KMin = "Kmin", ArgKMin = "argKmin", KMin_ArgKMin = "Kmin_argKmin")[[word]]
  named_reduction(x, index, word, name, call, ints = paste0(",", format_count(K)), ...)
}
#' @rdname lazy_reductions
#' @export
Kmin <- function(x, K, index = NA, ...) k_reduction(x, K, index, "KMin", sys.call(), ...)
#' @rdname lazy_reductions
#' @export
argKmin <- function(x, K, index = NA, ...) k_reduction(x, K, index, "ArgKMin", sys.call(), ...)
#' @rdname lazy_reductions
#' @export
Kmin_argKmin <- function(x, K, index = NA, ...) k_reduction(x, K, index, "KMin_ArgKMin", sys.call(), ...)

# Weights: lazy, or dense with one row for each item reduced.
weight_node <- function(weight, index, call) {
  if (is_lazy(weight)) return(real_only(lazy_node(weight, call), "weight", call))
  side <- if (check_index(index, call) == 1L) 1L else 0L
  leaf_node(gate_matrix(weight, "weight", call), side)
}

weighted_reduction <- function(x, index, weight, word, name, call, ...) {
  if (!is_lazy(x)) stop_input("`x`", describe(x), "a lazy matrix", call)
  node <- lazy_node(x, call)
  if (is.na(index)) stop_open(name, node, call)
  check_real_reduction(node, name, call)
  if (node$dim != 1L) {
    stop_dimension(sprintf("%s(): entries have %d components; one is allowed", name, node$dim), name, node$dim, call)
  }
  weight <- if (!is.null(weight)) weight_node(weight, index, call)
  if (!is.null(weight)) op_node(name, list(node, weight), 1L, call = call) # sizes fit
  taken <- take_ranges(x, list(...), call)
  lazy_reduce(taken$x, word, index, call, weight, given = check_settings(taken$more, call_settings, call))
}
#' @rdname lazy_reductions
#' @export
logsumexp <- function(x, index = NA, weight = NULL, ...) {
  weighted_reduction(x, index, weight, "LogSumExp", "logsumexp", sys.call(), ...)
}
#' @rdname lazy_reductions
#' @export
sumsoftmaxweight <- function(x, index = NA, weight, ...) {
  weighted_reduction(x, index, weight, "SumSoftMaxWeight", "sumsoftmaxweight", sys.call(), ...)
}

#' @rdname lazy_reductions
#' @export
sum_reduction <- function(x, index) sum(x, index)
#' @rdname lazy_reductions
#' @export
min_reduction <- function(x, index) min(x, index)
#' @rdname lazy_reductions
#' @export
max_reduction <- function(x, index) max(x, index)
#' @rdname lazy_reductions
#' @export
argmin_reduction <- argmin
#' @rdname lazy_reductions
#' @export
argmax_reduction <- argmax
#' @rdname lazy_reductions
#' @export
min_argmin_reduction <- min_argmin
#' @rdname lazy_reductions
#' @export
max_argmax_reduction <- max_argmax
#' @rdname lazy_reductions
#' @export
Kmin_reduction <- Kmin
#' @rdname lazy_reductions
#' @export
argKmin_reduction <- argKmin
#' @rdname lazy_reductions
#' @export
Kmin_argKmin_reduction <- Kmin_argKmin
#' @rdname lazy_reductions
#' @export
logsumexp_reduction <- logsumexp
#' @rdname lazy_reductions
#' @export
sumsoftmaxweight_reduction <- sumsoftmaxweight
