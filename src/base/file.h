/* file.h - files, folders and paths: the only place where paths are opened, created, renamed and removed (tools/lint).
 * Failures name the path and the cause: TRI_NOINPUT if it is missing, TRI_RESOURCE if out of memory or descriptors,
 * TRI_IO otherwise; so TRI_DATA always means invalid content.
 *
 * Trident's own files (in a run folder, a checkpoint, a cache) are regular files: a symbolic link, a pipe or a device
 * in their place is refused, never followed or waited for. The path to the folder may contain links. */
#pragma once

#include "base/stop.h"

#include <time.h>

enum { TRI_PATH_MAX = 4096 };

/* ---- reading ---- */

/* Opens a file for reading; also returns its size. Refuses anything but a regular file, without waiting for a pipe. */
tri_status tri__file_open(const char *path, int *fd, size_t *size);
/* The same for a name read from a file (an index, a manifest): a plain name, or a relative path of plain names.
 * Symbolic links are not followed in any part, so the file is always inside `folder`; TRI_DATA, naming the part,
 * otherwise. */
tri_status tri__file_open_listed(const char *folder, const char *name, int *fd, size_t *size);
/* Opens a user's input for sequential reading: a file, or a pipe, which is waited for. */
tri_status tri__file_open_any(const char *path, int *fd);
/* The whole file and a terminating 0 byte; the caller frees it. Refuses more than `limit` bytes (TRI_DATA) and anything
 * but a regular file. */
tri_status tri__file_read(const char *path, size_t limit, char **text, size_t *size);
/* The first size - 1 bytes of a system file (such as in /proc, where files have no length) and a 0 byte; "" if it
 * cannot be read. */
void tri__file_start(const char *path, char *text, size_t size);
uint64_t tri__file_number(const char *path);                /* the inode; 0 if there is no such file */

/* ---- writing ---- */

/* Writes one of our own files atomically: to a temporary sibling, fsync, rename. */
tri_status tri__file_write(const char *path, const void *data, size_t size);

/* A user's output, which appears under its name when it is whole. Follows links, and accepts pipes (with a reader),
 * terminals and /dev/stdout, which are written into. `replaces`: an existing file is replaced, and its permissions are
 * kept; else TRI_BUSY, also if it was made in the meantime. */
typedef struct tri_delivery {
    int fd, replaces;
    char path[TRI_PATH_MAX]; /* with links resolved */
    char made[TRI_PATH_MAX]; /* a temporary sibling; "": what is written goes straight into the path */
} tri_delivery;
tri_status tri__delivery_begin(tri_delivery *delivery, const char *path, int replaces);
/* Closes fd and commits; if `status` is a failure, drops what was written and returns it. */
tri_status tri__delivery_end(tri_delivery *delivery, tri_status status);
tri_status tri__file_deliver(const char *path, const void *data, size_t size, int replaces); /* all at once */
int tri__path_is_open_file(const char *path); /* a name of a descriptor, such as /dev/stdout: it is appended to */

/* TRI_OK if tri__file_write could write there: the name is free or a regular file. */
tri_status tri__file_check_own(const char *path);

typedef enum tri_own_way {
    TRI_OWN_NEW,    /* write; the name must be free */
    TRI_OWN_FRESH,  /* write; an existing file is removed first, so that its hard links keep their content */
    TRI_OWN_APPEND, /* append; created if missing */
    TRI_OWN_UPDATE  /* read and write; created if missing */
} tri_own_way;
tri_status tri__file_own(const char *path, tri_own_way way, int *fd);
/* Creates "PATH.tmp-<process>-<n>" for reading and writing. */
tri_status tri__file_sibling(const char *path, char name[static TRI_PATH_MAX], int *fd);
tri_status tri__file_nameless(const char *folder,
                              int *fd); /* an unnamed file, freed on the last close; read and write */
tri_status tri__null_open(int *fd);                         /* /dev/null, for reading and writing */
/* Opens /dev/null on those of descriptors 0 to 2 that are closed: else the next file opened would become one of them,
 * and output would go into it. *no_output: 1: stdout is one of them. */
tri_status tri__standard_open(int *no_output);
/* From now on writing to stdout fails, and so does opening it by name: it becomes a folder. */
tri_status tri__output_refuse(void);
/* Writes all or fails; continues after signals and short writes. `path` is for the message. */
tri_status tri__write_all(int fd, const void *data, size_t size, const char *path);
tri_status tri__write_at(int fd, uint64_t at, const void *data, size_t size, const char *path);
tri_status tri__file_resize(int fd, uint64_t size, const char *path); /* ftruncate; continues after signals */
/* 0, or -1 and errno. The descriptor is closed in any case; a signal that came meanwhile is no error. */
int tri__close(int fd);
/* Closes one that was only read from, if it is open. */
void tri__fd_drop(int *fd);
/* Fails with "cannot VERB PATH: cause" and the status that matches errno; `missing` if the path does not exist. */
tri_status tri__fail_errno(const char *verb, const char *path, tri_status missing);
tri_status tri__file_bring(const char *path); /* to disk, whoever wrote it; TRI_OK if there is no such file */
int tri__file_sync(int fd, const char *path); /* fsync: 0, or -1 and errno; `path` is for who watches (file_call.h) */

