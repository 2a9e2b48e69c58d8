# Covariance functions: made by users, laid out for data, evaluated and differentiated densely.
#
# A covariance is a tree. Leaves hold a type, its form and values (NULL: to be estimated); `+` and `*` hold two children.
# lay_out() gives each parameter a place in one vector; cov_matrix() and cov_slopes() read them from there.

#' Choose a covariance function
#'
#' Building blocks for [keops_gp()]. With h the distance of two points, r the `range` and v the `variance`:
#' \describe{
#'   \item{`cov_gaussian()`}{\eqn{v \exp(-h^2 / (2 r^2))}{v exp(-h^2 / (2 r^2))}}
#'   \item{`cov_exponential()`}{\eqn{v \exp(-h / r)}{v exp(-h / r)}, the same as `cov_matern(nu = 0.5)`}
#'   \item{`cov_matern(nu = 1.5)`}{\eqn{v (1 + \sqrt{3} h/r) \exp(-\sqrt{3} h/r)}{v (1 + sqrt(3) h/r) exp(-sqrt(3) h/r)}}
#'   \item{`cov_matern(nu = 2.5)`}{\eqn{v (1 + \sqrt{5} h/r + 5 h^2 / (3 r^2)) \exp(-\sqrt{5} h/r)}{v (1 + s + s^2/3)
#'     exp(-s), s = sqrt(5) h/r}}
#'   \item{`cov_spherical()`}{\eqn{v (1 - 3h/(2r) + h^3/(2r^3))}{v (1 - 3h/(2r) + h^3/(2r^3))} for h < r, else 0}
#'   \item{`cov_rational_quadratic()`}{\eqn{v (1 + h^2 / (2 \alpha r^2))^{-\alpha}}{v (1 + h^2 / (2 alpha r^2))^(-alpha)}}
#'   \item{`cov_periodic()`}{\eqn{v \exp(-2 \sum_k \sin^2(\pi d_k / p) / r^2)}{v exp(-2 sum_k sin^2(pi d_k / p) / r^2)}, a product over
#'     the columns (of the distance h alone it is no covariance from two columns on)}
#'   \item{`cov_linear()`}{\eqn{v \sum_k x_k y_k}{v sum_k x_k y_k}}
#'   \item{`cov_formula()`}{v times a formula in x and y of the language [keops_formula], with parameters by name}
#' }
#' Covariances are added (`k1 + k2`), multiplied (`k1 * k2`) and multiplied by a positive number (`2 * k`).
#'
#' @param range,variance,alpha,period Numbers fix a parameter, `NULL` leaves it to be estimated. `range` (and `period`) is in
#'   the unit of the inputs: one number, or with `ard = TRUE` one for each column. In a product of covariances only
#'   the first variance is estimated, as only their product matters; the others are 1 unless given.
#' @param ard One range for each column of the inputs, h then being the distance after each is divided by its range.
#' @param form `"radial"`: a function of the distance. `"product"`: the product over the columns of the function of the distance
#'   in each (DiceKriging's kernels are of this form).
#' @param nu Smoothness: 0.5, 1.5 or 2.5.
#' @param text A formula in x and y, such as `"Exp(-Norm2(x-y)/range)"`. It should be symmetric and positive definite.
#' @param ... Parameters of the formula, by name: positive numbers (a vector is a parameter of that dimension), or `NULL` to
#'   estimate one number.
#'
#' @return An object of class `keops_cov`, printed as the expression that makes it.
#'
#' @section Errors: `keops_error_input` for wrong values.
#'
#' @references
#' Rasmussen, C. E., Williams, C. K. I. (2006). *Gaussian Processes for Machine Learning*. MIT Press, chapter 4.
#'
#' @examples
#' cov_matern(nu = 1.5, range = 300)
#' cov_gaussian() + cov_exponential(range = 10)
#' cov_periodic(period = 12) * cov_gaussian()
#' cov_formula("Exp(-Norm2(x-y)/a)", a = NULL)
#' @name cov_gaussian
#' @export
cov_gaussian <- function(range = NULL, variance = NULL, ard = FALSE, form = c("radial", "product")) {
  new_leaf("gaussian", sys.call(), list(variance = variance, range = range), ard, form)
}

