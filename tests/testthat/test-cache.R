# Counts, never times. In one session a kernel is loaded once, so what is on disk is seen from child sessions.

new_cache <- function() {
  dir <- tempfile("keops-cache-")
  dir.create(dir)
  dir
}
objects <- function(dir) list.files(dir, pattern = "[.]so$", recursive = TRUE)
leftovers <- function(dir) setdiff(list.files(dir, all.files = TRUE, no.. = TRUE, recursive = TRUE), objects(dir))

# A child session with this cache that runs one formula compiled, checks it, and prints its counts.
cache_child <- function(dir, more = character()) {
  code <- c(
    sprintf("options(keops.cache_dir = %s, keops.backend = 'compiled')", deparse(dir)),
    "library(keops)",
    "x <- matrix(1:6 / 6, 3); y <- matrix(1:8 / 8, 4)",
    "op <- keops_kernel('Sum_Reduction(Exp(-SqDist(x,y)),1)', c('x=Vi(2)', 'y=Vj(2)'))",
    "k <- exp(-outer(x[, 1], y[, 1], '-')^2 - outer(x[, 2], y[, 2], '-')^2)",
    "stopifnot(max(abs(op(list(x, y)) - rowSums(k))) < 1e-14)",
    more,
    "i <- keops_cache_info()",
    "cat('counts', i$hits, i$compiles, i$rejected, '\\n')"
  )
  child <- run_r(code)
  if (child$status != 0) stop(paste(child$out, collapse = "\n"))
  line <- grep("^counts", child$out, value = TRUE)
  list(counts = as.numeric(strsplit(line, " ")[[1]][2:4]), out = setdiff(child$out, line))
}

compile_counts <- function() unlist(keops_cache_info()[c("hits", "compiles", "rejected")])

test_that("J13: sizes and values of parameters never make a kernel anew", {
  skip_without_compiler()
  set.seed(1)
  op <- keops_kernel("Sum_Reduction(Exp(-g*SqDist(x,y))*Sin(Sin(x*y)),1)", c("x=Vi(3)", "y=Vj(3)", "g=Pm(1)"))
  before <- compile_counts()
  for (n in c(10, 1, 17, 300, 64)) {
    for (g in c(0.5, 2)) op(list(matrix(rnorm(3 * n), n), matrix(rnorm(60), 20), g), backend = "compiled")
  }
  expect_identical(unname((compile_counts() - before)["compiles"]), 1)
  # another operator with the same meaning shares it, another precision does not
  other <- keops_kernel("Sum_Reduction( Sin(Sin(v * u)) * Exp(-(SqDist(u, v) * h)), 1)",
                        c("u=Vi(3)", "v=Vj(3)", "h=Pm(1)"))
  other(list(matrix(0, 2, 3), matrix(0, 2, 3), 1), backend = "compiled")
  expect_identical(unname((compile_counts() - before)["compiles"]), 1)
  other(list(matrix(0, 2, 3), matrix(0, 2, 3), 1), backend = "compiled", precision = "single")
  expect_identical(unname((compile_counts() - before)["compiles"]), 2)
})

test_that("a kernel made in one session is used in the next", {
  skip_without_compiler()
  dir <- new_cache()
  expect_identical(cache_child(dir)$counts, c(0, 1, 0))
  expect_length(objects(dir), 1)
  expect_identical(leftovers(dir), character())
  expect_identical(cache_child(dir)$counts, c(1, 0, 0))
  # private: nobody else may put an object there
  expect_identical(as.integer(file.info(dir)$mode) %% 8L, as.integer(file.info(dir)$mode) %% 8L)
})

