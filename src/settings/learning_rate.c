/* learning_rate.c - transformers' get_scheduler: linear warm-up, then linear, cosine (half a wave), constant or
 * polynomial, which ends at 0 here. */
#include "settings/learning_rate.h"

#include <math.h>

int64_t tri__warmup_steps(const tri_settings *s, int64_t steps) {
    return s->warmup_steps ? s->warmup_steps : (int64_t)ceil((double)steps * s->warmup_ratio);
}

tri_rates tri__rates(const tri_settings *s, int64_t steps) {
    return (tri_rates){.schedule = (tri_lr_schedule)s->lr_schedule, .lr = s->lr, .power = s->lr_power,
                       .warmup = tri__warmup_steps(s, steps), .steps = steps};
}

double tri__learning_rate(const tri_rates *r, int64_t s) {
    if (s < r->warmup) return r->lr * (double)s / (double)(r->warmup > 1 ? r->warmup : 1);
    int64_t span = r->steps - r->warmup > 1 ? r->steps - r->warmup : 1, left = r->steps - s > 0 ? r->steps - s : 0;
    double share = (double)left / (double)span;
    switch (r->schedule) {
    case TRI_LR_LINEAR: break;
    case TRI_LR_COSINE: return r->lr * 0.5 * (1 - cos(M_PI * share));
    case TRI_LR_CONSTANT: return r->lr;
    case TRI_LR_POLYNOMIAL: return r->lr * pow(share, r->power);
    }
    return r->lr * (double)left / (double)span;
}
