# Gradients are those of sum(eta * op(args)), summed over everything their variable does not index.

test_args <- c("x=Vi(2)", "y=Vj(2)", "b=Vj(1)", "w=Vi(1)", "p=Pm(2)", "g=Pm(1)")
test_data <- function(m = 6, n = 5) {
  set.seed(2306) # the two best items of each reduction below are apart
  fine <- function(n, d, low) draw(n, d, low, low + 2, grid = 2^16) # no ties
  list(fine(m, 2, -1), fine(n, 2, -1), fine(n, 1, 0.5), fine(m, 1, 0.5), c(0.5, 1.25), 0.75)
}

smooth_reductions <- grep("Arg", keops:::engine_reductions(), value = TRUE, invert = TRUE)

# The reduction of `f` (of one component where it must be) with weights or K, as its name wants them.
reduction_of <- function(name, f, axis, weights = "Sin(x*b)+2") {
  operands <- switch(name, KMin = paste0(f, ",2"), Zero = "2",
                     LogSumExpWeight = , SumSoftMaxWeight = , SoftMax = , Max_SumShiftExpWeight = paste0(f, ",", weights),
                     f)
  sprintf("%s_Reduction(%s,%d)", name, operands, axis)
}

test_that("each reduction has its gradient in i-variables, j-variables and parameters", {
  for (name in smooth_reductions) {
    for (axis in 0:1) {
      f <- reduction_of(name, "Exp(-g*SqDist(p*x,y))*b*w", axis)
      expect_gradients(f, test_args, test_data(), backends = "interpreted")
    }
    f <- reduction_of(name, "-g*SqDist(p*x,y)*b+w", 1)
    expect_gradients(f, test_args, test_data(), vars = c("x", "y", "g"), backends = "compiled",
                     precisions = if (name == "Sum") c("double", "single") else "double")
  }
})

test_that("gradients of results with several components", {
  for (name in setdiff(smooth_reductions, c("Zero", names(ref_weighted)))) {
    for (axis in 0:1) {
      expect_gradients(reduction_of(name, "g*(x-p*y)*b", axis), test_args, test_data(), backends = "interpreted")
      expect_gradients(reduction_of(name, "Concat(x*y,SqDist(x,y))", axis), test_args, test_data(),
                       vars = c("x", "y"), backends = "interpreted")
    }
  }
})

test_that("gradients of a summand that lacks the kept or the reduced index", {
  for (axis in 0:1) for (f in c("x*w", "y*b", "p*g", "Exp(Sum(x))*p", "Sum(y*p)*g")) {
    for (name in c("Sum", "Max")) {
      expect_gradients(sprintf("%s_Reduction(%s,%d)", name, f, axis), test_args, test_data(), backends = "interpreted")
    }
  }
  # every item ties here, and the first one takes the gradient
  op <- keops_grad(keops_kernel("Max_Reduction(x,1)", c("x=Vi(1)", "y=Vj(1)")), "x")
  expect_equal(op(list(1:3, 1:4, c(2, 3, 5))), cbind(c(2, 3, 5)))
})

test_that("second derivatives of each reduction in every pair of variables", {
  pairs <- list(c("x", "x"), c("x", "y"), c("y", "x"), c("y", "y"), c("x", "b"), c("b", "x"), c("x", "g"), c("g", "g"),
                c("g", "y"), c("p", "p"), c("p", "x"))
  for (name in setdiff(smooth_reductions, c("LogSumExpWeight", "SoftMax", "Zero"))) { # synonyms, and nothing
    for (axis in 0:1) {
      f <- reduction_of(name, "Exp(-g*SqDist(p*x,y))*b+w", axis)
      expect_second(f, test_args, test_data(), pairs, backends = "interpreted")
    }
    expect_second(reduction_of(name, "Exp(-g*SqDist(p*x,y))*b", 1), test_args, test_data(),
                  list(c("x", "y"), c("y", "y")), backends = "compiled", precisions = "double")
  }
})

test_that("the gradient of a gradient in its cotangent is the transposed product", {
  args <- c("x=Vi(2)", "y=Vj(2)")
  data <- test_data()[1:2]
  f <- "Sum_Reduction(Exp(-SqDist(x,y)),1)"
  set.seed(4)
  eta <- draw(6, 1, -1, 1)
  u <- draw(5, 2, -1, 1)
  each_backend(function(backend, precision) {
    dy <- keops_grad(keops_kernel(f, args), "y")
    # <dy(eta), u> is linear in eta: its gradient in eta is the directional derivative along u
    back <- keops_grad(dy, "eta")(list(data[[1]], data[[2]], eta, u))
    slope <- ref_slope(function(h) ref_run(f, args, list(data[[1]], data[[2]] + h * u)))
    expect_close(back, slope, tol(precision, 1))
  })
})

