# Dense answers in base R, from the text of a formula.
#
# ref_run() reads the same text as keops_kernel(), but with R's own parser, and computes every pair.
# A value is an array [m, n, d]: m rows of i (or 1: the same for all i), n rows of j (or 1), d components.
# R's parser differs from the language in one place: its `|` is looser than comparisons. So a formula
# that is to be compared writes `(a | b)` with its parentheses.
# Gradients are central differences of the dense answer, extrapolated (Richardson): no rule of
# differentiation is written here.

# ---- operations: one line each ----

# Elementwise ones take arrays of one shape. The others, marked by vec(), take arrays [m, n, d] of the same
# m and n, then `ints` numbers or lists of numbers; operands `same` have the same d too, one of d = 1 repeated.
vec <- function(f, ints = 0, same = integer()) structure(f, ints = ints, same = same, vector = TRUE)

none <- function(a) 0 * seq_along(a)
where <- function(test, yes, no) {
  out <- no
  k <- which(test)
  out[k] <- yes[k]
  out
}
one_if <- function(test) where(test, 1 + none(test), none(test))
quiet <- suppressWarnings

# C's pow(): R's own ^ but for a zero with a sign and for infinite values.
c_pow <- function(x, y) {
  out <- quiet(x^y)
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

# psigamma() and besselK() but for what R has no value for
poly_gamma <- function(x, n) {
  whole <- !is.na(n) & is.finite(n) & n >= 0 & n == floor(n)
  at_zero <- !is.na(x) & x == 0 & whole & n %% 2 == 0
  out <- quiet(psigamma(x, where(whole, n, none(n))))
  out[which(!whole)] <- NaN
  out[which(at_zero)] <- -1 / x[which(at_zero)]
  out[which(whole & x == -Inf)] <- NaN
  out
}

bessel_k <- function(x, nu) {
  ok <- !is.na(x) & is.finite(nu)
  out <- quiet(besselK(where(ok, x, 1 + none(x)), where(ok, abs(nu), none(nu))))
  out[which(x == Inf)] <- 0
  out[!ok] <- NaN
  out
}

# (-2)^m times the m-th derivative of the Matern function of s^2
matern <- function(x, nu, m) {
  ok <- !is.na(x) & x >= 0 & is.finite(nu) & nu > 0 & is.finite(m) & m >= 0
  x <- where(ok, x, 1 + none(x))
  nu <- where(ok, nu, 1 + none(nu))
  p <- nu - where(ok, m, none(m))
  s <- sqrt(x)
  out <- 2^(1 - nu) / gamma(nu) * s^p * bessel_k(s, p)
  out[which(x == Inf)] <- 0
  at <- which(x == 0)
  out[at] <- where(p > 0, quiet(gamma(p)) / gamma(nu) / 2^(nu - p), none(p))[at]
  out[!ok] <- NaN
  out
}

round_away <- function(a) sign(a) * floor(abs(a) + 0.5)

components <- function(f) lapply(seq_len(dim(f)[3]), function(k) f[, , k, drop = FALSE])
sum_components <- function(f) array(rowSums(f, dims = 2), c(dim(f)[1:2], 1))
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
times <- function(s, v) apply_op("Mult", list(s, v))
plus <- function(a, b) apply_op("Add", list(a, b))
ref_sqdist <- function(x, y) sum_components((x - y)^2)

# s has 1, d or d^2 components (row-major), f has d.
weighted_sqnorm <- function(s, f) {
  d <- dim(f)[3]
  if (dim(s)[3] == 1) return(s * sum_components(f^2))
  if (dim(s)[3] == d) return(sum_components(s * f^2))
  sum_components(times(f, tensor_dot(s, f, c(d, d), d, 1, 0)))
}

# Row-major tensors of extents df, dg; axes cf of f meet axes cg of g (counted from 0); kept axis k goes to
# place perm[k].
tensor_dot <- function(f, g, df, dg, cf, cg, perm = NULL) {
  keep_f <- setdiff(seq_along(df) - 1, cf)
  keep_g <- setdiff(seq_along(dg) - 1, cg)
  extents <- c(df[keep_f + 1], dg[keep_g + 1])
  if (is.null(perm)) perm <- seq_along(extents) - 1
  place <- order(perm)
  row_major <- function(at, extents) sum(at * rev(cumprod(c(1, rev(extents)))[seq_along(extents)]))
  out <- zeros_like(f, prod(extents))
  at_f <- as.matrix(expand.grid(lapply(df, function(n) seq_len(n) - 1)))
  at_g <- as.matrix(expand.grid(lapply(dg, function(n) seq_len(n) - 1)))
  for (a in seq_len(nrow(at_f))) for (b in seq_len(nrow(at_g))) {
    if (any(at_f[a, cf + 1] != at_g[b, cg + 1])) next
    at <- c(at_f[a, keep_f + 1], at_g[b, keep_g + 1])
    k <- row_major(at[place], extents[place]) + 1
    out[, , k] <- out[, , k, drop = FALSE] +
      f[, , row_major(at_f[a, ], df) + 1, drop = FALSE] * g[, , row_major(at_g[b, ], dg) + 1, drop = FALSE]
  }
  out
}

kron <- function(f, g, df, dg) {
  r <- length(df)
  tensor_dot(f, g, df, dg, numeric(), numeric(), c(2 * seq_len(r) - 2, 2 * seq_len(r) - 1))
}

# B-splines of degree k on the knots t, at one place
bspline <- function(t, x, k) {
  n <- length(t) - 1
  b <- as.numeric(t[-(n + 1)] <= x & x < t[-1])
  ratio <- function(a, b) if (b == 0) 0 else a / b
  for (degree in seq_len(k)) {
    b <- vapply(seq_len(n - degree), function(l) {
      ratio(x - t[l], t[l + degree] - t[l]) * b[l] +
        ratio(t[l + degree + 1] - x, t[l + degree + 1] - t[l + 1]) * b[l + 1]
    }, 0)
  }
  b
}

soft_dtw <- function(f, g, h) {
  cost <- outer(f, g, "-")^2
  r <- cost
  for (k in seq_along(f)) for (l in seq_along(g)) {
    if (k > 1 && l > 1) {
      a <- c(r[k - 1, l - 1], r[k - 1, l], r[k, l - 1])
      r[k, l] <- cost[k, l] + min(a) - h * log(sum(exp((min(a) - a) / h)))
    } else if (k > 1) {
      r[k, l] <- cost[k, l] + r[k - 1, l]
    } else if (l > 1) {
      r[k, l] <- cost[k, l] + r[k, l - 1]
    }
  }
  r[length(f), length(g)]
}

# fun of the components of several operands at each pair
each_pair <- function(fun, ...) {
  operands <- list(...)
  size <- dim(operands[[1]])[1:2]
  out <- NULL
  for (i in seq_len(size[1])) for (j in seq_len(size[2])) {
    v <- do.call(fun, lapply(operands, function(f) f[i, j, ]))
    if (is.null(out)) out <- array(0, c(size, length(v)))
    out[i, j, ] <- v
  }
  out
}

# Complex vectors are interleaved: re, im, re, im, ...
to_complex <- function(f) {
  re <- seq(1, dim(f)[3], 2)
  array(complex(real = f[, , re], imaginary = f[, , re + 1]), c(dim(f)[1:2], length(re)))
}
to_real <- function(z) {
  d <- dim(z)
  array(c(Re(z), Im(z)), c(d[1:2], 2 * d[3]))[, , rep(seq_len(d[3]), each = 2) + c(0, d[3]), drop = FALSE]
}
one_complex <- function(fun) function(f) to_real(fun(to_complex(f)))
two_complex <- function(fun) {
  function(f, g) {
    z <- align(list(to_complex(f), to_complex(g)))
    to_real(fun(z[[1]], z[[2]]))
  }
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
  Sqrt        = function(a) quiet(sqrt(a)),
  Rsqrt       = function(a) where(a == 0, none(a), quiet(1 / sqrt(a))),
  Exp         = function(a) exp(a),
  Exp2        = function(a) 2^a,
  Log         = function(a) quiet(log(a)),
  Sin         = function(a) quiet(sin(a)),
  Cos         = function(a) quiet(cos(a)),
  Abs         = function(a) abs(a),
  Sign        = function(a) where(is.nan(a), none(a), sign(a)),
  Step        = function(a) 1 - one_if(a < 0),
  ReLU        = function(a) where(a < 0, none(a), a),
  Equal       = function(a, b) one_if(a == b),
  NotEqual    = function(a, b) 1 - one_if(a == b),
  LessThan    = function(a, b) one_if(a < b),
  LessOrEqual = function(a, b) one_if(a <= b),
  IfElse      = function(a, b, c) where(a >= 0, b, c),
  XLogX       = function(a) where(a == 0, none(a), quiet(a * log(a))),
  SinXDivX    = function(a) where(a == 0, 1 + none(a), quiet(sin(a) / a)),
  Tan         = function(a) quiet(tan(a)),
  Asin        = function(a) quiet(asin(a)),
  Acos        = function(a) quiet(acos(a)),
  Atan        = function(a) atan(a),
  Atan2       = function(a, b) atan2(a, b),
  Sinh        = function(a) sinh(a),
  Cosh        = function(a) cosh(a),
  Tanh        = function(a) tanh(a),
  Asinh       = function(a) asinh(a),
  Acosh       = function(a) quiet(acosh(a)),
  Atanh       = function(a) quiet(atanh(a)),
  Log1p       = function(a) quiet(log1p(a)),
  Expm1       = function(a) expm1(a),
  Log2        = function(a) quiet(log2(a)),
  Log10       = function(a) quiet(log10(a)),
  Hypot       = function(a, b) where(is.infinite(a) | is.infinite(b), Inf + none(a), sqrt(a^2 + b^2)),
  Erf         = function(a) sign(a) * pgamma(a^2, 0.5),
  Erfc        = function(a) 2 * pnorm(a * sqrt(2), lower.tail = FALSE),
  Lgamma      = function(a) lgamma(a),
  Digamma     = function(a) poly_gamma(a, none(a)),
  Polygamma   = function(a, b) poly_gamma(a, b),
  BesselK     = function(a, b) bessel_k(a, b),
  Matern      = function(a, b, c) matern(a, b, c),
  Sigmoid     = function(a) plogis(a),
  Softplus    = function(a) pmax(0, a) + log1p(exp(-abs(a))),
  Floor       = function(a) floor(a),
  Ceil        = function(a) ceiling(a),
  Trunc       = function(a) trunc(a),
  RoundHalfAway = function(a) round_away(a),
  Maximum     = function(a, b) pmax(a, b),
  Minimum     = function(a, b) pmin(a, b),
  Mod         = function(a, b, c) a - b * floor((a - c) / b),
  Clamp       = function(a, b, c) where(a < b, b, where(a > c, c, a)),
  And         = function(a, b) 1 - one_if(a == 0 | b == 0),
  Or          = function(a, b) 1 - one_if(a == 0 & b == 0),
  Not         = function(a) one_if(a == 0),
  ExpSub      = function(a, b) where(a == -Inf | b == -Inf, none(a), exp(a - b)),
  NormCdf     = function(a) pnorm(a),

  Sum         = vec(function(f) sum_components(f)),
  SumT        = vec(function(f, d) f[, , rep(1, d), drop = FALSE], 1),
  Concat      = vec(function(f, g) bind_components(f, g)),
  Elem        = vec(function(f, m) f[, , m + 1, drop = FALSE], 1),
  ElemT       = vec(function(f, n, m) put_components(f, m, n), 2),
  Extract     = vec(function(f, start, d) f[, , start + seq_len(d), drop = FALSE], 2),
  ExtractT    = vec(function(f, start, d) put_components(f, start, d), 2),
  Pow         = vec(function(f, n) c_pow(f, n + none(f)), 1),
  Scalprod    = vec(function(f, g) sum_components(f * g), same = 1:2),
  SqNorm2     = vec(function(f) sum_components(f^2)),
  Norm2       = vec(function(f) sqrt(sum_components(f^2))),
  Normalize   = vec(function(f) times(f, ref_ops$Rsqrt(sum_components(f^2)))),
  SqDist      = vec(function(f, g) ref_sqdist(f, g), same = 1:2),
  SqNormIso   = vec(function(s, f) s * sum_components(f^2)),
  SqNormDiag  = vec(function(s, f) sum_components(s * f^2)),
  SymSqNorm   = vec(function(s, f) weighted_sqnorm(s, f)),
  WeightedSqNorm = vec(function(s, f) weighted_sqnorm(s, f)),
  WeightedSqDist = vec(function(s, f, g) weighted_sqnorm(s, f - g), same = 2:3),
  Round       = vec(function(f, d) round_away(f * 10^d) / 10^d, 1),
  ClampInt    = vec(function(f, a, b) where(f < a, a + none(f), where(f > b, b + none(f), f)), 2),
  DiffClampInt = vec(function(f, a, b) array(1 - one_if(f < a | f > b), dim(f)), 2),
  Factorize   = vec(function(f, g) f),
  AutoFactorize = vec(function(f) f),
  OneHot      = vec(function(f, d) each_pair(function(v) as.numeric(seq_len(d) - 1 == trunc(v + 0.5)), f), 1),
  Max         = vec(function(f) each_pair(max, f)),
  Min         = vec(function(f) each_pair(min, f)),
  ArgMax      = vec(function(f) each_pair(which.max, f) - 1),
  ArgMin      = vec(function(f) each_pair(which.min, f) - 1),
  MatVecMult  = vec(function(f, g) tensor_dot(f, g, c(dim(f)[3] / dim(g)[3], dim(g)[3]), dim(g)[3], 1, 0)),
  VecMatMult  = vec(function(f, g) tensor_dot(f, g, dim(f)[3], c(dim(f)[3], dim(g)[3] / dim(f)[3]), 0, 0)),
  TensorProd  = vec(function(f, g) each_pair(function(a, b) c(outer(b, a)), f, g)),
  DifferenceMatrix = vec(function(f, g) each_pair(function(a, b) -c(outer(b, a, "-")), f, g)),
  TensorDot   = vec(function(f, g, df, dg, cf, cg, perm = NULL) tensor_dot(f, g, df, dg, cf, cg, perm), 5),
  Kron        = vec(function(f, g, df, dg) kron(f, g, df, dg), 2),
  BSpline     = vec(function(t, x, k) each_pair(function(t, x) bspline(t, x, k), t, x), 1),
  SoftDTW_SqDist = vec(function(f, g, h) each_pair(soft_dtw, f, g, h)),

  Real2Complex   = vec(function(f) to_real(f + 0i)),
  Imag2Complex   = vec(function(f) to_real(f * 1i)),
  ComplexReal    = vec(function(f) Re(to_complex(f))),
  ComplexImag    = vec(function(f) Im(to_complex(f))),
  Conj           = vec(one_complex(function(z) Conj(z))),
  ComplexSquareAbs = vec(function(f) Mod(to_complex(f))^2),
  ComplexAbs     = vec(function(f) Mod(to_complex(f))),
  ComplexAngle   = vec(function(f) Arg(to_complex(f))),
  ComplexSum     = vec(function(f) to_real(Reduce(`+`, components(to_complex(f))))),
  ComplexSumT    = vec(function(f, d) f[, , rep(1:2, d / 2), drop = FALSE], 1),
  ComplexAdd     = vec(two_complex(function(a, b) a + b)),
  ComplexSubtract = vec(two_complex(function(a, b) a - b)),
  ComplexMult    = vec(two_complex(function(a, b) a * b)),
  ComplexScal    = vec(two_complex(function(a, b) a * b)),
  ComplexDivide  = vec(two_complex(function(a, b) a / b)),
  ComplexRealScal = vec(function(f, g) times(f, g)),
  ComplexExp     = vec(one_complex(function(z) exp(z))),
  ComplexExp1j   = vec(function(f) to_real(exp(1i * f))),

  GaussKernel    = vec(function(g, x, y, b) times(exp(-g * ref_sqdist(x, y)), b), same = 2:3),
  LaplaceKernel  = vec(function(g, x, y, b) times(exp(-sqrt(g * ref_sqdist(x, y))), b), same = 2:3),
  Matern12Kernel = vec(function(g, x, y, b) times(exp(-sqrt(g * ref_sqdist(x, y))), b), same = 2:3),
  Matern32Kernel = vec(function(g, x, y, b) {
    u <- sqrt(3 * g * ref_sqdist(x, y))
    times((1 + u) * exp(-u), b)
  }, same = 2:3),
  Matern52Kernel = vec(function(g, x, y, b) {
    u <- sqrt(5 * g * ref_sqdist(x, y))
    times((1 + u + u^2 / 3) * exp(-u), b)
  }, same = 2:3),
  MaternKernel   = vec(function(g, nu, x, y, b) {
    r2 <- 2 * nu * g * ref_sqdist(x, y)
    times(array(matern(r2, c(nu) + none(r2), none(r2)), dim(r2)), b)
  }, same = 3:4),
  CauchyKernel   = vec(function(g, x, y, b) times(1 / (1 + g * ref_sqdist(x, y)), b), same = 2:3),
  InverseMultiquadricKernel = vec(function(g, x, y, b) times(1 / sqrt(1 + g * ref_sqdist(x, y)), b), same = 2:3),
  RationalQuadraticKernel   = vec(function(g, a, x, y, b) times((1 + g * ref_sqdist(x, y) / (2 * a))^-a, b), same = 3:4),
  EnergyKernel   = vec(function(x, y, b) times(-sqrt(ref_sqdist(x, y)), b), same = 1:2),
  ThinPlateKernel = vec(function(x, y, b) times(ref_ops$XLogX(ref_sqdist(x, y)) / 2, b), same = 1:2),
  PeriodicKernel = vec(function(g, p, x, y, b) {
    times(exp(-2 * times(g, sum_components(sin(pi * times(x - y, 1 / p))^2))), b)
  }, same = 3:4)
)

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
  Sum     = function(v) sum(v),
  Min     = function(v) lowest(v),
  Max     = function(v) highest(v),
  ArgMin  = function(v) if (lowest(v) == -Inf) which(v == -Inf)[1] else arg_first(v, lowest),
  ArgMax  = function(v) if (highest(v) == Inf) which(v == Inf)[1] else arg_first(v, highest),
  KMin    = function(v, k) c(sort(v), rep(Inf, k))[seq_len(k)],
  ArgKMin = function(v, k) c(order(v)[seq_len(sum(v < Inf, na.rm = TRUE))], rep(NA, k))[seq_len(k)]
)
# values and indices of one item list
ref_pairs <- list(Min_ArgMin = c("Min", "ArgMin"), Max_ArgMax = c("Max", "ArgMax"), KMin_ArgKMin = c("KMin", "ArgKMin"))
# of scores f and a matrix of weights g, one row an item
exponentials <- function(f, top = highest(f)) if (is.infinite(top)) as.numeric(f == top) * (top > 0) else exp(f - top)
ref_weighted <- list(
  LogSumExp = function(f, g) {
    if (anyNA(f)) return(NaN * g[1, ])
    highest(f) + quiet(log(colSums(exponentials(f) * g)))
  },
  LogSumExpWeight = function(f, g) ref_weighted$LogSumExp(f, g),
  SumSoftMaxWeight = function(f, g) colSums(exponentials(f) * g) / sum(exponentials(f)),
  SoftMax = function(f, g) ref_weighted$SumSoftMaxWeight(f, g),
  Max_SumShiftExp = function(f, g) c(highest(f), colSums(exponentials(f) * g)),
  Max_SumShiftExpWeight = function(f, g) ref_weighted$Max_SumShiftExp(f, g)
)
# as engine_reductions() says it
ref_reduction_names <- c(names(ref_reductions), names(ref_pairs), names(ref_weighted), "Zero")
ref_no_weights <- c("LogSumExp", "Max_SumShiftExp")
ref_counted <- c("KMin", "ArgKMin", "KMin_ArgKMin")

