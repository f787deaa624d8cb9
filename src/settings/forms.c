/* forms.c - parses options whose values have a syntax. */
#include "settings/forms.h"

#include <errno.h>

tri_status tri__separator_parse(const char *text, char *separator) {
    static const struct {
        char byte;
        const char *name;
    } names[] = {{',', "comma"}, {';', "semicolon"}, {'\t', "tab"}, {'|', "pipe"}};
    *separator = 0;
    if (!text || strcmp(text, "auto") == 0) return TRI_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(text, names[i].name) || (text[0] == names[i].byte && !text[1])) *separator = names[i].byte;
    if (!strcmp(text, "\\t")) *separator = '\t';
    if (*separator) return TRI_OK;
    return tri__fail(TRI_USAGE, "--separator: \"%.40s\" is not a separator; give auto, comma, semicolon, tab or pipe, "
                     "or the character", text);
}

tri_status tri__memory_limit_parse(const char *text, int64_t *bytes) {
    *bytes = text ? tri__text_size(text) : 0;
    if (!text || *bytes > 0) return TRI_OK;
    return tri__fail(TRI_USAGE, "--memory-limit %s: expected bytes, e.g. 8G or 512M", text);
}

tri_status tri__profile_parse(const char *text, tri_profile_steps *out) {
    static const char *const names[] = {"wait", "warmup", "active"};
    int64_t *const fields[] = {&out->wait, &out->warmup, &out->active};
    const char *at = text;
    *out = (tri_profile_steps){0};
    while (*at) {
        size_t length = strcspn(at, ",");
        int k = 0, end = 0;
        long long value = -1;
        for (; k < 3; k++) {
            size_t n = strlen(names[k]);
            if (strncmp(at, names[k], n) == 0 && at[n] == '=' && sscanf(at + n + 1, "%lld%n", &value, &end) == 1 &&
                n + 1 + (size_t)end == length)
                break;
        }
        if (k == 3 || value < 0 || value > 1000000)
            return tri__fail(TRI_USAGE, "--profile %s: expected wait=N,warmup=N,active=N with step counts", text);
        *fields[k] = value;
        at += length + (at[length] == ',');
    }
    return out->active > 0 ? TRI_OK
                           : tri__fail(TRI_USAGE, "--profile %s: active=N must say how many steps to record", text);
}

tri_status tri__split_parse(const char *text, double share[static 3]) {
    const char *at = text;
    double sum = 0;
    int n = 0;
    share[2] = 0;
    for (;; at++) {
        char *end;
        double value = strtod(at, &end);
        if (end == at || !(value > 0 && value < 1) || n == 3) break;
        share[n++] = value, sum += value;
        at = end;
        if (*at != ',') break;
    }
    if (n < 2 || *at)
        return tri__fail(TRI_USAGE, "--split %.60s: expected shares of the rows for training, validation and, if there "
                         "is a third, test, each above 0 and below 1, for example 0.8,0.1,0.1", text);
    if (fabs(sum - 1) > 1e-6)
        return tri__fail(TRI_USAGE, "--split %.60s: the shares add up to %g, not to 1", text, sum);
    return TRI_OK;
}

