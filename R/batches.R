# Batches: arrays whose third dimension numbers independent problems of one size, run one after the other
# on one formula. Variables without it, or of extent 1 there, are shared by all.

# list(n, shared, args): `n` batches; shared[k]: argument k is the same for all; args: those of three
# dimensions as numbers. NULL if no argument has three dimensions.
find_batches <- function(args, info, inner_dim, call) {
  deep <- lengths(lapply(args, dim))
  if (!any(deep > 2L)) return(NULL)
  if (any(deep > 3L)) {
    k <- which(deep > 3L)[1L]
    stop_input(arg_label(info, k), describe(args[[k]]), "three dimensions at most, the third for batches", call)
  }
  n <- 1L
  first <- 0L # the argument that settled it
  for (k in which(deep == 3L)) {
    x <- args[[k]]
    if (!is.double(x) || is.object(x)) x <- args[[k]] <- as_numbers(x, arg_label(info, k), call)
    check_batch_shape(x, info, k, inner_dim, call)
    extent <- dim(x)[3L]
    if (extent == 1L || extent == n) next
    if (first > 0L) {
      other <- if (nzchar(info$name[first])) quote_names(info$name[first]) else paste("number", first)
      stop_input(arg_label(info, k), paste(extent, "batches"), paste0(n, ", as in argument ", other, ", or 1"), call)
    }
    n <- extent
    first <- k
  }
  shared <- vapply(args, function(x) length(dim(x)) < 3L || (dim(x)[3L] == 1L && n != 1L), NA)
  list(n = n, shared = shared, args = args)
}

check_batch_shape <- function(x, info, k, inner_dim, call) {
  d <- info$dim[k]
  shape <- dim(x)
  if (info$category[k] == 2L) {
    if (any(shape[1:2] == 1L) && prod(shape[1:2]) == d) return()
    expected <- paste0("an array of 1 x ", d, " x batches")
  } else {
    if (shape[if (inner_dim == "row") 1L else 2L] == d) return()
    expected <- paste0("an array of ", if (inner_dim == "row") paste(d, "x points") else paste("points x", d), " x batches")
  }
  stop_input(arg_label(info, k), describe(x), expected, call)
}

# The arguments of batch b as matrices; b = 0 gives zeros of the shape that a batch has.
batch_args <- function(batches, b) {
  lapply(batches$args, function(x) {
    shape <- dim(x)
    if (length(shape) < 3L) return(x)
    labels <- if (!is.null(dimnames(x))) dimnames(x)[1:2]
    if (b == 0L) return(matrix(0, shape[1L], shape[2L], dimnames = labels))
    if (shape[3L] == 1L) b <- 1L
    n <- prod(shape[1:2])
    matrix(x[(b - 1) * n + seq_len(n)], shape[1L], shape[2L], dimnames = labels)
  })
}

# run(args) for each batch. The results are bound along a new last dimension; gradients in a shared variable
# (`taken`, see new_operator) are summed, for the variable is one and the same in all batches.
run_batches <- function(batches, taken, info, run, call) {
  check_cotangents(batches, taken, info, call)
  # without batches one is run all the same, for the shape of its results
  out <- lapply(if (batches$n > 0L) seq_len(batches$n) else 0L, function(b) run(batch_args(batches, b)))
  of <- if (length(taken) > 0L) taken[[length(taken)]]$of
  if (length(of) < 2L) return(join_batches(out, of, batches))
  lapply(seq_along(of), function(k) join_batches(lapply(out, `[[`, k), of[k], batches))
}

# `of`: the variable that results are the gradient of; NULL: of none
join_batches <- function(out, of, batches) {
  if (!is.null(of) && batches$shared[of]) return(sum_batches(out, dim(batches$args[[of]]), batches$n))
  bind_batches(out, batches$n)
}

# In the shape of the variable: with a third dimension of extent 1 if it has one.
sum_batches <- function(out, shape, n) {
  total <- if (n > 0L) Reduce(`+`, out) else replace(out[[1L]], TRUE, 0)
  if (length(shape) < 3L) return(total)
  array(total, c(dim(total), 1L), if (!is.null(dimnames(total))) c(dimnames(total), list(NULL)))
}

# Lists (of values and indices, of several results) are bound entry by entry.
bind_batches <- function(out, n) {
  first <- out[[1L]]
  if (is.list(first)) {
    return(sapply(seq_names(first), function(k) bind_batches(lapply(out, `[[`, k), n), simplify = FALSE))
  }
  labels <- if (!is.null(dimnames(first))) c(dimnames(first), list(NULL))
  values <- if (n > 0L) unlist(out, use.names = FALSE) else first[0L]
  array(values, c(dim(first), n), labels)
}

seq_names <- function(x) if (is.null(names(x))) seq_along(x) else names(x)

# A gradient that was summed over the batches has one cotangent, not one a batch.
check_cotangents <- function(batches, taken, info, call) {
  for (order in seq_along(taken)[-1L]) {
    k <- taken[[order]]$eta
    v <- taken[[order - 1L]]$of
    if (batches$shared[v] && !batches$shared[k]) {
      stop_input(arg_label(info, k), paste(batches$n, "batches"),
                 paste("one for all: it belongs to the gradient in", variable_text(info, v),
                       "which all batches share, so that gradient is summed over them"), call)
    }
  }
}
