/* test_invariance.c - a row's bits do not depend on the rows that it is batched with: forward kernels of the CPU on
 * the first 1 to 200 rows, on each row alone, and on rows from the middle, against all rows at once; attention and
 * pooling likewise by sequences. For every computing type and with other numbers of threads. */
#include "tests/lib/test.h"
#include "tests/lib/kernel_call.h"

static tri_kernel_table table;

static int open_table(void **state) {
    (void)state;
    tri__device_find("cpu")->kernels(&table);
    return 0;
}

/* A call on part of another call's rows. */
typedef struct part {
    tri_call call;
    void *out[TRI_MAX_ARGS]; /* of operands that it writes; NULL */
    int32_t seq[16];
    int64_t first[26], rows[26]; /* by letter of an operand's rows: T, N, S */
} part;

static size_t row_bytes(const kernel_call *k, int arg) {
    return (size_t)k->call.t[arg].cols * tri__dtype_bytes(operand_dtype(k, arg));
}

static void run_part(const kernel_call *k, part *p, int threads) {
    const tri_op_row *row = tri__variant_row(k->at.variant);
    int64_t halves = 0;
    p->call = k->call, p->call.threads = threads, p->call.table = &table;
    for (int a = 0; a < row->n_args; a++) {
        char letter = row->arg[a].dims[0];
        tri_tensor *t = &p->call.t[a];
        if (!t->data) continue;
        if (letter == 'T' || letter == 'N' || letter == 'S') {
            t->data = (char *)t->data + (size_t)p->first[letter - 'A'] * row_bytes(k, a);
            t->rows = p->rows[letter - 'A'];
        }
        if (letter == 'S') t->data = p->seq;
        if (tri__access_writes(row->arg[a].access)) {
            p->out[a] = t->data = malloc((size_t)t->rows * row_bytes(k, a) + 1);
            assert_non_null(t->data);
        }
        if (tri__dtype_bytes(operand_dtype(k, a)) == 2) halves += t->rows * t->cols;
    }
    tri_dtype type = halves ? k->type : TRI_F32;
    const tri_workspace *work = &table.work[k->at.variant][type];
    p->call.work = aligned_alloc(
        64, ((size_t)tri__workspace_bytes(work, p->call.t[0].rows, p->call.t[0].cols, halves) + 127) / 64 * 64);
    assert_non_null(p->call.work);
    table.run[k->at.variant][type](&p->call);
    free(p->call.work);
}

/* Every row that the part wrote has the bits that it has in the whole. */
static void compare_part(const kernel_call *k, part *p) {
    const tri_op_row *row = tri__variant_row(k->at.variant);
    for (int a = 0; a < row->n_args; a++) {
        char letter = row->arg[a].dims[0];
        size_t bytes = row_bytes(k, a);
        int by_row = letter == 'T' || letter == 'N'; /* not the loss */
        for (int64_t i = 0; p->out[a] && by_row && i < p->rows[letter - 'A']; i++) {
            const char *whole = (char *)k->call.t[a].data + (size_t)(p->first[letter - 'A'] + i) * bytes;
            if (memcmp(whole, (char *)p->out[a] + (size_t)i * bytes, bytes) == 0) continue;
            char text[160];
            fail_msg("%s %s: row %d of %d, %d rows from row %d on: operand %s differs", kernel_case_text(&k->at, text),
                     tri__dtype_name(k->type), (int)i, (int)p->rows[letter - 'A'], (int)p->rows[letter - 'A'],
                     (int)p->first[letter - 'A'], row->arg[a].name);
        }
        free(p->out[a]);
    }
}

static void try_rows(const kernel_call *k, char letter, int64_t first, int64_t rows, int threads) {
    part p = {0};
    p.first[letter - 'A'] = first, p.rows[letter - 'A'] = rows;
    run_part(k, &p, threads);
    compare_part(k, &p);
}

/* Sequences [s0, s1) of the call. */
static void try_sequences(const kernel_call *k, int s0, int s1, int threads) {
    const int32_t *seq = k->call.t[kernel_arg(k, "seq")].data;
    part p = {.first = {['T' - 'A'] = seq[s0], ['N' - 'A'] = s0},
              .rows = {['T' - 'A'] = seq[s1] - seq[s0], ['N' - 'A'] = s1 - s0, ['S' - 'A'] = s1 - s0 + 1}};
    for (int s = s0; s <= s1; s++) p.seq[s - s0] = seq[s] - seq[s0];
    run_part(k, &p, threads);
    compare_part(k, &p);
}

static const tri_dtype types[] = {TRI_F32, TRI_BF16, TRI_F16};

static void try_case(const kernel_case *at, void *context) {
    char first = tri__variant_row(at->variant)->arg[1].dims[0], letter = strchr("TN", first) ? first : 'T';
    (void)context;
    for (int i = 0; i < 3; i++) {
        kernel_call k;
        kernel_call_open_as(&k, at, types[i], 0, 0, 0);
        kernel_call_run(&k, &table, 2);
        if (at->lengths) {
            int n = (int)at->dim['N' - 'A'];
            for (int s = 0; s < n; s++) try_sequences(&k, s, s + 1, 1), try_sequences(&k, 0, s + 1, 3);
        } else {
            int64_t n = at->dim[letter - 'A'];
            for (int64_t t = 0; t < n; t++) try_rows(&k, letter, t, 1, 1);
            for (int64_t t = 1; t < n; t += 1 + t / 24)
                try_rows(&k, letter, 0, t, 3), try_rows(&k, letter, t, n - t, 1);
        }
        kernel_call_close(&k);
    }
}

/* Columns of real models and around vectors and tiles; a few outputs, as of the last layer, and a few inputs, as of
 * numbers. */
static const kernel_grid grids[] = {
    {"norm dropout_add_norm add gelu tanh relu", "T=200 H=3,20,100,384"},
    {"embed", "T=200 H=20,384 V=37 P=130 Y=2"},
    {"linear linear_gelu", "T=200 O=2,20,100 I=3,64,100"},
    {"linear linear_gelu", "T=100 O=400 I=400"},
    {"attention attention_first", "L=2,4,5,7,8 X=0 A=1,3 E=8,20,32"},
    {"attention_sparse attention_sparse_first", "L=4,5,7 X=0 W=1,2 A=3 E=20,32"},
    {"attention_biased attention_disentangled", "L=4,5,7 X=0 B=40 G=3 A=3 E=20,32"},
    {"pool_first pool_mean", "L=4,8 X=0 H=20"},
    {"concat", "N=50 A=20 B=3,0 C=5"},
    {"gate", "T=50 H=3,100"},
    {"columns", "N=50 C=7 U=2 G=0,1 K=5 H=16"},
    {"cross_entropy cross_entropy_weighted", "N=50 C=2,7"},
    {"regress regress_weighted", "N=50 C=5 J=1,5 G=0,3,4,5"},
};

TEST(test_rows) {
    kernel_cases(grids, sizeof grids / sizeof *grids, try_case, NULL);
}

int main(int argc, char **argv) { return run_listed(argc, argv, open_table, NULL); }