# ---- evaluation ----

# "x=Vi(3)", "Vj(2,1)", ... -> list(name, category, dim) in the order of the arguments; read once
ref_known_args <- new.env()
ref_args <- function(args) {
  key <- paste(c("", args), collapse = ";")
  if (is.null(ref_known_args[[key]])) ref_known_args[[key]] <- read_args(args)
  ref_known_args[[key]]
}

read_args <- function(args) {
  pattern <- "^\\s*(?:([A-Za-z_.][A-Za-z0-9_.]*)\\s*=)?\\s*(Vi|Vj|Vx|Vy|Pm)\\(([0-9, ]+)\\)\\s*$"
  m <- regmatches(args, regexec(pattern, args))
  if (any(lengths(m) == 0)) stop("ref_args: cannot read ", args[lengths(m) == 0][1])
  numbers <- lapply(m, function(k) as.integer(strsplit(k[4], ",")[[1]]))
  place <- order(mapply(function(k, pos) if (length(k) == 2) k[1] + 1L else pos, numbers, seq_along(numbers)))
  list(
    name = vapply(m, `[`, "", 2)[place],
    category = (match(chartr("xy", "ij", vapply(m, `[`, "", 3)), c("Vi", "Vj", "Pm")) - 1)[place],
    dim = vapply(numbers, function(k) k[length(k)], 0L)[place]
  )
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
  if (all(d == size)) return(v)
  at <- lapply(1:3, function(k) if (d[k] == size[k]) seq_len(size[k]) else rep(1, size[k]))
  v[at[[1]], at[[2]], at[[3]], drop = FALSE]
}

