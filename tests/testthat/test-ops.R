# Walks the engine's own table: a row without a reference in helper-reference.R or without an example
# here fails.

ops <- as.data.frame(keops:::engine_operations()[c("name", "kind", "arity", "nint", "smooth")], stringsAsFactors = FALSE)
ops$low <- keops:::engine_operations()$low
ops$high <- keops:::engine_operations()$high

# ---- examples ----

# Each operand in each place it can stand: rows of i, rows of j, parameter, one component or more.
# The offsets keep operands, their means and their differences off the kinks at 0 and at each other.
offsets <- c(1, 3, 5) / 256

scalar_example <- function(row) {
  low <- row$low
  high <- row$high
  of <- function(k, n, d) draw(n, d, low[k], high[k], offsets[k])
  name <- row$name
  if (row$arity == 1) {
    low[2:3] <- low[1]
    high[2:3] <- high[1]
    return(list(
      terms = sprintf(c("%s(a)", "%s(b)", "%s(p)", "%s((a+b)/2)", "%s((a1+b)/2)"), name),
      args = c("a=Vi(2)", "b=Vj(2)", "p=Pm(2)", "a1=Vi(1)"),
      data = list(of(1, 5, 2), of(2, 4, 2), of(1, 1, 2), of(1, 5, 1))
    ))
  }
  if (row$arity == 2) {
    return(list(
      terms = sprintf(c("%s(a,b)", "%s(a1,b)", "%s(a,b1)", "%s(p,b)", "%s(a,q)"), name),
      args = c("a=Vi(2)", "b=Vj(2)", "a1=Vi(1)", "b1=Vj(1)", "p=Pm(2)", "q=Pm(1)"),
      data = list(of(1, 5, 2), of(2, 4, 2), of(1, 5, 1), of(2, 4, 1), of(1, 1, 2), of(2, 1, 1))
    ))
  }
  list(
    terms = sprintf(c("%s(a,b,c)", "%s(a1,b,c)", "%s(a,b1,c)", "%s(a,b,c1)"), name),
    args = c("a=Vi(2)", "b=Vj(2)", "c=Pm(2)", "a1=Vi(1)", "b1=Vj(1)", "c1=Vi(1)"),
    data = list(of(1, 5, 2), of(2, 4, 2), of(3, 1, 2), of(1, 5, 1), of(2, 4, 1), of(3, 5, 1))
  )
}

