/* ONE ROW AN OPERATION.
 *
 * SCALAR_OP(name, arity, cost, value, derivatives, domains, about)    element by element; operands of equal
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
 * VECTOR_OP(name, arity, ints, about)          moves, sums or packs components: rules in simplify.c, derivatives in diff.c,
 *                  code in program.c.
 *                  `ints` integer parameters follow the operands in the text.
 * SUGAR_OP(name, arity, formula, about)        written in the language itself, $0 $1 ... the operands
 * WORD_OP(name, arity, ints, about)            has a syntax or a shape rule of its own: words.c; `ints` counts what
 *                  follows the operands, -1: lists or the like
 *
 * about: for the help page. Of a scalar operation its value in F, G, H; of the others "what stands in its
 *   parentheses|dimension of the result|value", where d is the dimension of F, and of the other operands
 *   what d(G) says; m and n are whole numbers.
 *
 * Include with the macros wanted defined; the others default to nothing. */

#ifndef SCALAR_OP
#define SCALAR_OP(name, arity, cost, value, derivatives, domains, about)
#endif
#ifndef FUSED_OP
#define FUSED_OP(name, arity, cost, value)
#endif
#ifndef VECTOR_OP
#define VECTOR_OP(name, arity, ints, about)
#endif
#ifndef SUGAR_OP
#define SUGAR_OP(name, arity, formula, about)
#endif
#ifndef WORD_OP
#define WORD_OP(name, arity, ints, about)
#endif
#define D(...) {__VA_ARGS__}
#define N_ ""
#define U_ "?"
#define X(low, high) {low, high}
#define X_(...) {__VA_ARGS__}

/* clang-format off */
SCALAR_OP(Add,         2, 1,  a + b,                  D("1", "1"),                      X_(X(-2, 2), X(-2, 2)),
  "F + G")
SCALAR_OP(Subtract,    2, 1,  a - b,                  D("1", "-1"),                     X_(X(-2, 2), X(-2, 2)),
  "F - G")
SCALAR_OP(Mult,        2, 1,  a * b,                  D("$1", "$0"),                    X_(X(-2, 2), X(-2, 2)),
  "F * G")
SCALAR_OP(Divide,      2, 4,  a / b,                  D("1/$1", "-$0/Square($1)"),      X_(X(-2, 2), X(0.5, 2)),
  "F / G")
SCALAR_OP(Minus,       1, 1,  -a,                     D("-1"),                          X_(X(-2, 2)), "-F")
SCALAR_OP(Inv,         1, 4,  K(1) / a,               D("-1/Square($0)"),               X_(X(0.5, 2)), "1 / F")
SCALAR_OP(Square,      1, 1,  a * a,                  D("2*$0"),                        X_(X(-2, 2)), "F^2")
SCALAR_OP(Powf,        2, 30, k_pow(a, b),            D("$1*Powf($0,$1-1)", "Log($0)*Powf($0,$1)"), X_(X(0.5, 2), X(-2, 2)),
  "F^G; NaN for F < 0 unless G is whole")
SCALAR_OP(Sqrt,        1, 4,  k_sqrt(a),              D("Rsqrt($0)/2"),                 X_(X(0.2, 4)),
  "square root; NaN below 0")
SCALAR_OP(Rsqrt,       1, 7,  k_rsqrt(a),             D("-Pow(Rsqrt($0),3)/2"),         X_(X(0.5, 4)),
  "1 / sqrt(F), but 0 at 0")
SCALAR_OP(Exp,         1, 5,  k_exp(a),               D("Exp($0)"),                     X_(X(-2, 2)), "e^F")
SCALAR_OP(Exp2,        1, 4,  k_exp2(a),              D("Exp2($0)*0.69314718055994530942"), X_(X(-2, 2)), "2^F")
SCALAR_OP(Log,         1, 9,  k_log(a),               D("1/$0"),                        X_(X(0.2, 4)),
  "natural logarithm; -Inf at 0, NaN below")
SCALAR_OP(Sin,         1, 8,  k_sin(a),               D("Cos($0)"),                     X_(X(-4, 4)), "sine")
SCALAR_OP(Cos,         1, 8,  k_cos(a),               D("-Sin($0)"),                    X_(X(-4, 4)), "cosine")
SCALAR_OP(Abs,         1, 1,  k_abs(a),               D("Sign($0)"),                    X_(X(-2, 2)),
  "absolute value")
