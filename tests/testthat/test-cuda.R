# Without a GPU: the CUDA source of every operation and reduction goes through NVRTC where that is found. With
# one (or the one of tests/fake-cuda) what the driver does: splits, slices, devices, memory, errors. The answers
# on GPUs are compared with dense R wherever those of compiled kernels are: each_backend().

skip_without_nvrtc <- function() {
  cuda <- keops_info()$cuda
  skip_if(is.na(cuda$nvrtc), paste("NVRTC was not found, CUDA sources are not compiled:", cuda$problem))
  skip_if(nzchar(Sys.getenv("FAKE_CUDA")), "NVRTC is a fake: it compiles in the other tests")
}

# Bytes of a formula's kernels as NVRTC compiles them. Many formulas and sizes share a source: each is compiled once.
cuda_bytes <- local({
  known <- list()
  function(formula, args, precision, m = 1e5, n = 1e5, ranged = FALSE) {
    handle <- keops:::engine_formula(formula, args, ranged = ranged)$handle
    source <- keops:::engine_cuda_source(handle, precision, m, n)
    if (!nzchar(source)) return(0)
    if (is.null(known[[source]])) {
      known[[source]] <<- keops:::engine_cuda_source(handle, precision, m, n, arch = 90L)
    }
    known[[source]]
  }
})

gpu_reductions <- c("Sum", "Min", "Max", "ArgMin", "ArgMax", "Min_ArgMin", "Max_ArgMax", "LogSumExp", "LogSumExpWeight",
                    "SumSoftMaxWeight", "SoftMax", "Max_SumShiftExp", "Max_SumShiftExpWeight", "KMin", "ArgKMin",
                    "KMin_ArgKMin")

# A gradient that is zero has no kernel.
expect_compiles <- function(formula, args, ..., zero = FALSE) {
  tryCatch(expect_gt(cuda_bytes(formula, args, ...), -zero), keops_error = function(e) {
    fail(paste0(formula, ": ", conditionMessage(e)))
  })
}

test_that("NVRTC compiles every operation and its gradient", {
  skip_without_nvrtc()
  ops <- keops:::engine_operations()
  scalar <- ops$kind == "scalar"
  args <- c("a=Vi(1)", "b=Vj(1)", "c=Vj(1)", "e=Vi(1)")
  operands <- c("a+b", "a+b,b", "a+b,b,c")
  for (arity in 1:3) {
    names <- ops$name[scalar & ops$arity == arity]
    for (some in split(names, (seq_along(names) - 1) %/% 12)) {
      sum <- paste(sprintf("%s(%s)", some, operands[arity]), collapse = "+")
      for (precision in c("single", "double")) expect_compiles(sprintf("Sum_Reduction(%s,1)", sum), args, precision)
      if ("Digamma" %in% some) sum <- sub("Digamma(a+b)", "b", sum, fixed = TRUE) # its derivative is Polygamma
      expect_compiles(sprintf("Grad(Sum_Reduction(%s,1),a,e)", sum), args, "single", zero = TRUE)
    }
  }
})

test_that("NVRTC compiles every operation that moves or packs components", {
  skip_without_nvrtc()
  args <- c("a=Vi(2)", "b=Vj(2)", "p=Pm(2)", "q=Pm(1)", "a1=Vi(1)", "b1=Vj(1)", "e=Vi(1)")
  shown <- c("Sum(Concat(a,b)*SumT(b1,4))", "Elem(a*b,1)*Sum(ExtractT(a*b,1,4))", "Sum(Extract(Concat(a,b),1,2))",
             "Sum(ElemT(a1*b1,3,1))", "Max(Sin(a*b))+Min(Sin(a*b))", "ArgMax(Concat(a1,b1))*b1",
             "Sum(MatVecMult(Concat(a,b),b))", "Sum(VecMatMult(b,Concat(a,b)))",
             "Sum(TensorDot(Concat(a,b),Concat(b,p),[2,2],[2,2],[],[],[3,1,0,2]))", "Sum(Kron(a,Concat(b,b1),[2,1],[1,3]))",
             "Sum(BSpline(Concat(-2.5,Concat(-1.1,Concat(0.3,Concat(1.2,2.6)))),Sin(a1*b1)*2,2))",
             "SoftDTW_SqDist(a,Concat(b,b1),Square(q)+0.5)", "Sum(OneHot(a1+b1,4))", "Sum(ComplexDivide(a,b+4))",
             "Laplacian(Exp(-SqDist(a,b)/4),a)", "PeriodicKernel(q*q+0.5,1.7,a,b,b1)")
  for (term in shown) {
    expect_compiles(sprintf("Sum_Reduction(%s,1)", term), args, "single")
    expect_compiles(sprintf("Grad(Sum_Reduction(%s,1),a,e)", term), args, "double", zero = TRUE)
  }
})

