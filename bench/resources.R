bench_resources <- function(rounds) NULL
