cost <- function(x, centers, metric) {
  if (metric == "cosine") x <- x / sqrt(rowSums(x^2))
  outer(seq_len(nrow(x)), seq_len(nrow(centers)), Vectorize(function(i, k) {
    d <- x[i, ] - centers[k, ]
    switch(metric, euclidean = sum(d^2), manhattan = sum(abs(d)), cosine = 1 - sum(x[i, ] * centers[k, ]))
  }))
}
# All that a fit promises about labels, centres and sums.
expect_consistent <- function(fit, x, tolerance = 1e-10) {
  d <- cost(x, fit$centers, fit$metric)
  own <- d[cbind(seq_len(nrow(x)), fit$cluster)]
  expect_true(all(own <= apply(d, 1, min) + tolerance * max(1, d)))
  expect_equal(fit$withinss, as.vector(tapply(own, factor(fit$cluster, seq_len(nrow(fit$centers))), sum)), tolerance = 1e-8)
  expect_equal(fit$tot.withinss, sum(fit$withinss), tolerance = 1e-12)
  expect_equal(fit$totss, fit$betweenss + fit$tot.withinss)
  expect_identical(fit$size, tabulate(fit$cluster, nrow(fit$centers)))
  expect_true(all(fit$size > 0))
  expect_false(anyNA(unlist(fit[c("centers", "withinss", "totss")])))
  expect_identical(unname(predict(fit, x)), unname(fit$cluster))
}

test_that("iris in three clusters is the known answer, in the shape of stats::kmeans", {
  x <- iris[, 1:4]
  each_backend(function(backend, precision) {
    set.seed(1)
    fit <- keops_kmeans(x, 3, nstart = 10)
    expect_equal(fit$tot.withinss, 78.85144, tolerance = if (precision == "double") 1e-6 else 1e-5)
    expect_setequal(fit$size, c(50L, 62L, 38L))
  })
  set.seed(1)
  fit <- keops_kmeans(x, 3, nstart = 10)
  peer <- kmeans(x, fit$centers)
  for (part in c("cluster", "centers", "totss", "withinss", "tot.withinss", "betweenss", "size")) {
    expect_equal(fit[[part]], peer[[part]], ignore_attr = TRUE, tolerance = 1e-5, label = part)
  }
  expect_named(fit, c(names(peer), "reseeded", "metric", "call"))
  expect_s3_class(fit, c("keops_kmeans", "kmeans"), exact = TRUE)
  expect_identical(dimnames(fit$centers), list(c("1", "2", "3"), names(x)))
  expect_equal(fitted(fit), fit$centers[fit$cluster, ])
  expect_output(print(fit), "K-means clustering with 3 clusters")
  expect_output(print(summary(fit)), "88.4 % explained")
})

test_that("every metric's steps lower its total, and middles are means, medians, directions", {
  set.seed(2)
  x <- matrix(rnorm(300), 100) + rep(c(3, 0, -4, 1), 25)
  rownames(x) <- paste0("p", 1:100)
  for (metric in c("euclidean", "manhattan", "cosine")) {
    for (init in c("kmeans++", "random")) {
      fit <- keops_kmeans(x, 4, init = init, metric = metric)
      expect_consistent(fit, x)
      expect_named(fit$cluster, rownames(x))
      expect_identical(fit$ifault, 0L)
      middle <- t(sapply(1:4, function(k) {
        part <- x[fit$cluster == k, , drop = FALSE]
        if (metric == "manhattan") return(apply(part, 2, median))
        if (metric == "euclidean") return(colMeans(part))
        sums <- colSums(part / sqrt(rowSums(part^2)))
        sums / sqrt(sum(sums^2))
      }))
      expect_equal(fit$centers, middle, ignore_attr = TRUE, tolerance = 1e-12)
    }
    one <- keops_kmeans(x, 1, metric = metric)
    expect_identical(c(one$ifault, one$betweenss), c(0, 0))
    expect_equal(one$totss, fit$totss)
    out <- capture.output(fit <- keops_kmeans(x, 4, metric = metric, trace = 1))
    totals <- as.numeric(sub(".*total ([^,]*),.*", "\\1", out))
    expect_false(is.unsorted(-totals))
    d <- predict(fit, x[1:5, ], type = "distance")
    reference <- cost(x[1:5, ], fit$centers, metric)
    expect_equal(d, if (metric == "euclidean") sqrt(reference) else reference, ignore_attr = TRUE, tolerance = 1e-10)
  }
})