#' @rdname cov_gaussian
#' @export
cov_exponential <- function(range = NULL, variance = NULL, ard = FALSE, form = c("radial", "product")) {
  new_leaf("exponential", sys.call(), list(variance = variance, range = range), ard, form)
}

#' @rdname cov_gaussian
#' @export
cov_matern <- function(nu = 2.5, range = NULL, variance = NULL, ard = FALSE, form = c("radial", "product")) {
  call <- sys.call()
  type <- if (is.numeric(nu) && length(nu) == 1L) c("exponential", "matern32", "matern52")[match(nu, c(0.5, 1.5, 2.5))] else NA
  if (is.na(type)) stop_input("`nu`", show_value(nu), "0.5, 1.5 or 2.5", call)
  new_leaf(type, call, list(variance = variance, range = range), ard, form)
}

#' @rdname cov_gaussian
#' @export
cov_spherical <- function(range = NULL, variance = NULL, ard = FALSE, form = c("radial", "product")) {
  new_leaf("spherical", sys.call(), list(variance = variance, range = range), ard, form)
}

#' @rdname cov_gaussian
#' @export
cov_rational_quadratic <- function(range = NULL, variance = NULL, alpha = NULL, ard = FALSE, form = c("radial", "product")) {
  new_leaf("rational_quadratic", sys.call(), list(variance = variance, range = range, alpha = alpha), ard, form)
}

#' @rdname cov_gaussian
#' @export
cov_periodic <- function(range = NULL, period = NULL, variance = NULL, ard = FALSE) {
  new_leaf("periodic", sys.call(), list(variance = variance, range = range, period = period), ard, "product")
}

#' @rdname cov_gaussian
#' @export
cov_linear <- function(variance = NULL) {
  new_leaf("linear", sys.call(), list(variance = variance), FALSE, "radial")
}

#' @rdname cov_gaussian
#' @export
cov_formula <- function(text, ..., variance = NULL) {
  call <- sys.call()
  if (missing(text)) text <- NULL
  check_text(text, "`text`", call)
  values <- list(...)
  labels <- if (is.null(names(values))) character(length(values)) else names(values)
  bad <- labels == "" | labels %in% c("x", "y", "variance") | !grepl("^[A-Za-z][A-Za-z0-9_]*$", labels) | duplicated(labels)
  if (any(bad)) {
    stop_input("`...`", if (nzchar(labels[bad][1L])) quote_names(labels[bad][1L]) else "a parameter without a name",
               "parameters by names of letters and digits, each once, other than x and y", call)
  }
  if (grepl("\\b(Var|Vi|Vj|Pm)\\s*\\(", text)) stop_input("`text`", show_value(text), "x, y and parameters by their names", call)
  new_leaf("formula", call, c(list(variance = variance), values), FALSE, "radial", text = text)
}

kernel_names <- c("gaussian", "exponential", "matern32", "matern52", "spherical", "rational_quadratic", "periodic", "linear")

new_leaf <- function(type, call, values, ard, form, text = NULL) {
  form <- take_choice(form, c("radial", "product"), "form", call)
  ard <- take_flag(ard, "ard", call)
  for (name in names(values)) check_parameter(values[[name]], name, name %in% c("range", "period") || type == "formula", call)
  structure(class = "keops_cov", list(op = "leaf", type = type, form = form, ard = ard, values = values, text = text))
}

check_parameter <- function(value, name, vector, call) {
  if (is.null(value)) return(invisible())
  ok <- is.numeric(value) && length(value) >= 1L && (vector || length(value) == 1L) && all(is.finite(value)) &&
    all(if (name == "variance") value >= 0 else value > 0)
  if (!ok) {
    stop_input(quote_names(name), show_value(value),
               paste0(if (vector) "positive numbers" else "one positive number", ", or NULL to estimate it"), call)
  }
}

