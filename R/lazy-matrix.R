# What makes a lazy matrix behave like a matrix of R: shape, products, rows, entries.

# ---- shape ----

# Number of rows and columns of a node: 1 for an index that does not occur.
node_size <- function(node) {
  size <- c(if (is.na(node$ni)) 1 else node$ni, if (is.na(node$nj)) 1 else node$nj)
  if (size[1L] <= .Machine$integer.max && size[2L] <= .Machine$integer.max) as.integer(size) else size
}

#' @export
dim.keops_lazytensor <- function(x) {
  if (inherits(x, "keops_lazyproduct")) return(.subset2(x, "dim"))
  node_size(.subset2(x, "node"))
}

#' @export
length.keops_lazytensor <- function(x) {
  n <- prod(dim(x))
  if (n <= .Machine$integer.max) as.integer(n) else n
}

#' @export
dimnames.keops_lazytensor <- function(x) {
  node <- .subset2(x, "node")
  if (is.null(node)) return(product_dimnames(x))
  flat <- lazy_flat(list(node))
  labels <- list(side_names(flat, 0L), side_names(flat, 1L))
  if (!is.null(labels[[1L]]) || !is.null(labels[[2L]])) labels
}

# Row names of the first data of a side that have some.
side_names <- function(flat, side) {
  for (k in which(flat$side == side)) {
    if (!is.null(rownames(flat$data[[k]]))) return(rownames(flat$data[[k]]))
  }
}

#' @export
t.keops_lazytensor <- function(x) {
  if (inherits(x, "keops_lazyproduct")) return(product_transpose(x))
  new_lazy(transpose_node(lazy_node(x)), t_ranges(.subset2(x, "ranges")))
}

t_ranges <- function(ranges) if (!is.null(ranges)) t(ranges)

#' Count the components of the entries of a lazy matrix
#'
#' @param x A lazy matrix.
#' @return A number: 1 where entries are plain numbers. Complex components count once.
#' @examples
#' x <- matrix(rnorm(30), 10, 3)
#' K <- Vi(x) - Vj(x)
#' dim(K)
#' keops_inner_dim(K)
#' keops_inner_dim(sqdist(Vi(x), Vj(x)))
#' @export
keops_inner_dim <- function(x) {
  if (!is_lazy(x)) stop_input("`x`", describe(x), "a lazy matrix", sys.call())
  count_components(lazy_node(x, sys.call()))
}

#' @export
print.keops_lazytensor <- function(x, ...) {
  if (inherits(x, "keops_lazyproduct")) return(print_product(x))
  node <- lazy_node(x)
  size <- node_size(node)
  d <- count_components(node)
  kind <- paste0(if (node$cplx) "complex " else "", if (d > 1L) sprintf("entries of %d components", d) else "entries")
  cat("<lazy matrix> ", size_text(size), ", ", kind, ", not computed\n", sep = "")
  flat <- lazy_flat(list(node))
  cat("  formula: ", cut_text(flat$text, 400L), "\n", sep = "")
  shown <- utils::head(seq_along(flat$name), 8L)
  shape <- vapply(flat$data[shown], function(v) {
    if (is.matrix(v)) size_text(dim(v)) else if (length(v) == 1L) format(v) else paste("vector of length", length(v))
  }, "")
  word <- c("for i", "for j", "parameter")[flat$side[shown] + 1L]
  if (length(shown) > 0L) cat(paste0("  ", format(flat$name[shown]), "  ", format(word), "  ", shape, "\n"), sep = "")
  if (length(flat$name) > length(shown)) cat("  and", length(flat$name) - length(shown), "more\n")
  if (!is.null(.subset2(x, "ranges"))) cat("  with block-sparse ranges\n")
  cat("  as a dense matrix it would take ", bytes_text(prod(size) * node$dim * 8), "\n", sep = "")
  invisible(x)
}

bytes_text <- function(bytes) format(structure(bytes, class = "object_size"), units = "auto")

setMethod("show", "keops_lazytensor", function(object) print(object))