# The others, in a, b (i and j, 2 components), a1, b1 (1 component), p, q (parameters of 2 and 1). Where an
# operation jumps or bends, its operands stay off that place by their offsets.
vector_terms <- list(
  Polygamma = c("Polygamma(a+2.5,1)", "Polygamma(b+2.5,0)", "Polygamma(a+b+4.5,2)", "Polygamma(a1+b+4.5,3)"),
  BesselK  = c("BesselK(a+2.5,0)", "BesselK(b+2.5,q)", "BesselK(Square(a-b)+0.5,-1.3)", "BesselK(a1+b+4.5,q)"),
  Matern   = c("Matern(Square(a),1.7,0)", "Matern(Square(a-b),q+2.5,0)", "Matern(Square(a-b)+0.5,1.5,2)",
               "Matern(SqDist(a,b)+q+2,0.3,0)"),
  NormCdf  = c("NormCdf(a*b)", "NormCdf(a)", "NormCdf(b)"),
  Sum      = c("Sum(a*b)", "Sum(a)", "Sum(b)", "Sum(p)", "Sum(a1*b1)"),
  SumT     = c("SumT(a1*b1,3)", "SumT(a1,2)", "SumT(b1,2)", "SumT(q,2)*a*b"),
  Concat   = c("Concat(a,b)", "Concat(a*b,p)", "Concat(a1,Concat(b,a))", "Concat(p,a)*Concat(b,b)"),
  Elem     = c("Elem(a*b,0)", "Elem(a*b,1)", "Elem(a,1)*Elem(b,0)", "Elem(p,1)"),
  ElemT    = c("ElemT(a1*b1,3,1)", "ElemT(a1,2,0)*b", "ElemT(b1,2,1)*a"),
  Extract  = c("Extract(Concat(a,b),1,2)", "Extract(Concat(a,b)*Concat(b,a),2,2)", "Extract(a,0,1)*Extract(b,1,1)"),
  ExtractT = c("ExtractT(a*b,1,4)", "ExtractT(a,0,3)", "ExtractT(b1,2,3)"),
  Pow      = c("Pow(a*b,3)", "Pow(a,2)", "Pow(b,1)", "Pow(a*b,0)", "Pow(a+3,-2)", "Pow(p,5)*a*b", "Pow(a-b,4)"),
  Scalprod = c("Scalprod(a,b)", "Scalprod(a1,b)", "Scalprod(a,b1)", "Scalprod(p,b)*a", "Scalprod(a-b,a+b)"),
  SqNorm2  = c("SqNorm2(a-b)", "SqNorm2(a)*b", "SqNorm2(b)*a", "SqNorm2(p)"),
  Norm2    = c("Norm2(a-b)", "Norm2(a)*b", "Norm2(b)*a", "Norm2(p)"),
  Normalize = c("Normalize(a-b)", "Normalize(a)*b", "Normalize(b)*a", "Normalize(p)"),
  SqDist   = c("SqDist(a,b)", "SqDist(a1,b)", "SqDist(a,b1)", "SqDist(p,b)*a", "SqDist(a*b,b)"),
  SqNormIso  = c("SqNormIso(q,a-b)", "SqNormIso(a1,b)", "SqNormIso(b1,a)"),
  SqNormDiag = c("SqNormDiag(p,a-b)", "SqNormDiag(a,b)", "SqNormDiag(b,a)"),
  SymSqNorm = c("SymSqNorm(Concat(a,b),a-b)", "SymSqNorm(Concat(p,b),a)"),
  WeightedSqNorm = c("WeightedSqNorm(q,a-b)", "WeightedSqNorm(p,a-b)", "WeightedSqNorm(Concat(a,b),a-b)",
                     "WeightedSqNorm(b,a)"),
  WeightedSqDist = c("WeightedSqDist(q,a,b)", "WeightedSqDist(p,a,b)", "WeightedSqDist(Concat(p,a),a,b)",
                     "WeightedSqDist(b1,a,b)"),
  Round    = c("Round(a+b,0)", "Round(a,1)*b", "Round(10*(a+b),-1)", "Round(b,0)"),
  ClampInt = c("ClampInt(a+b,-1,1)", "ClampInt(a,0,1)*b", "ClampInt(b,-1,0)"),
  DiffClampInt = c("DiffClampInt(a+b,-1,1)*a", "DiffClampInt(a,0,1)*b", "DiffClampInt(b,-1,0)"),
  Factorize = c("Factorize(Sin(a*b)+a*b,a*b)", "Factorize(a,b)"),
  AutoFactorize = "AutoFactorize(Exp(a-b)*Exp(a-b)+a)",
  OneHot   = c("OneHot(a1,3)", "OneHot(a1+b1,4)", "OneHot(b1+1,2)*a"),
  Max      = c("Max(Concat(a1,b1))", "Max(Concat(Elem(a,1),b1))*b", "Max(Sin(a*b))", "Max(a1)"),
  Min      = c("Min(Concat(a1,b1))", "Min(Concat(Elem(a,1),b1))*b", "Min(Sin(a*b))", "Min(b1)"),
  ArgMax   = c("ArgMax(Concat(a1,b1))*a", "ArgMax(Concat(Elem(a,1),b1))", "ArgMax(Sin(a*b))"),
  ArgMin   = c("ArgMin(Concat(a1,b1))*a", "ArgMin(Concat(Elem(a,1),b1))", "ArgMin(Sin(a*b))"),
  MatVecMult = c("MatVecMult(Concat(a,b),b)", "MatVecMult(Concat(a,Concat(p,b)),a)", "MatVecMult(p,b1)"),
  VecMatMult = c("VecMatMult(b,Concat(a,b))", "VecMatMult(a,Concat(b,Concat(p,a)))", "VecMatMult(b1,p)"),
  TensorProd = c("TensorProd(a,b)", "TensorProd(Concat(a,b1),p)", "TensorProd(a1,b)"),
  TensorDot  = c("TensorDot(Concat(a,Concat(b,p)),Concat(b,a),[3,2],[2,2],[1],[0])", "TensorDot(a,b,[2],[2],[0],[0])",
                 "TensorDot(Concat(a,b),Concat(b,p),[2,2],[2,2],[],[],[3,1,0,2])",
                 "TensorDot(Concat(a,Concat(b,p)),Concat(b,a),[2,3],[2,2],[0],[1],[1,0])"),
  Kron     = c("Kron(Concat(a,b),Concat(b,p),[2,2],[2,2])", "Kron(a,Concat(b,b1),[2,1],[1,3])"),
  DifferenceMatrix = c("DifferenceMatrix(a,b)", "DifferenceMatrix(Concat(a,p),b1)"),
  BSpline  = c("BSpline(Concat(-2.5,Concat(-1.1,Concat(0.3,Concat(1.2,2.6)))),Sin(a1*b1)*2,2)",
               "BSpline(Concat(q-6,Concat(b1/4,Elem(p,0)+5)),a1,1)", "BSpline(Concat(-5,Concat(0,5)),a1+b1,0)"),
  SoftDTW_SqDist = c("SoftDTW_SqDist(a,Concat(b,b1),Square(q)+0.5)", "SoftDTW_SqDist(Concat(a,a1),b,0.7)"),
  Real2Complex = "Real2Complex(a*b)",
  Imag2Complex = "Imag2Complex(a*b)",
  ComplexReal  = "ComplexReal(Concat(a,b)*Concat(b,a))",
  ComplexImag  = "ComplexImag(Concat(a,b)*Concat(b,a))",
  Conj         = c("Conj(a*b)", "Conj(Concat(a,b))"),
  ComplexSquareAbs = "ComplexSquareAbs(Concat(a,b)*Concat(b,p))",
  ComplexAbs   = c("ComplexAbs(a+b)", "ComplexAbs(Concat(a,b))"),
  ComplexAngle = c("ComplexAngle(a-b)", "ComplexAngle(Concat(a,b))"),
  ComplexSum   = "ComplexSum(Concat(a,b)*Concat(b,p))",
  ComplexSumT  = "ComplexSumT(a,4)*Concat(b,b)",
  ComplexAdd   = c("ComplexAdd(a,b)", "ComplexAdd(a,Concat(b,p))", "ComplexAdd(Concat(a,b),b)"),
  ComplexSubtract = c("ComplexSubtract(a,b)", "ComplexSubtract(a,Concat(b,p))", "ComplexSubtract(Concat(a,b),b)"),
  ComplexMult  = c("ComplexMult(a,b)", "ComplexMult(a,Concat(b,p))", "ComplexMult(Concat(a,b),b)"),
  ComplexScal  = c("ComplexScal(a,b)", "ComplexScal(a,Concat(b,p))"),
  ComplexRealScal = c("ComplexRealScal(a1,Concat(b,p))", "ComplexRealScal(Concat(a,b),b1)"),
  ComplexDivide = c("ComplexDivide(a,b+4)", "ComplexDivide(Concat(a,b),p+4)", "ComplexDivide(a,Concat(b,p)+4)"),
  ComplexExp   = "ComplexExp(Concat(a,b))",
  ComplexExp1j = "ComplexExp1j(a*b)",
  IntCst   = c("IntCst(3)*a", "b+IntCst(-2)"),
  RatCst   = c("RatCst(2,6)*a*b", "RatCst(-1,3)*b"),
  IntInv   = c("IntInv(3)*a*b", "a+IntInv(-7)"),
  Zero     = c("Zero(2)+a*b", "Concat(Zero(3),a1)"),
  Var      = c("Var(0,2,0)*Var(1,2,1)", "Var(4,2,2)+Var(3,1,1)"),
  Grad     = c("Grad(Sin(a*b),a,b)", "Grad(Exp(-SqDist(a,b)/4),b,a1)", "Grad(Sin((a|p)),p,b1)*b"),
  Diff     = c("Diff(Sin(a*b),a,b)", "Diff(SqDist(a,b),b,a)", "Diff(Exp((a|p)/4),p,b)"),
  GradMatrix = c("GradMatrix(Sin(a*b)*a1,a)", "GradMatrix(SqDist(a,b),b)"),
  Divergence = "Divergence(Sin(a*b)*(a|b),a)",
  Laplacian  = "Laplacian(Exp(-SqDist(a,b)/4),a)",
  TraceOperator = c("TraceOperator(MatVecMult(Concat(b,p),a),a)", "TraceOperator((a|b),a)"),
  AdjointOperator = c("AdjointOperator(MatVecMult(Concat(b,p),a),a,b)", "AdjointOperator(a*b,a,p)"),
  GaussKernel    = c("GaussKernel(q*q+0.5,a,b,b1)", "GaussKernel(0.5,a,b,b)", "GaussKernel(0.5,a1,b,a)"),
  LaplaceKernel  = c("LaplaceKernel(q*q+0.5,a,b,b1)", "LaplaceKernel(0.5,a,b,b)"),
  Matern12Kernel = c("Matern12Kernel(q*q+0.5,a,b,b1)", "Matern12Kernel(0.5,a,b,b)"),
  Matern32Kernel = c("Matern32Kernel(q*q+0.5,a,b,b1)", "Matern32Kernel(0.5,a,b,b)"),
  Matern52Kernel = c("Matern52Kernel(q*q+0.5,a,b,b1)", "Matern52Kernel(0.5,a,b,b)"),
  MaternKernel   = c("MaternKernel(q*q+0.5,2.7,a,b,b1)", "MaternKernel(0.5,1,a,b,b)"),
  CauchyKernel   = c("CauchyKernel(q*q+0.5,a,b,b1)", "CauchyKernel(0.5,a,b,b)"),
  InverseMultiquadricKernel = c("InverseMultiquadricKernel(q*q+0.5,a,b,b1)", "InverseMultiquadricKernel(0.5,a,b,b)"),
  RationalQuadraticKernel = c("RationalQuadraticKernel(q*q+0.5,1.5,a,b,b1)", "RationalQuadraticKernel(0.7,q*q+1,a,b,b)"),
  EnergyKernel    = c("EnergyKernel(a,b,b1)", "EnergyKernel(a,b,b)"),
  ThinPlateKernel = c("ThinPlateKernel(a,b,b1)", "ThinPlateKernel(a,b,b)"),
  PeriodicKernel  = c("PeriodicKernel(q*q+0.5,1.7,a,b,b1)", "PeriodicKernel(0.5,q*q+1,a,b,b)")
)

