# Operations on the entries of lazy matrices: R's operators and functions through the S3 group generics, and
# the words of KeOps that R has no function for.

# ---- making operation nodes ----

# Components of the result of an operation element by element.
common_dim <- function(a, b, word, call) {
  if (a == b || b == 1L) return(a)
  if (a == 1L) return(b)
  stop_dimension(
    sprintf("%s: operands have %d and %d components; equal numbers, or 1, are allowed", word_label(word), a, b),
    word, c(a, b), call
  )
}

infix_node <- function(word, a, b, flag = "", call = NULL) {
  op_node(word, list(a, b), common_dim(a$dim, b$dim, word, call), infix = TRUE, flag = flag, call = call)
}

call_node <- function(word, ..., ints = "", flag = "", call = NULL) {
  kids <- list(...)
  dim <- 1L
  for (kid in kids) dim <- common_dim(dim, kid$dim, word, call)
  op_node(word, kids, dim, ints = ints, flag = flag, call = call)
}

real_only <- function(node, word, call) {
  if (node$cplx) {
    stop_input(word_label(word), "a complex lazy matrix",
               "a real one; of complex ones there are + - * / ^, exp, log, sqrt, Re, Im, Mod, Arg, Conj, abs, sum", call)
  }
  node
}

unary <- function(word, node, call, ints = "") op_node(word, list(real_only(node, word, call)), node$dim, ints = ints)

# A function of each entry of a real node: as op_node() makes it, and quicker.
unary_node <- function(word, node, cplx = FALSE) {
  list(word = word, kids = list(node), ints = "", infix = FALSE, dim = node$dim, ni = node$ni, nj = node$nj, cplx = cplx, flag = "")
}

minus_node <- function(node) unary_node("Minus", node, node$cplx)

times_node <- function(a, b) infix_node("*", a, b)

count_components <- function(node) if (node$cplx) node$dim %/% 2L else node$dim

# ---- arithmetic, comparison, logic ----

#' Compute with the entries of lazy matrices
#'
#' R's operators and mathematical functions take lazy matrices and numbers, and give lazy matrices: nothing is
#' computed yet. They mean what they mean for R's matrices, entry by entry, with R's precedence.
#'
#' @param e1,e2,x Lazy matrices, or numbers: one, or as many as there are components.
#' @param ... Further arguments of the function, such as `digits` of `round()` and `base` of `log()`.
#' @param z A lazy matrix.
#'
#' @details
#' \describe{
#'   \item{Arithmetic}{`+ - * / ^ %% %/%`. `K^2` and other whole exponents up to 64 are exact for negative entries; another
#'     exponent of a negative number is `NaN`, as in R. `%%` by an infinite number is `NaN`.}
#'   \item{Comparison}{`< <= > >= == !=` give 1 and 0, so that sums of them count. With `NaN` they are 0 (`!=`: 1).
#'     `is.na()`, `is.finite()` and `is.infinite()` count too; `is.nan()` does not tell `NA` from `NaN`.}
#'   \item{Logic}{`!`, `&` and, between comparisons, `|`. Otherwise **`x | y` is the dot product** of the components, as in
#'     KeOps.}
#'   \item{Functions}{`abs sign sqrt floor ceiling trunc round exp expm1 log log1p log2 log10 cos sin tan cospi sinpi tanpi acos asin
#'     atan cosh sinh tanh acosh asinh atanh lgamma digamma trigamma`, [atan2()]. `round()` takes halves to the even digit; with `digits` it
#'     rounds x * 10^digits. Cumulative functions, `gamma()` and `signif()` are errors.}
#'   \item{Complex}{`Re Im Mod Arg Conj` and `+ - * / ^ exp log sqrt abs sum`. Real and complex operands mix.}
#'   \item{`ifelse(test, yes, no)`}{`test` is a comparison, or a logical combination of some. A plain number as a test is an
#'     error: write `K != 0` (R's meaning) or `K >= 0` (that of KeOps).}
#' }
#' `K * r`, with `r` of [keops_ranges()], is K on the pairs that r keeps and 0 elsewhere: sums, minima, products and gradients visit
#' these pairs only. Operations on it keep to these pairs.
#'
#' A dense matrix is no operand, as it would have to be stored: the error says what to write.
#' [lazy_words] lists functions beyond R's.
#'
#' @return A lazy matrix.
#' @section Errors: `keops_error_dimension` if numbers of rows or components do not fit together;
#'   `keops_error_input` for operands that are not numbers, and for functions that are not available.
#' @examples
#' z <- c(0, 1, 2, 4)
#' near <- abs(Vi(z) - Vj(z)) <= 1.5
#' rowSums(near) # how many points are near each one
#' rowSums(ifelse(near, 1 - abs(Vi(z) - Vj(z)), 0))
#' @name lazy_ops
NULL