test_that("NVRTC compiles every reduction in every shape of kernel", {
  skip_without_nvrtc()
  shapes <- list(c(1, 1e5), c(20, 1e5), c(1000, 1000), c(1e4, 1e4), c(1e5, 1e5))
  expect_setequal(gpu_reductions, setdiff(keops:::engine_reductions(), "Zero"))
  for (name in gpu_reductions) {
    every <- name %in% c("Sum", "LogSumExp", "ArgMin", "ArgKMin")
    for (dim in c(3, 60)) {
      args <- sprintf(c("x=Vi(%d)", "y=Vj(%d)"), dim)
      more <- if (grepl("Weight|SoftMax", name)) ",y" else if (grepl("KMin", name)) ",10" else ""
      formula <- sprintf("%s_Reduction(SqDist(x,y)%s,1)", name, more)
      # loops over components are the same for weights as without, and slow to compile in double
      if (dim == 3 || !grepl("Weight|SoftMax", name)) expect_compiles(formula, args, "double")
      for (shape in if (every && dim == 3) shapes else shapes[5]) {
        expect_compiles(formula, args, "single", shape[1], shape[2])
      }
    }
  }
  for (wide in c("Sum_Reduction(Exp(-SqDist(x,y))*b,1)", "Min_Reduction(SqDist(x,y)*b,1)", "KMin_Reduction(SqDist(x,y)*b,4,1)",
                 "KMin_Reduction(SqDist(x,y),100,1)", "KMin_Reduction(x*y,7,1)")) {
    for (shape in shapes) expect_compiles(wide, c("x=Vi(3)", "y=Vj(3)", "b=Vj(100)"), "single", shape[1], shape[2])
  }
})

test_that("NVRTC compiles every reduction over ranges", {
  skip_without_nvrtc()
  for (name in gpu_reductions) {
    more <- if (grepl("Weight|SoftMax", name)) ",y" else if (grepl("KMin", name)) ",100" else ""
    formula <- sprintf("%s_Reduction(SqDist(x,y)%s,1)", name, more)
    expect_compiles(formula, c("x=Vi(3)", "y=Vj(3)"), "single", m = 500, n = 500, ranged = TRUE)
  }
})

test_that("NVRTC's message and the source come with a failure", {
  skip_without_nvrtc()
  handle <- keops:::engine_formula("Sum_Reduction(x*y,1)", c("x=Vi(1)", "y=Vj(1)"))$handle
  source <- keops:::engine_cuda_source(handle, "single", 10, 10)
  expect_match(source, "template <int JR>", fixed = TRUE)
  e <- tryCatch(keops:::engine_cuda_source(handle, "single", 10, 10, arch = 20L), error = identity)
  expect_s3_class(e, "keops_error_device")
  expect_match(conditionMessage(e), "compute capability 2.0", fixed = TRUE)
})

# ---- with a GPU ----