# Same m and n for all; for those in `same`, same d too.
align <- function(values, same = seq_along(values)) {
  d <- vapply(values, dim, integer(3))
  shared <- function(d) if (all(d == 1)) 1L else d[d != 1][1]
  to <- d
  to[1, ] <- shared(d[1, ])
  to[2, ] <- shared(d[2, ])
  if (length(same) > 0) to[3, same] <- shared(d[3, same])
  for (k in which(colSums(d != to) > 0)) values[[k]] <- stretch(values[[k]], to[, k])
  values
}

# Words that take more than values: operands are expressions still.
single_value <- function(v) array(v, c(1, 1, length(v)))
ref_words <- list(
  Var    = function(operands, ctx) ctx$data[[operands[[1]] + 1]],
  IntCst = function(operands, ctx) single_value(eval(operands[[1]])),
  RatCst = function(operands, ctx) single_value(eval(operands[[1]]) / eval(operands[[2]])),
  IntInv = function(operands, ctx) single_value(1 / eval(operands[[1]])),
  Zero   = function(operands, ctx) single_value(rep(0, operands[[1]])),
  Grad   = function(operands, ctx) ref_grad(operands, ctx),
  AdjointOperator = function(operands, ctx) ref_grad(operands, ctx),
  Diff   = function(operands, ctx) {
    ref_along(operands[[1]], operands[[2]], ref_eval(operands[[3]], ctx), ctx)
  },
  GradMatrix = function(operands, ctx) {
    j <- ref_jacobian(operands, ctx)
    pick <- expand.grid(v = seq_along(j), f = seq_len(dim(j[[1]])[3]))
    Reduce(bind_components, Map(function(v, f) j[[v]][, , f, drop = FALSE], pick$v, pick$f))
  },
  Divergence = function(operands, ctx) ref_trace(ref_jacobian(operands, ctx)),
  TraceOperator = function(operands, ctx) ref_trace(ref_jacobian(operands, ctx)),
  Laplacian = function(operands, ctx) {
    k <- ref_variable(operands[[2]], ctx)
    second <- lapply(seq_len(dim(ctx$data[[k]])[3]), function(component) {
      ref_slope(function(h) {
        ctx$data[[k]][, , component] <- ctx$data[[k]][, , component] + h
        ref_jacobian(operands, ctx)[[component]]
      })
    })
    Reduce(`+`, second)
  }
)

