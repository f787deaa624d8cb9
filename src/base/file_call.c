/* file_call.c - announcing file calls, and reading the announcements of another process.
 *
 * A slot's number is odd inside a call. Its path is written before the number, and a reader that sees the same number
 * before and after has a path that belongs to it. A rank hands its board to the threads that help it. Whoever has it
 * counts as a user, so that a thread that outlives the rank finds that the board is gone. */
#include "base/file_call.h"

#include <stdlib.h>
#include <string.h>

struct tri_calls {
    _Atomic(tri_call_board *) board; /* NULL: closed */
    _Atomic int users;
    void (*poll)(void *);
    void *context;
};

static _Thread_local struct {
    tri_calls *rank; /* NULL: this thread announces nothing */
    int place;       /* its slot */
} own;

const char *tri__call_text(uint32_t call) {
    static const char *const text[] = {
#define X(name, text) text,
        TRI_FILE_CALLS(X)
#undef X
        "a wait for its own threads"};
    return call < TRI_CALL_COUNT ? text[call] : "an unknown call";
}

/* ---- the rank ---- */

static void drop(tri_calls *rank) {
    if (rank && atomic_fetch_sub(&rank->users, 1) == 1) free(rank);
}

static void take(tri_calls *rank, int place) {
    drop(own.rank);
    if (rank) atomic_fetch_add(&rank->users, 1);
    own.rank = rank, own.place = place;
}

tri_calls *tri__calls_open(tri_call_board *board, void (*poll)(void *), void *context) {
    tri_calls *rank = malloc(sizeof *rank);
    if (!rank) return NULL;
    *rank = (tri_calls){.board = board, .users = 1, .poll = poll, .context = context};
    take(rank, 0);
    atomic_store(&board->slot[0].taken, 1);
    return rank;
}

void tri__calls_close(tri_calls *rank) {
    if (!rank) return;
    atomic_store(&rank->board, NULL);
    if (own.rank == rank) take(NULL, 0);
    drop(rank);
}

tri_calls *tri__calls_mine(void) { return own.rank; }

void tri__calls_help(tri_calls *rank) {
    tri_call_board *board = rank ? atomic_load(&rank->board) : NULL;
    for (int i = 1; board && i < TRI_CALL_SLOTS; i++) {
        uint32_t free_slot = 0;
        if (!atomic_compare_exchange_strong(&board->slot[i].taken, &free_slot, 1)) continue;
        take(rank, i);
        return;
    }
}

static tri_call_slot *own_slot(void) {
    tri_call_board *board = own.rank ? atomic_load_explicit(&own.rank->board, memory_order_relaxed) : NULL;
    return board ? &board->slot[own.place] : NULL;
}

void tri__calls_leave(void) {
    tri_call_slot *slot = own_slot();
    if (slot) atomic_store(&slot->taken, 0);
    take(NULL, 0);
}

static void step(tri_call_slot *slot) { /* no other thread writes it: no read-modify-write needed */
    uint64_t number = atomic_load_explicit(&slot->number, memory_order_relaxed);
    atomic_store_explicit(&slot->number, number + 1, memory_order_release);
}

void tri__call_begin(tri_file_call call, const char *path) {
    enum { ROOM = 8 * TRI_CALL_WORDS - 1, KEPT = ROOM - 3 };
    tri_call_slot *slot = own_slot();
    if (!slot) return;
    char text[8 * TRI_CALL_WORDS];
    size_t length = strlen(path), words;
    if (length <= ROOM) memcpy(text, path, length + 1);
    else memcpy(text, "...", 3), memcpy(text + 3, path + length - KEPT, KEPT + 1), length = ROOM;
    words = length / 8 + 1;
    memset(text + length, 0, 8 * words - length);
    for (size_t i = 0; i < words; i++) {
        uint64_t word;
        memcpy(&word, text + 8 * i, sizeof word);
        atomic_store_explicit(&slot->path[i], word, memory_order_relaxed);
    }
    atomic_store_explicit(&slot->call, (uint32_t)call, memory_order_relaxed);
    step(slot);
}

void tri__call_end(void) {
    tri_call_slot *slot = own_slot();
    if (slot) step(slot);
}

void tri__helpers_begin(void) { tri__call_begin(TRI_CALL_HELPERS, ""); }

void tri__helpers_poll(void) {
    if (own_slot() && own.place == 0 && own.rank->poll) own.rank->poll(own.rank->context);
}

void tri__helpers_end(void) { tri__call_end(); }

/* ---- who watches it ---- */

/* Whether the slot is in a call, and which. */
static int in_call(const tri_call_slot *slot, uint64_t *number, uint32_t *call) {
    *number = atomic_load_explicit(&slot->number, memory_order_acquire);
    *call = atomic_load_explicit(&slot->call, memory_order_relaxed);
    return *number % 2 == 1 && *call < TRI_CALL_COUNT;
}

uint64_t tri__calls_number(const tri_call_board *board) {
    uint64_t sum;
    uint32_t call;
    int waits = in_call(&board->slot[0], &sum, &call) && call == TRI_CALL_HELPERS;
    for (int i = 1; i < TRI_CALL_SLOTS && waits; i++) sum += atomic_load(&board->slot[i].number);
    return sum;
}

static void copy_path(const tri_call_slot *slot, char *out) {
    for (size_t i = 0; i < TRI_CALL_WORDS; i++) {
        uint64_t word = atomic_load_explicit(&slot->path[i], memory_order_relaxed);
        memcpy(out + 8 * i, &word, sizeof word);
    }
    out[8 * TRI_CALL_WORDS] = 0;
    for (char *at = out; *at; at++)
        if ((unsigned char)*at < 32 || *at == 127) *at = '?';
}

/* A slot whose call is a file's; 0 if it is in none, or in another one by now. */
static int view(const tri_call_slot *slot, tri_call_view *out) {
    uint64_t before, after;
    uint32_t call, now;
    if (!in_call(slot, &before, &call) || call == TRI_CALL_HELPERS) return 0;
    if (!out) return 1;
    out->call = call;
    copy_path(slot, out->path);
    __sync_synchronize(); /* gcc rejects atomic_thread_fence under TSan */
    return in_call(slot, &after, &now) && after == before;
}

int tri__calls_now(const tri_call_board *board, tri_call_view *out) {
    uint64_t number;
    uint32_t call;
    if (!in_call(&board->slot[0], &number, &call)) return 0;
    if (call != TRI_CALL_HELPERS) return view(&board->slot[0], out);
    for (int i = 1; i < TRI_CALL_SLOTS; i++)
        if (view(&board->slot[i], out)) return 1;
    return 0;
}
