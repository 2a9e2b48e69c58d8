# Random formulas that the language allows: interpreter, compiled code and dense R agree.

fuzz_args <- c("x=Vi(3)", "y=Vj(3)", "s=Vi(1)", "t=Vj(1)", "p=Pm(3)", "q=Pm(1)")
fuzz_leaves <- list(`1` = c("s", "t", "q", "0.5", "3", "Elem(x,1)", "Elem(y,2)", "Elem(p,0)"), `3` = c("x", "y", "p"))

pick <- function(v) v[[1 + floor(runif(1) * length(v))]]

# Text of a formula of dimension d (1, 2, 3, 4 or 6), at most `depth` calls deep. Values stay of order 1 to
# 10, jumps are at leaves only, so that rounding cannot decide.
fuzz_formula <- function(d, depth) {
  key <- as.character(d)
  sub <- function(d) fuzz_formula(d, depth - 1)
  if (depth <= 0 && !is.null(fuzz_leaves[[key]])) return(pick(fuzz_leaves[[key]]))
  one <- function() sub(if (runif(1) < 0.3) 1 else d) # may be broadcast
  forms <- list(
    function() sprintf("(%s+%s)", sub(d), one()),
    function() sprintf("(%s-%s)", one(), sub(d)),
    function() sprintf("(%s)*Sin(%s)", one(), sub(d)),
    function() sprintf("%s/(1+Square(%s))", sub(d), one()),
    function() sprintf("-%s", sub(d)),
    function() sprintf("Exp(-Abs(%s))", sub(d)),
    function() sprintf("Log(1+Square(%s))", sub(d)),
    function() sprintf("Sqrt(1+(%s)^2)", sub(d)),
    function() sprintf("Rsqrt(1+(%s)**2)", sub(d)),
    function() sprintf("Cos(%s)", sub(d)),
    function() sprintf("ReLU(%s)", sub(d)),
    function() sprintf("Powf(1.5+Sin(%s),%s)", sub(d), pick(c("q", "1.25", "-0.5"))),
    function() sprintf("Inv(2+Cos(%s))", sub(d)),
    function() sprintf("IfElse(%s,%s,%s)", pick(c("s-t", "t", "Elem(x,0)-Elem(y,0)")), sub(d), sub(d)),
    function() sprintf("(%s<%s)*%s", pick(c("s", "Elem(x,2)")), pick(c("t", "Elem(y,0)")), sub(d))
  )
  if (d == 1) {
    k <- pick(c(1, 2, 3))
    forms <- c(forms,
      function() sprintf("Sum(%s)", sub(k)),
      function() sprintf("(%s|%s)/4", sub(3), sub(3)),
      function() sprintf("SqDist(%s,%s)/8", sub(3), sub(3)),
      function() sprintf("Norm2(%s)", sub(k)),
      function() sprintf("Elem(%s,%d)", sub(3), pick(0:2)),
      function() sprintf("WeightedSqDist(%s,x,y)/8", pick(c("q", "p", "t")))
    )
  }
  if (d == 2) forms <- list(function() sprintf("Concat(%s,%s)", sub(1), sub(1)),
                            function() sprintf("Extract(%s,%d,2)", sub(3), pick(0:1)))
  if (d == 4) forms <- list(function() sprintf("Concat(%s,%s)", sub(1), sub(3)),
                            function() sprintf("Concat(%s,%s)", sub(3), sub(1)))
  pick(forms)()
}

fuzz_data <- function(m, n) {
  list(matrix(runif(3 * m, -1, 1), m), matrix(runif(3 * n, -1, 1), n), runif(m, -1, 1), runif(n, -1, 1),
       runif(3, 0.5, 1.5), 0.75)
}

fuzz_text <- function(seed, d = pick(c(1, 1, 2, 3, 4))) {
  set.seed(seed)
  kind <- pick(c("Sum", "Sum", "Sum", "Min", "Max", "LogSumExp", "KMin", "SumSoftMaxWeight"))
  if (kind %in% names(ref_weighted)) d <- 1
  text <- fuzz_formula(d, pick(2:4))
  if (kind == "KMin") text <- paste0(text, ",2")
  if (kind == "SumSoftMaxWeight") text <- paste0(text, ",", fuzz_formula(pick(1:3), 2))
  sprintf("%s_Reduction(%s,%d)", kind, text, pick(0:1))
}

fuzz_tol <- function(precision) if (precision == "single") 1e-4 else 1e-11

test_that("random formulas: the interpreter agrees with dense R", {
  for (seed in 1:250) {
    text <- fuzz_text(seed)
    data <- fuzz_data(pick(c(1, 2, 7, 17)), pick(c(1, 3, 16, 33)))
    reference <- ref_run(text, fuzz_args, data)
    for (precision in c("double", "single")) {
      out <- flat(keops_kernel(text, fuzz_args)(data, backend = "interpreted", precision = precision))
      expect_close(out, reference, fuzz_tol(precision), scale = 10 * max(1, abs(reference)),
                   label = sprintf("seed %d (%s): %s", seed, precision, text))
    }
  }
})

test_that("random formulas: compiled code agrees with dense R", {
  skip_without_compiler()
  for (seed in 1000 + 1:40) {
    text <- fuzz_text(seed)
    data <- fuzz_data(pick(c(1, 2, 7, 17)), pick(c(1, 3, 16, 33)))
    precision <- pick(c("double", "single"))
    reference <- ref_run(text, fuzz_args, data)
    out <- flat(keops_kernel(text, fuzz_args)(data, backend = "compiled", precision = precision))
    expect_close(out, reference, fuzz_tol(precision), scale = 10 * max(1, abs(reference)),
                 label = sprintf("seed %d (%s): %s", seed, precision, text))
  }
})

test_that("random formulas: gradients along random directions agree with differences", {
  for (seed in 2000 + 1:80) {
    text <- fuzz_text(seed)
    data <- fuzz_data(5, 4)
    size <- dim(ref_run(text, fuzz_args, data))
    eta <- matrix(runif(prod(size), -1, 1), size[1])
    for (k in seq_along(fuzz_args)) {
      direction <- data[[k]]
      direction[] <- runif(length(direction), -1, 1)
      slopes <- ref_moved(text, fuzz_args, data, k, eta, direction)
      # a kink between the points of the differences: the two extrapolations disagree
      slope <- ref_slope(slopes)
      near <- (slopes(1e-4) - slopes(-1e-4)) / 2e-4
      if (abs(slope - near) > 1e-6 * max(1, abs(slope))) next
      out <- keops_grad(keops_kernel(text, fuzz_args), k)(c(data, list(eta)), backend = "interpreted")
      expect_close(matrix(sum(c(out) * c(direction))), matrix(slope), 1e-7, scale = max(10, abs(slope)),
                   label = sprintf("seed %d, gradient in %s: %s", seed, fuzz_args[k], text))
    }
  }
})
