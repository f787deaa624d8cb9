/* trident_table.h - tables in memory, and whole commands on them, for programs that have their data at hand: notebooks,
 * services, bindings of other languages. python/trident is written on top of this header.
 *
 *     tri_tables *tables;
 *     tri_tables_open(&tables);
 *     tri_tables_add(tables, "train", NULL, &stream);      an ArrowArrayStream: pandas, polars, pyarrow, duckdb, ...
 *     const char *words[] = {"train", "--config=run.json", "--data-path=memory:train", "--output-dir=run"};
 *     tri_run_command(4, words, &(tri_caller){.tables = tables, .event = event});
 *     tri_tables_close(tables);
 *
 * examples/table.c is a complete program. */
#ifndef TRIDENT_TABLE_H
#define TRIDENT_TABLE_H

#include "trident.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The Arrow C data and stream interfaces: https://arrow.apache.org/docs/format/CDataInterface.html */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};
#endif

/* ---- Tables in memory ----
 *
 * Tables by name. Wherever a command, a session or a model takes --data-path, "memory:NAME" is the table NAME, and
 * "memory:NAME+NAME" is what a folder with tables of these names is (train, valid, test). Columns are read like those
 * of Arrow files. Values are not copied: the arrays of a stream are held until tri_tables_close. */
typedef struct tri_tables tri_tables;

TRI_API tri_status tri_tables_open(tri_tables **tables);
/* Adds the columns of a stream to a table, which begins with its first; every later stream must have as many rows, in
 * batches of any size. column NULL: the stream is of structures, each field a column. Else it has this one column: a
 * stream of values, or of structures with one field. The stream is read and released, even when this fails: TRI_DATA
 * for arrays that contradict themselves, row counts that differ, or a column that is there already. */
TRI_API tri_status tri_tables_add(tri_tables *tables, const char *table, const char *column,
                                  struct ArrowArrayStream *stream);
TRI_API int64_t tri_tables_rows(const tri_tables *tables, const char *table); /* -1: there is no such table */
/* Writes a table as an Arrow stream to a regular file, or one in memory (memfd_create): for another process. */
TRI_API tri_status tri_tables_write(const tri_tables *tables, const char *table, int file);
/* Nothing that reads them may be open: sessions, calls. Accepts NULL. */
TRI_API void tri_tables_close(tri_tables *tables);

/* tri_session_open on tables in memory; --data-path says which. They must stay until the session is closed. */
TRI_API tri_status tri_session_open_tables(const tri_tables *tables, int n_options, const char *const *options,
                                           tri_session **session);
/* tri_model_predict for all rows of a table: probabilities [rows, classes]. stop: another thread sets it to other than
 * 0 to end this early (TRI_STOPPED); NULL: nobody does. */
TRI_API tri_status tri_model_predict_table(tri_model *model, const tri_tables *tables, const char *table,
                                           float *probabilities, const volatile int *stop);

/* ---- Commands ----
 *
 * What the program `trident` does, in this process: same words, same results, same messages. Several threads may call
 * commands at once. Nothing is printed, no signal is handled, and of the environment only the places of files are read
 * (HOME, HF_HOME, ...), nothing that a launcher sets. Commands that take over a process (serve, watch, supervise) and
 * runs of several processes (--nproc-per-node above 1, --folds, --seeds, sweep) are TRI_USAGE: start the program for
 * these. */
typedef enum tri_output_kind {
    TRI_OUTPUT_RESULT,  /* what the program writes to stdout */
    TRI_OUTPUT_MESSAGE  /* and to stderr: messages, warnings, progress in whole lines; not the error, which tri_error()
                           has */
} tri_output_kind;

typedef struct tri_caller {
    const tri_tables *tables;  /* of memory:NAME; NULL: none */
    /* Called for output as it comes; NULL: it is dropped. */
    void (*output)(void *context, tri_output_kind kind, const char *text, size_t n);
    /* Called by `train` for each event of the run, as it is written to metrics.jsonl: a JSON object in one line, not
     * 0-terminated. Other than 0: the run ends after the step in progress, with a checkpoint (TRI_STOPPED). NULL: not
     * wanted. Both are called on the calling thread. */
    int (*event)(void *context, const char *line, size_t n);
    void *context;
    /* Another thread sets it to other than 0 to end the command early, as SIGINT ends the program: `train` saves a
     * checkpoint. NULL: nobody does. */
    const volatile int *stop;
} tri_caller;

TRI_API tri_status tri_run_command(int n_words, const char *const *words, const tri_caller *caller);

/* The program itself: what main() of `trident` calls. It takes over the process: signals, streams, environment; before
 * some commands it executes the program again. Returns the exit code. */
TRI_API int tri_main(int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
