/* program.c - the program `trident`: sets the process up, reads what the environment says of the terminal, and is the
 * one place that prints errors. The exit code is the command's tri_status. */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* NO_COLOR wins over FORCE_COLOR; both count if not empty (no-color.org, force-color.org). */
static int wants_color(FILE *file, int refused) {
    const char *no = getenv("NO_COLOR"), *force = getenv("FORCE_COLOR"), *term = getenv("TERM");
    if (refused || (no && *no)) return 0;
    if (force && *force) return strcmp(force, "0") != 0;
    return isatty(fileno(file)) && term && strcmp(term, "dumb") != 0;
}

/* libgomp calls exit(1) if it gets no memory or no thread; Trident itself never does. */
static void ended_by_library(int code, void *context) {
    static const char words[] =
        "trident: ended by a library that got no memory or no thread; its own message is above\n";
    (void)context;
    if (code != EXIT_FAILURE) return;
    (void)!write(STDERR_FILENO, words, sizeof words - 1);
    _exit(TRI_RESOURCE);
}

/* Columns of the terminal; without one, $COLUMNS. 0: unknown. */
static int columns(void) {
    struct winsize window = {0};
    const char *said = getenv("COLUMNS");
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col) return window.ws_col;
    return said && atoi(said) > 0 ? atoi(said) : 0;
}

/* OpenMP's threads spin at the end of each parallel loop for milliseconds (libgomp) to 200 ms (libomp), which costs
 * several times the work itself where other processes want the same cores. About 20 us bridge the gap between two
 * operations; then a thread sleeps. Both libraries read this from the environment while they are loaded, so the program
 * is executed once more (1 ms), unless the user chose a policy or there is one thread. */
static void wait_briefly(int argc, char **argv) {
#ifdef __x86_64__
    static const char spins[] = "500"; /* an iteration pauses for 40 to 140 cycles */
#else
    static const char spins[] = "10000";
#endif
    const tri_command *command = argc > 1 ? tri__command_find(argv[1]) : NULL;
    const char *threads = getenv("OMP_NUM_THREADS");
    char program[4096];
    if (!command || !command->parallel || (threads && !strcmp(threads, "1"))) return;
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || getenv("KMP_BLOCKTIME")) return;
    if (tri__cores() == 1) return;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program);
    if (length <= 0 || length == sizeof program) return;
    program[length] = 0;
    if (setenv("GOMP_SPINCOUNT", spins, 1) || setenv("KMP_BLOCKTIME", "0", 1)) return;
    execv(program, argv); /* if that fails, threads spin */
}

/* Where both streams go to one file (2>&1), lines keep the order in which they were written. A terminal does it. */
static void keep_order(void) {
    struct stat out, err;
    if (fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 && out.st_dev == err.st_dev &&
        out.st_ino == err.st_ino)
        (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
}

int tri_main(int argc, char **argv) {
    wait_briefly(argc, argv); /* first: what follows must see the streams as they were given */
    int no_output;
    if (tri__standard_open(&no_output) != TRI_OK) return TRI_IO; /* no stream to print an error to */
    signal(SIGPIPE, SIG_IGN); /* writing to a closed stdout is an error, not fatal */
    signal(SIGXFSZ, SIG_IGN); /* likewise beyond the file size limit */
    keep_order();
    const char **args = calloc((size_t)argc + 1, sizeof *args);
    if (!args || on_exit(ended_by_library, NULL)) {
        fputs("trident: no memory to begin\n", stderr);
        return TRI_RESOURCE;
    }
    for (int i = 1; i < argc; i++) args[i - 1] = argv[i];
    int n = argc > 0 ? argc - 1 : 0, plain = tri__cli_has_flag(n, args, "--no-color");
    const char *path = getenv("PATH"), *term = getenv("TERM");
    tri_cli cli = {
        .out = stdout,
        .err = stderr,
        .out_color = wants_color(stdout, plain),
        .err_color = wants_color(stderr, plain),
        .err_terminal = isatty(STDERR_FILENO) && strcmp(term ? term : "dumb", "dumb") != 0,
        .width = columns(),
        .path = path ? path : "",
        .lookup = getenv,
        .argv = argv,
        .environment = environ,
    };
    tri_status status = tri__cli_run(&cli, no_output, n, args);
    if ((fflush(stdout) || ferror(stdout)) && errno != EPIPE && status == TRI_OK)
        status = tri__fail(TRI_IO, "cannot write to stdout: %s", strerror(errno));
    tri__cli_report(&cli, status);
    free(args);
    if ((int)status == EXIT_FAILURE) { /* the code of a launcher (`supervise`), as it is */
        fflush(NULL);
        _exit(EXIT_FAILURE);
    }
    return (int)status;
}
