# Every test of values runs on each backend and in each precision; child sessions for what needs one.

# Program that compiles kernels here, or NULL.
found_compiler <- function() {
  set <- c(getOption("keops.compiler", ""), Sys.getenv("KEOPS_COMPILER"), Sys.getenv("CC"))
  set <- sub(" .*", "", set[nzchar(set)])
  found <- Sys.which(c(set, "cc", "gcc", "clang"))
  if (any(nzchar(found))) found[nzchar(found)][[1]]
}

skip_without_compiler <- function() {
  testthat::skip_if(is.null(found_compiler()), "no C compiler was found: compiled kernels are not tested")
}

with_options <- function(settings, code) {
  old <- options(settings)
  on.exit(options(old))
  force(code)
}

# Can an NVIDIA GPU be used here?
has_gpu <- local({
  known <- NULL
  function() {
    if (is.null(known)) known <<- is.null(keops_info()$cuda$problem)
    known
  }
})

skip_without_gpu <- function() {
  cuda <- keops_info()$cuda
  testthat::skip_if(!is.null(cuda$problem), paste("no GPU is tested:", cuda$problem))
}

# Options that make a backend the one in use: on the CPU, or "cuda".
backend_options <- function(backend) {
  if (backend == "cuda") return(list(keops.backend = "auto", keops.device = "gpu"))
  list(keops.backend = backend, keops.device = "cpu")
}

# body(backend, precision) with the options of both set. What is compiled for the CPU is also compiled for a
# GPU, where there is one.
each_backend <- function(body, backends = c("interpreted", "compiled"), precisions = c("double", "single"),
                         gpu = "compiled" %in% backends) {
  if (gpu && has_gpu()) backends <- c(backends, "cuda")
  for (backend in backends) {
    if (backend == "compiled") skip_without_compiler()
    for (precision in precisions) {
      with_options(
        c(backend_options(backend), list(keops.precision = precision)),
        tryCatch(body(backend, precision), keops_error = function(e) {
          testthat::fail(paste0(backend, ", ", precision, ": ", conditionMessage(e)))
        })
      )
    }
  }
}

# Values and indices side by side, as ref_run() gives them; arrays n x K x D as matrices with K D columns.
flat <- function(result) {
  if (is.list(result)) return(cbind(flat(result$values), flat(result$indices)))
  if (length(dim(result)) < 3) result else matrix(aperm(result, c(1, 3, 2)), nrow(result), prod(dim(result)[-1]))
}

# op(data) against dense R on each backend.
expect_dense <- function(formula, args, data, scale = NULL, order = 0, ...) {
  reference <- ref_run(formula, args, data)
  each_backend(function(backend, precision) {
    out <- flat(keops_kernel(formula, args)(data))
    expect_close(out, reference, tol(precision, order), scale,
                 label = paste0(formula, " (", backend, ", ", precision, ")"))
  }, ...)
}

# The gradient in each of `vars`, along two random directions, against differences of the dense answer.
expect_gradients <- function(formula, args, data, vars = ref_args(args)$name, order = 1, ...) {
  size <- dim(ref_run(formula, args, data))
  eta <- draw(size[1], size[2], -1, 1)
  data <- ref_data(args, data)
  for (var in vars) {
    k <- ref_index(args, var)
    directions <- lapply(1:2, function(n) matrix(runif(length(data[[k]]), -1, 1), nrow(data[[k]])))
    slopes <- vapply(directions, function(d) ref_slope(ref_moved(formula, args, data, k, eta, d)), 0)
    each_backend(function(backend, precision) {
      label <- paste0("d/d", var, " of ", formula, " (", backend, ", ", precision, ")")
      out <- keops_grad(keops_kernel(formula, args), var)(c(data, list(eta)))
      expect_identical(dim(out), dim(data[[k]]), label = paste("dim of", label))
      along <- vapply(directions, function(d) sum(out * d), 0)
      expect_close(matrix(along), matrix(slopes), tol(precision, order),
                   scale = max(1, vapply(directions, function(d) sum(abs(out * d)), 0)), label = label)
    }, ...)
  }
}

