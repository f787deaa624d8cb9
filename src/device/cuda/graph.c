/* graph.c - runs kept as CUDA graphs. The host needs some 3 us to queue a kernel, a GPU 1 us to begin one that it has
 * in a graph: narrow layers and short texts are bound by that, wide ones are not.
 *
 * A run is captured when its key comes again. Making a graph takes as long as queueing the run a few times, so that
 * graphs are only made while replays pay for them: texts whose token counts never come again cost nothing but the first
 * few. What a graph may not have (events that the host looks at, allocations) a run does not queue; should a library do
 * so all the same, the run is queued as ever, and not tried again. */
#include "device/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum {
    KEYS = 256,      /* remembered */
    LONGEST = 64,    /* words of a key; longer ones are of many microbatches, and not kept */
    TIMES = 2,       /* a key has come when its run is captured */
    GRAPHS = 64,     /* kept at a time */
    PRICE = 4,       /* replays that pay for a graph */
    CREDIT = 64,     /* replays that are lent, and that may be saved up */
};

typedef struct entry {
    int64_t key[LONGEST]; /* [n] */
    int n;                /* 0: free */
    int times;            /* it has come; -1: it cannot be captured */
    uint64_t last;        /* when */
    cudaGraphExec_t graph;/* NULL: none */
} entry;

struct tri_cuda_graphs {
    entry entry[KEYS];
    entry *capturing;     /* whose run is queued now; NULL: nobody's */
    cudaError_t before;   /* c->error when capturing began */
    uint64_t now;         /* runs so far */
    int credit;           /* replays that graphs may still be made for */
};

static void drop(entry *e) {
    if (e->graph) cudaGraphExecDestroy(e->graph);
    e->graph = NULL;
}

static entry *older(entry *a, entry *b) { return a && a->last <= b->last ? a : b; }

/* The entry of a key; or of those that have no graph, the one that has not come for longest, emptied for it. */
static entry *entry_of(struct tri_cuda_graphs *g, const int64_t *key, int n) {
    entry *oldest = NULL;
    for (entry *e = g->entry; e < g->entry + KEYS; e++) {
        if (e->n == n && memcmp(e->key, key, (size_t)n * sizeof *key) == 0) return e;
        if (!e->graph) oldest = older(oldest, e);
    }
    memcpy(oldest->key, key, (size_t)n * sizeof *key); /* there is one: GRAPHS < KEYS */
    oldest->n = n, oldest->times = 0;
    return oldest;
}

static void make_room(struct tri_cuda_graphs *g) {
    entry *oldest = NULL;
    int n = 0;
    for (entry *e = g->entry; e < g->entry + KEYS; e++)
        if (e->graph) n++, oldest = older(oldest, e);
    if (n >= GRAPHS) drop(oldest);
}

static int may_capture(struct tri_cuda_graphs *g, entry *e) {
    if (e->times < 0 || ++e->times < TIMES || g->credit < PRICE) return 0;
    g->credit -= PRICE;
    return 1;
}

tri_again tri__cuda_again(void *context, const int64_t *key, int n) {
    tri_cuda *c = context;
    struct tri_cuda_graphs *g = c->graphs;
    if (n > LONGEST) return TRI_AGAIN_QUEUE;
    entry *e = entry_of(g, key, n);
    e->last = ++g->now;
    if (e->graph) {
        tri__cuda_note(c, cudaGraphLaunch(e->graph, c->compute), "a run's graph");
        g->credit += g->credit < CREDIT;
        return TRI_AGAIN_DONE;
    }
    if (!may_capture(g, e)) return TRI_AGAIN_QUEUE;
    if (cudaStreamBeginCapture(c->compute, cudaStreamCaptureModeRelaxed) != cudaSuccess) {
        cudaGetLastError();
        e->times = -1;
        return TRI_AGAIN_QUEUE;
    }
    g->capturing = e;
    g->before = c->error;
    return TRI_AGAIN_KEEP;
}

int tri__cuda_kept(void *context) {
    tri_cuda *c = context;
    struct tri_cuda_graphs *g = c->graphs;
    entry *e = g->capturing;
    cudaGraph_t graph = NULL;
    cudaError_t error = cudaStreamEndCapture(c->lane[0].compute, &graph);
    g->capturing = NULL;
    if (error == cudaSuccess) {
        make_room(g);
        error = c->error != g->before ? c->error : cudaGraphInstantiate(&e->graph, graph, 0);
    }
    if (graph) cudaGraphDestroy(graph);
    if (error == cudaSuccess) error = cudaGraphLaunch(e->graph, c->compute);
    if (error == cudaSuccess) return 1;
    cudaGetLastError(); /* queued as ever, the run tells what is wrong with itself */
    drop(e);
    e->times = -1;
    c->error = g->before;
    c->inbox_taken = 0;
    return 0;
}

void tri__cuda_forget(tri_cuda *cuda) {
    if (!cuda->graphs) return;
    for (int i = 0; i < KEYS; i++) drop(&cuda->graphs->entry[i]);
    *cuda->graphs = (struct tri_cuda_graphs){.credit = CREDIT};
}

int tri__cuda_graphs_open(tri_cuda *cuda) {
    cuda->graphs = calloc(1, sizeof *cuda->graphs);
    tri__cuda_forget(cuda);
    return cuda->graphs != NULL;
}

void tri__cuda_graphs_close(tri_cuda *cuda) {
    tri__cuda_forget(cuda);
    free(cuda->graphs);
}