SCALAR_OP(Sign,        1, 2,  k_select(a > K(0), k_set(1), k_select(a < K(0), k_set(-1), k_set(0))), D(N_), X_(X(-2, 2)),
  "-1, 0 or 1")
SCALAR_OP(Step,        1, 1,  k_select(a < K(0), k_set(0), k_set(1)),   D(N_),          X_(X(-2, 2)),
  "0 where F < 0, else 1")
SCALAR_OP(ReLU,        1, 1,  k_select(a < K(0), k_set(0), a),          D("Step($0)"),  X_(X(-2, 2)),
  "0 where F < 0, else F")
SCALAR_OP(Equal,       2, 1,  k_select(a == b, k_set(1), k_set(0)),     D(N_, N_),      X_(X(-2, 2), X(-2, 2)),
  "1 where F == G, else 0")
SCALAR_OP(NotEqual,    2, 1,  k_select(a == b, k_set(0), k_set(1)),     D(N_, N_),      X_(X(-2, 2), X(-2, 2)),
  "1 where F != G, else 0")
SCALAR_OP(LessThan,    2, 1,  k_select(a < b, k_set(1), k_set(0)),      D(N_, N_),      X_(X(-2, 2), X(-2, 2)),
  "1 where F < G, else 0")
SCALAR_OP(LessOrEqual, 2, 1,  k_select(a <= b, k_set(1), k_set(0)),     D(N_, N_),      X_(X(-2, 2), X(-2, 2)),
  "1 where F <= G, else 0")
SCALAR_OP(IfElse,      3, 1,  k_select(a >= K(0), b, c), D(N_, "IfElse($0,1,0)", "IfElse($0,0,1)"), X_(X(-2, 2), X(-2, 2), X(-2, 2)),
  "G where F >= 0, else H")

SCALAR_OP(XLogX,       1, 10, k_select(a == K(0), k_set(0), a * k_log(a)), D("Log($0)+1"), X_(X(0.2, 4)),
  "F log F, but 0 at 0")
SCALAR_OP(SinXDivX,    1, 12, k_select(a == K(0), k_set(1), k_sin(a) / a), D(
  "IfElse(Abs($0)-0.5,"
  "(Cos(IfElse(Abs($0)-0.5,$0,1))-Sin($0)/IfElse(Abs($0)-0.5,$0,1))/IfElse(Abs($0)-0.5,$0,1),"
  "-$0*(1/3-Square($0)*(1/30-Square($0)*(1/840-Square($0)*(1/45360-Square($0)*(1/3991680-Square($0)/518918400))))))"),
  X_(X(-4, 4)), "sin(F) / F, but 1 at 0")
SCALAR_OP(Tan,         1, 14, k_tan(a),               D("1+Square(Tan($0))"),           X_(X(-1, 1)), "tangent")
SCALAR_OP(Asin,        1, 12, k_asin(a),              D("Rsqrt(1-Square($0))"),         X_(X(-0.9, 0.9)),
  "inverse sine; NaN outside -1 to 1")
SCALAR_OP(Acos,        1, 12, k_acos(a),              D("-Rsqrt(1-Square($0))"),        X_(X(-0.9, 0.9)),
  "inverse cosine; NaN outside -1 to 1")
SCALAR_OP(Atan,        1, 12, k_atan(a),              D("1/(1+Square($0))"),            X_(X(-4, 4)),
  "inverse tangent")
SCALAR_OP(Atan2,       2, 16, k_atan2(a, b),          D("$1/(Square($0)+Square($1))", "-$0/(Square($0)+Square($1))"), X_(X(-2, 2), X(0.5, 2)),
  "angle of the point (G, F), -pi to pi")
SCALAR_OP(Sinh,        1, 14, k_sinh(a),              D("Cosh($0)"),                    X_(X(-2, 2)),
  "hyperbolic sine")
SCALAR_OP(Cosh,        1, 14, k_cosh(a),              D("Sinh($0)"),                    X_(X(-2, 2)),
  "hyperbolic cosine")
SCALAR_OP(Tanh,        1, 12, k_tanh(a),              D("1-Square(Tanh($0))"),          X_(X(-2, 2)),
  "hyperbolic tangent")
