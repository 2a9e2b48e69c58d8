# Time against N and against D, as pictures.

scaling <- NULL

scaling_point <- function(axis, at, m, n, d, precision, reference = TRUE) {
  data <- make_data(m, n, d)
  add <- function(name, time) {
    scaling <<- rbind(scaling, data.frame(axis = axis, at = at, precision = precision, name = name, time = time))
    record("scaling", sprintf("gauss, %s = %d", axis, at), precision, name, 1e3 * time, "ms")
  }

  for (name in c("compiled", "interpreted")) {
    op <- make_operator("gauss", d, 1L, precision, name, threads)
    call_operator(op, data)
    add(name, median(replicate(3L, time_of(call_operator(op, data)))))
  }
  if (reference) add("reference", run_reference("gauss", 1L, precision, data, threads)$seconds)
}

bench_scaling <- function(rounds) {
  for (precision in c("single", "double")) {
    for (n in as.integer(10^seq(1.5, 4.5, by = 0.5))) scaling_point("N", n, n, n, 3L, precision, n < 20000L)
    for (d in c(1L, 3L, 10L, 30L, 100L, 300L, 1000L)) scaling_point("D", d, 500L, 2000L, d, precision)
  }
}

write_scaling <- function(folder, name) {
  if (is.null(scaling)) return(invisible())
  colours <- c(compiled = "#1b6ca8", interpreted = "#d1495b", reference = "#777777")
  for (axis in c("N", "D")) {
    s <- scaling[scaling$axis == axis, ]
    grDevices::png(file.path(folder, sprintf("%s-time-against-%s.png", name, tolower(axis))), 900, 600, res = 110)
    plot(s$at, 1e3 * s$time, log = "xy", type = "n", ylab = "ms a call", main = "Sum of Gaussians",
         xlab = if (axis == "N") "M = N points, D = 3" else "D, 500 x 2000 points")
    for (part in split(s, paste(s$name, s$precision))) {
      lines(part$at, 1e3 * part$time, type = "b", pch = 19, col = colours[[part$name[1L]]],
            lty = if (part$precision[1L] == "single") 2L else 1L)
    }
    legend("topleft", c(names(colours), "double", "single"), col = c(colours, "black", "black"), lty = c(1, 1, 1, 1, 2),
           bty = "n")
    grDevices::dev.off()
  }
}