test_that("third derivatives", {
  # f(x) = sum_j exp(x y_j): derivatives are sums of y^k exp(x y)
  x <- c(-0.5, 0.25, 1)
  y <- c(0.5, -1, 2, 0.25)
  one <- rep(1, 3)
  each_backend(function(backend, precision) {
    op <- keops_kernel("Sum_Reduction(Exp(x*y),1)", c("x=Vi(1)", "y=Vj(1)"))
    d3 <- keops_grad(keops_grad(keops_grad(op, "x"), "x"), "x")
    out <- d3(list(x, y, one, one, one))
    expect_close(out, cbind(colSums(y^3 * exp(outer(y, x)))), tol(precision, 1))
  })
})

test_that("the cotangent is the last argument, under the first free name", {
  op <- keops_kernel("Sum_Reduction(x*y,1)", c("x=Vi(1)", "y=Vj(1)"))
  dx <- keops_grad(op, "x")
  dxy <- keops_grad(dx, "y")
  x <- c(1, 2)
  y <- c(3, 4, 5)
  expect_equal(dx(list(eta = c(1, 10), y = y, x = x)), cbind(c(12, 120)))
  expect_equal(dxy(list(y = y, x = x, eta2 = c(2, 3), eta = c(1, 10))), matrix(32, 3, 1))
  clash <- keops_grad(keops_kernel("Sum_Reduction(eta*y,1)", c("eta=Vi(1)", "y=Vj(1)")), "eta")
  expect_equal(clash(list(eta = x, y = y, eta2 = c(1, 10))), cbind(c(12, 120)))
})

test_that("gradients can be written in the formula, nested and mixed", {
  args <- c("x=Vi(2)", "y=Vj(2)", "b=Vj(1)", "e=Vi(1)", "h=Vi(2)", "k=Vj(2)")
  set.seed(5)
  data <- list(draw(6, 2, -1, 1, 1 / 256), draw(5, 2, -1, 1, 3 / 256), draw(5, 1, 0.5, 2), draw(6, 1, -1, 1),
               draw(6, 2, -1, 1), draw(5, 2, -1, 1))
  inner <- "Sum_Reduction(Exp(-SqDist(x,y))*b,1)"
  texts <- c(
    sprintf("Grad(%s,x,e)", inner),
    sprintf("Grad(%s,y,e)", inner),
    sprintf("Grad(Grad(%s,x,e),y,h)", inner),
    sprintf("Grad(Grad(%s,y,e),x,k)", inner),
    "Grad(LogSumExp_Reduction(-SqDist(x,y),1),y,e)",
    "Grad(Max_Reduction(-SqDist(x,y)*b,1),b,e)"
  )
  for (text in texts) {
    reference <- ref_run(text, args, data)
    each_backend(precisions = "double", function(backend, precision) {
      out <- keops_kernel(text, args)(data)
      expect_close(out, reference, tol(precision, if (grepl("Grad.Grad", text)) 2 else 1),
                   label = paste(text, backend))
    })
  }
})

test_that("Grad inside a reduction differentiates each pair", {
  args <- c("x=Vi(2)", "y=Vj(2)", "b=Vj(1)", "p=Pm(2)")
  set.seed(6)
  data <- list(draw(6, 2, -1, 1, 1 / 256), draw(5, 2, -1, 1, 3 / 256), draw(5, 1, 0.5, 2), c(0.5, 1.5))
  texts <- c(
    "Sum_Reduction(Grad(Exp(-SqDist(x,y)),x,b),1)",
    "Sum_Reduction(Grad(Exp(-SqDist(x,y)),y,b),1)",
    "Sum_Reduction(Grad(Exp(-SqDist(x,y)),x,b),0)",
    "Sum_Reduction(Grad(Exp(-SqDist(p*x,y)),p,1),0)",
    "Sum_Reduction(Grad(x*y,x,x-y)*p,1)",
    "Min_Reduction(Grad(Sin((x|y)),y,b),0)",
    "Sum_Reduction(Exp(Sum(Grad(x*Square(y),y,p))),1)",
    "Sum_Reduction(Grad(SqDist(x,y),p,b),1)"
  )
  for (text in texts) {
    each_backend(precisions = "double", function(backend, precision) {
      expect_close(keops_kernel(text, args)(data), ref_run(text, args, data), tol(precision, 1),
                   label = paste(text, backend))
    })
  }
  nested <- "Sum_Reduction(Grad(Grad(Exp(-SqDist(x,y)),x,b),y,p),1)"
  expect_close(keops_kernel(nested, args)(data), ref_run(nested, args, data), tol("double", 2))
})

