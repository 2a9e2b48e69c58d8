/* ONE ROW AN OPERATION.
 *
 * SCALAR_OP(name, arity, cost, value, derivatives, domains)    element by element; operands of equal
 *   dimension, or 1. The formula calls it by `name`.
 *     cost         nanoseconds per 16 elements, roughly: the cost model's only knowledge of it
 *     value        C expression in a, b, c, as tokens and not a string: the interpreter compiles it for
 *                  each vector width, the emitters print it (#value). a, b, c are vectors on the CPU,
 *                  scalars on the GPU, so: choose by k_select(mask, yes, no), not ?:; a constant is K(0.5)
 *     derivatives  D(one formula an argument), in our own language, $0 $1 $2 the operands; N_ "a step,
 *                  derivative zero": the cotangent stops; U_ "there is one, but not in our language":
 *                  asking for it is an error
 *     domains      X(low, high): where the table test draws each argument
 *
 * FUSED_OP(name, arity, cost, value)    made by the plan only, never parsed, never differentiated.
 *
 * VECTOR_OP(name, arity, ints)          moves, sums or packs components: rules in simplify.c, derivatives in diff.c,
 *                  code in program.c.
 *                  `ints` integer parameters follow the operands in the text.
 * SUGAR_OP(name, arity, formula)        written in the language itself, $0 $1 ... the operands
 * WORD_OP(name, arity, ints)            has a syntax or a shape rule of its own: words.c; `ints` counts what
 *                  follows the operands, -1: lists or the like
 *
 * Include with the macros wanted defined; the others default to nothing. */

#ifndef SCALAR_OP
#define SCALAR_OP(name, arity, cost, value, derivatives, domains)
#endif
#ifndef FUSED_OP
#define FUSED_OP(name, arity, cost, value)
#endif
#ifndef VECTOR_OP
#define VECTOR_OP(name, arity, ints)
#endif
#ifndef SUGAR_OP
#define SUGAR_OP(name, arity, formula)
#endif
#ifndef WORD_OP
#define WORD_OP(name, arity, ints)
#endif
#define D(...) {__VA_ARGS__}
#define N_ ""
#define U_ "?"
#define X(low, high) {low, high}
#define X_(...) {__VA_ARGS__}

