# Help page of the formula language. Its tables are made from the engine's own (src/engine/op_list.h), when
# `make document` runs; a test compares the page with them.

#' Read and write the formula language
#'
#' What the text of [keops_kernel()] may hold. F, G, H stand for formulas; d is the dimension of F, d(G) that of G;
#' m and n are whole numbers, v a variable, A a matrix or weights. Operands of an element-by-element operation have
#' equal dimensions, or 1. Whole numbers in the text (positions, sizes, axes) count from 0, as in KeOps.
#'
#' @section Variables and numbers:
#' Names declared in `args`; `Var(position, dimension, category)` with category 0 for i, 1 for j, 2 for a
#' parameter. Numbers as in R (`2`, `0.5`, `1e-3`).
#'
#' @section Operators, loosest first:
#' `< <= > >= == !=` (1 or 0), `F | G` (dot product), `+ -`, `* /`, unary `-`, `^` or `**` (from the right).
#'
#' @section Derivatives:
#' `Grad(F,v,G)` of a reduction is the true gradient in the variable v with cotangent G, summed over all that v
#' does not index; of a formula inside a reduction it is the derivative at each pair. At kinks: the slope of `Abs`
#' and of a norm at 0 is 0, of `ReLU` 1; a minimum or maximum passes its derivative to the first item or component
#' that attains it. The derivative in the order of `Polygamma`, `BesselK`, `Matern` and `MaternKernel` is an error.
#'
#' @section Kernels:
#' g is an inverse squared length scale, b weights, r = sqrt(g |x - y|^2). The kernel of any order is
#' \deqn{\frac{2^{1-\nu}}{\Gamma(\nu)} s^\nu K_\nu(s) b, \quad s = \sqrt{2 \nu}\, r.}{2^(1-nu)/Gamma(nu) s^nu K_nu(s) b, s = sqrt(2 nu) r.}
#' Its gradient is 0 where two points coincide.
#'
#' @section Reductions:
#' Axis 1 reduces over j and gives one row an i, axis 0 reduces over i and gives one row a j. G are weights of any
#' dimension, with which F has dimension 1. Minima, maxima and the least skip `NaN`; equal items count in their order; an
#' index is `NA` where no item is left. Reductions may stand inside formulas. A table of them ends this page.
#'
#' @eval language_tables()
#' @name keops_formula
#' @references
#' Temme, N. M. (1975). On the numerical evaluation of the modified Bessel function of the third kind. *Journal of
#' Computational Physics*, 19, 324-337.
#' @seealso [keops_kernel()], [keops_grad()], `vignette("formulas", package = "keops")`
#' @examples
#' # three operations in one reduction
#' op <- keops_kernel("Sum_Reduction(Matern32Kernel(g, x, y, b), 1)",
#'                    c("g=Pm(1)", "x=Vi(2)", "y=Vj(2)", "b=Vj(1)"))
#' op(list(1, matrix(0, 1, 2), matrix(c(0, 3, 0, 4), 2), c(1, 1)))
NULL

# The operations as a data frame: group, name, use, dim, value, slope (derivatives of those that go element
# by element, one an operand).
language_operations <- function() {
  ops <- engine_operations()
  about <- strsplit(ops$about, "|", fixed = TRUE)
  scalar <- ops$kind == "scalar"
  operands <- c("F", "F,G", "F,G,H")[pmax(ops$arity, 1L)]
  data.frame(
    group = language_group(ops$name, scalar),
    name = ops$name,
    use = paste0(ops$name, "(", ifelse(scalar, operands, vapply(about, `[`, "", 1L)), ")"),
    dim = ifelse(scalar, "d", vapply(about, `[`, "", 2L)),
    value = ifelse(scalar, ops$about, vapply(about, `[`, "", 3L)),
    slope = vapply(seq_along(scalar), function(k) {
      if (scalar[k]) slope_text(ops$deriv[k, seq_len(ops$arity[k])]) else ""
    }, ""),
    stringsAsFactors = FALSE
  )
}

language_groups <- c("Operations element by element", "Sums, distances, matrices, tensors, constants",
                     "Complex numbers (re, im, re, im, ...)", "Words for derivatives", "Kernel words")

language_group <- function(name, scalar) {
  group <- rep(language_groups[2], length(name))
  group[grepl("Complex|^Conj$", name)] <- language_groups[3]
  group[grepl("^(Grad|Diff|GradMatrix|Divergence|Laplacian|TraceOperator|AdjointOperator)$", name)] <- language_groups[4]
  group[grepl("Kernel$", name)] <- language_groups[5]
  group[scalar] <- language_groups[1]
  group
}

# Rules in $0 $1 $2 as formulas in F, G, H.
slope_text <- function(rules) {
  rules[rules == ""] <- "0"
  rules[rules == "?"] <- "error"
  for (k in 0:2) rules <- gsub(paste0("$", k), c("F", "G", "H")[k + 1L], rules, fixed = TRUE)
  paste(rules, collapse = "; ")
}

# The reductions as a data frame: use, value.
language_reductions <- function() {
  table <- engine_reduction_table()
  data.frame(use = paste0(table$name, "_Reduction(", table$operands, ")"), value = table$about, stringsAsFactors = FALSE)
}

# ---- as a help page ----

language_tables <- function() {
  ops <- language_operations()
  sections <- vapply(language_groups, function(group) {
    shown <- ops[ops$group == group, ]
    if (group == language_groups[1]) {
      return(rd_table(group, c("operation", "value", "derivative in each operand"), shown$use, shown$value, shown$slope))
    }
    rd_table(group, c("operation", "dimension", "value"), shown$use, shown$dim, shown$value)
  }, "")
  reductions <- language_reductions()
  c("@rawRd", sections, rd_table("Table of reductions", c("reduction", "value"), reductions$use, reductions$value))
}

# A section with one table; the first column is code.
rd_table <- function(title, heads, code, ...) {
  rows <- do.call(paste, c(list(paste0("\\code{", rd_text(code), "}")), lapply(list(...), rd_text), sep = " \\tab "))
  head <- paste0("\\strong{", heads, "}", collapse = " \\tab ")
  paste0("\\section{", title, "}{\n\\tabular{", strrep("l", length(heads)), "}{\n",
         paste0(c(head, rows), collapse = " \\cr\n"), "\n}\n}")
}

rd_text <- function(x) gsub("([\\\\%{}])", "\\\\\\1", x)
