# Help page of the formula language; its words are rows of src/engine/op_list.h.

#' Read and write the formula language
#'
#' What the text of [keops_kernel()] may hold. F, G, H stand for formulas, of dimension d; operands of an
#' element-by-element operation have equal dimensions, or 1. Whole numbers in the text (positions, sizes,
#' axes) count from 0, as in KeOps.
#'
#' @section Variables and numbers:
#' Names declared in `args`; `Var(position, dimension, category)` with category 0 for i, 1 for j, 2 for a
#' parameter. Numbers as in R (`2`, `0.5`, `1e-3`); `IntCst(n)`, `RatCst(p,q)`, `IntInv(n)`, `Zero(d)`.
#'
#' @section Operators, loosest first:
#' `< <= > >= == !=` (1 or 0), `F | G` (dot product), `+ -`, `* /`, unary `-`, `^` or `**` (from the right).
#'
#' @section Element by element:
#' `Add Subtract Mult Divide Minus Inv Square Sqrt`, `Rsqrt` (0 at 0), `Pow(F,n)` for a whole number,
#' `Powf(F,G)`, `Exp Exp2 Expm1 Log Log2 Log10 Log1p`, `XLogX` (0 at 0), `Sin Cos Tan Asin Acos Atan`,
#' `Atan2(F,G)`, `Sinh Cosh Tanh Asinh Acosh Atanh`, `SinXDivX` (1 at 0), `Hypot(F,G)`, `Erf Erfc NormCdf`,
#' `Sigmoid Softplus ReLU`, `Abs`, `Sign` (0 at 0), `Step` (1 at 0), `Floor Ceil Trunc RoundHalfAway`,
#' `Round(F,d)` (halves away from zero), `Mod(F,G,H)` = F - G floor((F-H)/G), `Maximum(F,G)`,
#' `Minimum(F,G)`, `Clamp(F,G,H)`, `ClampInt(F,a,b)`, `DiffClampInt(F,a,b)`, `IfElse(F,G,H)` (G where
#' F >= 0), `Equal NotEqual LessThan LessOrEqual`, `And Or Not` (a number counts as true unless it is 0),
#' `ExpSub(F,G)` = exp(F-G), 0 where F or G is -Inf.
#'
#' @section Sums, norms, distances:
#' `Sum(F)`, `SumT(F,d)` (one component d times), `Scalprod(F,G)`, `SqNorm2 Norm2 Normalize`, `SqDist(F,G)`,
#' `SqNormIso(s,F)`, `SqNormDiag(s,F)`, `SymSqNorm(A,F)`, `WeightedSqNorm(s,F)` and `WeightedSqDist(s,F,G)` with s of
#' dimension 1, d or d^2, `SoftDTW_SqDist(F,G,h)`.
#'
#' @section Components, matrices, tensors (row-major):
#' `Concat(F,G)`, `Elem(F,m)`, `ElemT(F,n,m)`, `Extract(F,start,n)`, `ExtractT(F,start,n)`, `OneHot(F,n)`, `Max Min ArgMax
#' ArgMin` of the components, `MatVecMult(A,F)`, `VecMatMult(F,A)`, `TensorProd(F,G)`, `DifferenceMatrix(F,G)`,
#' `TensorDot(F,G,[dims F],[dims G],[axes F],[axes G],[order])`, `Kron(F,G,[dims F],[dims G])`, `BSpline(knots,F,degree)`.
#'
#' @section Complex numbers (re, im, re, im, ...):
#' `Real2Complex Imag2Complex ComplexReal ComplexImag Conj ComplexAbs ComplexSquareAbs ComplexAngle ComplexSum`,
#' `ComplexSumT(F,d)`, `ComplexAdd ComplexSubtract ComplexMult ComplexDivide`, `ComplexScal(F,G)`,
#' `ComplexRealScal(F,G)`, `ComplexExp ComplexExp1j`.
#'
#' @section Derivatives:
#' `Grad(F,v,G)`: of a reduction the true gradient in the variable v with cotangent G, summed over all that v
#' does not index; of a formula inside a reduction the derivative at each pair. `Diff(F,v,G)` (forward mode, in the
#' direction G), `GradMatrix(F,v)`, `Divergence(F,v)`, `Laplacian(F,v)`, `TraceOperator(F,v)`,
#' `AdjointOperator(F,v,G)`. At kinks: the slope of `Abs` and of a norm at 0 is 0, of `ReLU` 1; a minimum or
#' maximum passes its derivative to the first item or component that attains it.
#'
#' @section Kernels:
#' With g an inverse squared length scale, b weights, r = sqrt(g |x - y|^2): `GaussKernel(g,x,y,b)`, `LaplaceKernel`
#' and `Matern12Kernel` (exp(-r) b), `Matern32Kernel`, `Matern52Kernel`, `CauchyKernel`, `InverseMultiquadricKernel`, all with
#' (g,x,y,b); `RationalQuadraticKernel(g,a,x,y,b)`, `PeriodicKernel(g,period,x,y,b)`, `EnergyKernel(x,y,b)`,
#' `ThinPlateKernel(x,y,b)`.
#'
#' @section Reductions:
#' Each is `<name>_Reduction(F, axis)`: axis 1 reduces over j and gives one row an i, axis 0 reduces over i and gives
#' one row a j. `Sum`; `Min Max ArgMin ArgMax Min_ArgMin Max_ArgMax`, for each component; `KMin ArgKMin
#' KMin_ArgKMin` with `(F, K, axis)`: the K least in increasing order. For F of dimension 1 and weights G of any:
#' `LogSumExp(F, axis)`, `LogSumExp(F, G, axis)` = log sum exp(F) G (also called `LogSumExpWeight`);
#' `SumSoftMaxWeight(F, G, axis)` (or `SoftMax`) = sum exp(F) G / sum exp(F); `Max_SumShiftExp(F, axis)` and
#' `Max_SumShiftExpWeight(F, G, axis)`: m = max F, then sum exp(F - m) G. `Zero_Reduction(d, axis)`: d zeros a row.
#' Minima, maxima and the least skip `NaN`; equal ones count in the order of the items; an index is `NA` where no
#' item is left. Reductions may stand inside formulas.
#'
#' @name keops_formula
#' @seealso [keops_kernel()], [keops_grad()]
#' @examples
#' # three operations in one reduction
#' op <- keops_kernel("Sum_Reduction(Matern32Kernel(g, x, y, b), 1)",
#'                    c("g=Pm(1)", "x=Vi(2)", "y=Vj(2)", "b=Vj(1)"))
#' op(list(1, matrix(0, 1, 2), matrix(c(0, 3, 0, 4), 2), c(1, 1)))
NULL