# References of these are differences themselves.
reference_order <- function(name) {
  if (name == "Laplacian") return(2)
  as.numeric(name %in% c("Grad", "Diff", "GradMatrix", "Divergence", "TraceOperator", "AdjointOperator"))
}

example_of <- function(row) {
  terms <- vector_terms[[row$name]]
  if (is.null(terms) && row$kind == "scalar") return(scalar_example(row))
  if (is.null(terms)) return(NULL)
  of <- function(k, n, d) draw(n, d, -2, 2, offsets[k])
  list(
    terms = terms,
    args = c("a=Vi(2)", "b=Vj(2)", "a1=Vi(1)", "b1=Vj(1)", "p=Pm(2)", "q=Pm(1)"),
    data = list(of(1, 5, 2), of(2, 4, 2), of(1, 5, 1), of(2, 4, 1), of(1, 1, 2), of(2, 1, 1))
  )
}

# Operations whose operand q, an order, has no derivative
orders <- c("BesselK", "Matern")

joined <- function(terms) Reduce(function(f, g) sprintf("Concat(%s,%s)", f, g), terms)

has_reference <- function(name) !is.null(ref_ops[[name]]) || !is.null(ref_words[[name]])

# fun(row, example) for each row of the table that has both; the row's name is in every message.
each_op <- function(fun, which = rep(TRUE, nrow(ops))) {
  for (k in which(which)) {
    row <- as.list(ops[k, c("name", "kind", "arity", "nint", "smooth")])
    row$low <- ops$low[k, ]
    row$high <- ops$high[k, ]
    set.seed(k)
    example <- example_of(row)
    if (!is.null(example) && has_reference(row$name)) {
      example$formula <- sprintf("Sum_Reduction(%s,1)", joined(example$terms))
      # what compiled code sees: the pairs; values of rows and parameters are not its business
      pairs <- if (row$kind == "scalar" && is.null(vector_terms[[row$name]])) example$terms[list(4, 1:2, 1:2)[[row$arity]]] else example$terms
      example$of_pairs <- sprintf("Sum_Reduction(%s,1)", joined(pairs))
      example$vars <- intersect(ref_args(example$args)$name, all.vars(ref_parse(example$formula)))
      if (row$name %in% orders) example$vars <- setdiff(example$vars, "q")
      example$order <- reference_order(row$name)
      fun(row, example)
    }
  }
}

