# An expression of a (indexed i) and b (indexed j), once with lazy and once with dense matrices.
dense_pair <- function(x, y) {
  list(a = matrix(x, length(x), length(y)), b = matrix(y, length(x), length(y), byrow = TRUE))
}

expect_same_entries <- function(f, x, y, tolerance = 1e-12) {
  dense <- dense_pair(x, y)
  expected <- f(dense$a, dense$b)
  lazy <- f(Vi(x), Vj(y))
  expect_true(is.LazyTensor(lazy))
  label <- paste(deparse(body(f)), collapse = " ")
  expect_equal(dim(lazy), dim(expected), label = paste("dim of", label))
  expect_equal(as.matrix(lazy), expected + 0, tolerance = tolerance, label = label)
  expect_equal(as.vector(sum(lazy, "j")), rowSums(expected + 0), tolerance = tolerance, label = paste("row sums of", label))
}

test_that("operators have R's meaning and precedence", {
  x <- c(1, 2, -0.75)
  y <- c(3, 5, -2, 0.5)
  for (f in list(
    function(a, b) -(a - b)^2, function(a, b) -a^2 + 0 * b, function(a, b) 1 - a * b, function(a, b) a - (b - 1),
    function(a, b) a / (b / 2), function(a, b) 2^(-a) * b, function(a, b) (a + b) * a^2 / b, function(a, b) a - b - 1 - a,
    function(a, b) a / b / 2 * b, function(a, b) a %% b, function(a, b) b %/% a, function(a, b) +a - -b, function(a, b) 2 - (a - b) - (1 - a),
    function(a, b) (a * b)^3, function(a, b) (a * b)^2.0, function(a, b) (a + b)^-1, function(a, b) (a + b)^0, function(a, b) 1 / (a * b)
  )) expect_same_entries(f, x, y)
  expect_equal(as.vector(sum(-(Vi(c(1, 2)) - Vj(c(3, 5)))^2, "j")), c(-20, -10))
})

test_that("whole powers of negative numbers are exact, others NaN as in R", {
  x <- c(-2, 3)
  y <- c(1, 2)
  p <- 2
  expect_equal(rowSums((Vi(x) * Vj(y))^2), c(20, 45))
  expect_equal(rowSums((Vi(x) * Vj(y))^3), c(-72, 243))
  expect_equal(rowSums((Vi(x) * Vj(y))^p), c(20, 45))
  expect_equal(rowSums((Vi(x) * Vj(y))^2.5), c(NaN, sum((3 * y)^2.5)))
  expect_equal(as.matrix(Vi(0)^-0.5 * Vj(1)), matrix(Inf))
})

test_that("L05: comparisons count and combine", {
  x <- c(0, 1, 2, 4)
  y <- c(0, 1, 2, 4, NaN)
  near <- abs(Vi(x) - Vj(x)) <= 1.5
  expect_identical(rowSums(near), c(2, 3, 2, 1))
  for (f in list(
    function(a, b) a < b, function(a, b) a <= b, function(a, b) a > b, function(a, b) a >= b, function(a, b) a == b, function(a, b) a != b,
    function(a, b) (a < b) & (a > 0), function(a, b) (a < b) | (a == 4), function(a, b) !(a < b), function(a, b) 1 < a * b,
    function(a, b) xor(a < b, a == 2), function(a, b) ifelse(a < b, a, 10), function(a, b) ifelse(!(a < b) & a != 1, b, -a)
  )) expect_same_entries(f, x, y[1:4])
  expect_identical(as.matrix(Vi(x) < Vj(y))[, 5], rep(0, 4))
  expect_identical(rowSums(is.na(Vi(x) * Vj(y))), rep(1, 4))
  expect_identical(any(near), TRUE)
  expect_identical(all(near), FALSE)
  expect_identical(as.vector(any(Vi(x) > Vj(x), "j")), x > 0)
  expect_error(ifelse(Vi(x), 1, 2), class = "keops_error_input", regexp = "K != 0.*K >= 0")
})