# A value in the context of arguments and data.
ref_eval <- function(e, ctx) {
  if (is.numeric(e)) return(single_value(e))
  if (is.name(e)) {
    k <- match(as.character(e), ctx$info$name)
    if (is.na(k)) stop("reference: unknown name ", as.character(e))
    return(ctx$data[[k]])
  }
  name <- as.character(e[[1]])
  operands <- as.list(e[-1])
  if (name == "(" || (name == "+" && length(operands) == 1)) return(ref_eval(operands[[1]], ctx))
  if (name == "-" && length(operands) == 1) name <- "Minus"
  if (name == "^") name <- "Powf"
  if (name %in% c(">", ">=")) operands <- rev(operands)
  if (name %in% names(infix)) name <- infix[[name]]
  if (!is.null(ref_words[[name]])) return(ref_words[[name]](operands, ctx))
  if (endsWith(name, "_Reduction")) return(ref_reduce(sub("_Reduction$", "", name), operands, ctx))
  op <- ref_ops[[name]]
  if (is.null(op)) stop("reference: no operation ", name)
  n <- length(operands)
  if (!is.null(attr(op, "vector"))) n <- length(formals(op)) - attr(op, "ints")
  apply_op(name, lapply(operands[seq_len(n)], ref_eval, ctx), lapply(operands[-seq_len(n)], eval))
}

