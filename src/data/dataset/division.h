/* division.h - the rows of one table divided into parts for training, validation and test, or into folds, one of which
 * is for validation. A division depends on the rows' order, labels and groups and on a seed of its own, never on a mesh
 * or on the run's seed. docs/guide/data.md is the user's guide. */
#pragma once

#include "base/json.h"

typedef enum tri_rows_for { TRI_ROWS_TRAIN, TRI_ROWS_VALID, TRI_ROWS_TEST, TRI_ROWS_PARTS } tri_rows_for;
enum { TRI_ROWS_NONE = 255, TRI_FOLDS_MAX = 1000 }; /* a bad row, which has no label; folds */

const char *tri__rows_for(tri_rows_for part); /* "training", "validation", "test" */

typedef struct tri_division {
    double share[TRI_ROWS_PARTS]; /* of the parts, 1 in all; those of training and validation are above 0 */
    /* folds above 0: parts of equal size instead, of which part `fold` is for validation and the others for training.
     * With shares too: folds of the training part; the other parts' rows are then for test */
    int folds, fold;
    int stratify;                 /* each part has the classes in the table's shares */
    const char *group_by;         /* column: rows with the same value stay together; NULL: none */
    uint64_t seed;
} tri_division;

/* The rows to divide. */
typedef struct tri_division_rows {
    int64_t n;
    const int32_t *class;         /* [n]; -1: the row is left out */
    int n_classes;
    const uint64_t *group;        /* [n] hash of its group; NULL: none */
} tri_division_rows;

/* How many parts or folds there are. */
int tri__division_count(const tri_division *spec);
/* at [n]: the part or fold of each row; TRI_FOLDS_MAX of one that is left out.
 *
 *   plain        rows are shuffled; sizes by largest remainder; folds differ by at most a row
 *   stratify     the same, and a part's rows are shared among the classes by largest remainder (test, then validation;
 *                the rest is for training); then a class with a row for each part has one in each. Folds: rows sorted
 *                by class are dealt in turn. As in scikit-learn's train_test_split and StratifiedKFold
 *   group_by     groups, the largest first where one is over a quarter of the smallest part, the others shuffled; each
 *                goes where the sum of (rows - share)^2 / share, with stratify over all classes, is least */
tri_status tri__division_make(const tri_division *spec, const tri_division_rows *rows, uint16_t *at);

struct tri_table;
struct tri_preprocess;
/* part [rows of the table]: a tri_rows_for, or TRI_ROWS_NONE where the label is none of the classes. TRI_DATA, naming
 * the class, where a part has no row of a class that the table has. */
tri_status tri__division_find(const struct tri_table *table, const tri_division *spec,
                           const struct tri_preprocess *preprocess, uint8_t *part);
/* Everything that a division depends on other than the table. */
tri_json *tri__division_json(const tri_division *spec);