SCALAR_OP(Asinh,       1, 16, k_asinh(a),             D("Rsqrt(1+Square($0))"),         X_(X(-4, 4)),
  "inverse hyperbolic sine")
SCALAR_OP(Acosh,       1, 16, k_acosh(a),             D("Rsqrt(Square($0)-1)"),         X_(X(1.2, 4)),
  "inverse hyperbolic cosine; NaN below 1")
SCALAR_OP(Atanh,       1, 16, k_atanh(a),             D("1/(1-Square($0))"),            X_(X(-0.8, 0.8)),
  "inverse hyperbolic tangent; NaN outside -1 to 1")
SCALAR_OP(Log1p,       1, 12, k_log1p(a),             D("1/(1+$0)"),                    X_(X(-0.8, 4)),
  "log(1 + F); NaN below -1")
SCALAR_OP(Expm1,       1, 10, k_expm1(a),             D("Exp($0)"),                     X_(X(-2, 2)), "e^F - 1")
SCALAR_OP(Log2,        1, 10, k_log2(a),              D("1.44269504088896340736/$0"),   X_(X(0.2, 4)),
  "logarithm to base 2")
SCALAR_OP(Log10,       1, 10, k_log10(a),             D("0.43429448190325182765/$0"),   X_(X(0.2, 4)),
  "logarithm to base 10")
SCALAR_OP(Hypot,       2, 8,  k_hypot(a, b),          D("$0*Rsqrt(Square($0)+Square($1))", "$1*Rsqrt(Square($0)+Square($1))"), X_(X(-2, 2), X(0.5, 2)),
  "sqrt(F^2 + G^2) without overflow")
SCALAR_OP(Erf,         1, 14, k_erf(a),               D("1.12837916709551257390*Exp(-Square($0))"), X_(X(-2, 2)),
  "error function")
SCALAR_OP(Erfc,        1, 14, k_erfc(a),              D("-1.12837916709551257390*Exp(-Square($0))"), X_(X(-2, 2)),
  "1 - Erf(F)")
SCALAR_OP(Lgamma,      1, 500, k_lgamma(a),           D("Digamma($0)"),                 X_(X(0.2, 4)),
  "log of the absolute value of gamma(F)")
SCALAR_OP(Digamma,     1, 600, k_digamma(a),          D("Polygamma($0,1)"),             X_(X(0.2, 4)),
  "derivative of Lgamma; NaN at -1, -2, ...")
SCALAR_OP(Polygamma,   2, 8000, k_polygamma(a, b),    D("Polygamma($0,$1+1)", U_),      X_(X(0.2, 4), X(0, 4)),
  "G-th derivative of Digamma; NaN unless G is whole, 0 to 1200")
SCALAR_OP(BesselK,     2, 20000, k_besselk(a, b),     D("-(BesselK($0,$1-1)+BesselK($0,$1+1))/2", U_), X_(X(0.2, 4), X(-3, 3)),
  "modified Bessel function of the second kind of order G; NaN for F < 0 or G outside -1200 to 1200")
SCALAR_OP(Matern,      3, 40000, k_matern(a, b, c),   D("-Matern($0,$1,$2+1)/2", U_, U_), X_(X(0, 4), X(0.5, 4), X(0, 2)),
  "(-2)^H times the H-th derivative in F of 2^(1-G)/gamma(G) s^G K_G(s), s = sqrt(F); 1 at F = 0 for H = 0, 0 where it would be infinite there")
SCALAR_OP(Sigmoid,     1, 8,  K(1) / (K(1) + k_exp(-a)), D("Sigmoid($0)*Sigmoid(-$0)"), X_(X(-4, 4)),
  "1 / (1 + e^-F)")
SCALAR_OP(Softplus,    1, 16, k_max(k_set(0), a) + k_log1p(k_exp(-k_abs(a))), D("Sigmoid($0)"), X_(X(-4, 4)),
  "log(1 + e^F)")
SCALAR_OP(Floor,       1, 1,  k_floor(a),             D(N_),                            X_(X(-2, 2)),
  "largest whole number up to F")
SCALAR_OP(Ceil,        1, 1,  k_ceil(a),              D(N_),                            X_(X(-2, 2)),
  "smallest whole number from F")
