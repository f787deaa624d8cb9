/* staging.h - how a run's pipeline is laid out: from options to stages, and the words for it. */
#ifndef TRI_TRAIN_STAGING_H
#define TRI_TRAIN_STAGING_H

#include "base/log.h"
#include "plan/stage.h"
#include "train/settings.h"

/* Fills in->staging and in->sequence_parallel, all else of `in` is there: reads --stage-profile, and for --pipeline-shape auto takes the
 * shape whose step is shorter. The same on every rank. */
tri_status tri__staging_settle(const tri_settings *settings, tri_arena *arena, tri_plan_in *in);

/* The step of a plan's pipeline on ideal wires, from the costs that its cut was made by. In the arena. */
typedef struct tri_staged {
    tri_stages stages;
    tri_dry dry;
    double bubble;
} tri_staged;
tri_status tri__staging_dry(tri_arena *arena, const tri_plan_in *in, tri_staged *out);

/* Says shape, stages and the share of the step that ranks wait; a warning where few microbatches make it large. One rank: nothing. */
tri_status tri__staging_say(const tri_settings *settings, const tri_plan_in *in, const tri_log *log);

/* The units of a stage as --stages writes them: "primary.embeddings primary.layer.0-5". In the arena. */
char *tri__stage_text(tri_arena *arena, const tri_model *model, const tri_stages *stages, int stage);
const char *tri__shape_name(tri_shape_kind shape);

#endif
