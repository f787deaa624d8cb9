/* parts_list.c - the files that a name with an asterisk stands for. */
#include "data/table/parts.h"

#include <ctype.h>

static const char *last_name(const char *path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }

int tri__parts_named(const char *path) { return strchr(last_name(path), '*') && !tri__is_file(path); }

/* Texts in which numbers count as numbers: part-2 comes before part-10. */
static int compare(const void *left, const void *right) {
    const char *a = *(char *const *)left, *b = *(char *const *)right;
    const char *all_a = a, *all_b = b;
    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            a += strspn(a, "0"), b += strspn(b, "0");
            size_t n = strspn(a, "0123456789"), k = strspn(b, "0123456789");
            int order = n == k ? strncmp(a, b, n) : n < k ? -1 : 1;
            if (order) return order;
            a += n, b += k;
        } else {
            if (*a != *b) return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
            a++, b++;
        }
    }
    return *a || *b ? (*a != 0) - (*b != 0) : strcmp(all_a, all_b);
}

/* The numbers of "-00001-of-00003": 0 if a name has none. */
static int numbered(const char *name, long long *number, long long *all) {
    for (const char *of = strstr(name, "-of-"); of; of = strstr(of + 1, "-of-")) {
        const char *digits = of;
        while (digits > name && isdigit((unsigned char)digits[-1])) digits--;
        if (digits == of || of - digits > 9 || digits == name || digits[-1] != '-') continue;
        size_t n = strspn(of + 4, "0123456789");
        if (n < 1 || n > 9) continue;
        *number = strtoll(digits, NULL, 10), *all = strtoll(of + 4, NULL, 10);
        return 1;
    }
    return 0;
}

/* Names that say how many there are must be all there. They are in order. */
static tri_status check_complete(const char *path, const tri_names *names) {
    long long number, all, count = 0;
    for (int i = 0; i < names->n; i++) {
        long long those = 0, before = 0;
        if (!numbered(last_name(names->name[i]), &number, &all)) continue;
        if (i && (!numbered(last_name(names->name[i - 1]), &before, &those) || those != all))
            return tri__fail(TRI_DATA, "%s: %s and %s are not of one table: their names say different numbers of parts",
                             path, names->name[i - 1], last_name(names->name[i]));
        if (number != count++)
            return tri__fail(TRI_DATA, "%s: part %lld of %lld is missing: before %s", path, count, all, names->name[i]);
        if (i == names->n - 1 && count != all)
            return tri__fail(TRI_DATA, "%s: part %lld of %lld is missing: after %s", path, count + 1, all,
                             names->name[i]);
    }
    return TRI_OK;
}

/* Adds those of `all` that begin and end like the pattern. */
static tri_status take_matching(const char *folder, const char *pattern, const tri_names *all, tri_names *out) {
    const char *star = strchr(pattern, '*');
    size_t start = (size_t)(star - pattern), end = strlen(star + 1);
    TRI_TRY(TRI_NEW(out->name, (size_t)all->n + 1, folder));
    for (int i = 0; i < all->n; i++) {
        const char *name = all->name[i];
        if (strlen(name) < start + end || strncmp(name, pattern, start) || !tri__text_ends(name, star + 1)) continue;
        if (name[0] == '.') continue;
        TRI_PATH(path, folder, name);
        int there;
        TRI_TRY(tri__file_there(path, &there));
        if (!there) continue;
        if (!(out->name[out->n] = strdup(path))) return tri__fail(TRI_RESOURCE, "%s: out of memory", folder);
        out->n++;
    }
    return TRI_OK;
}

static tri_status list_parts(const char *path, tri_names *out) {
    const char *pattern = last_name(path);
    TRI_OWNED(tri__names_free) tri_names all = {0};
    if (strchr(strchr(pattern, '*') + 1, '*'))
        return tri__fail(TRI_USAGE, "%s: a name may have one asterisk, for all files that begin and end like it", path);
    TRI_PATH(folder, "", path);
    folder[pattern - path] = 0;
    TRI_TRY(tri__folder_list(folder[0] ? folder : ".", &all));
    TRI_TRY(take_matching(folder, pattern, &all, out));
    if (!out->n) return tri__fail(TRI_NOINPUT, "%s: no file has such a name", path);
    qsort(out->name, (size_t)out->n, sizeof *out->name, compare);
    return check_complete(path, out);
}

tri_status tri__parts_list(const char *path, tri_names *out) {
    *out = (tri_names){0};
    if (tri__parts_named(path)) return list_parts(path, out);
    out->name = calloc(1, sizeof *out->name);
    if (!out->name || !(out->name[0] = strdup(path))) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    out->n = 1;
    return TRI_OK;
}