SCALAR_OP(Trunc,       1, 1,  k_trunc(a),             D(N_),                            X_(X(-2, 2)),
  "whole part")
SCALAR_OP(RoundHalfAway, 1, 2, k_round(a),            D(N_),                            X_(X(-2, 2)),
  "nearest whole number, halves away from 0")
SCALAR_OP(Maximum,     2, 2,  k_select(a < b, b, k_select(b == b, a, b)), D("LessOrEqual($1,$0)", "LessThan($0,$1)"), X_(X(-2, 2), X(-2, 2)),
  "larger of F and G; NaN if one is")
SCALAR_OP(Minimum,     2, 2,  k_select(b < a, b, k_select(b == b, a, b)), D("LessOrEqual($0,$1)", "LessThan($1,$0)"), X_(X(-2, 2), X(-2, 2)),
  "smaller of F and G; NaN if one is")
SCALAR_OP(Mod,         3, 6,  a - b * k_floor((a - c) / b), D("1", "-Floor(($0-$2)/$1)", N_), X_(X(-2, 2), X(0.5, 2), X(-1, 1)),
  "F - G floor((F - H) / G)")
SCALAR_OP(Clamp,       3, 2,  k_select(a < b, b, k_select(a > c, c, a)),
  D("(1-LessThan($0,$1))*(1-LessThan($2,$0))", "LessThan($0,$1)", "LessThan($2,$0)*(1-LessThan($0,$1))"), X_(X(-2, 2), X(-1, 0), X(0.1, 1)),
  "G where F < G, H where F > H, else F")
SCALAR_OP(And,         2, 1,  k_select(a == K(0), k_set(0), k_select(b == K(0), k_set(0), k_set(1))), D(N_, N_), X_(X(-2, 2), X(-2, 2)),
  "1 where F and G are not 0, else 0")
SCALAR_OP(Or,          2, 1,  k_select(a == K(0), k_select(b == K(0), k_set(0), k_set(1)), k_set(1)), D(N_, N_), X_(X(-2, 2), X(-2, 2)),
  "1 where F or G is not 0, else 0")
SCALAR_OP(Not,         1, 1,  k_select(a == K(0), k_set(1), k_set(0)), D(N_),           X_(X(-2, 2)),
  "1 where F is 0, else 0")

/* exp(a - b), an item's share in a LogSumExp: 0 where a is -Inf, and where b is, a sum of no items */
SCALAR_OP(ExpSub,      2, 6,  k_select(a == K(-K_INF), k_set(0), k_select(b == K(-K_INF), k_set(0), k_exp(a - b))), D("ExpSub($0,$1)", "-ExpSub($0,$1)"), X_(X(-2, 2), X(-2, 2)),
  "e^(F - G), but 0 where F or G is -Inf")

/* exp2(a * b): Exp with a constant factor, folded (plan.c) */
FUSED_OP(Exp2Mul,      2, 4,  k_exp2(a * b))

VECTOR_OP(Sum,      1, 0, "F|1|sum of the components")
VECTOR_OP(SumT,     1, 1, "F,n|n|F of dimension 1, n times")
VECTOR_OP(Concat,   2, 0, "F,G|d(F) + d(G)|components of F, then of G")
VECTOR_OP(Elem,     1, 1, "F,m|1|component m, from 0")
VECTOR_OP(ElemT,    1, 2, "F,n,m|n|F of dimension 1 at place m, else 0")
VECTOR_OP(Extract,  1, 2, "F,m,n|n|n components from m on")
VECTOR_OP(ExtractT, 1, 2, "F,m,n|n|F from place m on, else 0")

