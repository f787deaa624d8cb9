/* tune.h - products chosen by timing, remembered in the run folder. */
#ifndef TRI_ENGINE_TUNE_H
#define TRI_ENGINE_TUNE_H

#include "base/log.h"
#include "engine/engine.h"

#define TRI_WISDOM_FILE "products.txt"

/* Called once the engine is bound and before its memory is filled, on every rank of a world. What folder/products.txt
 * has for this kind of device is taken; what it lacks is timed, each rank the products of its own programs; all ranks
 * then use what rank 0, then rank 1, ... found, so that ranks which compute the same get the same bits; rank 0 writes
 * it down. Devices with nothing to choose: nothing. A damaged file: TRI_DATA, with the line. Ranks with different kinds
 * of devices: TRI_DISAGREE. */
tri_status tri__engine_tune(tri_engine *engine, const char *folder, const tri_log *log);

#endif
