# Time against N and against D, as pictures.

scaling_point <- function(axis, at, m, n, d, precision, reference = TRUE) {
  data <- make_data(m, n, d)
  add <- function(name, time) record("scaling", sprintf("gauss %s=%d", axis, at), precision, name, 1e3 * time, "ms")

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

# Two pictures of the lines of results that belong here; `stem` is their path up to "-time-against-n.png".
draw_scaling <- function(r, stem) {
  if (nrow(r) == 0L || !capabilities("png")) return(invisible())
  colours <- c(compiled = "#1b6ca8", interpreted = "#d1495b", reference = "#777777")
  r$axis <- sub("gauss (.)=.*", "\\1", r$case)
  r$at <- as.numeric(sub(".*=", "", r$case))
  for (s in split(r, r$axis)) {
    axis <- s$axis[1L]
    grDevices::png(sprintf("%s-time-against-%s.png", stem, tolower(axis)), 900, 600, res = 110)
    plot(s$at, s$value, log = "xy", type = "n", ylab = "ms a call", main = "Sum of Gaussians",
         xlab = if (axis == "N") "M = N points, D = 3" else "D, 500 x 2000 points")
    for (part in split(s, paste(s$backend, s$precision))) {
      lines(part$at, part$value, type = "b", pch = 19, col = colours[[part$backend[1L]]],
            lty = if (part$precision[1L] == "single") 2L else 1L)
    }
    legend("topleft", c(names(colours), "double", "single"), col = c(colours, "black", "black"), lty = c(1, 1, 1, 1, 2),
           bty = "n")
    grDevices::dev.off()
  }
}
