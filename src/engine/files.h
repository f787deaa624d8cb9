/* files.h - a run's data files and its folder. */
#ifndef TRI_ENGINE_FILES_H
#define TRI_ENGINE_FILES_H

#include "base/file.h"
#include "base/stop.h"

/* Paths; "" for what is not there. */
typedef struct tri_data_files {
    char train[TRI_PATH_MAX], valid[TRI_PATH_MAX], test[TRI_PATH_MAX];
} tri_data_files;

/* `path` is a table (then it is all three) or a folder of train, valid (or val) and test tables. */
tri_status tri__data_files(const char *path, tri_data_files *files);

/* Takes a run folder for this process: makes it, proves that it can be written, locks it. Waits 5 s for another run,
 * then TRI_BUSY naming the process that holds it; TRI_STOPPED when `stop` (NULL: nobody asks) ended the wait; TRI_IO on
 * a file system without locks. *lock is closed to release it. */
tri_status tri__folder_lock(const char *folder, const tri_stop *stop, int *lock);

#endif
