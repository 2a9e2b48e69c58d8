# Where compiled kernels are kept. What lies in there is the engine's (src/engine/cache.h).

# The session's own folder: the last resort, and the place under R CMD check. The engine makes it when a
# kernel is put there.
session_cache <- function() file.path(tempdir(), "keops")

under_check <- function() nzchar(Sys.getenv("_R_CHECK_PACKAGE_NAME_"))

# First place for kernels; the engine goes on to session_cache() if it cannot be used.
cache_place <- function(call = NULL) {
  dir <- setting("cache_dir", call = call)
  if (!is.null(dir)) return(path.expand(dir))
  if (under_check()) return(session_cache())
  if (is.null(session$user_cache)) {
    session$user_cache <- suppressWarnings(tools::R_user_dir("keops", "cache")) # HOME may not exist
  }
  session$user_cache
}

#' Look at the cache of compiled kernels, or empty it
#'
#' Kernels are compiled once and kept on disk, for later sessions and for other processes. They lie in the
#' folder of `keops_options("cache_dir")` if set, else in `tools::R_user_dir("keops", "cache")`; if that
#' cannot be written, and under `R CMD check`, in the session's temporary directory. Nothing is written
#' before the first kernel is compiled. Files are found by a digest of everything they depend on (source,
#' compiler, flags, processor, version of the package), so a file is never out of date, and removing
#' files is always safe.
#'
#' @param older_than Remove only kernels not used for so many days: a number or a `difftime`. `NULL`: all.
#'
#' @return `keops_cache_info()`: a list with
#'   \describe{
#'     \item{`path`}{the first place for kernels; `session_path` the place if that one fails}
#'     \item{`files`, `bytes`}{number and size of the kernels kept in both}
#'     \item{`hits`}{how often this session took a compiled kernel from memory or disk}
#'     \item{`compiles`}{how often this session ran the compiler}
#'     \item{`rejected`}{files found damaged or unusable, and made again}
#'   }
#'   `keops_cache_clear()`: the number of files removed, invisibly.
#'
#' @section Errors: `keops_error_input` for `older_than`; `keops_error_io` if files cannot be removed.
#'
#' @examples
#' old <- keops_options(cache_dir = file.path(tempdir(), "cache"))
#' keops_cache_info()
#' keops_cache_clear(older_than = 30)
#' keops_options(old)
#' @export
keops_cache_info <- function() {
  places <- cache_places(sys.call())
  stat <- rowSums(vapply(places, engine_cache_stat, c(files = 0, bytes = 0)))
  counts <- engine_cache_counts()
  list(
    path = places[1L], session_path = session_cache(),
    files = stat[["files"]], bytes = stat[["bytes"]],
    hits = counts[["hits_memory"]] + counts[["hits_disk"]],
    compiles = counts[["compiles"]], rejected = counts[["rejected"]]
  )
}

#' @rdname keops_cache_info
#' @export
keops_cache_clear <- function(older_than = NULL) {
  call <- sys.call()
  seconds <- age_seconds(older_than, call)
  removed <- sum(vapply(cache_places(call), engine_cache_clear, 0, seconds = seconds, call = call))
  invisible(removed)
}

# Both places, once if they are the same.
cache_places <- function(call) unique(c(cache_place(call), session_cache()))

age_seconds <- function(age, call) {
  if (is.null(age)) return(0)
  if (inherits(age, "difftime")) age <- as.numeric(age, units = "days")
  if (!is.numeric(age) || length(age) != 1L || is.na(age) || age < 0) {
    stop_input("`older_than`", show_value(age), "a number of days, 0 or more, or NULL", call)
  }
  age * 86400
}
