dense_variogram <- function(x, z, width, classes) {
  d <- as.vector(dist(x))
  g <- as.vector(dist(z))^2 / 2
  class <- pmax(ceiling(d / width), 1)
  keep <- class <= classes
  data.frame(np = as.vector(table(class[keep])), dist = as.vector(tapply(d[keep], class[keep], mean)),
             gamma = as.vector(tapply(g[keep], class[keep], mean)))
}

test_that("classes of pairs are those of dense R, with a trend and duplicates", {
  set.seed(1)
  d <- data.frame(a = runif(80), b = runif(80))
  d <- rbind(d, d[1:3, ])
  d$z <- 3 * d$a + rnorm(83)
  z <- residuals(lm(z ~ a, d))
  for (backend in c("interpreted", "compiled")) {
    if (backend == "compiled") skip_without_compiler()
    with_options(list(keops.backend = backend), {
      v <- keops_variogram(z ~ a + b, d, trend = ~ a, width = 0.07, cutoff = 0.7)
      expect_equal(as.data.frame(unclass(v)[1:3]), dense_variogram(d[1:2], z, 0.07, 10), tolerance = 1e-10, ignore_attr = TRUE)
    })
  }
  v <- keops_variogram(z ~ a + b, d)
  expect_equal(attr(v, "cutoff"), sqrt(diff(range(d$a))^2 + diff(range(d$b))^2) / 3)
  expect_lte(nrow(v), 15)
  set.seed(2)
  rows <- sample.int(83, 40)
  set.seed(2)
  expect_equal(keops_variogram(z ~ a + b, d, width = 0.1, cutoff = 0.5, n_max = 40)$gamma,
               dense_variogram(d[rows, 1:2], residuals(lm(z ~ 1, d))[rows], 0.1, 5)$gamma)
})

test_that("meuse has the variogram and the model of gstat", {
  skip_if_not_installed("sp")
  data(meuse, package = "sp", envir = environment())
  v <- keops_variogram(log(zinc) ~ x + y, meuse)
  # printed by gstat::variogram(log(zinc) ~ 1, meuse)
  expect_equal(v$np[1:4], c(57, 299, 419, 457))
  expect_equal(v$dist[1:4], c(79.29244, 163.97367, 267.36483, 372.73542), tolerance = 1e-6)
  expect_equal(v$gamma[1:4], c(0.1234479, 0.2162185, 0.3027859, 0.4121448), tolerance = 1e-6)
  # gstat::fit.variogram(v, vgm(1, "Sph", 900, 1))
  model <- keops_fit_variogram(v, "spherical")
  expect_equal(unname(model$parameters), c(0.59060780, 897.0209, 0.05066243), tolerance = 1e-3)
  fit <- keops_gp(log(zinc) ~ x + y, meuse, kernel = model$kernel, nugget = model$nugget)
  expect_false(any(fit$estimated))
})

test_that("a model is found again from its own variogram", {
  h <- seq(0.05, 2, 0.05)
  for (kernel in list(cov_exponential(0.4, 2), cov_gaussian(0.5, 1), cov_matern(1.5, 0.3, 3), cov_spherical(1.2, 0.7))) {
    v <- data.frame(np = 50, dist = h, gamma = NA)
    laid <- keops:::lay_out(kernel, "h", NULL)
    v$gamma <- keops:::variogram_at(laid$node, c(laid$table$value, 0.2), h)
    v <- structure(v, class = c("keops_variogram", "data.frame"), width = 0.05, cutoff = 2, dimension = 2L)
    free <- kernel
    free$values <- lapply(free$values, function(value) NULL)
    names(free$values) <- names(kernel$values)
    model <- keops_fit_variogram(v, free)
    expect_equal(unname(model$parameters), c(laid$table$value, 0.2), tolerance = 1e-3, label = format(kernel))
    expect_equal(predict(model, h), v$gamma, tolerance = 1e-4)
    fixed <- keops_fit_variogram(v, kernel, nugget = 0.2)
    expect_equal(fixed$sse, 0)
  }
  pdf(NULL)
  on.exit(dev.off())
  expect_silent(plot(v, model))
  expect_output(print(model), "spherical")
})

test_that("what is no function of the distance, and wrong arguments, are refused", {
  d <- data.frame(a = 1:5, b = c(2, 1, 4, 3, 5), z = 1:5)
  v <- keops_variogram(z ~ a + b, d, cutoff = 5, width = 1)
  for (kernel in list(cov_linear(), cov_gaussian(ard = TRUE), cov_matern(form = "product"), "periodic", "nosuch")) {
    expect_error(keops_fit_variogram(v, kernel), class = "keops_error_input")
  }
  expect_error(keops_fit_variogram(d, "gaussian"), class = "keops_error_input")
  expect_error(keops_variogram(z ~ a + b, d, width = -1), class = "keops_error_input")
  expect_error(keops_variogram(z ~ a + nosuch, d), "nosuch", class = "keops_error_input")
  expect_error(keops_variogram(z ~ a, data.frame(a = 1, z = 1:3)), class = "keops_error_input")
})

test_that("coordinates of any size have their classes", {
  set.seed(9)
  d <- data.frame(a = runif(60), b = runif(60))
  d$z <- sin(8 * d$a)
  v <- keops_variogram(z ~ a + b, d)
  for (size in c(1e-200, 1e200)) {
    big <- keops_variogram(z ~ a + b, transform(d, a = a * size, b = b * size))
    expect_equal(big$np, v$np)
    expect_equal(big$dist / size, v$dist)
    expect_equal(big$gamma, v$gamma)
  }
})
