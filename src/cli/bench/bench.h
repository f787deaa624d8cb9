/* bench.h - what `trident bench` measures: a row of the table in bench.c and a file each. */
#ifndef TRI_CLI_BENCH_BENCH_H
#define TRI_CLI_BENCH_BENCH_H

#include "cli/cli.h"

/* Options that only `trident bench` has. */
typedef struct tri_bench_options {
    tri_texts op, sizes, cases, schedules, layouts;
    int lab_model; /* index of its row's choices */
} tri_bench_options;

/* Starts ranks, or joins those that a launcher started, and times operations among them. */
tri_status tri__bench_comm(tri_cli *cli, tri_settings *settings, const tri_bench_options *options);
/* Trains a made-up model in every layout, one after another. */
tri_status tri__bench_lab(tri_cli *cli, tri_settings *settings, const tri_bench_options *options);
/* Takes steps of made-up models on one device. */
tri_status tri__bench_step(tri_cli *cli, tri_settings *settings, const tri_bench_options *options);
/* Trains a made-up model of two encoders in a pipeline, one schedule and shape after another. */
tri_status tri__bench_pipeline(tri_cli *cli, tri_settings *settings, const tri_bench_options *options);
/* Of n >= 1 numbers, which it sorts. */
double tri__bench_median(double *values, int64_t n);
/* Ranks to start here: as many as asked for, else one for each core, and two at least. */
tri_status tri__bench_ranks(tri_settings *settings, int *n);

#endif
