/* cli.h - what the commands share. A command is a row of commands.def and a file. An option's row lists the
 * commands that take it; options of a single command are rows in that command's file. Errors are returned and printed
 * only in program.c. stdout carries results only. */
#pragma once

#include "base/file.h"
#include "job/parent.h"
#include "settings/settings.h"
#include "train/events.h"
#include "train/stop.h"
#include "trident_table.h"

/* What a command finds outside of it: the process of program.c, or what a caller of tri_run_command gives. */
typedef struct tri_cli {
    FILE *out, *err;          /* results; progress and errors */
    int out_color, err_color; /* may be coloured */
    int err_terminal;         /* err is a terminal: a progress line may be redrawn */
    int width;                /* of err, in columns; 0: unknown */
    const char *path;         /* $PATH; "" when unset */
    char *(*lookup)(const char *name); /* getenv, for variables that launchers set */
    char **argv, **environment; /* of this process; passed to the ranks it starts */
    tri_stop *stop;           /* stop requests, if the command handles signals (signals.c); else NULL */
    int reloads;              /* SIGHUP asks ranks to load their model again, not to stop */
    const tri_caller *caller;   /* of tri_run_command: the process has other work too; NULL: it is the program's */
    int reported;             /* set by a command whose failure has already been printed */
    tri_parent parent;        /* all this for what it starts: tri__cli_parent (launch.h) */
} tri_cli;

/* What a command is called with: its arguments, and what they mean. The caller frees it. */
typedef struct tri_command_call {
    int n;
    const char *const *args; /* [n] after the command's name */
    tri_settings settings;
    void *own;               /* the struct that its own rows fill; NULL: it has none */
    const char **words;      /* [n_words] bare words */
    int n_words;
    tri_sink sink;           /* progress and messages on stderr */
    tri_log log;             /* to that sink */
} tri_command_call;

typedef struct tri_command {
    const char *name;
    const char *words;   /* bare words it takes, for the synopsis: " CHECKPOINT"; NULL */
    const char *summary; /* one line */
    const char *example; /* one line; NULL */
    const char *folder;  /* its own default of --output-dir; NULL: the row's */
    const tri_option *own; /* rows of options that only this command has; NULL: none */
    int model;           /* also accepts the model's keys */
    int prints_little;   /* its result is a run or a service: a closed stdout is not a failure */
    int hidden;          /* 1: named without its summary in the short help; 2: not named */
    const char *shown;   /* options that the short help shows first, comma-separated; NULL: in the order of the rows */
    int parallel;        /* computes on several threads */
    int most_words;      /* bare words it takes at most */
    int signals;         /* tri_signal_words: it handles signals, with this reply to the first; 0: it does not */
    int alone;           /* takes over its process, or starts others: not for tri_run_command */
    int ranks;           /* a launcher may have started it on every rank: all refuse wrong options, one says so */
    int unparsed;        /* reads its arguments itself: of tri_command_call only n and args are set */
    tri_status (*run)(tri_cli *cli, tri_command_call *call);
} tri_command;
enum { TRI_WORDS_ANY = 1 << 30, TRI_WORDS_RUNS = 24, TRI_WORDS_MODELS = 64 }; /* any; of report; of serve */

extern const tri_command tri__commands[]; /* ends with a NULL name */
const tri_command *tri__command_find(const char *name);

typedef struct tri_exit_code {
    tri_status code;
    const char *meaning;
} tri_exit_code;
extern const tri_exit_code tri__exit_codes[]; /* ends with a NULL meaning */

/* The next row after `row` that the command takes on the command line: its own, those of runs, those of the model. NULL
 * for `row`: the first; NULL: there is none. */
const tri_option *tri__command_option(const tri_command *command, const tri_option *row);
/* An option's choices without their aliases, joined by `join` ("none, zero1, zero2"), written to `out`, which is
 * returned. */
const char *tri__option_choices(const tri_option *row, const char *join, char out[static 256]);
/* An option's default for a command, formatted for help texts; "" if unset. */
const char *tri__option_default(const tri_option *row, const tri_command *command);

/* all: every command or option, however many lines that takes; else what fits on a screen. */
void tri__help_main(const tri_cli *cli, FILE *out, int all);
void tri__help_command(const tri_cli *cli, const tri_command *command, int all);

/* Runs a command: args [n] begins with its name. no_output: stdout was closed, and what is printed would be lost. */
tri_status tri__cli_run(tri_cli *cli, int no_output, int n, const char *const *args);
/* TRI_USAGE unless this process is the program's. */
tri_status tri__cli_alone(const tri_cli *cli, const char *what);
/* Also "--no_color" for "--no-color". Arguments after "--" are not options. */
int tri__cli_has_flag(int n, const char *const *args, const char *name);
/* Prints the error of a command that failed, once. */
void tri__cli_report(tri_cli *cli, tri_status status);
/* One JSON object on one line of `out`. */
tri_status tri__print_json(FILE *out, const tri_json *value);
/* The same of a value whose reference it takes. */
tri_status tri__print_json_new(FILE *out, tri_json *value);
/* Adds the members of an object whose reference it takes. */
void tri__merge_new(tri_json *object, tri_json *members);
/* A table of results, which it frees. */
struct tri_text_table;
tri_status tri__print_table(const tri_cli *cli, struct tri_text_table *table);
/* spread_table.c, of what tri__members_json made: a row for each member, its title the value of `title` ("fold",
 * "folder"), then with `moments` mean and spread. Nothing where there are no figures. */