test_that("the table holds the operations that the language promises", {
  promised <- c("Exp", "Log", "Sqrt", "Rsqrt", "Square", "Pow", "Powf", "Inv", "Abs", "Sign", "Step", "ReLU", "Sin",
                "Cos", "Sum", "SqNorm2", "Norm2", "SqDist", "Scalprod", "Concat", "Elem", "Extract", "WeightedSqDist")
  args <- c("a=Vi(2)", "b=Vj(2)", "a1=Vi(1)", "b1=Vj(1)", "p=Pm(2)", "q=Pm(1)")
  for (name in promised) {
    term <- if (is.null(vector_terms[[name]])) {
      sprintf(if (name == "Powf") "%s(a,b)" else "%s(a)", name)
    } else {
      vector_terms[[name]][1]
    }
    expect_error(keops_kernel(sprintf("Sum_Reduction(%s,1)", term), args), NA)
  }
})

test_that("every operation has a reference and an example", {
  expect_gt(nrow(ops), 30)
  for (k in seq_len(nrow(ops))) {
    row <- as.list(ops[k, c("name", "kind", "arity", "nint", "smooth")])
    row$low <- ops$low[k, ]
    row$high <- ops$high[k, ]
    expect_true(has_reference(row$name), label = paste("a reference for", row$name))
    expect_false(is.null(example_of(row)), label = paste("the lack of an example for", row$name))
  }
})

