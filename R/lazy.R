# Lazy matrices: what they are, how they are made, and how the text of a formula is read off them.
#
# A lazy matrix is list(node, ranges) of class "keops_lazytensor". A node is a plain list:
#   leaf       word = NULL, data (matrix of numbers, or a vector for a parameter), side (0 i, 1 j, 2 parameter),
#              id (an environment: two leaves are one if theirs is the same, in any session), given (FALSE for a
#              number met in an expression and for what is made on the way)
#   constant   word = "#", text
#   transpose  word = "t", kids = list(node): i and j change places below it
#   operation  word ("+", "Exp", ...), kids, ints (text of its whole numbers, "" or ",2,3"), infix
#   text       word = "{}", kids, ints: text of a formula, cut where the kids stand in it (one piece more than kids)
# and each has dim (components; a complex number counts two), ni, nj (NA: the index does not occur), cplx,
# and flag ("" or what it is known to be: "logical", "identity").
# The order of the first elements is what src/lazy_text.c reads.
# Text is made when something is computed: leaves get names by their place, so that an expression built again
# with other data has the same text, and its kernel is found.

# ---- nodes ----

leaf_node <- function(data, side, cplx = FALSE, given = TRUE) {
  rows <- if (side < 2L) nrow(data)
  list(word = NULL, data = data, side = side, id = new.env(hash = FALSE, parent = emptyenv(), size = 1L), given = given,
       dim = if (side < 2L) ncol(data) else length(data),
       ni = if (side == 0L) rows else NA_integer_, nj = if (side == 1L) rows else NA_integer_,
       cplx = cplx, flag = "")
}

constant_node <- function(text) {
  list(word = "#", text = text, infix = FALSE, dim = 1L, ni = NA_integer_, nj = NA_integer_, cplx = FALSE, flag = "")
}

op_node <- function(word, kids, dim, ints = "", infix = FALSE, cplx = FALSE, flag = "", call = NULL) {
  ni <- nj <- NA_integer_
  for (kid in kids) {
    if (!is.na(kid$ni)) ni <- common_size(ni, kid$ni, word, "i", call)
    if (!is.na(kid$nj)) nj <- common_size(nj, kid$nj, word, "j", call)
  }
  list(word = word, kids = kids, ints = ints, infix = infix, dim = dim, ni = ni, nj = nj, cplx = cplx, flag = flag)
}

common_size <- function(a, b, word, index, call) {
  if (is.na(a) || a == b) return(b)
  stop_dimension(
    sprintf("%s: operands have %s and %s rows as %s; data of one index need equal numbers of rows",
            word_label(word), format_count(a), format_count(b), index),
    word, c(a, b), call
  )
}

transpose_node <- function(node) {
  if (identical(node$word, "t")) return(node$kids[[1L]])
  if (is.na(node$ni) && is.na(node$nj)) return(node)
  list(word = "t", kids = list(node), ints = "", infix = FALSE, dim = node$dim, ni = node$nj, nj = node$ni,
       cplx = node$cplx, flag = node$flag)
}

# The text of a formula, with nodes in place of its variables (named by them).
text_node <- function(text, variables, dim, call = NULL) {
  # whole words, and no calls
  found <- gregexpr(sprintf("(?<![A-Za-z0-9_.])(%s)(?![A-Za-z0-9_])(?!\\s*\\()", paste(names(variables), collapse = "|")), text, perl = TRUE)
  kids <- unname(variables[regmatches(text, found)[[1L]]])
  op_node("{}", kids, dim, ints = regmatches(text, found, invert = TRUE)[[1L]], call = call)
}

word_label <- function(word) if (grepl("^[A-Za-z]", word)) paste0(word, "()") else paste0("`", word, "`")

# ---- objects ----

new_lazy <- function(node, ranges = NULL) {
  x <- list(node = node, ranges = ranges)
  class(x) <- "keops_lazytensor"
  asS4(x)
}

is_lazy <- function(x) inherits(x, "keops_lazytensor")

