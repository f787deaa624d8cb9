/* reduce_body.h - the plain rows of one element type. The includer defines NAME; ELEMENT, the stored type; WORK, the
 * type of the reduction, with LOAD and SAVE, unless it is the stored one; UNSIGNED, in which a signed WORK wraps
 * around. All are undefined again at the end. */
#ifndef WORK
#define WORK ELEMENT
#define LOAD(x) (x)
#define SAVE(x) (x)
#endif
#ifndef UNSIGNED
#define UNSIGNED WORK
#endif
#define IS_NAN(x) ((x) != (x))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

/* For minimum and maximum NaN wins. */
static inline __attribute__((always_inline)) WORK JOIN(combine_, NAME)(tri_reduction reduction, WORK sum, WORK x) {
    switch (reduction) {
    case TRI_MIN: return x < sum || IS_NAN(x) ? x : sum;
    case TRI_MAX: return x > sum || IS_NAN(x) ? x : sum;
    case TRI_PRODUCT: return (WORK)((UNSIGNED)sum * (UNSIGNED)x);
    default: return (WORK)((UNSIGNED)sum + (UNSIGNED)x);
    }
}

static inline __attribute__((always_inline)) void JOIN(each_, NAME)(tri_reduction reduction, int n,
                                                                    const void *const *in, int n_out, void *const *out,
                                                                    int64_t first, int64_t count) {
    for (int64_t i = first; i < count; i++) {
        WORK sum = LOAD(((const ELEMENT *)in[0])[i]);
        for (int k = 1; k < n; k++) sum = JOIN(combine_, NAME)(reduction, sum, LOAD(((const ELEMENT *)in[k])[i]));
        if (reduction == TRI_AVERAGE) sum = (WORK)(sum / n);
        ELEMENT result = SAVE(sum);
        for (int j = 0; j < n_out; j++) ((ELEMENT *)out[j])[i] = result;
    }
}

/* Elements first to count - 1. One loop per reduction, so that none branches on it per element. */
static void JOIN(reduce_, NAME)(tri_reduction reduction, int n, const void *const *in, int n_out, void *const *out,
                                int64_t first, int64_t count) {
    switch (reduction) {
    case TRI_SUM: JOIN(each_, NAME)(TRI_SUM, n, in, n_out, out, first, count); return;
    case TRI_AVERAGE: JOIN(each_, NAME)(TRI_AVERAGE, n, in, n_out, out, first, count); return;
    case TRI_MIN: JOIN(each_, NAME)(TRI_MIN, n, in, n_out, out, first, count); return;
    case TRI_MAX: JOIN(each_, NAME)(TRI_MAX, n, in, n_out, out, first, count); return;
    default: JOIN(each_, NAME)(TRI_PRODUCT, n, in, n_out, out, first, count); return;
    }
}

/* Onto `before`, partial sums of the type WORK (NULL: none); of: members in all, 0: the result is partial sums. */
static void JOIN(onto_, NAME)(tri_reduction reduction, const void *before, int n, const void *const *in, int of,
                              int n_out, void *const *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int k = before ? 0 : 1;
        WORK sum = before ? ((const WORK *)before)[i] : LOAD(((const ELEMENT *)in[0])[i]);
        for (; k < n; k++) sum = JOIN(combine_, NAME)(reduction, sum, LOAD(((const ELEMENT *)in[k])[i]));
        if (of && reduction == TRI_AVERAGE) sum = (WORK)(sum / of);
        ELEMENT result = SAVE(sum);
        for (int j = 0; j < n_out; j++)
            if (of) ((ELEMENT *)out[j])[i] = result;
            else ((WORK *)out[j])[i] = sum;
    }
}

#undef JOIN
#undef JOIN_
#undef NAME
#undef ELEMENT
#undef WORK
#undef UNSIGNED
#undef LOAD
#undef SAVE
#undef IS_NAN
