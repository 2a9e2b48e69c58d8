# Distances between points that searches and clustering know, as text for the engine.

# `text` is what is reduced, of x (i) and y (j); `finish` makes a distance of it; `bound` is the largest value of
# `text` whose distance is still within a radius; `prepare` is done to the rows of both sides first; `degree` is the power with
# which `text` grows as the data do.
metrics <- list(
  euclidean = list(text = "SqDist(x,y)", finish = sqrt, bound = function(radius) square_bound(radius), degree = 2L),
  manhattan = list(text = "Sum(Abs(x-y))", degree = 1L),
  maximum = list(text = "Max(Abs(x-y))", degree = 1L),
  # |u - v|^2 / 2 = 1 - cos for unit vectors, and exactly 0 for a point and itself
  cosine = list(text = "SqDist(x,y)/2", prepare = function(x, arg, call) unit_rows(x, arg, call)),
  correlation = list(text = "SqDist(x,y)/2", prepare = function(x, arg, call) standard_rows(x, arg, call))
)

# A metric by its name, or by its formula in the language of operators.
take_metric <- function(metric, call, known = names(metrics), formulas = TRUE) {
  if (is.character(metric) && length(metric) == 1L && !is.na(metric)) {
    word <- grepl("^[A-Za-z_.]*$", metric)
    if (metric %in% known || (formulas && !word)) {
      entry <- if (metric %in% known) metrics[[metric]] else list(text = paste0("(", metric, ")"))
      plain <- list(finish = identity, bound = identity, prepare = function(x, arg, call) x, name = metric)
      return(replace_settings(plain, entry))
    }
  }
  stop_input("`metric`", show_value(metric),
             paste0("one of ", paste0("\"", known, "\"", collapse = ", "),
                    if (formulas) ", or a formula of x and y such as \"Sum(Abs(x-y))\""), call)
}

# The reduction `name` of the distance between x (i) and y (j), with its arguments, as an operator.
metric_operator <- function(metric, name, d, call, between = "", settings = list(), more = character()) {
  declared <- c(sprintf(c("x=Vi(%d)", "y=Vj(%d)"), d), more)
  # one component, or the reductions below would answer for each of several
  entry <- engine_formula(paste0("Min_Reduction(", metric$text, ",1)"), declared[1:2], call)
  if (entry$info$out_dim != 1L) {
    stop_input("`metric`", paste0("\"", metric$name, "\", which has ", entry$info$out_dim, " components"),
               "a formula with one, the distance", call)
  }
  text <- gsub("%s", metric$text, name, fixed = TRUE)
  new_operator(text, declared, settings, call)
}

# list(metric, scale): the metric for the data after they are multiplied by scale, a power of two (so it changes no digit). Data of
# a size near 1 stay as they are; of others squares would overflow, or vanish.
scale_metric <- function(metric, ...) {
  largest <- max(0, vapply(list(...), function(x) if (length(x) > 0L) max(abs(base::range(x))) else 0, 0))
  if (is.null(metric$degree) || largest == 0 || (largest > 2^-40 && largest < 2^40)) return(list(metric = metric, scale = 1))
  scale <- 2^-max(-1000, min(1000, floor(log2(largest))))
  scaled <- metric
  scaled$finish <- function(value) metric$finish(value) / scale
  scaled$bound <- function(radius) metric$bound(radius * scale)
  list(metric = scaled, scale = scale)
}

# Rows i of query and j of x (scaled) that differ, but by so little beside the largest numbers that the square of it is lost.
check_resolved <- function(value, i, j, query, x, metric, precision, call) {
  if (!identical(metric$degree, 2L) || precision == "single") return(invisible())
  tiny <- which(value < 2^-1000)
  for (at in row_blocks(length(tiny), ncol(x))) {
    pair <- tiny[at]
    bad <- pair[rowSums(query[i[pair], , drop = FALSE] != x[j[pair], , drop = FALSE]) > 0]
    if (length(bad) > 0L) {
      stop_input("`x`", paste0("a row, ", format_count(j[bad[1L]]), ", that differs from another point by less than 1e-150 times the largest number"),
                 "differences whose squares can be told from 0, or metric = \"manhattan\"", call)
    }
  }
}

# The largest t with sqrt(t) <= radius, so that comparing squares is comparing distances.
square_bound <- function(radius) {
  t <- radius^2
  if (t == 0 || !is.finite(t)) return(t)
  step <- 2^-53 * (1 + 2^-10) # t (1 + step), made as a sum, is rounded to the next number
  while (sqrt(t + t * step) <= radius) t <- t + t * step
  while (sqrt(t) > radius) t <- t - t * step
  t
}

unit_rows <- function(x, arg, call) {
  big <- row_maxima(abs(x))
  zero <- which(big == 0)
  if (length(zero) > 0L) stop_no_direction(zero, arg, "zero", "cosine", call)
  x <- x / big
  x / sqrt(rowSums(x^2))
}

standard_rows <- function(x, arg, call) {
  constant <- which(rowSums(x != x[, 1L]) == 0)
  if (length(constant) > 0L) stop_no_direction(constant, arg, "constant", "correlation", call)
  x <- x / row_maxima(abs(x))
  unit_rows(x - rowMeans(x), arg, call)
}

row_maxima <- function(x) {
  if (nrow(x) == 0L) return(numeric())
  x[cbind(seq_len(nrow(x)), max.col(x, "first"))]
}

stop_no_direction <- function(rows, arg, what, metric, call) {
  stop_input(quote_names(arg),
             paste0("row ", format_count(rows[1L]), " that is ", what,
                    if (length(rows) > 1L) paste0(" (and ", format_count(length(rows) - 1L), " more)")),
             paste0("rows that are not ", what, ": the ", metric, " of such a row is not defined"), call)
}