cuda_formulas <- c(
  sum = "Sum_Reduction(Exp(-g*SqDist(x,y))*b,1)",
  wide = "Sum_Reduction(Exp(-g*SqDist(x,y))*w,1)",
  least = "Min_Reduction(SqDist(x,y)*w,1)",
  soft = "LogSumExp_Reduction(-SqDist(u,w)/30,1)",
  long = "Grad(Sum_Reduction(Exp(-SqDist(Concat(u,u),Concat(w,w))/60),1),u,e)",
  down = "Sum_Reduction(Exp(-g*SqDist(x,y))*x,0)",
  lse = "LogSumExp_Reduction(-SqDist(x,y)*b,1)",
  min = "Min_Reduction(SqDist(x,y)-b,1)",
  arg = "ArgMax_Reduction(Floor(8*Sin(Elem(x,0)-y)),1)",
  param = "Grad(Sum_Reduction(Exp(-g*SqDist(x,y))*b,1),g,e)",
  few = "KMin_ArgKMin_Reduction(Floor(6*SqDist(x,y)),7,1)",
  many = "KMin_Reduction(SqDist(x,y)*Extract(w,0,2),70,1)"
)
cuda_args <- c("x=Vi(3)", "y=Vj(3)", "b=Vj(1)", "g=Pm(1)", "e=Vi(1)", "w=Vj(30)", "u=Vi(30)")
cuda_data <- function(m, n) {
  list(draw(m, 3, -1, 1), draw(n, 3, -1, 1), draw(n, 1, 0.5, 2), 0.5, draw(m, 1, 0, 1), draw(n, 30, -1, 1),
       draw(m, 30, -1, 1))
}

# Formula by shape by precision: the GPU with these options against the CPU.
expect_as_on_cpu <- function(options, shapes, which = names(cuda_formulas)) {
  for (name in which) for (shape in shapes) for (precision in c("double", "single")) {
    op <- keops_kernel(cuda_formulas[[name]], cuda_args, precision = precision)
    data <- cuda_data(shape[1], shape[2])
    reference <- flat(op(data, device = "cpu", backend = "interpreted"))
    out <- with_options(options, flat(op(data)))
    label <- sprintf("%s, %d x %d, %s", name, shape[1], shape[2], precision)
    if (name %in% c("arg", "few") && precision == "single") {
      expect_gt(mean(out == reference, na.rm = TRUE), 0.99, label = label) # values near a whole number may fall either way
    } else {
      scale <- max(1, abs(reference[is.finite(reference)]))
      expect_close(out, reference, tol(precision), scale = scale, label = label)
    }
    expect_identical(with_options(options, flat(op(data))), out, label = paste(label, "again"))
  }
}

on_gpu <- list(keops.device = "gpu")

test_that("every shape of kernel gives the CPU's answers", {
  skip_without_gpu()
  set.seed(1)
  expect_as_on_cpu(on_gpu, list(c(1, 1), c(1, 5000), c(7, 1300), c(60, 33), c(2100, 300), c(2500, 1)))
})

# Sizes from which tensor cores are taken; tiles are not all whole ones.
test_that("tensor cores give the CPU's answers: products of components, sums of columns", {
  skip_without_gpu()
  set.seed(11)
  m <- 1100
  n <- 1000
  x <- draw(m, 20, 0, 1)
  y <- draw(n, 20, 0, 1)
  b <- draw(n, 24, -1, 1)
  args <- c("x=Vi(20)", "y=Vj(20)", "b=Vj(24)", "g=Pm(1)", "c=Vj(1)", "u=Vi(2)", "v=Vj(2)")
  data <- list(x, y, b, 0.3, b[, 1], x[, 1:2], y[, 1:2])
  close <- function(formula, data, label, options = on_gpu, tolerance = 1e-5) {
    op <- keops_kernel(formula, args, precision = "single")
    exact <- op(data, device = "cpu", precision = "double")
    out <- with_options(options, op(data))
    expect_identical(is.finite(out), is.finite(exact), label = label)
    expect_identical(out[!is.finite(out)], exact[!is.finite(exact)], label = label)
    seen <- is.finite(exact)
    expect_lt(sqrt(sum((out[seen] - exact[seen])^2) / sum(exact[seen]^2)), tolerance, label = label)
  }
  distance <- "Sum_Reduction(Exp(-g*SqDist(x,y))*c,1)"
  wide <- "Sum_Reduction(Exp(-g*SqDist(u,v))*b,1)"
  close(distance, data, "distances", tolerance = 2e-6)
  close("LogSumExp_Reduction(g*(x|y)-c,1)", data, "products", tolerance = 2e-6)
  close("ArgMax_Reduction(Round(4*(x|y),0)+0*c,1)", data, "largest of ties", tolerance = 1e-3)
  close(wide, data, "columns", tolerance = 2e-6)
  close(distance, data, "in slices", c(on_gpu, keops.gpu_memory = 9e4))
  close(wide, data, "columns in slices", c(on_gpu, keops.gpu_memory = 9e4))
  # points far apart for the bandwidth: lengths would swamp the distances
  near <- replace(data, c(2, 4), list(x[seq_len(n), ] + draw(n, 20, -0.01, 0.01), 600))
  close(distance, near, "narrow", tolerance = 5e-6)
  far <- replace(near, 1:2, list(x + 1e4, near[[2]] + 1e4)) # centred before
  expect_lt(max(abs(keops_kernel(distance, args, precision = "single", device = "gpu")(far) -
                      keops_kernel(distance, args, precision = "single", device = "cpu")(far))), 1e-4)
  # Inf and NaN
  x[3, 2] <- Inf
  x[700, 1] <- NaN
  b[17, 5] <- -Inf
  b[900, 12] <- 3e38
  close(distance, replace(data, 1, list(x)), "points that are not finite")
  close(wide, replace(data, 3, list(b)), "columns that are not finite")
  twins <- replace(data, 6, list(rbind(data[[7]][1:50, ], data[[6]][51:m, ])))
  close("Sum_Reduction(b/SqDist(u,v),1)", twins, "factors that are not finite")
  close("Sum_Reduction(Exp(g*SqDist(x,y))*c,1)", data, "a scale above 0")
})

