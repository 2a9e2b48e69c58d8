# sum over j with x of i and y of j, in each backend, against a value computed here
expect_formula <- function(text, answer, args = c("x=Vi(1)", "y=Vj(1)"), data = list(c(1, 2), c(3, 5)), ...) {
  each_backend(function(backend, precision) {
    out <- keops_kernel(sprintf("Sum_Reduction(%s,1)", text), args)(data)
    expect_close(out, as.matrix(answer), tol(precision), label = paste0(text, " (", backend, ", ", precision, ")"))
  }, ...)
}

test_that("E02: operators bind as in R", {
  x <- c(1, 2)
  y <- c(3, 5)
  for (text in c("-(x-y)^2", "-x^2", "1 - x*y", "x - (y - 1)", "x/(y/2)", "2^(-x)", "(x+y)*x^2/y")) {
    f <- eval(call("function", as.pairlist(alist(x = , y = )), parse(text = text)[[1]]))
    expect_formula(text, rowSums(outer(x, y, Vectorize(f))))
  }
  expect_equal(c(keops_kernel("Sum_Reduction(-(x-y)^2,1)", c("x=Vi(1)", "y=Vj(1)"))(list(x, y))), c(-20, -10))
})

test_that("operators bind and associate as the language says, in longer texts too", {
  texts <- c("x-y-1", "x-y+1", "x/y/2", "x*y/2*3", "x/y*2", "-x*y", "-x-y", "x--y", "x- -y^2", "2^-x", "2^x^0.5",
             "-2^2*x+y", "x**2", "x**2**0.5", "x<y-2", "x+1>=y-2", "x != y - 2", "(x|y)+1",
             "x+1.5e0*y", ".5*x+2.*y", "1e-3*x", "x - 2*(y - 3*(x - 4*y))", "x/(2*y)*3", "x^2*y^3", "(x^2)^3",
             "+x-+y", "1/x", "1/x/y", "1/2*x", "x*-y", "2*-x^2")
  for (text in texts) {
    f <- sprintf("Sum_Reduction(%s,1)", text)
    expect_dense(f, c("x=Vi(1)", "y=Vj(1)"), list(c(1, 2), c(3, 5)), backends = "interpreted", precisions = "double")
  }
  # `|` is looser than + and tighter than comparisons
  x <- rbind(c(1, 2), c(3, -1))
  y <- rbind(c(0, 1), c(2, 2), c(-1, 1))
  args <- c("x=Vi(2)", "y=Vj(2)")
  expect_formula("x-y|y", rowSums(outer(1:2, 1:3, Vectorize(function(i, j) sum((x[i, ] - y[j, ]) * y[j, ])))),
                 args, list(x, y), precisions = "double")
  expect_formula("x|y+x", rowSums(outer(1:2, 1:3, Vectorize(function(i, j) sum(x[i, ] * (y[j, ] + x[i, ]))))),
                 args, list(x, y), precisions = "double")
  expect_formula("x|y<2", rowSums(x %*% t(y) < 2), args, list(x, y), precisions = "double")
  expect_formula("2>x|y", rowSums(x %*% t(y) < 2), args, list(x, y), precisions = "double")
  expect_formula("x==y==1", rowSums(outer(1:2, c(1, 5), function(a, b) (a == b) == 1)), data = list(1:2, c(1, 5)),
                 precisions = "double")
})

test_that("E04: negative bases to whole powers", {
  x <- c(-2, 3)
  y <- c(1, 2)
  data <- list(x, y)
  expect_formula("(x*y)^2", c(20, 45), data = data)
  expect_formula("(x*y)^3", c(-72, 243), data = data)
  expect_formula("(x*y)^2.0", c(20, 45), data = data)
  expect_formula("(x*y)**3", c(-72, 243), data = data)
  expect_formula("Pow(x*y,3)", c(-72, 243), data = data)
  expect_formula("Square(x*y)", c(20, 45), data = data)
  expect_formula("(x*y)^-1", rowSums(1 / outer(x, y)), data = data)
  expect_formula("(x*y)^0", c(2, 2), data = data)
  expect_formula("(x*y)^p", c(20, 45), c("x=Vi(1)", "y=Vj(1)", "p=Pm(1)"), list(x, y, 2))
  expect_formula("(x*y)^p", c(-72, 243), c("x=Vi(1)", "y=Vj(1)", "p=Pm(1)"), list(x, y, 3))
  expect_formula("(x*y)^1.5", c(NaN, sum((3 * y)^1.5)), data = data)
  expect_formula("(x*y)^p", c(NaN, sum((3 * y)^1.5)), c("x=Vi(1)", "y=Vj(1)", "p=Pm(1)"), list(x, y, 1.5))
  expect_formula("(x*y)^0.5", c(NaN, sum(sqrt(3 * y))), data = data)
})

