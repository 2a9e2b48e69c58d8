# Results of a run as a file for machines, and RESULTS.md from those of all machines.

cpu_name <- function() {
  cpu <- grep("^model name", tryCatch(readLines("/proc/cpuinfo"), error = function(e) ""), value = TRUE)
  if (length(cpu)) sub(".*: *", "", cpu[1L]) else "unknown CPU"
}

say_machine <- function() {
  info <- keops_info()
  load <- tryCatch(readLines("/proc/loadavg"), error = function(e) "not told")
  gcc <- system2("gcc", "--version", stdout = TRUE)[1L]
  title <- c(
    sprintf("%s, %d cores, %s, %.2f GHz, %.1f multiply-adds of floats a ns and core", cpu_name(), info$cores, info$vectors,
            machine$ghz, machine$floats),
    sprintf("%s, %d threads, %d rounds, load %s", Sys.Date(), threads, rounds, load),
    sprintf("keops %s, %s, R %s", utils::packageVersion("keops"), gcc, getRversion()))
  cat(title, "", sep = "\n")
  title
}

slug <- function() {
  gsub("[^a-z0-9]+", "-", tolower(gsub("\\(R\\)|\\(TM\\)", "", paste(cpu_name(), keops_info()$vectors))))
}

write_report <- function(folder, title) {
  dir.create(folder, showWarnings = FALSE)
  file <- file.path(folder, paste0(slug(), ".csv"))
  writeLines(paste("#", title), file)
  suppressWarnings(utils::write.table(do.call(rbind, results), file, append = TRUE, sep = ",", row.names = FALSE,
                                      qmethod = "double"))
  if (normalizePath(folder) == normalizePath(file.path(here, "results"), mustWork = FALSE)) write_markdown(folder)
}

table_of <- function(file) {
  head <- sub("^# ", "", grep("^# ", readLines(file), value = TRUE))
  r <- utils::read.csv(file, comment.char = "#")
  draw_scaling(r[r$part == "scaling", ], sub("\\.csv$", "", file))
  r <- r[r$part != "scaling", ]
  verdict <- ifelse(is.na(r$ok), "", ifelse(r$ok, "ok", "**missed**"))
  span <- ifelse(is.na(r$low), "", sprintf("%g-%g", r$low, r$high))
  rows <- sprintf("| %s | %s | %s | %s | %g %s | %s | %s | %s | %s |", r$part, r$case, r$precision, r$backend, r$value,
                  r$unit, span, ifelse(is.na(r$bound), "", r$bound), verdict, r$note)
  pictures <- list.files(dirname(file), paste0("^", sub("\\.csv$", "", basename(file)), "-.*\\.png$"))
  c(paste0("## ", head[1L]), "", head[-1L], "", "| part | case | precision | backend | value | range | bound | | |",
    "|---|---|---|---|---|---|---|---|---|", rows, "", sprintf("![%s](results/%s)", pictures, pictures), "")
}

write_markdown <- function(folder) {
  files <- list.files(folder, "\\.csv$", full.names = TRUE)
  texts <- list.files(folder, "\\.md$", full.names = TRUE) # of what other programs measured
  writeLines(c(readLines(file.path(here, "notes.md")), "", unlist(lapply(files, table_of)),
               unlist(lapply(texts, function(file) c(readLines(file), "")))),
             file.path(here, "RESULTS.md"))
}
