# Without a GPU: the CUDA source of every operation and reduction goes through NVRTC where that is found. With
# one (or the one of tests/fake-cuda) what the driver does: splits, slices, devices, memory, errors. The answers
# on GPUs are compared with dense R wherever those of compiled kernels are: each_backend().

skip_without_nvrtc <- function() {
  cuda <- keops_info()$cuda
  skip_if(is.na(cuda$nvrtc), paste("NVRTC was not found, CUDA sources are not compiled:", cuda$problem))
  skip_if(nzchar(Sys.getenv("FAKE_CUDA")), "NVRTC is a fake: it compiles in the other tests")
}

# Bytes of the cubin. Reductions that differ only in how they finish, and many sizes, have one source: it is compiled once.
cuda_bytes <- local({
  known <- list()
  function(formula, args, precision, m = 1e5, n = 1e5) {
    handle <- keops:::engine_formula(formula, args)$handle
    source <- paste("source", keops:::engine_cuda_source(handle, precision, m, n)) # no kernel: no name
    if (is.null(known[[source]])) known[[source]] <<- keops:::engine_cuda_source(handle, precision, m, n, arch = 90L)
    known[[source]]
  }
})

not_on_gpus <- c("Polygamma", "BesselK", "Matern")
gpu_reductions <- c("Sum", "Min", "Max", "ArgMin", "ArgMax", "Min_ArgMin", "Max_ArgMax", "LogSumExp", "LogSumExpWeight",
                    "SumSoftMaxWeight", "SoftMax", "Max_SumShiftExp", "Max_SumShiftExpWeight")

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
    names <- setdiff(ops$name[scalar & ops$arity == arity], not_on_gpus)
    for (some in split(names, (seq_along(names) - 1) %/% 6)) {
      sum <- paste(sprintf("%s(%s)", some, operands[arity]), collapse = "+")
      for (precision in c("single", "double")) expect_compiles(sprintf("Sum_Reduction(%s,1)", sum), args, precision)
      if ("Digamma" %in% some) sum <- sub("Digamma(a+b)", "b", sum, fixed = TRUE) # its derivative is Polygamma
      expect_compiles(sprintf("Grad(Sum_Reduction(%s,1),a,e)", sum), args, "single", zero = TRUE)
    }
  }
})

test_that("what GPUs do not have yet is refused, not compiled", {
  skip_without_nvrtc()
  refused <- function(text, args = c("x=Vi(1)", "y=Vj(1)")) {
    e <- tryCatch(cuda_bytes(text, args, "double"), error = identity)
    expect_s3_class(e, "keops_error_device")
    expect_match(conditionMessage(e), "not available on GPUs", label = text)
  }
  for (name in not_on_gpus) {
    refused(sprintf("Sum_Reduction(%s(x+y%s),1)", name, if (name == "Matern") ",1.5,0" else ",1"))
  }
  refused("Grad(Sum_Reduction(Digamma(x+y),1),x,x)")
  for (name in setdiff(keops:::engine_reductions(), c(gpu_reductions, "Zero"))) refused(sprintf("%s_Reduction(x*y,2,1)", name))
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
  for (name in gpu_reductions) {
    every <- name %in% c("Sum", "LogSumExp", "ArgMin")
    for (dim in c(3, 40, 60)) {
      args <- sprintf(c("x=Vi(%d)", "y=Vj(%d)"), dim)
      formula <- sprintf(if (grepl("Weight|SoftMax", name)) "%s_Reduction(SqDist(x,y),y,1)" else "%s_Reduction(SqDist(x,y),1)", name)
      # 60 columns unroll to seconds of compiling in double
      if (dim < 60 || name == "Sum") expect_compiles(formula, args, "double")
      if (dim == 40) next
      for (shape in if (every && dim == 3) shapes else shapes[5]) {
        expect_compiles(formula, args, "single", shape[1], shape[2])
      }
    }
  }
  for (wide in c("Sum_Reduction(Exp(-SqDist(x,y))*b,1)", "Min_Reduction(SqDist(x,y)*b,1)")) {
    for (shape in shapes) expect_compiles(wide, c("x=Vi(3)", "y=Vj(3)", "b=Vj(100)"), "single", shape[1], shape[2])
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
  param = "Grad(Sum_Reduction(Exp(-g*SqDist(x,y))*b,1),g,e)"
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
    reference <- op(data, device = "cpu", backend = "interpreted")
    out <- with_options(options, op(data))
    label <- sprintf("%s, %d x %d, %s", name, shape[1], shape[2], precision)
    if (name == "arg" && precision == "single") {
      expect_gt(mean(out == reference), 0.99, label = label) # values near a whole number may fall either way
    } else {
      expect_close(out, reference, tol(precision), scale = max(1, abs(reference)), label = label)
    }
    expect_identical(with_options(options, op(data)), out, label = paste(label, "again"))
  }
}

on_gpu <- list(keops.device = "gpu")

test_that("every shape of kernel gives the CPU's answers", {
  skip_without_gpu()
  set.seed(1)
  expect_as_on_cpu(on_gpu, list(c(1, 1), c(1, 5000), c(7, 1300), c(60, 33), c(2100, 300), c(2500, 1)))
})

test_that("work split into short launches gives the same", {
  skip_without_gpu()
  set.seed(2)
  expect_as_on_cpu(c(on_gpu, keops.gpu_launch = 1e-6), list(c(3000, 600), c(10, 5000)), c("sum", "wide", "long", "lse", "arg"))
})

test_that("data larger than the memory allowed go through it in slices", {
  skip_without_gpu()
  set.seed(3)
  expect_as_on_cpu(c(on_gpu, keops.gpu_memory = 60000), list(c(6000, 700), c(20, 9000)), c("sum", "lse", "arg"))
})

test_that("one device named twice works like two: rows are split, or items where rows are few", {
  skip_without_gpu()
  set.seed(4)
  both <- list(keops.device = c("gpu:0", "gpu:0"))
  expect_as_on_cpu(both, list(c(9000, 200), c(9, 9000), c(1, 1)), c("sum", "down", "lse", "arg", "param"))
  expect_as_on_cpu(c(both, keops.gpu_memory = 60000), list(c(9000, 700), c(9, 9000)), c("sum", "lse"))
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
