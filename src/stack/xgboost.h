/* xgboost.h - libxgboost's C interface, loaded at run time: it trains trees, trees.h evaluates them. */
#pragma once

#include "base/json.h"
#include "stack/matrix.h"

/* What we call: the same since version 1.7. */
#define TRI_XGBOOST(X) \
    X(void, XGBoostVersion, (int *major, int *minor, int *patch)) \
    X(const char *, XGBGetLastError, (void)) \
    X(int, XGDMatrixCreateFromCSREx, (const size_t *start, const unsigned *index, const float *value, size_t starts, \
                                      size_t n, size_t columns, void **out)) \
    X(int, XGDMatrixSetFloatInfo, (void *matrix, const char *field, const float *values, uint64_t n)) \
    X(int, XGDMatrixFree, (void *matrix)) \
    X(int, XGBoosterCreate, (void *const *matrices, uint64_t n, void **out)) \
    X(int, XGBoosterFree, (void *booster)) \
    X(int, XGBoosterSetParam, (void *booster, const char *name, const char *value)) \
    X(int, XGBoosterUpdateOneIter, (void *booster, int round, void *matrix)) \
    X(int, XGBoosterPredict, (void *booster, void *matrix, int mask, unsigned trees, int training, uint64_t *n, \
                              const float **out)) \
    X(int, XGBoosterSlice, (void *booster, int begin, int end, int step, void **out)) \
    X(int, XGBoosterSaveModelToBuffer, (void *booster, const char *config, uint64_t *n, const char **out))

typedef struct tri_xgboost {
#define X(type, name, arguments) type(*name) arguments;
    TRI_XGBOOST(X)
#undef X
    char version[32];   /* "1.7.4" */
} tri_xgboost;

/* TRI_USAGE where it is not installed, saying how to install it. */
tri_status tri__xgboost_open(tri_xgboost *out);
/* TRI_OK, or what a call that returned `failed` said. */
tri_status tri__xgboost_check(const tri_xgboost *xgboost, int failed);
/* The features of rows below n_features; missing ones are left out. Free it with XGDMatrixFree. */
tri_status tri__xgboost_matrix(const tri_xgboost *xgboost, const tri_matrix *rows, int n_features, void **out);
/* Boosts trees of a depth until the loss of `valid` has not fallen for a while; *model: JSON of the rounds up to the
 * least loss, a new reference. One thread: no sum depends on how many there are. */
tri_status tri__xgboost_train(const tri_xgboost *xgboost, const tri_matrix *train, const tri_matrix *valid,
                              int n_features, int depth, tri_json **model);
