bench_scaling <- function(rounds) NULL
write_scaling <- function(folder, name) NULL
