/* rope.h - rotary positions (Su et al., 2021): the angle by which a position turns a pair of columns. Rounded to fp32
 * where transformers rounds: at position 8,191 an angle differs by as much as 5e-4 otherwise. */
#pragma once

#include "base/kernel_function.h"

#include <math.h>
#include <stdint.h>

/* The angle of one position for columns j and j + d / 2 of a head of d columns. */
TRI_KERNEL_FUNCTION float tri__rope_turn(float theta, int64_t j, int64_t d) {
    float power = (float)(2 * j) / (float)d;
    return 1.0f / (float)pow((double)theta, (double)power);
}

TRI_KERNEL_FUNCTION float tri__rope_angle(int32_t pos, float turn) { return (float)pos * turn; }