tri_status tri__layer_drop_parse(const char *text, double *theta, double *gamma) {
    static const char *const names[] = {"theta=", "gamma="};
    double *const fields[] = {theta, gamma};
    int given[2] = {0};
    *theta = 0, *gamma = -1;
    if (strcmp(text, "none") == 0) return TRI_OK;
    for (const char *at = text; *at;) {
        char *end = NULL;
        int k = strncmp(at, names[0], 6) == 0 ? 0 : strncmp(at, names[1], 6) == 0 ? 1 : 2;
        if (k == 2 || given[k])
            return tri__fail(TRI_USAGE, "--layer-drop %s: expected theta=T, or theta=T,gamma=G, each once; or none",
                             text);
        given[k] = 1;
        *fields[k] = strtod(at + 6, &end);
        if (end == at + 6 || (*end && *end != ',') || !isfinite(*fields[k]))
            return tri__fail(TRI_USAGE, "--layer-drop %s: %s is followed by a number", text, names[k]);
        at = end + (*end == ',');
    }
    if (!given[0] || !(*theta > 0) || *theta > 1)
        return tri__fail(TRI_USAGE, "--layer-drop %s: theta is the share of steps that keep the last layer in the end: "
                         "above 0, at most 1, for example theta=0.5", text);
    if (given[1] && *gamma < 0)
        return tri__fail(TRI_USAGE, "--layer-drop %s: gamma says how fast theta is reached, by exp(-gamma * step): 0 "
                         "or more, for example gamma=0.001", text);
    return TRI_OK;
}

/* The number that is all of `text`, up to `end`; NaN: it is none. */
static double number_of(const char *text, char end) {
    char *stop;
    if (!(*text >= '0' && *text <= '9') && *text != '.') return NAN; /* strtod would take blanks, signs, inf, 0x1p-3 */
    double value = strtod(text, &stop);
    return *stop == end && strcspn(text, "xXpP") >= (size_t)(stop - text) ? value : NAN;
}

tri_status tri__threshold_parse(const char *text, tri_threshold *out) {
    *out = (tri_threshold){.kind = text && strcmp(text, "f1") == 0 ? TRI_THRESHOLD_F1 : TRI_THRESHOLD_NONE};
    if (!text || out->kind == TRI_THRESHOLD_F1 || strcmp(text, "none") == 0) return TRI_OK;
    const char *equals = strchr(text, '='), *colon = strchr(text, ':');
    double first = number_of(equals ? equals + 1 : text, equals && colon ? ':' : 0);
    if (tri__text_begins(text, "precision=") || tri__text_begins(text, "recall=")) {
        out->kind = *text == 'p' ? TRI_THRESHOLD_PRECISION : TRI_THRESHOLD_RECALL, out->value = first;
        if (first > 0 && first <= 1) return TRI_OK;
    } else if (tri__text_begins(text, "cost=")) {
        out->kind = TRI_THRESHOLD_COST;
        out->false_positive = first, out->false_negative = colon ? number_of(colon + 1, 0) : NAN;
        if (first > 0 && out->false_negative > 0 && isfinite(first) && isfinite(out->false_negative)) return TRI_OK;
    } else if (!equals) {
        out->kind = TRI_THRESHOLD_NUMBER, out->value = first;
        if (first >= 0 && first <= 1) return TRI_OK;
    }
    return tri__fail(TRI_USAGE, "--threshold %s: expected f1, precision=P or recall=R with a share above 0 and up to "
                     "1, cost=A:B with the costs of a false positive and of a false negative; eval, predict, serve and "
                     "explain take a number from 0 to 1, or none", text);
}

const char *tri__threshold_text(const tri_threshold *t, char out[static TRI_THRESHOLD_TEXT]) {
    static const char *const words[] = {"none", "f1", "precision=", "recall=", "cost=", ""};
    snprintf(out, TRI_THRESHOLD_TEXT, "%s", words[t->kind]);
    if (t->kind == TRI_THRESHOLD_COST)
        tri__text_append(out, TRI_THRESHOLD_TEXT, "", "%.9g:%.9g", t->false_positive, t->false_negative);
    else if (t->kind > TRI_THRESHOLD_F1) tri__text_append(out, TRI_THRESHOLD_TEXT, "", "%.9g", t->value);
    return out;
}

/* A whole number at *at, which moves past it; -1 when there is none or it is larger than `most`. */
static long read_number(const char **at, long most) {
    char *end;
    errno = 0;
    long value = **at >= '0' && **at <= '9' ? strtol(*at, &end, 10) : -1;
    if (errno || value < 0 || value > most) return -1;
    *at = end;
    return value;
}