/* clang-format off */
SCALAR_OP(Add,         2, 1,  a + b,                  D("1", "1"),                      X_(X(-2, 2), X(-2, 2)))
SCALAR_OP(Subtract,    2, 1,  a - b,                  D("1", "-1"),                     X_(X(-2, 2), X(-2, 2)))
SCALAR_OP(Mult,        2, 1,  a * b,                  D("$1", "$0"),                    X_(X(-2, 2), X(-2, 2)))
SCALAR_OP(Divide,      2, 4,  a / b,                  D("1/$1", "-$0/Square($1)"),      X_(X(-2, 2), X(0.5, 2)))
SCALAR_OP(Minus,       1, 1,  -a,                     D("-1"),                          X_(X(-2, 2)))
SCALAR_OP(Inv,         1, 4,  K(1) / a,               D("-1/Square($0)"),               X_(X(0.5, 2)))
SCALAR_OP(Square,      1, 1,  a * a,                  D("2*$0"),                        X_(X(-2, 2)))
SCALAR_OP(Powf,        2, 30, k_pow(a, b),            D("$1*Powf($0,$1-1)", "Log($0)*Powf($0,$1)"), X_(X(0.5, 2), X(-2, 2)))
SCALAR_OP(Sqrt,        1, 4,  k_sqrt(a),              D("Rsqrt($0)/2"),                 X_(X(0.2, 4)))
SCALAR_OP(Rsqrt,       1, 7,  k_rsqrt(a),             D("-Pow(Rsqrt($0),3)/2"),         X_(X(0.5, 4)))
SCALAR_OP(Exp,         1, 5,  k_exp(a),               D("Exp($0)"),                     X_(X(-2, 2)))
SCALAR_OP(Exp2,        1, 4,  k_exp2(a),              D("Exp2($0)*0.69314718055994530942"), X_(X(-2, 2)))
SCALAR_OP(Log,         1, 9,  k_log(a),               D("1/$0"),                        X_(X(0.2, 4)))
SCALAR_OP(Sin,         1, 8,  k_sin(a),               D("Cos($0)"),                     X_(X(-4, 4)))
SCALAR_OP(Cos,         1, 8,  k_cos(a),               D("-Sin($0)"),                    X_(X(-4, 4)))
SCALAR_OP(Abs,         1, 1,  k_abs(a),               D("Sign($0)"),                    X_(X(-2, 2)))
SCALAR_OP(Sign,        1, 2,  k_select(a > K(0), k_set(1), k_select(a < K(0), k_set(-1), k_set(0))), D(N_), X_(X(-2, 2)))
SCALAR_OP(Step,        1, 1,  k_select(a < K(0), k_set(0), k_set(1)),   D(N_),          X_(X(-2, 2)))
SCALAR_OP(ReLU,        1, 1,  k_select(a < K(0), k_set(0), a),          D("Step($0)"),  X_(X(-2, 2)))
SCALAR_OP(Equal,       2, 1,  k_select(a == b, k_set(1), k_set(0)),     D(N_, N_),      X_(X(-2, 2), X(-2, 2)))
SCALAR_OP(NotEqual,    2, 1,  k_select(a == b, k_set(0), k_set(1)),     D(N_, N_),      X_(X(-2, 2), X(-2, 2)))
SCALAR_OP(LessThan,    2, 1,  k_select(a < b, k_set(1), k_set(0)),      D(N_, N_),      X_(X(-2, 2), X(-2, 2)))
SCALAR_OP(LessOrEqual, 2, 1,  k_select(a <= b, k_set(1), k_set(0)),     D(N_, N_),      X_(X(-2, 2), X(-2, 2)))
SCALAR_OP(IfElse,      3, 1,  k_select(a >= K(0), b, c), D(N_, "IfElse($0,1,0)", "IfElse($0,0,1)"), X_(X(-2, 2), X(-2, 2), X(-2, 2)))

SCALAR_OP(XLogX,       1, 10, k_select(a == K(0), k_set(0), a * k_log(a)), D("Log($0)+1"), X_(X(0.2, 4)))
SCALAR_OP(SinXDivX,    1, 12, k_select(a == K(0), k_set(1), k_sin(a) / a), D(
  "IfElse(Abs($0)-0.5,"
  "(Cos(IfElse(Abs($0)-0.5,$0,1))-Sin($0)/IfElse(Abs($0)-0.5,$0,1))/IfElse(Abs($0)-0.5,$0,1),"
  "-$0*(1/3-Square($0)*(1/30-Square($0)*(1/840-Square($0)*(1/45360-Square($0)*(1/3991680-Square($0)/518918400))))))"),
  X_(X(-4, 4)))