apply_op <- function(name, values, numbers = list()) {
  op <- ref_ops[[name]]
  if (is.null(attr(op, "vector"))) {
    values <- align(values)
    return(array(do.call(op, unname(values)), dim(values[[1]])))
  }
  do.call(op, c(unname(align(values, attr(op, "same"))), unname(numbers)))
}

ref_reduce <- function(kind, operands, ctx) {
  axis <- operands[[length(operands)]]
  if (kind == "Zero") return(array(0, c(if (axis == 1) c(ctx$M, 1) else c(1, ctx$N), operands[[1]])))
  f <- ref_eval(operands[[1]], ctx)
  size <- c(ctx$M, ctx$N, dim(f)[3])
  if (is_reduced(operands[[1]])) size[2 - axis] <- dim(f)[2 - axis] # rows of a reduced formula are its own
  f <- stretch(f, size)
  if (kind %in% names(ref_weighted)) {
    g <- if (length(operands) == 3) ref_eval(operands[[2]], ctx) else single_value(1)
    return(ref_reduce_weighted(kind, f, g, axis, size))
  }
  kinds <- if (kind %in% names(ref_pairs)) ref_pairs[[kind]] else kind
  k <- if (kind %in% ref_counted) operands[[2]]
  Reduce(bind_components, lapply(kinds, ref_reduce_plain, f, axis, k))
}

