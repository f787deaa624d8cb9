/* hardware.h - a machine as the simulator sees it: rates of one rank's device and of the links between ranks. A named
 * row of a table, or a JSON file. docs/guide/simulating.md */
#ifndef TRI_SIM_HARDWARE_H
#define TRI_SIM_HARDWARE_H

#include "base/json.h"
#include "layout/dtype.h"

typedef struct tri_wire {
    double latency;    /* seconds before the first byte arrives */
    double bytes;      /* a second, of one rank, in one direction */
} tri_wire;

typedef struct tri_hardware {
    char name[64];
    double f32, half;      /* floating point operations a second of large products; in fp32, with 16 bits */
    double attention;      /* the share of them that attention reaches */
    double bytes;          /* of the device's memory, a second, read and written */
    double copy;           /* bytes a second from the host to the device */
    double launch;         /* seconds that each operation takes at least */
    int ranks_per_node;
    tri_wire near, far;    /* between ranks of a node, between nodes */
    int overlap;           /* 1: transfers overlap with computing; 0: ranks move data themselves, in waits */
} tri_hardware;

/* `text`: a row's name, or the path of a JSON file. TRI_USAGE when it is neither, or a value is invalid. */
tri_status tri__hardware_find(const char *text, tri_hardware *out);
const char *tri__hardware_names(void); /* "h200x8, a100x8, cpu" */
tri_json *tri__hardware_json(const tri_hardware *hardware); /* a new reference: as the file that describes it */

#endif