tri_status tri__members_print(const tri_cli *cli, const tri_json *facts, const char *list, const char *title,
                              int moments);
/* Parses options into new settings, which the caller frees even after a failure. own: the struct that the command's own
 * rows fill, freed with the settings; NULL: it has none. At most max_words bare words. */
tri_status tri__cli_settings(const tri_cli *cli, tri_settings *settings, const char *command, void *own, int n,
                             const char *const *args, const char **words, int max_words, int *n_words);

/* ---- output.c: files that a command writes where the user says: -o, --svg, --write-config. Never one of its inputs,
 * and an existing file only with --force. ---- */

typedef struct tri_output {
    const char *option;       /* as the user writes it, for messages: "-o" */
    const char *path;         /* NULL: none */
    const char *own;          /* the command's own file, which it replaces without --force; NULL: none */
    int appends;              /* a log: an existing file is continued */
    const char *const *words; /* [n_words] inputs given as bare words */
    int n_words;
} tri_output;

/* Fails before anything is computed where the output could not be written in the end: TRI_USAGE if it is one of the
 * inputs (the files and folders that options, the configuration and words name), by whatever link; TRI_BUSY if it
 * exists and neither --force nor `own` allows to replace it; TRI_IO if its folder is missing. */
tri_status tri__output_check(const tri_settings *settings, const tri_output *output);
/* Whether an existing file may be replaced, for tri__file_deliver. */
int tri__output_replaces(const tri_settings *settings, const tri_output *output);
/* What `put` prints goes to stdout, or with -o to its file, atomically: whole or not at all. what: for messages. */
tri_status tri__output_write(const tri_cli *cli, const tri_settings *settings, const char *what,
                             tri_status (*put)(void *context, FILE *out), void *context);

/* ---- machine_files.c: the hardware that commands predict with where none is given, its peaks, and Hugging Face's
 * cache of models ---- */

/* The file of the peaks that were measured: peaks.json in $XDG_CACHE_HOME/trident or ~/.cache/trident. The caller frees
 * *out; NULL: neither variable is set. */
tri_status tri__cli_peaks(char **out);
/* The file of `trident calibrate` for a device: hardware-DEVICE.json in $XDG_CONFIG_HOME/trident or
 * ~/.config/trident. TRI_USAGE when neither variable is set. */
tri_status tri__cli_calibrated(const char *device, char path[static TRI_PATH_MAX]);
/* Sets settings->calibrated if there is such a file; with `needs`, also --hardware where it was not given: to that file
 * or the device's built-in hardware. */
tri_status tri__cli_hardware(tri_settings *settings, int needs);
/* The folder of the cache: HF_HUB_CACHE, else HF_HOME/hub, else huggingface/hub of XDG_CACHE_HOME or ~/.cache. The
 * caller frees *out; NULL: none of them is set. */
tri_status tri__cli_hub(char **out);

/* ---- signals.c: signals that ask a run to stop gracefully ---- */

/* Installs handlers: SIGTERM, SIGINT, SIGHUP and SIGUSR1 are recorded in cli->stop, which is set here, and `words` are
 * printed on stderr, unless another process prints them. A second signal ends the process immediately, if it comes
 * after a short debounce interval or if both came from the keyboard. Reads SLURM_JOB_END_TIME and the variables of
 * launchers. */
void tri__signals_take(tri_cli *cli, tri_signal_words words);
/* Changes the message, as when training begins. A silent process stays silent. */
void tri__signals_say(tri_signal_words words);
const char *tri__signals_text(tri_signal_words words); /* "" if silent */
/* What was asked for is done, and only the process itself has to end: SIGTERM, SIGINT and SIGHUP end it again, SIGUSR1,
 * which asks for a stop, is ignored. seconds: if it has not ended by then, it does, with exit code `code`; 0: no
 * limit. */
void tri__signals_end(int seconds, int code);

/* For a server: SIGTERM and SIGINT ask it to end (a second one ends it at once), SIGHUP to load its models again;
 * SIGPIPE is ignored. */
typedef enum tri_server_signal { TRI_SERVER_END, TRI_SERVER_RELOAD } tri_server_signal;
void tri__signals_serve(tri_cli *cli);
tri_server_signal tri__signals_wait(void); /* several reloads that wait are one */

/* For a viewer: SIGTERM, SIGINT and SIGHUP end it, without a word; a resized window wakes it. */
void tri__signals_view(tri_cli *cli);
int tri__signals_pause(double seconds); /* 1: it should end; 0: the time is over, or the window has another size */

/* ---- sinks.c: where a run's events go: stderr, and for training the files of the run folder ---- */

