/* learning_rate.c - Hugging Face's linear schedule with warm-up. */
#include "settings/learning_rate.h"

double tri__learning_rate(double lr, int64_t warmup, int64_t steps, int64_t s) {
    if (s < warmup) return lr * (double)s / (double)(warmup > 1 ? warmup : 1);
    int64_t span = steps - warmup > 1 ? steps - warmup : 1, left = steps - s > 0 ? steps - s : 0;
    return lr * (double)left / (double)span;
}
