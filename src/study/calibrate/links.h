/* links.h - measures transfers between ranks. */
#ifndef TRI_STUDY_CALIBRATE_LINKS_H
#define TRI_STUDY_CALIBRATE_LINKS_H

#include "sim/hardware.h"
#include "trident_comm.h"

/* Sets link, near, far and node_bytes, within about `seconds`. Inside a node: groups of 2, 4, ... up to `ranks` threads
 * of this process, which move data as processes do. Between nodes: if `world`, which mpirun or srun started, spans
 * several; NULL: this process is alone. All ranks of the world call it; only rank 0's *out is set. */
tri_status tri__calibrate_links(tri_arena *arena, tri_world *world, int ranks, double seconds, tri_hardware *out);

#endif