#' @export
Ops.keops_cov <- function(e1, e2) {
  call <- sys.call()
  if (!.Generic %in% c("+", "*") || missing(e2)) {
    stop_input(paste0("`", .Generic, "`"), "a covariance", "covariances with `+` and `*` between them, or a positive number times one", call)
  }
  if (!inherits(e1, "keops_cov") || !inherits(e2, "keops_cov")) {
    number <- if (inherits(e1, "keops_cov")) e2 else e1
    if (.Generic == "+") stop_input("`+`", describe(number), "two covariances", call)
    number <- take_number(number, "number times a covariance", call, low = 0, strict = TRUE)
    leaf <- structure(class = "keops_cov", list(op = "number", number = number))
    if (inherits(e1, "keops_cov")) e2 <- leaf else e1 <- leaf
  }
  structure(class = "keops_cov", list(op = .Generic, children = list(e1, e2)))
}

#' @export
print.keops_cov <- function(x, ...) {
  cat("<keops_cov> ", cov_text(x), "\n", sep = "")
  invisible(x)
}

#' @export
format.keops_cov <- function(x, ...) cov_text(x)

cov_text <- function(node) {
  if (node$op == "number") return(format(node$number))
  if (node$op == "leaf") {
    values <- node$values[!vapply(node$values, is.null, NA)]
    shown <- vapply(names(values), function(n) paste0(n, " = ", paste(format(values[[n]], digits = 4L, trim = TRUE), collapse = ", ")), "")
    inside <- c(if (node$type == "formula") paste0("\"", node$text, "\""), shown, if (node$ard) "ard",
                if (node$form == "product" && node$type != "periodic") "product form")
    return(paste0(node$type, "(", paste(inside, collapse = ", "), ")"))
  }
  parts <- vapply(node$children, function(child) {
    if (node$op == "*" && child$op == "+") paste0("(", cov_text(child), ")") else cov_text(child)
  }, "")
  paste(parts, collapse = paste0(" ", node$op, " "))
}

# A covariance from its name or itself.
take_kernel <- function(kernel, call) {
  if (inherits(kernel, "keops_cov")) return(kernel)
  if (is.character(kernel) && length(kernel) == 1L && kernel %in% kernel_names) {
    values <- switch(kernel, linear = "variance", rational_quadratic = c("variance", "range", "alpha"),
                     periodic = c("variance", "range", "period"), c("variance", "range"))
    values <- sapply(values, function(name) NULL, simplify = FALSE)
    form <- if (kernel == "periodic") "product" else "radial"
    return(new_leaf(kernel, call, values, FALSE, form))
  }
  stop_input("`kernel`", show_value(kernel),
             paste0("one of ", paste0("\"", kernel_names, "\"", collapse = ", "), ", or a covariance made by cov_*()"), call)
}

# ---- layout ----

# list(node, table): node with `at`, the places of its parameters; table, a row a parameter: name, kind, column (of the
# inputs; 0: all), value (NA: to be estimated).
lay_out <- function(cov, columns, call) {
  d <- length(columns)
  rows <- list()
  leaves <- count_leaves(cov)
  leaf_number <- 0L
  add <- function(name, kind, column, value) {
    if (leaves > 1L) name <- paste0("k", leaf_number, ".", name)
    rows[[length(rows) + 1L]] <<- list(name = name, kind = kind, column = column, value = as.double(value))
    length(rows)
  }
  place <- function(node, free) {
    if (node$op == "number") return(node)
    if (node$op == "+") {
      node$children <- lapply(node$children, place, free = free)
      return(node)
    }
    if (node$op == "*") {
      for (k in 1:2) {
        node$children[[k]] <- place(node$children[[k]], free)
        if (node$children[[k]]$op != "number") free <- FALSE
      }
      return(node)
    }
    leaf_number <<- leaf_number + 1L
    if (node$type == "spherical" && node$form == "radial" && d > 3L) {
      stop_input("`kernel`", paste("a spherical covariance of", d, "inputs"),
                 "at most 3 inputs (it is no covariance for more), or form = \"product\"", call)
    }
    node$at <- list()
    for (name in names(node$values)) {
      value <- node$values[[name]]
      if (is.null(value)) value <- if (name == "variance" && !free) 1 else NA
      by_column <- node$ard && name %in% c("range", "period") && (name == "range" || length(value) > 1L)
      if (by_column) {
        if (length(value) == 1L) value <- rep(value, d)
        if (length(value) != d) {
          stop_input(quote_names(name), paste(length(value), "numbers"), paste0("one, or ", d, ", one a column"), call)
        }
        node$at[[name]] <- vapply(seq_len(d), function(k) add(paste0(name, ".", columns[k]), name, k, value[k]), 0L)
      } else {
        if (length(value) > 1L && node$type != "formula") {
          stop_input(quote_names(name), paste(length(value), "numbers"), "one number, or ard = TRUE for one a column", call)
        }
        labels <- if (length(value) > 1L) paste0(name, seq_along(value)) else name
        kind <- if (node$type == "formula" && !name %in% c("range", "variance")) "formula" else name
        node$at[[name]] <- vapply(seq_along(value), function(k) add(labels[k], kind, 0L, value[k]), 0L)
      }
    }
    node
  }
  node <- place(cov, TRUE)
  table <- do.call(rbind, lapply(rows, as.data.frame))
  list(node = node, table = table)
}

