/* supervise.c - `trident supervise -- COMMAND...`: for ranks that mpirun or srun starts. Their launcher ends a whole job when it is asked
 * to end itself, so a wish reaches the ranks as SIGUSR1, which launchers pass on; and it is started again when the job crashed. */
#include "cli/signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT_START = 127 }; /* as shells have it */

static tri_status start(char *const *argv, pid_t *pid) {
    fflush(NULL);
    *pid = fork();
    if (*pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        setpgid(0, 0); /* a key on the terminal reaches this process alone */
        execvp(argv[0], argv);
        _exit(CANNOT_START);
    }
    return *pid > 0 ? TRI_OK : tri__fail(TRI_RESOURCE, "cannot start %s: %s", argv[0], strerror(errno));
}

/* Its exit code; a wish is passed on, once. A second one ends this process, and with it the command. */
static int wait_for(const tri_cli *cli, pid_t pid) {
    int status, told = 0;
    for (;;) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended < 0 && errno != EINTR) return TRI_INTERNAL;
        if (ended == pid) return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (!told && atomic_load(&cli->stop->signal)) {
            told = 1;
            kill(pid, SIGUSR1);
        }
        usleep(20 * 1000);
    }
}

/* What the same command line would do again. */
static int is_final(int code) {
    static const int final[] = {TRI_OK,   TRI_USAGE, TRI_DATA,    TRI_NOINPUT,   TRI_RESOURCE,
                                TRI_BUSY, TRI_IO,    TRI_STOPPED, TRI_NOTFINITE, CANNOT_START};
    for (size_t i = 0; i < sizeof final / sizeof *final; i++)
        if (code == final[i]) return 1;
    return 0;
}

static tri_status supervise(tri_cli *cli, const tri_settings *settings, char *const *argv) {
    tri__signals_take(cli, TRI_SIGNAL_PASSED_ON);
    for (int64_t restarts = 0;; restarts++) {
        pid_t pid;
        TRI_TRY(start(argv, &pid));
        int code = wait_for(cli, pid), asked = atomic_load(&cli->stop->signal);
        if (code == TRI_OK) return TRI_OK;
        if (code == CANNOT_START) return tri__fail(TRI_NOINPUT, "%s: cannot be started; is it on the PATH?", argv[0]);
        if (is_final(code) || asked || restarts == settings->max_restarts)
            return tri__fail((tri_status)code, "%s ended with exit code %d%s", argv[0], code,
                             code == TRI_STOPPED ? ": run again to go on" : "");
        fprintf(cli->err, "trident: %s ended with exit code %d; start %lld of %lld\n", argv[0], code, (long long)restarts + 2,
                (long long)settings->max_restarts + 1);
    }
}

tri_status tri__command_supervise(tri_cli *cli, int n, const char *const *args) {
    tri_settings settings;
    int split = 0, n_words = 0;
    while (split < n && strcmp(args[split], "--") != 0) split++;
    tri_status status = tri__cli_settings(&settings, "supervise", split, args, NULL, 0, &n_words);
    if (status == TRI_OK && split + 1 >= n)
        status = tri__fail(TRI_USAGE, "supervise what? e.g. `trident supervise --max-restarts 3 -- mpirun -np 4 trident train ...`");
    if (status == TRI_OK) status = supervise(cli, &settings, (char *const *)(args + split + 1));
    tri__settings_free(&settings);
    return status;
}