#' @rdname lazy_ops
#' @export
Ops.keops_lazytensor <- function(e1, e2) {
  # the call is for messages: made only when one is
  if (missing(e2)) return(lazy_unary_op(.Generic, e1, generic_call(.Generic, sys.call())))
  lazy_binary_op(.Generic, e1, e2, generic_call(.Generic, sys.call()))
}

lazy_binary_op <- function(op, e1, e2, call) {
  if (inherits(e1, "keops_lazyproduct") || inherits(e2, "keops_lazyproduct")) return(product_ops(op, e1, e2, call))
  if (op == "*" && inherits(e2, "keops_ranges")) return(attach_ranges(e1, e2, call))
  if (op == "*" && inherits(e1, "keops_ranges")) return(attach_ranges(e2, e1, call))
  if (is_lazy(e1)) {
    a <- lazy_node(e1, call)
    b <- operand_node(e2, call, count_components(a), e1)
  } else {
    b <- lazy_node(e2, call)
    a <- operand_node(e1, call, count_components(b), e2)
  }
  new_lazy(binary_node(op, a, b, e2, call), common_ranges(e1, e2, call))
}

# A call of a group generic as the user wrote it, for messages.
generic_call <- function(name, call) {
  call[[1L]] <- as.name(name)
  call
}

# K restricted to the pairs of ranges.
attach_ranges <- function(x, ranges, call) {
  node <- lazy_node(x, call)
  check_ranges(ranges, node_size(node), call)
  if (!is.null(.subset2(x, "ranges"))) common_ranges(x, new_lazy(node, ranges), call)
  new_lazy(node, ranges)
}

common_ranges <- function(e1, e2, call) {
  r1 <- if (is_lazy(e1)) .subset2(e1, "ranges")
  r2 <- if (is_lazy(e2)) .subset2(e2, "ranges")
  if (is.null(r1)) return(r2)
  if (is.null(r2) || identical(r1, r2)) return(r1)
  stop_input("ranges", "two lazy matrices with different block-sparse ranges", "the same ranges, or on one of them", call)
}

lazy_unary_op <- function(op, x, call) {
  if (inherits(x, "keops_lazyproduct")) return(product_ops(op, x, NULL, call))
  node <- lazy_node(x, call)
  node <- switch(op,
    "+" = node,
    "-" = minus_node(node),
    "!" = op_node("Not", list(real_only(node, "!", call)), node$dim, flag = "logical")
  )
  new_lazy(node, .subset2(x, "ranges"))
}

binary_node <- function(op, a, b, e2, call) {
  if (op == "^") return(power_node(a, b, e2, call))
  if (a$cplx || b$cplx) return(complex_binary(op, a, b, call))
  switch(op,
    "+" = , "-" = infix_node(op, a, b, call = call),
    "*" = , "/" = infix_node(op, a, b, scaled_identity(op, a, b), call),
    "<" = , "<=" = , ">" = , ">=" = , "==" = , "!=" = infix_node(op, a, b, "logical", call),
    "&" = call_node("And", a, b, flag = "logical", call = call),
    "|" = bar_node(a, b, call),
    "%%" = call_node("Mod", a, b, constant_node("0"), call = call),
    "%/%" = unary("Floor", infix_node("/", a, b, call = call), call)
  )
}

# lambda * I, I * lambda, I / lambda with a number: what products with vectors take out of the sum.
scaled_identity <- function(op, a, b) {
  if (a$flag == "" && b$flag == "") return("")
  known <- function(node) node$flag %in% c("identity", "scaled identity")
  number <- function(node) is.null(node$word) && node$side == 2L && node$dim == 1L
  if ((known(a) && number(b)) || (op == "*" && number(a) && known(b))) "scaled identity" else ""
}

