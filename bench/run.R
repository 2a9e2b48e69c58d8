# Time the installed package against cpu/reference.c and other peers, in one run on one machine.
#
#   Rscript bench/run.R [threads=N] [rounds=N] [parts=table,wide,...] [only=REGEX] [out=DIR]     (or: make bench)
#
# Ratios are medians over interleaved rounds, so that whatever else the machine does falls on both sides.
# The reference's time is its loop alone; the package's is the whole call from R, packing included. Every
# result is compared with the reference's before it is timed. Lines with a bound end in ok or MISSED, and the
# exit status says whether all were kept. Bounds are for a quiet machine (look at the load printed first) and
# for AVX-512; half of a ratio is asked for where vectors are narrower.
#
# A whole run writes results/<machine>.csv, and RESULTS.md and its pictures anew from notes.md and the results
# of all machines. `out` takes the results elsewhere. `parts=report` measures nothing: it makes RESULTS.md only.

library(keops)

here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)[1L]))
words <- strsplit(commandArgs(trailingOnly = TRUE), "=", fixed = TRUE)
argument <- function(name, default) {
  given <- Filter(function(w) w[1L] == name, words)
  if (length(given)) given[[1L]][2L] else default
}
all_parts <- c("table", "wide", "thin", "resources", "peers", "scaling")
threads <- as.integer(argument("threads", min(2L, keops_info()$cores)))
rounds <- as.integer(argument("rounds", 5L))
parts <- strsplit(argument("parts", paste(all_parts, collapse = ",")), ",", fixed = TRUE)[[1L]]
only <- argument("only", "")

for (file in c("tools.R", "cases.R", "wide.R", "thin.R", "resources.R", "peers.R", "scaling.R", "report.R")) {
  source(file.path(here, file))
}

if (identical(parts, "report")) {
  write_markdown(file.path(here, "results"))
  quit()
}
set.seed(1)
Sys.setenv(KEOPS_DEVICE = "cpu") # in sessions of their own too
keops_options(cache_dir = tempfile("bench-cache"))
machine <- measure_peak()
narrower <- if (keops_info()$vectors == "avx512") 1 else 0.5
title <- say_machine()
began <- seconds()
for (part in parts) {
  get(paste0("bench_", c(table = "cases", wide = "wide", thin = "thin", resources = "resources", peers = "peers",
                         scaling = "scaling")[[part]]))(rounds)
}
cat(sprintf("\n%.0f s; %s\n", seconds() - began, if (missed) paste(missed, "bounds missed") else "all bounds kept"))
out <- argument("out", if (setequal(parts, all_parts) && only == "") file.path(here, "results") else "")
if (nzchar(out)) write_report(out, title)
quit(status = if (missed) 1L else 0L)
