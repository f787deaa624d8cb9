/* fuzz_config.c - a configuration file: settings, checks, encoder objects, and what is recorded reads again as the
 * same. */
#include "fuzz.h"

#include "engine/accept.h"
#include "settings/settings.h"

#include <stdlib.h>
#include <string.h>

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
    tri_status status = tri__settings_config(&again, fuzz_file((const uint8_t *)text, strlen(text)));
    FUZZ_CHECK(status == TRI_OK);
    char *second = record(&again);
    FUZZ_CHECK(strcmp(text, second) == 0);
    free(second);
    free(text);
    tri__settings_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tri_settings settings;
    tri__settings_init(&settings);
    tri_status status = tri__settings_config(&settings, fuzz_file(data, size));
    FUZZ_CHECK(status == TRI_OK || status == TRI_USAGE);
    if (status == TRI_OK) {
        status = tri__engine_accept(&settings);
        FUZZ_CHECK(status == TRI_OK || status == TRI_USAGE || status == TRI_NOINPUT); /* it names a file or a folder */
        status = tri__model_config_check(&settings.model);
        FUZZ_CHECK(status == TRI_OK || status == TRI_USAGE);
        check_encoder(settings.model.primary_encoder, settings.model.max_sen_len);
        check_encoder(settings.model.secondary_encoder, settings.model.max_sen_len);
        check_recorded(&settings);
    }
    tri__settings_free(&settings);
    return 0;
}
