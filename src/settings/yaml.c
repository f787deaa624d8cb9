/* yaml.c - turns YAML into JSON with the same lines, by libyaml, so that one reader has both. */
#include "settings/yaml.h"

#ifdef TRI_HAS_YAML

#include "base/option.h"
#include "settings/foreign.h"

#include <strings.h>
#include <yaml.h>

const char *tri__yaml_version(void) { return yaml_get_version_string(); }

enum { DEPTH = 60 }; /* less than that of tri__json_parse */

typedef struct writing {
    tri_buffer out;
    yaml_document_t document;
    size_t line;
} writing;

static void put_plain(tri_buffer *out, const char *text, size_t size) {
    size_t digits = strspn(text, "-0123456789");
    char *end;
    double value = strtod(text, &end);
    int truth = tri__option_truth(text), is_number = size && strspn(text, "+-.0123456789eE") == size && !*end;
    if (!size || !strcmp(text, "~") || !strcasecmp(text, "null")) tri__buffer_put(out, "null");
    else if (is_number && digits == size && size < 18) tri__buffer_put(out, "%lld", strtoll(text, NULL, 10));
    else if (is_number && isfinite(value)) tri__buffer_put(out, "%.17g", value);
    else if (truth >= 0) tri__buffer_put(out, truth ? "true" : "false");
    else tri__buffer_json(out, text, size);
}

/* Aliases are written out; a node that is part of itself is too deep, and copies of copies are too much. What is wrong;
 * NULL: nothing. */
static const char *write_node(writing *w, int index, int is_key, int depth) {
    const yaml_node_t *node = yaml_document_get_node(&w->document, index);
    const char *wrong = NULL;
    if (depth == DEPTH || w->out.size > TRI_LIMIT_JSON_FILE) return "nested too deeply";
    for (; w->line < node->start_mark.line; w->line++) tri__buffer_put(&w->out, "\n");
    if (node->type == YAML_SCALAR_NODE) {
        const char *text = (const char *)node->data.scalar.value;
        int is_text = is_key || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        (is_text ? tri__buffer_json : put_plain)(&w->out, text, node->data.scalar.length);
        return NULL;
    }
    if (is_key) return "a key that is not a word";
    int is_list = node->type == YAML_SEQUENCE_NODE;
    const yaml_node_item_t *item = node->data.sequence.items.start;
    const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    tri__buffer_put(&w->out, is_list ? "[" : "{");
    for (; is_list && item < node->data.sequence.items.top && !wrong; item++) {
        if (item > node->data.sequence.items.start) tri__buffer_put(&w->out, ",");
        wrong = write_node(w, *item, 0, depth + 1);
    }
    for (; !is_list && pair < node->data.mapping.pairs.top && !wrong; pair++) {
        if (pair > node->data.mapping.pairs.start) tri__buffer_put(&w->out, ",");
        wrong = write_node(w, pair->key, 1, depth + 1);
        tri__buffer_put(&w->out, ":");
        if (!wrong) wrong = write_node(w, pair->value, 0, depth + 1);
    }
    tri__buffer_put(&w->out, is_list ? "]" : "}");
    return wrong;
}

tri_status tri__yaml_to_json(const char *path, const char *text, size_t size, char **json, size_t *json_size) {
    yaml_parser_t parser;
    writing w = {.line = 0};
    const char *wrong = NULL;
    int is_whole = yaml_parser_initialize(&parser);
    if (!is_whole) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    if ((is_whole = yaml_parser_load(&parser, &w.document))) {
        if (yaml_document_get_root_node(&w.document)) wrong = write_node(&w, 1, 0, 0);
        else wrong = "it is empty";
        yaml_document_delete(&w.document);
    }
    if (!is_whole && parser.error != YAML_MEMORY_ERROR) wrong = parser.problem, w.line = parser.problem_mark.line;
    tri_status status = wrong ? tri__fail(TRI_DATA, "%s:%zu: this YAML cannot be read: %s", path, w.line + 1, wrong)
                              : TRI_OK;
    yaml_parser_delete(&parser);
    *json = is_whole && !wrong ? tri__buffer_take(&w.out, json_size) : NULL;
    tri__buffer_free(&w.out);
    return status == TRI_OK && !*json ? tri__fail(TRI_RESOURCE, "%s: out of memory", path) : status;
}

#else

const char *tri__yaml_version(void) { return NULL; }

tri_status tri__yaml_to_json(const char *path, const char *text, size_t size, char **json, size_t *json_size) {
    (void)text, (void)size, (void)json, (void)json_size;
    return tri__fail(TRI_USAGE, "%s: this build has no libyaml: apt-get install libyaml-dev, then run make; or write "
                     "the file as JSON", path);
}

#endif