test_that("every operation has dense R's values, reduced over j", {
  each_op(function(row, example) {
    expect_dense(example$formula, example$args, example$data, order = example$order, backends = "interpreted")
  })
})

test_that("every operation has dense R's values in compiled code", {
  each_op(function(row, example) {
    expect_dense(example$of_pairs, example$args, example$data, order = example$order, backends = "compiled",
                 precisions = "double") # single: all together, at the edge points below
  })
})

test_that("every operation has dense R's values, reduced over i", {
  each_op(function(row, example) {
    for (term in example$terms) {
      expect_dense(sprintf("Sum_Reduction(%s,0)", term), example$args, example$data, order = example$order,
                   backends = "interpreted")
    }
  })
})

test_that("every operation has the slope of dense R in each operand, zero where it is a step", {
  each_op(function(row, example) {
    if (example$order > 1) return()
    expect_gradients(example$formula, example$args, example$data, vars = example$vars, order = 1 + example$order,
                     backends = "interpreted")
  })
})

test_that("compiled gradients of every operation agree too", {
  each_op(which = ops$kind %in% c("vector", "word"), function(row, example) {
    if (example$order > 0) return()
    expect_gradients(example$formula, example$args, example$data, vars = intersect("a", example$vars),
                     backends = "compiled", precisions = "double")
  })
})

test_that("every operation has the curvature of dense R", {
  each_op(function(row, example) {
    if (example$order > 0) return()
    vars <- all.vars(ref_parse(example$of_pairs))
    pairs <- Filter(function(pair) all(pair %in% vars), list(c("a", "a"), c("a", "b"), c("b", "b")))
    expect_second(example$of_pairs, example$args, example$data, pairs, backends = "interpreted")
  })
})

test_that("steps have no derivative and all others have one in each operand", {
  expect_setequal(ops$name[ops$kind == "scalar" & !ops$smooth],
                  c("Sign", "Step", "Equal", "NotEqual", "LessThan", "LessOrEqual", "IfElse", "Floor", "Ceil", "Trunc",
                    "RoundHalfAway", "Mod", "And", "Or", "Not"))
})

# ---- edge points ----