#' @importFrom utils str
#' @export
str.keops_lazytensor <- function(object, ...) print(object)

# ---- products ----

#' Use a lazy matrix as a matrix
#'
#' Products, transposition, row and column sums, single rows and entries, as for an ordinary matrix.
#'
#' @param x,y A lazy matrix and a vector or matrix (or both lazy).
#' @param i,j Rows and columns: positions, names, logical or negative. `K[i, ]`, `K[, j]` and `K[i, j]` compute these
#'   entries; `K[cbind(i, j)]` and `K[k]` single ones.
#' @param drop `TRUE`: one row or column is a vector.
#' @param limit Most numbers that are made dense.
#' @param na.rm,dims,nrow,ncol,names As in base R; other values than the defaults are errors.
#' @param ... Not used; `limit` for `[`.
#'
#' @details
#' `K %*% b`, `t(K) %*% b`, `crossprod(K, b)`, `b %*% K` compute the product with a vector or matrix, all columns in one pass over the
#' pairs. A multiple of [keops_identity()] added to K is taken out of that pass. `K` must have entries of one component.
#'
#' `K1 %*% K2` of two lazy matrices is not computed: it is a product that can be applied to vectors (`K1 %*% K2 %*% b`, from right to left, at
#' the cost of two sums over pairs), transposed, added to others and multiplied by numbers, and given to [solve()][solve.keops_lazytensor].
#' Its entries are not formulas, so `exp(K1 %*% K2)` is an error. `cbind()` and `rbind()` of lazy matrices give such products too.
#'
#' `K %*% Vj(w)` is sum(K * Vj(w), "j"), as in KeOps.
#'
#' Functions that ask for an ordinary matrix get one from `as.matrix()`, up to `limit` entries; `as.array()` gives M x N x D for entries of D > 1 components.
#' For eigenvalues give an iterative solver the product: `RSpectra::eigs_sym(function(v, args) as.vector(K %*% v), k, n = nrow(K))`.
#'
#' @return `%*%` and `crossprod()`: a matrix. `rowSums()`, `colSums()`, their means, `diag()`: a vector. `[`, `as.matrix()`: dense values as base R
#'   gives them. Names are those of the rows of the data.
#' @section Errors: `keops_error_dimension` for operands that do not conform; `keops_error_input` for more than `limit` numbers, with the memory they would
#'   take, and for uses that a lazy matrix does not have, with what to do instead.
#' @examples
#' x <- matrix(rnorm(200), 100, 2)
#' K <- exp(-sqdist(Vi(x), Vj(x)))
#' b <- rnorm(100)
#' range(K %*% b - as.matrix(K) %*% b)
#' K[1:2, 1:3]
#' diag(K)[1:3]
#' @name lazy_matrix
NULL

#' @rdname lazy_matrix
#' @export
setMethod("%*%", signature("keops_lazytensor", "ANY"), function(x, y) lazy_matmul(x, y, sys.call()))
#' @rdname lazy_matrix
#' @export
setMethod("%*%", signature("ANY", "keops_lazytensor"), function(x, y) dense_matmul(x, y, sys.call()))
#' @rdname lazy_matrix
#' @export
setMethod("%*%", signature("keops_lazytensor", "keops_lazytensor"), function(x, y) lazy_lazy(x, y, sys.call()))
#' @rdname lazy_matrix
#' @export
setMethod("crossprod", signature("keops_lazytensor", "keops_lazytensor"), function(x, y = NULL, ...) lazy_lazy(t(x), y, sys.call()))
#' @rdname lazy_matrix
#' @export
setMethod("tcrossprod", signature("keops_lazytensor", "keops_lazytensor"), function(x, y = NULL, ...) lazy_lazy(x, t(y), sys.call()))
#' @rdname lazy_matrix
#' @export
setMethod("crossprod", signature("keops_lazytensor", "ANY"), function(x, y = NULL, ...) {
  lazy_matmul(t(x), if (missing(y) || is.null(y)) x else y, sys.call())
})
#' @rdname lazy_matrix
#' @export
setMethod("crossprod", signature("ANY", "keops_lazytensor"), function(x, y = NULL, ...) {
  dense_matmul(t(as.matrix(x)), y, sys.call())
})
#' @rdname lazy_matrix
#' @export
setMethod("tcrossprod", signature("keops_lazytensor", "ANY"), function(x, y = NULL, ...) {
  lazy_matmul(x, if (missing(y) || is.null(y)) t(x) else t(y), sys.call())
})
#' @rdname lazy_matrix
#' @export
setMethod("tcrossprod", signature("ANY", "keops_lazytensor"), function(x, y = NULL, ...) dense_matmul(x, t(y), sys.call()))