test_that("gradients of Arg reductions are zero or refused, never something else", {
  args <- c("x=Vi(2)", "y=Vj(2)", "e=Vi(1)")
  zero <- keops_kernel("Grad(ArgMin_Reduction(SqDist(x,y),1),x,e)", args)
  expect_identical(zero(list(matrix(1, 3, 2), matrix(0, 4, 2), c(1, 2, 3))), matrix(0, 3, 2))
})

test_that("a variable that does not occur has gradient zero, in its own shape", {
  args <- c("x=Vi(2)", "y=Vj(3)", "p=Pm(2)")
  op <- keops_kernel("Sum_Reduction(x,1)", args)
  data <- list(matrix(1, 4, 2), matrix(1, 5, 3), c(1, 2), matrix(1, 4, 2))
  expect_equal(keops_grad(op, "y")(data), matrix(0, 5, 3))
  expect_equal(keops_grad(op, "p")(data), matrix(0, 1, 2))
  expect_equal(keops_grad(op, "x")(data), matrix(5, 4, 2))
})

test_that("Min and Max send the gradient to the first of tied items only", {
  y <- cbind(c(2, 1, 1, 3))
  each_backend(function(backend, precision) {
    low <- keops_grad(keops_kernel("Min_Reduction(x*y,1)", c("x=Vi(1)", "y=Vj(1)")), "y")
    expect_equal(low(list(c(1, 2), y, c(1, 10))), cbind(c(0, 21, 0, 0)))
    high <- keops_grad(keops_kernel("Max_Reduction(-x*y,1)", c("x=Vi(1)", "y=Vj(1)")), "y")
    expect_equal(high(list(c(1, 2), y, c(1, 10))), cbind(c(0, -21, 0, 0)))
    # no item left: no gradient
    expect_equal(low(list(c(1, 2), y * NA, c(1, 10))), cbind(c(0, 0, 0, 0)))
  })
})

test_that("gradients with no rows, no items and one row keep the shape of the variable", {
  for (name in c("Sum", "Min", "Max", "LogSumExp")) {
    op <- keops_kernel(sprintf("%s_Reduction(SqDist(x,y)*g,1)", name), c("x=Vi(2)", "y=Vj(2)", "g=Pm(1)"))
    some <- matrix(c(1, 2, 3, 4), 2)
    none <- some[0, ]
    expect_equal(keops_grad(op, "x")(list(some, none, 2, c(1, 1))), matrix(0, 2, 2), label = name)
    expect_equal(keops_grad(op, "y")(list(none, some, 2, numeric(0))), matrix(0, 2, 2), label = name)
    expect_equal(keops_grad(op, "x")(list(none, some, 2, numeric(0))), none, label = name)
    expect_equal(keops_grad(op, "g")(list(none, some, 2, numeric(0))), matrix(0, 1, 1), label = name)
    expect_equal(keops_grad(op, "g")(list(some, none, 2, c(1, 1))), matrix(0, 1, 1), label = name)
  }
})

test_that("LogSumExp's gradient is the softmax, also of rows with -Inf scores", {
  scores <- rbind(c(0, -Inf, -Inf), c(1000, 1000, 1000), c(0, log(3), -Inf))
  args <- c("s=Vj(1)", "z=Pm(1)")
  each_backend(function(backend, precision) {
    op <- keops_grad(keops_kernel("LogSumExp_Reduction(s*z,1)", args), "s")
    for (row in 1:3) {
      out <- op(list(scores[row, ], 1, 1))
      answer <- exp(scores[row, ] - max(scores[row, ]))
      expect_close(out, cbind(answer / sum(answer)), tol(precision), label = paste("softmax of row", row))
    }
  })
})