test_that("constants keep all digits of the working type", {
  x <- c(1, 2)
  expect_formula("x/3+0*y", 2 * x / 3)
  expect_formula("IntInv(3)*x*(y>0)", 2 * x / 3)
  expect_formula("RatCst(2,6)*x", 2 * x / 3)
  expect_formula("RatCst(1,3)+IntCst(1)-RatCst(1,3)*x", 2 * (4 / 3 - x / 3))
  expect_formula("IntCst(-2)*x", -4 * x)
  expect_formula("0.1*x*(y>0)", 0.2 * x)
  expect_formula("1/2*x", x)
  expect_formula("16777217*(x==1)", c(2 * 16777217, 0), precisions = "double")
  expect_formula("Zero(1)+x", 2 * x)
  expect_formula("Concat(Zero(2),x)", cbind(0, 0, 2 * x))
  expect_formula("0*Log(-x)", c(NaN, NaN))
  expect_formula("Exp(Log(x*y))", 8 * x)
})

test_that("names may hold letters, digits, points and underscores, and may be words of R or of the language", {
  for (name in c("lambda", "x1", "x_i", "a.b", "if", "T", "Exp", "Sum_Reduction", "pi")) {
    text <- sprintf("%s*y", name)
    expect_formula(text, 8 * c(1, 2), c(sprintf("%s=Vi(1)", name), "y=Vj(1)"), backends = "interpreted",
                   precisions = "double")
  }
})

test_that("spaces and line ends are free", {
  args <- c(" x = Vi( 1 ) ", "y=Vj(1)")
  op <- keops_kernel("  Sum_Reduction (\n Exp( - SqDist( x ,\ty ) ) ,\r\n 1 ) ", args)
  expect_equal(op(list(c(0, 1), 0)), cbind(exp(-c(0, 1)^2)))
})

test_that("arguments by position, with explicit places and without names", {
  x <- matrix(c(1, 2, 3, 4, 5, 6), 3)
  y <- matrix(c(2, 1, 0, 1), 2)
  answer <- x %*% t(y) %*% c(1, 10)
  texts <- list(
    list("Sum_Reduction((Var(0,2,0)|Var(1,2,1))*Var(2,1,1),1)", c("Vi(2)", "Vj(2)", "Vj(1)")),
    list("Sum_Reduction((Var(0,2,0)|Var(1,2,1))*Var(2,1,1),1)", c("Vi(0,2)", "Vj(1,2)", "Vj(2,1)")),
    list("Sum_Reduction((x|y)*Var(2,1,1),1)", c("x=Vi(0,2)", "y=Vj(1,2)", "b=Vj(2,1)")),
    list("Sum_Reduction((x|y)*b,1)", c("x=Vx(2)", "y=Vy(2)", "b=Vj(1)")),
    list("Sum_Reduction((Var(0,2,0)|Var(1,2,1))*Var(2,1,1),1)", character(0))
  )
  for (k in seq_along(texts)) {
    op <- keops_kernel(texts[[k]][[1]], texts[[k]][[2]])
    expect_equal(op(list(x, y, c(1, 10))), answer, label = paste("spelling", k))
  }
})

test_that("an argument that the formula does not use still gives the number of rows", {
  op <- keops_kernel("Sum_Reduction(x,1)", c("x=Vi(1)", "unused=Vj(3)", "also=Vi(2)"))
  expect_equal(op(list(c(1, 2), matrix(0, 4, 3), matrix(0, 2, 2))), cbind(c(4, 8)))
})

test_that("several reductions in one formula", {
  args <- c("x=Vi(2)", "y=Vj(2)", "b=Vj(1)")
  set.seed(1)
  data <- list(draw(7, 2, -1, 1), draw(18, 2, -1, 1), draw(18, 1, 0.5, 2))
  k <- exp(-outer(data[[1]][, 1], data[[2]][, 1], "-")^2 - outer(data[[1]][, 2], data[[2]][, 2], "-")^2)
  ratio <- "Sum_Reduction(Exp(-SqDist(x,y))*b,1)/Sum_Reduction(Exp(-SqDist(x,y)),1)"
  each_backend(function(backend, precision) {
    expect_close(keops_kernel(ratio, args)(data), k %*% data[[3]] / rowSums(k), tol(precision))
  })
  expect_dense("Sum_Reduction(Exp(-SqDist(x,y))*Sum_Reduction(Exp(-SqDist(x,y)),0),1)", args, data)
  expect_dense("Sum_Reduction(Square(Sum_Reduction(SqDist(x,y)*b,1)),0)", args, data)
  expect_dense("Sum_Reduction(Exp(-SqDist(x,y)-LogSumExp_Reduction(-SqDist(x,y),1))*b,1)", args, data)
  expect_dense("Sqrt(Sum_Reduction(SqDist(x,y),1))+Max_Reduction(b,1)", args, data)
})

