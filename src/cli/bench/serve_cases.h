/* serve_cases.h - the models and batches of `trident bench serve`: MODEL:ROWSxTOKENS, e.g. minilm:32x128, or
 * MODEL:ROWSxmixed, where every row has its own lengths. bench/serve.py has the same cases. */
#pragma once

#include "cli/bench/models.h"
#include "data/dataset/loader.h"

typedef struct tri_serve_case {
    const char *name;              /* as given */
    const tri_bench_model *model;
    int64_t rows, tokens;          /* of a batch; of each text, 0: as in `lengths` */
    int64_t batches;
    tri_micro *batch;              /* [batches] */
    int32_t *memory;               /* that of the batches */
} tri_serve_case;

enum { TRI_SERVE_TOKENS = 512, TRI_SERVE_COLUMNS = 3 }; /* the longest text; numbers of a row */

/* lengths: a file of a row's token counts a line, one number for each text, for mixed cases; NULL: made ones, with a
 * mean of 27 % of the longest text. TRI_USAGE with what there is, TRI_DATA for a bad line. */
tri_status tri__serve_case_open(const char *name, const char *lengths, tri_serve_case *out);
void tri__serve_case_close(tri_serve_case *at);
