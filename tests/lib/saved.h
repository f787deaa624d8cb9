/* saved.h - a checkpoint of one rank. */
#ifndef TRI_TESTS_LIB_SAVED_H
#define TRI_TESTS_LIB_SAVED_H

#include "checkpoint/checkpoint.h"

static inline tri_status save_checkpoint(const tri_checkpoint_out *out) {
    char made[TRI_PATH_MAX];
    tri_json *part = NULL;
    TRI_TRY(tri__checkpoint_begin(out, made));
    tri_status status = tri__checkpoint_write(out, made, 0, &part);
    if (status == TRI_OK) status = tri__checkpoint_end(out, made, part);
    tri__json_decref(part);
    if (status != TRI_OK) tri__checkpoint_drop(made);
    return status;
}

#endif
