# Dense answers in base R, from the text of a formula.
#
# ref_run() reads the same text as keops_kernel(), but with R's own parser, and computes every pair.
# A value is an array [m, n, d]: m rows of i (or 1: the same for all i), n rows of j (or 1), d components.
# R's parser differs from the language in one place: its `|` is looser than comparisons. So a formula
# that is to be compared writes `(a | b)` with its parentheses.
# Gradients are central differences of the dense answer, extrapolated (Richardson): no rule of
# differentiation is written here.

# ---- operations: one line each ----

# Elementwise ones take arrays of one shape. The others, marked by vec(), take arrays [m, n, d] and then
# their integer parameters.
vec <- function(f) structure(f, vector = TRUE)

where <- function(test, yes, no) {
  out <- no
  k <- which(test)
  out[k] <- yes[k]
  out
}

# C's pow(): R's own ^ but for a zero with a sign and for infinite values.
c_pow <- function(x, y) {
  out <- suppressWarnings(x^y)
  odd <- is.finite(y) & y == floor(y) & y %% 2 == 1
  minus_zero <- !is.na(x) & x == 0 & 1 / x < 0
  out[which(minus_zero & y < 0 & odd)] <- -Inf
  out[which(!is.na(x) & x == -Inf & is.finite(y) & y > 0 & !odd)] <- Inf
  out[which(!is.na(x) & x == -Inf & is.finite(y) & y < 0)] <- 0
  big <- !is.na(x) & x < 0 & !is.na(y) & is.infinite(y)
  out[which(big & abs(x) == 1)] <- 1
  out[which(big & abs(x) != 1 & (abs(x) > 1) == (y > 0))] <- Inf
  out[which(big & abs(x) != 1 & (abs(x) > 1) != (y > 0))] <- 0
  out
}

sum_components <- function(f) {
  array(rowSums(f, dims = 2), c(dim(f)[1:2], 1))
}

bind_components <- function(f, g) {
  d <- dim(f)
  array(c(f, g), c(d[1:2], d[3] + dim(g)[3]))
}

zeros_like <- function(f, d) array(0, c(dim(f)[1:2], d))

put_components <- function(f, start, d) {
  out <- zeros_like(f, d)
  out[, , start + seq_len(dim(f)[3])] <- f
  out
}

ref_ops <- list(
  Add         = function(a, b) a + b,
  Subtract    = function(a, b) a - b,
  Mult        = function(a, b) a * b,
  Divide      = function(a, b) a / b,
  Minus       = function(a) -a,
  Inv         = function(a) 1 / a,
  Square      = function(a) a * a,
  Powf        = function(a, b) c_pow(a, b),
  Sqrt        = function(a) suppressWarnings(sqrt(a)),
  Rsqrt       = function(a) where(a == 0, 0 * a, suppressWarnings(1 / sqrt(a))),
  Exp         = function(a) exp(a),
  Exp2        = function(a) 2^a,
  Log         = function(a) suppressWarnings(log(a)),
  Sin         = function(a) suppressWarnings(sin(a)),
  Cos         = function(a) suppressWarnings(cos(a)),
  Abs         = function(a) abs(a),
  Sign        = function(a) where(is.nan(a), 0 * seq_along(a), sign(a)),
  Step        = function(a) where(a < 0, 0 * seq_along(a), 0 * seq_along(a) + 1),
  ReLU        = function(a) where(a < 0, 0 * seq_along(a), a),
  Equal       = function(a, b) where(a == b, 1 + 0 * seq_along(a), 0 * seq_along(a)),
  NotEqual    = function(a, b) where(a == b, 0 * seq_along(a), 1 + 0 * seq_along(a)),
  LessThan    = function(a, b) where(a < b, 1 + 0 * seq_along(a), 0 * seq_along(a)),
  LessOrEqual = function(a, b) where(a <= b, 1 + 0 * seq_along(a), 0 * seq_along(a)),
  IfElse      = function(a, b, c) where(a >= 0, b, c),
  ExpSub      = function(a, b) where(a == -Inf, 0 * seq_along(a), exp(a - b)),

  Sum         = vec(function(f) sum_components(f)),
  SumT        = vec(function(f, d) f[, , rep(1, d), drop = FALSE]),
  Concat      = vec(function(f, g) bind_components(f, g)),
  Elem        = vec(function(f, m) f[, , m + 1, drop = FALSE]),
  ElemT       = vec(function(f, n, m) put_components(f, m, n)),
  Extract     = vec(function(f, start, d) f[, , start + seq_len(d), drop = FALSE]),
  ExtractT    = vec(function(f, start, d) put_components(f, start, d)),
  Pow         = vec(function(f, n) c_pow(f, n + 0 * seq_along(f))),
  Scalprod    = vec(function(f, g) sum_components(ref_ops$Mult(f, g))),
  SqNorm2     = vec(function(f) sum_components(f^2)),
  Norm2       = vec(function(f) sqrt(sum_components(f^2))),
  Normalize   = vec(function(f) {
    size <- sqrt(sum_components(f^2))
    f * c(ifelse(size == 0, 0, 1 / size))
  }),
  SqDist      = vec(function(f, g) sum_components((f - g)^2)),
  SqNormIso   = vec(function(s, f) s[, , 1, drop = FALSE] * sum_components(f^2)),
  SqNormDiag  = vec(function(s, f) sum_components(s * f^2)),
  WeightedSqNorm = vec(function(s, f) weighted_sqnorm(s, f)),
  WeightedSqDist = vec(function(s, f, g) weighted_sqnorm(s, f - g))
)

