/* staging.h - how a run's pipeline is laid out: from options to stages, how long a step takes, and the words for it. */
#ifndef TRI_ENGINE_STAGING_H
#define TRI_ENGINE_STAGING_H

#include "base/log.h"
#include "comm/world/world.h"
#include "plan/pipeline/stage.h"
#include "sim/timeline.h"
#include "settings/settings.h"

/* Fills in->staging and in->sequence_parallel, all else of `in` is there: reads --stage-profile, and for
 * --pipeline-shape auto takes the shape whose step is shorter. Every rank of a world calls it: the first one chooses
 * for all. world NULL: this one. */
tri_status tri__staging_resolve(const tri_settings *settings, tri_arena *arena, tri_world *world, tri_plan_in *in);

/* A step of the plan of `in`, all ranks of it, simulated; by measured times where in->staging has them. train: the
 * plan's programs, checked; NULL: they are planned for this. */
typedef struct tri_staged {
    double seconds;     /* of the step */
    double bubble;      /* predicted: the share of all ranks' time in which nothing is computed (tri__timeline_idle) */
} tri_staged;
tri_status tri__staging_time(tri_arena *arena, const tri_plan_in *in, const tri_classes *train,
                             const tri_hardware *hardware, tri_staged *out);
/* What announcements and reports simulate on: --hardware (left out: "cpu"), with machines of --nproc-per-node ranks. */
tri_status tri__staging_hardware(const tri_settings *settings, tri_hardware *out);

/* What a step of `in` costs: measured times where in->staging has them, else as the hardware says. In the arena. */
tri_costs tri__staging_costs(tri_arena *arena, const tri_plan_in *in, const tri_hardware *hardware);

/* Says shape, stages and the predicted bubble of the plan whose programs are `train`; a warning where few microbatches
 * make it large. One rank: nothing. */
tri_status tri__staging_say(const tri_settings *settings, const tri_plan_in *in, const tri_classes *train,
                            const tri_log *log);

/* The units of a stage as --stages writes them: "primary.embeddings primary.layer.0-5". In the arena. */
char *tri__stage_text(tri_arena *arena, const tri_model *model, const tri_stages *stages, int stage);
/* The ranks that hold a stage: "4-7", "0,4,8"; those in between left out where there are many runs of them:
 * "0,4,...,16380". In the arena. */
const char *tri__stage_ranks(tri_arena *arena, const tri_mesh *mesh, const tri_stages *stages, int stage);
const char *tri__shape_name(tri_shape_kind shape);

#endif
