/* run.h - whole training runs, for the commands. */
#pragma once

#include "settings/settings.h"
#include "train/events.h"
#include "train/stop.h"

/* Trains as the settings say, as one rank of the world (NULL: alone): epochs, validation, checkpoints, summary. facts
 * of the END event: the summary. TRI_STOPPED when `stop` (may be NULL) ended it early, with a checkpoint. */
tri_status tri__run_train(const tri_settings *settings, tri_world *world, const tri_sink *sink, const tri_stop *stop);

/* The mesh of a run may change, its global batch does not: where the settings keep the samples a replica but change the
 * number of replicas, they get the global batch of the checkpoint that the run continues. A position table that was
 * extended stays so. */
tri_status tri__run_adopt(tri_settings *settings);

/* Fails with what training with these settings would refuse before its first step, as far as known without
 * tokenising, and from the first rows of tables for which `memory` bytes are enough. */
tri_status tri__run_rehearse(const tri_settings *settings, size_t memory);