test_that("G01: the gradient of a distance is finite where points coincide", {
  x <- rbind(c(0, 0), c(3, 4))
  each_backend(function(backend, precision) {
    op <- keops_kernel("Sum_Reduction(Sqrt(SqDist(x,y)),1)", c("x=Vi(2)", "y=Vj(2)"))
    expect_close(op(list(x, x)), cbind(c(5, 5)), tol(precision))
    dx <- keops_grad(op, "x")(list(x, x, c(1, 1)))
    expect_close(dx, rbind(c(-.6, -.8), c(.6, .8)), tol(precision))
    dy <- keops_grad(op, "y")(list(x, x, c(1, 1)))
    expect_close(dx + dy, 2 * rbind(c(-.6, -.8), c(.6, .8)), tol(precision))
    second <- keops_grad(keops_grad(op, "x"), "x")(list(x, x, c(1, 1), matrix(1, 2, 2)))
    expect_true(all(is.finite(second)))
  })
})

test_that("G02: gradients of Matern kernels are finite, and dense R's away from zero distance", {
  x <- c(0, 1, 3)
  b <- c(1, -1, 2)
  matern <- c("Exp(-d)", "(1+sqrt(3)*d)*Exp(-sqrt(3)*d)", "(1+sqrt(5)*d+5*d*d/3)*Exp(-sqrt(5)*d)")
  args <- c("x=Vi(1)", "y=Vj(1)", "b=Vj(1)", "l=Pm(1)")
  eta <- c(1, 0.5, -2)
  for (k in 1:3) {
    text <- gsub("d", "(Norm2(x-y)/l)", matern[k])
    text <- gsub("sqrt(3)", format(sqrt(3), digits = 17), text, fixed = TRUE)
    text <- gsub("sqrt(5)", format(sqrt(5), digits = 17), text, fixed = TRUE)
    formula <- sprintf("Sum_Reduction(%s*b,1)", text)
    profile <- function(d) eval(parse(text = gsub("Exp", "exp", matern[k])), list(d = d))
    value <- function(x, l) sum(eta * profile(abs(outer(x, c(0, 1, 3), "-")) / l) %*% b)
    # the self pair contributes 0: leave it out of the differences
    slope_x <- vapply(1:3, function(i) {
      others <- setdiff(1:3, i)
      eta[i] * ref_slope(function(h) sum(profile(abs(x[i] + h - x[others]) / 1.5) * b[others]))
    }, 0)
    slope_l <- ref_slope(function(h) value(x, 1.5 + h))
    each_backend(function(backend, precision) {
      op <- keops_kernel(formula, args)
      label <- paste(formula, backend, precision)
      expect_close(keops_grad(op, "x")(list(x, x, b, 1.5, eta)), cbind(slope_x), tol(precision, 1), label = label)
      expect_close(keops_grad(op, "l")(list(x, x, b, 1.5, eta)), matrix(slope_l), tol(precision, 1), label = label)
    })
  }
})

test_that("a Hessian times a vector, through two gradients", {
  set.seed(8)
  x <- matrix(rnorm(30), 10)
  m <- matrix(rnorm(30), 10)
  v <- matrix(rnorm(30), 10)
  args <- c("x=Vi(3)", "y=Vj(3)", "m=Vi(3)", "n=Vj(3)")
  text <- "Sum_Reduction(Exp(-SqDist(x,y))*(m|n),1)"
  one <- rep(1, 10)
  energy <- function(x) {
    k <- exp(-as.matrix(dist(x))^2)
    sum(k * tcrossprod(m))
  }
  gradient <- keops_grad(keops_kernel(text, args), "x")
  # the energy moves through both of its sides: x as i and as j, equal here by symmetry
  dx <- 2 * gradient(list(x, x, m, m, one))
  expect_equal(sum(dx * v), ref_slope(function(h) energy(x + h * v)), tolerance = 1e-9)
  hxx <- keops_grad(gradient, "x")(list(x, x, m, m, one, v))
  hxy <- keops_grad(gradient, "y")(list(x, x, m, m, one, v))
  u <- matrix(rnorm(30), 10)
  slope <- ref_slope(function(h2) ref_slope(function(h) energy(x + h * v + h2 * u)))
  expect_equal(2 * sum((hxx + hxy) * u), slope, tolerance = 1e-6)
})

test_that("keops_grad() refuses what it cannot differentiate", {
  op <- keops_kernel("Sum_Reduction(x*y,1)", c("x=Vi(1)", "y=Vj(1)"))
  expect_error(keops_grad(op, "z"), "`x`, `y`", class = "keops_error_input")
  expect_error(keops_grad(op, 3), class = "keops_error_input")
  expect_error(keops_grad(op), class = "keops_error_input")
  expect_error(keops_grad(1, "x"), class = "keops_error_input")
  expect_error(keops_grad(op, c("x", "z")), class = "keops_error_input")
  expect_error(keops_grad(op, c("x", "x")), class = "keops_error_input")
  expect_error(keops_grad(op, character()), class = "keops_error_input")
  expect_error(keops_grad(keops_grad(op, c("x", "y")), "x"), "several results", class = "keops_error_input")
  expect_equal(keops_grad(op, 1)(list(1, 2, 1)), matrix(2))
})

