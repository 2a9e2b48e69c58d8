# Products of many components on tensor cores (src/cuda/dots_cuda.h): which kernel runs is chosen by the data, and
# all give the CPU's answers. Products that are approximate must differ in some bit from those of the kernel
# that is never so: that tells which one ran.

skip_without_gpu <- function() {
  cuda <- keops_info()$cuda
  skip_if(!is.null(cuda$problem), paste("no GPU to test with:", cuda$problem))
}

products <- c(
  gauss = "Sum_Reduction(Exp(-g*SqDist(x,y))*b,1)",
  down = "Sum_Reduction(Exp(-g*SqDist(x,y))*a,0)",
  lse = "LogSumExp_Reduction(-g*SqDist(x,y),1)",
  softmax = "SumSoftMaxWeight_Reduction(-g*SqDist(x,y),b,1)",
  linear = "Sum_Reduction((x|y)*b,1)",
  score = "LogSumExp_Reduction(g*(x|y),1)",
  mixed = "Sum_Reduction(Exp(-g*SqDist(x,y))*a*b+Exp(-Square(a-c)),1)"
)

product_data <- function(dim, m, n, columns = 1, spread = 1) {
  x <- matrix(runif(m * dim), m) * spread
  y <- matrix(runif(n * dim), n) * spread
  list(x = x, y = y, b = matrix(rnorm(n * columns), n), a = rnorm(m), c = rnorm(n), g = 3 / dim)
}

expect_product <- function(which, data, same_kernel = FALSE, tolerance = 1e-5) {
  args <- c(sprintf("%s=%s(%d)", c("x", "y", "b", "a", "c", "g"), c("Vi", "Vj", "Vj", "Vi", "Vj", "Pm"),
                    c(ncol(data$x), ncol(data$y), ncol(data$b), 1, 1, 1)))
  op <- keops_kernel(products[[which]], args)
  cpu <- op(unname(data), device = "cpu", precision = "double")
  gpu <- op(unname(data), device = "gpu", precision = "single")
  scale <- if (which == "linear") max(abs(data$x)) * max(abs(data$y)) * ncol(data$x) * sum(abs(data$b)) else max(abs(cpu))
  label <- sprintf("%s, %d components, %d x %d", which, ncol(data$x), nrow(data$x), nrow(data$y))
  expect_lt(max(abs(gpu - cpu)) / scale, tolerance, label = label)
  plain <- with_options(list(keops.accuracy = 1e-6), op(unname(data), device = "gpu", precision = "single"))
  expect_lt(max(abs(plain - cpu)) / scale, tolerance, label = label)
  if (!same_kernel) expect_false(identical(plain, gpu), label = label)
  invisible(gpu)
}

test_that("every kind of product, of dimensions and numbers that fill no block and no tile", {
  skip_without_gpu()
  set.seed(1)
  for (which in names(products)) expect_product(which, product_data(17, 130, 300))
  for (dim in c(18, 31, 32, 33, 64)) expect_product("gauss", product_data(dim, 129, 257))
  expect_product("gauss", product_data(100, 128, 256))
  expect_product("linear", product_data(127, 131, 255))
})

test_that("several signals, and more of them than stay in registers", {
  skip_without_gpu()
  set.seed(2)
  expect_product("gauss", product_data(20, 140, 260, columns = 5))
  expect_product("linear", product_data(20, 140, 260, columns = 33))
  expect_product("softmax", product_data(20, 140, 260, columns = 3))
})

test_that("points far from the origin, clusters, coincident points, several scales", {
  skip_without_gpu()
  set.seed(3)
  data <- product_data(20, 200, 200)
  far <- data
  far$x <- data$x + 1000
  far$y <- data$y + 1000
  expect_product("gauss", far)
  same <- data
  same$y <- same$x
  same$b <- abs(same$b)
  expect_product("gauss", same)
  # three terms, then none: the exponents grow
  for (g in c(3, 30)) {
    wider <- data
    wider$g <- g / 3
    expect_product("lse", wider)
  }
  narrow <- data
  narrow$y[1:50, ] <- narrow$x[1:50, ] + 1e-3
  narrow$b <- abs(narrow$b)
  narrow$g <- 1e4
  expect_product("gauss", narrow, same_kernel = TRUE, tolerance = 2e-4) # single precision itself
})

test_that("NaN and infinite components stay in their rows", {
  skip_without_gpu()
  set.seed(4)
  data <- product_data(20, 150, 250)
  data$x[3, 5] <- NaN
  data$x[7, 1] <- Inf
  op <- keops_kernel(products[["gauss"]], c("x=Vi(20)", "y=Vj(20)", "b=Vj(1)", "a=Vi(1)", "c=Vj(1)", "g=Pm(1)"))
  gpu <- op(unname(data), device = "gpu", precision = "single")
  expect_identical(which(is.nan(gpu)), 3L)
  expect_identical(gpu[7], 0)
  cpu <- op(unname(data), device = "cpu")
  expect_lt(max(abs(gpu - cpu)[-3]), 1e-5 * max(abs(cpu[-3])))
})

test_that("split launches, slices of memory and two devices give the same", {
  skip_without_gpu()
  set.seed(5)
  data <- product_data(24, 300, 700)
  op <- keops_kernel(products[["gauss"]], c("x=Vi(24)", "y=Vj(24)", "b=Vj(1)", "a=Vi(1)", "c=Vj(1)", "g=Pm(1)"))
  cpu <- op(unname(data), device = "cpu")
  for (o in list(list(keops.device = "gpu", keops.gpu_launch = 1e-6), list(keops.device = "gpu", keops.gpu_memory = 200000),
                 list(keops.device = c("gpu:0", "gpu:0")))) {
    gpu <- with_options(o, op(unname(data), precision = "single"))
    expect_lt(max(abs(gpu - cpu)), 1e-5 * max(abs(cpu)))
  }
})
