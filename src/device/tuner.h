/* tuner.h - choosing algorithms by timing them, before a run's first step. Errors are reported by the next `finish`. */
#pragma once

#include "device/kernel.h"
#include "device/wisdom.h"

typedef struct tri_tuner {
    /* What choices are valid for: the device and its library. */
    const char *(*kind)(void *context);
    /* Times those of a call's products that are not in the wisdom and adds the fastest; does nothing for calls without
     * products. Uses the call's operands, which are zero before and after. `row` is the call's row. */
    void (*tune)(void *context, const tri_call *call, tri_kernel *row, tri_wisdom *wisdom);
    /* Copies the wisdom: products use it from now on. */
    void (*follow)(void *context, const tri_wisdom *wisdom);
} tri_tuner;
