#' keops: kernel reductions on large data without storing the matrix
#'
#' A formula of two point clouds, such as `"Sum_Reduction(Exp(-g * SqDist(x, y)) * b, 1)"`, becomes an R
#' function of ordinary matrices: [keops_kernel()]. It runs over all pairs of points on all cores and never
#' stores the matrix of pairs. [keops_grad()] differentiates it, to any order. [keops_options()] holds the
#' settings, [keops_info()] says what was found on this machine, [keops_cache_info()] where compiled kernels
#' are kept.
#'
#' @references
#' Charlier, B., Feydy, J., Glaunès, J. A., Collin, F.-D., Durif, G. (2021). Kernel operations on the GPU,
#' with autodiff, without memory overflows. *Journal of Machine Learning Research*, 22(74), 1-6.
#'
#' @importFrom stats coef fitted logLik nobs predict residuals vcov
#' @keywords internal
"_PACKAGE"