test_that("files that were damaged, cut, emptied or exchanged are made again", {
  skip_without_compiler()
  dir <- new_cache()
  cache_child(dir)
  file <- file.path(dir, objects(dir))
  whole <- readBin(file, "raw", 1e6)
  spoil <- list(
    cut = function() writeBin(whole[seq_len(length(whole) %/% 2)], file),
    empty = function() writeBin(raw(), file),
    flipped = function() {
      bad <- whole
      at <- length(bad) %/% 2
      bad[at] <- xor(bad[at], as.raw(255))
      writeBin(bad, file)
    },
    text = function() writeLines("not an object", file)
  )
  for (name in names(spoil)) {
    spoil[[name]]()
    expect_identical(cache_child(dir)$counts, c(0, 1, 1), label = name)
    expect_identical(cache_child(dir)$counts, c(1, 0, 0), label = paste(name, "healed"))
  }
  # an object under the name of another one
  file.copy(file, file.path(dir, paste0(strrep("0", 64), ".so")))
  expect_identical(cache_child(dir)$counts, c(1, 0, 0))
})

test_that("J03: sessions that start together share one whole object", {
  skip_without_compiler()
  dir <- new_cache()
  done <- tempfile(paste0("done", 1:4))
  code <- function(k) c(
    sprintf("options(keops.cache_dir = %s, keops.backend = 'compiled')", deparse(dir)),
    "library(keops)",
    "out <- keops_kernel('Sum_Reduction(Exp(-SqDist(x,y)),1)', c('x=Vi(1)', 'y=Vj(1)'))(list(1:3 / 3, 1:5 / 5))",
    sprintf("saveRDS(out, paste0(%s, '.new')); file.rename(paste0(%s, '.new'), %s)", deparse(done[k]),
            deparse(done[k]), deparse(done[k]))
  )
  children <- lapply(1:4, function(k) run_r(code(k), wait = FALSE))
  for (k in 1:300) {
    if (all(file.exists(done))) break
    Sys.sleep(0.1)
  }
  expect_true(all(file.exists(done)),
              info = paste(unlist(lapply(children, function(child) readLines(child$out))), collapse = "\n"))
  answer <- cbind(rowSums(exp(-outer(1:3 / 3, 1:5 / 5, "-")^2)))
  out <- lapply(done[file.exists(done)], readRDS)
  for (one in out) expect_identical(one, out[[1]])
  expect_equal(out[[1]], answer, tolerance = 1e-14)
  Sys.sleep(0.3)
  expect_length(objects(dir), 1)
  expect_identical(leftovers(dir), character())
})

test_that("J05: a folder that cannot be used is left for the session's own, with one message", {
  skip_without_compiler()
  blocked <- tempfile("not-a-folder-")
  writeLines("", blocked)
  for (dir in c(file.path(blocked, "cache"), "/proc/nonexistent/cache")) {
    child <- cache_child(dir, c("more <- keops_kernel('Sum_Reduction(Sin(SqDist(x,y)),1)', c('x=Vi(2)', 'y=Vj(2)'))",
                                "invisible(more(list(x, y)))"))
    expect_identical(child$counts, c(0, 2, 0))
    said <- grep("keops", child$out, value = TRUE)
    expect_length(said, 1)
    expect_match(said, dir, fixed = TRUE)
  }
})

test_that("J05: no home to write to: the session's temporary folder serves", {
  skip_without_compiler()
  code <- c(
    "options(keops.cache_dir = NULL)",
    "library(keops)",
    "op <- keops_kernel('Sum_Reduction(Exp(-SqDist(x,y)),1)', c('x=Vi(2)', 'y=Vj(2)'), backend = 'compiled')",
    "stopifnot(op(list(diag(2), diag(2))) == 1 + exp(-2))",
    "stopifnot(keops_cache_info()$files == 1)"
  )
  expect_child(code, env = c("HOME=/proc/nonexistent", "R_USER_CACHE_DIR=", "XDG_CACHE_HOME="))
})

test_that("under R CMD check the session's temporary folder is the cache", {
  child <- expect_child(c(
    "options(keops.cache_dir = NULL)",
    "library(keops)",
    "cat(startsWith(normalizePath(dirname(keops_cache_info()$path)), normalizePath(tempdir())))"
  ), env = "_R_CHECK_PACKAGE_NAME_=keops")
  expect_identical(child$out, "TRUE")
})

