/* ranks.c - groups and collectives with libtrident: sums a vector over all ranks, gathers a number from each, and
 * passes a message round a ring.   ranks [N] [--forks]   N ranks (default 4): threads of this process, or processes */
#include <trident_comm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                                  \
    do {                                           \
        tri_status status_ = (call);               \
        if (status_ != TRI_OK) return status_;     \
    } while (0)

enum { COUNT = 100000, MOST = 64 };

static tri_status work(tri_world *world, void *argument) {
    (void)argument;
    tri_group *all = tri_group_world(world);
    int rank = tri_world_rank(world), n = tri_world_size(world);

    /* Memory of the shared heap: peers read and write it directly. */
    float *gradient; /* [COUNT] */
    TRY(tri_heap_alloc(world, COUNT * sizeof *gradient, (void **)&gradient));
    for (int i = 0; i < COUNT; i++) gradient[i] = (float)(rank + 1);
    TRY(tri_all_reduce(all, NULL, gradient, COUNT, TRI_F32, TRI_SUM));

    int32_t square = rank * rank, squares[MOST];
    TRY(tri_all_gather(all, &square, squares, 1, NULL, TRI_I32));

    /* Posted, so that the message travels while this rank receives another; waited for before `square` may change. */
    int32_t from_before;
    tri_collective send = {.kind = TRI_SEND, .dtype = TRI_I32, .root = (rank + 1) % n, .in = &square, .count = 1};
    tri_request request = 0;
    if (n > 1) {
        TRY(tri_post(all, &send, &request));
        TRY(tri_recv(all, &from_before, 1, TRI_I32, (rank + n - 1) % n, 0));
        TRY(tri_wait(world, request));
    } else {
        from_before = square;
    }

    /* One line a rank, in order. */
    for (int turn = 0; turn < n; turn++) {
        if (turn == rank) {
            printf("rank %d of %d: sum %g, squares", rank, n, (double)gradient[COUNT - 1]);
            for (int i = 0; i < n; i++) printf(" %d", squares[i]);
            printf(", from before %d\n", from_before);
            fflush(stdout);
        }
        TRY(tri_barrier(all));
    }
    tri_heap_free(world, gradient);
    return TRI_OK;
}

int main(int argc, char **argv) {
    tri_ranks how = {.n = 4};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--forks") == 0) how.forks = 1;
        else how.n = atoi(argv[i]);
    }
    if (how.n < 1 || how.n > MOST) {
        fprintf(stderr, "usage: ranks [1 to %d] [--forks]\n", MOST);
        return TRI_USAGE;
    }
    tri_status status = tri_ranks_run(&how, work, NULL);
    if (status != TRI_OK) fprintf(stderr, "ranks: %s\n", tri_error());
    return status;
}