count_leaves <- function(node) {
  switch(node$op, leaf = 1L, number = 0L, sum(vapply(node$children, count_leaves, 0L)))
}

# The covariance with numbers for all its parameters.
fill_values <- function(node, par) {
  if (node$op == "leaf") {
    for (name in names(node$at)) node$values[[name]] <- par[node$at[[name]]]
    node$at <- NULL
  } else if (node$op != "number") {
    node$children <- lapply(node$children, fill_values, par = par)
  }
  node
}

# ---- dense values ----

# k(x_a, y_b), nrow(x) x nrow(y).
cov_matrix <- function(node, x, y, par) {
  switch(node$op,
    number = matrix(node$number, nrow(x), nrow(y)),
    `+` = cov_matrix(node$children[[1L]], x, y, par) + cov_matrix(node$children[[2L]], x, y, par),
    `*` = cov_matrix(node$children[[1L]], x, y, par) * cov_matrix(node$children[[2L]], x, y, par),
    leaf = par[node$at$variance] * correlation(node, x, y, par)
  )
}

# k(x_a, x_a).
cov_diagonal <- function(node, x, par) {
  switch(node$op,
    number = rep(node$number, nrow(x)),
    `+` = cov_diagonal(node$children[[1L]], x, par) + cov_diagonal(node$children[[2L]], x, par),
    `*` = cov_diagonal(node$children[[1L]], x, par) * cov_diagonal(node$children[[2L]], x, par),
    leaf = par[node$at$variance] * switch(node$type,
      linear = rowSums(x^2),
      formula = formula_diagonal(node, x, par),
      rep(1, nrow(x))
    )
  )
}

# sum(m * dK / dlog(par)) for all parameters, K = cov_matrix(node, x, x, par); m is symmetric. Adds to `out`.
cov_slopes <- function(node, m, x, par, out = numeric(length(par))) {
  switch(node$op,
    number = out,
    `+` = cov_slopes(node$children[[2L]], m, x, par, cov_slopes(node$children[[1L]], m, x, par, out)),
    `*` = {
      a <- node$children[[1L]]
      b <- node$children[[2L]]
      out <- cov_slopes(a, m * cov_matrix(b, x, x, par), x, par, out)
      cov_slopes(b, m * cov_matrix(a, x, x, par), x, par, out)
    },
    leaf = leaf_slopes(node, par[node$at$variance] * m, x, par, out)
  )
}

correlation <- function(node, x, y, par) {
  switch(node$type,
    linear = tcrossprod(x, y),
    formula = formula_matrix(node, x, y, par),
    periodic = exp(-2 * Reduce(`+`, lapply(seq_len(ncol(x)), function(k) periodic_part(node, x, y, par, k)$square))),
    if (node$form == "product") {
      Reduce(`*`, lapply(seq_len(ncol(x)), function(k) {
        profile(node, abs(outer(x[, k], y[, k], "-")) / column_par(node, "range", par, k), par)
      }))
    } else {
      profile(node, scaled_distance(node, x, y, par), par)
    }
  )
}

