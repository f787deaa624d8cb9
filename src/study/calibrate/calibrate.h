/* calibrate.h - measures this machine: its kernels, by running programs of small models; the host's side of a step;
 * transfers between ranks. */
#pragma once

#include "base/log.h"
#include "device/device.h"
#include "sim/hardware.h"

typedef struct tri_calibration {
    const tri_device *device;
    int cores;             /* that ranks share; 0: the device is asynchronous, and one rank has it alone */
    double seconds;        /* that measuring may take, about */
    const tri_log *log;    /* progress */
    const tri_stop *stop;  /* NULL: nobody asks */
} tri_calibration;

/* Sets the device's name, target, cores, curves of kernels, rates and peaks; in the arena. Models of several widths,
 * numbers of tokens and lengths train for a few steps, and the instructions of their programs are timed; on a CPU by
 * ranks of 1, 2, 4, ... threads that use all cores together. Where time is short, large models are left out. */
tri_status tri__calibrate_kernels(const tri_calibration *calibration, tri_arena *arena, tri_hardware *out);
/* Sets copy (memory to memory, as a CPU's inputs are copied) and the loader's host.row and host.token. */
tri_status tri__calibrate_host(tri_hardware *out);
/* Sets link, near, far and node_bytes, within about `seconds`. Inside a node: groups of 2, 4, ... up to `ranks` threads
 * of this process, which move data as processes do. Between nodes: if `world`, which mpirun or srun started, spans
 * several; NULL: this process is alone. All ranks of the world call it; only rank 0's *out is set. */
tri_status tri__calibrate_links(tri_arena *arena, tri_world *world, int ranks, double seconds, tri_hardware *out);
