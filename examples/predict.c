/* predict.c - predicts one row with libtrident. Takes options of `trident predict`, and the row's values by column:
 *   predict --checkpoint run 'Review Text=Lovely dress' Age=33
 * prints each label and its probability. Columns that are left out are missing values. */
#include <trident.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 64 };

static int failed(tri_status status) {
    if (status != TRI_OK) fprintf(stderr, "predict: %s\n", tri_error());
    return status != TRI_OK;
}

int main(int argc, char **argv) {
    tri_column_value values[VALUES];
    int n_options = argc - 1, n = 0;
    for (; n_options > 0 && n < VALUES; n_options--, n++) { /* from the last argument on */
        char *equals = strchr(argv[n_options], '=');
        if (argv[n_options][0] == '-' || !equals) break;
        *equals = 0;
        values[n].column = argv[n_options];
        values[n].value = equals + 1;
        values[n].length = strlen(equals + 1);
        values[n].number = 0; /* written as in the training table */
    }
    tri_model *model;
    tri_status status = tri_model_open(n_options, (const char *const *)argv + 1, &model);
    if (failed(status)) return status;
    int classes = tri_model_classes(model);
    float *probabilities = (float *)malloc((size_t)classes * sizeof *probabilities);
    tri_row row = {values, n};
    status = probabilities ? tri_model_predict(model, &row, 1, probabilities) : TRI_RESOURCE;
    if (!failed(status))
        for (int i = 0; i < classes; i++) printf("%s\t%.9g\n", tri_model_label(model, i), probabilities[i]);
    free(probabilities);
    tri_model_close(model);
    return status;
}
