/* file.h - files and paths. Failures name the path and the cause: TRI_NOINPUT when it is missing,
 * TRI_RESOURCE when out of memory or descriptors, TRI_IO otherwise. */
#ifndef TRI_BASE_FILE_H
#define TRI_BASE_FILE_H

#include "base/status.h"

/* A descriptor for reading, and the size. Refuses what is no regular file, and does not wait for a pipe. */
tri_status tri__file_open(const char *path, int *fd, size_t *size);
/* The same for a name that comes out of a file (an index, a manifest): plain, or with plain folders before it. Symbolic
 * links are not followed in any part of the name, so it stays in `folder`; TRI_DATA naming the link. */
tri_status tri__file_open_listed(const char *folder, const char *name, int *fd, size_t *size);
/* The whole file, a 0 byte after it; the caller frees it. Refuses more than `limit` bytes (TRI_DATA) and what is no
 * regular file. */
tri_status tri__file_read(const char *path, size_t limit, char **text, size_t *size);
/* The first size - 1 bytes of one of the system's files, which have no length, and a 0 byte; "" when it cannot be read. */
void tri__file_start(const char *path, char *text, size_t size);
/* To a temporary sibling, fsync, rename. */
tri_status tri__file_write(const char *path, const void *data, size_t size);
/* All of it or an error; restarts after signals and short writes. `path` stands in the message. */
tri_status tri__write_all(int fd, const void *data, size_t size, const char *path);
tri_status tri__folder_make(const char *path);              /* and its parents; an existing folder is fine */
tri_status tri__folder_remove(const char *path);            /* and what is in it, one level of plain files */
tri_status tri__folder_sync(const char *path);              /* fsync of a folder */
/* Writes some bytes to a file of its own in the folder, which it makes where it is missing, brings them to disk and removes them: TRI_IO
 * when that is not possible. `who` tells apart those who do so at the same time. */
tri_status tri__folder_probe(const char *path, int who);
int tri__is_file(const char *path);
int tri__is_folder(const char *path);

enum { TRI_PATH_MAX = 4096 };
/* "folder/name" into `out`; an absolute name alone. TRI_USAGE when it is too long. */
tri_status tri__path_join(char out[static TRI_PATH_MAX], const char *folder, const char *name);

#endif
