/* graph.c - runs captured as CUDA graphs. The host needs some 3 us to queue a kernel, a GPU 1 us to begin one of a
 * graph: narrow layers and short texts are bound by that latency, wide ones are not.
 *
 * A run is captured when its key is seen for the second time. Creating a graph takes as long as queueing the run a few
 * times, so graphs are only created while replays amortise them: texts whose shapes never repeat cost only the first
 * few. A run queues nothing that a graph must not contain (events that the host polls, allocations); if a library does,
 * the run is queued kernel by kernel, and not tried again. */
#include "device/cuda/runtime/cuda.h"

enum {
    KEYS = 256,      /* remembered */
    LONGEST = 64,    /* words of a key; longer keys, of many microbatches, are not captured */
    TIMES = 2,       /* a run is captured when its key was seen this often */
    GRAPHS = 64,     /* kept at a time */
    PRICE = 4,       /* replays that amortise a graph */
    CREDIT = 64,     /* initial credit in replays, and its maximum */
};

typedef struct entry {
    int64_t key[LONGEST]; /* [n] */
    int n;                /* 0: free */
    int times;            /* times it was seen; -1: it cannot be captured */
    uint64_t last;        /* the last run with it */
    cudaGraphExec_t graph;/* NULL: none */
} entry;

struct tri_cuda_graphs {
    entry entry[KEYS];
    entry *capturing;     /* of the run that is being captured; NULL: none */
    cudaError_t before;   /* c->error when capturing began */
    uint64_t now;         /* runs so far */
    int credit;           /* replays that may still be spent on creating graphs */
};

static void drop(entry *e) {
    if (e->graph) cudaGraphExecDestroy(e->graph);
    e->graph = NULL;
}

static entry *older(entry *a, entry *b) { return a && a->last <= b->last ? a : b; }

/* The entry of a key; or the least recently used entry without a graph, cleared for it. */
static entry *entry_of(struct tri_cuda_graphs *g, const int64_t *key, int n) {
    entry *oldest = NULL;
    for (entry *e = g->entry; e < g->entry + KEYS; e++) {
        if (e->n == n && memcmp(e->key, key, (size_t)n * sizeof *key) == 0) return e;
        if (!e->graph) oldest = older(oldest, e);
    }
    memcpy(oldest->key, key, (size_t)n * sizeof *key); /* one exists: GRAPHS < KEYS */
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

tri_capture tri__cuda_capture(void *context, const int64_t *key, int n) {
    tri_cuda *c = context;
    struct tri_cuda_graphs *g = c->graphs;
    if (n > LONGEST) return TRI_LAUNCH;
    entry *e = entry_of(g, key, n);
    e->last = ++g->now;
    if (e->graph) {
        tri__cuda_note(c, cudaGraphLaunch(e->graph, c->compute), "a run's graph");
        g->credit += g->credit < CREDIT;
        return TRI_REPLAY;
    }
    if (!may_capture(g, e)) return TRI_LAUNCH;
    if (cudaStreamBeginCapture(c->compute, cudaStreamCaptureModeRelaxed) != cudaSuccess) {
        cudaGetLastError();
        e->times = -1;
        return TRI_LAUNCH;
    }
    g->capturing = e;
    g->before = c->error;
    return TRI_CAPTURE;
}

int tri__cuda_end_capture(void *context) {
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
    cudaGetLastError(); /* queued kernel by kernel, the run reports its own errors */
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
