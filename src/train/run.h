/* run.h - whole training runs, as the commands ask for them. */
#ifndef TRI_TRAIN_RUN_H
#define TRI_TRAIN_RUN_H

#include "settings/settings.h"
#include "train/events.h"
#include "train/stop.h"

/* Trains as the settings say, as one rank of the world (NULL: alone): epochs, validation, checkpoints, summary. facts
 * of the END event: the summary. TRI_STOPPED when `stop` (NULL: nobody asks) ended it early, with a checkpoint. */
tri_status tri__run_train(const tri_settings *settings, tri_world *world, const tri_sink *sink, const tri_stop *stop);

/* The mesh of a run may change, its batch does not: where the settings ask for the same samples on each of another
 * number of replicas, they get the global batch of the checkpoint that the run will continue. */
tri_status tri__run_adopt(tri_settings *settings);

/* What training with these settings would refuse before its first step, as far as that is known without tokenising. */
tri_status tri__run_rehearse(const tri_settings *settings);

#endif
