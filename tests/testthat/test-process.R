test_that("loading prints nothing, writes nothing and starts nothing", {
  home <- tempfile("home-")
  dir.create(home)
  child <- expect_child("options(keops.cache_dir = NULL); library(keops)",
                        env = c(paste0("HOME=", home), "R_USER_CACHE_DIR=", "XDG_CACHE_HOME="))
  expect_identical(child$out, character())
  expect_identical(list.files(home, all.files = TRUE, no.. = TRUE), character())
})

# A session that interrupts itself after `delay` seconds of a run that takes much longer.
interrupt_code <- function(backend, body) {
  c(
    sprintf("options(keops.backend = '%s')", backend),
    "library(keops)",
    "n <- 400000; x <- matrix(seq_len(3 * n) / n, n)",
    "op <- keops_kernel('Sum_Reduction(Exp(-SqDist(x,y)),1)', c('x=Vi(3)', 'y=Vj(3)'))",
    "small <- list(x[1:3, ], x[1:4, ])",
    "answer <- op(small)", # compiled by now
    "soon <- function(delay) system(sprintf('(sleep %.1f; kill -INT %d) &', delay, Sys.getpid()))",
    "now <- function() proc.time()[['elapsed']]",
    body,
    "stopifnot(identical(op(small), answer))"
  )
}

test_that("Ctrl-C stops a long run at once and leaves the session usable", {
  for (backend in c("interpreted", "compiled")) {
    if (backend == "compiled") skip_without_compiler()
    code <- interrupt_code(backend, c(
      "for (threads in 1:2) {",
      "  start <- now(); soon(0.6)",
      "  seen <- tryCatch({ op(list(x, x), threads = threads); 'finished' }, interrupt = function(e) 'interrupted')",
      "  took <- now() - start",
      "  cat(seen, took, '\\n')",
      "  stopifnot(seen == 'interrupted', took < 1.3)",
      "}"
    ))
    expect_child(code)
  }
})

test_that("an interrupt without a handler ends the call like base R's own", {
  code <- interrupt_code("interpreted", c(
    "soon(0.6)",
    "out <- withRestarts(op(list(x, x)), abort = function() 'to top level')",
    "stopifnot(identical(out, 'to top level'))"
  ))
  expect_child(code)
})

test_that("J11: forked children work after a run with threads, and with one thread", {
  skip_on_os("windows")
  set.seed(1)
  x <- matrix(rnorm(6000), 2000)
  each_backend(precisions = "double", gpu = FALSE, function(backend, precision) { # CUDA does not survive a fork
    op <- keops_kernel("Sum_Reduction(Exp(-SqDist(x,y)),1)", c("x=Vi(3)", "y=Vj(3)"))
    with_options(list(keops.threads = 4L), {
      op(list(x, x))
      forked <- parallel::mclapply(1:4, function(s) op(list(x + s, x)), mc.cores = 2)
      expect_identical(forked, lapply(1:4, function(s) op(list(x + s, x))))
      threads <- parallel::mclapply(1:2, function(s) keops:::thread_count(), mc.cores = 2)
      expect_identical(threads, list(1L, 1L))
    })
  })
})

test_that("a forked child can compile", {
  skip_on_os("windows")
  skip_without_compiler()
  op <- keops_kernel(unusual_formula(6), c("x=Vi(1)", "y=Vj(1)"))
  out <- parallel::mclapply(1:2, function(s) op(list(s, 1), backend = "compiled"), mc.cores = 2)
  expect_equal(out, list(matrix(0), matrix(unusual_value(6, 1))), tolerance = 1e-14)
})

test_that("operators survive saveRDS() and a new session", {
  file <- tempfile(fileext = ".rds")
  op <- keops_kernel("Sum_Reduction(Exp(-g*SqDist(x,y)),1)", c("x=Vi(2)", "y=Vj(2)", "g=Pm(1)"), precision = "single")
  x <- matrix(1:6 / 6, 3)
  data <- list(x, x, 2)
  saveRDS(list(op = op, dx = keops_grad(op, "x"), data = data, out = op(data), grad = keops_grad(op, "x")(c(data, list(1:3)))),
          file)
  expect_lt(file.size(file), 30000)
  expect_child(c(
    sprintf("s <- readRDS(%s)", deparse(file)),
    "library(keops)",
    "stopifnot(inherits(s$op, 'keops_kernel'))",
    "stopifnot(identical(s$op(s$data), s$out))",
    "stopifnot(identical(s$dx(c(s$data, list(1:3))), s$grad))",
    "print(s$op)"
  ))
})

test_that("results are the same with ALTREP data and after gc()", {
  op <- keops_kernel("Sum_Reduction(x*y,1)", c("x=Vi(1)", "y=Vj(1)"))
  gctorture_off <- function() gctorture(FALSE)
  on.exit(gctorture_off())
  reference <- op(list(as.numeric(1:20), as.numeric(1:30)))
  gctorture(TRUE)
  out <- op(list(1:20, 1:30))
  dx <- keops_grad(op, "x")(list(1:20, 1:30, 1:20))
  gctorture(FALSE)
  expect_identical(out, reference)
  expect_equal(dx, cbind(1:20 * 465))
})

test_that("T04: thread limits of arguments, options and the environment hold", {
  names <- c("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "_R_CHECK_LIMIT_CORES_", "KEOPS_THREADS")
  old <- Sys.getenv(names, NA)
  on.exit({
    Sys.unsetenv(names)
    if (!all(is.na(old))) do.call(Sys.setenv, as.list(old[!is.na(old)]))
  })
  skip_if_not(keops:::engine_cpu()$openmp, "built without OpenMP: one thread")
  count <- function(...) {
    Sys.unsetenv(names)
    Sys.setenv(...)
    with_options(list(keops.threads = NULL), c(keops:::thread_count(), keops:::thread_count(64)))
  }
  expect_identical(count(OMP_NUM_THREADS = "3"), c(3L, 64L))
  expect_identical(count(OMP_NUM_THREADS = "8", OMP_THREAD_LIMIT = "2"), c(2L, 2L))
  expect_identical(count(OMP_NUM_THREADS = "5", "_R_CHECK_LIMIT_CORES_" = "TRUE"), c(2L, 2L))
  expect_identical(count(KEOPS_THREADS = "1", OMP_NUM_THREADS = "5"), c(1L, 64L))
  with_options(list(keops.threads = 3L), expect_identical(c(keops:::thread_count(), keops:::thread_count(2)), 3:2))
})

test_that("keops_info() says what was found", {
  info <- keops_info()
  out <- capture.output(print(info))
  expect_gt(length(out), 3)
  for (word in c("OpenMP", "CUDA", "ompiler", "ache")) expect_true(any(grepl(word, out)), label = word)
})

test_that("the namespace loads with base alone, as a saved object may ask", {
  code <- c("loadNamespace('keops')", "stopifnot(!'package:stats' %in% search())", "K <- keops::Vi(1:3) * keops::Vj(1:2)", "stopifnot(sum(K) == 18)")
  expect_child(code, env = "R_DEFAULT_PACKAGES=NULL")
})
