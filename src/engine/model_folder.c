/* model_folder.c - a model's folder is searched for in --models-dir, ./models and Hugging Face's cache. */
#include "engine/model_folder.h"

#include "checkpoint/hub.h"

static const char here[] = "models";
enum { MESSAGE_BYTES = 1024 };

typedef struct search {
    const char *name, *key;
    char *out;                  /* [TRI_PATH_MAX]: "" while nothing is found */
    char tried[MESSAGE_BYTES];  /* for the message */
} search;

static void note(search *s, const char *place) { tri__text_append(s->tried, sizeof s->tried, ", ", "%.300s", place); }

/* A folder in `place`, unless one was found before. */
static tri_status try_folder(search *s, const char *place) {
    int there;
    if (s->out[0]) return TRI_OK;
    TRI_PATH(path, place, s->name);
    note(s, path);
    TRI_TRY(tri__folder_there(path, &there));
    return there ? tri__path_join(s->out, "", path) : TRI_OK;
}

static tri_status try_hub(search *s, const char *cache) {
    char path[TRI_PATH_MAX];
    if (s->out[0] || !cache || !tri__hub_is_name(s->name)) return TRI_OK;
    TRI_TRY(tri__hub_place(cache, s->name, path));
    note(s, path);
    tri_status status = tri__hub_find(cache, s->name, s->out);
    if (status == TRI_OK) return TRI_OK;
    if (!s->out[0]) TRI_TRY(tri__path_join(s->out, "", path));
    return tri__fail_in(status, "%s", s->key);
}

static tri_status not_found(const search *s) {
    if (tri__hub_is_name(s->name))
        return tri__fail(TRI_NOINPUT, "%s: no folder of a model named %s; searched %s; download it: huggingface-cli "
                         "download %s; or give --models-dir, the folder that holds it, or an absolute path", s->key,
                         s->name, s->tried, s->name);
    return tri__fail(TRI_NOINPUT, "%s: no folder of a model named %s; searched %s; give --models-dir, the folder that "
                     "holds it, or an absolute path", s->key, s->name, s->tried);
}

static int is_read(const char *name) {
    static const char *const ends[] = {".json", ".txt", ".safetensors", ".bin"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (tri__text_ends(name + 1, ends[i])) return 1;
    return 0;
}

/* A name in a folder without a file behind it is a link to nothing; such a file would otherwise count as absent. */
static tri_status check_links(const char *folder, const char *key) {
    char path[TRI_PATH_MAX], model[TRI_PATH_MAX];
    TRI_OWNED(tri__names_free) tri_names all = {0};
    tri_status status = tri__folder_list(folder, &all);
    if (status != TRI_OK) return tri__fail_in(status, "%s", key);
    for (int i = 0; i < all.n; i++) {
        tri_kind kind;
        if (!is_read(all.name[i])) continue;
        TRI_TRY(tri__path_join(path, folder, all.name[i]));
        TRI_TRY(tri__path_kind(path, &kind));
        if (kind != TRI_KIND_NONE) continue;
        if (!tri__hub_is_snapshot(folder, model))
            return tri__fail(TRI_NOINPUT, "%s: %s is a link to nothing", key, path);
        return tri__fail(TRI_NOINPUT, "%s: %s is a link to nothing: the download is incomplete; repeat it: "
                         "huggingface-cli download %s", key, path, model);
    }
    return TRI_OK;
}

tri_status tri__model_folder(const tri_settings *settings, const char *name, const char *key,
                             char out[static TRI_PATH_MAX]) {
    search s = {.name = name, .key = key, .out = out};
    out[0] = 0;
    if (name[0] == '/') {
        int there;
        TRI_TRY(tri__path_join(out, "", name));
        TRI_TRY(tri__folder_there(out, &there));
        if (!there) return tri__fail(TRI_NOINPUT, "%s: no folder %s", key, name);
        return check_links(out, key);
    }
    if (settings->models_dir) TRI_TRY(try_folder(&s, settings->models_dir));
    if (strchr(name, '/')) TRI_TRY(try_folder(&s, ""));
    TRI_TRY(try_folder(&s, here));
    TRI_TRY(try_hub(&s, settings->hub_cache));
    return out[0] ? check_links(out, key) : not_found(&s);
}

/* Folders of a place with one of the files of a model; and of the cache, by their names. */
static int count_models(const char *place, int is_cache) {
    static const char *const files[] = {"config.json", "tokenizer.json", "vocab.txt", "vocab.json"};
    char folder[TRI_PATH_MAX], path[TRI_PATH_MAX];
    TRI_OWNED(tri__names_free) tri_names all = {0};
    int n = 0;
    if (tri__folder_list(place, &all) != TRI_OK) return 0;
    for (int i = 0; i < all.n; i++) {
        if (is_cache) n += tri__text_begins(all.name[i], "models--");
        else if (tri__path_join(folder, place, all.name[i]) == TRI_OK)
            for (size_t k = 0; k < sizeof files / sizeof *files; k++)
                if (tri__path_join(path, folder, files[k]) == TRI_OK && tri__is_file(path)) {
                    n++;
                    break;
                }
    }
    return n;
}

int tri__model_places(const tri_settings *settings, tri_model_place place[static TRI_MODEL_PLACES]) {
    const char *const paths[] = {settings->models_dir, here, settings->hub_cache};
    int n = 0;
    for (int i = 0; i < TRI_MODEL_PLACES; i++)
        if (paths[i]) place[n++] = (tri_model_place){paths[i], count_models(paths[i], i == TRI_MODEL_PLACES - 1)};
    return n;
}
