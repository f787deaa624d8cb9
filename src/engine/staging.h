/* staging.h - a run's pipeline: from options to stages, the predicted time of a step, and messages about both. */
#pragma once

#include "comm/world/world.h"
#include "engine/context_form.h"
#include "plan/pipeline/stage.h"
#include "sim/timeline.h"

/* Fills in->staging, in->sequence_parallel and in->ring; the rest of `in` is set already. Reads --stage-profile, and
 * for --pipeline-shape auto and --cp-mode auto chooses what has the shorter step. Every rank of a world calls it: the
 * first one chooses for all, and only its *form says why. world NULL: one rank. */
tri_status tri__staging_resolve(const tri_settings *settings, tri_arena *arena, tri_world *world, tri_plan_in *in,
                                tri_context_form *form);

/* The simulated step of all ranks of the plan of `in`, with measured times where in->staging has them. train: the
 * plan's programs, checked; NULL: they are planned here. */
typedef struct tri_staged {
    double seconds;     /* of the step */
    double bubble;      /* predicted: the share of all ranks' time in which nothing is computed (tri__timeline_idle) */
} tri_staged;
tri_status tri__staging_time(tri_arena *arena, const tri_plan_in *in, const tri_classes *train,
                             const tri_hardware *hardware, tri_staged *out);
/* The hardware to simulate: --hardware or, without it, what `trident calibrate` measured here, or the built-in one of
 * the device; with machines of --nproc-per-node ranks. */
tri_status tri__staging_hardware(const tri_settings *settings, tri_arena *arena, tri_hardware *out);

/* The costs of a step of `in`: measured times where in->staging has them, else the hardware's. In the arena. */
tri_costs tri__staging_costs(tri_arena *arena, const tri_plan_in *in, const tri_hardware *hardware);

/* Logs shape, stages and the predicted bubble of the plan with programs `train`, and a warning where few microbatches
 * make it large. Nothing for pp 1. known: it was simulated already; NULL: it is here. */
tri_status tri__staging_say(const tri_settings *settings, const tri_plan_in *in, const tri_classes *train,
                            const tri_staged *known, const tri_log *log);

/* The units of a stage as --stages writes them: "primary.embeddings primary.layer.0-5". In the arena. */
char *tri__stage_text(tri_arena *arena, const tri_network *model, const tri_stages *stages, int stage);
tri_texts tri__stage_texts(tri_arena *arena, const tri_network *model, const tri_stages *stages); /* of all stages */
/* The ranks that hold a stage: "4-7", "0,4,8"; many runs are shortened: "0,4,...,16380". In the arena. */
const char *tri__stage_ranks(tri_arena *arena, const tri_mesh *mesh, const tri_stages *stages, int stage);
const char *tri__shape_name(tri_shape_kind shape);
