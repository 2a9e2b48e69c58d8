# Nothing outside the session's temporary folder is written, two threads at most are used, and a GPU only where a
# test asks for it.
keops_test_settings <- options(
  keops.cache_dir = file.path(tempdir(), "keops-test-cache"),
  keops.threads = 2L,
  keops.device = "cpu"
)