/* ---- names ---- */

/* Each 0, or -1 and errno. */
int tri__file_remove(const char *path);                     /* a link itself, not its target; 0 if there is none */
typedef enum tri_rename {
    TRI_RENAME_REPLACE,  /* a file or an empty folder */
    TRI_RENAME_EXCHANGE, /* swaps the two names atomically */
    TRI_RENAME_NEW       /* the name must be free: EEXIST */
} tri_rename;
int tri__path_rename(const char *from, const char *to, tri_rename way);
/* Whether both paths lead to one file, by whatever links. */
int tri__file_same(const char *a, const char *b);
/* Whether the path is that existing file, or a folder that holds it or a link to it, however deep. */
int tri__path_holds(const char *path, const char *file);
int tri__file_touch(const char *path);                      /* its time becomes the current one */
/* Identity, size and time of a file or folder; all 0: there is none, or it cannot be looked at. */
typedef struct tri_stamp {
    uint64_t device, inode, size;
    struct timespec time; /* of the last change */
} tri_stamp;
tri_stamp tri__path_stamp(const char *path);
int tri__path_real(const char *path, char out[static TRI_PATH_MAX]); /* with links resolved; 0: failed */

typedef enum tri_kind { TRI_KIND_NONE, TRI_KIND_FILE, TRI_KIND_FOLDER, TRI_KIND_OTHER } tri_kind;
/* The kind of a path's target, following links. Fails if it cannot be determined, so that "none" is certain. */
tri_status tri__path_kind(const char *path, tri_kind *kind);
/* *there: 1 if the path is a file, or a folder; 0 if it is not, which is certain. */
tri_status tri__file_there(const char *path, int *there);
tri_status tri__folder_there(const char *path, int *there);
int tri__is_file(const char *path);                         /* for hints only: 0 also if unknown */
int tri__is_folder(const char *path);
int tri__path_mode(const char *path);                       /* permissions, as in 0644; 0 also if unknown */

/* "folder/name" into `out`; an absolute name replaces it. TRI_USAGE if too long. */
tri_status tri__path_join(char out[static TRI_PATH_MAX], const char *folder, const char *name);
/* The same as a declaration: `TRI_PATH(path, folder, "manifest.json");`; returns the failure where it is too long. */
#define TRI_PATH(path, folder, name) \
    char path[TRI_PATH_MAX];         \
    TRI_TRY(tri__path_join(path, folder, name))

/* The folder that holds a path's last name; "." if there is no slash before it. TRI_USAGE if too long. */
tri_status tri__path_parent(const char *path, char out[static TRI_PATH_MAX]);

/* ---- folders ---- */

typedef struct tri_names {
    char **name; /* [n], sorted; without . and .. */
    int n;
} tri_names;
tri_status tri__folder_list(const char *path, tri_names *names); /* all, or an error; TRI_NOINPUT: no such folder */
void tri__names_free(tri_names *names);                     /* accepts a zeroed one */

tri_status tri__folder_make(const char *path);              /* and its parents; new names are synced */
tri_status tri__folder_create(const char *path);            /* without parents; the name must be free */
/* Replaces the six X at the end of the path, to get an unused name. */
tri_status tri__folder_temporary(char path[static TRI_PATH_MAX]);
/* Links, at the path or inside the folder, are removed; their targets are not. */
tri_status tri__folder_remove(const char *path);            /* and its files; a subfolder is an error */
tri_status tri__folder_remove_all(const char *path);        /* recursively; TRI_OK if missing */
tri_status tri__folder_sync(const char *path);              /* fsync of a folder */
/* Checks that the folder, created if missing, is writable: writes a temporary file, syncs and removes it; TRI_IO if
 * that fails. `who` makes the file name unique among concurrent callers. */
tri_status tri__folder_probe(const char *path, int who);

/* ---- lock.c: advisory locks on open files (flock), acquired with a timeout: a lock that is never released does not
 * block us indefinitely ---- */

typedef enum tri_lock_result {
    TRI_LOCK_TAKEN,
    TRI_LOCK_HELD,        /* by another process, until the timeout */
    TRI_LOCK_STOPPED,     /* a signal ended the wait */
    TRI_LOCK_NONE         /* the file system does not support locks, or has none left: see errno */
} tri_lock_result;

/* operation: LOCK_SH or LOCK_EX. Released when the last duplicate of this descriptor is closed. */
tri_lock_result tri__lock(int fd, int operation, double seconds, const tri_stop *stop);
/* The holder of a lock on the open file: "process 1234", or "another process" if unknown. Written to `out`, which is
 * returned. */
const char *tri__lock_holder(int fd, char out[static 32]);
/* Whether a process holds the lock of the run in a folder: that of its file .lock. */
int tri__lock_held(const char *folder);

/* ---- workshop.c: a temporary folder in which an output is made before it gets its name. One that a killed process
 * left is removed by the next that is opened in the same place. ---- */

typedef struct tri_workshop {
    char folder[TRI_PATH_MAX]; /* "PARENT/.trident-", and six letters */
    int lock;                  /* held while it is open */
} tri_workshop;

tri_status tri__workshop_open(const char *parent, tri_workshop *workshop); /* nothing to close after a failure */
void tri__workshop_close(tri_workshop *workshop); /* removes it and what is still in it */