bar_node <- function(a, b, call) {
  logical <- c(a$flag, b$flag) == "logical"
  if (all(logical)) return(call_node("Or", a, b, flag = "logical", call = call))
  if (any(logical)) {
    stop_input("`|`", "a comparison and a lazy matrix of numbers",
               "two comparisons (logical or), or two of numbers (dot product of components)", call)
  }
  dot_node(a, b, call)
}

dot_node <- function(a, b, call) {
  common_dim(a$dim, b$dim, "|", call)
  op_node("|", list(a, b), 1L, infix = TRUE, call = call)
}

# Whole exponents are text: exact for negative numbers, and products instead of logarithms.
power_node <- function(a, b, e2, call) {
  if (is.numeric(e2) && length(e2) == 1L && is.finite(e2) && e2 == floor(e2) && abs(e2) <= 64) {
    return(if (a$cplx) complex_power(a, as.integer(e2)) else whole_power(a, as.integer(e2)))
  }
  if (a$cplx || b$cplx) return(complex_exp(complex_binary("*", complex_log(as_complex_node(a)), b, call)))
  if (is.numeric(e2) && identical(as.vector(e2), 0.5)) return(unary("Sqrt", a, call))
  call_node("Powf", a, b, call = call)
}

whole_power <- function(a, n) {
  if (n == 2L) return(op_node("Square", list(a), a$dim))
  op_node("Pow", list(a), a$dim, ints = paste0(",", n))
}

# ---- functions of one entry ----

math_words <- c(
  abs = "Abs", sign = "Sign", sqrt = "Sqrt", floor = "Floor", ceiling = "Ceil", trunc = "Trunc", exp = "Exp",
  expm1 = "Expm1", log1p = "Log1p", log2 = "Log2", log10 = "Log10", cos = "Cos", sin = "Sin", tan = "Tan",
  acos = "Acos", asin = "Asin", atan = "Atan", cosh = "Cosh", sinh = "Sinh", tanh = "Tanh", acosh = "Acosh",
  asinh = "Asinh", atanh = "Atanh", lgamma = "Lgamma", digamma = "Digamma"
)

#' @rdname lazy_ops
#' @export
Math.keops_lazytensor <- function(x, ...) {
  lazy_math(.Generic, x, list(...), generic_call(.Generic, sys.call()))
}

lazy_math <- function(name, x, more, call) {
  new_lazy(math_node(name, lazy_node(x, call), more, call), .subset2(x, "ranges"))
}

math_node <- function(name, node, more, call) {
  if (node$cplx) return(complex_math(name, node, more, call))
  if (name == "log") return(log_node(node, more, call))
  if (name == "round") return(round_node(node, more, call))
  if (length(more) > 0L && name != "trunc") stop_input("unused argument", describe(more[[1L]]), "no further arguments", call)
  if (name == "sign") { # the word's is 0 for NaN
    missing <- infix_node("-", infix_node("!=", node, node), constant_node("0.5"))
    return(call_node("IfElse", missing, node, unary_node("Sign", node)))
  }
  word <- math_words[name]
  if (!is.na(word)) return(unary_node(word[[1L]], node))
  pi_times <- function() infix_node("*", constant_node(format(pi, digits = 17L)), node)
  switch(name,
    cospi = unary("Cos", pi_times(), call),
    sinpi = unary("Sin", pi_times(), call),
    tanpi = unary("Tan", pi_times(), call),
    trigamma = call_node("Polygamma", node, constant_node("1")),
    stop_unavailable(paste0(name, "()"), paste0(paste(names(math_words), collapse = ", "),
                     ", log, round, trigamma, cospi, sinpi, tanpi; or ", name, "(as.matrix(K)) for a small K"), call)
  )
}

stop_unavailable <- function(what, instead, call) {
  stop_input(what, "a lazy matrix, for which it is not available", instead, call)
}

log_node <- function(node, more, call) {
  if (length(more) == 0L) return(op_node("Log", list(node), node$dim))
  base <- more[[1L]]
  if (is_lazy(base)) return(infix_node("/", op_node("Log", list(node), node$dim), log_node(lazy_node(base), list(), call)))
  if (!is.numeric(base) || length(base) != 1L) stop_input("`base`", describe(base), "one number", call)
  infix_node("/", op_node("Log", list(node), node$dim), leaf_node(log(base), 2L, given = FALSE))
}