/* Progress and messages on stderr; close with tri__progress_close. */
tri_status tri__cli_progress(const tri_cli *cli, int quiet, tri_sink *sink);

/* The outcome of a training run. */
typedef struct tri_outcome {
    int64_t step;     /* last step taken */
    char *checkpoint; /* folder of the last checkpoint; NULL: none */
    tri_json *summary;  /* NULL if the run did not finish */
    int unchanged;    /* it had finished before: nothing was trained or written */
} tri_outcome;
void tri__outcome_free(tri_outcome *outcome);

/* Whether the run, which has ended in this world, may go on in another: a rank failed, or others join. */
int tri__goes_on(const tri_settings *settings, const tri_world *world);

/* Trains with every sink: progress, metrics, tfevents, traces, summary. A run that fails after its start leaves
 * error.json. `world`: this rank's world; NULL: a single process. */
tri_status tri__train_with_sinks(tri_cli *cli, const tri_settings *settings, tri_world *world, tri_outcome *outcome);

/* report.c: the page that a run leaves in its folder.
 *
 * Writes report.html; does nothing where the folder has no run. A page that cannot be written is a warning on `err`;
 * the text of an earlier failure stays. */
void tri__report_write(const tri_cli *cli, const char *folder);

/* ---- plan_*.c: what `trident plan` and `trident simulate` print in addition to tables of memory, from the facts of
 * study/study.h ---- */

/* The step as text: a row per rank, letters F, B, W, U with the microbatch's number after the first, dots where it is
 * idle. */
tri_status tri__print_timeline(const tri_cli *cli, const tri_json *simulation);
/* tri__output_check of --svg and --attention-map; words [n_words]: files of programs. */
tri_status tri__pictures_check(const tri_settings *settings, const char *const *words, int n_words);
/* The step as an SVG picture, to the file of --svg. Does nothing without --svg. */
tri_status tri__write_timeline(const tri_settings *settings, const tri_json *simulation);
/* The patterns of attention as an SVG picture, to the file of --attention-map. Does nothing without it. */
tri_status tri__write_map(const tri_settings *settings);
/* How each rank spends its time, and the activations it holds. */
tri_status tri__print_spent(const tri_cli *cli, const tri_json *simulation);
tri_status tri__print_params(const tri_cli *cli, const tri_json *params);

/* ---- layout_table.c: layouts side by side, simulated (choose) or measured (bench lab): one form of table, as text,
 * Markdown, JSON and an HTML page; and layouts that the user writes down ---- */

/* A table is an object: title, rule (what "x one device" compares with), rows. A row has, "" or 0 where unknown:
 *   model, hardware, ranks, layout
 *   memory_bytes, state_bytes       planned, of the rank that needs most; state: weights, gradients, optimizer state
 *   held_bytes                      measured, of the process
 *   fits, step_seconds, samples_per_second
 *   times, efficiency               throughput against one device; that by the ranks
 *   gather, reduce_scatter, all_reduce, recv
 *                                   shares of the step in which such transfers are under way, mean of ranks
 *   exposed, waiting                shares in which ranks wait for bytes, and for others
 *   sent_bytes, note, command
 * Columns that no row has are left out. */

/* TRI_USAGE before anything is computed where -o names no form (.txt, .md, .json, .html), or a file that cannot be
 * written. */
tri_status tri__layout_table_check(const tri_settings *settings);
/* Takes the reference. To -o in the form of its ending, else to stdout: JSON with --json, else text. */
tri_status tri__layout_table_print(const tri_cli *cli, const tri_settings *settings, tri_json *table);

/* A layout that was written down: "pp=2,dp=4,shard=zero3", as options "--pp-size=2". Values with commas need no
 * quotes: what has no "=" belongs to the value before it. */
enum { TRI_LAYOUT_WORDS = 16, TRI_LAYOUT_WORD = 160 };
typedef struct tri_layout_words {
    char name[TRI_LAYOUT_WORD];
    char model[TRI_LAYOUT_WORD]; /* "model=NAME": of this model only; "": of all */
    char word[TRI_LAYOUT_WORDS][TRI_LAYOUT_WORD];
    int n;
} tri_layout_words;
/* The i-th of layouts separated by ";" in the words of a list; *found 0: there are fewer. TRI_USAGE: too long. */
tri_status tri__layout_words(const tri_texts *asked, int i, tri_layout_words *out, int *found);

/* A row of a command's own options; `type` is the struct that it fills. */
#define TRI_OWN_ROW(type, command, kind_, field_, ...) \
    {.name = #field_, .kind = TRI_OPTION_##kind_, .offset = offsetof(type, field_), .commands = command, \
     .effect = TRI_EFFECT_UNRECORDED, __VA_ARGS__}
/* The end of these rows has the size of the struct. */
#define TRI_OWN_END(type) {.offset = sizeof(type)}
#define TRI_COMMAND(name, ...) \
    tri_status tri__command_##name(tri_cli *cli, tri_command_call *call); \
    extern const tri_option tri__##name##_options[]; /* where it has its own */
#include "cli/commands.def"