# Each component for itself: the k values of each, the first of all components first.
ref_reduce_plain <- function(kind, f, axis, k) {
  keep <- if (axis == 1) c(1, 3) else c(2, 3)
  size <- dim(f)[keep]
  out <- numeric(0)
  if (kind == "Sum") {
    out <- colSums(aperm(f, c(if (axis == 1) 2 else 1, keep)))
  } else if (prod(size) > 0) {
    out <- apply(f, keep, function(v) as.numeric(do.call(ref_reductions[[kind]], c(list(v), k))))
    if (!is.null(k)) out <- aperm(array(out, c(k, size)), c(2, 3, 1))
  }
  width <- size[2] * max(k, 1)
  array(out, if (axis == 1) c(size[1], 1, width) else c(1, size[1], width))
}

ref_reduce_weighted <- function(kind, f, g, axis, size) {
  g <- stretch(g, c(size[1:2], dim(g)[3]))
  rows <- size[2 - axis]
  width <- dim(g)[3] + startsWith(kind, "Max_SumShiftExp")
  out <- vapply(seq_len(rows), function(row) {
    items <- if (axis == 1) list(f[row, , ], g[row, , ]) else list(f[, row, ], g[, row, ])
    as.numeric(ref_weighted[[kind]](items[[1]], matrix(items[[2]], ncol = dim(g)[3])))
  }, numeric(width))
  array(t(matrix(out, width)), if (axis == 1) c(rows, 1, width) else c(1, rows, width))
}