# ---- errors ----

parse_error <- function(formula, args = c("x=Vi(2)", "y=Vj(2)", "s=Pm(3)")) {
  tryCatch(keops_kernel(formula, args), keops_error = identity)
}

test_that("errors in the text say what was found and mark the place", {
  cases <- list(
    c("Sum_Reduction(Exp(z), 1)", "parse", 19, "'z' is not among the arguments"),
    c("Sum_Reduction(Expo(x), 1)", "parse", 15, "there is no operation called 'Expo'"),
    c("Sum_Reduction(Exp(x, 1)", "parse", 20, "expected ')'"),
    c("Sum_Reduction(x + , 1)", "parse", 19, "expected a formula, found ','"),
    c("Sum_Reduction(x y, 1)", "parse", 17, "expected ','"),
    c("Sum_Reduction(x, 1) x", "parse", 21, "expected an operator or the end"),
    c("Sum_Reduction(x $ y, 1)", "parse", 17, "'$'"),
    c("Sum_Reduction(Exp(x, y), 1)", "parse", 20, "Exp("),
    c("Sum_Reduction(SqDist(x), 1)", "parse", 23, "SqDist()"),
    c("Sum_Reduction(x, 2)", "parse", 1, "the axis of Sum_Reduction is 2, allowed are 0 (over i) and 1 (over j)"),
    c("Sum_Reduction(x, -1)", "parse", 1, "axis"),
    c("Sum_Reduction(x)", "parse", 16, "expected ','"),
    c("Exp(x)", "parse", 1, "no reduction"),
    c("x + Sum_Reduction(x, 0)", "parse", 1, ""),
    c("Sum_Reduction(Vi(0,2), 1)", "parse", 15, "argument list"),
    c("Sum_Reduction(Grad(Exp(x), x + 1, x), 1)", "parse", 15, "variable"),
    c("", "input", NA, "one string"),
    c("Sum_Reduction(SqDist(x, s), 1)", "dimension", 15, "not 2 and 3"),
    c("Sum_Reduction(x + s, 1)", "dimension", 17, "not 2 and 3"),
    c("Sum_Reduction((x|s), 1)", "dimension", 17, "not 2 and 3"),
    c("Sum_Reduction(Elem(x, 2), 1)", "dimension", 15, "2"),
    c("Sum_Reduction(Extract(x, 1, 2), 1)", "dimension", 15, "Extract"),
    c("Sum_Reduction(SumT(x, 3), 1)", "dimension", 15, "SumT"),
    c("LogSumExp_Reduction(x, 1)", "dimension", 1, "dimension 1, not 2"),
    c("Sum_Reduction(Grad(Exp(x), x, s), 1)", "dimension", 15, "cotangent"),
    c("Sum_Reduction(Var(0,3,0), 1)", "dimension", 15, "dimension 2"),
    c("Sum_Reduction(Var(0,2,1), 1)", "dimension", 15, "category"),
    c("Sum_Reduction(Var(7,2,0), 1)", "dimension", 15, "argument number")
  )
  for (case in cases) {
    e <- parse_error(case[1])
    expect_s3_class(e, c(paste0("keops_error_", case[2]), "keops_error"))
    expect_true(grepl(case[4], conditionMessage(e), fixed = TRUE),
                label = paste0(case[1], " says \"", conditionMessage(e), "\", not \"", case[4], "\""))
    if (is.na(case[3])) next
    expect_identical(e$text, case[1])
    expect_identical(e$pos, as.integer(case[3]), label = paste("place in", case[1]))
    # the caret stands under the place
    lines <- strsplit(conditionMessage(e), "\n")[[1]]
    expect_identical(lines[length(lines) - 1:0],
                     c(paste0("  ", case[1]), paste0("  ", strrep(" ", e$pos - 1), "^")))
  }
})

test_that("the whole message of an error in the text", {
  e <- parse_error("Sum_Reduction(Exp(-SqDist(x, s)), 1)")
  expect_identical(conditionMessage(e), paste(
    "SqDist needs operands of equal dimension, or 1, not 2 and 3",
    "  Sum_Reduction(Exp(-SqDist(x, s)), 1)",
    "                     ^",
    sep = "\n"
  ))
})