# R's round(): a half goes to the even digit. The language has halves away from zero only.
round_node <- function(node, more, call) {
  digits <- if (length(more) > 0L) more[[1L]] else 0
  if (!is.numeric(digits) || length(digits) != 1L || !is.finite(digits)) {
    stop_input("`digits`", describe(digits), "one whole number", call)
  }
  if (digits < -308) return(times_node(node, constant_node("0")))
  given <- node
  scale <- if (digits != 0) leaf_node(10^min(digits, 308), 2L, given = FALSE)
  if (!is.null(scale)) node <- times_node(node, scale)
  nearest <- function(a) op_node("RoundHalfAway", list(a), a$dim)
  two <- constant_node("2")
  fraction <- op_node("Abs", list(infix_node("-", node, op_node("Trunc", list(node), node$dim))), node$dim)
  tie <- infix_node("-", call_node("Equal", fraction, constant_node("0.5")), constant_node("1"))
  out <- call_node("IfElse", tie, times_node(two, nearest(infix_node("/", node, two))), nearest(node))
  if (is.null(scale)) return(out)
  # numbers without fraction there, or too large for it, stay as they are
  whole <- infix_node("-", op_node("Abs", list(node), node$dim), constant_node("4503599627370496"))
  call_node("IfElse", whole, given, infix_node("/", out, scale))
}

#' @export
is.na.keops_lazytensor <- function(x) {
  node <- lazy_node(x, sys.call())
  new_lazy(infix_node("!=", node, node, "logical"), .subset2(x, "ranges"))
}

#' @export
is.nan.keops_lazytensor <- is.na.keops_lazytensor

#' @export
is.finite.keops_lazytensor <- function(x) against_infinity("<", x, sys.call())

#' @export
is.infinite.keops_lazytensor <- function(x) against_infinity("==", x, sys.call())

against_infinity <- function(op, x, call) {
  node <- lazy_node(x, call)
  size <- op_node("Abs", list(real_only(node, "is.finite", call)), node$dim)
  new_lazy(infix_node(op, size, leaf_node(Inf, 2L, given = FALSE), "logical"), .subset2(x, "ranges"))
}

#' @export
anyNA.keops_lazytensor <- function(x, recursive = FALSE) any(is.na(x))

#' @rdname lazy_ops
#' @param y A lazy matrix or numbers.
#' @export
setMethod("atan2", signature("keops_lazytensor", "ANY"), function(y, x) lazy_call("Atan2", list(y, x), sys.call()))
#' @rdname lazy_ops
#' @export
setMethod("atan2", signature("ANY", "keops_lazytensor"), function(y, x) lazy_call("Atan2", list(y, x), sys.call()))
#' @rdname lazy_ops
#' @export
setMethod("atan2", signature("keops_lazytensor", "keops_lazytensor"), function(y, x) {
  lazy_call("Atan2", list(y, x), sys.call())
})

#' @rdname lazy_ops
#' @param test A comparison of lazy matrices.
#' @param yes,no Lazy matrices or numbers.
#' @export
setMethod("ifelse", "keops_lazytensor", function(test, yes, no) {
  call <- sys.call()
  node <- lazy_node(test, call)
  if (node$flag != "logical") {
    stop_input("`test`", "a lazy matrix of numbers", "a comparison: K != 0 (as R tests numbers), or K >= 0 (as KeOps does)",
               call)
  }
  yes <- operand_node(yes, call)
  no <- operand_node(no, call)
  # the word tests >= 0
  new_lazy(call_node("IfElse", infix_node("-", node, constant_node("0.5")), real_only(yes, "ifelse", call),
                     real_only(no, "ifelse", call), call = call), .subset2(test, "ranges"))
})

# ---- complex numbers ----

as_complex_node <- function(node) {
  if (node$cplx) node else op_node("Real2Complex", list(node), 2L * node$dim, cplx = TRUE)
}

complex_dim <- function(a, b, word, call) 2L * common_dim(a$dim %/% 2L, b$dim %/% 2L, word, call)

