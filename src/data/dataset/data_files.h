/* data_files.h - a run's data files and its folder. */
#pragma once

#include "base/file.h"
#include "base/stop.h"

/* Paths; "" where there is none. */
typedef struct tri_data_files {
    char train[TRI_PATH_MAX], valid[TRI_PATH_MAX], test[TRI_PATH_MAX];
    int one; /* 1: all three are the same table: a file, or a name with an asterisk for several (data/table/parts.h) */
} tri_data_files;

/* `path` is a table (used for all three) or a folder of train, valid (or val, validation) and test tables, or one that
 * has them in data/. A table in parts is a path with an asterisk. */
tri_status tri__data_files(const char *path, tri_data_files *files);
/* The table that a model is scored on: the file itself; of a folder its test file, else its validation file. */
tri_status tri__data_scored(const char *path, char out[static TRI_PATH_MAX]);

/* Acquires a run folder for this process: creates it, checks that it is writable, locks it. Waits 5 s for another run,
 * then TRI_BUSY naming the process that holds it; TRI_STOPPED when `stop` (may be NULL) ended the wait; TRI_IO on a
 * file system without locks. Close *lock to release it. */
tri_status tri__folder_lock(const char *folder, const tri_stop *stop, int *lock);
