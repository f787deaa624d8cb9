/* average.c - averaged weights: what each step adds to them (plan/average.c).
 *
 * ema:d    after update t, counted from 1: average = d_t * average + (1 - d_t) * weights with d_t = min(d, (1 + t) /
 *          (10 + t)), as in TensorFlow and timm: the first averages are of few steps, so that the initial weights are
 *          soon forgotten. Steps that fp16 skips count as none.
 * last:N   the mean of the weights at the ends of the last N epochs, the run's end among them. Up to the first of these
 *          the average is the weights themselves, between two of them it stays. */
#include "train/session.h"

static tri_average_form form_of(const tri_session *s) {
    tri_average_form form;
    (void)tri__average_parse(s->settings->average_weights, &form); /* checked when it was given */
    return form;
}

/* Of the step that is taken next: its epoch, counted from 1; whether it is the epoch's last. */
static int64_t epoch_of(const tri_session *s) { return s->at.step / s->batches + 1; }
static int ends_epoch(const tri_session *s) { return (s->at.step + 1) % s->batches == 0 || s->at.step + 1 == s->steps; }

/* Ends of epochs in the average before this step; a run that had ended and goes on begins again. */
static int64_t averaged_before(const tri_session *s, const tri_average_form *form) {
    return epoch_of(s) > s->epochs - form->epochs ? s->at.averaged : 0;
}

double tri__ema_step(double decay, int64_t n) { return 1 - fmin(decay, (double)(1 + n) / (double)(10 + n)); }

double tri__session_average(const tri_session *s) {
    tri_average_form form = form_of(s);
    if (form.epochs) {
        int64_t before = averaged_before(s, &form);
        return !before ? 1 : ends_epoch(s) ? 1 / (double)(before + 1) : 0;
    }
    return form.decay > 0 ? tri__ema_step(form.decay, s->at.step + 1 - s->at.skipped) : 0;
}

void tri__session_average_taken(tri_session *s) {
    tri_average_form form = form_of(s);
    if (!form.epochs) return;
    s->at.averaged = averaged_before(s, &form) + (epoch_of(s) > s->epochs - form.epochs && ends_epoch(s));
}

tri_status tri__session_average_fits(const tri_session *s) {
    tri_average_form form = form_of(s);
    if (form.epochs <= s->epochs) return TRI_OK;
    return tri__fail(TRI_USAGE,
                     "--average-weights last:%lld: the run has %lld epoch%s: give last:%lld, or a longer run "
                     "(--epochs, --max-steps)",
                     (long long)form.epochs, (long long)s->epochs, s->epochs == 1 ? "" : "s", (long long)s->epochs);
}
