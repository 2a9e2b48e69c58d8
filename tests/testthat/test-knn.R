# The k nearest by dense R: list(index, dist); `self`: row i leaves itself out.
dense_distances <- function(x, y, metric) {
  outer(seq_len(nrow(x)), seq_len(nrow(y)), Vectorize(function(i, j) {
    a <- x[i, ]
    b <- y[j, ]
    switch(metric,
      euclidean = sqrt(sum((a - b)^2)), manhattan = sum(abs(a - b)), maximum = max(abs(a - b)),
      cosine = 1 - sum(a * b) / sqrt(sum(a^2) * sum(b^2)), correlation = 1 - cor(a, b)
    )
  }))
}
dense_knn <- function(x, y, k, metric, self = FALSE) {
  d <- dense_distances(x, y, metric)
  if (self) diag(d) <- Inf
  index <- t(apply(d, 1, order))[, seq_len(k), drop = FALSE]
  list(index = index, dist = matrix(d[cbind(rep(seq_len(nrow(x)), k), as.vector(index))], nrow(x)))
}

test_that("every metric finds the neighbours of dense R, with and without a query", {
  set.seed(1)
  x <- draw(40, 3, -2, 2, 1 / 7)
  q <- draw(11, 3, -2, 2, 1 / 9)
  for (metric in c("euclidean", "manhattan", "maximum", "cosine", "correlation")) {
    each_backend(function(backend, precision) {
      for (k in c(1, 5, 39)) {
        found <- keops_knn(x, k = k, metric = metric)
        expect_close(found$nn.dist, dense_knn(x, x, k, metric, self = TRUE)$dist, tol(precision) * 10, 1, label = metric)
        expect_false(any(found$nn.index == seq_len(40)))
        found <- keops_knn(x, q, k, metric)
        reference <- dense_knn(q, x, k, metric)
        expect_close(found$nn.dist, reference$dist, tol(precision) * 10, 1, label = metric)
        if (precision == "double") expect_equal(dense_distances(q, x, metric)[cbind(rep(1:11, k), as.vector(found$nn.index))],
                                                as.vector(reference$dist), tolerance = 1e-9)
      }
    })
  }
})

test_that("a formula is a metric", {
  set.seed(2)
  x <- draw(20, 2, 1, 3)
  found <- keops_knn(x, k = 4, metric = "Sum(Abs(x-y)/(x+y))")
  d <- as.matrix(dist(x, "canberra"))
  diag(d) <- Inf
  expect_equal(found$nn.dist, t(apply(d, 1, sort))[, 1:4], tolerance = 1e-12, ignore_attr = TRUE)
  # the point itself need not be the nearest
  far <- keops_knn(x, k = 2, metric = "-SqDist(x,y)")
  expect_equal(far$nn.index[, 1], max.col(as.matrix(dist(x)), "first"))
  e <- expect_error(keops_knn(x, metric = "Abs(x-y)", k = 1), class = "keops_error_input")
  expect_match(conditionMessage(e), "2 components")
  e <- expect_error(keops_knn(x, metric = "euclidian", k = 1), class = "keops_error_input")
  expect_match(conditionMessage(e), "\"euclidean\"")
  expect_error(keops_knn(x, metric = "Abs(x-", k = 1), class = "keops_error_parse")
})

test_that("N01: a point is left out of its own neighbours unless it asks as a query", {
  x <- matrix(c(0, 1, 3, 7))
  each_backend(function(backend, precision) {
    expect_identical(keops_knn(x, k = 1)[1:2], list(nn.index = cbind(c(2L, 1L, 2L, 3L)), nn.dist = cbind(c(1, 1, 2, 4))))
    expect_identical(keops_knn(x, query = x, k = 1)[1:2], list(nn.index = cbind(1:4), nn.dist = cbind(rep(0, 4))))
  })
})

