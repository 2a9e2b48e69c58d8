# Runs tests/testthat on the installed package and ends with one line: "N passed, N failed, N skipped".
library(testthat)
library(keops)
results <- as.data.frame(test_dir(
  "tests/testthat", package = "keops", load_package = "installed",
  reporter = check_reporter(), stop_on_failure = FALSE
))
failed <- sum(results$failed) + sum(results$error)
cat(sprintf("%d passed, %d failed, %d skipped\n", sum(results$passed), failed, sum(results$skipped)))
quit(status = if (failed > 0L || nrow(results) == 0L) 1L else 0L)
