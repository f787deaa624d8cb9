/* file.h - files, folders and paths: the only place where names are opened, made, renamed and removed (tools/lint).
 * Failures name the path and the cause: TRI_NOINPUT when it is missing, TRI_RESOURCE when out of memory or descriptors,
 * TRI_IO otherwise; so TRI_DATA always means that content is proven wrong.
 *
 * A file of our own (in a run folder, a checkpoint, a cache) is a regular file: a symbolic link, a pipe or a device in
 * its place is refused, never followed, never waited for. The folder itself may be reached through links. */
#ifndef TRI_BASE_FILE_H
#define TRI_BASE_FILE_H

#include "base/status.h"

enum { TRI_PATH_MAX = 4096 };

/* ---- reading ---- */

/* A descriptor for reading, and the size. Refuses anything but a regular file, and does not wait for a pipe. */
tri_status tri__file_open(const char *path, int *fd, size_t *size);
/* The same for a name that comes out of a file (an index, a manifest): plain, or with plain folders before it. Symbolic
 * links are not followed in any part of the name, so it stays in `folder`; TRI_DATA naming what is
 * not a regular file. */
tri_status tri__file_open_listed(const char *folder, const char *name, int *fd, size_t *size);
/* A descriptor for what a user gives to be read from front to end: pipes as well, which are waited for. */
tri_status tri__file_open_any(const char *path, int *fd);
/* The whole file, a 0 byte after it; the caller frees it. Refuses more than `limit` bytes (TRI_DATA) and what is no
 * regular file. */
tri_status tri__file_read(const char *path, size_t limit, char **text, size_t *size);
/* The first size - 1 bytes of one of the system's files, which have no length, and a 0 byte; "" when it cannot be
 * read. */
void tri__file_start(const char *path, char *text, size_t size);
uint64_t tri__file_number(const char *path);                /* the inode; 0 when there is none */

/* ---- writing ---- */

/* A file of our own: to a temporary sibling, fsync, rename. */
tri_status tri__file_write(const char *path, const void *data, size_t size);
/* Where a user says: through links, and into pipes (that somebody reads), terminals and /dev/stdout as well. A regular
 * file appears whole. */
tri_status tri__file_deliver(const char *path, const void *data, size_t size);
/* TRI_OK when tri__file_write could put a file of our own there: nothing, or a regular file. */
tri_status tri__file_check_own(const char *path);

typedef enum tri_own_way {
    TRI_OWN_NEW,    /* write; nothing may have the name */
    TRI_OWN_FRESH,  /* write; a file of that name goes first, so that other names of it keep their content */
    TRI_OWN_APPEND, /* write at the end; made where missing */
    TRI_OWN_UPDATE  /* read and write; made where missing */
} tri_own_way;
tri_status tri__file_own(const char *path, tri_own_way way, int *fd);
/* A new file "PATH.tmp-<process>-<n>", for reading and writing. */
tri_status tri__file_sibling(const char *path, char name[static TRI_PATH_MAX], int *fd);
tri_status tri__file_nameless(const char *folder, int *fd); /* gone when its last user is; for reading and writing */
tri_status tri__null_open(int *fd);                         /* /dev/null, for reading and writing */
/* Descriptors 0 to 2 that are closed get /dev/null: else the next file would be one of them, and be printed into. */
tri_status tri__standard_open(void);
/* All of it or an error; restarts after signals and short writes. `path` stands in the message. */
tri_status tri__write_all(int fd, const void *data, size_t size, const char *path);

/* ---- names ---- */

/* Each 0, or -1 and errno. */
int tri__file_remove(const char *path);                     /* the name, not what a link leads to; none there: fine */
/* Replaces a file or an empty folder, or with `exchange` changes places with what is there. */
int tri__path_rename(const char *from, const char *to, int exchange);
int tri__path_real(const char *path, char out[static TRI_PATH_MAX]); /* without links; 0: cannot be said */

typedef enum tri_kind { TRI_KIND_NONE, TRI_KIND_FILE, TRI_KIND_FOLDER, TRI_KIND_OTHER } tri_kind;
/* What a path leads to, links followed. Fails when that cannot be found out, so that "none" means: there is none. */
tri_status tri__path_kind(const char *path, tri_kind *kind);
int tri__is_file(const char *path);                         /* for hints and defaults: 0 also when nobody knows */
int tri__is_folder(const char *path);

/* "folder/name" into `out`; an absolute name alone. TRI_USAGE when it is too long. */
tri_status tri__path_join(char out[static TRI_PATH_MAX], const char *folder, const char *name);

/* ---- folders ---- */

typedef struct tri_names {
    char **name; /* [n], sorted; without . and .. */
    int n;
} tri_names;
tri_status tri__folder_list(const char *path, tri_names *names); /* all, or an error; TRI_NOINPUT: no such folder */
void tri__names_free(tri_names *names);                     /* accepts a zeroed one */

tri_status tri__folder_make(const char *path);              /* and its parents; an existing folder is fine */
tri_status tri__folder_create(const char *path);            /* only it; nothing may have the name */
/* The last six characters of the path, which are X, become a name that is free. */
tri_status tri__folder_temporary(char path[static TRI_PATH_MAX]);
/* A link in place of the folder, or in it, is removed itself; what it points to stays. */
tri_status tri__folder_remove(const char *path);            /* and the files in it; a folder in it is an error */
tri_status tri__folder_remove_all(const char *path);        /* and all that is in it; none there: fine */
tri_status tri__folder_sync(const char *path);              /* fsync of a folder */
/* Writes some bytes to a file of its own in the folder, which it makes where it is missing, brings them to disk and
 * removes them: TRI_IO when that is not possible. `who` tells apart those who do so at the same time. */
tri_status tri__folder_probe(const char *path, int who);

#endif
