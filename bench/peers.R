bench_peers <- function(rounds) NULL