leaf_slopes <- function(node, m, x, par, out) {
  at <- node$at
  if (node$type == "formula") return(formula_slopes(node, m, x, par, out))
  cor <- correlation(node, x, x, par)
  add <- function(out, place, value) replace(out, place, out[place] + value)
  out <- add(out, at$variance, sum(m * cor))
  if (node$type == "linear") return(out)
  if (node$type == "periodic") {
    m <- m * cor
    for (k in seq_len(ncol(x))) {
      part <- periodic_part(node, x, x, par, k)
      out <- add(out, column_at(at$range, k), 4 * sum(m * part$square))
      out <- add(out, column_at(at$period, k), 4 * sum(m * part$turn))
    }
    return(out)
  }
  if (node$form == "product") {
    for (k in seq_len(ncol(x))) {
      others <- m
      for (l in seq_len(ncol(x))[-k]) {
        others <- others * profile(node, abs(outer(x[, l], x[, l], "-")) / column_par(node, "range", par, l), par)
      }
      u <- abs(outer(x[, k], x[, k], "-")) / column_par(node, "range", par, k)
      out <- add(out, column_at(at$range, k), -sum(others * profile_slope(node, u, par)))
      if (!is.null(at$alpha)) out <- add(out, at$alpha, sum(others * alpha_slope(node, u, par)))
    }
    return(out)
  }
  u <- scaled_distance(node, x, x, par)
  if (!is.null(at$alpha)) out <- add(out, at$alpha, sum(m * alpha_slope(node, u, par)))
  m <- m * profile_slope(node, u, par)
  if (length(at$range) == 1L) return(add(out, at$range, -sum(m)))
  m <- m / replace(u, u == 0, 1)^2 # no slope between coinciding points
  for (k in seq_len(ncol(x))) {
    r <- par[at$range[k]]
    out <- add(out, at$range[k], -sum(m * outer(x[, k] / r, x[, k] / r, "-")^2))
  }
  out
}

column_at <- function(at, k) if (length(at) > 1L) at[k] else at
column_par <- function(node, name, par, k) par[column_at(node$at[[name]], k)]

scaled_distance <- function(node, x, y, par) {
  square <- matrix(0, nrow(x), nrow(y))
  for (k in seq_len(ncol(x))) {
    r <- column_par(node, "range", par, k)
    square <- square + outer(x[, k] / r, y[, k] / r, "-")^2
  }
  sqrt(square)
}

# The correlation at scaled distance u (numbers, or a lazy matrix), and u times its derivative.
profile <- function(node, u, par) {
  switch(node$type,
    gaussian = exp(-u^2 / 2),
    exponential = exp(-u),
    matern32 = { s <- sqrt(3) * u; (1 + s) * exp(-s) },
    matern52 = { s <- sqrt(5) * u; (1 + s + s^2 / 3) * exp(-s) },
    spherical = { u <- keops_pmin(u, 1); 1 - 1.5 * u + 0.5 * u^3 },
    rational_quadratic = { a <- par[node$at$alpha]; exp(-a * log1p(u^2 / (2 * a))) }
  )
}

profile_slope <- function(node, u, par) {
  switch(node$type,
    gaussian = -u^2 * exp(-u^2 / 2),
    exponential = -u * exp(-u),
    matern32 = { s <- sqrt(3) * u; -s^2 * exp(-s) },
    matern52 = { s <- sqrt(5) * u; -s^2 * (1 + s) / 3 * exp(-s) },
    spherical = { u <- pmin(u, 1); 1.5 * (u^3 - u) },
    rational_quadratic = { a <- par[node$at$alpha]; -u^2 * exp(-(a + 1) * log1p(u^2 / (2 * a))) }
  )
}

# d / dlog(alpha)
alpha_slope <- function(node, u, par) {
  a <- par[node$at$alpha]
  q <- u^2 / (2 * a)
  a * exp(-a * log1p(q)) * (q / (1 + q) - log1p(q))
}

# Of one column: sin^2(t) / r^2 and its -dlog(period) / 1, t = pi d / p.
periodic_part <- function(node, x, y, par, k) {
  r <- column_par(node, "range", par, k)
  t <- pi * outer(x[, k], y[, k], "-") / column_par(node, "period", par, k)
  list(square = sin(t)^2 / r^2, turn = sin(t) * cos(t) * t / r^2)
}

# ---- the lazy matrix ----

# k(x_a, y_b) as a lazy matrix, nrow(x) x nrow(y).
lazy_cov <- function(node, x, y, par) {
  switch(node$op,
    number = node$number,
    `+` = lazy_cov(node$children[[1L]], x, y, par) + lazy_cov(node$children[[2L]], x, y, par),
    `*` = lazy_cov(node$children[[1L]], x, y, par) * lazy_cov(node$children[[2L]], x, y, par),
    leaf = par[node$at$variance] * lazy_correlation(node, x, y, par)
  )
}

