# The classes of our conditions. Base R only: structure(list(message, call, fields), class = ...).

keops_condition <- function(kind, message, call = NULL, ...) {
  structure(
    class = c(paste0("keops_error_", kind), "keops_error", "error", "condition"),
    list(message = message, call = call, ...)
  )
}

# What was wrong with `arg` (a label for the reader), what was found, and what is allowed.
stop_input <- function(arg, found, expected, call = NULL) {
  message <- paste0(arg, ": found ", found, "; expected ", expected)
  stop(keops_condition("input", message, call, arg = arg, found = found, expected = expected))
}

# Operands that do not fit together; `dims` are the sizes or numbers of components.
stop_dimension <- function(message, op, dims, call = NULL) {
  stop(keops_condition("dimension", message, call, op = op, dims = dims))
}

warn_convergence <- function(message, call, iterations, residual) {
  warning(structure(
    class = c("keops_warning_convergence", "keops_warning", "warning", "condition"),
    list(message = message, call = call, iterations = iterations, residual = residual)
  ))
}

# A message that the user should see once a session, not at each call.
message_once <- function(text, key = text) {
  if (key %in% session$said) return(invisible())
  session$said <- c(session$said, key)
  message(text)
}

# R's own interrupt, for handlers of class "interrupt"; without one, back to top level, quietly.
signal_interrupt <- function(call) {
  signalCondition(structure(
    class = c("interrupt", "condition"),
    list(message = "keops was interrupted", call = call)
  ))
  invokeRestart("abort")
}

# How a value is named in messages.
describe <- function(x) {
  if (is.null(x)) return("NULL")
  if (is.data.frame(x)) return(paste("a data frame of", size_text(dim(x))))
  if (is.factor(x)) return(paste("a factor of length", length(x)))
  if (is.function(x)) return("a function")
  kind <- if (is.object(x)) paste("object of class", class(x)[1]) else typeof_text(x)
  shape <- dim(x)
  if (length(shape) == 2L) return(paste0("a ", size_text(shape), " matrix (", kind, ")"))
  if (length(shape) > 2L) return(paste0("a ", size_text(shape), " array (", kind, ")"))
  if (is.list(x)) return(paste("a list of length", length(x)))
  if (is.atomic(x)) return(paste0("a vector of length ", length(x), " (", kind, ")"))
  paste("an object of type", typeof(x))
}

typeof_text <- function(x) if (is.double(x)) "numeric" else typeof(x)

size_text <- function(shape) paste(format_count(shape), collapse = " x ")

format_count <- function(n) format(n, trim = TRUE, scientific = FALSE)

quote_names <- function(x) paste0("`", x, "`", collapse = ", ")