# The node of a lazy matrix, or why there is none.
lazy_node <- function(x, call = NULL) {
  node <- .subset2(x, "node")
  if (is.null(node)) {
    stop_input("a product of lazy matrices", "an operation on its entries",
               paste("`%*%` with a vector or matrix, t(), sums and multiples, solve():",
                     "its entries are not formulas; as.matrix() computes them"), call)
  }
  node
}

# Any operand: a lazy matrix, or numbers, which become parameters. `dim`: that of the other operand, which a
# vector must have; NULL takes any vector as a parameter.
operand_node <- function(x, call, dim = NULL, other = NULL) {
  if (is.double(x) && length(x) == 1L && is.null(attributes(x))) return(leaf_node(x, 2L, given = FALSE))
  if (is_lazy(x)) return(lazy_node(x, call))
  shape <- base::dim(x)
  if (length(shape) >= 2L) stop_dense(x, other, call)
  truth <- is.logical(x)
  x <- gate_vector(x, "operand", call)
  cplx <- is.complex(x)
  n <- length(x)
  if (!is.null(dim) && n != 1L && n != dim) stop_vector(n, dim, call)
  leaf <- leaf_node(if (cplx) interleave(x) else x, 2L, cplx, given = FALSE)
  if (truth) leaf$flag <- "logical"
  leaf
}

stop_vector <- function(n, dim, call) {
  expected <- if (dim == 1L) "one number" else sprintf("one number, or %d of them, one a component", dim)
  stop_input("operand", paste("a vector of length", n),
             paste0(expected, ". Vi(v) takes one element for each row, Vj(v) one for each column, ",
                    "Pm(v) all of v as components of each entry"), call)
}

stop_dense <- function(x, other, call) {
  size <- size_text(base::dim(x))
  stop_input("operand", paste0("a dense ", size, if (is.data.frame(x)) " data frame" else " matrix"),
             paste0("a lazy matrix or numbers. Vi() takes rows of data for i, Vj() for j; a table W with an entry for ",
                    "each pair is (Vi(W) | one_hot(Vj(seq_len(ncol(W))), ncol(W))), good for few columns; ",
                    "as.matrix() makes a small lazy matrix dense"), call)
}

# ---- the gate ----

# Numbers without a shape: double or complex.
gate_vector <- function(x, arg, call) {
  if (is.complex(x) && !is.object(x)) return(as.vector(x))
  numbers <- (is.numeric(x) || is.logical(x)) && !inherits(x, c("factor", "integer64"))
  if (!numbers) stop_input(quote_names(arg), describe(x), "numbers, or a lazy matrix", call)
  if (length(x) == 0L) stop_input(quote_names(arg), "no numbers", "at least one", call)
  as.double(x)
}

# A matrix of numbers, rows are points; a vector is one column.
gate_matrix <- function(x, arg, call, least = 1L) {
  if (is_lazy(x)) stop_input(quote_names(arg), "a lazy matrix", "a matrix, data frame or vector of numbers", call)
  if (!(is.double(x) || is.complex(x)) || is.object(x)) x <- as_numbers(x, quote_names(arg), call)
  shape <- dim(x)
  if (length(shape) == 2L) {
    if (shape[2L] < least) stop_input(quote_names(arg), "a matrix without columns", "one column or more", call)
    return(x)
  }
  if (length(shape) > 2L) stop_input(quote_names(arg), describe(x), "a matrix: one row a point", call)
  one_column(x)
}

# Complex numbers as the engine has them: re, im, re, im, ...; columns of a matrix, elements of a vector.
interleave <- function(x) {
  if (is.null(dim(x))) return(as.vector(rbind(Re(x), Im(x))))
  out <- matrix(0, nrow(x), 2L * ncol(x), dimnames = if (!is.null(rownames(x))) list(rownames(x), NULL))
  odd <- 2L * seq_len(ncol(x)) - 1L
  out[, odd] <- Re(x)
  out[, odd + 1L] <- Im(x)
  out
}

deinterleave <- function(x) {
  odd <- seq.int(1L, ncol(x), 2L)
  out <- matrix(complex(real = x[, odd], imaginary = x[, odd + 1L]), nrow(x))
  if (!is.null(rownames(x))) rownames(out) <- rownames(x)
  out
}

