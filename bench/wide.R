bench_wide <- function(rounds) NULL