test_that("`|` is the dot product of numbers, and refuses a mixture", {
  x <- matrix(c(1, 2, 3, 4), 2)
  y <- matrix(c(1, -1, 0.5, 2, 5, 3), 3)
  expect_equal(as.matrix(Vi(x) | Vj(y)), x %*% t(y))
  expect_equal(as.matrix(Vi(x) - Vj(y) | Vj(y)), x %*% t(y) - matrix(rowSums(y^2), 2, 3, byrow = TRUE))
  expect_error((Vi(1:2) < 1) | Vi(1:2), class = "keops_error_input")
})

test_that("functions of R are R's, entry by entry", {
  one <- c(0.1, 0.35, 0.9)
  two <- c(0.5, 0.8, 1)
  for (name in c("abs", "sign", "sqrt", "floor", "ceiling", "trunc", "exp", "expm1", "log1p", "log2", "log10", "log", "cos", "sin", "tan",
                 "cospi", "sinpi", "acos", "asin", "atan", "cosh", "sinh", "tanh", "asinh", "atanh", "lgamma", "digamma", "trigamma")) {
    f <- eval(call("function", as.pairlist(alist(a = , b = )), call(name, quote(a * b))))
    expect_same_entries(f, one, two[1:2])
  }
  expect_same_entries(function(a, b) acosh(1 + a * b), one, two)
  expect_same_entries(function(a, b) log(a * b, 3), one, two)
  expect_same_entries(function(a, b) log(a * b, base = 2), one, two)
  expect_same_entries(function(a, b) atan2(a, b), c(-1, 0, 2), c(-3, 0.5))
  expect_same_entries(function(a, b) atan2(a, 2) + 0 * b, c(-1, 0, 2), c(-3, 0.5))
  expect_same_entries(function(a, b) trunc(-3 * a * b), one, two)
})

test_that("round() takes halves to the even digit", {
  halves <- c(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 0.49, 2.51, 1e15 + 0.5)
  expect_same_entries(function(a, b) round(a * b), halves, 1)
  expect_same_entries(function(a, b) round(a * b, 2), c(3.14159, -2.71828), c(1, 100))
  expect_same_entries(function(a, b) round(a * b, digits = -2), c(314.159, -2718), c(1, 10))
})

test_that("functions that are not available say which are", {
  K <- Vi(1:3) * Vj(1:2)
  for (f in list(cumsum, gamma, cumprod)) expect_error(f(K), class = "keops_error_input", regexp = "not available")
  expect_error(exp(1) + signif(K), class = "keops_error_input")
})

test_that("numbers mix in as parameters and make no new formula", {
  x <- matrix(c(0.3, 0.7, 1.9), 3)
  before <- keops:::session$keys
  for (s in c(0.5, 1, 2, 7L)) {
    K <- exp(-sqdist(Vi(x), Vj(x)) / (2 * s^2))
    expect_equal(K %*% c(1, 2, 3), exp(-as.matrix(dist(x))^2 / (2 * s^2)) %*% c(1, 2, 3), ignore_attr = TRUE)
  }
  expect_length(setdiff(keops:::session$keys, before), 1L)
})

test_that("a new length scale, and new data, cost no new compile", {
  skip_without_compiler()
  product <- function(s, x) as.vector(exp(-sqdist(Vi(x), Vj(x)) / (3 * s^2)) %*% c(1, 2, 3))
  x <- matrix(c(0.3, 0.7, 1.9), 3)
  with_options(list(keops.backend = "compiled"), {
    product(0.5, x)
    before <- keops_cache_info()
    for (s in c(1, 1.5, 7L)) for (y in list(x, 2 * x)) {
      expect_equal(product(s, y), as.vector(exp(-as.matrix(dist(y))^2 / (3 * s^2)) %*% c(1, 2, 3)))
    }
    expect_identical(keops_cache_info()[c("hits", "compiles")], before[c("hits", "compiles")])
  })
})