is_reduced <- function(e) any(endsWith(all.names(e), "_Reduction"))

# Central differences with steps h, h/2, h/4 and two extrapolations: error of order h^6.
ref_step <- 1e-3
ref_slope <- function(f) {
  d <- lapply(ref_step / c(1, 2, 4), function(h) (f(h) - f(-h)) / (2 * h))
  a <- (4 * d[[2]] - d[[1]]) / 3
  b <- (4 * d[[3]] - d[[2]]) / 3
  (16 * b - a) / 15
}

ref_variable <- function(v, ctx) if (is.name(v)) match(as.character(v), ctx$info$name) else v[[2]] + 1

# F with the variable v moved along u, at every pair
ref_along <- function(f, v, u, ctx) {
  k <- ref_variable(v, ctx)
  at <- ctx$data[[k]]
  ref_slope(function(h) {
    ctx$data[[k]] <- plus(at, h * u)
    ref_eval(f, ctx)
  })
}

# dF / dv_l for each component l of v: a list of arrays with the components of F
ref_jacobian <- function(operands, ctx) {
  d <- dim(ctx$data[[ref_variable(operands[[2]], ctx)]])[3]
  lapply(seq_len(d), function(l) {
    ref_along(operands[[1]], operands[[2]], single_value(as.numeric(seq_len(d) == l)), ctx)
  })
}

