# Nothing outside the session's temporary folder is written, and two threads at most are used.
keops_test_settings <- options(
  keops.cache_dir = file.path(tempdir(), "keops-test-cache"),
  keops.threads = 2L
)
