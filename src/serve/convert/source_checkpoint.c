/* source_checkpoint.c - reads a checkpoint that is to be written in another form. */
#include "serve/convert/source_checkpoint.h"

#include "checkpoint/quantized_weights.h"
#include "engine/infer_settings.h"
#include "serve/infer/ensemble.h"
#include "stack/stack.h"

/* Scales of a quantised tensor are part of the weight that is read. */
static int is_scale(const tri_checkpoint *checkpoint, const char *name) {
    static const char suffix[] = TRI_SCALE_SUFFIX;
    size_t length = strlen(name);
    return tri__checkpoint_quantized(checkpoint) && length > sizeof suffix &&
           strcmp(name + length - (sizeof suffix - 1), suffix) == 0;
}

static tri_status read_weights(tri_original *s, size_t room) {
    int n = tri__checkpoint_count(s->checkpoint);
    TRI_TRY(tri__arena_open(&s->arena, ((size_t)n + 1) * (sizeof *s->weights + sizeof *s->held) * 3 + room));
    s->weights = tri__arena_alloc(&s->arena, (size_t)n * sizeof *s->weights);
    s->held = tri__arena_alloc(&s->arena, (size_t)n * sizeof *s->held);
    for (int i = 0; i < n; i++) {
        tri_piece *piece = &s->weights[s->n_weights];
        TRI_TRY(tri__checkpoint_tensor(s->checkpoint, i, piece));
        if (tri__checkpoint_is_state(s->checkpoint, piece->name) || is_scale(s->checkpoint, piece->name)) continue;
        int index = s->n_weights++;
        int64_t count = tri__shape_count(&piece->shape);
        piece->dtype = TRI_F32;
        piece->data = s->held[index] = malloc((size_t)count * sizeof(float) + 1);
        if (!piece->data) return tri__fail(TRI_RESOURCE, "no memory for tensor '%s'", piece->name);
        s->elements += count;
        TRI_TRY(tri__checkpoint_read(s->checkpoint, piece));
    }
    return TRI_OK;
}

tri_status tri__original_open(const char *path, size_t room, tri_original *s) {
    char config[TRI_PATH_MAX];
    *s = (tri_original){0};
    TRI_TRY(tri__settings_init(&s->settings));
    TRI_TRY(tri__ensemble_refuse(path, "this command"));
    TRI_TRY(tri__checkpoint_open(path, 1, &s->checkpoint));
    const char *folder = tri__checkpoint_path(s->checkpoint);
    TRI_TRY(tri__path_join(config, folder, "config.json"));
    TRI_TRY(tri__settings_config(&s->settings, config));
    TRI_TRY(tri__settings_check(&s->settings, s->checkpoint));
    TRI_TRY(tri__assets_restore(&s->settings, folder, &s->assets));
    return read_weights(s, room);
}

void tri__original_close(tri_original *s) {
    for (int i = 0; i < s->n_weights; i++) free(s->held[i]);
    tri__arena_close(&s->arena);
    tri__assets_close(&s->assets);
    tri__settings_free(&s->settings);
    tri__checkpoint_close(s->checkpoint);
}

tri_status tri__original_stack(const tri_original *s, const char *folder) {
    TRI_OWNED(tri__free_at) char *text = NULL;
    size_t size;
    TRI_PATH(from, tri__checkpoint_path(s->checkpoint), TRI_STACK_FILE);
    TRI_PATH(to, folder, TRI_STACK_FILE);
    if (!tri__manifest_lists(tri__checkpoint_manifest(s->checkpoint), TRI_STACK_FILE)) return TRI_OK;
    TRI_TRY(tri__file_read(from, TRI_LIMIT_JSON_FILE, &text, &size));
    return tri__file_write(to, text, size);
}

void tri__original_state(const tri_original *s, tri_json *state) {
    static const char *const kept[] = {"data", "decision", "split", "reference", "answers"};
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
        const tri_json *value = tri__json_get(tri__checkpoint_state(s->checkpoint), kept[k]);
        if (value) tri__json_set(state, kept[k], value);
    }
}