test_that("N02: of duplicates, the point itself is left out and not another", {
  x <- rbind(c(0, 0), c(0, 0), c(1, 0))
  each_backend(function(backend, precision) {
    found <- keops_knn(x, k = 1)
    expect_identical(found$nn.index, cbind(c(2L, 1L, 1L)))
    expect_identical(found$nn.dist, cbind(c(0, 0, 1)))
    expect_false(any(keops_knn(x, k = 2)$nn.index == 1:3))
  })
  many <- keops_knn(matrix(7, 30, 2), k = 3) # more duplicates than k
  expect_identical(many$nn.index[c(1:5, 30), ], rbind(2:4, c(1L, 3:4), c(1:2, 4L), 1:3, 1:3, 1:3))
  expect_identical(many$nn.dist, matrix(0, 30, 3))
})

test_that("N03: k is a whole number up to the points there are", {
  set.seed(3)
  x <- matrix(rnorm(10), 5)
  for (row in 1:5) expect_setequal(keops_knn(x, k = 4)$nn.index[row, ], setdiff(1:5, row))
  for (row in 1:5) expect_setequal(keops_knn(x, x, k = 5)$nn.index[row, ], 1:5)
  expect_identical(keops_knn(x, k = 2), keops_knn(x, k = 2L))
  for (k in list(5, 6)) {
    e <- expect_error(keops_knn(x, k = k), class = "keops_error_input")
    expect_match(conditionMessage(e), paste0("k = ", k, " but only 4 other points are available (n = 5, the point itself excluded)"),
                 fixed = TRUE)
  }
  e <- expect_error(keops_knn(x, x, k = 6), class = "keops_error_input")
  expect_match(conditionMessage(e), "k = 6 but only 5 points are available (n = 5)", fixed = TRUE)
  for (k in list(0, -1, NA, 27.7, 2.5, c(1, 2), "2", NULL)) {
    e <- expect_error(keops_knn(x, k = k), class = "keops_error_input")
    expect_match(conditionMessage(e), "`k`.*a whole number, 1 to 4")
  }
})

test_that("N05: a vector is one column, and columns that do not match are named", {
  set.seed(4)
  expect_identical(dim(keops_knn(matrix(rnorm(10)), c(.1, .2, .3), k = 2)$nn.index), c(3L, 2L))
  x <- matrix(rnorm(30), 10)
  for (query in list(c(.1, .2, .3), matrix(0, 4, 2))) {
    e <- expect_error(keops_knn(x, query, k = 2), class = "keops_error_input")
    expect_match(conditionMessage(e), "`query`.*3 columns")
  }
  e <- expect_error(keops_knn(x, matrix(0, 4, 2), k = 2), class = "keops_error_input")
  expect_match(conditionMessage(e), "4 x 2")
  expect_identical(dim(keops_knn(x, matrix(0, 0, 3), k = 2)$nn.index), c(0L, 2L))
  expect_error(keops_knn(matrix(0, 5, 0), k = 1), class = "keops_error_input")
})