SUGAR_OP(SqNorm2,      1, "Sum(Square($0))", "F|1|sum of squares")
SUGAR_OP(Norm2,        1, "Sqrt(Sum(Square($0)))", "F|1|Euclidean norm; its slope at 0 is 0")
SUGAR_OP(SqDist,       2, "Sum(Square($0-$1))", "F,G|1|squared Euclidean distance")
SUGAR_OP(Normalize,    1, "Rsqrt(Sum(Square($0)))*$0", "F|d|F / Norm2(F), 0 for a vector of zeros")
SUGAR_OP(NormCdf,      1, "Erfc(-0.70710678118654752440*$0)/2", "F|d|standard normal distribution function")
/* kernels: g an inverse squared length scale, b weights; r = sqrt(g |x - y|^2) */
SUGAR_OP(GaussKernel,               4, "Exp(-$0*SqDist($1,$2))*$3", "g,x,y,b|d(b)|exp(-r^2) b")
SUGAR_OP(LaplaceKernel,             4, "Exp(-Sqrt($0*SqDist($1,$2)))*$3", "g,x,y,b|d(b)|exp(-r) b")
SUGAR_OP(Matern12Kernel,            4, "Exp(-Sqrt($0*SqDist($1,$2)))*$3", "g,x,y,b|d(b)|exp(-r) b")
SUGAR_OP(Matern32Kernel,            4, "(1+Sqrt(3*$0*SqDist($1,$2)))*Exp(-Sqrt(3*$0*SqDist($1,$2)))*$3",
  "g,x,y,b|d(b)|(1 + s) exp(-s) b, s = sqrt(3) r")
SUGAR_OP(Matern52Kernel,            4, "(1+Sqrt(5*$0*SqDist($1,$2))+5*$0*SqDist($1,$2)/3)*Exp(-Sqrt(5*$0*SqDist($1,$2)))*$3",
  "g,x,y,b|d(b)|(1 + s + s^2/3) exp(-s) b, s = sqrt(5) r")
SUGAR_OP(MaternKernel,              5, "Matern(2*$1*$0*SqDist($2,$3),$1,0)*$4",
  "g,nu,x,y,b|d(b)|2^(1-nu)/gamma(nu) s^nu K_nu(s) b, s = sqrt(2 nu) r")
SUGAR_OP(CauchyKernel,              4, "Inv(1+$0*SqDist($1,$2))*$3", "g,x,y,b|d(b)|b / (1 + r^2)")
SUGAR_OP(InverseMultiquadricKernel, 4, "Rsqrt(1+$0*SqDist($1,$2))*$3", "g,x,y,b|d(b)|b / sqrt(1 + r^2)")
SUGAR_OP(RationalQuadraticKernel,   5, "Powf(1+$0*SqDist($2,$3)/(2*$1),-$1)*$4",
  "g,a,x,y,b|d(b)|(1 + r^2 / (2a))^-a b")
SUGAR_OP(EnergyKernel,              3, "-Sqrt(SqDist($0,$1))*$2", "x,y,b|d(b)|minus the distance, times b")
SUGAR_OP(ThinPlateKernel,           3, "XLogX(SqDist($0,$1))/2*$2", "x,y,b|d(b)|D^2 log(D) b, D the distance")
SUGAR_OP(PeriodicKernel,            5, "Exp(-2*$0*Sum(Square(Sin(3.14159265358979323846*($2-$3)/$1))))*$4",
  "g,p,x,y,b|d(b)|exp(-2 g sum sin(pi (x - y) / p)^2) b")

WORD_OP(Pow,            1, 1, "F,n|d|F^n, n a whole number")
WORD_OP(Scalprod,       2, 0, "F,G|1|dot product, also written with a bar")
WORD_OP(WeightedSqNorm, 2, 0, "A,F|1|A sum F^2, sum A F^2 or F'AF for A of dimension 1, d or d^2")
WORD_OP(WeightedSqDist, 3, 0, "A,F,G|1|WeightedSqNorm(A, F - G)")
WORD_OP(SqNormIso,      2, 0, "A,F|1|A sum F^2, A of dimension 1")
WORD_OP(SqNormDiag,     2, 0, "A,F|1|sum A F^2, A of dimension d")
WORD_OP(SymSqNorm,      2, 0, "A,F|1|F'AF, A of dimension d^2")
WORD_OP(Round,          1, 1, "F,n|d|n decimals, halves away from 0")
WORD_OP(ClampInt,       1, 2, "F,m,n|d|Clamp to the whole numbers m and n")
WORD_OP(DiffClampInt,   1, 2, "F,m,n|d|slope of ClampInt: 1 inside, 0 outside")
WORD_OP(Factorize,      2, 0, "F,G|d|F; G is computed once, as it always is")
WORD_OP(AutoFactorize,  1, 0, "F|d|F; what is repeated is computed once, as it always is")
WORD_OP(OneHot,         1, 1, "F,n|n|1 at place F (from 0), else 0; all 0 for F outside")
WORD_OP(Max,            1, 0, "F|1|largest component")
WORD_OP(Min,            1, 0, "F|1|smallest component")
WORD_OP(ArgMax,         1, 0, "F|1|place of the largest component, from 0")
WORD_OP(ArgMin,         1, 0, "F|1|place of the smallest component, from 0")
WORD_OP(MatVecMult,     2, 0, "A,F|d(A) / d(F)|matrix A, row-major, times F")
WORD_OP(VecMatMult,     2, 0, "F,A|d(A) / d(F)|F times matrix A, row-major")
WORD_OP(TensorProd,     2, 0, "F,G|d(F) d(G)|F_k G_l, row-major")
WORD_OP(TensorDot,      2, -1,
  "F,G,[dims F],[dims G],[axes F],[axes G],[order]|kept axes|sum over pairs of axes of two row-major tensors; the order is optional")