# s has 1, d or d^2 components (row-major), f has d.
weighted_sqnorm <- function(s, f) {
  d <- dim(f)[3]
  if (dim(s)[3] == 1) return(s * sum_components(f^2))
  if (dim(s)[3] == d) return(sum_components(s * f^2))
  out <- zeros_like(f, 1)
  for (k in seq_len(d)) for (l in seq_len(d)) {
    out <- out + s[, , (k - 1) * d + l, drop = FALSE] * f[, , k, drop = FALSE] * f[, , l, drop = FALSE]
  }
  out
}

# Which operands of a vector operation share their components (a single one is repeated).
ref_same_dim <- list(Scalprod = 1:2, SqDist = 1:2, WeightedSqDist = 2:3)

infix <- c(`+` = "Add", `-` = "Subtract", `*` = "Mult", `/` = "Divide", `|` = "Scalprod", `<` = "LessThan",
           `<=` = "LessOrEqual", `==` = "Equal", `!=` = "NotEqual", `>` = "LessThan", `>=` = "LessOrEqual")

# ---- reductions: the items of one output component, in order ----

arg_first <- function(v, best) {
  best_value <- best(v, !is.na(v))
  k <- which(v == best_value)
  if (is.finite(best_value) && length(k) > 0) k[1] else NA_real_
}
lowest <- function(v, keep = !is.na(v)) min(Inf, v[keep])
highest <- function(v, keep = !is.na(v)) max(-Inf, v[keep])

ref_reductions <- list(
  Sum       = function(v) sum(v),
  Min       = function(v) lowest(v),
  Max       = function(v) highest(v),
  ArgMin    = function(v) if (lowest(v) == -Inf) which(v == -Inf)[1] else arg_first(v, lowest),
  ArgMax    = function(v) if (highest(v) == Inf) which(v == Inf)[1] else arg_first(v, highest),
  LogSumExp = function(v) {
    if (anyNA(v)) return(NaN)
    top <- highest(v)
    if (is.infinite(top)) top else top + log(sum(exp(v - top)))
  }
)
# values and indices of one item list
ref_pairs <- list(Min_ArgMin = c("Min", "ArgMin"), Max_ArgMax = c("Max", "ArgMax"))

# ---- evaluation ----

