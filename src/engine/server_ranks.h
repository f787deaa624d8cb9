/* server_ranks.h - ranks of a server: rank 0 has the requests and leads, the others compute when it says so. Their plan
 * has tri_plan_in.fed. */
#pragma once

#include "engine/engine.h"

typedef enum tri_order {
    TRI_ORDER_IDLE,   /* nothing: rank 0 lives. To be given more often than a wait's limit (--progress-timeout) */
    TRI_ORDER_RUN,    /* compute a batch */
    TRI_ORDER_RELOAD, /* leave tri__engine_follow, and open the checkpoint again */
    TRI_ORDER_STOP    /* leave it, and end */
} tri_order;

/* Parts that a batch has: replicas times microbatches of a replica. */
int tri__engine_parts(const tri_engine *engine);

/* Rank 0, or a single rank: gives an order, with a number (up to 2^53) for RELOAD and STOP. RUN computes `feed`
 * [tri__engine_parts], made by tri__feed from microbatches that may be empty; the results are tri__infer_probs of each
 * part. `feed` is unused by other orders. Fails when any rank fails. */
tri_status tri__engine_lead(tri_engine *engine, tri_order order, int64_t value, const tri_feed *feed);
/* Every other rank: follows until the order is RELOAD or STOP. */
tri_status tri__engine_follow(tri_engine *engine, tri_order *order, int64_t *value);
