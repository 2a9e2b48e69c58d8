# Batches along the third dimension against separate calls.

batch_op <- function(text = "Sum_Reduction(Exp(-p*SqDist(x,y))*b,1)") {
  keops_kernel(text, c("x=Vi(2)", "y=Vj(2)", "b=Vj(2)", "p=Pm(1)"))
}
batch_data <- function(n) {
  deep <- function(m, d) array(draw(m, d * n, -1, 1), c(m, d, n))
  list(x = deep(5, 2), y = deep(4, 2), b = deep(4, 2), p = array(draw(n, 1, 0.5, 2), c(1, 1, n)))
}
one_batch <- function(data, b) {
  lapply(data, function(v) if (length(dim(v)) == 3) matrix(v[, , min(b, dim(v)[3])], dim(v)[1]) else v)
}
bound <- function(parts) array(unlist(parts), c(dim(parts[[1]]), length(parts)))
each_alone <- function(op, data, n) lapply(seq_len(n), function(b) op(one_batch(data, b)))

test_that("each batch is what an own call gives, for every reduction of the table", {
  data <- batch_data(3)
  for (name in keops:::engine_reductions()) {
    inner <- if (grepl("Exp|Soft", name)) "-p*SqDist(x,y)" else "p*x-y"
    text <- if (name == "Zero") "Zero_Reduction(2,1)" else {
      sprintf("%s_Reduction(%s%s,1)", name, inner, if (grepl("KMin", name)) ",2" else if (grepl("Weight|Soft", name)) ",b" else "")
    }
    op <- batch_op(text)
    alone <- each_alone(op, data, 3)
    out <- op(data)
    if (is.list(out)) {
      for (part in names(out)) expect_identical(out[[part]], bound(lapply(alone, `[[`, part)), label = text)
    } else {
      expect_identical(out, bound(alone), label = text)
    }
  }
})

test_that("variables of extent 1, and those without batches, are shared", {
  data <- batch_data(3)
  shared <- replace(data, c("x", "p"), list(data$x[, , 1, drop = FALSE], 0.7))
  expect_identical(batch_op()(shared), bound(each_alone(batch_op(), shared, 3)))
  expect_identical(dim(batch_op()(replace(one_batch(data, 1), "x", list(data$x[, , 1, drop = FALSE])))), c(5L, 2L, 1L))
  # batches on a parameter alone
  op <- keops_kernel("Sum_Reduction(Exp(-p*Square(x-y)),1)", c("x=Vi(1)", "y=Vj(1)", "p=Pm(1)"))
  x <- c(0, 1, 2, 3, 4)
  y <- c(0.5, 1, 1.5, 2)
  p <- c(0.5, 1, 2)
  expect_equal(op(list(x, y, array(p, c(1, 1, 3)))),
               array(vapply(p, function(p) rowSums(exp(-p * outer(x, y, "-")^2)), x), c(5, 1, 3)))
  expect_error(op(list(x, y, p)), "one number", class = "keops_error_input")
})

test_that("points in columns, names of rows, no batches", {
  data <- batch_data(2)
  turned <- lapply(data, aperm, c(2, 1, 3))
  expect_identical(batch_op()(turned, inner_dim = "row"), batch_op()(data))
  dimnames(data$x) <- list(letters[1:5], NULL, NULL)
  expect_identical(dimnames(batch_op()(data)), list(letters[1:5], NULL, NULL))
  none <- lapply(batch_data(1), function(v) v[, , 0, drop = FALSE])
  expect_identical(batch_op()(none), array(0, c(5, 2, 0)))
  both <- batch_op("Min_ArgMin_Reduction(x-y,1)")(none)
  expect_identical(both, list(values = array(0, c(5, 2, 0)), indices = array(0L, c(5, 2, 0))))
})

test_that("gradients in shared variables are summed over the batches, to any order", {
  set.seed(8)
  data <- batch_data(3)
  eta <- array(draw(5, 6, -1, 1), c(5, 2, 3))
  shared <- replace(data, c("x", "p"), list(data$x[, , 1], 0.7))
  for (v in names(data)) for (case in list(data, shared)) {
    dv <- keops_grad(batch_op(), v)
    args <- c(case, list(eta = eta))
    alone <- each_alone(dv, args, 3)
    is_shared <- length(dim(case[[v]])) < 3
    out <- dv(args)
    expect_equal(out, if (is_shared) Reduce(`+`, alone) else bound(alone))
    # slope of the sum over all batches
    direction <- array(runif(length(case[[v]]), -1, 1), if (is.null(dim(case[[v]]))) c(1, 1) else dim(case[[v]]))
    slope <- ref_slope(function(h) {
      case[[v]] <- case[[v]] + h * (if (is.null(dim(case[[v]]))) c(direction) else direction)
      sum(eta * batch_op()(case))
    })
    expect_equal(sum(out * direction), slope, tolerance = 1e-8)
    for (v2 in names(data)) {
      second <- keops_grad(dv, v2)(c(args, list(eta2 = direction)))
      direction2 <- array(runif(length(case[[v2]]), -1, 1), if (is.null(dim(case[[v2]]))) c(1, 1) else dim(case[[v2]]))
      expect_identical(dim(second), dim(direction2))
      slope <- ref_slope(function(h) {
        args[[v2]] <- args[[v2]] + h * (if (is.null(dim(case[[v2]]))) c(direction2) else direction2)
        sum(direction * dv(args))
      })
      expect_equal(sum(second * direction2), slope, tolerance = 1e-7)
    }
  }
  # several at once, one shared; an extent of 1 keeps its dimension
  several <- keops_grad(batch_op(), c("x", "y"))(c(shared, list(eta = eta)))
  expect_equal(several$x, keops_grad(batch_op(), "x")(c(shared, list(eta = eta))))
  expect_equal(several$y, keops_grad(batch_op(), "y")(c(shared, list(eta = eta))))
  thin <- replace(data, "x", list(data$x[, , 1, drop = FALSE]))
  expect_identical(dim(keops_grad(batch_op(), "x")(c(thin, list(eta = eta)))), c(5L, 2L, 1L))
  # typed by hand: of each batch
  typed <- keops_kernel("Grad(Sum_Reduction(Exp(-p*SqDist(x,y))*b,1),x,e)",
                        c("x=Vi(2)", "y=Vj(2)", "b=Vj(2)", "p=Pm(1)", "e=Vi(2)"))
  expect_identical(dim(typed(unname(c(shared, list(eta))))), c(5L, 2L, 3L))
})

test_that("what can't be batched is refused", {
  data <- batch_data(3)
  refused <- function(code, message) expect_error(code, message, class = "keops_error_input")
  refused(batch_op()(replace(data, "p", list(array(1, c(1, 1, 2))))), "`p`.*2 batches.*3, as in argument `x`")
  refused(batch_op()(replace(data, "x", list(array(1, c(5, 2, 3, 1))))), "three dimensions at most")
  refused(batch_op()(replace(data, "x", list(array(1, c(5, 3, 3))))), "points x 2 x batches")
  refused(batch_op()(replace(data, "p", list(array(1, c(2, 1, 3))))), "1 x 1 x batches")
  refused(batch_op()(data, ranges = keops_ranges(rep(1, 5), rep(1, 4), matrix(TRUE))), "ranges together with batches")
  shared <- replace(data, "x", list(data$x[, , 1]))
  dxp <- keops_grad(keops_grad(batch_op(), "x"), "p")
  refused(dxp(unname(c(shared, list(data$x, data$x)))), "summed over them")
})
