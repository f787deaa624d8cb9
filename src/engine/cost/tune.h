/* tune.h - matrix products chosen by timing, and saved in the run folder. */
#pragma once

#include "engine/engine.h"

#define TRI_WISDOM_FILE "products.txt"

/* Called once the engine is bound and before its memory is filled, on every rank of a world. Takes the choices of
 * folder/products.txt for this kind of device; each rank times the missing products of its own programs. All ranks then
 * use the same merged choices (rank 0's first, then rank 1's, ...), so that ranks which compute the same get the same
 * bits; rank 0 saves them. Does nothing on devices without choices. A damaged file: TRI_DATA, with the line. Ranks with
 * different kinds of devices: TRI_DISAGREE. */
tri_status tri__engine_tune(tri_engine *engine, const char *folder, const tri_log *log);
