/* context_form.h - how ranks that share tokens attend to all of them: a ring of keys and values, or an exchange of
 * tokens for heads; and why. */
#pragma once

#include "plan/plan.h"
#include "settings/settings.h"

typedef enum tri_context_reason {
    TRI_CONTEXT_ASKED,   /* --cp-mode names it */
    TRI_CONTEXT_ONLY,    /* the other form cannot be planned */
    TRI_CONTEXT_FASTER   /* by the simulated step of both */
} tri_context_reason;

typedef struct tri_context_form {
    int ring;
    tri_context_reason why;
    double seconds[2];   /* FASTER: of a microbatch's step, by exchange of heads and by a ring */
    double sent[2];      /* FASTER: bytes that a rank sends in it, likewise */
} tri_context_form;

/* For in->mesh.cp > 1; in->ring is ignored. Forms are compared on --hardware or the device's built-in one, never on a
 * calibrated machine: the form decides bits, so that a run and its resumption have to agree on it. */
tri_status tri__context_choose(const tri_settings *settings, const tri_plan_in *in, tri_context_form *out);
/* Logs the form of ranks that share tokens, and its reason. Nothing without context parallelism. */
void tri__context_say(const tri_context_form *form, const tri_plan_in *in, const tri_log *log);
/* The same as an object; NULL without context parallelism. */
tri_status tri__context_json(const tri_context_form *form, const tri_plan_in *in, tri_json **out);