# "x=Vi(3)", "Vj(2,1)", ... -> data frame name, category, dim in the order of the arguments
ref_args <- function(args) {
  m <- regmatches(args, regexec("^\\s*(?:([A-Za-z_.][A-Za-z0-9_.]*)\\s*=)?\\s*(Vi|Vj|Vx|Vy|Pm)\\(([0-9, ]+)\\)\\s*$", args))
  if (any(lengths(m) == 0)) stop("ref_args: cannot read ", args[lengths(m) == 0][1])
  name <- vapply(m, `[`, "", 2)
  category <- match(chartr("xy", "ij", vapply(m, `[`, "", 3)), c("Vi", "Vj", "Pm")) - 1
  numbers <- lapply(m, function(k) as.integer(strsplit(k[4], ",")[[1]]))
  dim <- vapply(numbers, function(k) k[length(k)], 0L)
  place <- mapply(function(k, pos) if (length(k) == 2) k[1] + 1L else pos, numbers, seq_along(numbers))
  out <- data.frame(name, category, dim, stringsAsFactors = FALSE)
  out[order(place), , drop = FALSE]
}

# Data of the arguments as arrays [M, 1, d], [1, N, d], [1, 1, d].
ref_context <- function(args, data) {
  info <- ref_args(args)
  if (!is.null(names(data))) data <- data[info$name]
  data <- Map(function(v, category, d) {
    v <- as.matrix(v)
    if (category == 2) v <- matrix(v, 1)
    array(as.numeric(v), switch(category + 1, c(nrow(v), 1, d), c(1, nrow(v), d), c(1, 1, d)))
  }, data, info$category, info$dim)
  rows <- function(category) {
    k <- which(info$category == category)
    if (length(k) == 0) 1 else dim(data[[k[1]]])[category + 1]
  }
  list(info = info, data = data, M = rows(0), N = rows(1))
}

stretch <- function(v, size) {
  d <- dim(v)
  at <- lapply(1:3, function(k) if (d[k] == size[k]) seq_len(size[k]) else rep(1, size[k]))
  v[at[[1]], at[[2]], at[[3]], drop = FALSE]
}

# Same m and n for all; for those in `same`, same d too.
align <- function(values, same = seq_along(values)) {
  size <- function(k, of) {
    d <- vapply(values[of], function(v) dim(v)[k], 0L)
    if (any(d != 1)) d[d != 1][1] else 1L
  }
  all <- seq_along(values)
  m <- size(1, all)
  n <- size(2, all)
  d <- if (length(same)) size(3, same)
  Map(function(v, k) stretch(v, c(m, n, if (k %in% same) d else dim(v)[3])), values, all)
}

ref_eval <- function(e, ctx) {
  if (is.numeric(e)) return(array(e, c(1, 1, 1)))
  if (is.name(e)) {
    k <- match(as.character(e), ctx$info$name)
    if (is.na(k)) stop("reference: unknown name ", as.character(e))
    return(ctx$data[[k]])
  }
  name <- as.character(e[[1]])
  operands <- as.list(e[-1])
  if (name == "(" || (name == "+" && length(operands) == 1)) return(ref_eval(operands[[1]], ctx))
  if (name == "Var") return(ctx$data[[operands[[1]] + 1]])
  if (name == "IntCst") return(array(eval(operands[[1]]), c(1, 1, 1)))
  if (name == "RatCst") return(array(operands[[1]] / operands[[2]], c(1, 1, 1)))
  if (name == "IntInv") return(array(1 / operands[[1]], c(1, 1, 1)))
  if (name == "Zero") return(array(0, c(1, 1, operands[[1]])))
  if (name == "Grad") return(ref_grad(operands, ctx))
  if (grepl("_Reduction$", name)) return(ref_reduce(sub("_Reduction$", "", name), operands, ctx))
  if (name == "^") {
    return(apply_op("Powf", lapply(operands, ref_eval, ctx)))
  }
  if (name == "-" && length(operands) == 1) {
    return(apply_op("Minus", list(ref_eval(operands[[1]], ctx))))
  }
  if (name %in% c(">", ">=")) operands <- rev(operands)
  if (name %in% names(infix)) name <- infix[[name]]
  op <- ref_ops[[name]]
  if (is.null(op)) stop("reference: no operation ", name)
  numbers <- length(formals(op)) - sum(names(formals(op)) %in% c("m", "n", "d", "start"))
  if (is.null(attr(op, "vector"))) numbers <- length(operands)
  values <- lapply(operands[seq_len(numbers)], ref_eval, ctx)
  apply_op(name, values, lapply(operands[-seq_len(numbers)], eval))
}

