# Products of lazy matrices, and their sums: known by what they do to vectors.
#
# A product is list(terms, dim) of class c("keops_lazyproduct", "keops_lazytensor"); a term is list(factor, chain): a
# number times the matrices of the chain, which are applied from right to left. A matrix of a chain is lazy, or a
# selection list(from, to, n): it takes rows from..to of n, or (transposed) puts zeros around.

new_product <- function(terms, dim) {
  asS4(structure(list(terms = terms, dim = dim), class = c("keops_lazyproduct", "keops_lazytensor")))
}

selection <- function(from, to, n, transposed = FALSE) list(from = from, to = to, n = n, transposed = transposed)

# A lazy matrix as a sum of one product.
as_product <- function(x, call) {
  if (inherits(x, "keops_lazyproduct")) return(x)
  node <- lazy_node(x, call)
  if (count_components(node) != 1L) {
    stop_input("a factor", sprintf("a lazy matrix with entries of %d components", count_components(node)), "entries of one component", call)
  }
  new_product(list(list(factor = 1, chain = list(x))), dim(x))
}

make_product <- function(x, y, call) {
  if (dim(x)[2L] != dim(y)[1L]) stop_conform(dim(x), dim(y), call)
  x <- as_product(x, call)
  y <- as_product(y, call)
  terms <- list()
  for (a in .subset2(x, "terms")) for (b in .subset2(y, "terms")) {
    terms <- c(terms, list(list(factor = a$factor * b$factor, chain = c(a$chain, b$chain))))
  }
  new_product(terms, c(dim(x)[1L], dim(y)[2L]))
}

product_transpose <- function(x) {
  turn <- function(a) {
    if (is_lazy(a)) return(t(a))
    a$transposed <- !a$transposed
    a
  }
  terms <- lapply(.subset2(x, "terms"), function(term) {
    list(factor = term$factor, chain = rev(lapply(term$chain, turn)))
  })
  new_product(terms, rev(dim(x)))
}

product_apply <- function(x, y, call) {
  size <- dim(x)
  b <- right_operand(y, size[2L], size, call)
  out <- 0
  for (term in .subset2(x, "terms")) {
    value <- b
    for (a in rev(term$chain)) value <- if (is_lazy(a)) lazy_matmul(a, value, call) else select_rows(a, value)
    out <- out + term$factor * value
  }
  if (!is.null(colnames(b))) colnames(out) <- colnames(b)
  out
}

select_rows <- function(a, value) {
  at <- seq.int(a$from, length.out = a$to - a$from + 1L)
  if (!a$transposed) return(value[at, , drop = FALSE])
  out <- matrix(0, a$n, ncol(value))
  out[at, ] <- value
  out
}

# [K1 K2] b = K1 b[rows of K1's columns] + K2 b[the others]
bind_columns <- function(parts, call) {
  lazy <- vapply(parts, is_lazy, NA)
  if (!all(lazy)) {
    stop_input("cbind() or rbind()", describe(parts[!lazy][[1L]]), "lazy matrices only; apply each block by itself", call)
  }
  rows <- vapply(parts, function(x) dim(x)[1L], 0)
  if (any(rows != rows[1L])) stop_dimension(sprintf("cbind(), rbind(): blocks of %s and %s rows or columns", rows[1L], rows[rows != rows[1L]][1L]), "cbind", rows, call)
  columns <- vapply(parts, function(x) dim(x)[2L], 0)
  n <- sum(columns)
  to <- cumsum(columns)
  terms <- list()
  for (k in seq_along(parts)) {
    at <- selection(to[k] - columns[k] + 1, to[k], n)
    for (term in .subset2(as_product(parts[[k]], call), "terms")) {
      term$chain <- c(term$chain, list(at))
      terms <- c(terms, list(term))
    }
  }
  new_product(terms, as.integer(c(rows[1L], n)))
}

scale_product <- function(x, factor) {
  terms <- lapply(.subset2(x, "terms"), function(term) {
    term$factor <- term$factor * factor
    term
  })
  new_product(terms, dim(x))
}

