/* exchange.c - groups that span machines. */
#include "comm/world.h"

static tri_status exchange_open(tri_group *group) {
    return tri__fail(TRI_USAGE, "a group of %d ranks spans machines, and nothing carries operations between machines here", group->n);
}

static void exchange_close(tri_group *group) { (void)group; }

const tri_transport tri__transport_exchange = {.name = "exchange", .open = exchange_open, .close = exchange_close};