lazy_correlation <- function(node, x, y, par) {
  range <- par[node$at$range]
  scaled <- function(v) if (length(range) > 0L) v / rep(range, each = nrow(v), length.out = length(v)) else v
  gap <- function() Vi(scaled(x)) - Vj(scaled(y))
  switch(node$type,
    linear = Vi(x) | Vj(y),
    formula = lazy_formula(node, x, y, par),
    periodic = exp(-2 * sum((sin((Vi(x) - Vj(y)) * (pi / par[node$at$period])) / range)^2, "inner")),
    if (node$form == "product") {
      u <- abs(gap())
      Reduce(`*`, lapply(seq_len(ncol(x)), function(k) profile(node, elem(u, k), par)))
    } else {
      profile(node, sqrt(sqdist(Vi(scaled(x)), Vj(scaled(y)))), par)
    }
  )
}

lazy_formula <- function(node, x, y, par) {
  labels <- setdiff(names(node$at), "variance")
  variables <- c(list(x = leaf_node(x, 0L), y = leaf_node(y, 1L)), lapply(node$at[labels], function(at) leaf_node(par[at], 2L)))
  # a formula may be constant in x or y: they are there all the same
  new_lazy(text_node(paste0("(", node$text, ")+0*(Elem(x,0)+Elem(y,0))"), variables, 1L))
}

# ---- formulas, by the engine ----

# Columns are answered in blocks: y_j carries a unit vector, so that row i of the sum is k(x_i, y_1), k(x_i, y_2), ...
formula_block <- 64L

formula_operator <- function(node, d, width) {
  declared <- formula_variables(node, c("Vi", "Vj"), d)
  declared <- append(declared, sprintf("unit_=Vj(%d)", width), 2L)
  new_operator(paste0("Sum_Reduction((", node$text, ")*unit_,1)"), declared, list(precision = "double"), NULL)
}

# Declarations of x and y, in the categories `of`, and of the parameters.
formula_variables <- function(node, of, d) {
  labels <- setdiff(names(node$at), "variance")
  c(sprintf("%s=%s(%d)", c("x", "y"), of, d), if (length(labels) > 0L) sprintf("%s=Pm(%d)", labels, lengths(node$at[labels])))
}

formula_components <- function(node, d) {
  engine_formula(paste0("Sum_Reduction(", node$text, ",1)"), formula_variables(node, c("Vi", "Vj"), d))$info$out_dim
}

formula_parameters <- function(node, par) {
  unname(lapply(node$at[setdiff(names(node$at), "variance")], function(at) par[at]))
}

formula_matrix <- function(node, x, y, par) {
  out <- matrix(0, nrow(x), nrow(y))
  for (at in formula_blocks(nrow(y))) {
    op <- formula_operator(node, ncol(x), length(at))
    out[, at] <- op(c(list(unname(x), unname(y[at, , drop = FALSE]), diag(length(at))), formula_parameters(node, par)))
  }
  out
}

formula_diagonal <- function(node, x, par) {
  op <- new_operator(paste0("Sum_Reduction(", node$text, ",1)"), formula_variables(node, c("Vi", "Vi"), ncol(x)), list(precision = "double"), NULL)
  op(c(list(unname(x), unname(x)), formula_parameters(node, par)))[, 1L]
}

formula_slopes <- function(node, m, x, par, out) {
  labels <- setdiff(names(node$at), "variance")
  for (at in formula_blocks(nrow(x))) {
    op <- formula_operator(node, ncol(x), length(at))
    data <- c(list(unname(x), unname(x[at, , drop = FALSE]), diag(length(at))), formula_parameters(node, par))
    out[node$at$variance] <- out[node$at$variance] + sum(m[, at] * op(data))
    for (label in labels) {
      place <- node$at[[label]]
      out[place] <- out[place] + keops_grad(op, label)(c(data, list(m[, at, drop = FALSE]))) * par[place]
    }
  }
  out
}

formula_blocks <- function(n) row_blocks(n, 1, formula_block)
