/* template.c - templates of special tokens, and the post-processors of tokenizer.json, each of which reduces to a
 * template. */
#include "data/text/template.h"

static int add(tri_template *template, int32_t id, int32_t type) {
    if (template->n == TRI_TEMPLATE_PARTS) return 0;
    template->part[template->n].id = id;
    template->part[template->n++].type = type;
    return 1;
}

void tri__template_bert(int32_t cls, int32_t sep, int between, int type, tri_template *one, tri_template *two) {
    one->n = two->n = 0;
    if (cls >= 0) add(one, cls, 0), add(two, cls, 0);
    add(one, TRI_TEMPLATE_A, 0), add(two, TRI_TEMPLATE_A, 0);
    if (sep >= 0) {
        add(one, sep, 0);
        for (int i = 0; i < between; i++) add(two, sep, 0);
    }
    add(two, TRI_TEMPLATE_B, type);
    if (sep >= 0) add(two, sep, type);
}

static tri_status bad(const char *path, const char *why) {
    return tri__fail(TRI_DATA, "%s: post_processor: %s", path, why);
}

/* The ids of a special token: {"ids": [101], ...}. */
static tri_status add_special(const char *path, const tri_json *specials, const char *name, int size, int32_t type,
                              tri_template *to) {
    const tri_json *ids = tri__json_get(tri__json_get(specials, name), "ids");
    if (!tri__json_is_array(ids))
        return tri__fail(TRI_DATA, "%s: post_processor: special_tokens has no ids for \"%.80s\"", path, name);
    tri__json_items(ids, id) {
        tri_json_int value = tri__json_is_integer(id) ? tri__json_integer_value(id) : -1;
        if (value < 0 || value >= size)
            return tri__fail(TRI_DATA, "%s: post_processor: an id of \"%.80s\" is not in the vocabulary", path, name);
        if (!add(to, (int32_t)value, type)) return bad(path, "a template is too long");
    }
    return TRI_OK;
}

static tri_status read_parts(const char *path, const tri_json *parts, const tri_json *specials, int size, int texts,
                             tri_template *to) {
    int seen[2] = {0};
    if (!tri__json_is_array(parts)) return bad(path, "a template must be an array");
    tri__json_items(parts, part) {
        const tri_json *sequence = tri__json_get(part, "Sequence"), *special = tri__json_get(part, "SpecialToken");
        const tri_json *it = sequence ? sequence : special, *type = tri__json_get(it, "type_id");
        const char *name = tri__text_in(it, "id");
        tri_json_int value = tri__json_integer_value(type);
        if (!name || !tri__json_is_integer(type) || value < 0 || value > INT32_MAX)
            return bad(path,
                       "a part of a template is {\"Sequence\" or \"SpecialToken\": {\"id\": ..., \"type_id\": ...}}");
        if (special && !sequence) {
            TRI_TRY(add_special(path, specials, name, size, (int32_t)value, to));
            continue;
        }
        int second = !strcmp(name, "B");
        if ((!second && strcmp(name, "A")) || (second && texts == 1) || seen[second]++)
            return bad(path, "a template has A once, and for a pair B once");
        if (!add(to, second ? TRI_TEMPLATE_B : TRI_TEMPLATE_A, (int32_t)value))
            return bad(path, "a template is too long");
    }
    return seen[0] && (texts == 1 || seen[1]) ? TRI_OK : bad(path, "a template has A once, and for a pair B once");
}

static tri_status read_template(const char *path, const tri_json *it, int size, tri_template *one, tri_template *two) {
    const tri_json *specials = tri__json_get(it, "special_tokens");
    one->n = two->n = 0;
    TRI_TRY(read_parts(path, tri__json_get(it, "single"), specials, size, 1, one));
    return read_parts(path, tri__json_get(it, "pair"), specials, size, 2, two);
}

/* ["[SEP]", 102] */
static tri_status read_token(const char *path, const tri_json *it, const char *key, int size, int32_t *id) {
    const tri_json *pair = tri__json_get(it, key), *number = tri__json_at(pair, 1);
    tri_json_int value = tri__json_is_integer(number) ? tri__json_integer_value(number) : -1;
    if (value < 0 || value >= size)
        return tri__fail(TRI_DATA, "%s: post_processor: %s must be [token, id] with an id of the vocabulary", path,
                         key);
    *id = (int32_t)value;
    return TRI_OK;
}

static tri_status read_processor(const char *path, const tri_json *it, int size, int depth, int *made,
                                 tri_template *one, tri_template *two) {
    const char *type = tri__text_in(it, "type");
    if (!type) return bad(path, "it has no type");
    if (!strcmp(type, "ByteLevel")) return TRI_OK; /* it moves offsets, not ids */
    if (!strcmp(type, "Sequence")) {
        const tri_json *list = tri__json_get(it, "processors");
        if (!tri__json_is_array(list) || depth)
            return bad(path, "a Sequence must have an array of processors, none of them a Sequence");
        tri__json_items(list, each) TRI_TRY(read_processor(path, each, size, 1, made, one, two));
        return TRI_OK;
    }
    int bert = !strcmp(type, "BertProcessing"), roberta = !strcmp(type, "RobertaProcessing");
    if (!bert && !roberta && strcmp(type, "TemplateProcessing"))
        return tri__fail(TRI_USAGE,
                         "%s: post_processor %.80s is not known here; TemplateProcessing, BertProcessing, "
                         "RobertaProcessing, ByteLevel and Sequence are", path, type);
    if ((*made)++) return bad(path, "two of a Sequence add special tokens; one is accepted");
    if (!bert && !roberta) return read_template(path, it, size, one, two);
    int32_t cls = -1, sep = -1;
    TRI_TRY(read_token(path, it, "cls", size, &cls));
    TRI_TRY(read_token(path, it, "sep", size, &sep));
    tri__template_bert(cls, sep, roberta ? 2 : 1, !roberta, one, two);
    return TRI_OK;
}

tri_status tri__template_read(const char *path, const tri_json *processor, int size, tri_template *one,
                              tri_template *two) {
    int made = 0;
    tri__template_bert(-1, -1, 0, 1, one, two);
    return !processor || tri__json_is_null(processor) ? TRI_OK
                                                      : read_processor(path, processor, size, 0, &made, one, two);
}