stop_conform <- function(x, y, call) {
  stop_dimension(sprintf("`%%*%%`: a %s and a %s matrix do not conform", size_text(x), size_text(y)), "%*%", c(x, y), call)
}

lazy_matmul <- function(x, y, call) {
  if (is_lazy(y)) return(lazy_lazy(x, y, call))
  if (inherits(x, "keops_lazyproduct")) return(product_apply(x, y, call))
  node <- lazy_node(x, call)
  n <- if (is.na(node$nj)) 1L else node$nj
  b <- right_operand(y, n, node_size(node), call) # sizes are for messages
  ranges <- .subset2(x, "ranges")
  parts <- if (is.null(ranges)) split_identity(node) # ranges may leave parts of the diagonal out
  if (!is.null(parts)) {
    out <- kernel_times(parts$node, b, NULL, call)
    out <- out + parts$factor * b
  } else {
    out <- kernel_times(node, b, ranges, call)
  }
  if (!is.null(colnames(b))) colnames(out) <- colnames(b)
  out
}

# A vector or matrix with n rows, numeric or complex. A vector of other length is a row, as in base.
right_operand <- function(y, n, size, call) {
  if (is.double(y) && !is.object(y)) {
    shape <- dim(y)
    if (is.null(shape) && length(y) == n) return(matrix(y, ncol = 1L))
    if (length(shape) == 2L && shape[1L] == n && shape[2L] > 0L) return(y)
  }
  b <- gate_matrix(y, "y", call, least = 0L)
  if (is.null(dim(y)) && nrow(b) != n && n == 1L) b <- t(b)
  if (nrow(b) != n) stop_conform(size, dim(b), call)
  b
}

# The columns of b in one pass; up to `width` of them, as each is a component of the formula.
kernel_times <- function(node, b, ranges, call, width = 1024L) {
  if (count_components(node) != 1L) {
    stop_input("`x`", sprintf("a lazy matrix with entries of %d components", count_components(node)),
               "entries of one component; sum(x * Vj(b), \"j\") multiplies each component", call)
  }
  if (ncol(b) == 0L) return(matrix(0, if (is.na(node$ni)) 1L else node$ni, 0L))
  if (ncol(b) > width) {
    from <- seq(1L, ncol(b), width)
    parts <- lapply(from, function(k) {
      kernel_times(node, b[, k:min(k + width - 1L, ncol(b)), drop = FALSE], ranges, call, width)
    })
    return(do.call(cbind, parts))
  }
  if (!node$cplx && !is.complex(b)) {
    leaf <- leaf_node(b, 1L)
    product <- list(word = "*", kids = list(node, leaf), ints = "", infix = TRUE, dim = ncol(b), cplx = FALSE)
    return(run_reduction(list(product), "Sum", 1L, call = call, ranges = ranges))
  }
  if (!node$cplx) { # real times complex: real and imaginary parts side by side
    out <- kernel_times(node, cbind(Re(b), Im(b)), ranges, call)
    k <- seq_len(ncol(b))
    return(out[, k, drop = FALSE] + 1i * out[, -k, drop = FALSE])
  }
  product <- complex_binary("*", node, leaf_node(interleave(b + 0i), 1L, TRUE), call)
  deinterleave(run_reduction(list(product), "Sum", 1L, call = call, ranges = ranges))
}