test_that("equal data are one argument, also where they are different objects", {
  x <- matrix(c(0.3, 0.7, 1.9), 3)
  flat <- keops:::lazy_flat(list(keops:::lazy_node(Vi(x) * Vj(x) + Vi(x + 0) - Vj(x))))
  expect_identical(flat$declared, c("x0=Vi(1)", "y1=Vj(1)"))
  p <- Pm(2)
  flat <- keops:::lazy_flat(list(keops:::lazy_node(Vi(x) * p + p + 2)))
  expect_identical(flat$declared, c("x0=Vi(1)", "p1=Pm(1)", "p2=Pm(1)"))
})

test_that("long sums and deep expressions are read", {
  K <- Vi(1:3)
  for (k in 1:400) K <- K + Vj(1:2)
  expect_equal(as.matrix(K), outer(1:3, 400 * (1:2), "+"))
})

test_that("vectors and parameters meet components, and nothing is recycled in part", {
  x <- matrix(1:6, 3, 2)
  expect_equal(as.vector(sum(Vj(x) + Pm(c(10, 20)), "j")), c(36, 75))
  expect_equal(as.vector(sum(Vj(x) + c(10, 20), "j")), c(36, 75))
  expect_equal(as.vector(sum(Vj(x) + Pm(matrix(c(10, 20), 1)), "j")), c(36, 75))
  expect_error(Vj(x) + c(1, 2, 3), class = "keops_error_input", regexp = "length 3.*2 of them")
  expect_error(Vj(x) + Pm(1:3), class = "keops_error_dimension", regexp = "2 and 3 components")
  expect_error(Vi(1:3) * Vj(1:3) * c(1, 2, 3), class = "keops_error_input", regexp = "Vi\\(v\\).*Vj\\(v\\).*Pm\\(v\\)")
  expect_equal(as.vector(sum(Pm(1:3) + Pm(10), "j")), c(11, 12, 13))
  expect_equal(as.vector(sum(Pm(1:3) / 10, "j")), c(0.1, 0.2, 0.3))
})

test_that("numbers of rows that differ are an error with both", {
  expect_error(Vi(1:3) + Vi(1:4), class = "keops_error_dimension", regexp = "3 and 4 rows as i")
  error <- tryCatch(Vi(1:3) * Vj(1:2) - Vj(1:5), keops_error_dimension = identity)
  expect_identical(error$dims, c(2L, 5L))
  expect_error(t(Vi(1:3)) + Vj(1:4), class = "keops_error_dimension")
})

test_that("L06: a dense matrix is refused by its size, and can be looked up by codes", {
  W <- matrix(c(0.1, 0.4, 0.2, 0.8, 0.5, 0.9, 0.3, 0.6, 0.7, 0.25, 0.15, 0.35), 3, 4)
  d2 <- sqdist(Vi(1:3), Vj(1:4))
  expect_error(W * exp(-d2), class = "keops_error_input", regexp = "dense 3 x 4 matrix.*one_hot")
  expect_error(exp(-d2) + W, class = "keops_error_input", regexp = "dense 3 x 4 matrix")
  lazy_w <- Vi(W) | one_hot(Vj(seq_len(4)), 4)
  expect_equal(rowSums(lazy_w * exp(-d2)), rowSums(W * exp(-outer(1:3, 1:4, "-")^2)))
  a <- c(1, 3, 3, 2)
  b <- c(4, 1)
  M <- vecmatmult(one_hot(Vi(a), 3), Pm(W)) | one_hot(Vj(b), 4)
  expect_equal(as.matrix(M), W[a, b])
})

