# The only file with .Call(): what goes to the C engine, and what becomes of what it answers.

#' @useDynLib keops, .registration = TRUE
NULL

# ---- answers ----

# The engine's value, or its failure as a condition. `text` is the formula a place in it refers to.
engine_result <- function(value, call = NULL, text = NULL) {
  if (!inherits(value, "keops_engine_error")) return(value)
  if (value$status == "interrupt") signal_interrupt(call)
  stop(engine_condition(value, call, text))
}

engine_condition <- function(record, call, text) {
  message <- record$message
  if (!is.na(record$pos) && !is.null(text)) {
    message <- paste0(message, "\n", caret(text, record$pos))
  }
  switch(record$status,
    parse = ,
    dimension = keops_condition(record$status, message, call, text = text, pos = record$pos + 1L),
    compile = compile_condition(record, call),
    device = keops_condition("device", message, call, device = NULL, needed = NULL, free = NULL),
    input = keops_condition("input", message, call, arg = NULL, found = NULL, expected = NULL),
    keops_condition(record$status, message, call)
  )
}

# The compiler's log holds a command, what it printed, and the source with numbered lines, each under a
# heading. The source is long: it goes into a field, the rest into the message too.
compile_condition <- function(record, call) {
  log <- if (is.null(record$log)) "" else record$log
  parts <- log_parts(log, c("command", "output", "source"))
  message <- record$message
  if (nzchar(log)) {
    message <- paste0(message, "\ncommand: ", parts$command, "\noutput: ", cut_text(parts$output, 2000L),
                      "\n(the source is in field `source` of this condition)")
  }
  keops_condition("compile", message, call, command = parts$command, log = parts$output, source = parts$source)
}

# Texts below the lines "<name>:", in this order.
log_parts <- function(log, names) {
  at <- vapply(names, function(name) regexpr(paste0("(^|\n)", name, ":\n"), log)[1L], 0L)
  if (any(at < 0L) || is.unsorted(at)) return(list(command = "", output = log, source = ""))
  from <- regexpr(":\n", substring(log, at), fixed = TRUE) + at + 1L
  to <- c(at[-1L] - 1L, nchar(log))
  as.list(trimws(stats::setNames(substring(log, from, to), names), "right"))
}

# The line of the text that holds byte `pos` (from 0), with a mark under the place. Long lines are cut.
caret <- function(text, pos, width = 72L) {
  bytes <- charToRaw(enc2utf8(text))
  before <- rawToChar(bytes[seq_len(min(pos, length(bytes)))])
  after <- rawToChar(bytes[seq_along(bytes) > pos])
  Encoding(before) <- Encoding(after) <- "UTF-8"
  before <- sub("^.*[\n\r]", "", before)
  after <- sub("[\n\r].*$", "", after)
  before <- gsub("\t", " ", before)
  if (nchar(before) > width %/% 2L) {
    n <- nchar(before)
    before <- paste0("...", substr(before, n - width %/% 2L + 4L, n))
  }
  room <- width - nchar(before)
  if (nchar(after) > room) after <- paste0(substr(after, 1L, room - 3L), "...")
  paste0("  ", before, after, "\n  ", strrep(" ", nchar(before, "width")), "^")
}

# ---- formulas ----

# list(handle, info) of a formula, from the session's table or made now. Operators hold text only, so this
# is how each call finds its formula; the table is a list of limited length, the oldest entry goes first.
engine_formula <- function(text, args, call = NULL, ranged = FALSE) {
  key <- paste(c(text, args, if (ranged) "ranged"), collapse = "\r")
  at <- match(key, session$keys)
  if (!is.na(at)) return(session$handles[[at]])
  handle <- engine_result(.Call(ffi_formula_new, text, args, ranged), call, text)
  entry <- list(handle = handle, info = .Call(ffi_formula_info, handle))
  if (length(session$keys) >= max_handles) {
    session$keys <- session$keys[-1L]
    session$handles <- session$handles[-1L]
  }
  session$keys <- c(session$keys, key)
  session$handles <- c(session$handles, list(entry))
  entry
}