test_that("work split into short launches gives the same", {
  skip_without_gpu()
  set.seed(2)
  expect_as_on_cpu(c(on_gpu, keops.gpu_launch = 1e-6), list(c(3000, 600), c(10, 5000)), c("sum", "wide", "long", "lse", "arg", "few", "many"))
})

test_that("data larger than the memory allowed go through it in slices", {
  skip_without_gpu()
  set.seed(3)
  expect_as_on_cpu(c(on_gpu, keops.gpu_memory = 60000), list(c(6000, 700), c(20, 9000)), c("sum", "lse", "arg", "few"))
  expect_as_on_cpu(c(on_gpu, keops.gpu_memory = 60000), list(c(300, 700), c(20, 9000)), "many")
})

test_that("one device named twice works like two: rows are split, or items where rows are few", {
  skip_without_gpu()
  set.seed(4)
  both <- list(keops.device = c("gpu:0", "gpu:0"))
  expect_as_on_cpu(both, list(c(9000, 200), c(9, 9000), c(1, 1)), c("sum", "down", "lse", "arg", "param", "few"))
  expect_as_on_cpu(c(both, keops.gpu_memory = 60000), list(c(9000, 700), c(9, 9000)), c("sum", "lse"))
})

# Clusters of 1 to `most` rows that see about a share `p` of those of the other side; some see nothing.
cuda_ranges <- function(m, n, most, p) {
  labels <- function(n) rep(seq_len(n), sample(most, n, replace = TRUE))[seq_len(n)]
  i <- labels(m)
  j <- labels(n)
  keep <- matrix(runif(max(i) * max(j)) < p, max(i))
  if (nrow(keep) > 2) keep[2, ] <- FALSE
  keops_ranges(i, j, keep)
}

range_formulas <- c(cuda_formulas[c("sum", "wide", "down", "lse", "min", "param", "many")],
                    few = "KMin_ArgKMin_Reduction(SqDist(x,y),5,0)",
                    grad = "Grad(LogSumExp_Reduction(-SqDist(x,y)*b,1),y,e)",
                    second = "Grad(Grad(Sum_Reduction(Exp(-SqDist(x,y))*b,1),y,e),x,y)",
                    count = "Sum_Reduction(1,0)")