test_that("an unknown name is answered with the nearest one, or with all there are", {
  cases <- c(
    "Sum_Reduction(Sqdist(x,y),1)" = "there is no operation called 'Sqdist'; did you mean 'SqDist'?",
    "Sum_Reduction(Epx(x),1)" = "did you mean 'Exp'?",
    "Sum_Reduction(Matern32Kernal(1,x,y,1),1)" = "did you mean 'Matern32Kernel'?",
    "Sum_Reduction(exp(x),1)" = "there is no operation called 'exp'; did you mean 'Exp'?",
    "Sum_Reduction(Foo(x),1)" = "there is no operation called 'Foo'; ?keops_formula lists them",
    "Sum_reduction(x,1)" = "did you mean 'Sum_Reduction'?",
    "SumReduction(x,1)" = "did you mean 'Sum_Reduction'?",
    "LogSumExpo_Reduction(x,1)" = "there is no reduction called 'LogSumExpo_Reduction'; did you mean 'LogSumExp_Reduction'?",
    "Mean_Reduction(x,1)" = "there is no reduction called 'Mean_Reduction'; before _Reduction may stand Sum, Min, Max",
    "Sum_Reduction(wieghts*x,1)" = "'wieghts' is not among the arguments; did you mean 'weights'?",
    "Sum_Reduction(X*y,1)" = "'X' is not among the arguments; did you mean 'x'?",
    "Sum_Reduction(z*y,1)" = "'z' is not among the arguments: x, y, s, weights",
    "Sum_Reduction(Exp*y,1)" = "'Exp' is not among the arguments; the operation is written Exp(...)",
    "Sum_Reduction(x(y),1)" = "'x' is an argument and takes no operands in parentheses"
  )
  for (text in names(cases)) {
    e <- parse_error(text, c("x=Vi(2)", "y=Vj(2)", "s=Pm(3)", "weights=Vj(1)"))
    expect_s3_class(e, "keops_error_parse")
    expect_match(conditionMessage(e), cases[[text]], fixed = TRUE)
  }
  expect_match(conditionMessage(parse_error("Sum_Reduction(q,1)", c("Vi(2)", "Vj(2)"))), "which have no names")
  # names too long to be compared, and many of them
  long <- strrep("a", 500)
  expect_s3_class(parse_error(sprintf("Sum_Reduction(%s(x),1)", long)), "keops_error_parse")
  expect_s3_class(parse_error(sprintf("Sum_Reduction(%s,1)", long), sprintf("%s%d=Vi(1)", long, 1:9)), "keops_error_parse")
  expect_match(conditionMessage(parse_error("Sum_Reduction(z,1)", sprintf("argument%d=Vi(1)", 1:300))), ", \\.\\.\\.\n")
})

test_that("every message names the operation, what it got, and what it needs", {
  cases <- c(
    "GaussKernel(1,x,s,1)" = "in GaussKernel, SqDist needs operands of equal dimension, or 1, not 2 and 3",
    "WeightedSqDist(1,x,s)" = "WeightedSqDist needs two vectors of equal dimension, or 1, not 2 and 3",
    "WeightedSqNorm(s,x)" = "WeightedSqNorm: the weights must have dimension 1, 2 (that of the vector) or its square, not 3",
    "Elem(x)" = "expected ',' in Elem(), which has 1 operand and 1 whole number, found ')'",
    "Elem(x,y)" = "expected a whole number (Elem), found 'y'",
    "Pow(x)" = "expected ',' in Pow(), which has 1 operand and 1 whole number, found ')'",
    "Exp(x,y)" = "expected ')' to close Exp(), which has 1 operand, found ','",
    "SqDist(x)" = "expected ',' in SqDist(), which has 2 operands, found ')'",
    "RatCst(1,0)" = "RatCst has the denominator 0",
    "IntInv(0)" = "IntInv has the denominator 0",
    "Kron(x,x,2,[2])" = "expected a list like [2,3] or Ind(2,3) in Kron, found '2'",
    "Kron(x,x,[0],[2])" = "an extent in Kron is 0, allowed is 1 to",
    "TensorDot(x,x,[2],[2],[0,0],[0,0])" = "TensorDot contracts axis 0 twice",
    "ComplexAdd(s,x)" = "ComplexAdd needs a complex operand, of even dimension, not 3",
    "MatVecMult(s,x)" = "MatVecMult needs a matrix (n x p values) and a vector of p, not 3 and 2"
  )
  for (text in names(cases)) {
    e <- parse_error(sprintf("Sum_Reduction(%s,1)", text))
    expect_match(conditionMessage(e), cases[[text]], fixed = TRUE)
    expect_match(conditionMessage(e), "\n *\\^$")
  }
})