complex_binary <- function(op, a, b, call) {
  if (op == "*" && !(a$cplx && b$cplx)) { # a real factor of one component scales
    real <- if (a$cplx) b else a
    other <- if (a$cplx) a else b
    if (real$dim == 1L) return(op_node("ComplexRealScal", list(real, other), other$dim, cplx = TRUE, call = call))
  }
  if (op == "/" && !b$cplx) return(complex_binary("*", a, op_node("Inv", list(b), b$dim), call))
  a <- as_complex_node(a)
  b <- as_complex_node(b)
  word <- switch(op, "+" = "ComplexAdd", "-" = "ComplexSubtract", "*" = "ComplexMult", "/" = "ComplexDivide")
  if (op %in% c("==", "!=")) {
    same <- call_node("And", infix_node("==", complex_part("Real", a), complex_part("Real", b)),
                      infix_node("==", complex_part("Imag", a), complex_part("Imag", b)), flag = "logical", call = call)
    return(if (op == "==") same else op_node("Not", list(same), same$dim, flag = "logical"))
  }
  if (is.null(word)) real_only(a, op, call)
  op_node(word, list(a, b), complex_dim(a, b, op, call), cplx = TRUE, call = call)
}

complex_part <- function(part, node) op_node(paste0("Complex", part), list(node), node$dim %/% 2L)
complex_exp <- function(node) op_node("ComplexExp", list(node), node$dim, cplx = TRUE)
complex_log <- function(node) {
  complex_binary("+", op_node("Real2Complex", list(op_node("Log", list(complex_part("Abs", node)), node$dim %/% 2L)),
                              node$dim, cplx = TRUE),
                 op_node("Imag2Complex", list(complex_part("Angle", node)), node$dim, cplx = TRUE), NULL)
}

complex_power <- function(node, n) {
  if (n == 0L) return(as_complex_node(op_node("Pow", list(complex_part("Real", node)), node$dim %/% 2L, ints = ",0")))
  if (n < 0L) return(complex_binary("/", leaf_node(1, 2L, given = FALSE), complex_power(node, -n), NULL))
  if (n == 1L) return(node)
  half <- complex_power(node, n %/% 2L)
  square <- complex_binary("*", half, half, NULL)
  if (n %% 2L == 0L) square else complex_binary("*", square, node, NULL)
}

complex_math <- function(name, node, more, call) {
  switch(name,
    exp = complex_exp(node),
    log = if (length(more) == 0L) complex_log(node) else {
      complex_binary("/", complex_log(node), operand_node(log(more[[1L]]), call), call)
    },
    sqrt = complex_exp(complex_binary("*", constant_node("0.5"), complex_log(node), call)),
    abs = complex_part("Abs", node),
    real_only(node, name, call)
  )
}

#' @rdname lazy_ops
#' @export
Complex.keops_lazytensor <- function(z) {
  node <- lazy_node(z, sys.call())
  out <- if (node$cplx) {
    switch(.Generic,
      Re = complex_part("Real", node), Im = complex_part("Imag", node), Mod = complex_part("Abs", node),
      Arg = complex_part("Angle", node), Conj = op_node("Conj", list(node), node$dim, cplx = TRUE)
    )
  } else {
    switch(.Generic,
      Re = , Conj = node,
      Im = times_node(constant_node("0"), node),
      Mod = op_node("Abs", list(node), node$dim),
      Arg = times_node(constant_node(format(pi, digits = 17L)), infix_node("<", node, constant_node("0")))
    )
  }
  new_lazy(out, .subset2(z, "ranges"))
}

# ---- words beyond R's ----

# A call of any operands, element by element.
lazy_call <- function(word, operands, call) {
  nodes <- lapply(operands, function(x) real_only(operand_node(x, call), word, call))
  new_lazy(do.call(call_node, c(word, nodes, list(call = call))), ranges_of(operands, call))
}

ranges_of <- function(operands, call) {
  out <- NULL
  for (x in operands) out <- common_ranges(list_ranges(out), x, call)
  out
}

list_ranges <- function(ranges) if (!is.null(ranges)) new_lazy(NULL, ranges)

# A word of given dimension; numbers alone are left to base R's function.
lazy_word <- function(x, word, plain = NULL, dim = NULL, ints = "", call = sys.call(-1L)) {
  if (!is.null(plain) && !is_lazy(x)) return(plain(x))
  node <- real_only(operand_node(x, call), word, call)
  new_lazy(op_node(word, list(node), if (is.null(dim)) node$dim else dim, ints = ints), if (is_lazy(x)) .subset2(x, "ranges"))
}