test_that("M01: duplicated rows and duplicated starting centres give no NaN and no empty cluster", {
  v <- c(7, 7, 7, 9, 12, 7, 10, 30, 4, 41, 22, 15, 44, 35, 50)
  x <- cbind(v, v, v)
  for (seed in 1:50) {
    set.seed(seed)
    expect_consistent(keops_kmeans(x, 10, init = if (seed %% 2) "kmeans++" else "random"), x)
  }
  fit <- keops_kmeans(x, x[1:10, ])
  expect_consistent(fit, x)
  expect_gt(fit$reseeded, 0)
  e <- expect_error(keops_kmeans(x, 13), class = "keops_error_input")
  expect_match(conditionMessage(e), "13 centres.*12 distinct")
  expect_identical(keops_kmeans(x, 12)$tot.withinss, 0)
})

test_that("M02: eight points in six clusters", {
  x <- rbind(c(0, 0), c(0, 2), c(2, 0), c(2, 2), c(5, 5), c(7, 3), c(9, 5), c(13, 5))
  for (seed in 1:100) {
    set.seed(seed)
    expect_consistent(keops_kmeans(x, 6, init = if (seed %% 2) "kmeans++" else "random"), x)
  }
  expect_equal(keops_kmeans(x, 6, nstart = 200)$tot.withinss, 4)
})

test_that("M04: labels are of the nearest returned centres, also when steps ran out", {
  set.seed(3)
  x <- matrix(rnorm(6000), 2000) + rep(c(0, 2, 4), length.out = 2000)
  for (seed in 1:7) {
    set.seed(seed)
    w <- tryCatch(keops_kmeans(x, 2, iter.max = 2), keops_warning_convergence = identity)
    fit <- suppressWarnings(keops_kmeans(x, 2, iter.max = 2))
    expect_consistent(fit, x)
  }
  expect_s3_class(w, "keops_warning_convergence")
  expect_identical(w$iterations, 2L)
  expect_identical(fit$ifault, 2L)
})

test_that("M06: new rows are assigned", {
  set.seed(4)
  fit <- keops_kmeans(iris[, 1:4], 3)
  expect_identical(predict(fit, iris[, 1:4]), fit$cluster)
  expect_identical(predict(fit), fit$cluster)
  expect_length(predict(fit, iris[1, 1:4]), 1)
  expect_identical(predict(fit, iris[5:1]), fit$cluster) # by name, others ignored
  e <- expect_error(predict(fit, iris[, 1:3]), class = "keops_error_input")
  expect_match(conditionMessage(e), "`Petal.Width`")
  some <- iris[1:3, 1:4]
  some[2, 3] <- NA
  expect_identical(unname(predict(fit, some)), unname(c(fit$cluster[1], NA, fit$cluster[3])))
  expect_length(predict(fit, some, na.action = na.omit), 2)
  expect_identical(dim(predict(fit, some, type = "distance")), c(3L, 3L))
  expect_error(predict(fit, type = "distance"), class = "keops_error_input")
  expect_error(predict(fit, some, kind = 1), class = "keops_error_input")
})

test_that("M07: the answer follows R's seed and no thread count", {
  set.seed(5)
  x <- matrix(rnorm(3000), 1000)
  answers <- lapply(c(1, 2, 2), function(threads) {
    with_options(list(keops.threads = threads), {
      set.seed(1)
      fit <- keops_kmeans(x, 5)
      list(fit, runif(1))
    })
  })
  expect_identical(answers[[1]], answers[[2]])
  expect_identical(answers[[2]], answers[[3]])
  set.seed(1)
  expect_false(identical(runif(1), answers[[1]][[2]])) # it drew from R's generator
})