test_that("J01: without a compiler auto answers, and compiled says what was searched", {
  code <- c(
    "library(keops)",
    "Sys.setenv(PATH = '/nonexistent')",
    "set.seed(1); x <- matrix(rnorm(30), 10); y <- matrix(rnorm(36), 12); b <- matrix(rnorm(24), 12)",
    "op <- keops_kernel('Sum_Reduction(Exp(-SqDist(x,y))*b,1)', c('x=Vi(3)', 'y=Vj(3)', 'b=Vj(2)'))",
    "k <- exp(-as.matrix(dist(rbind(x, y)))[1:10, 11:22]^2)",
    "stopifnot(max(abs(op(list(x, y, b)) - k %*% b)) < 1e-13)",
    "e <- tryCatch(op(list(x, y, b), backend = 'compiled'), error = identity)",
    "stopifnot(inherits(e, 'keops_error_compile'))",
    "cat(conditionMessage(e))"
  )
  child <- expect_child(code, env = c("CC=", "KEOPS_COMPILER="))
  expect_match(paste(child$out, collapse = " "), "no C compiler|not found|compiler")
  for (name in c("gcc", "clang")) expect_true(any(grepl(name, child$out)), label = name)
})

test_that("a compiler that fails: auto interprets with one message, compiled is an error with its words", {
  broken <- tempfile("broken-cc-")
  writeLines(c("#!/bin/sh", "echo 'cannot compile today' >&2", "exit 3"), broken)
  Sys.chmod(broken, "755")
  with_options(list(keops.compiler = broken), {
    op <- keops_kernel(unusual_formula(1), c("x=Vi(1)", "y=Vj(1)"))
    e <- tryCatch(op(list(1, 2), backend = "compiled"), error = identity)
    expect_s3_class(e, c("keops_error_compile", "keops_error"))
    expect_true(grepl(broken, conditionMessage(e), fixed = TRUE), label = conditionMessage(e))
    set.seed(2)
    large <- keops_kernel(costly_formula(0.2718), costly_args)
    x <- runif(costly_points)
    data <- list(x, x)
    said <- character()
    withCallingHandlers({
      first <- large(data)
      second <- large(data)
    }, message = function(m) {
      said <<- c(said, conditionMessage(m))
      invokeRestart("muffleMessage")
    })
    expect_length(said, 1)
    expect_match(said[1], "interpreter")
    expect_identical(first, large(data, backend = "interpreted"))
    expect_identical(second, first)
  })
  expect_error(keops_options(compiler = ""), class = "keops_error_input")
})

test_that("a compiler that is not there is an error that names it", {
  with_options(list(keops.compiler = "/nonexistent/cc", keops.backend = "compiled"), {
    op <- keops_kernel(unusual_formula(2), c("x=Vi(1)", "y=Vj(1)"))
    expect_error(op(list(1, 2)), "/nonexistent/cc", class = "keops_error_compile")
  })
})

test_that("J02: a compiler that rejects -fopenmp compiles kernels all the same", {
  skip_without_compiler()
  picky <- tempfile("picky-cc-")
  writeLines(c("#!/bin/sh", "for a in \"$@\"; do", "  case \"$a\" in *openmp*) echo 'no openmp here' >&2; exit 1;; esac",
               "done", sprintf("exec %s \"$@\"", shQuote(found_compiler()))), picky)
  Sys.chmod(picky, "755")
  with_options(list(keops.compiler = picky, keops.backend = "compiled"), {
    op <- keops_kernel(unusual_formula(3), c("x=Vi(1)", "y=Vj(1)"))
    expect_equal(op(list(1, c(1, 2))), matrix(unusual_value(3, 1)), tolerance = 1e-14)
  })
})