apply_op <- function(name, values, numbers = list()) {
  op <- ref_ops[[name]]
  if (is.null(attr(op, "vector"))) {
    values <- align(values)
    out <- do.call(op, unname(values))
    return(array(out, dim(values[[1]])))
  }
  values <- align(values, ref_same_dim[[name]])
  do.call(op, c(unname(values), unname(numbers)))
}

ref_reduce <- function(kind, operands, ctx) {
  axis <- operands[[length(operands)]]
  f <- ref_eval(operands[[1]], ctx)
  size <- c(ctx$M, ctx$N, dim(f)[3])
  if (is_reduced(operands[[1]])) size[2 - axis] <- dim(f)[2 - axis] # rows of a reduced formula are its own
  f <- stretch(f, size)
  if (length(operands) == 3) return(weighted_logsumexp(f, ref_eval(operands[[2]], ctx), axis, ctx))
  kinds <- if (kind %in% names(ref_pairs)) ref_pairs[[kind]] else kind
  parts <- lapply(kinds, function(kind) {
    keep <- if (axis == 1) c(1, 3) else c(2, 3)
    size <- dim(f)[keep]
    out <- numeric(0)
    if (prod(size) > 0) out <- apply(f, keep, function(v) as.numeric(ref_reductions[[kind]](v)))
    array(out, if (axis == 1) c(size[1], 1, size[2]) else c(1, size[1], size[2]))
  })
  Reduce(bind_components, parts)
}

# log sum exp(f) g, for each component of g
weighted_logsumexp <- function(f, g, axis, ctx) {
  g <- stretch(g, c(ctx$M, ctx$N, dim(g)[3]))
  along <- function(v, fun) apply(v, if (axis == 1) c(1, 3) else c(2, 3), fun)
  top <- along(f, max)
  f <- f - if (axis == 1) array(top, c(ctx$M, ctx$N, 1)) else aperm(array(top, c(ctx$N, ctx$M, 1)), c(2, 1, 3))
  sums <- suppressWarnings(log(along(c(exp(f)) * g, sum)))
  array(c(top) + sums, if (axis == 1) c(ctx$M, 1, dim(g)[3]) else c(1, ctx$N, dim(g)[3]))
}

is_reduced <- function(e) {
  is.call(e) && (grepl("_Reduction$", as.character(e[[1]])) || any(vapply(as.list(e[-1]), is_reduced, NA)))
}

# Central differences with steps h, h/2, h/4 and two extrapolations: error of order h^6.
ref_step <- 1e-3
ref_slope <- function(f) {
  d <- lapply(ref_step / c(1, 2, 4), function(h) (f(h) - f(-h)) / (2 * h))
  a <- (4 * d[[2]] - d[[1]]) / 3
  b <- (4 * d[[3]] - d[[2]]) / 3
  (16 * b - a) / 15
}

# Grad(F, v, g): of a reduction, the gradient of sum(g * F), shaped like v. Of a formula of pairs, the
# same for each pair.
ref_grad <- function(operands, ctx) {
  f <- operands[[1]]
  v <- operands[[2]]
  k <- if (is.name(v)) match(as.character(v), ctx$info$name) else v[[2]] + 1
  g <- ref_eval(operands[[3]], ctx)
  value <- function(data) {
    ctx$data[[k]] <- data
    both <- align(list(ref_eval(f, ctx), g))
    both[[1]] * both[[2]]
  }
  at <- ctx$data[[k]]
  if (!is_reduced(f)) {
    parts <- lapply(seq_len(dim(at)[3]), function(component) {
      sum_components(ref_slope(function(h) {
        at[, , component] <- at[, , component] + h
        value(at)
      }))
    })
    return(Reduce(bind_components, parts))
  }
  out <- at
  for (entry in seq_along(at)) {
    out[entry] <- ref_slope(function(h) {
      at[entry] <- at[entry] + h
      sum(value(at))
    })
  }
  out
}