# list(node, factor) if the node is K + factor * I, for any number of such terms; NULL if not.
split_identity <- function(node) {
  if (!identical(node$word, "+") && !identical(node$word, "-")) return(NULL)
  a <- node$kids[[1L]]
  b <- node$kids[[2L]]
  sign <- if (node$word == "-") -1 else 1
  if (grepl("identity", b$flag, fixed = TRUE)) {
    rest <- split_identity(a)
    if (is.null(rest)) rest <- list(node = a, factor = 0)
    rest$factor <- rest$factor + sign * identity_factor(b)
  } else if (sign > 0 && grepl("identity", a$flag, fixed = TRUE)) {
    rest <- list(node = b, factor = identity_factor(a))
  } else {
    return(NULL)
  }
  if (is.na(rest$node$ni) || is.na(rest$node$nj) || rest$node$dim != 1L) return(NULL)
  if (!is.finite(rest$factor)) return(NULL) # it is NaN off the diagonal
  rest
}

identity_factor <- function(node) {
  if (node$flag == "identity") return(1)
  a <- node$kids[[1L]]
  b <- node$kids[[2L]]
  if (node$word == "/") return(identity_factor(a) / b$data)
  if (is.null(a$word)) a$data * identity_factor(b) else identity_factor(a) * b$data
}

dense_matmul <- function(x, y, call) {
  if (is.null(dim(x))) x <- if (length(x) == nrow(y)) matrix(x, 1L) else matrix(x, ncol = 1L)
  if (!(is.numeric(x) || is.complex(x) || is.logical(x) || is.data.frame(x))) {
    stop_input("`x`", describe(x), "numbers, or a lazy matrix", call)
  }
  x <- as.matrix(x)
  if (ncol(x) != nrow(y)) stop_conform(dim(x), dim(y), call)
  t(lazy_matmul(t(y), t(x), call))
}

# Two lazy ones: a product not computed, but for a factor that has j only or none, which KeOps sums over j.
lazy_lazy <- function(x, y, call) {
  node <- .subset2(y, "node")
  if (!is.null(node) && is.na(node$ni) && dim(x)[2L] != 1L) return(sum(x * y, "j"))
  make_product(x, y, call)
}

# ---- sums of rows and columns ----

plain_vector <- function(x) {
  labels <- rownames(x)
  x <- as.vector(x)
  if (!is.null(labels)) names(x) <- labels
  x
}

margin_sums <- function(x, index, na.rm, dims, name, call) {
  if (!identical(as.integer(dims), 1L)) stop_input("`dims`", show_value(dims), "1", call)
  if (!isFALSE(na.rm)) stop_input("`na.rm`", show_value(na.rm), "FALSE: ifelse(is.na(K), 0, K) puts 0 for what is missing", call)
  if (inherits(x, "keops_lazyproduct")) {
    out <- if (index == "j") lazy_matmul(x, rep(1, ncol(x)), call) else lazy_matmul(t(x), rep(1, nrow(x)), call)
    return(plain_vector(out))
  }
  d <- count_components(lazy_node(x, call))
  if (d != 1L) {
    stop_input(paste0(name, "(K)"), sprintf("entries of %d components", d),
               sprintf("entries of one; sum(K, \"%s\") gives one column for each component", index), call)
  }
  plain_vector(lazy_reduce(x, "Sum", index, call))
}

#' @rdname lazy_matrix
#' @export
setMethod("rowSums", "keops_lazytensor", function(x, na.rm = FALSE, dims = 1L, ...) {
  margin_sums(x, "j", na.rm, dims, "rowSums", sys.call())
})
#' @rdname lazy_matrix
#' @export
setMethod("colSums", "keops_lazytensor", function(x, na.rm = FALSE, dims = 1L, ...) {
  margin_sums(x, "i", na.rm, dims, "colSums", sys.call())
})
#' @rdname lazy_matrix
#' @export
setMethod("rowMeans", "keops_lazytensor", function(x, na.rm = FALSE, dims = 1L, ...) {
  margin_sums(x, "j", na.rm, dims, "rowMeans", sys.call()) / ncol(x)
})
#' @rdname lazy_matrix
#' @export
setMethod("colMeans", "keops_lazytensor", function(x, na.rm = FALSE, dims = 1L, ...) {
  margin_sums(x, "i", na.rm, dims, "colMeans", sys.call()) / nrow(x)
})

