/* slurm.c - Slurm's lists, expanded one item at a time: nothing is allocated, and counts are bounded before they are
 * used. */
#include "comm/launchers/slurm.h"

#include <ctype.h>
#include <string.h>

enum { COUNT_MAX = 1 << 20, DIGITS_MAX = 9, BRACKETS_MAX = 4 };

/* Reads digits at *at and moves past them; -1 if there are none or the number is too large. */
static int read_count(const char **at) {
    int value = 0, n = 0;
    for (; isdigit((unsigned char)**at); n++, (*at)++) {
        value = value * 10 + (**at - '0');
        if (value > COUNT_MAX) return -1;
    }
    return n ? value : -1;
}

int tri__slurm_tasks(const char *text, int node) {
    for (const char *at = text;; at++) {
        int tasks = read_count(&at), times = 1;
        if (!strncmp(at, "(x", 2)) {
            at += 2;
            times = read_count(&at);
            if (*at++ != ')') return 0;
        }
        if (tasks < 0 || times < 1 || (*at && *at != ',')) return 0;
        if (node < times) return tasks;
        node -= times;
        if (!*at) return 0;
    }
}

/* One range of a bracket, "01-03" or "07": its first number, its length, and the minimum number of digits. */
typedef struct range {
    int first, n, width;
} range;

static int read_range(const char **at, range *out) {
    const char *begin = *at;
    out->first = read_count(at);
    out->width = (int)(*at - begin);
    int last = out->first;
    if (**at == '-') {
        (*at)++;
        last = read_count(at);
    }
    out->n = last - out->first + 1;
    return out->first >= 0 && last >= out->first && out->width <= DIGITS_MAX;
}

/* The count of numbers in the bracket whose inside begins at `at`, and its end (the ']') in *end; 0 if malformed. */
static int bracket_count(const char *at, const char **end) {
    int n = 0;
    for (range r; read_range(&at, &r) && n + r.n <= COUNT_MAX; at++) {
        n += r.n;
        if (*at == ']') {
            *end = at;
            return n;
        }
        if (*at != ',') return 0;
    }
    return 0;
}

/* Number `k` of the bracket, as digits, into out[size]; its length, 0 if it does not fit. */
static size_t bracket_number(const char *at, int k, char *out, size_t size) {
    range r;
    for (; read_range(&at, &r) && k >= r.n; at++) k -= r.n;
    char digits[2 * DIGITS_MAX];
    int n = 0;
    for (int value = r.first + k; value || n < r.width || !n; value /= 10) digits[n++] = (char)('0' + value % 10);
    if ((size_t)n >= size) return 0;
    for (int i = 0; i < n; i++) out[i] = digits[n - 1 - i];
    return (size_t)n;
}

/* The number of hosts of the item at *at (the product of its brackets); moves *at to its end: a ',' or the end of the
 * text; 0 if malformed. */
static int item_count(const char **at, int bracket[static BRACKETS_MAX]) {
    int n = 1, k = 0;
    const char *begin = *at;
    for (; **at && **at != ','; (*at)++) {
        if (isspace((unsigned char)**at) || **at == ']') return 0;
        if (**at != '[') continue;
        if (k == BRACKETS_MAX || !(bracket[k] = bracket_count(*at + 1, at)) || n > COUNT_MAX / bracket[k]) return 0;
        n *= bracket[k++];
    }
    return *at > begin ? n : 0;
}

/* Host `node` of the item at `at`: the last bracket varies fastest. `n` hosts in all. */
static int item_host(const char *at, int node, int n, const int *bracket, char *out, size_t size) {
    size_t used = 0;
    for (int k = 0; *at && *at != ','; at++) {
        if (*at != '[') {
            if (used + 1 >= size) return 0;
            out[used++] = *at;
            continue;
        }
        n /= bracket[k++];
        size_t wrote = bracket_number(at + 1, node / n, out + used, size - used);
        if (!wrote) return 0;
        used += wrote;
        node %= n;
        at = strchr(at, ']');
    }
    out[used] = 0;
    return 1;
}

int tri__slurm_host(const char *text, int node, char *out, size_t size) {
    for (const char *at = text;; at++) {
        const char *begin = at;
        int bracket[BRACKETS_MAX], n = item_count(&at, bracket);
        if (!n) return 0;
        if (node < n) return item_host(begin, node, n, bracket, out, size);
        node -= n;
        if (!*at) return 0;
    }
}