lazy_word2 <- function(x, y, word, dim, call = sys.call(-1L)) {
  a <- real_only(operand_node(x, call), word, call)
  b <- real_only(operand_node(y, call), word, call)
  new_lazy(op_node(word, list(a, b), dim(a, b), call = call), common_ranges(x, y, call))
}

#' Words of KeOps for the entries of lazy matrices
#'
#' Functions beyond those of base R that take lazy matrices (or numbers, which become parameters) and give lazy
#' matrices. Positions count from 1.
#'
#' @param x,y,z,s,m,v,a,b Lazy matrices, or numbers. `s` has one component (a factor), as many as `x` (a factor for each) or
#'   their square (a symmetric matrix, row by row). `m` of `matvecmult()` holds a matrix row by row;
#'   of `elem()`, `elemT()`, `keops_extract()` and `extractT()` it is the (first) position, from 1.
#' @param D Number of components of the result, of classes for `one_hot()`.
#' @param n,d Numbers of components: of the result of `elemT()` and `extractT()`, taken by `keops_extract()`.
#'
#' @details
#' \describe{
#'   \item{One entry}{`square`, `rsqrt` (1 / sqrt(x), 0 at 0), `inv`, `xlogx` (0 at 0), `sinxdivx` (1 at 0), `relu`, `keops_step` (0 below 0, else 1),
#'     `keops_clamp(x, a, b)`, `clampint`, `keops_pmin`, `keops_pmax`, `mod` as R's `%%`. Of numbers alone, they are the numbers.}
#'   \item{All components}{`sqnorm2`, `norm2`, `normalize` (0 stays 0), `sqdist(x, y)` (squared Euclidean distance),
#'     `weightedsqnorm(x, s)`, `weightedsqdist(x, y, s)`, and `x | y`, the dot product: see [lazy_ops]. Sum, minimum and maximum of the
#'     components are `sum(x, "inner")`, `min(x, "inner")`, ...: see [lazy_reductions].}
#'   \item{Components}{`elem(x, m)`, `elemT(x, m, n)` (zeros but for x in place m of n), `keops_extract(x, m, d)`, `extractT(x, m, d)` (zeros but for x from place m on, d in all),
#'     `concat(x, y)`, `one_hot(x, D)` (1 in place x of D; all 0 if x is none of 1 to D).}
#'   \item{Matrices and tensors}{`matvecmult(m, v)`, `vecmatmult(v, m)`, `tensorprod(x, y)`.}
#'   \item{Complex}{`real2complex`, `imag2complex`, `exp1j` (cos x + i sin x).}
#'   \item{Anything else}{`keops_word("Kron", x, y, "[2,2]", "[3,1]")`: any word of the language, see [keops_formula], with text for
#'     its whole numbers, which count from 0.}
#' }
#' @return A lazy matrix.
#' @examples
#' x <- matrix(rnorm(20), 10, 2)
#' y <- matrix(rnorm(14), 7, 2)
#' rowSums(sqdist(Vi(x), Vj(y)))
#' # a table looked up by integer codes
#' M <- matrix(1:6, 2, 3)
#' a <- c(1, 2, 2)
#' b <- c(3, 1)
#' L <- vecmatmult(one_hot(Vi(a), 2), Pm(M)) | one_hot(Vj(b), 3)
#' as.matrix(L)
#' M[a, b]
#' @name lazy_words
NULL

#' @rdname lazy_words
#' @export
square <- function(x) lazy_word(x, "Square", function(x) x^2)
#' @rdname lazy_words
#' @export
rsqrt <- function(x) lazy_word(x, "Rsqrt", function(x) ifelse(x == 0, 0, 1 / sqrt(x)))
#' @rdname lazy_words
#' @export
inv <- function(x) lazy_word(x, "Inv", function(x) 1 / x)
#' @rdname lazy_words
#' @export
xlogx <- function(x) lazy_word(x, "XLogX", function(x) ifelse(x == 0, 0, x * log(x)))
#' @rdname lazy_words
#' @export
sinxdivx <- function(x) lazy_word(x, "SinXDivX", function(x) ifelse(x == 0, 1, sin(x) / x))
#' @rdname lazy_words
#' @export
relu <- function(x) lazy_word(x, "ReLU", function(x) ifelse(x < 0, 0, x))
#' @rdname lazy_words
#' @export
keops_step <- function(x) lazy_word(x, "Step", function(x) ifelse(x < 0, 0, 1))