product_ops <- function(op, e1, e2, call) {
  number <- function(x) !is_lazy(x) && (is.numeric(x) || is.complex(x)) && length(x) == 1L
  if (is.null(e2)) {
    if (op == "-") return(scale_product(e1, -1))
    if (op == "+") return(e1)
  } else if (op == "*" && number(e1)) {
    return(scale_product(e2, as.vector(e1)))
  } else if (op %in% c("*", "/") && number(e2)) {
    return(scale_product(e1, if (op == "*") as.vector(e2) else 1 / as.vector(e2)))
  } else if (op %in% c("+", "-") && is_lazy(e1) && is_lazy(e2)) {
    if (any(dim(e1) != dim(e2))) {
      stop_dimension(sprintf("`%s`: a %s and a %s matrix", op, size_text(dim(e1)), size_text(dim(e2))), op, c(dim(e1), dim(e2)), call)
    }
    e2 <- as_product(e2, call)
    if (op == "-") e2 <- scale_product(e2, -1)
    return(new_product(c(.subset2(as_product(e1, call), "terms"), .subset2(e2, "terms")), dim(e1)))
  }
  lazy_node(new_product(list(), c(0L, 0L)), call) # the error
}

product_summary <- function(name, x, call) {
  if (name == "sum") return(sum(lazy_matmul(x, rep(1, ncol(x)), call)))
  lazy_node(x, call)
}

product_dimnames <- function(x) NULL

# Columns of the identity, a block at a time.
product_dense <- function(x, limit, call) {
  size <- dim(x)
  check_limit(prod(size), list(cplx = FALSE, dim = 1L), limit, call)
  if (size[1L] < size[2L]) return(t(product_dense(product_transpose(x), limit, call)))
  product_columns(x, seq_len(size[2L]), call)
}

product_columns <- function(x, columns, call, width = 64L) {
  n <- dim(x)[2L]
  blocks <- split(columns, (seq_along(columns) - 1L) %/% width)
  parts <- lapply(blocks, function(at) {
    unit <- matrix(0, n, length(at))
    unit[cbind(at, seq_along(at))] <- 1
    product_apply(x, unit, call)
  })
  out <- do.call(cbind, parts)
  if (is.null(out)) out <- matrix(0, dim(x)[1L], 0L)
  dimnames(out) <- NULL
  out
}

product_entries <- function(x, i, j, count, drop, limit, call) {
  if (count == 1L) lazy_node(x, call)
  size <- dim(x)
  rows <- if (is.null(i)) seq_len(size[1L]) else positions(i, size[1L], NULL, "i", call)
  columns <- if (is.null(j)) seq_len(size[2L]) else positions(j, size[2L], NULL, "j", call)
  check_limit(prod(length(rows), length(columns)), list(cplx = FALSE, dim = 1L), limit, call)
  if (length(rows) < length(columns)) return(t_drop(product_entries(t(x), columns, rows, 2L, FALSE, limit, call), drop))
  out <- product_columns(x, columns, call)[rows, , drop = FALSE]
  if (drop) drop(out) else out
}

t_drop <- function(x, drop) if (drop) drop(t(x)) else t(x)

print_product <- function(x) {
  terms <- .subset2(x, "terms")
  cat("<lazy matrix> ", size_text(dim(x)), ", a sum of ", length(terms), if (length(terms) == 1L) " product" else " products",
      " of lazy matrices, not computed\n", sep = "")
  for (term in utils::head(terms, 6L)) {
    sizes <- vapply(term$chain, function(a) {
      if (is_lazy(a)) paste0("(", size_text(dim(a)), ")") else if (a$transposed) "(rows below others)" else "(block of rows)"
    }, "")
    cat("  ", format(term$factor), " * ", paste(sizes, collapse = " %*% "), "\n", sep = "")
  }
  if (length(terms) > 6L) cat("  and", length(terms) - 6L, "more\n")
  invisible(x)
}
