# Settings: an argument wins over options(keops.<name>), that over the environment's KEOPS_<NAME>, that
# over the default. Each name has one check, whatever the value came from.

# What a session remembers: handles of formulas, messages said, facts about the machine. Nothing of it is
# needed: all is found again when it is missing.
session <- new.env(parent = emptyenv())
session$keys <- character()
session$handles <- list()
session$said <- character()

check_choice <- function(choices) {
  force(choices)
  function(value, arg, call) {
    if (is.character(value) && length(value) == 1L && value %in% choices) return(value)
    stop_input(arg, show_value(value), paste0("one of ", paste0("\"", choices, "\"", collapse = ", ")), call)
  }
}

# "auto", "cpu", "gpu" (the first one), or numbers of CUDA as "gpu:1"; several spread the work, and one may be
# named twice. In one string they are separated by commas (environment variable).
check_device <- function(value, arg, call) {
  if (is.character(value) && !anyNA(value)) value <- unlist(strsplit(value, " *, *"))
  if (length(value) >= 1L && all(grepl("^gpu(:[0-9]{1,4})?$", value))) return(value)
  if (length(value) == 1L && value %in% c("auto", "cpu")) return(value)
  stop_input(arg, if (length(value) == 1L) show_value(value) else describe(value),
             "\"auto\", \"cpu\", \"gpu\", \"gpu:1\" or several such as c(\"gpu:0\", \"gpu:1\")", call)
}

check_positive <- function(zero) {
  force(zero)
  function(value, arg, call) {
    if (is.character(value) && length(value) == 1L) value <- suppressWarnings(as.numeric(value))
    ok <- is.numeric(value) && length(value) == 1L && !is.na(value) && (value > 0 || (zero && value == 0))
    if (!ok) stop_input(arg, show_value(value), if (zero) "a number, 0 or more" else "a number above 0", call)
    as.double(value)
  }
}

check_threads <- function(value, arg, call) {
  if (is.character(value) && length(value) == 1L && grepl("^[0-9]+$", value)) value <- as.numeric(value)
  ok <- is.numeric(value) && length(value) == 1L && !is.na(value) && value >= 1 && value == floor(value)
  if (!ok) stop_input(arg, show_value(value), "a whole number, 1 or more", call)
  as.integer(min(value, 65535))
}

check_flag <- function(value, arg, call) {
  if (is.character(value) && length(value) == 1L) {
    value <- switch(tolower(value), "true" = , "1" = TRUE, "false" = , "0" = FALSE, value)
  }
  if (!is.logical(value) || length(value) != 1L || is.na(value)) {
    stop_input(arg, show_value(value), "TRUE or FALSE", call)
  }
  value
}

check_text <- function(value, arg, call) {
  if (!is.character(value) || length(value) != 1L || is.na(value) || !nzchar(value)) {
    stop_input(arg, show_value(value), "one string that is not empty", call)
  }
  value
}

show_value <- function(value) {
  if (is.atomic(value) && length(value) == 1L && !is.object(value)) {
    return(if (is.character(value) && !is.na(value)) paste0("\"", value, "\"") else format(value))
  }
  describe(value)
}

# NULL as default: decided when it is needed.
settings <- list(
  device = list(check = check_device, default = "auto"),
  backend = list(check = check_choice(c("auto", "interpreted", "compiled")), default = "auto"),
  precision = list(check = check_choice(c("double", "single")), default = "double"),
  threads = list(check = check_threads, default = NULL),
  sum_scheme = list(check = check_choice(c("auto", "block", "direct", "kahan")), default = "auto"),
  verbose = list(check = check_flag, default = FALSE),
  cache_dir = list(check = check_text, default = NULL),
  compiler = list(check = check_text, default = NULL),
  gpu_memory = list(check = check_positive(FALSE), default = NULL),
  gpu_launch = list(check = check_positive(FALSE), default = NULL),
  accuracy = list(check = check_positive(TRUE), default = 1e-5)
)

# Those that an operator or a call may carry as arguments.
call_settings <- c("device", "backend", "precision", "threads", "sum_scheme")

setting_option <- function(name) paste0("keops.", name)
setting_variable <- function(name) paste0("KEOPS_", toupper(name))

# Value of one setting; `value` is what came as an argument, NULL if nothing did.
setting <- function(name, value = NULL, call = NULL) {
  entry <- settings[[name]]
  if (!is.null(value)) return(entry$check(value, quote_names(name), call))
  value <- getOption(setting_option(name))
  if (!is.null(value)) return(entry$check(value, paste("option", setting_option(name)), call))
  value <- Sys.getenv(setting_variable(name))
  if (nzchar(value)) {
    return(entry$check(value, paste("environment variable", setting_variable(name)), call))
  }
  entry$default
}