#' @rdname lazy_words
#' @export
keops_clamp <- function(x, a, b) {
  if (!is_lazy(x) && !is_lazy(a) && !is_lazy(b)) return(ifelse(x < a, a, ifelse(x > b, b, x)))
  lazy_call("Clamp", list(x, a, b), sys.call())
}
#' @rdname lazy_words
#' @export
clampint <- function(x, y, z) keops_clamp(x, y, z)
#' @rdname lazy_words
#' @export
keops_pmin <- function(x, y) {
  if (is_lazy(x) || is_lazy(y)) lazy_call("Minimum", list(x, y), sys.call()) else pmin(x, y)
}
#' @rdname lazy_words
#' @export
keops_pmax <- function(x, y) {
  if (is_lazy(x) || is_lazy(y)) lazy_call("Maximum", list(x, y), sys.call()) else pmax(x, y)
}

#' @rdname lazy_words
#' @export
sqnorm2 <- function(x) {
  if (is_lazy(x) && lazy_node(x)$cplx) return(sum(Mod(x)^2, "inner"))
  lazy_word(x, "SqNorm2", dim = 1L)
}
#' @rdname lazy_words
#' @export
norm2 <- function(x) if (is_lazy(x) && lazy_node(x)$cplx) sqrt(sqnorm2(x)) else lazy_word(x, "Norm2", dim = 1L)
#' @rdname lazy_words
#' @export
normalize <- function(x) lazy_word(x, "Normalize")
#' @rdname lazy_words
#' @export
sqdist <- function(x, y) {
  call <- sys.call()
  a <- operand_node(x, call)
  b <- operand_node(y, call)
  if (a$cplx || b$cplx) return(sqnorm2(x - y))
  common_dim(a$dim, b$dim, "SqDist", call)
  new_lazy(op_node("SqDist", list(a, b), 1L, call = call), common_ranges(x, y, call))
}

check_weights <- function(s, x, word, call) {
  if (!s$dim %in% c(1L, x$dim, x$dim^2)) {
    stop_dimension(sprintf("%s: %d weights for %d components; %s are allowed", word_label(word), s$dim, x$dim,
                           paste(unique(c(1L, x$dim, x$dim^2)), collapse = " or ")), word, c(s$dim, x$dim), call)
  }
  1L
}
#' @rdname lazy_words
#' @export
weightedsqnorm <- function(x, s) {
  call <- sys.call()
  lazy_word2(s, x, "WeightedSqNorm", function(s, x) check_weights(s, x, "WeightedSqNorm", call), call)
}
#' @rdname lazy_words
#' @export
weightedsqdist <- function(x, y, s) {
  call <- sys.call()
  nodes <- lapply(list(x, y), function(v) real_only(operand_node(v, call), "WeightedSqDist", call))
  weightedsqnorm(new_lazy(infix_node("-", nodes[[1L]], nodes[[2L]], call = call), common_ranges(x, y, call)), s)
}

# Positions 1, 2, ... of n: a whole number in the text, from 0.
check_position <- function(m, n, arg, call) take_count(m, arg, call, high = n)

