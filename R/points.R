# The input gate of models and searches: points in rows. Stricter than that of operators (args.R): every value
# is finite, and columns of new data are found by name.

# x as a double matrix with the row names its owner gave it (automatic ones of data frames don't count).
# A numeric vector is one column.
as_points <- function(x, arg, call) {
  expected <- "numbers: a numeric matrix, vector or data frame, one row a point"
  if (length(dim(x)) > 2L) stop_input(quote_names(arg), describe(x), expected, call)
  x <- as_numbers(x, quote_names(arg), call, expected)
  if (length(dim(x)) == 2L) x else one_column(x)
}

# as_points() of data that a model or a search stands on: at least one row and column, all values finite.
take_points <- function(x, arg, call, min_rows = 1L) {
  x <- as_points(x, arg, call)
  if (ncol(x) < 1L || nrow(x) < min_rows) {
    stop_input(quote_names(arg), describe(x), "a matrix with at least one column and one row", call)
  }
  check_finite(x, arg, call)
  x
}

check_finite <- function(x, arg, call) {
  if (is.finite(sum(x))) return(invisible()) # no value can be hidden in a finite sum
  bad <- which(!is.finite(x))
  if (length(bad) == 0L) return(invisible())
  row <- (bad[1L] - 1L) %% NROW(x) + 1L
  column <- (bad[1L] - 1L) %/% NROW(x) + 1L
  where <- paste("row", format_count(row))
  if (is.matrix(x)) {
    name <- colnames(x)[column]
    where <- paste0(where, ", column ", if (is.null(name) || !nzchar(name)) column else quote_names(name))
  }
  rest <- length(bad) - 1L
  stop_input(quote_names(arg),
             paste0(format(x[bad[1L]]), " in ", where,
                    if (rest > 0L) paste0(" (and ", format_count(rest), " more that ",
                                          if (rest == 1L) "is" else "are", " not finite)")),
             "finite numbers only", call)
}

# The diagonal of the box around the points.
widest_distance <- function(x) {
  width <- apply(x, 2L, function(v) diff(base::range(v)))
  if (max(width) > 0) max(width) * sqrt(sum((width / max(width))^2)) else 0
}

# New points with the columns of the data a model was made from: by name if both have names, else by position.
match_points <- function(new, columns, n_columns, arg, call) {
  named <- if (is.data.frame(new)) names(new) else if (length(dim(new)) == 2L) colnames(new)
  if (!is.null(columns) && !is.null(named)) {
    lost <- setdiff(columns, named)
    if (length(lost) > 0L) {
      stop_input(quote_names(arg),
                 paste0("no column ", quote_names(lost), if (length(named) > 0L) paste0(" among ", quote_names(named))),
                 paste("the columns", quote_names(columns)), call)
    }
    return(as_points(new[, columns, drop = FALSE], arg, call)) # other columns may hold anything
  }
  new <- as_points(new, arg, call)
  if (ncol(new) != n_columns) {
    stop_input(quote_names(arg), paste0(describe(new), if (ncol(new) == 1L) " (a vector is one column)"),
               paste0("a matrix with ", n_columns, if (n_columns == 1L) " column" else " columns"), call)
  }
  new
}

# A whole number from `low` to `high`, as an integer; 2.0 is one.
take_count <- function(value, arg, call, low = 1L, high = .Machine$integer.max) {
  ok <- is.numeric(value) && length(value) == 1L && !is.na(value) && value >= low && value == floor(value) && value <= high
  if (!ok) {
    range <- if (high < .Machine$integer.max) paste(low, "to", format_count(high)) else paste(low, "or more")
    stop_input(quote_names(arg), show_value(value), paste0("a whole number, ", range), call)
  }
  as.integer(value)
}

# One finite number, above (or at) `low`.
take_number <- function(value, arg, call, low = -Inf, strict = FALSE) {
  ok <- is.numeric(value) && length(value) == 1L && is.finite(value) && if (strict) value > low else value >= low
  if (!ok) {
    bound <- if (low == -Inf) "" else paste0(if (strict) " above " else ", at least ", low)
    stop_input(quote_names(arg), show_value(value), paste0("one finite number", bound), call)
  }
  as.double(value)
}

# One of several words, abbreviations refused; a missing argument (all of them) is the first.
take_choice <- function(value, choices, arg, call) {
  if (identical(value, choices)) return(choices[1L])
  check_choice(choices)(value, quote_names(arg), call)
}