# A list of settings given as arguments: named, known, each checked, NULL ones left out.
check_settings <- function(given, known, call) {
  if (length(given) == 0L) return(list())
  labels <- names(given)
  if (is.null(labels)) labels <- character(length(given))
  bad <- which(!labels %in% known)
  if (length(bad) > 0L) {
    found <- if (nzchar(labels[bad[1L]])) quote_names(labels[bad[1L]]) else describe(given[[bad[1L]]])
    expected <- if (length(known) > 0L) paste("only", quote_names(known)) else "no further arguments"
    stop_input("unused argument", found, expected, call)
  }
  if (anyDuplicated(labels)) {
    stop_input("arguments", paste(quote_names(labels[duplicated(labels)]), "twice"), "each setting once", call)
  }
  given <- given[!vapply(given, is.null, NA)]
  for (name in names(given)) given[[name]] <- setting(name, given[[name]], call)
  given
}

# ---- threads ----

# A count in an environment variable of OpenMP ("4", or "4,2" for nested levels), NULL where there is none.
env_count <- function(name) {
  text <- sub(",.*", "", Sys.getenv(name))
  if (!grepl("^ *[0-9]+ *$", text)) return(NULL)
  n <- as.numeric(text)
  if (n >= 1) n
}

under_core_limit <- function() {
  limit <- tolower(Sys.getenv("_R_CHECK_LIMIT_CORES_"))
  nzchar(limit) && limit != "false"
}

# Threads of a run: at most OMP_THREAD_LIMIT, at most 2 under R CMD check; 1 without OpenMP and in a child
# made by fork, where OpenMP must not be entered.
thread_count <- function(value = NULL, call = NULL) {
  n <- setting("threads", value, call)
  cpu <- engine_cpu()
  if (!cpu$openmp || engine_forked()) return(1L)
  if (is.null(n)) n <- env_count("OMP_NUM_THREADS")
  if (is.null(n)) n <- cpu$cores
  n <- min(n, env_count("OMP_THREAD_LIMIT"), if (under_core_limit()) 2L)
  as.integer(min(n, 65535))
}

# ---- GPUs ----

# What the engine is told: 0 CPU, 1 GPU, 2 auto; numbers of devices; bytes of a device that may be used (0: most
# of what is free); accuracy; milliseconds of a launch (0: default).
gpu_settings <- function(device, call) {
  number <- function(name) {
    value <- setting(name, call = call)
    if (is.null(value)) 0 else value
  }
  choice <- switch(device[1L], cpu = 0L, auto = 2L, 1L)
  numbers <- if (choice == 1L) as.integer(sub("^gpu:?", "0", device)) else 0L
  list(choice, numbers, number("gpu_memory"), setting("accuracy", call = call), number("gpu_launch"))
}

# ---- all of it for one run ----

# What settings come from, besides arguments.
watched_variables <- c(
  setting_variable(names(settings)), "OMP_NUM_THREADS", "OMP_THREAD_LIMIT",
  "_R_CHECK_LIMIT_CORES_", "_R_CHECK_PACKAGE_NAME_"
)
watched_options <- setting_option(names(settings))

# A run's settings, settled: precision, threads, backend, verbose, compile. Looking everything up costs more
# than a small run, so the last answer is kept as long as nothing it came from has changed.
run_settings <- function(given, call) {
  sources <- list(given, Sys.getenv(watched_variables, names = FALSE), engine_options(watched_options),
                  engine_forked(), tempdir())
  if (identical(sources, session$sources)) return(session$settled)
  settled <- list(
    precision = setting("precision", given$precision, call),
    backend = setting("backend", given$backend, call),
    threads = thread_count(given$threads, call),
    sum_scheme = setting("sum_scheme", given$sum_scheme, call),
    gpu = gpu_settings(setting("device", given$device, call), call),
    verbose = setting("verbose", call = call),
    compile = compile_settings(call)
  )
  session$sources <- sources
  session$settled <- settled
  settled
}

# ---- the user's side ----

