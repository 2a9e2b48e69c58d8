# The input gate: what users hand to an operator becomes double columns of the declared shape, or an error
# that names the argument, what was found and what is allowed. NA, NaN and Inf pass.

category_words <- c("i-variable", "j-variable", "parameter")
category_marks <- c("Vi", "Vj", "Pm")

# One argument as messages name it: `x` (Vi(3)), or number 2 (Vj(3)).
arg_label <- function(info, k) {
  name <- info$name[k]
  who <- if (nzchar(name)) quote_names(name) else paste("number", k)
  paste0("argument ", who, " (", category_marks[info$category[k] + 1L], "(", info$dim[k], "))")
}

# The user's list in the order of the formula's arguments.
order_args <- function(args, info, call) {
  if (!is.list(args) || is.object(args)) {
    stop_input("`args`", describe(args), paste("a list with", count_args(info)), call)
  }
  n <- length(info$name)
  if (length(args) != n) {
    stop_input("`args`", paste("a list of length", length(args)), paste("a list with", count_args(info)), call)
  }
  given <- names(args)
  if (is.null(given)) return(args)
  if (!all(nzchar(info$name))) {
    stop_input("`args`", "a list with names", "a list without: this operator has arguments without a name", call)
  }
  if (!all(nzchar(given))) {
    stop_input("`args`", "names for some of its elements", "names for all of them, or for none", call)
  }
  at <- match(info$name, given)
  if (anyNA(at)) {
    stop_input("`args`", paste("the names", quote_names(given)), quote_names(info$name), call)
  }
  args[at]
}

count_args <- function(info) {
  n <- length(info$name)
  if (n == 1L) "1 element" else paste(n, "elements, one for each argument")
}

# `args` of order_args() as list(data, rows, row_names): data are doubles, column-major, rows[k] x dim;
# row names of i and of j are those of the first variable that has some.
take_args <- function(args, info, inner_dim, call) {
  n <- length(args)
  rows <- numeric(n)
  row_names <- list(NULL, NULL)
  first <- c(0L, 0L) # the argument that settled the number of rows of i, j
  categories <- info$category
  for (k in seq_len(n)) {
    x <- args[[k]]
    category <- categories[k]
    if (!is.double(x) || is.object(x)) x <- as_numbers(x, arg_label(info, k), call)
    if (category == 2L) {
      args[[k]] <- take_parameter(x, info, k, call)
      rows[k] <- 1
      next
    }
    x <- take_columns(x, info, k, inner_dim, call)
    rows[k] <- NROW(x)
    before <- first[category + 1L]
    if (before == 0L) first[category + 1L] <- k
    else if (rows[before] != rows[k]) stop_rows(info, k, rows[k], before, rows[before], call)
    labels <- point_names(x)
    if (!is.null(labels) && is.null(row_names[[category + 1L]])) row_names[[category + 1L]] <- labels
    args[[k]] <- x
  }
  list(data = args, rows = rows, row_names = row_names)
}

stop_rows <- function(info, k, found, before, rows, call) {
  word <- category_words[info$category[k] + 1L]
  other <- if (nzchar(info$name[before])) quote_names(info$name[before]) else paste("number", before)
  stop_input(arg_label(info, k), paste(format_count(found), "rows"),
             paste0(format_count(rows), ", as in ", word, " ", other), call)
}

# Numeric vectors and matrices of doubles from whatever R users keep numbers in. `label`: the argument in messages.
as_numbers <- function(x, label, call, expected = "numbers: a numeric matrix, vector or data frame") {
  if (is.data.frame(x)) return(frame_numbers(x, label, call))
  numbers <- (is.numeric(x) || is.logical(x)) && !inherits(x, c("factor", "integer64"))
  if (!numbers) stop_input(label, describe(x), expected, call)
  if (is.object(x)) x <- unclass(x)
  storage.mode(x) <- "double"
  x
}

# With the column names, and the row names that its owner gave it (automatic ones don't count).
frame_numbers <- function(x, label, call) {
  for (k in seq_along(x)) {
    column <- x[[k]]
    if (!(is.numeric(column) || is.logical(column)) || length(dim(column)) > 1L || inherits(column, "integer64")) {
      stop_input(label, paste0("column ", quote_names(names(x)[k]), " that is ", describe(column)),
                 "a data frame whose columns are all numbers", call)
    }
  }
  out <- matrix(unlist(lapply(x, as.double), use.names = FALSE), nrow(x), length(x))
  dimnames(out) <- list(if (.row_names_info(x) > 0L) row.names(x), names(x))
  out
}

# Row names of a matrix, names of a vector or a one-dimensional array.
point_names <- function(x) if (is.null(dim(x))) names(x) else dimnames(x)[[1L]]

# A vector (or a one-dimensional array) as a matrix of one column, its names as row names.
one_column <- function(x) {
  labels <- point_names(x)
  matrix(x, ncol = 1L, dimnames = if (!is.null(labels)) list(labels, NULL))
}

# A parameter of dimension d: d numbers, as a vector, one row or one column.
take_parameter <- function(x, info, k, call) {
  d <- info$dim[k]
  shape <- dim(x)
  flat <- length(shape) <= 1L || (length(shape) == 2L && any(shape == 1L))
  if (flat && length(x) == d) return(x)
  expected <- if (d == 1L) "one number" else paste0(d, " numbers: a vector, or a 1 x ", d, " matrix")
  stop_input(arg_label(info, k), describe(x), expected, call)
}

# A matrix of rows x dim, or a vector that stands for one column (to make it one would be a copy).
# inner_dim "row": points stand in columns.
take_columns <- function(x, info, k, inner_dim, call) {
  d <- info$dim[k]
  shape <- dim(x)
  if (length(shape) < 2L) {
    if (d == 1L) return(x)
  } else if (length(shape) == 2L) {
    if (inner_dim == "row") {
      if (shape[1L] == d) return(t(x))
    } else if (shape[2L] == d) {
      return(x)
    }
  }
  expected <- if (inner_dim == "row") {
    paste0("a matrix with ", d, if (d == 1L) " row" else " rows", ", one column a point")
  } else {
    paste0("a matrix with ", d, if (d == 1L) " column" else " columns", ", one row a point")
  }
  if (d == 1L) expected <- paste(expected, "(or a vector)")
  stop_input(arg_label(info, k), describe(x), expected, call)
}