test_that("M09: one member, one cluster, one column, one row", {
  fit <- keops_kmeans(c(0, 0.1, 10), 2)
  expect_equal(sort(fit$centers[, 1]), c(0.05, 10), ignore_attr = TRUE)
  expect_identical(dim(fit$centers), c(2L, 1L))
  one <- keops_kmeans(matrix(c(3, 4), 1), 1)
  expect_identical(unname(one$centers), matrix(c(3, 4), 1))
  expect_identical(c(one$tot.withinss, one$size), c(0, 1))
  all <- keops_kmeans(c(5, 1, 9), 3)
  expect_identical(all$tot.withinss, 0)
  expect_identical(predict(one, matrix(0, 0, 2)), integer())
})

test_that("M10: values that are not finite are named; near-identical points finish", {
  x <- as.matrix(iris[, 1:4])
  x[7, 2] <- NA
  e <- expect_error(keops_kmeans(x, 3), class = "keops_error_input")
  expect_match(conditionMessage(e), "NA in row 7, column `Sepal.Width`")
  set.seed(6)
  close <- 1 + 1e-12 * rnorm(100)
  fit <- suppressWarnings(keops_kmeans(close, 3, iter.max = 2))
  expect_true(all(fit$size > 0))
  expect_lte(fit$iter, 2)
  expect_false(anyNA(fit$centers))
  expect_error(keops_kmeans(c(0, 1e-200, 1), 3), "tell apart", class = "keops_error_input")
  expect_error(keops_kmeans(c(1e200, -1e200, 1), 2), class = "keops_error_input")
})

test_that("data of any size are clustered, as long as the sums are numbers", {
  x <- matrix(c(0, 1, 3, 17, 18, 20), 6, 2)
  for (metric in c("euclidean", "manhattan")) {
    for (size in if (metric == "euclidean") c(1e-100, 1e30, 1e150) else c(1e-200, 1e30, 1e200)) {
      each_backend(function(backend, precision) {
        fit <- keops_kmeans(x * size, x[c(1, 4), ] * size, metric = metric)
        one <- keops_kmeans(x, x[c(1, 4), ], metric = metric)
        expect_identical(fit$cluster, one$cluster)
        expect_equal(fit$centers / size, one$centers, tolerance = 1e-6)
        power <- if (metric == "euclidean") 2 else 1
        for (part in c("withinss", "tot.withinss", "totss", "betweenss")) {
          expect_equal(fit[[part]], one[[part]] * size^power, tolerance = 1e-5)
        }
        expect_identical(predict(fit, x * size), fit$cluster)
        expect_equal(predict(fit, x * size, type = "distance") / size, predict(one, x, type = "distance"), tolerance = 1e-6)
      })
    }
  }
  e <- expect_error(keops_kmeans(x * 1e200, 2), class = "keops_error_input")
  expect_match(conditionMessage(e), "values up to 2e\\+201.*finite sum")
})

test_that("rows without direction, and wrong arguments, are refused", {
  e <- expect_error(keops_kmeans(rbind(1:2, 0, 2:1), 2, metric = "cosine"), class = "keops_error_input")
  expect_match(conditionMessage(e), "row 2 that is zero")
  opposite <- keops_kmeans(rbind(c(1, 0), c(-1, 0), c(0, 1), c(0, -1)), 1, metric = "cosine")
  expect_equal(opposite$totss, 4)
  x <- matrix(rnorm(20), 10)
  for (centers in list(0, -1, 2.5, NA, "a", matrix(0, 2, 3))) expect_error(keops_kmeans(x, centers), class = "keops_error_input")
  expect_error(keops_kmeans(x, 2, metric = "maximum"), class = "keops_error_input")
  expect_error(keops_kmeans(x, 2, init = "kmeans||"), class = "keops_error_input")
  expect_error(keops_kmeans(x), class = "keops_error_input")
})

test_that("a fit is plotted with its data and without", {
  pdf(NULL)
  on.exit(dev.off())
  set.seed(7)
  fit <- keops_kmeans(iris[, 1:4], 3)
  expect_silent(plot(fit))
  expect_silent(plot(fit, iris, columns = c("Petal.Length", "Petal.Width")))
  expect_silent(plot(keops_kmeans(c(1, 2, 9), 2), c(1, 2, 9)))
})
