/* names.h - counts names in a folder: a process's descriptors, leftover shared memory. */
#ifndef TESTS_NAMES_H
#define TESTS_NAMES_H

#include <dirent.h>
#include <string.h>

/* Names that contain `word`; NULL: all. Fuzzers and the folders of other tests (tests/lib/scratch.h), which may run at
 * the same time, do not count. */
static inline int names(const char *folder, const char *word) {
    int n = 0;
    DIR *opened = opendir(folder);
    if (!opened) return 0;
    for (struct dirent *entry; (entry = readdir(opened));)
        n += !word || (strstr(entry->d_name, word) && !strstr(entry->d_name, "fuzz") &&
                       !strstr(entry->d_name, "-test-"));
    closedir(opened);
    return n;
}

#endif