tri_status tri__average_parse(const char *text, tri_average_form *out) {
    static const double USUAL = 0.999;
    char *end;
    *out = (tri_average_form){.decay = strcmp(text, "ema") == 0 ? USUAL : 0};
    if (out->decay > 0 || strcmp(text, "none") == 0) return TRI_OK;
    if (strncmp(text, "last:", 5) == 0) {
        const char *at = text + 5;
        out->epochs = read_number(&at, 1000000);
        if (out->epochs > 0 && !*at) return TRI_OK;
        return tri__fail(TRI_USAGE, "--average-weights %s: last: is followed by a number of epochs, 1 or more, for "
                         "example last:3", text);
    }
    if (strncmp(text, "ema:", 4) == 0) {
        out->decay = strtod(text + 4, &end);
        if (end > text + 4 && !*end && out->decay > 0 && out->decay < 1) return TRI_OK;
        return tri__fail(TRI_USAGE, "--average-weights %s: ema: is followed by a decay, above 0 and below 1, for "
                         "example ema:0.999", text);
    }
    return tri__fail(TRI_USAGE, "--average-weights %s: expected ema, ema:DECAY, last:N or none", text);
}

tri_status tri__streams_parse(const char *option, const char *text, int n, uint8_t out[static TRI_RANKS_PER_NODE]) {
    const char *at = text;
    memset(out, 0, TRI_RANKS_PER_NODE);
    if (!strchr(text, ':')) {
        long bits = read_number(&at, TRI_STDOUT | TRI_STDERR);
        if (bits < 0 || *at) goto bad;
        memset(out, (int)bits, (size_t)n);
        return TRI_OK;
    }
    for (;; at++) {
        long rank = read_number(&at, n - 1);
        if (rank < 0 || *at++ != ':') goto bad;
        long bits = read_number(&at, TRI_STDOUT | TRI_STDERR);
        if (bits < 0 || (*at && *at != ',')) goto bad;
        out[rank] = (uint8_t)bits;
        if (!*at) return TRI_OK;
    }
bad:
    return tri__fail(TRI_USAGE, "%s %s: give 0 (none), 1 (stdout), 2 (stderr), 3 (both), or pairs of rank:value such "
                     "as 0:3,1:2; the last rank is %d", option, text, n - 1);
}

tri_status tri__streams_filter(const char *option, const char *text, int n, uint8_t hidden[static TRI_RANKS_PER_NODE]) {
    memset(hidden, *text != 0, TRI_RANKS_PER_NODE);
    if (!*text) return TRI_OK;
    for (const char *at = text;; at++) {
        long rank = read_number(&at, n - 1);
        if (rank < 0 || (*at && *at != ','))
            return tri__fail(TRI_USAGE, "%s %s: give ranks from 0 to %d, such as 0,2", option, text, n - 1);
        hidden[rank] = 0;
        if (!*at) return TRI_OK;
    }
}

tri_status tri__freeze_parse(const tri_texts *texts, int *embeddings, int64_t *layers) {
    int counted = 0;
    *embeddings = 0, *layers = 0;
    for (int i = 0; i < texts->n; i++) {
        const char *text = texts->at[i], *number = text + strlen("layers=");
        char *end = NULL;
        if (strcmp(text, "embeddings") == 0) {
            *embeddings = 1;
            continue;
        }
        int counts = tri__text_begins(text, "layers=") && !counted++, all = counts && strcmp(number, "all") == 0;
        long long n = counts && *number >= '0' && *number <= '9' ? strtoll(number, &end, 10) : -1;
        if (!all && (n < 0 || *end || n > INT32_MAX))
            return tri__fail(TRI_USAGE, "--freeze %.64s: expected embeddings, or layers=N for the first N layers of "
                             "each encoder (layers=all for all), each once", text);
        *layers = all ? INT64_MAX : n;
    }
    return TRI_OK;
}
