/* run.h - whole training runs, as the commands ask for them. */
#ifndef TRI_TRAIN_RUN_H
#define TRI_TRAIN_RUN_H

#include "settings/settings.h"
#include "train/events.h"
#include "train/stop.h"

/* Trains as the settings say, as one rank of the world (NULL: alone): epochs, validation, checkpoints, summary. facts
 * of the END event: the summary. TRI_STOPPED when `stop` (NULL: nobody asks) ended it early, with a checkpoint. */
tri_status tri__run_train(const tri_settings *settings, tri_world *world, const tri_sink *sink, const tri_stop *stop);

/* What training with these settings would refuse before its first step, as far as that is known without tokenising. */
tri_status tri__run_rehearse(const tri_settings *settings);

#endif
