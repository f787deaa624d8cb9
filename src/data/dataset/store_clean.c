/* store_clean.c - keeps the cache from growing without limit: files that no run can use are removed when the next store
 * is built. A file is removed only under an exclusive lock, and readers and writers of a store hold a shared one
 * (store.c); so a file in use is never touched. */
#include "data/dataset/store.h"

#include <ctype.h>
#include <sys/file.h>
#include <unistd.h>

static const char ending[] = ".tokens", temporary[] = ".tmp-";
enum { KEY_DIGITS = 32 };

/* What follows "<key>.tokens"; NULL for other names: the folder may contain unrelated files. */
static const char *after_name(const char *name) {
    size_t digits = strspn(name, "0123456789abcdef");
    if (digits != KEY_DIGITS || strncmp(name + digits, ending, sizeof ending - 1) != 0) return NULL;
    return name + digits + sizeof ending - 1;
}

/* "<key>.tokens.tmp-<process>-<attempt>", which store.c writes. */
static int is_temporary(const char *rest) {
    return strncmp(rest, temporary, sizeof temporary - 1) == 0 && isdigit((unsigned char)rest[sizeof temporary - 1]);
}

static int clean_one(const char *folder, const char *name, const tri_store_origin *origin) {
    const char *rest = after_name(name);
    char path[TRI_PATH_MAX];
    int fd;
    size_t size;
    if (!rest || (*rest && !is_temporary(rest)) || tri__path_join(path, folder, name) != TRI_OK) return 0;
    if (tri__file_open_listed(folder, name, &fd, &size) != TRI_OK) return 0;
    int removed = flock(fd, LOCK_EX | LOCK_NB) == 0 && (*rest || tri__store_superseded(fd, origin)) &&
                  tri__file_remove(path) == 0;
    close(fd);
    return removed;
}

int tri__store_clean(const char *folder, const tri_store_origin *origin) {
    int removed = 0;
    TRI_OWNED(tri__names_free) tri_names names = {0};
    if (tri__folder_list(folder, &names) != TRI_OK) return 0;
    for (int i = 0; i < names.n; i++) removed += clean_one(folder, names.name[i], origin);
    return removed;
}