lazy_data <- function(x, arg, is_complex, call) {
  x <- gate_matrix(x, arg, call)
  if (is.complex(x)) return(list(data = interleave(x), cplx = TRUE))
  if (is_complex) x <- interleave(x + 0i)
  list(data = x, cplx = is_complex)
}

# ---- construction ----

#' Make lazy matrices
#'
#' A lazy matrix is a formula with its data: an M x N matrix whose entry (i, j) is computed from row i of some
#' data and row j of others, each time it is needed, and never stored. `Vi(x)` and `Vj(y)` are where it starts:
#' `exp(-sqdist(Vi(x), Vj(y)) / (2 * s^2))` is the Gaussian kernel matrix of the points `x` and `y`.
#'
#' @param x Data. For `"i"` and `"j"` a matrix or data frame of numbers with one row a point, or a vector, which is
#'   one column; for a parameter a number, a vector of d numbers, or a matrix, taken row by row. Integers and
#'   logicals are taken as numbers; complex numbers make a complex lazy matrix. `NA`, `NaN` and `Inf` pass
#'   through.
#' @param index `"i"`: one row of `x` for each row of the lazy matrix; `"j"`: one for each column; `NA`: a parameter, the
#'   same everywhere.
#' @param is_complex `TRUE` makes real data complex.
#'
#' @details
#' `Vi(x)`, `Vj(x)` and `Pm(x)` are short for the three values of `index`. Numbers can stand in expressions as they
#' are. They reach the kernel as parameters, not as text: an expression built again with another length scale
#' costs no new kernel. (Whole exponents, `K^2`, are text.) `Pm()` is needed for a parameter to differentiate, and
#' for a vector of components.
#'
#' An entry may have several components: those of `Vi(x)` are the columns of `x`. `dim()` is always c(M, N), with 1 for
#' an index that does not occur; [keops_inner_dim()] is the number of components. Only functions that say so, such as
#' [sqdist()] or `|`, mix the components; arithmetic takes equal numbers of them, or 1.
#'
#' Nothing is computed before a reduction ([lazy_reductions]: `sum(K, "j")`, `rowSums(K)`, `min(K, "j")`, ...), a product
#' ([lazy_matrix]: `K %*% b`), [solve()][solve.keops_lazytensor] or `as.matrix(K)`. Settings are those of
#' [keops_options()] at that time.
#'
#' @return An object of class `keops_lazytensor`. It holds data and operations only, so it can be saved and loaded.
#'
#' @section Errors: `keops_error_input` for data that are not numbers, naming the argument;
#'   `keops_error_dimension` for operands that do not fit together, with their sizes.
#'
#' @seealso [lazy_ops] for operations, [lazy_reductions], [lazy_matrix], [keops_grad()].
#' @examples
#' x <- matrix(rnorm(300), 100, 3)
#' y <- matrix(rnorm(600), 200, 3)
#' s <- 0.5
#' K <- exp(-sqdist(Vi(x), Vj(y)) / (2 * s^2))
#' K
#' dim(K)
#' a <- K %*% rnorm(200)
#' @export
LazyTensor <- function(x, index = NA, is_complex = FALSE) make_leaf(x, index, is_complex, sys.call())

#' @rdname LazyTensor
#' @export
Vi <- function(x, is_complex = FALSE) {
  if (is.double(x) && is.matrix(x) && !is.object(x) && !is_complex && ncol(x) > 0L) return(new_lazy(leaf_node(x, 0L)))
  make_leaf(x, "i", is_complex, sys.call())
}

#' @rdname LazyTensor
#' @export
Vj <- function(x, is_complex = FALSE) {
  if (is.double(x) && is.matrix(x) && !is.object(x) && !is_complex && ncol(x) > 0L) return(new_lazy(leaf_node(x, 1L)))
  make_leaf(x, "j", is_complex, sys.call())
}

#' @rdname LazyTensor
#' @export
Pm <- function(x, is_complex = FALSE) make_leaf(x, NA, is_complex, sys.call())

