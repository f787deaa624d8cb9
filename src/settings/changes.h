/* changes.h - what may differ between a run and its continuation. */
#pragma once

#include "base/log.h"
#include "settings/settings.h"

/* Compares the configuration of a checkpoint with that of the run that is to continue it, both as recorded: logs every
 * difference, and refuses (TRI_USAGE, naming all) those that change the run's numbers by more than rounding, unless
 * --allow-change names them. `data`: 1 when the training data differs; batch: samples of a step, then and now; step:
 * steps taken; batches: of an epoch. path: the checkpoint, for messages. A finished run may get more epochs or
 * max_steps; the effect on its learning rate is logged. */
typedef struct tri_changes {
    const tri_json *was, *now;
    int data;
    int64_t batch_was, batch_now, step, batches;
    const char *path;
} tri_changes;
tri_status tri__changes_check(const tri_changes *changes, const tri_texts *allowed, const tri_log *log);
/* Checks the names of --allow-change where there is no checkpoint to compare with: TRI_USAGE when one is not an
 * option. */
tri_status tri__changes_check_names(const tri_texts *allowed);