test_that("words of KeOps do what they say, with positions from 1", {
  x <- matrix(c(1, -2, 3, 0, 5, 6), 2, 3)
  y <- matrix(c(0.5, 1, 2, -1, 4, 3), 2, 3)
  row_value <- function(K) sum(K, "j")
  by_row <- function(f) t(apply(x, 1, f))
  expect_equal(row_value(square(Vi(x))), x^2)
  expect_equal(row_value(inv(Vi(y))), 1 / y)
  expect_equal(row_value(rsqrt(Vi(c(0, 4)))), cbind(c(0, 0.5)))
  expect_equal(row_value(xlogx(Vi(c(0, 2)))), cbind(c(0, 2 * log(2))))
  expect_equal(row_value(sinxdivx(Vi(c(0, 2)))), cbind(c(1, sin(2) / 2)))
  expect_equal(row_value(relu(Vi(x))), pmax(x, 0))
  expect_equal(row_value(keops_step(Vi(x))), (x >= 0) + 0)
  expect_equal(row_value(keops_clamp(Vi(x), -1, 4)), pmin(pmax(x, -1), 4))
  expect_equal(row_value(keops_pmin(Vi(x), 1)), pmin(x, 1))
  expect_equal(row_value(keops_pmax(2, Vi(x))), pmax(x, 2))
  expect_equal(row_value(sqnorm2(Vi(x))), cbind(rowSums(x^2)))
  expect_equal(row_value(norm2(Vi(x))), cbind(sqrt(rowSums(x^2))))
  expect_equal(row_value(normalize(Vi(x))), x / sqrt(rowSums(x^2)))
  expect_equal(row_value(weightedsqnorm(Vi(x), c(1, 2, 3))), x^2 %*% 1:3)
  expect_equal(row_value(weightedsqnorm(Vi(x), 2)), cbind(2 * rowSums(x^2)))
  A <- matrix(c(2, 1, 0, 1, 3, 0.5, 0, 0.5, 1), 3)
  expect_equal(row_value(weightedsqdist(Vi(x), Pm(c(1, 1, 1)), Pm(A))), cbind(rowSums((x - 1) %*% A * (x - 1))))
  expect_equal(row_value(elem(Vi(x), 2)), x[, 2, drop = FALSE])
  expect_equal(row_value(elemT(Vi(1:2), 3, 4)), rbind(c(0, 0, 1, 0), c(0, 0, 2, 0)))
  expect_equal(row_value(keops_extract(Vi(x), 2, 2)), x[, 2:3])
  expect_equal(row_value(extractT(Vi(x), 2, 5)), cbind(0, x, 0))
  expect_equal(row_value(concat(Vi(x), Vi(y))), cbind(x, y))
  expect_equal(row_value(one_hot(Vi(c(1, 9, -2, 3)), 6)), rbind(diag(6)[1, ], 0, 0, diag(6)[3, ]))
  expect_equal(row_value(matvecmult(Pm(matrix(1:6, 2)), Vi(x))), x %*% t(matrix(1:6, 2)))
  expect_equal(row_value(vecmatmult(Vi(x), Pm(matrix(1:6, 3)))), x %*% matrix(1:6, 3))
  expect_equal(row_value(tensorprod(Vi(x), Vi(y))), t(sapply(1:2, function(i) as.vector(outer(y[i, ], x[i, ])))))
  expect_equal(row_value(keops_word("Erf", Vi(x))), 2 * pnorm(x * sqrt(2)) - 1)
  expect_equal(row_value(keops_word("Kron", Vi(x), Vi(y), "[3]", "[3]")), row_value(tensorprod(Vi(x), Vi(y))))
  expect_equal(keops_inner_dim(keops_word("Elem", Vi(x), "0")), 1L)
})

test_that("words of positions refuse those that are not there", {
  x <- Vi(matrix(1, 2, 3))
  expect_error(elem(x, 0), class = "keops_error_input", regexp = "1 to 3")
  expect_error(elem(x, 4), class = "keops_error_input")
  expect_error(keops_extract(x, 2, 3), class = "keops_error_input")
  expect_error(extractT(x, 3, 4), class = "keops_error_input")
  expect_error(one_hot(x, 3), class = "keops_error_dimension")
  expect_error(matvecmult(x, Pm(1:2)), class = "keops_error_dimension")
  expect_error(weightedsqnorm(x, 1:2), class = "keops_error_dimension")
})

