/* foreign_rows.h - short forms of rows of other programs' options and keys (foreign.h). */
#pragma once

#include "settings/foreign.h"

/* Mapped to an option of ours: with the same value; or one value to another. */
#define SAME(name_, option_) {.name = name_, .option = option_}
#define TAKE(name_, value_, option_, to_) {.name = name_, .value = value_, .option = option_, .to = to_}
#define HELD(name_, value_, words_) {.name = name_, .value = value_, .held = 1, .words = words_}
#define NOT(name_, value_, words_) {.name = name_, .value = value_, .words = words_}
/* One value is the case here, others are refused. */
#define ONLY(name_, value_, held_, refused_) HELD(name_, value_, held_), NOT(name_, NULL, refused_)
/* As TAKE, beside what other rows of the name say; and said more exactly than by another key of the file. */
#define ALSO(name_, value_, option_, to_) {.name = name_, .value = value_, .option = option_, .to = to_, .more = 1}
#define REFINE(name_, value_, option_, to_) {.name = name_, .value = value_, .option = option_, .to = to_, .refines = 1}
/* Changes nothing, and nothing is said: a default that is written out. */
#define QUIET(name_, value_) {.name = name_, .value = value_, .held = 1}
/* A switch: on, it sets an option; off, it does nothing. */
#define SWITCH(name_, option_, to_) TAKE(name_, "true", option_, to_), HELD(name_, "false", "off changes nothing")

#define ENCODER "an encoder's architecture is its config.json, or the key primary_encoder of the configuration file: " \
                "--primary-tokenizer names the folder"
#define SCHEDULE \
    "the learning rate rises for --warmup-steps, then follows --lr-schedule linear, cosine, constant or polynomial"
#define PLANNED "a step is planned before it runs: there is nothing to compile"
#define VALIDATED "validation takes place at each epoch's end, on the validation table of --data-path"
#define LOSS_SCALE "with --precision fp16 the loss scale follows the gradients"
#define ANY_MESH "ranks save their shares, which any mesh reads; trident export writes whole tensors"
#define OFFLOADED "--offload keeps it in the host's memory (of a GPU), or in a file of the run folder"
#define FIGURES "TensorBoard's files and metrics.jsonl are in the run folder"