edges <- c(0, -0, 1, -1, 2, -2, 0.5, -0.5, 2.5, -2.5, Inf, -Inf, NaN)

# single precision overflows above 3.4e38
as_single_range <- function(v, precision) {
  if (precision == "single") v[is.finite(v) & abs(v) > 3.4e38] <- sign(v[is.finite(v) & abs(v) > 3.4e38]) * Inf
  v
}

expect_edges <- function(formula, args, data, reference, label, ...) {
  each_backend(function(backend, precision) {
    out <- keops_kernel(formula, args)(data)
    expect_close(out, as_single_range(as.matrix(reference), precision), tol(precision),
                 label = paste0(label, " (", backend, ", ", precision, ")"))
  }, ...)
}

# Every elementwise operation with as many operands as `points` has columns: each for itself as a value of
# rows and of pairs, all together in one compiled kernel.
expect_all_edges <- function(points) {
  operands <- names(points)
  args <- c(sprintf("%s=Vi(1)", operands), "z=Vj(1)")
  of_pairs <- paste0(operands, "*z", collapse = ",")
  data <- c(unname(as.list(points)), 1)
  names <- ops$name[ops$kind == "scalar" & ops$arity == length(operands)]
  references <- sapply(names, function(name) do.call(ref_ops[[name]], unname(as.list(points))))
  for (name in names) {
    expect_edges(sprintf("Sum_Reduction(%s(%s),1)", name, paste(operands, collapse = ",")), args, data,
                 references[, name], paste(name, "of a row"), backends = "interpreted")
    expect_edges(sprintf("Sum_Reduction(%s(%s),1)", name, of_pairs), args, data, references[, name],
                 paste(name, "of a pair"), backends = "interpreted")
  }
  expect_edges(sprintf("Sum_Reduction(%s,1)", joined(sprintf("%s(%s)", names, of_pairs))), args, data, references,
               "edge points of all", backends = "compiled")
}

test_that("zeros of both signs, infinities and NaN pass through every elementwise operation as documented", {
  expect_all_edges(data.frame(a = edges))
  expect_all_edges(expand.grid(a = edges, b = edges))
  few <- c(0, -0, 1, -1, Inf, -Inf, NaN)
  expect_all_edges(expand.grid(a = few, b = few, c = few))
})

test_that("edge points where one operand is of i and the other of j", {
  each_op(which = ops$kind == "scalar" & ops$arity == 2, function(row, example) {
    for (b in c(0, -0, 1, Inf, NaN)) {
      expect_edges(sprintf("Sum_Reduction(%s(a,b),1)", row$name), c("a=Vi(1)", "b=Vj(1)"), list(edges, b),
                   ref_ops[[row$name]](edges, rep(b, length(edges))), paste0(row$name, "(a, ", b, ")"),
                   backends = if (row$name == "Subtract") c("interpreted", "compiled") else "interpreted")
    }
  })
})

test_that("exponentials and logarithms keep their accuracy over the whole range", {
  a <- c(-700, -100, -87, -20, -1e-3, 1e-8, 20, 88, 300, 709)
  expect_edges("Sum_Reduction(Log(Exp(a*z)),1)", c("a=Vi(1)", "z=Vj(1)"), list(a[5:7], 1), a[5:7], "Log(Exp)")
  each_backend(precisions = "double", function(backend, precision) {
    out <- keops_kernel("Sum_Reduction(Exp(a*z),1)", c("a=Vi(1)", "z=Vj(1)"))(list(a, 1))
    expect_lt(max(abs(out / exp(a) - 1)), 1e-13)
    out <- keops_kernel("Sum_Reduction(Log(a*z),1)", c("a=Vi(1)", "z=Vj(1)"))(list(exp(a), 1))
    expect_lt(max(abs(out - log(exp(a))) / pmax(1, abs(a))), 1e-14)
  })
})

test_that("Pow(f, n) knows 0, 1 and negative exponents at every edge", {
  for (n in c(0, 1, 2, 3, -1, -2)) {
    expect_edges(sprintf("Sum_Reduction(Pow(a*z,%d),1)", n), c("a=Vi(1)", "z=Vj(1)"), list(edges, 1),
                 c_pow(edges, rep(n, length(edges))), paste("Pow to the", n))
  }
})