# ---- single entries ----

# Entries (i, j) of the node, pair by pair, one row each and a column a component.
pair_values <- function(node, i, j, call, ranges = NULL) {
  if (length(i) == 0L) return(matrix(if (node$cplx) complex(0) else numeric(), 0L, count_components(node)))
  flat <- lazy_flat(list(node), place = c(0L, 0L, 2L), rows = list(i, j))
  out <- run_flat(paste0("Sum_Reduction(", flat$text, ",1)"), flat, call = call)
  if (nrow(out) != length(i)) out <- out[rep(1L, length(i)), , drop = FALSE] # nothing but parameters
  dimnames(out) <- NULL
  if (node$cplx) out <- deinterleave(out)
  if (is.null(ranges)) out else on_ranges(out, visits(ranges, i, j))
}

# How often the ranges visit each pair (i, j), counted from 1.
visits <- function(ranges, i, j) {
  side <- ranges$i
  first <- side$rows[c(TRUE, FALSE)]
  cluster <- findInterval(i - 1, first)
  out <- numeric(length(i))
  for (k in setdiff(unique(cluster), 0)) {
    at <- which(cluster == k & i <= side$rows[2 * k])
    from <- if (k > 1L) side$slices[k - 1L] else 0
    for (n in seq_len(side$slices[k] - from) + from) {
      out[at] <- out[at] + (j[at] > side$items[2 * n - 1] & j[at] <= side$items[2 * n])
    }
  }
  out
}

# Values where visited (as often), 0 elsewhere, also for Inf.
on_ranges <- function(values, count) {
  values[] <- ifelse(rep(count, length.out = length(values)) > 0, values * as.vector(count), 0)
  values
}

#' @rdname lazy_matrix
#' @export
setMethod("diag", "keops_lazytensor", function(x = 1, nrow, ncol, names = TRUE) {
  call <- sys.call()
  node <- lazy_node(x, call)
  if (count_components(node) != 1L) {
    stop_input("diag(K)", sprintf("entries of %d components", count_components(node)), "entries of one", call)
  }
  n <- min(dim(x))
  out <- as.vector(pair_values(node, seq_len(n), seq_len(n), call, .subset2(x, "ranges")))
  labels <- if (isTRUE(names)) dimnames(x)
  if (!is.null(labels[[1L]]) && identical(labels[[1L]][seq_len(n)], labels[[2L]][seq_len(n)])) {
    names(out) <- labels[[1L]][seq_len(n)]
  }
  out
})

# Entries in rows i and columns j (NULL: all) as an array m x n x D. Columns become parameters one by one, the
# shorter side does.
dense_values <- function(node, i, j, call, ranges = NULL) {
  size <- node_size(node)
  m <- if (is.null(i)) size[1L] else length(i)
  n <- if (is.null(j)) size[2L] else length(j)
  d <- count_components(node)
  out <- array(if (node$cplx) 0i else 0, c(m, n, d))
  if (m == 0L || n == 0L) return(out)
  by_row <- m < n
  flat <- lazy_flat(list(node), swap = by_row, place = c(0L, 2L, 2L), rows = if (by_row) list(j, i) else list(i, j))
  text <- paste0("Sum_Reduction(", flat$text, ",1)")
  single <- which(flat$side == 1L)
  whole <- flat$data[single]
  for (k in seq_len(if (by_row) m else n)) {
    for (s in seq_along(single)) flat$data[[single[s]]] <- whole[[s]][k, ]
    values <- run_flat(text, flat, call = call)
    if (node$cplx) values <- deinterleave(values)
    if (by_row) out[k, , ] <- values else out[, k, ] <- values
  }
  if (!is.null(ranges)) {
    if (is.null(i)) i <- seq_len(m)
    if (is.null(j)) j <- seq_len(n)
    out <- on_ranges(out, visits(ranges, rep(i, n), rep(j, each = m)))
  }
  out
}

