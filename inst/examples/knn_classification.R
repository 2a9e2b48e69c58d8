# k nearest neighbours: species of irises from the 5 nearest of the others, and a larger synthetic problem.

library(keops)
vote <- function(neighbours, class) {
  apply(matrix(class[neighbours], nrow(neighbours)), 1, function(v) names(which.max(table(v))))
}

# ---- iris: half of the flowers classify the other half ----
set.seed(2)
train <- sample(nrow(iris), 75)
x <- scale(as.matrix(iris[, 1:4]))
D <- sqdist(Vi(x[-train, ]), Vj(x[train, ])) # 75 x 75, not stored
near <- argKmin(D, 5, "j")
found <- vote(near, as.character(iris$Species)[train])
accuracy <- mean(found == iris$Species[-train])
cat("iris: accuracy", format(accuracy, digits = 3), "\n")

# ---- two moons, 10,000 points ----
n <- 10000
side <- rep(0:1, each = n / 2)
angle <- runif(n, 0, pi)
moons <- cbind(cos(angle) + side, (1 - 2 * side) * sin(angle) + side / 2) + 0.2 * rnorm(2 * n)
held_out <- seq(1, n, by = 5)
near <- argKmin(sqdist(Vi(moons[held_out, ]), Vj(moons[-held_out, ])), 15, "j")
votes <- rowMeans(matrix(side[-held_out][near], nrow(near)))
moon_accuracy <- mean((votes > 0.5) == side[held_out])
cat("moons: accuracy", format(moon_accuracy, digits = 3), "\n")
stopifnot(accuracy > 0.9, moon_accuracy > 0.9)