test_that("several gradients at once are those taken one by one, named by their variables", {
  data <- test_data()
  for (name in c("Sum", "LogSumExp", "SumSoftMaxWeight", "KMin")) {
    for (axis in 0:1) {
      op <- keops_kernel(reduction_of(name, "Exp(-g*SqDist(p*x,y))*b+w", axis), test_args)
      eta <- draw(if (axis == 1) 6 else 5, if (name == "KMin") 2 else 1, -1, 1)
      if (name == "SumSoftMaxWeight") eta <- cbind(eta, eta + 1)
      each_backend(function(backend, precision) {
        vars <- c("x", "g", "y", "b")
        together <- keops_grad(op, vars)(c(data, list(eta)))
        expect_named(together, vars)
        for (v in vars) {
          expect_close(together[[v]], keops_grad(op, v)(c(data, list(eta))), tol(precision), label = paste(name, v))
        }
        expect_identical(unname(keops_grad(op, match(vars, c("x", "y", "b", "w", "p", "g")))(c(data, list(eta)))),
                         unname(together))
      }, precisions = "double")
    }
  }
  unnamed <- keops_grad(keops_kernel("Sum_Reduction(Var(0,1,0)*Var(1,1,1),1)", c("Vi(1)", "Vj(1)")), 1:2)
  expect_identical(unnamed(list(c(1, 2), c(3, 4, 5), c(1, 1))),
                   list(`Var(0,1,0)` = cbind(c(12, 12)), `Var(1,1,1)` = cbind(c(3, 3, 3))))
})

test_that("a softmax with weights of both signs and scores of -Inf has finite gradients", {
  args <- c("s=Vi(1)", "z=Vj(1)", "w=Vj(2)")
  s <- c(-2, 0.5)
  w <- cbind(c(-1, 2, 0.5), c(-3, -1, 1))
  z <- c(1, -1, -Inf)
  op <- keops_kernel("SumSoftMaxWeight_Reduction(s*s+z,w,0)", c("s=Vj(1)", "z=Vi(1)", "w=Vi(2)"))
  p <- c(exp(1), exp(-1), 0) / (exp(1) + exp(-1))
  each_backend(function(backend, precision) {
    data <- list(s, z, w)
    expect_close(op(data), rbind(p %*% w, p %*% w), tol(precision))
    grads <- keops_grad(op, c("s", "z", "w"))(c(data, list(matrix(1, 2, 2))))
    expect_close(grads$s, cbind(c(0, 0)), tol(precision, 1))
    expect_close(grads$w, 2 * cbind(p, p, deparse.level = 0), tol(precision, 1))
    slope <- p * (rowSums(w) - sum(p %*% w))
    expect_close(grads$z, cbind(2 * slope), tol(precision, 1))
  })
})

test_that("KMin sends each gradient to the item that gave the value, none where there was no item", {
  args <- c("x=Vi(1)", "y=Vj(1)")
  each_backend(function(backend, precision) {
    op <- keops_kernel("KMin_Reduction(Square(x-y),3,1)", args)
    grads <- keops_grad(op, c("x", "y"))(list(c(0, 10), c(1, 3), rbind(c(1, 10, 100), c(1000, 1e4, 1e5))))
    expect_equal(grads$x, cbind(c(-2 * 1 - 2 * 3 * 10, 2 * 7 * 1000 + 2 * 9 * 1e4)))
    expect_equal(grads$y, cbind(c(2 * 1 - 2 * 9 * 1e4, 2 * 3 * 10 - 2 * 7 * 1000)))
  })
})

test_that("Clamp with a bound that is NaN has the slope of the value it lets through", {
  op <- keops_kernel("Sum_Reduction(Clamp(x, lo, hi), 1)", c("x=Vi(1)", "lo=Pm(1)", "hi=Pm(1)", "y=Vj(1)"))
  each_backend(function(backend, precision) {
    expect_equal(c(op(list(c(0.5, 2), NaN, 1, 1))), c(0.5, 1))
    expect_equal(c(keops_grad(op, "x")(list(c(0.5, 2), NaN, 1, 1, c(1, 1)))), c(1, 0))
  })
})