check_limit <- function(count, node, limit, call) {
  if (!is.numeric(limit) || length(limit) != 1L || is.na(limit)) stop_input("`limit`", show_value(limit), "one number", call)
  if (count * count_components(node) > limit) {
    stop_input("a dense matrix", paste(format(count * count_components(node), big.mark = ","), "numbers,", bytes_text(count * node$dim * 8)),
               sprintf("at most %s (argument `limit`); products, sums and K[i, ] need no dense matrix", format(limit, big.mark = ",")), call)
  }
}

#' @rdname lazy_matrix
#' @export
as.matrix.keops_lazytensor <- function(x, limit = 1e8, ...) {
  call <- sys.call()
  if (inherits(x, "keops_lazyproduct")) return(product_dense(x, limit, call))
  node <- lazy_node(x, call)
  if (count_components(node) != 1L) {
    stop_input("as.matrix(K)", sprintf("entries of %d components", count_components(node)),
               "entries of one; as.array(K) is M x N x D", call)
  }
  check_limit(prod(dim(x)), node, limit, call)
  out <- dense_values(node, NULL, NULL, call, .subset2(x, "ranges"))
  dim(out) <- dim(out)[1:2]
  dimnames(out) <- dimnames(x)
  out
}

#' @rdname lazy_matrix
#' @export
as.array.keops_lazytensor <- function(x, limit = 1e8, ...) {
  call <- sys.call()
  if (inherits(x, "keops_lazyproduct")) return(product_dense(x, limit, call))
  node <- lazy_node(x, call)
  if (count_components(node) == 1L) return(as.matrix(x, limit)) # as of any matrix, which kronecker() relies on
  check_limit(prod(dim(x)), node, limit, call)
  out <- dense_values(node, NULL, NULL, call, .subset2(x, "ranges"))
  if (!is.null(dimnames(x))) dimnames(out) <- c(dimnames(x), list(NULL))
  out
}

#' @export
as.vector.keops_lazytensor <- function(x, mode = "any") as.vector(as.matrix(x), mode)
#' @export
as.double.keops_lazytensor <- function(x, ...) as.double(as.matrix(x))
#' @export
as.logical.keops_lazytensor <- function(x, ...) as.logical(as.matrix(x))
#' @export
as.integer.keops_lazytensor <- function(x, ...) as.integer(as.matrix(x))
#' @export
as.data.frame.keops_lazytensor <- function(x, ...) as.data.frame(as.matrix(x), ...)
#' @export
as.list.keops_lazytensor <- function(x, ...) as.list(as.vector(x))
#' @export
c.keops_lazytensor <- function(...) do.call(c, lapply(list(...), function(x) if (is_lazy(x)) as.vector(x) else x))
#' @export
rep.keops_lazytensor <- function(x, ...) rep(as.vector(x), ...)
#' @export
sort.keops_lazytensor <- function(x, decreasing = FALSE, ...) sort(as.vector(x), decreasing, ...)
#' @export
isSymmetric.keops_lazytensor <- function(object, ...) isSymmetric(as.matrix(object), ...)
#' @export
xtfrm.keops_lazytensor <- function(x) as.vector(x)
#' @export
unique.keops_lazytensor <- function(x, incomparables = FALSE, ...) unique(as.matrix(x), incomparables, ...)
#' @export
duplicated.keops_lazytensor <- function(x, incomparables = FALSE, ...) duplicated(as.matrix(x), incomparables, ...)
#' @export
summary.keops_lazytensor <- function(object, ...) summary(as.matrix(object), ...)
#' @importFrom stats median quantile
#' @export
median.keops_lazytensor <- function(x, na.rm = FALSE, ...) median(as.vector(x), na.rm, ...)
#' @export
quantile.keops_lazytensor <- function(x, ...) quantile(as.vector(x), ...)
#' @export
aperm.keops_lazytensor <- function(a, perm = NULL, ...) aperm(as.matrix(a), perm, ...)
#' @export
all.equal.keops_lazytensor <- function(target, current, ...) {
  all.equal(as.matrix(target), if (is_lazy(current)) as.matrix(current) else current, ...)
}