SCALAR_OP(Tan,         1, 14, k_tan(a),               D("1+Square(Tan($0))"),           X_(X(-1, 1)))
SCALAR_OP(Asin,        1, 12, k_asin(a),              D("Rsqrt(1-Square($0))"),         X_(X(-0.9, 0.9)))
SCALAR_OP(Acos,        1, 12, k_acos(a),              D("-Rsqrt(1-Square($0))"),        X_(X(-0.9, 0.9)))
SCALAR_OP(Atan,        1, 12, k_atan(a),              D("1/(1+Square($0))"),            X_(X(-4, 4)))
SCALAR_OP(Atan2,       2, 16, k_atan2(a, b),          D("$1/(Square($0)+Square($1))", "-$0/(Square($0)+Square($1))"), X_(X(-2, 2), X(0.5, 2)))
SCALAR_OP(Sinh,        1, 14, k_sinh(a),              D("Cosh($0)"),                    X_(X(-2, 2)))
SCALAR_OP(Cosh,        1, 14, k_cosh(a),              D("Sinh($0)"),                    X_(X(-2, 2)))
SCALAR_OP(Tanh,        1, 12, k_tanh(a),              D("1-Square(Tanh($0))"),          X_(X(-2, 2)))
SCALAR_OP(Asinh,       1, 16, k_asinh(a),             D("Rsqrt(1+Square($0))"),         X_(X(-4, 4)))
SCALAR_OP(Acosh,       1, 16, k_acosh(a),             D("Rsqrt(Square($0)-1)"),         X_(X(1.2, 4)))
SCALAR_OP(Atanh,       1, 16, k_atanh(a),             D("1/(1-Square($0))"),            X_(X(-0.8, 0.8)))
SCALAR_OP(Log1p,       1, 12, k_log1p(a),             D("1/(1+$0)"),                    X_(X(-0.8, 4)))
SCALAR_OP(Expm1,       1, 10, k_expm1(a),             D("Exp($0)"),                     X_(X(-2, 2)))
SCALAR_OP(Log2,        1, 10, k_log2(a),              D("1.44269504088896340736/$0"),   X_(X(0.2, 4)))
SCALAR_OP(Log10,       1, 10, k_log10(a),             D("0.43429448190325182765/$0"),   X_(X(0.2, 4)))
SCALAR_OP(Hypot,       2, 8,  k_hypot(a, b),          D("$0*Rsqrt(Square($0)+Square($1))", "$1*Rsqrt(Square($0)+Square($1))"), X_(X(-2, 2), X(0.5, 2)))
SCALAR_OP(Erf,         1, 14, k_erf(a),               D("1.12837916709551257390*Exp(-Square($0))"), X_(X(-2, 2)))
SCALAR_OP(Erfc,        1, 14, k_erfc(a),              D("-1.12837916709551257390*Exp(-Square($0))"), X_(X(-2, 2)))
SCALAR_OP(Lgamma,      1, 500, k_lgamma(a),           D("Digamma($0)"),                 X_(X(0.2, 4)))
SCALAR_OP(Digamma,     1, 600, k_digamma(a),          D("Polygamma($0,1)"),             X_(X(0.2, 4)))
SCALAR_OP(Polygamma,   2, 8000, k_polygamma(a, b),    D("Polygamma($0,$1+1)", U_),      X_(X(0.2, 4), X(0, 4)))
SCALAR_OP(BesselK,     2, 20000, k_besselk(a, b),     D("-(BesselK($0,$1-1)+BesselK($0,$1+1))/2", U_), X_(X(0.2, 4), X(-3, 3)))
SCALAR_OP(Matern,      3, 40000, k_matern(a, b, c),   D("-Matern($0,$1,$2+1)/2", U_, U_), X_(X(0, 4), X(0.5, 4), X(0, 2)))
SCALAR_OP(Sigmoid,     1, 8,  K(1) / (K(1) + k_exp(-a)), D("Sigmoid($0)*Sigmoid(-$0)"), X_(X(-4, 4)))
SCALAR_OP(Softplus,    1, 16, k_max(k_set(0), a) + k_log1p(k_exp(-k_abs(a))), D("Sigmoid($0)"), X_(X(-4, 4)))
SCALAR_OP(Floor,       1, 1,  k_floor(a),             D(N_),                            X_(X(-2, 2)))
SCALAR_OP(Ceil,        1, 1,  k_ceil(a),              D(N_),                            X_(X(-2, 2)))
SCALAR_OP(Trunc,       1, 1,  k_trunc(a),             D(N_),                            X_(X(-2, 2)))
SCALAR_OP(RoundHalfAway, 1, 2, k_round(a),            D(N_),                            X_(X(-2, 2)))
SCALAR_OP(Maximum,     2, 2,  k_select(a < b, b, k_select(b == b, a, b)), D("LessOrEqual($1,$0)", "LessThan($0,$1)"), X_(X(-2, 2), X(-2, 2)))
SCALAR_OP(Minimum,     2, 2,  k_select(b < a, b, k_select(b == b, a, b)), D("LessOrEqual($0,$1)", "LessThan($1,$0)"), X_(X(-2, 2), X(-2, 2)))
SCALAR_OP(Mod,         3, 6,  a - b * k_floor((a - c) / b), D("1", "-Floor(($0-$2)/$1)", N_), X_(X(-2, 2), X(0.5, 2), X(-1, 1)))
SCALAR_OP(Clamp,       3, 2,  k_select(a < b, b, k_select(a > c, c, a)),
  D("(1-LessThan($0,$1))*(1-LessThan($2,$0))", "LessThan($0,$1)", "LessThan($2,$0)*(1-LessThan($0,$1))"), X_(X(-2, 2), X(-1, 0), X(0.1, 1)))