max_handles <- 200L

engine_backends <- c(auto = 0L, interpreted = 1L, compiled = 2L)

engine_schemes <- c(auto = 0L, block = 0L, direct = 1L, kahan = 2L)

# list(results, compiled, note, gpu), a result being list(values, indices, k); `settled` is of run_settings().
engine_run <- function(handle, data, rows, settled, ranges = NULL, call = NULL) {
  engine_result(
    .Call(ffi_formula_run, handle, data, rows, if (settled$precision == "single") 4L else 8L,
          engine_backends[[settled$backend]], settled$threads, engine_schemes[[settled$sum_scheme]], ranges,
          settled$compile, settled$gpu),
    call
  )
}

# What the engine's compile step is told: compiler, include_dir, cache_dir, fallback_dir, version.
compile_settings <- function(call = NULL) {
  if (is.null(session$include_dir)) {
    session$include_dir <- system.file("include", package = "keops")
    session$version <- getNamespaceInfo("keops", "spec")[["version"]]
  }
  compiler <- setting("compiler", call = call)
  c(if (is.null(compiler)) NA_character_ else compiler, session$include_dir, cache_place(call),
    session_cache(), session$version)
}

# ---- lazy matrices ----

# list(text, leaf, data, side, place, name, declared) of nodes: see lazy_flat().
engine_lazy_text <- function(nodes, swap, becomes) .Call(ffi_lazy_text, nodes, swap, becomes)

# ---- groups of rows ----

# Sums of the rows of x with label 1, 2, ..., k: k x ncol(x), zeros where a label is missing.
engine_group_sums <- function(x, label, k) .Call(ffi_group_sums, x, label, k)

# ---- tables ----

engine_operations <- function() .Call(ffi_op_table)
engine_reduction_table <- function() .Call(ffi_reduction_table)
engine_reductions <- function() engine_reduction_table()$name

# ---- machine ----

# isa, openmp, cores, compiler, cuda_hint; asked once a session.
engine_cpu <- function() {
  if (is.null(session$cpu)) session$cpu <- .Call(ffi_cpu)
  session$cpu
}

# Values of options, NULL where there is none: getOption() for many names, and quicker.
engine_options <- function(names) .Call(ffi_options, names)

engine_forked <- function() .Call(ffi_forked)

# Path of the compiler, or the condition that says what was searched.
engine_compiler <- function() {
  tryCatch(engine_result(.Call(ffi_compiler, compile_settings())), keops_error = identity)
}

# ---- GPUs ----

# driver, nvrtc, nvrtc_path, problem, and name, arch, processors, memory of each device. Starts none of them.
engine_cuda <- function() .Call(ffi_cuda_info)
engine_cuda_release <- function() .Call(ffi_cuda_release)
# Milliseconds that the GPU was busy in the last call.
engine_cuda_ms <- function() .Call(ffi_cuda_ms)

# CUDA source of a formula's kernels as for m rows of i and n of j. With `arch` (90: compute capability 9.0) NVRTC
# compiles it, and the answer is the number of bytes; no GPU is needed. `nvrtc`: newest major version to take.
engine_cuda_source <- function(handle, precision, m, n, arch = 0L, nvrtc = 0L, call = NULL) {
  engine_result(.Call(ffi_cuda_source, handle, if (precision == "single") 4L else 8L, as.double(c(m, n)),
                      as.integer(arch), as.integer(nvrtc), compile_settings()), call)
}

# ---- cache ----

engine_cache_counts <- function() .Call(ffi_cache_counts)
engine_cache_stat <- function(dir) .Call(ffi_cache_stat, dir)
engine_cache_clear <- function(dir, seconds, call = NULL) {
  engine_result(.Call(ffi_cache_clear, dir, as.double(seconds)), call)
}