# Positions of an index of one side, as base R reads it.
positions <- function(index, n, labels, arg, call) {
  if (is_lazy(index)) {
    stop_input(quote_names(arg), "a lazy matrix", "positions; as.matrix(K) can be indexed by a dense logical matrix", call)
  }
  if (is.null(index)) index <- integer()
  if (is.character(index)) {
    at <- match(index, labels)
  } else if (is.logical(index)) {
    if (length(index) > n) stop_input(quote_names(arg), describe(index), paste("at most", n, "logicals"), call)
    at <- seq_len(n)[index]
  } else if (is.numeric(index)) {
    at <- if (any(index < 0, na.rm = TRUE)) seq_len(n)[index] else index[index != 0]
  } else {
    stop_input(quote_names(arg), describe(index), "positions, names or logicals", call)
  }
  if (anyNA(at) || any(at > n)) {
    bad <- index[is.na(at) | at > n]
    stop_input(quote_names(arg), if (length(bad) > 0L) show_value(bad[1L]) else "NA",
               if (is.character(index)) "row names of the data" else paste("positions, 1 to", n), call)
  }
  trunc(at)
}

#' @rdname lazy_matrix
#' @export
`[.keops_lazytensor` <- function(x, i, j, ..., drop = TRUE, limit = 1e8) {
  call <- sys.call()
  count <- nargs() - 1L - !missing(drop) - !missing(limit)
  if (count > 2L) stop_input("`[`", paste(count, "indices"), "two: rows and columns", call)
  if (inherits(x, "keops_lazyproduct")) return(product_entries(x, if (!missing(i)) i, if (!missing(j)) j, count, drop, limit, call))
  node <- lazy_node(x, call)
  size <- dim(x)
  if (count == 1L) {
    if (missing(i)) return(x)
    return(single_entries(x, i, limit, call))
  }
  labels <- dimnames(x)
  rows <- if (!missing(i)) positions(i, size[1L], labels[[1L]], "i", call)
  columns <- if (!missing(j)) positions(j, size[2L], labels[[2L]], "j", call)
  shape <- c(if (is.null(rows)) size[1L] else length(rows), if (is.null(columns)) size[2L] else length(columns))
  check_limit(prod(shape), node, limit, call)
  out <- dense_values(node, rows, columns, call, .subset2(x, "ranges"))
  d <- dim(out)
  if (d[3L] == 1L) dim(out) <- d[1:2]
  if (!is.null(labels)) {
    taken <- list(if (is.null(rows)) labels[[1L]] else labels[[1L]][rows],
                  if (is.null(columns)) labels[[2L]] else labels[[2L]][columns])
    dimnames(out) <- if (d[3L] == 1L) taken else c(taken, list(NULL))
  }
  if (drop) drop(out) else out
}

# K[cbind(i, j)] and K[k].
single_entries <- function(x, i, limit, call) {
  size <- dim(x)
  labels <- dimnames(x)
  total <- prod(as.double(size))
  if (!is_lazy(i) && is.matrix(i) && ncol(i) == 2L && !is.logical(i)) {
    if (is.numeric(i)) {
      if (any(i < 0, na.rm = TRUE)) stop_input("`i`", "negative positions in a matrix", "pairs of positions, from 1", call)
      i <- i[is.na(i[, 1L]) | is.na(i[, 2L]) | (i[, 1L] >= 1 & i[, 2L] >= 1), , drop = FALSE] # as R leaves out zeros
    }
    rows <- positions(i[, 1L], size[1L], labels[[1L]], "i", call)
    columns <- positions(i[, 2L], size[2L], labels[[2L]], "j", call)
  } else {
    if (is.logical(i) || (is.numeric(i) && any(i < 0, na.rm = TRUE))) check_limit(total, lazy_node(x, call), limit, call)
    at <- positions(i, total, NULL, "i", call)
    rows <- (at - 1) %% size[1L] + 1
    columns <- (at - 1) %/% size[1L] + 1
  }
  out <- pair_values(lazy_node(x, call), rows, columns, call, .subset2(x, "ranges"))
  if (ncol(out) == 1L) as.vector(out) else out
}