test_that("vectors of length zero normalise and differentiate to zero, not to NaN", {
  x <- rbind(c(0, 0), c(3, 4))
  eta <- cbind(c(1, 1))
  each_backend(function(backend, precision) {
    args <- c("x=Vi(2)", "z=Vj(1)")
    norm <- keops_kernel("Sum_Reduction(Norm2(x*z),1)", args)
    expect_equal(c(norm(list(x, 1))), c(0, 5))
    expect_close(keops_grad(norm, "x")(list(x, 1, eta)), rbind(c(0, 0), c(.6, .8)), tol(precision))
    root <- keops_kernel("Sum_Reduction(Sqrt(x*z),1)", c("x=Vi(1)", "z=Vj(1)"))
    expect_close(keops_grad(root, "x")(list(c(0, 4), 1, eta)), cbind(c(0, .25)), tol(precision))
    inverse <- keops_kernel("Sum_Reduction(Rsqrt(x*z),1)", c("x=Vi(1)", "z=Vj(1)"))
    expect_close(inverse(list(c(0, 4), 1)), cbind(c(0, .5)), tol(precision))
    expect_close(keops_grad(inverse, "x")(list(c(0, 4), 1, eta)), cbind(c(0, -1 / 16)), tol(precision))
  })
})

test_that("derivatives at the kinks are the documented ones", {
  at <- c(0, -0, -1, 1)
  slopes <- list(Abs = c(0, 0, -1, 1), ReLU = c(1, 1, 0, 1), Sign = c(0, 0, 0, 0), Step = c(0, 0, 0, 0))
  each_backend(function(backend, precision) {
    for (name in names(slopes)) {
      op <- keops_kernel(sprintf("Sum_Reduction(%s(x*z),1)", name), c("x=Vi(1)", "z=Vj(1)"))
      expect_equal(c(keops_grad(op, "x")(list(at, 1, rep(1, 4)))), slopes[[name]], label = paste("slope of", name))
    }
    op <- keops_kernel("Sum_Reduction(Pow(x*z,0),1)", c("x=Vi(1)", "z=Vj(1)"))
    expect_equal(c(keops_grad(op, "x")(list(at, 1, rep(1, 4)))), rep(0, 4))
    choose <- keops_kernel("Sum_Reduction(IfElse(x*z,u,v*z),1)", c("x=Vi(1)", "u=Vi(1)", "v=Vi(1)", "z=Vj(1)"))
    data <- list(c(0, -0, -1, NaN), 1:4, 5:8, 1)
    expect_equal(c(choose(data)), c(1, 2, 7, 8))
    expect_equal(c(keops_grad(choose, "u")(c(data, list(rep(1, 4))))), c(1, 1, 0, 0))
    expect_equal(c(keops_grad(choose, "v")(c(data, list(rep(1, 4))))), c(0, 0, 1, 1))
    expect_equal(c(keops_grad(choose, "x")(c(data, list(rep(1, 4))))), rep(0, 4))
  })
})

# ---- special functions ----

test_that("the derivative in an order is an error that names the operation, not zero", {
  args <- c("x=Vi(1)", "y=Vj(1)", "nu=Pm(1)", "e=Vi(1)")
  terms <- c(BesselK = "BesselK(x*y,nu)", Polygamma = "Polygamma(x*y,nu)", Matern = "Matern(x*y,nu,0)",
             Matern = "MaternKernel(y,nu,x,y,1)")
  words <- c(Grad = "Grad(Sum_Reduction(%s,1),nu,e)", Diff = "Diff(Sum_Reduction(%s,1),nu,1)",
             Divergence = "Sum_Reduction(Divergence(%s,nu),1)", Laplacian = "Sum_Reduction(Laplacian(%s,nu),1)",
             GradMatrix = "Sum_Reduction(GradMatrix(%s,nu),1)")
  for (k in seq_along(terms)) for (word in names(words)) {
    text <- sprintf(words[[word]], terms[[k]])
    e <- tryCatch(keops_kernel(text, args), keops_error_parse = identity)
    expect_s3_class(e, "keops_error_parse")
    expect_match(conditionMessage(e), sprintf("%s needs the derivative of %s in operand 2", word, names(terms)[k]))
    expect_identical(e$pos, regexpr(word, text, fixed = TRUE)[[1]])
  }
  op <- keops_kernel("Sum_Reduction(BesselK(x*y,nu),1)", args[1:3])
  expect_error(keops_grad(op, "nu"), "BesselK", class = "keops_error")
  expect_close(keops_grad(op, "x")(list(1.5, 1, 0.7, 1)), cbind(-(besselK(1.5, 0.3) + besselK(1.5, 1.7)) / 2), 1e-14)
})

