/* attention_tiles.cuh - operands of the tensor core kernels of attention where a tile of 64 rows meets other rows
 * (attention_rows.cuh): all of its sequence, or those of a list, in block-sparse attention (layout/blocks.h) and in
 * parts of a ring (layout/runs.h). */
#ifndef TRI_DEVICE_CUDA_ATTENTION_ATTENTION_TILES_CUH
#define TRI_DEVICE_CUDA_ATTENTION_ATTENTION_TILES_CUH

#include "device/cuda/attention/attention.cuh"
#include "layout/blocks.h"
#include "layout/runs.h"

enum {
    TILE = 64,
    NO_WINDOW = 1 << 28, /* tokens: further than any key */
};

typedef struct tile_args {
    attention_args a;
    const void *kv;        /* keys, from the first one's column on; values are heads * width columns further */
    void *dkv;             /* their gradients, likewise */
    int64_t kv_stride;     /* columns of a row of kv and dkv */
    const int32_t *blocks; /* NULL: all */
    int block;             /* tokens */
    int window;            /* a query's furthest key, in tokens; NO_WINDOW: any */
    int ring, run, part;   /* layout/runs.h: queries are of `run`, keys of `part`; ring 0: all rows are here */
    int add_kv;            /* dkv is added to */
} tile_args;

static inline int window_of(const tri_call *call) { return call->attr->window ? call->attr->window : NO_WINDOW; }

/* Keys and values in qkv. */
template <typename T> static inline void set_keys(tile_args *t) {
    int64_t H = (int64_t)t->a.heads * t->a.width;
    t->kv = (const T *)t->a.qkv + H, t->kv_stride = 3 * H;
    if (t->a.dqkv) t->dkv = (T *)t->a.dqkv + H, t->add_kv = t->a.add;
}

/* attention_tiles.cu, attention_tiles_din.cu: 0 if they do not support this call or device. The gradient has scratch
 * space for statistics. */
int tri__cuda_tiles(const tri_call *call, const tile_args *args, int dtype);
int tri__cuda_tiles_din(const tri_call *call, const tile_args *args, int dtype);
/* Scratch of the gradient: two floats for each row and head of at least 8 columns; bytes per 16-bit element of dqkv. */
#define TILES_WORK {0, 0, 0, 1, 0}

/* Whether the kernels support a call: also rows of kv in 16-byte pieces, and warps within blocks. */
static inline int tiles_fit(const tri_call *call, const tile_args *t, int dtype) {
    return flash_fits(call, &t->a, dtype) && aligned(t->kv) && aligned(t->dkv) && t->kv_stride % WIDE == 0 &&
           (!t->blocks || t->block == 16 || t->block == 32 || t->block == 64);
}
static inline unsigned tile_blocks(const tile_args *t) {
    return tiles_for<TILE>(t->a.rows, t->a.n) * (unsigned)t->a.heads;
}

#endif