SCALAR_OP(And,         2, 1,  k_select(a == K(0), k_set(0), k_select(b == K(0), k_set(0), k_set(1))), D(N_, N_), X_(X(-2, 2), X(-2, 2)))
SCALAR_OP(Or,          2, 1,  k_select(a == K(0), k_select(b == K(0), k_set(0), k_set(1)), k_set(1)), D(N_, N_), X_(X(-2, 2), X(-2, 2)))
SCALAR_OP(Not,         1, 1,  k_select(a == K(0), k_set(1), k_set(0)), D(N_),           X_(X(-2, 2)))

/* exp(a - b), an item's share in a LogSumExp: 0 where a is -Inf, and where b is, a sum of no items */
SCALAR_OP(ExpSub,      2, 6,  k_select(a == K(-K_INF), k_set(0), k_select(b == K(-K_INF), k_set(0), k_exp(a - b))), D("ExpSub($0,$1)", "-ExpSub($0,$1)"), X_(X(-2, 2), X(-2, 2)))

/* exp2(a * b): Exp with a constant factor, folded (plan.c) */
FUSED_OP(Exp2Mul,      2, 4,  k_exp2(a * b))

VECTOR_OP(Sum,      1, 0)
VECTOR_OP(SumT,     1, 1)
VECTOR_OP(Concat,   2, 0)
VECTOR_OP(Elem,     1, 1)
VECTOR_OP(ElemT,    1, 2)
VECTOR_OP(Extract,  1, 2)
VECTOR_OP(ExtractT, 1, 2)

SUGAR_OP(SqNorm2,      1, "Sum(Square($0))")
SUGAR_OP(Norm2,        1, "Sqrt(Sum(Square($0)))")
SUGAR_OP(SqDist,       2, "Sum(Square($0-$1))")
SUGAR_OP(Normalize,    1, "Rsqrt(Sum(Square($0)))*$0")
SUGAR_OP(NormCdf,      1, "Erfc(-0.70710678118654752440*$0)/2")
/* kernels: g an inverse squared length scale, b weights; r = sqrt(g |x - y|^2) */
SUGAR_OP(GaussKernel,               4, "Exp(-$0*SqDist($1,$2))*$3")
SUGAR_OP(LaplaceKernel,             4, "Exp(-Sqrt($0*SqDist($1,$2)))*$3")
SUGAR_OP(Matern12Kernel,            4, "Exp(-Sqrt($0*SqDist($1,$2)))*$3")
SUGAR_OP(Matern32Kernel,            4, "(1+Sqrt(3*$0*SqDist($1,$2)))*Exp(-Sqrt(3*$0*SqDist($1,$2)))*$3")
SUGAR_OP(Matern52Kernel,            4, "(1+Sqrt(5*$0*SqDist($1,$2))+5*$0*SqDist($1,$2)/3)*Exp(-Sqrt(5*$0*SqDist($1,$2)))*$3")
SUGAR_OP(MaternKernel,              5, "Matern(2*$1*$0*SqDist($2,$3),$1,0)*$4")
SUGAR_OP(CauchyKernel,              4, "Inv(1+$0*SqDist($1,$2))*$3")
SUGAR_OP(InverseMultiquadricKernel, 4, "Rsqrt(1+$0*SqDist($1,$2))*$3")
SUGAR_OP(RationalQuadraticKernel,   5, "Powf(1+$0*SqDist($2,$3)/(2*$1),-$1)*$4")
SUGAR_OP(EnergyKernel,              3, "-Sqrt(SqDist($0,$1))*$2")
SUGAR_OP(ThinPlateKernel,           3, "XLogX(SqDist($0,$1))/2*$2")
SUGAR_OP(PeriodicKernel,            5, "Exp(-2*$0*Sum(Square(Sin(3.14159265358979323846*($2-$3)/$1))))*$4")