ref_parse <- function(text) parse(text = text, keep.source = FALSE)[[1]]

# The answer as the matrix that op(data) returns.
ref_run <- function(formula, args, data) {
  out <- ref_eval(ref_parse(formula), ref_context(args, data))
  d <- dim(out)
  matrix(out, max_rows(d), d[3])
}

# rows of a result with one side reduced to one row; no rows on the other side stays no rows
max_rows <- function(d) if (d[1] == 1) d[2] else d[1]

# ---- gradients of an operator ----

# sum(eta * op(data)) with the argument number k moved by h * direction
ref_moved <- function(formula, args, data, k, eta, direction) {
  function(h) {
    data[[k]] <- data[[k]] + h * direction
    sum(eta * ref_run(formula, args, data))
  }
}

ref_index <- function(args, var) match(var, ref_args(args)$name)

# All data as matrices; a parameter is one row.
ref_data <- function(args, data) {
  Map(function(v, category) if (category == 2) matrix(v, 1) else as.matrix(v), unname(data), ref_args(args)$category)
}

# Gradient of sum(eta * op(data)) in `var`, entry by entry, as keops_grad(op, var) returns it.
ref_gradient <- function(formula, args, data, var, eta) {
  k <- ref_index(args, var)
  data <- ref_data(args, data)
  out <- at <- data[[k]]
  for (entry in seq_along(at)) {
    direction <- 0 * at
    direction[entry] <- 1
    out[entry] <- ref_slope(ref_moved(formula, args, data, k, eta, direction))
  }
  out
}

# Slope of sum(eta2 * gradient in var) along `direction` in var2.
ref_second <- function(formula, args, data, var, eta, var2, eta2, direction) {
  k <- ref_index(args, var)
  k2 <- ref_index(args, var2)
  data <- ref_data(args, data)
  ref_slope(function(h2) {
    data[[k2]] <- data[[k2]] + h2 * direction
    ref_slope(ref_moved(formula, args, data, k, eta, eta2))
  })
}

# ---- comparing ----

tol <- function(precision, order = 0) {
  table <- list(double = c(1e-12, 1e-9, 1e-7), single = c(1e-5, 2e-5, 1e-4))
  table[[precision]][order + 1]
}

# `actual` is `reference` within `tolerance` times `scale`: the size of the terms that were added, a
# number or one a column; by default the largest entry of the column, at least 1. Infinite entries agree
# exactly; NaN and NA are one.
expect_close <- function(actual, reference, tolerance, scale = NULL, label = NULL) {
  label <- if (is.null(label)) deparse(substitute(actual))[1] else label
  if (!identical(dim(actual), dim(reference))) {
    return(expect_identical(dim(actual), dim(reference), label = paste("dim of", label)))
  }
  bad <- is.na(actual) != is.na(reference) | is.infinite(actual) != is.infinite(reference) |
    (is.infinite(reference) & actual != reference)
  bad[is.na(bad)] <- FALSE
  finite <- is.finite(actual) & is.finite(reference)
  if (is.null(scale)) {
    size <- abs(reference)
    size[!is.finite(size)] <- 0
    scale <- rep(pmax(1, apply(size, 2, max, 0)), each = nrow(reference))
  } else if (length(scale) > 1) {
    scale <- rep(scale, each = nrow(reference))
  }
  error <- abs(actual - reference) / scale
  bad <- bad | (finite & error > tolerance)
  if (!any(bad)) return(succeed())
  worst <- which(bad)
  shown <- worst[seq_len(min(3, length(worst)))]
  place <- arrayInd(shown, dim(reference))
  fail(paste0(
    label, ": ", length(worst), " of ", length(bad), " entries differ by more than ", format(tolerance), "\n",
    paste0("  [", place[, 1], ", ", place[, 2], "] ", format(actual[shown], digits = 15), " is not ",
           format(reference[shown], digits = 15), collapse = "\n")
  ))
}