WORD_OP(Kron,           2, -1, "F,G,[dims F],[dims G]|d(F) d(G)|Kronecker product of row-major tensors")
WORD_OP(DifferenceMatrix, 2, 0, "F,G|d(F) d(G)|F_k - G_l, row-major")
WORD_OP(BSpline,        2, 1, "A,F,n|d(A) - n - 1|B-splines of degree n on the knots A at F")
WORD_OP(SoftDTW_SqDist, 3, 0, "F,G,H|1|soft dynamic time warping of two series, smoothing H, squared differences")
WORD_OP(Real2Complex,   1, 0, "F|2 d|F + 0i")
WORD_OP(Imag2Complex,   1, 0, "F|2 d|0 + F i")
WORD_OP(ComplexReal,    1, 0, "F|d / 2|real parts")
WORD_OP(ComplexImag,    1, 0, "F|d / 2|imaginary parts")
WORD_OP(Conj,           1, 0, "F|d|conjugate")
WORD_OP(ComplexSquareAbs, 1, 0, "F|d / 2|squared modulus")
WORD_OP(ComplexAbs,     1, 0, "F|d / 2|modulus")
WORD_OP(ComplexAngle,   1, 0, "F|d / 2|argument, -pi to pi")
WORD_OP(ComplexSum,     1, 0, "F|2|sum of the complex components")
WORD_OP(ComplexSumT,    1, 1, "F,n|n|one complex number n / 2 times")
WORD_OP(ComplexAdd,     2, 0, "F,G|d|F + G")
WORD_OP(ComplexSubtract, 2, 0, "F,G|d|F - G")
WORD_OP(ComplexMult,    2, 0, "F,G|d|F G")
WORD_OP(ComplexScal,    2, 0, "F,G|d(G)|F G, F one complex number")
WORD_OP(ComplexRealScal, 2, 0, "F,G|d(G)|F G, F real")
WORD_OP(ComplexDivide,  2, 0, "F,G|d|F / G")
WORD_OP(ComplexExp,     1, 0, "F|d|e^F")
WORD_OP(ComplexExp1j,   1, 0, "F|2 d|e^(iF), F real")
WORD_OP(IntCst,         0, 1, "m|1|the whole number m")
WORD_OP(RatCst,         0, 2, "m,n|1|m / n")
WORD_OP(IntInv,         0, 1, "n|1|1 / n")
WORD_OP(Zero,           0, 1, "n|n|n zeros")
WORD_OP(Var,            0, 3,
  "m,n,k|n|argument number m (from 0) of dimension n and category k: 0 of i, 1 of j, 2 a parameter")
WORD_OP(Grad,           3, 0,
  "F,v,G|d(v)|of a reduction the true gradient in the variable v for the cotangent G; of a formula of pairs the same at each pair")
WORD_OP(Diff,           3, 0, "F,v,G|d(F)|differential in the direction G of v")
WORD_OP(GradMatrix,     2, 0, "F,v|d(F) d(v)|Jacobian, row-major")
WORD_OP(Divergence,     2, 0, "F,v|1|trace of the Jacobian")
WORD_OP(Laplacian,      2, 0, "F,v|1|divergence of the gradient of F of dimension 1")
WORD_OP(TraceOperator,  2, 0, "F,v|1|trace of F, linear in v")
WORD_OP(AdjointOperator, 3, 0, "F,v,G|d(v)|transpose of F, linear in v, applied to G")
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
