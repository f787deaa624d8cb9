/* bench.h - the benchmarks of `trident bench`, each a file and a row of the table in bench.c. */
#pragma once

#include "cli/cli.h"

/* Options that only `trident bench` has. */
typedef struct tri_bench_options {
    tri_texts op, sizes, cases, schedules, layouts;
    int lab_model; /* index into its option's choices */
    char *lengths; /* a file; NULL: none */
    char *http;    /* a run, or the address of a server; NULL: the program alone */
    int64_t clients, requests;
    double rate, seconds;
} tri_bench_options;

/* Starts ranks, or joins those that a launcher started, and times collectives between them. */
tri_status tri__bench_comm(tri_cli *cli, tri_settings *settings, const tri_bench_options *options);
/* Trains a synthetic model in every layout, one after another. */
tri_status tri__bench_lab(tri_cli *cli, tri_settings *settings, const tri_bench_options *options);
/* Times training steps of synthetic models on one device. */
tri_status tri__bench_step(tri_cli *cli, tri_settings *settings, const tri_bench_options *options);
/* Trains a synthetic model of two encoders in a pipeline, one schedule and shape after another. */
tri_status tri__bench_pipeline(tri_cli *cli, tri_settings *settings, const tri_bench_options *options);
/* Times the forward-only program of synthetic models on one device. */
tri_status tri__bench_serve(tri_cli *cli, tri_settings *settings, const tri_bench_options *options);
/* Times what surrounds that program, for the rows of a table: opening settings->checkpoint, encoding, batching,
 * answering, on a device that computes nothing. */
tri_status tri__bench_host(tri_cli *cli, tri_settings *settings);
/* The same over loopback: a server in this process, or one that runs, under load. Called by tri__bench_serve. */
tri_status tri__bench_serve_http(tri_cli *cli, tri_settings *settings, const tri_bench_options *options);
/* Milliseconds by operation, of those that took any; by_op [TRI_VARIANTS], in seconds. New reference. */
tri_json *tri__bench_operations(const double *by_op);
/* The median of n >= 1 numbers; sorts them in place. */
double tri__bench_median(double *values, int64_t n);
/* CPU seconds of this process, or of this thread. */
double tri__bench_cpu(int of_thread);
/* Which of n names are asked for, by themselves or by "all", in chosen [n]. Returns the first that is none of them;
 * NULL: there is no such. */
const char *tri__bench_names(const tri_texts *asked, int n, const char *(*name)(int i), int *chosen);
/* For a benchmark that trains: TRI_USAGE under a launcher, since it starts ranks itself, one `what` after another. */
tri_status tri__bench_alone(tri_cli *cli, tri_settings *settings, const char *bench, const char *what);
/* Steps of a run: --max-steps, else warmup + timed; more than warmup. */
tri_status tri__bench_steps(const tri_settings *settings, int warmup, int timed, int64_t *steps);
/* A result as a line of JSON, at once; takes the reference. */
tri_status tri__bench_json(const tri_cli *cli, tri_json *result);
/* Ranks to start on this machine: as requested, else one per core, but at least two. */
tri_status tri__bench_ranks(tri_settings *settings, int *n);
