/* memory_fit.h - whether planned ranks fit into memory, and which layout would. */
#ifndef TRI_ENGINE_MEMORY_FIT_H
#define TRI_ENGINE_MEMORY_FIT_H

#include "engine/engine.h"

/* Bytes of memory that a rank with these programs takes: they share each class, and what lies in offload memory does
 * not count. */
int64_t tri__room_need(const tri_program *const *programs, int n);
/* Compares what `here` ranks of a machine need together (of the neediest, where there are several) with the limit, or
 * without one with what this machine has free. TRI_RESOURCE with the figures and the first that fits of: more sharding,
 * then full recomputation, then the optimizer's state in offload memory. */
tri_status tri__room_check(const tri_settings *settings, const tri_engine *engine, const tri_programs *all, int here);

#endif
