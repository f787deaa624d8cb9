/* hub.c - the layout of Hugging Face's cache (huggingface_hub's `scan-cache` describes it). */
#include "checkpoint/hub.h"

#include "checkpoint/checkpoint.h"

static const char prefix[] = "models--",
                  letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
enum { REVISION_BYTES = 256, MESSAGE_BYTES = 512 };

/* Hugging Face's own rule: no "--" and no ".." in a name, since "--" stands for the slash in the cache. */
int tri__hub_is_name(const char *name) {
    size_t first = strspn(name, letters), second = name[first] == '/' ? strspn(name + first + 1, letters) : 0;
    if (!first || name[0] == '.' || strstr(name, "--") || strstr(name, "..")) return 0;
    return !name[first] || (second && name[first + 1] != '.' && !name[first + 1 + second]);
}

tri_status tri__hub_place(const char *cache, const char *name, char out[static TRI_PATH_MAX]) {
    const char *slash = strchr(name, '/');
    int organisation = slash ? (int)(slash - name) : 0;
    return tri__path_join(out, cache, TRI_TEXT(TRI_PATH_MAX, "%s%.*s%s%s", prefix, organisation, name,
                                               slash ? "--" : "", slash ? slash + 1 : name));
}

/* The folder models--ORG--NAME of the only organisation with that name; "" if there is none. */
static tri_status find_organisation(const char *cache, const char *name, char out[static TRI_PATH_MAX]) {
    TRI_OWNED(tri__names_free) tri_names all = {0};
    char found[MESSAGE_BYTES] = "";
    int n = 0;
    tri_status status = tri__folder_list(cache, &all);
    out[0] = 0;
    if (status == TRI_NOINPUT) return TRI_OK;
    TRI_TRY(status);
    for (int i = 0; i < all.n; i++) {
        const char *model = all.name[i] + sizeof prefix - 1, *end = NULL;
        if (tri__text_begins(all.name[i], prefix)) end = strstr(model, "--");
        if (!end || strcmp(end + 2, name)) continue;
        tri__text_append(found, sizeof found, ", ", "%.*s/%s", (int)(end - model), model, name);
        n++;
        TRI_TRY(tri__path_join(out, cache, all.name[i]));
    }
    if (n <= 1) return TRI_OK;
    return tri__fail(TRI_USAGE, "%s holds %d models of that name: %s; name one with its organisation", cache, n, found);
}

/* The only snapshot of a model without refs/main, which was downloaded by its revision. */
static tri_status only_revision(const char *model, char out[static REVISION_BYTES]) {
    TRI_OWNED(tri__names_free) tri_names all = {0};
    TRI_PATH(path, model, "snapshots");
    tri_status status = tri__folder_list(path, &all);
    if (status == TRI_OK && all.n != 1)
        status = tri__fail(TRI_NOINPUT, "%s: no refs/main, and %d snapshots: which one is meant?", model, all.n);
    else if (status == TRI_NOINPUT) status = tri__fail(TRI_NOINPUT, "%s: neither refs/main nor snapshots", model);
    if (status == TRI_OK) snprintf(out, REVISION_BYTES, "%s", all.name[0]);
    return status;
}

static tri_status read_revision(const char *model, char out[static REVISION_BYTES]) {
    char path[TRI_PATH_MAX], *text;
    size_t size;
    int there;
    TRI_TRY(tri__path_join(path, model, "refs/main"));
    TRI_TRY(tri__file_there(path, &there));
    if (!there) return only_revision(model, out);
    TRI_TRY(tri__file_read(path, REVISION_BYTES - 1, &text, &size));
    text[strcspn(text, " \t\r\n")] = 0;
    int plain = tri__is_plain_name(text);
    snprintf(out, REVISION_BYTES, "%s", text);
    free(text);
    return plain ? TRI_OK : tri__fail(TRI_DATA, "%s does not hold a revision", path);
}

static tri_status find_snapshot(const char *model, char out[static TRI_PATH_MAX]) {
    char revision[REVISION_BYTES], path[TRI_PATH_MAX];
    TRI_TRY(read_revision(model, revision));
    TRI_TRY(tri__path_join(path, model, "snapshots"));
    TRI_TRY(tri__path_join(out, path, revision));
    int there;
    TRI_TRY(tri__folder_there(out, &there));
    if (there) return TRI_OK;
    return tri__fail(TRI_NOINPUT, "%s: no snapshot %s, which refs/main names", model, revision);
}

tri_status tri__hub_find(const char *cache, const char *name, char out[static TRI_PATH_MAX]) {
    char model[TRI_PATH_MAX];
    out[0] = 0;
    TRI_TRY(tri__hub_place(cache, name, model));
    int there;
    TRI_TRY(tri__folder_there(model, &there));
    if (!there && !strchr(name, '/')) {
        TRI_TRY(find_organisation(cache, name, model));
        if (model[0]) TRI_TRY(tri__folder_there(model, &there));
    }
    if (!model[0] || !there) return TRI_OK;
    tri_status status = find_snapshot(model, out);
    if (status != TRI_NOINPUT) return status;
    const char *why = TRI_TEXT(MESSAGE_BYTES, "%s", tri_error());
    return tri__fail(TRI_NOINPUT, "%s; the download is incomplete: huggingface-cli download %s", why, name);
}

/* Cuts the last part off a path, and returns it; NULL: there is no other before it. */
static const char *cut_last(char *path) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') path[--end] = 0;
    char *slash = strrchr(path, '/');
    if (!slash) return NULL;
    *slash = 0;
    return slash + 1;
}

int tri__hub_is_snapshot(const char *folder, char name[static TRI_PATH_MAX]) {
    char path[TRI_PATH_MAX];
    const char *part;
    if (snprintf(path, sizeof path, "%s", folder) >= TRI_PATH_MAX || !cut_last(path)) return 0;
    part = cut_last(path);
    if (!part || strcmp(part, "snapshots")) return 0;
    part = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (!tri__text_begins(part, prefix)) return 0;
    part += sizeof prefix - 1;
    const char *between = strstr(part, "--");
    if (between) snprintf(name, TRI_PATH_MAX, "%.*s/%s", (int)(between - part), part, between + 2);
    else snprintf(name, TRI_PATH_MAX, "%s", part);
    return 1;
}

int tri__hub_blob(const char *folder, const char *name, char out[static TRI_PATH_MAX]) {
    char path[TRI_PATH_MAX], blobs[TRI_PATH_MAX], model[TRI_PATH_MAX];
    if (!tri__hub_is_snapshot(folder, model) || tri__path_join(path, folder, "../../blobs") != TRI_OK ||
        !tri__path_real(path, blobs) || tri__path_join(path, folder, name) != TRI_OK || !tri__path_real(path, out))
        return 0;
    size_t length = strlen(blobs);
    return strncmp(out, blobs, length) == 0 && out[length] == '/' && !strchr(out + length + 1, '/');
}
