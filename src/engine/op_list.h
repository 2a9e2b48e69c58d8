/* ONE ROW AN OPERATION.
 *
 * SCALAR_OP(name, arity, cost, value, derivatives, domains)    element by element; operands of equal
 *   dimension, or 1. The formula calls it by `name`.
 *     cost         nanoseconds per 16 elements, roughly: the cost model's only knowledge of it
 *     value        C expression in a, b, c, as tokens and not a string: the interpreter compiles it for
 *                  each vector width, the emitters print it (#value). a, b, c are vectors on the CPU,
 *                  scalars on the GPU, so: choose by k_select(mask, yes, no), not ?:; a constant is K(0.5)
 *     derivatives  D(one formula an argument), in our own language, $0 $1 $2 the operands; N_ "no
 *                  derivative": the cotangent stops
 *     domains      X(low, high): where the table test draws each argument
 *
 * FUSED_OP(name, arity, cost, value)    made by the plan only, never parsed, never differentiated.
 *
 * VECTOR_OP(name, arity, ints)          moves, sums or packs components: its functions are in op_vector.c.
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

/* exp(a - b), 0 where a is -Inf whatever b is: an item's share in a LogSumExp */
SCALAR_OP(ExpSub,      2, 6,  k_select(a == K(-K_INF), k_set(0), k_exp(a - b)), D("ExpSub($0,$1)", "-ExpSub($0,$1)"), X_(X(-2, 2), X(-2, 2)))

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

WORD_OP(Pow,            1, 1)
WORD_OP(Scalprod,       2, 0)
WORD_OP(WeightedSqNorm, 2, 0)
WORD_OP(WeightedSqDist, 3, 0)
WORD_OP(IntCst,         0, 1)
WORD_OP(RatCst,         0, 2)
WORD_OP(IntInv,         0, 1)
WORD_OP(Zero,           0, 1)
WORD_OP(Var,            0, 3)
WORD_OP(Grad,           3, 0)
/* clang-format on */

#undef SCALAR_OP
#undef FUSED_OP
#undef VECTOR_OP
#undef SUGAR_OP
#undef WORD_OP
#undef D
#undef N_
#undef X
#undef X_
