# What the package found on this machine.

#' Say what was found on this machine
#'
#' Collects the version, the C compiler for kernels or what was searched for one, OpenMP, the vector
#' instructions in use, the number of threads, the place of the kernel cache, and the GPUs, their driver and NVRTC.
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
#'     \item{`cuda`}{a list: `driver` and `nvrtc`, the versions of CUDA they stand for (`NA`: not found), `nvrtc_path`,
#'       `devices` (a data frame: number, name, compute capability, multiprocessors, memory in bytes), and `problem`,
#'       why no GPU can be used or what was searched, else `NULL`}
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
      cuda = cuda_info()
    )
  )
}

cuda_info <- function() {
  found <- engine_cuda()
  version <- function(n) if (n > 0L) sprintf("%d.%d", n %/% 1000L, n %% 1000L %/% 10L) else NA_character_
  list(
    driver = version(found$driver), nvrtc = version(found$nvrtc),
    nvrtc_path = if (nzchar(found$nvrtc_path)) found$nvrtc_path else NA_character_,
    devices = data.frame(
      number = seq_along(found$name) - 1L, name = found$name, capability = found$arch / 10,
      multiprocessors = found$processors, memory = found$memory
    ),
    problem = if (nzchar(found$problem)) found$problem
  )
}



#' Release the memory kept on GPUs
#'
#' The package keeps buffers on each GPU it has used, and page-locked memory beside them, so that a call need not
#' allocate. This gives them back; the next call on a GPU makes them anew. Does nothing where no GPU was used.
#'
#' @return `NULL`, invisibly.
#' @seealso [keops_options()] for `gpu_memory`, which limits them.
#' @examples
#' keops_gpu_release()
#' @export
keops_gpu_release <- function() invisible(engine_cuda_release())

#' @export
print.keops_info <- function(x, ...) {
  line <- function(label, ...) cat(format(label, width = 10L), ..., "\n", sep = "")
  line("keops", x$version)
  line("compiler", if (is.null(x$compiler_problem)) x$compiler else paste("none:", x$compiler_problem))
  line("OpenMP", if (x$openmp) "yes" else "no: all runs use one thread")
  line("vectors", x$vectors)
  line("threads", x$threads, " of ", x$cores, if (x$cores == 1L) " core" else " cores")
  line("cache", x$cache)
  cuda <- x$cuda
  line("CUDA", if (is.na(cuda$driver)) "no driver" else paste("driver for", cuda$driver), ", ",
       if (is.na(cuda$nvrtc)) "no NVRTC" else paste0("NVRTC ", cuda$nvrtc, " (", cuda$nvrtc_path, ")"))
  for (k in seq_len(nrow(cuda$devices))) {
    d <- cuda$devices[k, ]
    line(paste0("  gpu:", d$number), d$name, ", compute capability ", format(d$capability, nsmall = 1L), ", ",
         d$multiprocessors, " multiprocessors, ", format(d$memory / 2^30, digits = 3L), " GiB")
  }
  if (!is.null(cuda$problem)) line("  GPU", "not usable: ", cuda$problem)
  invisible(x)
}