#' @rdname lazy_words
#' @export
elem <- function(x, m) {
  call <- sys.call()
  m <- check_position(m, operand_node(x, call)$dim, "m", call)
  lazy_word(x, "Elem", dim = 1L, ints = paste0(",", m - 1L), call = call)
}
#' @rdname lazy_words
#' @export
elemT <- function(x, m, n) {
  call <- sys.call()
  n <- check_position(n, .Machine$integer.max, "n", call)
  m <- check_position(m, n, "m", call)
  check_one_component(x, "ElemT", call)
  lazy_word(x, "ElemT", dim = n, ints = paste0(",", n, ",", m - 1L), call = call)
}
#' @rdname lazy_words
#' @export
keops_extract <- function(x, m, d) {
  call <- sys.call()
  n <- operand_node(x, call)$dim
  m <- check_position(m, n, "m", call)
  d <- check_position(d, n - m + 1L, "d", call)
  lazy_word(x, "Extract", dim = d, ints = paste0(",", m - 1L, ",", d), call = call)
}
#' @rdname lazy_words
#' @export
extractT <- function(x, m, d) {
  call <- sys.call()
  d <- check_position(d, .Machine$integer.max, "d", call)
  m <- check_position(m, d - operand_node(x, call)$dim + 1L, "m", call)
  lazy_word(x, "ExtractT", dim = d, ints = paste0(",", m - 1L, ",", d), call = call)
}
#' @rdname lazy_words
#' @export
concat <- function(x, y) {
  call <- sys.call()
  a <- operand_node(x, call)
  b <- operand_node(y, call)
  if (a$cplx || b$cplx) {
    a <- as_complex_node(a)
    b <- as_complex_node(b)
  }
  new_lazy(op_node("Concat", list(a, b), a$dim + b$dim, cplx = a$cplx, call = call), common_ranges(x, y, call))
}

check_one_component <- function(x, word, call) {
  d <- operand_node(x, call)$dim
  if (d != 1L) {
    stop_dimension(sprintf("%s: %d components; one is allowed", word_label(word), d), word, d, call)
  }
}
#' @rdname lazy_words
#' @export
one_hot <- function(x, D) {
  call <- sys.call()
  D <- check_position(D, .Machine$integer.max, "D", call)
  check_one_component(x, "OneHot", call)
  node <- infix_node("-", operand_node(x, call), constant_node("1"))
  new_lazy(op_node("OneHot", list(node), D, ints = paste0(",", D)), if (is_lazy(x)) .subset2(x, "ranges"))
}

matrix_quotient <- function(m, v, word, call) {
  if (m$dim %% v$dim != 0L) {
    stop_dimension(sprintf("%s: a matrix of %d components and a vector of %d; a multiple is needed", word_label(word),
                           m$dim, v$dim), word, c(m$dim, v$dim), call)
  }
  m$dim %/% v$dim
}
#' @rdname lazy_words
#' @export
matvecmult <- function(m, v) {
  call <- sys.call()
  lazy_word2(m, v, "MatVecMult", function(m, v) matrix_quotient(m, v, "MatVecMult", call), call)
}
#' @rdname lazy_words
#' @export
vecmatmult <- function(v, m) {
  call <- sys.call()
  lazy_word2(v, m, "VecMatMult", function(v, m) matrix_quotient(m, v, "VecMatMult", call), call)
}
#' @rdname lazy_words
#' @export
tensorprod <- function(x, y) lazy_word2(x, y, "TensorProd", function(x, y) x$dim * y$dim, sys.call())

#' @rdname lazy_words
#' @export
real2complex <- function(x) lazy_to_complex(x, "Real2Complex", sys.call())
#' @rdname lazy_words
#' @export
imag2complex <- function(x) lazy_to_complex(x, "Imag2Complex", sys.call())
#' @rdname lazy_words
#' @export
exp1j <- function(x) lazy_to_complex(x, "ComplexExp1j", sys.call())

lazy_to_complex <- function(x, word, call) {
  node <- real_only(operand_node(x, call), word, call)
  new_lazy(op_node(word, list(node), 2L * node$dim, cplx = TRUE), if (is_lazy(x)) .subset2(x, "ranges"))
}

#' @rdname lazy_words
#' @param word Name of an operation of the formula language.
#' @param ... Its operands: lazy matrices and numbers, then its whole numbers as text.
#' @export
keops_word <- function(word, ...) {
  call <- sys.call()
  word <- check_text(word, "`word`", call)
  given <- list(...)
  text <- vapply(given, is.character, NA)
  if (is.unsorted(text)) stop_input("keops_word()", "text before an operand", "operands first, then text", call)
  nodes <- lapply(given[!text], operand_node, call = call)
  node <- op_node(word, nodes, 1L, ints = paste0(",", unlist(given[text]), collapse = ""), call = call)
  if (!any(text)) node$ints <- ""
  flat <- lazy_flat(list(node))
  node$dim <- engine_formula(paste0("Sum_Reduction(", flat$text, ",1)"), flat$declared, call)$info$out_dim
  new_lazy(node, ranges_of(given[!text], call))
}
