/* xgboost.c - the functions of libxgboost that we call are declared here: a build needs neither it nor its headers. */
#include "stack/xgboost.h"

#include "base/library.h"

#include <dlfcn.h>

enum { ROUNDS = 600, PATIENCE = 30 }; /* rounds at most; without a lower loss */
static const char INSTALL[] = "apt-get install libxgboost-dev, or take --stack linear";

tri_status tri__xgboost_open(tri_xgboost *out) {
    static const char *const names[] = {"libxgboost.so", "libxgboost.so.0"};
    const char *why = NULL;
    void *library = NULL;
    for (int i = 0; i < 2 && !library; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL); /* never unloaded */
        why = library ? NULL : dlerror();
        if (tri__library_no_memory(why)) return tri__fail(TRI_RESOURCE, "no memory to load %s (%s)", names[i], why);
    }
    if (!library) return tri__fail(TRI_USAGE, "boosted trees need %s, which does not load: %s", names[0], INSTALL);
    int missing = 0, of[3];
#define X(type, name, arguments) missing |= !(*(void **)&out->name = dlsym(library, #name));
    TRI_XGBOOST(X)
#undef X
    if (missing) return tri__fail(TRI_USAGE, "%s lacks functions of XGBoost 1.7: %s", names[0], INSTALL);
    out->XGBoostVersion(&of[0], &of[1], &of[2]);
    snprintf(out->version, sizeof out->version, "%d.%d.%d", of[0], of[1], of[2]);
    return TRI_OK;
}

tri_status tri__xgboost_check(const tri_xgboost *x, int failed) {
    if (!failed) return TRI_OK;
    return tri__fail(TRI_INTERNAL, "libxgboost %s: %.400s", x->version, x->XGBGetLastError());
}
#define CHECK(call) TRI_TRY(tri__xgboost_check(x, x->call))

tri_status tri__xgboost_matrix(const tri_xgboost *x, const tri_matrix *m, int n_features, void **out) {
    size_t most = (size_t)(m->n * m->n_dense + m->start[m->n]), used = 0;
    TRI_OWNED(tri__free_at) size_t *start = NULL;
    TRI_OWNED(tri__free_at) unsigned *index = NULL;
    TRI_OWNED(tri__free_at) float *value = NULL;
    TRI_TRY(TRI_NEW(start, m->n + 1, "trees' rows"));
    TRI_TRY(TRI_NEW(index, most + 1, "trees' rows"));
    TRI_TRY(TRI_NEW(value, most + 1, "trees' rows"));
    for (int64_t row = 0; row < m->n; row++) {
        for (int d = 0; d < m->n_dense; d++) index[used] = (unsigned)d, value[used++] = m->dense[row * m->n_dense + d];
        for (int64_t i = m->start[row]; i < m->start[row + 1]; i++)
            if (m->n_dense + m->index[i] < n_features)
                index[used] = (unsigned)(m->n_dense + m->index[i]), value[used++] = m->value[i];
        start[row + 1] = used;
    }
    CHECK(XGDMatrixCreateFromCSREx(start, index, value, (size_t)m->n + 1, used, (size_t)n_features, out));
    CHECK(XGDMatrixSetFloatInfo(*out, "label", m->y, (uint64_t)m->n));
    CHECK(XGDMatrixSetFloatInfo(*out, "weight", m->weight, (uint64_t)m->n));
    return TRI_OK;
}

static tri_status set_form(const tri_xgboost *x, const tri_matrix *train, int depth, void *booster) {
    char classes[24], deep[24], base[32] = "0.5";
    double sum = 0, total = 0;
    for (int64_t i = 0; i < train->n; i++)
        sum += (double)train->weight[i] * (double)train->y[i], total += (double)train->weight[i];
    if (!train->n_classes) snprintf(base, sizeof base, "%.9g", sum / total);
    snprintf(classes, sizeof classes, "%d", train->n_classes > 2 ? train->n_classes : 0);
    snprintf(deep, sizeof deep, "%d", depth);
    const char *of_classes = train->n_classes > 2 ? "multi:softprob" : "binary:logistic";
    const char *const params[][2] = {
        {"objective", train->n_classes ? of_classes : "reg:squarederror"}, {"num_class", classes}, {"max_depth", deep},
        {"base_score", base}, {"tree_method", "hist"}, {"eta", "0.1"}, {"lambda", "1"}, {"min_child_weight", "1"},
        {"seed", "0"}, {"nthread", "1"}, {"verbosity", "0"}};
    for (size_t i = 0; i < sizeof params / sizeof *params; i++)
        if (strcmp(params[i][1], "0") || strcmp(params[i][0], "num_class"))
            CHECK(XGBoosterSetParam(booster, params[i][0], params[i][1]));
    return TRI_OK;
}

/* The rounds of the least loss, as JSON. */
static tri_status save(const tri_xgboost *x, void *booster, int rounds, tri_json **model) {
    void *part = NULL;
    uint64_t n = 0;
    const char *text = NULL;
    CHECK(XGBoosterSlice(booster, 0, rounds, 1, &part));
    tri_status status = tri__xgboost_check(x, x->XGBoosterSaveModelToBuffer(part, "{\"format\": \"json\"}", &n, &text));
    if (status == TRI_OK) status = tri__json_parse(text, (size_t)n, "libxgboost's model", TRI_INTERNAL, model);
    x->XGBoosterFree(part);
    return status;
}

static tri_status boost(const tri_xgboost *x, void *booster, void *const *matrix, const tri_matrix *valid,
                        int *rounds) {
    double least = INFINITY;
    for (int round = 0; round < ROUNDS && round - *rounds < PATIENCE; round++) {
        uint64_t n;
        const float *answer;
        CHECK(XGBoosterUpdateOneIter(booster, round, matrix[0]));
        CHECK(XGBoosterPredict(booster, matrix[1], 0, 0, 0, &n, &answer));
        double now = tri__matrix_loss(valid, answer, tri__matrix_margins(valid));
        if (now < least) least = now, *rounds = round + 1;
    }
    return isfinite(least) ? TRI_OK : tri__fail(TRI_NOTFINITE, "the trees' loss is not finite");
}

tri_status tri__xgboost_train(const tri_xgboost *x, const tri_matrix *train, const tri_matrix *valid,
                              int n_features, int depth, tri_json **model) {
    void *matrix[2] = {0}, *booster = NULL;
    int rounds = 0;
    *model = NULL;
    tri_status status = tri__xgboost_matrix(x, train, n_features, &matrix[0]);
    if (status == TRI_OK) status = tri__xgboost_matrix(x, valid, n_features, &matrix[1]);
    if (status == TRI_OK) status = tri__xgboost_check(x, x->XGBoosterCreate(matrix, 2, &booster));
    if (status == TRI_OK) status = set_form(x, train, depth, booster);
    if (status == TRI_OK) status = boost(x, booster, matrix, valid, &rounds);
    if (status == TRI_OK) status = save(x, booster, rounds, model);
    if (booster) x->XGBoosterFree(booster);
    for (int i = 0; i < 2; i++)
        if (matrix[i]) x->XGDMatrixFree(matrix[i]);
    return status;
}