test_that("J10: library, temporary folder and cache with spaces and quotes in their names", {
  skip_without_compiler()
  top <- file.path(tempdir(), "t m p (x)")
  lib <- file.path(top, "my lib")
  cache <- file.path(top, "c a", "\u00e9'q")
  dir.create(lib, recursive = TRUE)
  dir.create(cache, recursive = TRUE)
  file.copy(find.package("keops"), lib, recursive = TRUE)
  code <- c(
    sprintf(".libPaths(c(%s, .libPaths()))", deparse(lib)),
    sprintf("options(keops.cache_dir = %s, keops.backend = 'compiled')", deparse(enc2utf8(cache))),
    sprintf("library(keops, lib.loc = %s)", deparse(lib)),
    "stopifnot(grepl('my lib', find.package('keops')))",
    "op <- keops_kernel('Sum_Reduction(Exp(-SqDist(x,y)),1)', c('x=Vi(2)', 'y=Vj(2)'))",
    "stopifnot(op(list(diag(2), diag(2))) == 1 + exp(-2))",
    "i <- keops_cache_info()",
    "stopifnot(i$compiles == 1, i$files == 1)"
  )
  expect_child(code, env = paste0("TMPDIR=", shQuote(top)))
  expect_length(objects(cache), 1)
})

test_that("keops_cache_clear() removes our objects and nothing else", {
  skip_without_compiler()
  dir <- new_cache()
  keep <- file.path(dir, c("notes.txt", "other.so"))
  for (file in keep) writeLines("mine", file)
  with_options(list(keops.cache_dir = dir, keops.backend = "compiled"), {
    keops_kernel(unusual_formula(4), c("x=Vi(1)", "y=Vj(1)"))(list(1, 2))
    info <- keops_cache_info()
    expect_identical(info$path, dir)
    expect_gte(info$files, 1)
    expect_gt(info$bytes, 1000)
    ours <- setdiff(objects(dir), basename(keep))
    expect_length(ours, 1)
    keops_cache_clear(older_than = 1)
    expect_true(file.exists(file.path(dir, ours)))
    keops_cache_clear()
    expect_identical(sort(list.files(dir)), sort(basename(keep)))
    expect_identical(keops_cache_info()$files, 0)
  })
  expect_error(keops_cache_clear(older_than = "x"), class = "keops_error_input")
})

resident_mb <- function() {
  line <- grep("^VmRSS", readLines("/proc/self/status"), value = TRUE)
  as.numeric(gsub("[^0-9]", "", line)) / 1024
}

test_that("J14: thousands of calls do not add up in memory", {
  skip_if_not(file.exists("/proc/self/status"), "no /proc/self/status here")
  each_backend(precisions = "double", function(backend, precision) {
    op <- keops_kernel("Sum_Reduction(Exp(-SqDist(x,y))*b,1)", c("x=Vi(3)", "y=Vj(3)", "b=Vj(1)"))
    dx <- keops_grad(op, "x")
    many <- function(times) {
      for (k in seq_len(times)) {
        x <- matrix(runif(300), 100)
        op(list(x, x, x[, 1]))
        dx(list(x, x, x[, 1], x[, 2]))
        if (k %% 10 == 0) try(op(list(x, x, "a")), silent = TRUE)
      }
      invisible(gc())
    }
    many(200)
    before <- resident_mb()
    compiles <- compile_counts()["compiles"]
    many(1000)
    expect_lt(resident_mb() - before, 20)
    expect_identical(compile_counts()["compiles"], compiles)
  })
})

test_that("formulas that are no longer used are forgotten", {
  skip_if_not(file.exists("/proc/self/status"), "no /proc/self/status here")
  many <- function(from, times) {
    for (k in from + seq_len(times)) {
      keops_kernel(sprintf("Sum_Reduction(Exp(-SqDist(x,y))*%d,1)", k), c("x=Vi(50)", "y=Vj(50)"))(
        list(matrix(0, 2, 50), matrix(0, 2, 50)), backend = "interpreted")
    }
    invisible(gc())
  }
  many(0, 400)
  before <- resident_mb()
  many(400, 800)
  expect_lt(resident_mb() - before, 20)
})
