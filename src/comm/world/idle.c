/* idle.c - waiting without wasting the machine: spin, yield, sleep; and waking sleepers.
 *
 * No wake-up is lost: a waiter reads its event word, marks itself asleep, polls once more, and sleeps only if the word
 * is unchanged. A waker stores, and then checks which ranks are asleep; a full fence between the two on either side
 * ensures that one of them sees the other (__sync_synchronize: gcc rejects C11's atomic_thread_fence under TSan).
 * Clearing the asleep mark also increments the event word, so a mark cleared before the sleep prevents it. Sleeps are
 * short nevertheless. */
#include "comm/world/control_page.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SPINS = 2000,  /* about 20 to 80 us */
    YIELDS = 64    /* about 100 us on an otherwise idle core */
};
static const double SLEEP_SECONDS = 0.005;
static const double YIELD_SECONDS = 0.0005; /* a longer yield means that another busy thread took the core */
static const useconds_t AWAKE_MICROSECONDS = 50;
/* Of waits for other machines: how long they look without a sleep (with 0.1 ms, the many small transfers of tensor
 * parallelism took a third longer); then they sleep for a share of the time waited so far, within limits. The longest
 * is far below the time in which a link fills the buffers of a socket, and below the 50 ms in which failures must be
 * known. */
static const double FAR_SPIN_SECONDS = 1e-2, FAR_SHARE = 1.0 / 16, FAR_LEAST = 5e-5, FAR_MOST = 5e-4;

void tri__futex_wait(const _Atomic uint32_t *word, uint32_t value, double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &time, NULL, 0);
}

void tri__futex_wake(const _Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0); }

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static void announce_sleep(tri_control *control, tri_rank_line *line, tri_idle *idle) {
    idle->event = atomic_load(&line->event);
    if (!atomic_exchange(&line->asleep, 1)) atomic_fetch_add(&control->asleep, 1);
    __sync_synchronize();
}

/* If another thread keeps the core busy, every yield takes 8 to 11 ms; then sleeping has lower latency, as a wake-up
 * comes when there is work. With two busy processes on the only core, all ranks knew of a rank's death after 0.6 ms at
 * the median instead of 5 to 10. */
static void yield_once(tri_idle *idle) {
    double begin = tri__clock();
    sched_yield();
    if (tri__clock() - begin > YIELD_SECONDS) idle->round = SPINS + YIELDS - 1;
}

/* Where ranks outnumber cores, a look without a sleep would take time from a rank that computes. */
static void idle_far(tri_idle *idle, int spin) {
    double now = tri__clock();
    if (idle->round == 0) idle->since = now;
    idle->round = 1;
    double waited = now - idle->since, sleep = waited * FAR_SHARE;
    if (spin && waited < FAR_SPIN_SECONDS) relax();
    else usleep((useconds_t)(1e6 * (sleep < FAR_LEAST ? FAR_LEAST : sleep > FAR_MOST ? FAR_MOST : sleep)));
}

void tri__idle(tri_control *control, int local, tri_idle *idle) {
    tri_rank_line *line = &control->line[local];
    atomic_store_explicit(&line->looks, atomic_load_explicit(&line->looks, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    int spin = (int)atomic_load_explicit(&control->spin, memory_order_relaxed);
    if (atomic_load(&control->abort)) return;
    if (idle->far) {
        idle_far(idle, spin);
        return;
    }
    if (idle->round == 0 && !spin) idle->round = SPINS;
    if (idle->round < SPINS) relax();
    else if (idle->round < SPINS + YIELDS) yield_once(idle);
    else if (idle->awake) usleep(AWAKE_MICROSECONDS);
    else {
        if (idle->round > SPINS + YIELDS) tri__futex_wait(&line->event, idle->event, SLEEP_SECONDS);
        announce_sleep(control, line, idle);
    }
    if (idle->round <= SPINS + YIELDS) idle->round++;
}

static void wake_one(tri_control *control, tri_rank_line *line) {
    if (!atomic_load_explicit(&line->asleep, memory_order_relaxed) || !atomic_exchange(&line->asleep, 0)) return;
    atomic_fetch_sub(&control->asleep, 1);
    atomic_fetch_add(&line->event, 1);
    tri__futex_wake(&line->event);
}

void tri__control_wake(tri_control *control, const int *local, int n) {
    __sync_synchronize();
    if (!atomic_load_explicit(&control->asleep, memory_order_relaxed)) return;
    if (!local) n = *(const volatile int32_t *)&control->n; /* read once: a peer could change it in between */
    if (!local && n > TRI_RANKS_PER_NODE) n = TRI_RANKS_PER_NODE;
    for (int i = 0; i < n; i++)
        if (!local || local[i] >= 0) wake_one(control, &control->line[local ? local[i] : i]);
}