test_that("N08: memory is that of the answer, and an answer too large to hold is refused before any work", {
  grown <- peak_growth("set.seed(1); x <- matrix(runif(3e5), 1e5)", "
    near <- keops_knn(x, k = 10)
    stopifnot(identical(dim(near$nn.index), c(100000L, 10L)), near$nn.index != seq_len(1e5), !is.unsorted(near$nn.dist[77, ]))
  ")
  expect_lt(grown, 200) # all distances: 80 GB
  e <- expect_error(keops_knn(matrix(0, 1e7, 1), k = 300), class = "keops_error_input")
  expect_match(conditionMessage(e), "300 for 10000000 points: 33.5 GB", fixed = TRUE)
})

test_that("N09: a saved fit answers in a fresh session as a search does", {
  set.seed(5)
  x <- matrix(rnorm(500), 100)
  y <- rnorm(100)
  q <- matrix(rnorm(15), 3)
  fit <- keops_knn_fit(x, y, k = 4)
  near <- keops_knn(x, q, k = 4)
  file <- tempfile(fileext = ".rds")
  saveRDS(list(fit = fit, near = near, q = q, answer = rowMeans(matrix(y[near$nn.index], 3))), file)
  expect_child(sprintf('library(keops); s <- readRDS("%s")
    stopifnot(all.equal(unname(predict(s$fit, s$q)), s$answer), identical(keops_knn(s$fit$x, s$q, k = 4), s$near))', file))
})

test_that("N12: factors are refused by name, and columns are found by name", {
  e <- expect_error(keops_knn(iris, k = 3), class = "keops_error_input")
  expect_match(conditionMessage(e), "`Species`")
  expect_identical(keops_knn(iris[, 1:4], iris[1:5, 4:1], k = 3)$nn.index, keops_knn(iris[, 1:4], iris[1:5, 1:4], k = 3)$nn.index)
  e <- expect_error(keops_knn(iris[, 1:4], iris[1:5, 1:3], k = 3), class = "keops_error_input")
  expect_match(conditionMessage(e), "`Petal.Width`")
})

test_that("N13: rows of the answer have the names of the query", {
  x <- matrix(as.numeric(1:10), 5, dimnames = list(letters[1:5], NULL))
  q <- matrix(c(1, 3, 5, 6, 8, 9.5), 3, dimnames = list(c("u", "v", "w"), NULL))
  for (part in c("nn.index", "nn.dist")) {
    expect_identical(rownames(keops_knn(x, q, k = 2)[[part]]), c("u", "v", "w"))
    expect_identical(rownames(keops_knn(x, k = 2)[[part]]), letters[1:5])
    expect_null(rownames(keops_knn(data.frame(a = 1:5, b = 2), k = 2)[[part]]))
    tibble <- data.frame(a = 1:5, b = 2)
    class(tibble) <- c("tbl_df", "tbl", "data.frame")
    expect_identical(keops_knn(tibble, k = 2)[[part]], keops_knn(data.frame(a = 1:5, b = 2), k = 2)[[part]])
  }
  expect_identical(names(keops_frnn(x, q, 2)$id), c("u", "v", "w"))
  expect_type(keops_knn(x, q, k = 2)$nn.index, "integer")
})

test_that("values that are not finite are named with row and column", {
  x <- matrix(as.numeric(1:10), 5, dimnames = list(NULL, c("a", "b")))
  x[3, 2] <- NA
  e <- expect_error(keops_knn(x, k = 2), class = "keops_error_input")
  expect_match(conditionMessage(e), "`x`: found NA in row 3, column `b`")
  x[4:5, 1] <- Inf
  e <- expect_error(keops_knn(x[1:2, ], x, k = 2), class = "keops_error_input")
  expect_match(conditionMessage(e), "`query`: found Inf in row 4, column `a` (and 2 more", fixed = TRUE)
  expect_silent(keops_knn(matrix(c(1e308, 1e308, -1e308)), k = 1)) # a sum that overflows hides nothing
})

test_that("rows without a direction have no cosine and no correlation", {
  x <- rbind(1:3, 0, c(2, 2, 2), 3:1)
  e <- expect_error(keops_knn(x, k = 1, metric = "cosine"), class = "keops_error_input")
  expect_match(conditionMessage(e), "row 2 that is zero")
  e <- expect_error(keops_knn(x[-2, ], k = 1, metric = "correlation"), class = "keops_error_input")
  expect_match(conditionMessage(e), "row 2 that is constant")
  tiny <- keops_knn(rbind(c(1e-200, 0), c(1, 0), c(0, 1e200)), k = 1, metric = "cosine")
  expect_identical(tiny$nn.index, cbind(c(2L, 1L, 1L)))
  expect_equal(tiny$nn.dist, cbind(c(0, 0, 1)))
})

test_that("distances are right for data of any size, in both precisions", {
  x <- matrix(c(0, 1, 3, 7, 12), 5, 2)
  q <- matrix(c(2.25, 6), 2, 2)
  for (metric in c("euclidean", "manhattan", "maximum")) {
    own <- dense_knn(x, x, 2, metric, self = TRUE)
    near <- dense_knn(q, x, 2, metric)
    for (size in c(2^-1000, 1e-200, 1e-30, 1e30, 1e200, 2^1000)) {
      each_backend(function(backend, precision) {
        found <- keops_knn(x * size, k = 2, metric = metric)
        expect_identical(found$nn.index, own$index)
        expect_equal(found$nn.dist, own$dist * size, tolerance = 1e-6)
        expect_equal(keops_knn(x * size, q * size, 2, metric)$nn.dist, near$dist * size, tolerance = 1e-6)
        within <- keops_frnn(x * size, radius = own$dist[1, 2] * size * (1 + 1e-6), metric = metric)
        expect_identical(within$id[[1]], own$index[1, ])
        expect_equal(within$dist[[1]], own$dist[1, ] * size, tolerance = 1e-6)
        expect_equal(predict(keops_knn_fit(x * size, 1:5, k = 1, metric = metric), q * size), as.numeric(near$index[, 1]))
      })
    }
  }
  # differences of which the squares are lost beside larger numbers
  wide <- matrix(c(0, 1e-200, 1))
  for (search in list(function() keops_knn(wide, k = 1), function() keops_frnn(wide, radius = 0.5), function() keops_knn(wide, 0.5e-200, k = 1))) {
    e <- expect_error(search(), class = "keops_error_input")
    expect_match(conditionMessage(e), "`x`.*squares can be told from 0.*manhattan")
  }
  expect_identical(keops_knn(wide, k = 1, metric = "manhattan")$nn.dist, matrix(c(1e-200, 1e-200, 1)))
  expect_identical(keops_knn(matrix(c(0, 0, 1)), k = 1)$nn.dist, matrix(c(0, 0, 1)))
})

test_that("with ranges, only their pairs are neighbours", {
  set.seed(12)
  x <- draw(60, 2, -2, 2, 1 / 7)
  q <- draw(20, 2, -2, 2, 1 / 9)
  near <- function(d, k) list(nn.index = t(apply(d, 1, order))[, 1:k], nn.dist = t(apply(d, 1, sort))[, 1:k])
  keep <- rbind(c(TRUE, FALSE, TRUE), c(FALSE, TRUE, TRUE))
  r <- keops_ranges(rep(1:2, c(12, 8)), rep(1:3, c(20, 25, 15)), keep)
  d <- dense_distances(q, x, "euclidean")
  d[!keep[rep(1:2, c(12, 8)), rep(1:3, c(20, 25, 15))]] <- Inf
  own <- keops_ranges(rep(1:3, c(20, 38, 2)), keep = diag(3) == 1)
  e <- dense_distances(x, x, "euclidean")
  e[outer(rep(1:3, c(20, 38, 2)), rep(1:3, c(20, 38, 2)), "!=") | diag(60) == 1] <- Inf
  each_backend(function(backend, precision) {
    found <- keops_knn(x, q, 4, ranges = r)
    expect_identical(found$nn.index, near(d, 4)$nn.index)
    expect_equal(found$nn.dist, near(d, 4)$nn.dist, tolerance = tol(precision))
    found <- keops_knn(x, k = 3, ranges = own)
    reference <- near(e, 3)
    reference$nn.index[reference$nn.dist == Inf] <- NA
    expect_identical(found$nn.index, reference$nn.index)
    expect_equal(found$nn.dist, reference$nn.dist, tolerance = tol(precision))
  })
  expect_identical(sum(is.na(keops_knn(x, k = 3, ranges = own)$nn.index)), 4L)
  expect_error(keops_knn(x, k = 3, ranges = r), class = "keops_error_input")
  twice <- keops_ranges_raw(cbind(1, 20), 2, rbind(c(1, 30), c(20, 60)), dim = c(20, 60))
  e <- expect_error(keops_knn(x, q, 3, ranges = twice), class = "keops_error_input")
  expect_match(conditionMessage(e), "`ranges`.*twice")
})

test_that("settings of a call are taken, anything else is refused", {
  x <- matrix(rnorm(20), 10)
  expect_equal(keops_knn(x, k = 2, threads = 1, backend = "interpreted"), keops_knn(x, k = 2))
  expect_error(keops_knn(x, k = 2, K = 3), class = "keops_error_input")
  expect_output(print(keops_knn(x, k = 2)), "10 points, 2 nearest")
})

test_that("distances agree with FNN on real data", {
  skip_if_not_installed("FNN")
  x <- as.matrix(iris[, 1:4])
  expect_equal(keops_knn(x, k = 7)$nn.dist, FNN::get.knn(x, 7, "brute")$nn.dist, tolerance = 1e-12, ignore_attr = TRUE)
  q <- x[1:20, ] + 0.03
  expect_equal(keops_knn(x, q, 5)$nn.dist, FNN::get.knnx(x, q, 5, "brute")$nn.dist, tolerance = 1e-12, ignore_attr = TRUE)
})

test_that("N11: neighbours within a radius are ragged lists", {
  z <- matrix(c(0, 1, 2, 4))
  each_backend(function(backend, precision) {
    found <- keops_frnn(z, radius = 1.5)
    expect_identical(found$id, list(2L, c(1L, 3L), 2L, integer()))
    expect_identical(found$dist, list(1, c(1, 1), 1, numeric()))
    expect_identical(keops_frnn(z, z, radius = 0)$id, as.list(1:4))
  })
})

test_that("within a radius lie all points, for every metric and any number of them", {
  set.seed(6)
  x <- matrix(rnorm(1800), 600)
  q <- matrix(rnorm(30), 10) * c(0.1, 1, 3)
  for (metric in c("euclidean", "manhattan", "maximum", "cosine", "correlation")) {
    d <- dense_distances(q, x, metric)
    radius <- unname(quantile(d, 0.6))
    found <- keops_frnn(x, q, radius, metric)
    for (i in 1:10) {
      expect_setequal(found$id[[i]], which(d[i, ] <= radius))
      expect_false(is.unsorted(found$dist[[i]]))
      expect_equal(found$dist[[i]], d[i, found$id[[i]]], tolerance = 1e-9)
    }
    plain <- keops_frnn(x, q, radius, metric, sort = FALSE)
    expect_false(any(vapply(plain$id, is.unsorted, NA)))
  }
  expect_gt(max(lengths(found$id)), keops:::max_listed)
  own <- keops_frnn(x, radius = 1)
  d <- as.matrix(dist(x))
  diag(d) <- Inf
  expect_identical(lapply(own$id, sort), unname(lapply(apply(d <= 1, 1, which, simplify = FALSE), unname)))
  # a radius that is a distance holds the point at this distance, but for the rounding of another search
  near <- keops_knn(x, k = 3)$nn.dist[, 3] * (1 + 1e-12)
  for (i in seq(1, 600, 60)) expect_length(keops_frnn(x, x[i, , drop = FALSE], near[i])$id[[1]], 4)
  expect_output(print(own), "600 points, all within 1")
  for (radius in list(-1, NA, Inf, "1", 1:2)) expect_error(keops_frnn(x, radius = radius), class = "keops_error_input")
  expect_error(keops_frnn(x), class = "keops_error_input")
})

test_that("votes, shares and means are those of the neighbours", {
  set.seed(7)
  x <- draw(60, 2, -2, 2, 1 / 7)
  y <- factor(sample(c("b", "a", "c"), 60, TRUE), levels = c("b", "a", "c"))
  v <- rnorm(60)
  q <- draw(9, 2, -2, 2, 1 / 11)
  near <- dense_knn(q, x, 5, "euclidean")
  for (kind in c("uniform", "inverse", "gaussian")) {
    w <- switch(kind, uniform = near$dist^0, inverse = 1 / near$dist, gaussian = exp(-(near$dist / near$dist[, 5])^2 / 2))
    w <- w / rowSums(w)
    share <- sapply(levels(y), function(l) rowSums(w * (y[near$index] == l)))
    fit <- keops_knn_fit(x, y, k = 5, weights = kind)
    prob <- predict(fit, q, type = "prob")
    expect_equal(prob, share, tolerance = 1e-10)
    label <- vapply(1:9, function(i) {
      tied <- levels(y)[share[i, ] > max(share[i, ]) - 1e-9]
      as.character(y[near$index[i, ]][y[near$index[i, ]] %in% tied][1])
    }, "")
    expect_identical(predict(fit, q, type = "class"), factor(label, levels(y)))
    expect_identical(predict(fit, q), predict(fit, q, type = "class"))
    expect_equal(predict(keops_knn_fit(x, v, k = 5, weights = kind), q), rowSums(w * matrix(v[near$index], 9)), tolerance = 1e-10)
  }
})

test_that("fitted values leave the point out, and so do residuals", {
  set.seed(8)
  x <- matrix(rnorm(40), 20, dimnames = list(paste0("r", 1:20), NULL))
  v <- rnorm(20)
  fit <- keops_knn_fit(x, v, k = 3)
  without <- vapply(1:20, function(i) predict(keops_knn_fit(x[-i, ], v[-i], k = 3), x[i, , drop = FALSE]), 0)
  expect_equal(unname(fitted(fit)), unname(without))
  expect_equal(residuals(fit), v - fitted(fit))
  expect_named(fitted(fit), rownames(x))
  y <- factor(v > 0)
  classes <- keops_knn_fit(x, y, k = 3)
  expect_equal(unname(residuals(classes)), 1 - predict(classes, type = "prob")[cbind(1:20, as.integer(y))])
  expect_identical(predict(classes), fitted(classes))
  expect_error(predict(fit, x, type = "prob"), class = "keops_error_input")
})

test_that("zero distances count alone under inverse weights", {
  fit <- keops_knn_fit(c(0, 0, 1, 2), c(1, 3, 10, 10), k = 3, weights = "inverse")
  expect_equal(predict(fit, c(0, 1)), c(2, 10))
  expect_equal(predict(keops_knn_fit(c(0, 0, 0, 2), c(1, 3, 5, 10), k = 3, weights = "gaussian"), 0), 3)
})

test_that("a fit by formula finds its columns, keeps levels, and passes NA through", {
  mixed <- data.frame(y = c(1, 2, 3, 4, 5, NA), a = c(0, 1, 2, 3, 4, 5), g = factor(c("u", "v", "u", "v", "u", "v")))
  fit <- keops_knn_fit(y ~ a + g, mixed, k = 2)
  expect_identical(colnames(fit$x), c("a", "gv"))
  expect_length(fit$y, 5)
  expect_equal(predict(fit, data.frame(g = c("u", NA), a = c(0, 1))), c(`1` = 1.5, `2` = NA), ignore_attr = TRUE)
  expect_error(predict(fit, data.frame(g = "w", a = 1)), "new level")
  e <- expect_error(predict(fit, data.frame(g = "u", a = "1")), class = "keops_error_input")
  expect_match(conditionMessage(e), "`newdata`: found a column `a` of type character; expected numeric")
  e <- expect_error(predict(fit, data.frame(g = "u")), class = "keops_error_input")
  expect_match(conditionMessage(e), "`a`")
  part <- keops_knn_fit(y ~ a, mixed, subset = a > 0, k = 2)
  expect_identical(rownames(part$x), as.character(2:5))
  expect_output(print(part), "leave-one-out RMSE")
  expect_error(keops_knn_fit(y ~ a, mixed, subset = a > 0, k = 2, kk = 3), class = "keops_error_input")
})

test_that("classes agree with class::knn on real data", {
  skip_if_not_installed("class")
  set.seed(9)
  train <- sample(150, 100)
  x <- as.matrix(iris[, 1:4])
  ours <- predict(keops_knn_fit(x[train, ], iris$Species[train], k = 5), x[-train, ], type = "prob")
  theirs <- class::knn(x[train, ], x[-train, ], iris$Species[train], k = 5, prob = TRUE, use.all = FALSE)
  # theirs breaks ties at random: compare the rows where the last neighbour and the vote are clear
  d <- keops_knn(x[train, ], x[-train, ], k = 6)$nn.dist
  clear <- d[, 6] > d[, 5] * (1 + 1e-9) & attr(theirs, "prob") > 0.5
  expect_gt(sum(clear), 35)
  expect_equal(apply(ours, 1, max)[clear], attr(theirs, "prob")[clear], ignore_attr = TRUE)
  expect_identical(colnames(ours)[max.col(ours)][clear], as.character(theirs)[clear])
})
