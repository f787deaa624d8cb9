/* hardware.h - a machine as the simulator sees it: rates and curves of one rank's device and of the links between
 * ranks. Built in under a name, or a JSON file that `trident calibrate` or a person wrote. docs/reference/hardware.md
 */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "numbers/coded.h"
#include "program/target.h"

typedef struct tri_wire {
    double latency;    /* seconds before the first byte arrives */
    double bytes;      /* a second, of one rank, in one direction */
} tri_wire;

enum { TRI_SIZES = 5 }; /* at most, of a kernel's call (sim/sizes.h) */

/* A kernel's time at one size: median and half the distance of the quartiles, in seconds. */
typedef struct tri_kernel_point {
    double size[TRI_SIZES];
    double seconds, spread;
} tri_kernel_point;

/* Measured times of one operation's kernel, in order of size. */
typedef struct tri_kernel_curve {
    int variant;           /* tri__variant */
    tri_dtype dtype;       /* as tri__instr_dtype */
    int threads;           /* of the rank, while other ranks use the remaining cores; 0: the device has no threads */
    int adds;              /* 1: of calls that add to their output; of pack: that keep errors */
    tri_code code;         /* of operations on coded numbers; of others none */
    /* products with several threads: rows and columns of the output that one thread computes at a time; 0: not divided
     * that way */
    int tile[2];
    int n;
    tri_kernel_point *point;
} tri_kernel_curve;

/* Transfers among ranks, and copies between a rank's device and its host. */
typedef enum tri_link_kind {
    TRI_LINK_SEND,
    TRI_LINK_BROADCAST,
    TRI_LINK_ALL_REDUCE,
    TRI_LINK_ALL_GATHER,
    TRI_LINK_REDUCE_SCATTER,
    TRI_LINK_ALL_TO_ALL,
    TRI_LINK_CONTROL,      /* the hosts' all-reduce that ends a step */
    TRI_LINK_COPY_IN,      /* host, or offload memory, to device */
    TRI_LINK_COPY_OUT,
    TRI_LINK_KINDS
} tri_link_kind;

typedef struct tri_link_point {
    double bytes;          /* as tri__transfer_seconds counts them */
    double seconds, spread;
} tri_link_point;

/* Where a curve may end at the earliest: larger transfers are timed at its rate, which smaller points do not show.
 * Control records are small. */
enum { TRI_LINK_LEAST = 128 << 10 };

typedef struct tri_link_curve {
    tri_link_kind kind;
    int ranks, nodes;      /* members, and the nodes they are on */
    int n;
    tri_link_point *point; /* in order of bytes */
} tri_link_curve;

/* Where figures come from: keys of the file, by their source. */
typedef struct tri_hardware_origin {
    struct tri_hardware_names {
        const char **at;
        int n;
    } measured, maker, assumed;
    const char *machine, *date, *version; /* what was measured, when, by which Trident; NULL */
} tri_hardware_origin;

typedef struct tri_hardware {
    const char *name;      /* as it was asked for: a name or a path */
    double f32, half;      /* floating point operations a second of large products; in fp32, with 16 bits */
    double attention;      /* the share of them that attention reaches */
    double bytes;          /* of the device's memory, a second, read and written */
    double copy;           /* bytes a second from the host to the device */
    double launch;         /* seconds that each operation takes at least */
    int ranks_per_node;
    tri_wire near, far;    /* between ranks of a node, between nodes */
    struct tri_hardware_islands {
        int ranks;         /* of a node that reach each other by `near` (NVLink, a NUMA node); 0: all of it */
        double latency, bytes; /* between islands of a node, as of a wire */
    } islands;
    int overlap;           /* 1: transfers overlap with computing; 0: ranks move data themselves, in waits */

    /* What a file may leave out: 0 and NULL then. */
    const char *device;    /* the device whose programs it times: "cpu", "cuda" */
    double memory;         /* bytes of one rank's device; with cores: of a node */
    int cores;             /* of a node, which its ranks share; 0: each rank has its own device */
    double queue;          /* seconds of the host to queue one instruction on an asynchronous device */
    double lane_share;     /* two lanes that both compute: the rate of both together, of one alone is 1; 0 is 1 */
    double node_bytes;     /* a second, of all links of a node to others together, in one direction */
    double peak[TRI_DTYPE_COUNT]; /* FLOP/s that the device can reach by its maker or by measure, for MFU */
    struct tri_hardware_host {
        double start;      /* seconds from the process's start to its first step, without data and weights */
        double rank_start; /* of them, for each further rank of the node */
        double row, token; /* seconds that one worker takes to prepare a row, and each of its tokens */
        double step;       /* seconds of a step outside its program */
        double row_result; /* seconds to keep and score one row of a validation */
        double read, write;/* bytes a second, of files: weights and checkpoints */
    } host;
    struct tri_hardware_offload {
        double in, out;    /* bytes a second from and to offload memory */
        double latency;    /* seconds of one copy */
    } offload;
    struct tri_hardware_watts {
        double idle, busy; /* of one rank's device, its share of the node included */
    } watts;
    tri_hardware_origin origin;
    const tri_target *target; /* what plans for this device may use; NULL: the device itself says */
    tri_kernel_curve *kernel; /* [n_kernels] */
    tri_link_curve *link;     /* [n_links] */
    int n_kernels, n_links;
} tri_hardware;

/* `text`: a built-in name, or the path of a JSON file. TRI_USAGE when it is neither; TRI_DATA, with file and key, when
 * a figure is missing or impossible. Tables are in the arena. */
tri_status tri__hardware_open(tri_arena *arena, const char *text, tri_hardware *out);
/* The same from JSON; `name` is for messages, and its name. */
tri_status tri__hardware_read(tri_arena *arena, const char *name, const tri_json *root, tri_hardware *out);
const char *tri__hardware_names(void); /* "h200x8, a100x8, cpu" */
/* The built-in hardware that a device's plans are timed on where none is given: "cpu", "h200x8". */
const char *tri__hardware_of(const char *device);
tri_json *tri__hardware_json(const tri_hardware *hardware); /* a new reference: as the file that describes it */

const char *tri__link_kind_name(tri_link_kind kind); /* "all_reduce" */
/* Ranks that a node has of a world; a rank's threads: as asked or, where nobody says (0), its share of the cores. */
int tri__hardware_here(const tri_hardware *hardware, int world);
int tri__hardware_threads(const tri_hardware *hardware, int world, int asked);
