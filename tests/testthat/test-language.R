# The help page and the vignette of the language are made from the engine's own tables.

test_that("every operation and reduction says what it is", {
  ops <- keops:::language_operations()
  expect_identical(ops$name, keops:::engine_operations()$name)
  for (column in c("use", "dim", "value")) expect_true(all(nzchar(ops[[column]])), label = column)
  expect_true(all(nzchar(ops$slope[ops$group == keops:::language_groups[1]])))
  reductions <- keops:::language_reductions()
  expect_identical(sub("_Reduction.*", "", reductions$use), keops:::engine_reductions())
  expect_true(all(nzchar(reductions$value)))
})

test_that("the help page holds the tables as they are made now", {
  page <- test_path("..", "..", "man", "keops_formula.Rd")
  skip_if_not(file.exists(page), "the source of the help page is not here")
  text <- paste(readLines(page), collapse = "\n")
  for (section in keops:::language_tables()[-1]) {
    expect_true(grepl(section, text, fixed = TRUE), label = substr(section, 1, 60))
  }
})