test_that("ranges give the CPU's answers: in slices, short launches and on two devices too", {
  skip_without_gpu()
  set.seed(6)
  ways <- list(list(), list(keops.gpu_launch = 1e-6), list(keops.gpu_memory = 60000),
               list(keops.device = c("gpu:0", "gpu:0")))
  shapes <- list(list(90, 700, 40, 0.4), list(5000, 300, 700, 0.5), list(12, 9000, 300, 0.3))
  for (way in ways) for (shape in shapes) {
    m <- shape[[1]]
    n <- shape[[2]]
    data <- cuda_data(m, n)
    ranges <- do.call(cuda_ranges, shape)
    for (name in if (length(way)) c("sum", "min", "few") else names(range_formulas)) {
      for (precision in c("double", "single")) {
        op <- keops_kernel(range_formulas[[name]], cuda_args, precision = precision)
        reference <- flat(op(data, ranges = ranges, device = "cpu", backend = "interpreted"))
        out <- with_options(modifyList(on_gpu, way), flat(op(data, ranges = ranges)))
        expect_close(out, reference, tol(precision), scale = max(1, abs(reference[is.finite(reference)])),
                     label = sprintf("%s, %d x %d, %s, %s", name, m, n, precision, toString(names(way))))
      }
    }
  }
})

test_that("functions with an order are the CPU's to a few units of the last place, in any order", {
  skip_without_gpu()
  set.seed(7)
  grid <- expand.grid(x = c(1e-300, 1e-20, 0.01, 0.7, 1.99, 2, 2.5, 30, 700, 11000), n = c(0, 0.3, 0.5, 1, 2.5, 7, 33.3, 150, 999.5))
  grid <- rbind(grid, data.frame(x = exp(runif(300, -7, 5)), n = runif(300, 0, 8)))
  whole <- transform(grid, n = floor(n))
  left <- transform(whole, x = -x - 0.3, n = 2 * pmin(floor(n / 2), 4) + 1) # odd orders have no zeros there
  edges <- expand.grid(x = c(0, -0.5, -1, Inf, -Inf, NaN), n = c(0, 1, 2, 1.5, -1, 2000, NaN))
  run <- function(text, at, ...) {
    keops_kernel(sprintf("Sum_Reduction(%s,1)", text), c("x=Vi(1)", "n=Vi(1)", "z=Vj(1)"), ...)(list(at$x, at$n, 1))
  }
  expect_few_ulp <- function(text, at) {
    for (precision in c("double", "single")) {
      reference <- run(text, at, precision = precision, backend = "interpreted")
      out <- run(text, at, precision = precision, device = "gpu")
      few <- (if (precision == "double") 4 * 2^-52 else 2 * 2^-23) * abs(reference)
      tiny <- if (precision == "double") 2^-1070 else 2^-125
      same <- is.nan(out) == is.nan(reference) & (is.nan(out) | out == reference | abs(out - reference) <= few + tiny)
      bad <- which(!same)[seq_len(min(3, sum(!same)))]
      expect_true(all(same), label = paste(text, precision, toString(sprintf(
        "%.17g, %.17g: %.17g is not %.17g", at$x[bad], at$n[bad], out[bad], reference[bad]))))
    }
  }
  for (at in list(grid, edges)) {
    expect_few_ulp("BesselK(x*z,n)", at)
    for (m in 0:2) expect_few_ulp(sprintf("Matern(x*z,n,%d)", m), at)
  }
  for (at in list(whole, left, edges[edges$x != -0.5 | edges$n != 2, ])) expect_few_ulp("Polygamma(x*z,n)", at)
})

test_that("no items, no rows", {
  skip_without_gpu()
  op <- keops_kernel("Sum_Reduction(x*y,1)", c("x=Vi(1)", "y=Vj(1)"), device = "gpu")
  expect_identical(op(list(1:3, numeric())), matrix(0, 3, 1))
  expect_identical(op(list(numeric(), 1:3)), matrix(0, 0, 1))
})

