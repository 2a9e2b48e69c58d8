/* Sizes that fit a pair program and its numbers of rows and items to a GPU; the only place to tune. */
#ifndef KE_SHAPE_CUDA_H
#define KE_SHAPE_CUDA_H

#include "dots_cuda.h"
#include "tensor_cuda.h"

#include <stdbool.h>

typedef struct {
  int real_bytes;
  int across;     /* RT: threads across rows */
  int lanes;      /* S: threads that share a row's items; RT * S threads a block */
  int rows;       /* R: rows of a thread */
  int step;       /* JR: items computed together */
  int steps;      /* UN: steps written out */
  int tile;       /* T: items of a tile */
  int item;       /* RWP: reals of an item, padded to 16 bytes */
  int min_blocks; /* that a multiprocessor should hold */
  int unroll;     /* most trips of a fold that are written out */
  int narrow;     /* most components of a reduction that stay in registers */
  bool kept_here; /* kept components lie in registers; else they are read where they are used */
  bool item_here; /* an item's components too */
  bool once_here; /* once[] is an argument; else it is read from memory */
  bool shared;    /* tiles are copied to shared memory */
  int stride;     /* STRIDE: reals between items there */
  int slots;      /* threads that share a row's items and have sums of their own */
  ke_tensor_kind tensor; /* what tensor cores do */
  bool scaled; /* the root of a scale below 0 goes into components (ke_scale_match) */
  int terms;     /* of a component on tensor cores (dots_cuda.h); 0: the pass as it is */
  bool resident; /* the rows' terms stay in shared memory */
  int dynamic;   /* bytes of shared memory that a launch asks for */
} ke_cuda_tiling;

enum { KE_CUDA_MOST_SHARED = 100 << 10 }; /* bytes of shared memory, at most, that kernels on tensor cores ask for */

enum { KE_CUDA_MOST_ONCE = 64 }; /* values of once[] that can be an argument */

/* `once`: real once[], NULL: not known yet. `arch`: 90 for compute capability 9.0; `accurate`: nothing approximate. */
void ke_cuda_tiling_choose(const ke_pass *pass, int real_bytes, int arch, bool accurate, const void *once,
                           int64_t nkept, int64_t nred, ke_cuda_tiling *out);
/* Are a row's accumulators too many for registers? */
bool ke_cuda_wide(const ke_cuda_tiling *tiling, const ke_reduce *r);
/* Products on tensor cores. */
void ke_cuda_tiling_dots(const ke_pass *pass, const ke_dots *dots, int terms, ke_cuda_tiling *out);
bool ke_cuda_tiling_same(const ke_cuda_tiling *a, const ke_cuda_tiling *b);

#endif