test_that("two uses of one Var with different dimensions are refused", {
  e <- parse_error("Sum_Reduction(Var(0,1,0) + Var(0,3,0), 1)", character(0))
  expect_s3_class(e, "keops_error_dimension")
  e <- parse_error("Sum_Reduction(Var(0,1,0) + Var(0,1,1), 1)", character(0))
  expect_s3_class(e, "keops_error_dimension")
  # numbers without a hole: argument 1 has to appear before argument 2 is allowed
  e <- parse_error("Sum_Reduction(Var(1,1,0), 1)", character(0))
  expect_s3_class(e, "keops_error_dimension")
})

test_that("argument lists are checked", {
  bad <- list("x=Vz(3)", "x=Vi(0)", "x=Vi(-1)", "x=Vi", "x=Vi()", "x=Vi(a)", "x=Vi(1,2,3)", "x=Vi(5,3)", "x=Vi(3) y",
              c("x=Vi(3)", "x=Vj(3)"), "3x=Vi(1)", "", "x=Vi(3000000000)", "x-y=Vi(1)", "x=Vi(1.5)")
  for (args in bad) {
    e <- tryCatch(keops_kernel("Sum_Reduction(x,1)", args), keops_error = identity)
    expect_s3_class(e, "keops_error_input")
    expect_true(grepl(args[length(args)], conditionMessage(e), fixed = TRUE), label = conditionMessage(e))
  }
  expect_error(keops_kernel("Sum_Reduction(x,1)", 3), class = "keops_error_input")
  expect_error(keops_kernel("Sum_Reduction(x,1)"), class = "keops_error_input")
  expect_error(keops_kernel(c("a", "b"), "x=Vi(1)"), class = "keops_error_input")
  expect_error(keops_kernel("", "x=Vi(1)"), class = "keops_error_input", regexp = "empty string")
  expect_error(keops_kernel(NA_character_, "x=Vi(1)"), class = "keops_error_input")
  expect_error(keops_kernel("Sum_Reduction(x,1)", NA_character_), class = "keops_error_input")
})

test_that("nesting and size have limits that are errors", {
  nested <- paste0("Sum_Reduction(", strrep("(", 1e5), "x", strrep(")", 1e5), ",1)")
  expect_error(keops_kernel(nested, "x=Vi(1)"), "nested", class = "keops_error_parse")
  expect_error(keops_kernel(paste0("Sum_Reduction(", strrep("-", 1e5), "x,1)"), "x=Vi(1)"), "nested",
               class = "keops_error_parse")
  expect_error(keops_kernel(paste0("Sum_Reduction(", strrep("Exp(", 3e5), "x"), "x=Vi(1)"), class = "keops_error_parse")
  expect_error(keops_kernel(paste0("Sum_Reduction(x", strrep("+x", 1e6), ",1)"), "x=Vi(1)"), class = "keops_error")
  # well below the limits it works
  deep <- paste0("Sum_Reduction(", strrep("(", 50), "x", strrep(")", 50), ",1)")
  expect_equal(keops_kernel(deep, "x=Vi(1)")(list(2)), matrix(2))
  long <- paste0("Sum_Reduction(x", strrep("+x*y", 500), ",1)")
  expect_equal(keops_kernel(long, c("x=Vi(1)", "y=Vj(1)"))(list(2, 3)), matrix(2 + 500 * 6))
})

test_that("bytes that are no text of a formula are parse errors", {
  for (text in c("Sum_Reduction(x\u00e9,1)", "Sum_Reduction(x#,1)", "Sum_Reduction(\"x\",1)", "Sum_Reduction(x;x,1)",
                 "Sum_Reduction(x,1e999)", "Sum_Reduction(x,1.5)", "Sum_Reduction([1],1)", "\u03b1")) {
    expect_error(keops_kernel(text, "x=Vi(1)"), class = "keops_error_parse")
  }
})

test_that("an operator prints its formula and arguments", {
  op <- keops_kernel("Sum_Reduction(Exp(-SqDist(x,y))*b,1)", c("x=Vi(3)", "y=Vj(3)", "b=Vj(2)"))
  out <- capture.output(print(op))
  expect_lte(length(out), 12)
  expect_true(any(grepl("Exp(-SqDist(x,y))*b", out, fixed = TRUE)))
  for (word in c("M x 3", "N x 3", "N x 2", "M x 2")) expect_true(any(grepl(word, out)), label = word)
  expect_identical(formula(op), "Sum_Reduction(Exp(-SqDist(x,y))*b,1)")
})
