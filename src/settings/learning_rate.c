/* learning_rate.c - the learning rate of a step: linear warm-up, then a row of learning_rates.def. */
#include "settings/settings.h"

int64_t tri__warmup_steps(const tri_settings *s, int64_t steps) {
    return s->warmup_steps ? s->warmup_steps : (int64_t)ceil((double)steps * s->warmup_ratio);
}

tri_rates tri__rates(const tri_settings *s, int64_t steps) {
    return (tri_rates){.schedule = (tri_lr_schedule)s->lr_schedule, .lr = s->lr, .power = s->lr_power,
                       .warmup = tri__warmup_steps(s, steps), .steps = steps};
}

double tri__learning_rate(const tri_rates *r, int64_t s) {
    if (s < r->warmup) return r->lr * (double)s / (double)(r->warmup > 1 ? r->warmup : 1);
    const double span = r->steps - r->warmup > 1 ? (double)(r->steps - r->warmup) : 1,
                 left = r->steps - s > 0 ? (double)(r->steps - s) : 0, share = left / span, lr = r->lr,
                 power = r->power;
    switch (r->schedule) {
#define TRI_RATE(id, word, falls, formula) case TRI_LR_##id: return formula;
#include "settings/learning_rates.def"
    }
    return lr;
}

int tri__rate_falls(tri_lr_schedule schedule) {
    static const char falls_to_0[] = {
#define TRI_RATE(id, word, falls, formula) falls,
#include "settings/learning_rates.def"
    };
    return falls_to_0[schedule];
}