take_flag <- function(value, arg, call) check_flag(value, quote_names(arg), call)

# `...` of a method that knows no further argument.
check_dots <- function(call, ...) if (...length() > 0L) check_settings(list(...), character(), call)

# ---- formulas of models ----

# The parts of a model frame for response ~ inputs: list(frame, terms, y, x, xlevels, contrasts, columns, na.action).
# `call` is the user's, whose data, subset, na.action and further row-wise arguments (`extra`) are evaluated as in lm().
model_parts <- function(call, formula, data, env, extra = character()) {
  at <- match(c("formula", "data", "subset", "na.action", extra), names(call), 0L)
  frame_call <- call[c(1L, at)]
  frame_call[[1L]] <- quote(stats::model.frame)
  names(frame_call)[names(frame_call) == "x"] <- "formula"
  frame_call$formula <- formula
  frame_call$drop.unused.levels <- TRUE
  frame <- eval(frame_call, env)
  terms <- attr(frame, "terms")
  parts <- design_matrix(terms, frame)
  list(frame = frame, terms = terms, y = stats::model.response(frame), x = parts$x, contrasts = parts$contrasts,
       xlevels = stats::.getXlevels(terms, frame), columns = intersect(all.vars(terms), names(data)),
       na.action = attr(frame, "na.action"))
}

# Inputs of a model frame as columns: factors by their contrasts, the intercept left out.
design_matrix <- function(terms, frame, contrasts = NULL) {
  x <- stats::model.matrix(stats::delete.response(terms), frame, contrasts.arg = contrasts)
  contrasts <- attr(x, "contrasts")
  rows <- if (.row_names_info(frame) > 0L) row.names(frame)
  x <- x[, attr(x, "assign") > 0L, drop = FALSE]
  list(x = matrix(x, nrow(x), ncol(x), dimnames = list(rows, colnames(x))), contrasts = contrasts)
}

# The same columns of new data, NA where a variable is. `parts` is of model_parts().
new_design <- function(parts, newdata, call, arg = "newdata") {
  check_columns(parts, newdata, call, arg)
  terms <- stats::delete.response(parts$terms)
  frame <- stats::model.frame(terms, newdata, na.action = stats::na.pass, xlev = parts$xlevels)
  check_classes(terms, frame, arg, call)
  design_matrix(terms, frame, parts$contrasts)$x
}

# A variable of another type than that of the fit would be other columns.
check_classes <- function(terms, frame, arg, call) {
  fitted <- attr(terms, "dataClasses")
  for (name in intersect(names(frame), names(fitted))) {
    tryCatch(stats::.checkMFClasses(fitted[name], frame[name]), error = function(e) {
      stop_input(quote_names(arg), paste0("a column ", quote_names(name), " of type ", stats::.MFclass(frame[[name]])),
                 paste(fitted[[name]], "as in the fit"), call)
    })
  }
}

check_columns <- function(parts, newdata, call, arg = "newdata") {
  if (!is.data.frame(newdata)) {
    stop_input(quote_names(arg), describe(newdata), "a data frame, as the model was made by a formula", call)
  }
  needed <- intersect(parts$columns, all.vars(stats::delete.response(parts$terms)))
  lost <- setdiff(needed, names(newdata))
  if (length(lost) > 0L) {
    stop_input(quote_names(arg), paste("no column", quote_names(lost)), paste("the columns", quote_names(needed)), call)
  }
}

# Rows of new data that a prediction can be made for, after na.action: list(x, complete, names).
predictable_rows <- function(x, na.action, call) {
  force(x) # its errors keep their class only outside the generic rowSums()
  complete <- is.finite(rowSums(x))
  if (!all(complete)) {
    kept <- na.action(as.data.frame(replace(x, !is.finite(x), NA)))
    omitted <- attr(kept, "na.action")
    if (!is.null(omitted)) {
      x <- x[-omitted, , drop = FALSE]
      complete <- complete[-omitted]
    }
  }
  list(x = x[complete, , drop = FALSE], complete = complete, names = rownames(x))
}

# Rows of `value` (vector, factor or matrix) back among those without a prediction, which are NA.
spread_rows <- function(value, rows) {
  at <- rep(NA_integer_, length(rows$complete))
  at[rows$complete] <- seq_len(sum(rows$complete))
  if (is.matrix(value)) {
    value <- value[at, , drop = FALSE]
    rownames(value) <- rows$names
  } else {
    value <- value[at]
    names(value) <- rows$names
  }
  value
}
