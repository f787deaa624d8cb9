/* bench.h - what `trident bench` measures: a row of the table in bench.c and a file each. */
#ifndef TRI_CLI_BENCH_H
#define TRI_CLI_BENCH_H

#include "cli/cli.h"

/* Starts ranks, or joins those that a launcher started, and times operations among them. */
tri_status tri__bench_comm(tri_cli *cli, tri_settings *settings);

#endif
