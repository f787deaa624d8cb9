/* act_product.cuh - linear_din with an activation, in one kernel. */
#pragma once

#include "device/cuda/elementwise/columns.cuh"

enum {
    PART_SUMS = 3,
    MOST_PARTS = PART_SUMS * COLUMN_SMS * COLUMN_EACH
}; /* in COLUMN_WORK(PART_SUMS) bytes of scratch */

/* 0: nothing was done, since shapes, types or the GPU are not supported. */
int act_din_product(const tri_call *call);
