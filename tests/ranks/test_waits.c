/* test_waits.c - ranks that wait for each other while something interferes: a name in use by another process, a signal,
 * a long name. Each wait ends by its timeout, or earlier on a stop signal. */
#include "comm/launchers/rendezvous.h"
#include "tests/lib/meeting_name.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static tri_stop asked;
static void ask(int signal) { atomic_store(&asked.signal, signal); }

static const char *meeting_key(void) {
    static char key[64];
    static int count;
    snprintf(key, sizeof key, "waits.%d.%d", (int)getpid(), count++);
    return key;
}

/* Local rank `local` of n in a process of its own; its exit code is the status. SIGTERM asks it to stop; one that hangs
 * is ended by SIGALRM. words: of its failure. */
static pid_t start_rank(const char *key, int local, int n, double seconds, const char *words) {
    pid_t child = fork();
    if (child) return child;
    tri_segment segment;
    signal(SIGTERM, ask);
    alarm(20);
    tri_rendezvous meeting = {.key = key, .local = local, .n = n, .seconds = seconds, .stop = &asked};
    tri_segment_spec spec = {.n = n, .world = n, .heap_bytes = 4096, .progress_timeout = 30};
    tri_status status = tri__rendezvous(&meeting, &spec, &segment);
    if (status == TRI_OK) tri__segment_close(&segment);
    else if (words && !strstr(tri_error(), words)) {
        fprintf(stderr, "local rank %d: \"%s\" does not say \"%s\"\n", local, tri_error(), words);
        _exit(98);
    }
    _exit(status);
}

static int end_of(pid_t child) {
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

/* Asks it to stop when it has waited for a while. */
static int stop(pid_t child) {
    usleep(300 * 1000);
    kill(child, SIGTERM);
    return end_of(child);
}

/* Somebody listens under the name, and accepts nobody: connecting would block for good once its queue is full. */
static void a_squatter_is_not_waited_for(void **state) {
    (void)state;
    enum { MOST = 8 };
    const char *key = meeting_key();
    struct sockaddr_un name;
    socklen_t length = meeting_name(key, &name);
    int squatter = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), queued[MOST], n = 0;
    assert_int_equal(bind(squatter, (struct sockaddr *)&name, length), 0);
    assert_int_equal(listen(squatter, 0), 0);
    for (int full = 0; n < MOST && !full;) {
        queued[n] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        full = connect(queued[n++], (struct sockaddr *)&name, length) != 0;
    }
    assert_int_equal(end_of(start_rank(key, 1, 2, 0.3, "accepts no connections")), TRI_RESOURCE);
    assert_int_equal(stop(start_rank(key, 1, 2, 600, "stopped (SIGTERM)")), TRI_STOPPED);
    assert_int_equal(end_of(start_rank(key, 0, 2, 0.3, "another job")), TRI_USAGE);
    assert_int_equal(stop(start_rank(key, 0, 2, 600, "stopped (SIGTERM)")), TRI_STOPPED);
    while (n > 0) close(queued[--n]);
    close(squatter);
}

static void a_signal_ends_a_meeting(void **state) {
    (void)state;
    const char *key = meeting_key();
    /* local rank 2 is missing; what local rank 0 was asked is told to local rank 1 */
    pid_t other = start_rank(key, 1, 3, 600, "stopped (SIGTERM)");
    assert_int_equal(stop(start_rank(key, 0, 3, 600, "stopped (SIGTERM)")), TRI_STOPPED);
    assert_int_equal(end_of(other), TRI_STOPPED);
    assert_int_equal(stop(start_rank(meeting_key(), 1, 2, 600, "stopped (SIGTERM)")), TRI_STOPPED); /* nobody listens */
}

/* Keys longer than the name of a socket: those that differ at their end alone are different jobs. */
static void long_keys_meet(void **state) {
    (void)state;
    enum { LENGTH = 160 };
    char key[2][LENGTH + 1];
    pid_t child[4];
    for (int job = 0; job < 2; job++) {
        memset(key[job], 'k', LENGTH);
        key[job][LENGTH - 1] = (char)('a' + job), key[job][LENGTH] = 0;
    }
    key[0][snprintf(key[0], LENGTH, "%s", meeting_key())] = 'k';
    memcpy(key[1], key[0], LENGTH - 1);
    for (int i = 0; i < 4; i++) child[i] = start_rank(key[i / 2], i % 2, 2, 10, NULL);
    for (int i = 0; i < 4; i++) assert_int_equal(end_of(child[i]), TRI_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_squatter_is_not_waited_for),
                                       cmocka_unit_test(a_signal_ends_a_meeting), cmocka_unit_test(long_keys_meet)};
    return cmocka_run_group_tests_name("waits", tests, NULL, NULL);
}
