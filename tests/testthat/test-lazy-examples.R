# Each script ends with stopifnot() on what it found.
test_that("the example scripts run", {
  folder <- system.file("examples", package = "keops")
  for (name in c("interpolation", "knn_classification", "kmeans", "kernel_density", "sinkhorn", "power_iteration")) {
    file <- file.path(folder, paste0(name, ".R"))
    expect_true(file.exists(file), label = name)
    expect_error(capture.output(sys.source(file, new.env(parent = globalenv()))), NA, label = name)
  }
})
