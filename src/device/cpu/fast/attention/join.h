/* join.h - attention to two sets of keys, of one query. */
#pragma once

#include <stdint.h>

/* ctx [d] and lse become those of both sets of keys. */
void tri__join_keys(float *restrict ctx, float *lse, const float *restrict more, float logs, int64_t d);