# of a scalar F the sum of its row
ref_trace <- function(j) {
  Reduce(`+`, lapply(seq_along(j), function(l) j[[l]][, , min(l, dim(j[[l]])[3]), drop = FALSE]))
}

# Grad(F, v, g): of a reduction, the gradient of sum(g * F), shaped like v. Of a formula of pairs, the
# same for each pair.
ref_grad <- function(operands, ctx) {
  f <- operands[[1]]
  g <- ref_eval(operands[[3]], ctx)
  if (!is_reduced(f)) {
    return(Reduce(bind_components, lapply(ref_jacobian(operands, ctx), function(j) sum_components(times(j, g)))))
  }
  k <- ref_variable(operands[[2]], ctx)
  out <- at <- ctx$data[[k]]
  for (entry in seq_along(at)) {
    out[entry] <- ref_slope(function(h) {
      at[entry] <- at[entry] + h
      ctx$data[[k]] <- at
      sum(times(ref_eval(f, ctx), g))
    })
  }
  out
}

# Lists of numbers are written [2,3] or Ind(2,3). Texts are parsed once.
ref_parsed <- new.env()
ref_parse <- function(text) {
  if (is.null(ref_parsed[[text]])) {
    r_text <- gsub("]", ")", gsub("[", "c(", gsub("Ind(", "c(", text, fixed = TRUE), fixed = TRUE), fixed = TRUE)
    ref_parsed[[text]] <- parse(text = r_text, keep.source = FALSE)[[1]]
  }
  ref_parsed[[text]]
}

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
    paste0("  [", place[, 1], ", ", if (is.null(colnames(reference))) place[, 2] else colnames(reference)[place[, 2]],
           "] ", format(actual[shown], digits = 15), " is not ",
           format(reference[shown], digits = 15), collapse = "\n")
  ))
}