# The second derivative in each pair of variables, along random directions in the second one.
expect_second <- function(formula, args, data, pairs, ...) {
  size <- dim(ref_run(formula, args, data))
  eta <- draw(size[1], size[2], -1, 1)
  data <- ref_data(args, data)
  for (pair in pairs) {
    at <- data[ref_index(args, pair)]
    eta2 <- draw(nrow(at[[1]]), ncol(at[[1]]), -1, 1)
    direction <- draw(nrow(at[[2]]), ncol(at[[2]]), -1, 1)
    reference <- matrix(ref_second(formula, args, data, pair[1], eta, pair[2], eta2, direction))
    each_backend(function(backend, precision) {
      op <- keops_grad(keops_grad(keops_kernel(formula, args), pair[1]), pair[2])
      out <- op(c(data, list(eta, eta2)))
      expect_close(matrix(sum(out * direction)), reference, tol(precision, 2), max(1, sum(abs(out * direction))),
                   label = paste0("d2/d", pair[1], "d", pair[2], " of ", formula, " (", backend, ", ", precision, ")"))
    }, ...)
  }
}

# Random numbers that single precision holds exactly: multiples of 1/grid, moved by `offset`.
draw <- function(n, d, low, high, offset = 0, grid = 32) {
  first <- ceiling(grid * (low - offset))
  last <- floor(grid * (high - offset))
  matrix((first + floor(runif(n * d) * (last - first + 1))) / grid + offset, n, d)
}

# A formula of x=Vi(1), y=Vj(1) whose kernel no other test has made: sines k + 3 deep.
unusual_formula <- function(k) {
  sprintf("Sum_Reduction(%sAbs(x-y)%s,1)", strrep("Sin(", k + 3), strrep(")", k + 3))
}
# Its summand at |x - y| = d.
unusual_value <- function(k, d) Reduce(function(v, n) sin(v), seq_len(k + 3), d)

# Costly for each pair, not made of fused instructions: with this many points on both sides worth a compile.
costly_formula <- function(k) {
  sprintf("Sum_Reduction(Sin(Cos(x-y)+%.6f)*Log(1+Exp(Sin(x*y)))*Exp(Cos(x+y))*Powf(Abs(x)+1,y),1)", k)
}
costly_args <- c("x=Vi(1)", "y=Vj(1)")
costly_points <- 9000

# ---- child sessions ----

# Run R code in a fresh session with this keops; `env` are NAME=value. list(status, out), `out` all it printed.
run_r <- function(code, env = character(), args = character(), wait = TRUE, out = tempfile("keops-out-")) {
  script <- tempfile("keops-child-", fileext = ".R")
  writeLines(c(
    sprintf(".libPaths(%s)", paste(deparse(c(dirname(find.package("keops")), .libPaths())), collapse = "")),
    sprintf("options(keops.cache_dir = %s, keops.threads = 2L, keops.device = 'cpu')", deparse(file.path(tempdir(), "keops-test-cache"))),
    code
  ), script)
  # R CMD check leaves settings for its own sessions in the environment
  env <- c("R_TESTS=", env)
  status <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", shQuote(script), args),
                    stdout = out, stderr = out, env = env, wait = wait)
  if (!wait) return(list(out = out, script = script))
  list(status = status, out = readLines(out, warn = FALSE))
}

expect_child <- function(code, ...) {
  child <- run_r(code, ...)
  if (child$status != 0) {
    fail(paste(c("the child session failed:", utils::tail(child$out, 12)), collapse = "\n"))
  } else {
    succeed()
  }
  invisible(child)
}

# By how many MB `code` raises the peak memory of a fresh session in which `before` has run.
peak_growth <- function(before, code) {
  testthat::skip_if_not(file.exists("/proc/self/status"), "peak memory is read from /proc")
  child <- expect_child(c(
    "library(keops)",
    'peak <- function() as.numeric(gsub("[^0-9]", "", grep("VmHWM", readLines("/proc/self/status"), value = TRUE))) / 1024',
    before, "start <- peak()", code, 'cat("grown by", peak() - start, "MB\\n")'
  ))
  as.numeric(sub("grown by ([0-9.]+) MB", "\\1", grep("^grown by", child$out, value = TRUE)))
}
