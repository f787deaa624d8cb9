/* modules.h - FLOPs and time by module: units of the model, and in each of them families of operations. */
#ifndef TRI_TRAIN_RECORD_MODULES_H
#define TRI_TRAIN_RECORD_MODULES_H

#include "base/json.h"
#include "model/model.h"

typedef struct tri_module_time {
    double flops, seconds;
} tri_module_time;

/* time [(n_units + 1) * TRI_OPS_COUNT] by unit of the whole model, the last for operations of no unit. */
typedef struct tri_modules {
    const tri_network *model;
    tri_module_time *time;
    int *unit_of;             /* [program's units + 1] the model's unit; n_units for none, which -1 + 1 stands for */
} tri_modules;

tri_status tri__modules_open(tri_modules *modules, const tri_network *model, const tri_program *program);
void tri__modules_close(tri_modules *modules);
void tri__modules_add(tri_modules *modules, const tri_instr *instr, double flops, double seconds);
/* The tree of train/record/profile.h: `time` as above, each divided by `n`; parameters of `held`, the whole model or a
 * rank's part of it. Units without parameters and time are left out. folded: all layers of a branch are one node,
 * `layers`. New reference. */
tri_json *tri__modules_json(const tri_network *model, const tri_network *held, const tri_module_time *time, double n,
                            int folded);

#endif
