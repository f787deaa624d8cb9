/* test_tokenizer_golden.c - ids equal to those of the tokenizers library and of transformers, from files that
 * tools/golden_tokenizer.py and, given as arguments, tools/parity_*.py write: JSON lines. The first is {"folder": F} or
 * {"files": {name: text}}; the others are {"text": T, "ids": [..]}, with "max_len" if truncated. Each case is encoded
 * twice: the second time its words are cached.
 *
 * Further keys of the first line: "refused": W, the folder must be refused with these words; "may_refuse", it may be
 * refused, with exit 2, 65 or 66, and its cases are then skipped; "save": F, its tokenizer is saved there. */
#include "base/file.h"
#include "base/json.h"
#include "data/text/tokenizer.h"

#include <unistd.h>

#include "tests/lib/test.h"

enum { MAX_LEN = 1 << 22 };

static const char *const committed[] = {"tests/golden/tokenizer_components.jsonl",
                                        "tests/golden/tokenizer_folders.jsonl", "tests/golden/tokenizer_settings.jsonl",
                                        "tests/golden/tokenizer_bert.jsonl", "tests/golden/tokenizer_roberta.jsonl",
                                        "tests/golden/tokenizer_unigram.jsonl"};
static const char *const *files = committed;
static int n_files = (int)(sizeof committed / sizeof *committed);
static int32_t ids[MAX_LEN];

static void must(tri_status status) {
    if (status != TRI_OK) fail_msg("%s", tri_error());
}

/* The folder that the first line names; NULL when it is not here. Or one made of the files in it, to be removed. */
static const char *open_folder(const tri_json *head, char made[static 64]) {
    const char *folder = tri__json_string_value(tri__json_get(head, "folder"));
    made[0] = 0;
    if (folder) return tri__is_folder(folder) ? folder : NULL;
    snprintf(made, 64, "/tmp/trident-golden-%ld", (long)getpid());
    if (tri__is_folder(made)) must(tri__folder_remove(made));
    must(tri__folder_make(made));
    tri__json_members(tri__json_get(head, "files"), m) {
        char path[TRI_PATH_MAX];
        must(tri__path_join(path, made, m->key));
        must(tri__file_write(path, tri__json_string_value(m->value), tri__json_string_length(m->value)));
    }
    return made;
}

static void print_row(const char *what, const int32_t *row, int n) {
    print_message("\n  %s", what);
    for (int i = 0; i < n && i < 200; i++) print_message(" %d", row[i]);
}

static void compare(const char *file, int line, const tri_json *want, const int32_t *got, int n, const tri_json *one) {
    int expected = (int)tri__json_size(want), same = n == expected;
    for (int i = 0; same && i < n; i++) same = tri__json_integer_value(tri__json_at(want, (size_t)i)) == got[i];
    if (same) return;
    char *text = tri__json_text(one, TRI_JSON_COMPACT | TRI_JSON_ENSURE_ASCII);
    print_message("%s:%d: ids differ for %.400s", file, line, text);
    print_row("got", got, n);
    free(text);
    fail_msg("%d ids instead of %d", n, expected);
}

static void check(const tri_tokenizer *tokenizer, const char *file, int line, const tri_json *one) {
    const tri_json *text = tri__json_get(one, "text");
    int max_len = tri__json_get(one, "max_len") ? (int)tri__json_integer_value(tri__json_get(one, "max_len")) : MAX_LEN;
    for (int turn = 0; turn < 2; turn++) {
        int n = tri__tokenizer_encode(tokenizer, tri__json_string_value(text), tri__json_string_length(text), max_len,
                                      ids);
        compare(file, line, tri__json_get(one, "ids"), ids, n, one);
    }
}

/* A tokenizer that was saved and loaded again gives the same ids, and says so by its hash. */
static tri_tokenizer *load_again(tri_tokenizer *first, const char *path, int line) {
    char copy[64];
    snprintf(copy, sizeof copy, "/tmp/trident-golden-copy-%ld", (long)getpid());
    tri_tokenizer *second;
    must(tri__tokenizer_save(first, copy));
    if (tri__tokenizer_load(copy, &second) != TRI_OK)
        fail_msg("%s:%d: saved, it does not load: %s", path, line, tri_error());
    must(tri__folder_remove(copy));
    if (tri__tokenizer_hash(first) != tri__tokenizer_hash(second))
        fail_msg("%s:%d: saved and loaded again it is another", path, line);
    assert_int_equal(tri__tokenizer_size(first), tri__tokenizer_size(second));
    tri__tokenizer_free(first);
    return second;
}

/* The folder's tokenizer, saved and loaded again; NULL where it is refused and may be. */
static tri_tokenizer *open_tokenizer(const char *folder, const tri_json *head, const char *path, int line) {
    const char *refused = tri__json_string_value(tri__json_get(head, "refused"));
    const char *save = tri__json_string_value(tri__json_get(head, "save"));
    tri_tokenizer *tokenizer;
    tri_status status = tri__tokenizer_load(folder, &tokenizer);
    int known = status == TRI_USAGE || status == TRI_DATA || status == TRI_NOINPUT;
    if (refused && (!known || !strstr(tri_error(), refused)))
        fail_msg("%s:%d: not refused for \"%s\": %s", path, line, refused, tri_error());
    if (known && tri__json_is_true(tri__json_get(head, "may_refuse")))
        print_message("%s:%d: refused: %s\n", path, line, tri_error());
    else if (status != TRI_OK && !refused) fail_msg("%s:%d: %s", path, line, tri_error());
    if (status != TRI_OK) return NULL;
    tokenizer = load_again(tokenizer, path, line);
    if (save) must(tri__tokenizer_save(tokenizer, save));
    return tokenizer;
}

static int check_file(const char *path) {
    FILE *in = fopen(path, "r");
    char *line = NULL, made[64] = "";
    size_t room = 0;
    ssize_t length;
    int number = 0, cases = 0;
    tri_tokenizer *tokenizer = NULL;
    if (!in) fail_msg("%s is missing", path);
    while ((length = getline(&line, &room, in)) > 0) {
        tri_json *one;
        if (tri__json_parse_any(line, (size_t)length, path, TRI_DATA, &one) != TRI_OK)
            fail_msg("row %d: %s", number + 1, tri_error());
        number++;
        if (tri__json_get(one, "folder") ||
            tri__json_get(one, "files")) { /* the cases that follow are of another tokenizer */
            tri__tokenizer_free(tokenizer);
            tokenizer = NULL;
            const char *folder = open_folder(one, made);
            if (folder) tokenizer = open_tokenizer(folder, one, path, number);
            else
                print_message("%s:%d: skipped: %s is not here\n", path, number,
                              tri__json_string_value(tri__json_get(one, "folder")));
            if (made[0]) must(tri__folder_remove(made));
        } else if (tokenizer) {
            check(tokenizer, path, number, one);
            cases++;
        }
        tri__json_decref(one);
    }
    tri__tokenizer_free(tokenizer);
    free(line);
    fclose(in);
    return cases;
}

TEST(equals_the_library) {
    for (int i = 0; i < n_files; i++) print_message("%s: %d cases\n", files[i], check_file(files[i]));
}

int main(int argc, char **argv) {
    if (argc > 1) files = (const char *const *)argv + 1, n_files = argc - 1;
    return run_listed(argc, argv, NULL, NULL);
}
