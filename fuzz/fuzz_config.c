/* fuzz_config.c - a configuration file: settings, checks, encoder objects, and what is recorded reads again as the
 * same. */
#include "fuzz.h"

#include "engine/accept_settings.h"
#include "settings/settings.h"

#include <stdlib.h>
#include <string.h>

/* One accepted input of so many is written down and read again, which takes ten times as long as all else. */
enum { RECORDED_OF = 8 };

/* What defaults own, once more. */
static void own(const tri_option *rows, void *into) {
    for (const tri_option *row = rows; row->name; row++) {
        void *at = (char *)into + row->offset;
        tri_texts *texts = at;
        tri_reals *reals = at;
        if (row->kind == TRI_OPTION_TEXT && *(char **)at) *(char **)at = strdup(*(char **)at);
        if (row->kind == TRI_OPTION_TEXTS && texts->at) {
            char **copy = calloc((size_t)texts->n + 1, sizeof *copy);
            FUZZ_CHECK(copy != NULL);
            for (int i = 0; i < texts->n; i++) copy[i] = strdup(texts->at[i]);
            texts->at = copy;
        }
        if (row->kind == TRI_OPTION_REALS && reals->at) {
            double *copy = calloc((size_t)reals->n + 1, sizeof *copy);
            FUZZ_CHECK(copy != NULL);
            reals->at = memcpy(copy, reals->at, (size_t)reals->n * sizeof *copy);
        }
    }
}

/* Settings with all defaults, which are read from their texts once: that takes as long as reading an input. */
static void fresh(tri_settings *settings) {
    static tri_settings defaults;
    static int made;
    if (!made++) FUZZ_CHECK(tri__settings_init(&defaults) == TRI_OK);
    *settings = defaults;
    own(tri__model_options, &settings->model);
    own(tri__run_options, settings);
}

static char *record(const tri_settings *settings) {
    tri_json *all = tri__settings_json(settings);
    FUZZ_CHECK(all != NULL);
    char *text = tri__json_text(all, TRI_JSON_REAL_PRECISION(17));
    FUZZ_CHECK(text != NULL);
    tri__json_decref(all);
    return text;
}

static void check_encoder(const tri_json *object, int64_t max_len) {
    tri_encoder encoder;
    FUZZ_CHECK(tri__encoder_preset("bert-base-uncased", &encoder));
    if (!object || tri__encoder_parse(object, "primary_encoder", &encoder) != TRI_OK) return;
    if (tri__encoder_check(&encoder, "primary_encoder", max_len) != TRI_OK) return;
    FUZZ_CHECK(encoder.hidden_size > 0 && encoder.num_attention_heads > 0);
    FUZZ_CHECK(encoder.hidden_size % encoder.num_attention_heads == 0);
}

/* Settings that were accepted, written down and read once more. */
static void check_recorded(const tri_settings *settings) {
    tri_settings again;
    char *text = record(settings);
    tri__settings_init(&again);
    tri_status status = tri__settings_config(&again, fuzz_hold("record", text, strlen(text)));
    FUZZ_CHECK(status == TRI_OK);
    char *second = record(&again);
    FUZZ_CHECK(strcmp(text, second) == 0);
    free(second);
    free(text);
    tri__settings_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tri_settings settings;
    fresh(&settings);
    tri_status status = tri__settings_config(&settings, fuzz_hold("input", data, size));
    FUZZ_CHECK(status == TRI_OK || status == TRI_USAGE);
    if (status == TRI_OK) {
        status = tri__engine_accept(&settings);
        FUZZ_CHECK(status == TRI_OK || status == TRI_USAGE || status == TRI_NOINPUT); /* it names a file or a folder */
        status = tri__model_config_check(&settings.model);
        FUZZ_CHECK(status == TRI_OK || status == TRI_USAGE);
        check_encoder(settings.model.primary_encoder, settings.model.max_sen_len);
        check_encoder(settings.model.secondary_encoder, settings.model.max_sen_len);
        if (fuzz_choice(data, size, RECORDED_OF) == 0) check_recorded(&settings);
    }
    tri__settings_free(&settings);
    return 0;
}
