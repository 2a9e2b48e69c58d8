# k-means by Lloyd's steps: each assigns 20,000 points to the nearest of 6 centres with argmin().

library(keops)
set.seed(3)
k <- 6
true <- matrix(rnorm(2 * k, sd = 5), k)
x <- true[sample(k, 20000, replace = TRUE), ] + rnorm(40000)

# the first centres: each far from those before (k-means++)
first_centres <- function(x, k) {
  at <- sample(nrow(x), 1)
  while (length(at) < k) {
    gap <- min(sqdist(Vi(x), Vj(x[at, , drop = FALSE])), "j")
    at <- c(at, sample(nrow(x), 1, prob = gap))
  }
  x[at, , drop = FALSE]
}

centres <- first_centres(x, k)
for (step in 1:500) {
  label <- as.vector(argmin(sqdist(Vi(x), Vj(centres)), "j"))
  moved <- rowsum(x, factor(label, levels = seq_len(k))) / tabulate(label, k)
  done <- max(abs(moved - centres)) < 1e-8
  centres <- moved
  if (done) break
}
within <- sum(min(sqdist(Vi(x), Vj(centres)), "j"))
cat("steps:", step, " sum of squares within:", format(within), " sizes:", tabulate(label, k), "\n")

# the same fixed point as stats::kmeans() started there
reference <- kmeans(x, centres, algorithm = "Lloyd", iter.max = 100)
stopifnot(all.equal(within, reference$tot.withinss, tolerance = 1e-8))