test_that("words leave numbers alone to be numbers", {
  expect_identical(square(3), 9)
  expect_identical(inv(4), 0.25)
  expect_identical(relu(c(-1, 2)), c(0, 2))
  expect_identical(keops_clamp(c(-1, 0.5, 9), 0, 1), c(0, 0.5, 1))
  expect_identical(xlogx(0), 0)
})

test_that("complex entries follow R's complex arithmetic", {
  x <- complex(real = c(1, -2, 0.5), imaginary = c(0.5, 1, -3))
  y <- complex(real = c(2, 0.25), imaginary = c(-1, 1))
  for (f in list(
    function(a, b) a + b, function(a, b) a - b, function(a, b) a * b, function(a, b) a / b, function(a, b) -a * 2 + b, function(a, b) a * b + 1,
    function(a, b) exp(a * b), function(a, b) log(a * b), function(a, b) sqrt(a * b), function(a, b) Conj(a) * b, function(a, b) (a * b)^3,
    function(a, b) (a * b)^-2, function(a, b) a * (1 + 2i) - b / 2i, function(a, b) (a * b)^0.5, function(a, b) 2 / a + b
  )) expect_same_entries(f, x, y, 1e-10)
  for (f in list(function(a, b) Re(a * b), function(a, b) Im(a * b), function(a, b) Mod(a * b), function(a, b) Arg(a * b),
                 function(a, b) abs(a + b), function(a, b) a == b, function(a, b) a != b)) expect_same_entries(f, x, y, 1e-10)
  for (f in list(function(a, b) Re(a * b), function(a, b) Im(a * b), function(a, b) Mod(a * b), function(a, b) Arg(a * b), function(a, b) Conj(a + b))) {
    expect_same_entries(f, c(-1, 2), c(3, -0.5))
  }
  expect_equal(as.matrix(exp1j(Vi(1:3) * Vj(1:2))), exp(1i * outer(1:3, 1:2)))
  expect_equal(as.matrix(real2complex(Vi(1:3)) + imag2complex(Vj(1:2))), outer(1:3, 1i * (1:2), "+"))
  expect_equal(as.vector(sum(sum(Vi(cbind(x, x)), "inner"), "j")), 2 * x)
  expect_error(sin(Vi(x)), class = "keops_error_input", regexp = "complex")
  expect_error(Vi(x) < 1, class = "keops_error_input")
  expect_error(min(Vi(x), "j"), class = "keops_error_input")
})

test_that("base functions are untouched for ordinary objects", {
  expect_identical(ifelse(c(TRUE, FALSE), 1, 2), c(1, 2))
  expect_identical(diag(2), matrix(c(1, 0, 0, 1), 2))
  expect_identical(rowSums(matrix(1:4, 2)), c(4, 6))
  expect_identical(crossprod(1:2), matrix(5))
  expect_identical(atan2(1, 1), pi / 4)
  masked <- intersect(getNamespaceExports("keops"), c(ls(baseenv()), ls(asNamespace("stats")), getNamespaceExports("methods")))
  generics <- c("atan2", "ifelse", "rowSums", "colSums", "rowMeans", "colMeans", "diag", "crossprod", "tcrossprod", "%*%")
  expect_identical(setdiff(masked, generics), character())
})

test_that("sign, round and logical constants are R's at the edges", {
  x <- c(-2, 0, NaN, Inf, -Inf, 1e300, 0.125)
  expect_equal(as.vector(sum(sign(Vi(x)), "j")), sign(x))
  for (digits in c(2, 10, 20, 310, -310)) expect_equal(as.vector(sum(round(Vi(x[-(3:5)]), digits), "j")), round(x[-(3:5)], digits))
  expect_same_entries(function(a, b) xor(a < b, TRUE), c(1, 4), c(2, 3))
  expect_same_entries(function(a, b) (a < b) | FALSE, c(1, 4), c(2, 3))
})