#' Get or set the package's settings
#'
#' Reads settings, or sets them for this session. Each can also be given as `options(keops.<name> = )` or
#' as an environment variable `KEOPS_<NAME>`; an argument of a function wins over the option, the option
#' over the environment variable.
#'
#' @param ... Nothing: all settings are returned. Names as strings: these settings are returned.
#'   `name = value`: the setting is changed; `NULL` takes it back to the environment variable or the default.
#'   One list stands for its elements, so that the value of an earlier call sets things back.
#'
#' @details
#' \describe{
#'   \item{`device`}{`"auto"` (default) takes an NVIDIA GPU where there is one and the work is large enough to
#'     pay for it, else the CPU; so it does where the GPU cannot be used, with one message. `"cpu"`; `"gpu"`, the
#'     first GPU; `"gpu:1"`, by CUDA's number, counted from 0; `c("gpu:0", "gpu:1")` spreads the work over several.
#'     A GPU needs the driver and NVRTC (a library of the CUDA toolkit), which are looked for at the first use.}
#'   \item{`backend`}{`"auto"` (default) interprets small work and compiles a kernel when the work is large
#'     enough to pay for it; `"interpreted"` and `"compiled"` force either. `"auto"` falls back to the
#'     interpreter, with one message, where no compiler works; `"compiled"` then is an error.}
#'   \item{`precision`}{`"double"` (default) or `"single"`: of the work for each pair. Sums are
#'     accumulated in double in both, and results are double.}
#'   \item{`threads`}{Number of threads. Default: `OMP_NUM_THREADS`, else the processors this process may
#'     use. Never more than `OMP_THREAD_LIMIT`, than 2 under `R CMD check`, than 1 in a child made by fork.}
#'   \item{`sum_scheme`}{How sums are made: `"block"` (what `"auto"`, the default, takes): 1024 terms at a
#'     time in the precision of the work, these blocks in double; `"direct"`: blocks as long as they come;
#'     `"kahan"`: compensated, within a block and between blocks, for about one and a half times the time.
#'     The sums of `LogSumExp` and its kin are always made by blocks.}
#'   \item{`verbose`}{`TRUE`: one message a call that says which backend ran, and how long.}
#'   \item{`cache_dir`}{Folder of compiled kernels, see [keops_cache_info()].}
#'   \item{`compiler`}{Command of the C compiler for kernels, e.g. `"gcc"` or `"ccache clang"`. Default: the
#'     one R was built with, then `cc`, `gcc`, `clang`.}
#'   \item{`gpu_memory`}{Bytes of a GPU's memory that a call may use; data that need more go through it in slices.
#'     Default: most of what is free.}
#'   \item{`gpu_launch`}{Milliseconds, by a rough estimate, after which long work on a GPU is broken off to look
#'     whether it was interrupted, about 60 by default. It changes the last digits of results.}
#'   \item{`accuracy`}{Relative error that is allowed in single precision on GPUs, `1e-5`: what tensor cores may
#'     add to exponentials of squared distances and inner products of 17 components and more. Below `2e-6` there
#'     are neither tensor cores nor approximate functions.}
#' }
#'
#' @return A list of settings: the current values when read (`NULL`: decided when it is needed), the former
#'   values of the options, invisibly, when set.
#'
#' @section Errors: `keops_error_input` for an unknown name or value.
#'
#' @examples
#' keops_options("precision")
#' old <- keops_options(precision = "single", threads = 2)
#' keops_options("precision", "threads")
#' keops_options(old)
#' @export
keops_options <- function(...) {
  call <- sys.call()
  given <- list(...)
  if (length(given) == 1L && is.null(names(given)) && is.list(given[[1L]])) given <- given[[1L]]
  if (length(given) == 0L) return(read_settings(names(settings), call))
  if (is.null(names(given))) {
    if (!all(vapply(given, is.character, NA))) {
      stop_input("keops_options()", describe(given[!vapply(given, is.character, NA)][[1L]]),
                 "names of settings as strings, or name = value", call)
    }
    return(read_settings(unlist(given), call))
  }
  set_settings(given, call)
}

read_settings <- function(names, call) {
  check_setting_names(names, call)
  sapply(names, setting, call = call, simplify = FALSE)
}

set_settings <- function(given, call) {
  check_setting_names(names(given), call)
  old <- sapply(names(given), function(name) getOption(setting_option(name)), simplify = FALSE)
  for (name in names(given)) { # all are checked before the first is set
    if (!is.null(given[[name]])) given[name] <- list(setting(name, given[[name]], call))
  }
  names(given) <- setting_option(names(given))
  options(given)
  invisible(old)
}

check_setting_names <- function(names, call) {
  bad <- setdiff(names, names(settings))
  if (length(bad) > 0L) {
    stop_input("setting", show_value(bad[1L]), paste("one of", quote_names(names(settings))), call)
  }
}