test_that("orders that are written down must be possible", {
  bad <- c("Polygamma(x,-1)" = "is -1, allowed is a whole number from 0 to 1000", "Polygamma(x,1.5)" = "is 1.5",
           "BesselK(x,1001)" = "is 1001, allowed is -1000 to 1000", "Matern(x,0,0)" = "is 0, allowed is a number above 0",
           "MaternKernel(1,-2,x,y,1)" = "the order in MaternKernel is -2")
  for (text in names(bad)) {
    expect_error(keops_kernel(sprintf("Sum_Reduction(%s,1)", text), c("x=Vi(1)", "y=Vj(1)")), bad[[text]], fixed = TRUE,
                 class = "keops_error_parse")
  }
})

test_that("special functions have the values of R over their whole range", {
  one <- function(text, ...) c(keops_kernel(sprintf("Sum_Reduction(%s,1)", text), c("x=Vi(1)", "n=Vi(1)", "z=Vj(1)"))(list(..., 1)))
  x <- c(1e-300, 1e-8, 0.1, 0.5, 1, 1.9, 2.1, 7, 30, 170, 600)
  grid <- expand.grid(x = x, nu = c(0, 1e-9, 0.3, 0.5, 1, 2.5, 7, 25.25))
  each_backend(precisions = "double", function(backend, precision) {
    expect_equal(one("BesselK(x*z,n)", grid$x, grid$nu), besselK(grid$x, grid$nu), tolerance = 1e-12)
    expect_equal(one("Lgamma(x*z)", x, x), lgamma(x), tolerance = 1e-13)
    expect_equal(one("Digamma(x*z)", x, x), digamma(x), tolerance = 1e-13)
    for (n in 1:4) {
      at <- c(x[-1], -0.5, -1.25, -20.75)
      expect_equal(one("Polygamma(x*z,n)", at, rep(n, length(at))), psigamma(at, n), tolerance = 1e-12)
    }
  })
})

test_that("the general Matern kernel is 1 at distance 0, has finite slopes, and agrees with the closed forms", {
  set.seed(7)
  x <- matrix(rnorm(24), 8)
  b <- rnorm(8)
  e <- cbind(rnorm(8))
  args <- c("g=Pm(1)", "x=Vi(3)", "y=Vj(3)", "b=Vj(1)")
  closed <- c(Matern12Kernel = 0.5, Matern32Kernel = 1.5, Matern52Kernel = 2.5)
  each_backend(function(backend, precision) {
    for (name in names(closed)) {
      k <- keops_kernel(sprintf("Sum_Reduction(MaternKernel(g,%g,x,y,b),1)", closed[[name]]), args)
      known <- keops_kernel(sprintf("Sum_Reduction(%s(g,x,y,b),1)", name), args)
      data <- list(0.7, x, x, b)
      expect_close(k(data), known(data), tol(precision))
      for (var in c("g", "x", "y", "b")) {
        expect_close(keops_grad(k, var)(c(data, list(e))), keops_grad(known, var)(c(data, list(e))), tol(precision, 1))
      }
    }
    for (nu in c(0.2, 0.5, 0.75, 1, 1.3, 4, 900)) {
      k <- keops_kernel(sprintf("Sum_Reduction(MaternKernel(g,%g,x,y,b),1)", nu), args)
      same <- list(2, x[1, , drop = FALSE], x[1, , drop = FALSE], 1)
      expect_identical(c(k(same)), 1)
      for (var in c("g", "x", "y")) expect_true(all(keops_grad(k, var)(c(same, list(1))) == 0))
    }
  })
})