make_leaf <- function(x, index, is_complex, call) {
  is_complex <- check_flag(is_complex, "`is_complex`", call)
  side <- check_index(index, call, c("i", "j", NA))
  if (side < 2L) {
    taken <- lazy_data(x, "x", is_complex, call)
  } else {
    if (is_lazy(x)) stop_input("`x`", "a lazy matrix", "numbers", call)
    if (is.data.frame(x)) x <- as.matrix(x)
    if (is.matrix(x)) x <- t(x) # row by row
    x <- gate_vector(x, "x", call)
    if (is_complex) x <- x + 0i
    taken <- list(data = if (is.complex(x)) interleave(x) else x, cplx = is.complex(x))
  }
  new_lazy(leaf_node(taken$data, side, taken$cplx))
}

# 0 i, 1 j, 2 NA, 3 "inner".
check_index <- function(index, call, allowed = c("i", "j")) {
  known <- c("i", "j", NA, "inner")
  if (is.atomic(index) && length(index) == 1L && (is.na(index) || is.character(index)) && index %in% allowed) {
    return(match(index, known) - 1L)
  }
  shown <- ifelse(is.na(allowed), "NA", paste0("\"", allowed, "\""))
  stop_input("`index`", show_value(index), paste(shown, collapse = " or "), call)
}

#' Make a lazy identity matrix
#'
#' For `K + lambda * keops_identity(n)`. (`I()` of base is another thing.)
#'
#' @param n Number of rows and columns.
#' @return A lazy matrix, n x n: 1 on the diagonal, 0 elsewhere. Where it is added to another one, products
#'   with vectors take it out of the sum over pairs.
#' @examples
#' x <- matrix(rnorm(20), 10, 2)
#' A <- exp(-sqdist(Vi(x), Vj(x))) + 0.1 * keops_identity(10)
#' A %*% rep(1, 10)
#' @export
keops_identity <- function(n) {
  call <- sys.call()
  at <- matrix(as.double(seq_len(take_count(n, "n", call))), ncol = 1L)
  new_lazy(op_node("Equal", list(leaf_node(at, 0L, given = FALSE), leaf_node(at, 1L, given = FALSE)), 1L,
                   flag = "identity"))
}

# ---- text ----

# Text, declarations and data of nodes that share their leaves. `place` says what data of i, j and none become:
# c(0, 1, 2) as they are; c(0, 0, 2) pairs them row by row; c(0, 2, 2) takes single rows of j as parameters.
# `rows`: list of rows of i and of j to take, NULL all.
lazy_flat <- function(nodes, swap = FALSE, place = c(0L, 1L, 2L), rows = NULL) {
  flat <- engine_lazy_text(nodes, swap, place)
  if (!is.null(rows)) {
    for (k in which(flat$side < 2L)) {
      taken <- rows[[flat$side[k] + 1L]]
      if (!is.null(taken)) flat$data[[k]] <- flat$data[[k]][taken, , drop = FALSE]
    }
  }
  flat
}

# ---- running ----

# One reduction of nodes (the formula, and weights where there are some) over axis 1 (j) or 0 (i).
run_reduction <- function(nodes, name, axis, ints = "", given = NULL, call = NULL, ranges = NULL) {
  flat <- lazy_flat(nodes)
  text <- flat$text
  if (length(text) > 1L) text <- paste0(text, collapse = ",")
  text <- paste0(name, "_Reduction(", text, ints, ",", axis, ")")
  run_flat(text, flat, given, call, ranges)
}

# The data have passed the gate when their lazy matrix was made.
run_flat <- function(text, flat, given = NULL, call = NULL, ranges = NULL) {
  data <- flat$data
  place <- flat$place
  rows <- rep(1, length(data))
  labels <- list(NULL, NULL)
  for (k in seq_along(data)) {
    if (place[k] < 2L) {
      x <- data[[k]]
      rows[k] <- dim(x)[1L]
      names <- dimnames(x)[[1L]]
      if (!is.null(names) && is.null(labels[[place[k] + 1L]])) labels[[place[k] + 1L]] <- names
    }
  }
  run_input(engine_formula(text, flat$declared, call, !is.null(ranges)), list(data = data, rows = rows, row_names = labels),
            ranges, run_settings(given, call), call)
}
