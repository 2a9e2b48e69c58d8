bench_thin <- function(rounds) NULL