test_that("a kernel made for a GPU is found again in the cache", {
  skip_without_gpu()
  dir <- tempfile("keops-cache-")
  code <- c(
    sprintf("options(keops.cache_dir = %s, keops.device = 'gpu')", deparse(dir)),
    "library(keops)",
    "out <- keops_kernel('Sum_Reduction(Exp(-Square(x-y)),1)', c('x=Vi(1)', 'y=Vj(1)'))(list(0, 1:3))",
    "stopifnot(abs(out - sum(exp(-(1:3)^2))) < 1e-12)",
    "i <- keops_cache_info(); cat('counts', i$hits, i$compiles, i$rejected, '\\n')"
  )
  expect_match(expect_child(code)$out, "counts 0 1 0", all = FALSE)
  expect_match(expect_child(code)$out, "counts 1 0 0", all = FALSE)
  file <- list.files(dir, "[.]cubin$", full.names = TRUE)
  expect_length(file, 1)
  writeLines("damaged", file)
  expect_match(expect_child(code)$out, "counts 0 1 1", all = FALSE)
})

test_that("memory is kept for the next call, and given back", {
  skip_without_gpu()
  op <- keops_kernel(cuda_formulas[["sum"]], cuda_args, device = "gpu")
  set.seed(5)
  data <- cuda_data(500, 400)
  out <- op(data)
  for (k in 1:20) expect_identical(op(data), out)
  keops_gpu_release()
  expect_identical(op(data), out)
})

test_that("a GPU that is not there is an error that says what there is; auto goes on without", {
  skip_without_gpu()
  op <- keops_kernel("Sum_Reduction(x*y,1)", c("x=Vi(1)", "y=Vj(1)"))
  e <- tryCatch(op(list(1, 1), device = "gpu:15"), error = identity)
  expect_s3_class(e, "keops_error_device")
  expect_match(conditionMessage(e), "no GPU number 15", fixed = TRUE)
  expect_identical(op(list(1, 1), device = "auto"), matrix(1))
})

test_that("in a child made by fork after the first use, a GPU is an error", {
  skip_without_gpu()
  skip_on_os("windows")
  op <- keops_kernel("Sum_Reduction(x*y,1)", c("x=Vi(1)", "y=Vj(1)"))
  op(list(1, 1), device = "gpu")
  said <- parallel::mclapply(1:2, function(k) tryCatch(op(list(1, 1), device = "gpu"), error = conditionMessage),
                             mc.cores = 2)
  expect_match(said[[1]], "forked", fixed = TRUE)
  expect_identical(parallel::mclapply(1:2, function(k) op(list(1, k), device = "cpu"), mc.cores = 2)[[2]], matrix(2))
})

test_that("Ctrl-C stops a long run on the GPU and leaves it usable", {
  skip_without_gpu()
  skip_if(nzchar(Sys.getenv("FAKE_CUDA")), "a fake GPU does not run beside its host")
  child <- expect_child(c(
    "options(keops.device = 'gpu', keops.precision = 'double')",
    "library(keops)",
    "n <- 4e6; x <- matrix(seq_len(3 * n) / n, n)",
    "op <- keops_kernel('Sum_Reduction(Exp(-SqDist(x,y)),1)', c('x=Vi(3)', 'y=Vj(3)'))",
    "small <- list(x[1:3000, ], x[1:4, ])",
    "answer <- op(small); op(list(x, x[1:1000, ]))",
    "start <- proc.time()[['elapsed']]",
    "system(sprintf('(sleep 1; kill -INT %d) &', Sys.getpid()))",
    "seen <- tryCatch({ op(list(x, x)); 'finished' }, interrupt = function(e) 'interrupted')",
    "took <- proc.time()[['elapsed']] - start",
    "cat(seen, took, '\\n')",
    "stopifnot(seen == 'interrupted', took < 2.5, identical(op(small), answer))"
  ))
})

test_that("auto takes the GPU for large work only", {
  skip_without_gpu()
  where <- function(n) {
    op <- keops_kernel("Sum_Reduction(Exp(-SqDist(x,y)),1)", c("x=Vi(3)", "y=Vj(3)"), precision = "single")
    x <- matrix(runif(3 * n), n)
    said <- character()
    withCallingHandlers(with_options(list(keops.device = "auto", keops.verbose = TRUE), op(list(x, x))),
                        message = function(m) {
      said <<- c(said, conditionMessage(m))
      invokeRestart("muffleMessage")
    })
    grepl("GPU", said[1])
  }
  expect_false(where(100))
  skip_if(nzchar(Sys.getenv("FAKE_CUDA")), "a fake GPU is too slow")
  expect_true(where(1e5))
})
