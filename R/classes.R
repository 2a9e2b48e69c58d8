# Classes that S4 generics of base and methods dispatch on. The objects are S3 lists with the S4 bit: without
# it `%*%` does not dispatch before R 4.3. Declared before the methods of the lazy-*.R files.

#' @importFrom methods setOldClass setMethod show
NULL

setOldClass(c("keops_lazyproduct", "keops_lazytensor"))
