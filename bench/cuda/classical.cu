// The classical kernel, for comparison: one row a thread, tiles of 192 items in shared memory, expf. The scheme
// that KeOps generates. Row-major data: x[M][D], y[N][D], b[N][E]. Compiled with -DD= -DE= -DREAL= -DKIND=.
#define TILE 192
// items of a tile: fewer where they would not fit 48 KB
#define ITEMS (TILE * (D + E) * sizeof(REAL) <= 48000 ? TILE : int(48000 / ((D + E) * sizeof(REAL))))
#define GAUSS 0
#define GRADIENT 1
#define LOGSUMEXP 2
#define ARGMIN 3
#define LAPLACE 4

extern "C" __global__ void classical(int M, int N, const REAL *x, const REAL *y, const REAL *b, REAL g, REAL *out)
{
  __shared__ REAL tile[ITEMS * (D + E)];
  const int i = blockIdx.x * TILE + threadIdx.x;
  REAL xi[D], sum[KIND == GRADIENT ? D : E], largest = -INFINITY, total = 0, best = INFINITY;
  int where = -1;

  for (int k = 0; k < D; k++) xi[k] = i < M ? x[(long long)i * D + k] : REAL(0);
  for (int k = 0; k < (KIND == GRADIENT ? D : E); k++) sum[k] = 0;
  for (int j0 = 0; j0 < N; j0 += ITEMS) {
    const int j = j0 + threadIdx.x, n = N - j0 < ITEMS ? N - j0 : ITEMS;

    __syncthreads();
    if (threadIdx.x < n) {
      for (int k = 0; k < D; k++) tile[threadIdx.x * (D + E) + k] = y[(long long)j * D + k];
      for (int k = 0; k < E; k++) tile[threadIdx.x * (D + E) + D + k] = b[(long long)j * E + k];
    }
    __syncthreads();
    if (i >= M) continue;
    for (int t = 0; t < n; t++) {
      const REAL *yj = tile + t * (D + E), *bj = yj + D;
      REAL s = 0;

      for (int k = 0; k < D; k++) {
        const REAL d = xi[k] - yj[k];
        s += d * d;
      }
      if (KIND == GAUSS || KIND == LAPLACE) {
        const REAL p = exp(-g * (KIND == LAPLACE ? sqrt(s) : s));
        for (int k = 0; k < E; k++) sum[k] += p * bj[k];
      } else if (KIND == GRADIENT) {
        const REAL p = -2 * g * exp(-g * s) * bj[0];
        for (int k = 0; k < D; k++) sum[k] += p * (xi[k] - yj[k]);
      } else if (KIND == LOGSUMEXP) {
        const REAL f = -g * s;
        if (f > largest) {
          total = total * exp(largest - f) + 1;
          largest = f;
        } else {
          total += exp(f - largest);
        }
      } else if (s < best) {
        best = s;
        where = j0 + t;
      }
    }
  }
  if (i >= M) return;
  if (KIND == LOGSUMEXP)
    out[i] = largest + log(total);
  else if (KIND == ARGMIN)
    out[i] = where;
  else
    for (int k = 0; k < (KIND == GRADIENT ? D : E); k++) out[(long long)i * (KIND == GRADIENT ? D : E) + k] = sum[k];
}