#' @export
`[[.keops_lazytensor` <- function(x, i, j, ...) {
  out <- if (missing(j)) x[i] else x[i, j]
  if (length(out) == 1L) out else stop_input("`[[`", paste(length(out), "entries"), "one entry", sys.call())
}

# ---- what it is not ----

stop_assign <- function(call) {
  stop_input("assignment", "a lazy matrix, which has no stored entries",
             "ifelse(test, yes, no) to choose entries, or as.matrix(K) for a small one", call)
}
#' @export
`[<-.keops_lazytensor` <- function(x, i, j, ..., value) stop_assign(sys.call())
#' @export
`[[<-.keops_lazytensor` <- function(x, i, j, ..., value) stop_assign(sys.call())
#' @export
`$<-.keops_lazytensor` <- function(x, name, value) stop_assign(sys.call())
#' @export
`length<-.keops_lazytensor` <- function(x, value) stop_assign(sys.call())
#' @export
`names<-.keops_lazytensor` <- function(x, value) stop_assign(sys.call())
#' @export
`dim<-.keops_lazytensor` <- function(x, value) stop_assign(sys.call())
#' @export
`dimnames<-.keops_lazytensor` <- function(x, value) {
  stop_input("dimnames", "a lazy matrix", "row names of the data given to Vi() and Vj()", sys.call())
}
#' @export
chol.keops_lazytensor <- function(x, ...) {
  stop_unavailable("chol(K)", "solve(K, b), which needs no factor, or chol(as.matrix(K)) for a small K", sys.call())
}
#' @export
determinant.keops_lazytensor <- function(x, ...) {
  stop_unavailable("determinant(K)", "determinant(as.matrix(K)) for a small K", sys.call())
}
#' @export
qr.keops_lazytensor <- function(x, ...) {
  stop_unavailable("qr(K)", "solve(K, b), or qr(as.matrix(K)) for a small K", sys.call())
}

# ---- blocks ----

#' @export
cbind.keops_lazytensor <- function(..., deparse.level = 1) bind_columns(list(...), sys.call())
#' @export
rbind.keops_lazytensor <- function(..., deparse.level = 1) {
  call <- sys.call()
  t(bind_columns(lapply(list(...), function(x) if (is_lazy(x)) t(x) else x), call))
}

# ---- predicates ----

#' Ask what kind of lazy matrix an object is
#'
#' @param x Any object.
#' @return `TRUE` or `FALSE`. `is.LazyVector()` is true where no index occurs, `is.LazyParameter()` where moreover there is one component,
#'   `is.LazyMatrix()` where i or j occurs, `is.ComplexLazyTensor()` for complex entries.
#' @examples
#' is.LazyTensor(Vi(1:3))
#' is.LazyParameter(Pm(2))
#' @export
is.LazyTensor <- function(x) is_lazy(x)
#' @rdname is.LazyTensor
#' @export
is.ComplexLazyTensor <- function(x) is_lazy(x) && isTRUE(.subset2(x, "node")$cplx)
#' @rdname is.LazyTensor
#' @export
is.LazyMatrix <- function(x) is_lazy(x) && !is.LazyVector(x)
#' @rdname is.LazyTensor
#' @export
is.LazyVector <- function(x) {
  node <- if (is_lazy(x)) .subset2(x, "node")
  !is.null(node) && is.na(node$ni) && is.na(node$nj)
}
#' @rdname is.LazyTensor
#' @export
is.LazyParameter <- function(x) is.LazyVector(x) && count_components(.subset2(x, "node")) == 1L
