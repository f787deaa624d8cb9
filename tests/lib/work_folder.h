/* work_folder.h - a test's folder, with the file in which its ranks note what they did. The test defines WORK_FOLDER, a
 * template of mkdtemp. */
#ifndef TESTS_WORK_FOLDER_H
#define TESTS_WORK_FOLDER_H

#include <stdio.h>
#include <stdlib.h>

static char folder[] = WORK_FOLDER, notes[64];

static int make_work(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    if (getenv("TRI_SANITIZED"))
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* of ranks: a look takes them seconds on arm64 */
    snprintf(notes, sizeof notes, "%s/notes", folder);
    return 0;
}

static int remove_work(void **state) {
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

#endif
