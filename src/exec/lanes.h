/* lanes.h - which instruction of a program waits for which, where its kernels go to two queues (lanes) that a device
 * works on at once.
 *
 * Found from what instructions read and write, byte by byte: right for any program that is right in its own order,
 * wherever its slots lie. */
#ifndef TRI_EXEC_LANES_H
#define TRI_EXEC_LANES_H

#include "device/device.h"
#include "program/program.h"

typedef struct tri_lanes {
    uint8_t *lane;     /* [n_instrs]; NULL: one lane, and nothing to do */
    int32_t *wait; /* [n_instrs] the instruction of the other lane that must be done first; -1: none, or one before it
                      waits for that */
    int32_t *number;   /* [n_instrs] of the signal that it gives when it is done, from 1 on; 0: nobody waits for it */
} tri_lanes;

tri_status tri__lanes_find(const tri_program *program, tri_lanes *out);
void tri__lanes_free(tri_lanes *lanes);

/* Around a run, and around its instruction `index`; `begin` is the run's first. All lanes begin behind what was there
 * before the run, and what follows it, in lane 0, is behind all of them. */
void tri__lanes_begin(const tri_queues *queues, void *context);
void tri__lanes_before(const tri_lanes *lanes, int index, int begin, const tri_queues *queues, void *context);
void tri__lanes_after(const tri_lanes *lanes, int index, const tri_queues *queues, void *context);
void tri__lanes_end(const tri_queues *queues, void *context);

#endif