WORD_OP(Pow,            1, 1)
WORD_OP(Scalprod,       2, 0)
WORD_OP(WeightedSqNorm, 2, 0)
WORD_OP(WeightedSqDist, 3, 0)
WORD_OP(SqNormIso,      2, 0)
WORD_OP(SqNormDiag,     2, 0)
WORD_OP(SymSqNorm,      2, 0)
WORD_OP(Round,          1, 1)
WORD_OP(ClampInt,       1, 2)
WORD_OP(DiffClampInt,   1, 2)
WORD_OP(Factorize,      2, 0)
WORD_OP(AutoFactorize,  1, 0)
WORD_OP(OneHot,         1, 1)
WORD_OP(Max,            1, 0)
WORD_OP(Min,            1, 0)
WORD_OP(ArgMax,         1, 0)
WORD_OP(ArgMin,         1, 0)
WORD_OP(MatVecMult,     2, 0)
WORD_OP(VecMatMult,     2, 0)
WORD_OP(TensorProd,     2, 0)
WORD_OP(TensorDot,      2, -1)
WORD_OP(Kron,           2, -1)
WORD_OP(DifferenceMatrix, 2, 0)
WORD_OP(BSpline,        2, 1)
WORD_OP(SoftDTW_SqDist, 3, 0)
WORD_OP(Real2Complex,   1, 0)
WORD_OP(Imag2Complex,   1, 0)
WORD_OP(ComplexReal,    1, 0)
WORD_OP(ComplexImag,    1, 0)
WORD_OP(Conj,           1, 0)
WORD_OP(ComplexSquareAbs, 1, 0)
WORD_OP(ComplexAbs,     1, 0)
WORD_OP(ComplexAngle,   1, 0)
WORD_OP(ComplexSum,     1, 0)
WORD_OP(ComplexSumT,    1, 1)
WORD_OP(ComplexAdd,     2, 0)
WORD_OP(ComplexSubtract, 2, 0)
WORD_OP(ComplexMult,    2, 0)
WORD_OP(ComplexScal,    2, 0)
WORD_OP(ComplexRealScal, 2, 0)
WORD_OP(ComplexDivide,  2, 0)
WORD_OP(ComplexExp,     1, 0)
WORD_OP(ComplexExp1j,   1, 0)
WORD_OP(IntCst,         0, 1)
WORD_OP(RatCst,         0, 2)
WORD_OP(IntInv,         0, 1)
WORD_OP(Zero,           0, 1)
WORD_OP(Var,            0, 3)
WORD_OP(Grad,           3, 0)
WORD_OP(Diff,           3, 0)
WORD_OP(GradMatrix,     2, 0)
WORD_OP(Divergence,     2, 0)
WORD_OP(Laplacian,      2, 0)
WORD_OP(TraceOperator,  2, 0)
WORD_OP(AdjointOperator, 3, 0)
/* clang-format on */

#undef SCALAR_OP
#undef FUSED_OP
#undef VECTOR_OP
#undef SUGAR_OP
#undef WORD_OP
#undef D
#undef N_
#undef U_
#undef X
#undef X_
