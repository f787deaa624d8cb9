/* members.h - the further members of an ensemble that a server has loaded: every batch runs through all, and the answer
 * is their mean. Members read rows alike, so that a row is encoded once. */
#ifndef TRI_SERVE_INFER_MEMBERS_H
#define TRI_SERVE_INFER_MEMBERS_H

#include "data/dataset/micro.h"
#include "exec/exec.h"
#include "serve/infer/crew.h"
#include "serve/infer/ensemble.h"

typedef struct tri_member {
    tri_opened opened;
    int slot;            /* of the crew; -1: none */
} tri_member;

typedef struct tri_members {
    int n;               /* without the first; 0: it is one model */
    tri_member *at;      /* [n] */
    int parts;
    int64_t rows;        /* room of a part */
    int n_classes;
    tri_decision decision; /* of the mean */
    double *sum;         /* [parts, rows, n_classes] */
    float *mean;         /* likewise */
} tri_members;

/* Reads all but the first of the ensemble; `first` is read already. TRI_DATA where one reads rows in another way. */
tri_status tri__members_read(const tri_run_set *ensemble, const tri_settings *asked, tri_crew *crew,
                             const tri_opened *first, tri_members *out);
/* Plans, allocates, loads weights. crew NULL: one rank. */
tri_status tri__members_load(tri_members *members, tri_crew *crew, const tri_batching *batching);
/* After the first has computed probs [parts]: the others compute, and probs become the mean. feed [parts]: scratch. */
tri_status tri__members_run(tri_members *members, tri_crew *crew, const tri_micro *micro, tri_feed *feed,
                            const float **probs);
void tri__members_close(tri_members *members, tri_crew *crew); /* accepts a zeroed one */

#endif
