library(testthat)
library(keops)

test_check("keops")
