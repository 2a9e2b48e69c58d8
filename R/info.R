# What the package found on this machine.

#' Say what was found on this machine
#'
#' Collects the version, the C compiler for kernels or what was searched for one, OpenMP, the vector
#' instructions in use, the number of threads, the place of the kernel cache, and the state of GPU support.
#'
#' @return A list of class `keops_info`, printed one line each:
#'   \describe{
#'     \item{`version`}{of the package}
#'     \item{`compiler`}{path of the C compiler that kernels would be compiled with, `NA` if none was found}
#'     \item{`compiler_problem`}{what was searched, if none was found; else `NULL`}
#'     \item{`openmp`}{`TRUE` if the package was built with OpenMP; else all runs use one thread}
#'     \item{`vectors`}{vector instructions in use: `"avx512"`, `"avx2"` or `"base"`}
#'     \item{`cores`}{processors that this process may use}
#'     \item{`threads`}{threads that a call would use now}
#'     \item{`cache`}{first place for compiled kernels}
#'     \item{`cuda`}{why no GPU is used}
#'   }
#'
#' @examples
#' keops_info()
#' @export
keops_info <- function() {
  cpu <- engine_cpu()
  compiler <- engine_compiler()
  found <- is.character(compiler)
  structure(
    class = "keops_info",
    list(
      version = getNamespaceInfo("keops", "spec")[["version"]],
      compiler = if (found) compiler else NA_character_,
      compiler_problem = if (!found) conditionMessage(compiler),
      openmp = cpu$openmp,
      vectors = cpu$isa,
      cores = cpu$cores,
      threads = thread_count(),
      cache = cache_place(),
      cuda = cuda_text(cpu$cuda_hint)
    )
  )
}

cuda_text <- function(hint) {
  text <- "not used: this version of keops has no GPU backend"
  if (nzchar(hint)) paste0(text, " (configured with --with-cuda=", hint, ")") else text
}

#' @export
print.keops_info <- function(x, ...) {
  line <- function(label, ...) cat(format(label, width = 10L), ..., "\n", sep = "")
  line("keops", x$version)
  line("compiler", if (is.null(x$compiler_problem)) x$compiler else paste("none:", x$compiler_problem))
  line("OpenMP", if (x$openmp) "yes" else "no: all runs use one thread")
  line("vectors", x$vectors)
  line("threads", x$threads, " of ", x$cores, if (x$cores == 1L) " core" else " cores")
  line("cache", x$cache)
  line("CUDA", x$cuda)
  invisible(x)
}
