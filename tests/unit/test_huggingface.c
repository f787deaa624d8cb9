/* test_huggingface.c - weights from a Hugging Face folder: names, shards, dtypes, log lines; synthetic folders here,
 * real ones in make parity. */
#include "tests/lib/test.h"
#include "tests/lib/scratch.h"
#include "checkpoint/huggingface.h"

#include "base/file.h"
#include "checkpoint/safetensors.h"

#include <unistd.h>

static tri_piece whole(const char *name, tri_dtype dtype, tri_shape shape, const void *data) {
    return (tri_piece){
        .name = name, .dtype = dtype, .shape = shape, .slice = tri__slice_whole(&shape), .data = (void *)data};
}

static void write_file(const char *name, const tri_piece *pieces, int n) {
    char path[TRI_PATH_MAX];
    assert_int_equal(tri__path_join(path, folder, name), TRI_OK);
    assert_int_equal(tri__st_write(path, pieces, n, NULL, NULL), TRI_OK);
}

static void write_text(const char *name, const char *text) {
    char path[TRI_PATH_MAX];
    assert_int_equal(tri__path_join(path, folder, name), TRI_OK);
    assert_int_equal(tri__file_write(path, text, strlen(text)), TRI_OK);
}

static void collect(void *context, tri_log_level level, const char *text) {
    char *all = context;
    size_t used = strlen(all);
    snprintf(all + used, 4096 - used, "%s%s\n", level == TRI_LOG_WARN ? "warning: " : "", text);
}

static const float four[4] = {1, 2, 3, 4}, two[2] = {5, 6};
static const uint16_t half[2] = {0x3C00, 0xC000}, brain[2] = {0x3F80, 0xC000}; /* 1, -2 in F16 and BF16 */
static const float plain[2] = {1, -2};
static const int64_t ids[2] = {0, 1};

TEST_IN(names_and_words, setup, teardown) {
    const tri_piece stored[] = {
        whole("bert.embeddings.word_embeddings.weight", TRI_F32, tri__shape_2d(2, 2), four),
        whole("bert.embeddings.LayerNorm.gamma", TRI_F16, tri__shape_1d(2), half),
        whole("bert.embeddings.LayerNorm.beta", TRI_BF16, tri__shape_1d(2), brain),
        whole("bert.embeddings.position_ids", TRI_I64, tri__shape_2d(1, 2), ids),
        whole("bert.pooler.dense.bias", TRI_F32, tri__shape_1d(2), two),
        whole("cls.predictions.bias", TRI_F32, tri__shape_1d(2), two),
        whole("classifier.bias", TRI_F32, tri__shape_1d(2), two),
        whole("bert.encoder.layer.9.output.dense.bias", TRI_F32, tri__shape_1d(2), two),
    };
    write_file("model.safetensors", stored, 8);
    float word[4] = {0}, gain[2] = {0}, shift[2] = {0}, other[2] = {7, 7}, column[2] = {0};
    tri_piece pieces[] = {
        whole("primary.embeddings.word_embeddings.weight", TRI_F32, tri__shape_2d(2, 2), word),
        whole("primary.embeddings.LayerNorm.weight", TRI_F32, tri__shape_1d(2), gain),
        whole("primary.embeddings.LayerNorm.bias", TRI_F32, tri__shape_1d(2), shift),
        whole("primary.projection.bias", TRI_F32, tri__shape_1d(2), other),
        whole("secondary.embeddings.LayerNorm.bias", TRI_F32, tri__shape_1d(2), other),
    };
    uint8_t filled[5] = {0};
    char said[4096] = "", expected[4096];
    tri_log log = {.say = collect, .context = said};
    tri_hf *hf;
    assert_int_equal(tri__hf_open(folder, &hf), TRI_OK);
    assert_non_null(hf);
    assert_int_equal(tri__hf_read(hf, "primary.", "bert.", pieces, 5, filled, &log), TRI_OK);
    assert_memory_equal(word, four, sizeof word);
    assert_true(gain[0] == 1 && gain[1] == -2 && shift[0] == 1 && shift[1] == -2);
    assert_true(other[0] == 7 && other[1] == 7);
    assert_memory_equal(filled, ((uint8_t[]){1, 1, 1, 0, 0}), 5);
    snprintf(expected, sizeof expected,
             "primary: loaded 3 tensors (0.0 M parameters) from %s\n"
             "primary: ignored 4: embeddings.position_ids, pooler.dense.bias, classifier.bias, cls.predictions.bias\n"
             "warning: primary: ignored 1 tensor that the model does not have: encoder.layer.9.output.dense.bias\n"
             "primary: newly initialised 1: projection.bias\n",
             folder);
    assert_string_equal(said, expected);

    pieces[0].slice = (tri_slice){.start = {0, 1}, .extent = {2, 1}, .begin = 0, .end = 2}; /* a column */
    pieces[0].data = column;
    assert_int_equal(tri__hf_read(hf, "primary.", "bert.", pieces, 5, filled, NULL), TRI_OK);
    assert_true(column[0] == 2 && column[1] == 4);

    pieces[0] = whole("primary.embeddings.word_embeddings.weight", TRI_F32, tri__shape_2d(1, 4), word);
    assert_int_equal(tri__hf_read(hf, "primary.", "bert.", pieces, 5, filled, NULL), TRI_DATA);
    assert_non_null(strstr(tri_error(), "shape [2, 2]"));
    assert_non_null(strstr(tri_error(), "[1, 4]"));
    tri__hf_close(hf);
}

TEST_IN(shards, setup, teardown) {
    const tri_piece first = whole("roberta.embeddings.LayerNorm.weight", TRI_F32, tri__shape_1d(2), two);
    const tri_piece second = whole("roberta.embeddings.LayerNorm.bias", TRI_F32, tri__shape_1d(2), four);
    write_file("model-00001-of-00002.safetensors", &first, 1);
    write_file("model-00002-of-00002.safetensors", &second, 1);
    write_text("model.safetensors.index.json",
               "{\"weight_map\": {\"roberta.embeddings.LayerNorm.weight\": \"model-00001-of-00002.safetensors\","
               "\"roberta.embeddings.LayerNorm.bias\": \"model-00002-of-00002.safetensors\"}}");
    float gain[2], shift[2];
    tri_piece pieces[] = {
        whole("secondary.embeddings.LayerNorm.weight", TRI_F32, tri__shape_1d(2), gain),
        whole("secondary.embeddings.LayerNorm.bias", TRI_F32, tri__shape_1d(2), shift),
    };
    uint8_t filled[2] = {0};
    tri_hf *hf;
    assert_int_equal(tri__hf_open(folder, &hf), TRI_OK);
    assert_int_equal(tri__hf_read(hf, "secondary.", "roberta.", pieces, 2, filled, NULL), TRI_OK);
    assert_memory_equal(gain, two, sizeof gain);
    assert_memory_equal(shift, four, sizeof shift);
    tri__hf_close(hf);

    static const struct {
        const char *map, *word;
    } bad[] = {
        {"{\"a\": \"../model.safetensors\"}", "plain file name"},
        {"{\"a\": \"/etc/passwd\"}", "plain file name"},
        {"{\"a\": \"..\"}", "plain file name"},
        {"{\"a\": 3}", "plain file name"},
        {"[]", "weight_map"},
        {"{\"a\": \"model-00001-of-00002.safetensors\"}", "'a' is not in"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"weight_map\": %s}", bad[i].map);
        write_text("model.safetensors.index.json", text);
        assert_int_equal(tri__hf_open(folder, &hf), TRI_DATA);
        assert_null(hf);
        if (!strstr(tri_error(), bad[i].word)) fail_msg("%s: %s", bad[i].map, tri_error());
    }
    write_text("model.safetensors.index.json", "{\"weight_map\": {\"a\": \"model-3.safetensors\"}}");
    assert_int_equal(tri__hf_open(folder, &hf), TRI_NOINPUT);
}

TEST_IN(refused, setup, teardown) {
    tri_hf *hf;
    float out[2];
    uint8_t filled[1];
    assert_int_equal(tri__hf_open(folder, &hf), TRI_OK);
    assert_null(hf); /* no weights: an ordinary answer */
    write_text("pytorch_model.bin", "PK");
    assert_int_equal(tri__hf_open(folder, &hf), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "save_pretrained"));

    const tri_piece twice[] = {whole("bert.x", TRI_F32, tri__shape_1d(2), two),
                               whole("x", TRI_F32, tri__shape_1d(2), two)};
    write_file("model.safetensors", twice, 2);
    tri_piece piece = whole("primary.y", TRI_F32, tri__shape_1d(2), out);
    assert_int_equal(tri__hf_open(folder, &hf), TRI_OK);
    assert_int_equal(tri__hf_read(hf, "primary.", "bert.", &piece, 1, filled, NULL), TRI_DATA);
    assert_non_null(strstr(tri_error(), "twice"));
    tri__hf_close(hf);

    char path[TRI_PATH_MAX];
    assert_int_equal(tri__path_join(path, folder, "model.safetensors"), TRI_OK);
    remove(path);
    write_file("model.safetensors", twice, 1);
    assert_int_equal(tri__hf_open(folder, &hf), TRI_OK);
    assert_int_equal(tri__hf_read(hf, "primary.", "bert.", &piece, 1, filled, NULL), TRI_DATA);
    assert_non_null(strstr(tri_error(), "none of its tensors"));
    tri__hf_close(hf);
}

/* Hugging Face's cache has links under the names of files. The file with the known name may be one; a shard, whose name
 * the index makes up, may not: it could lead anywhere. */
TEST_IN(links, setup, teardown) {
    const tri_piece piece = whole("bert.embeddings.LayerNorm.weight", TRI_F32, tri__shape_1d(2), two);
    char path[TRI_PATH_MAX];
    tri_hf *hf;
    write_file("blob", &piece, 1);
    assert_int_equal(tri__path_join(path, folder, "model.safetensors"), TRI_OK);
    assert_int_equal(symlink("blob", path), 0);
    assert_int_equal(tri__hf_open(folder, &hf), TRI_OK);
    assert_non_null(hf);
    tri__hf_close(hf);
    assert_int_equal(unlink(path), 0);

    write_text("model.safetensors.index.json",
               "{\"weight_map\": {\"bert.embeddings.LayerNorm.weight\": \"shard.safetensors\"}}");
    assert_int_equal(tri__path_join(path, folder, "shard.safetensors"), TRI_OK);
    assert_int_equal(symlink("blob", path), 0);
    assert_int_equal(tri__hf_open(folder, &hf), TRI_DATA);
    assert_null(hf);
    assert_non_null(strstr(tri_error(), "shard.safetensors"));
    assert_non_null(strstr(tri_error(), "symbolic link"));
    assert_int_equal(unlink(path), 0);
    write_file("shard.safetensors", &piece, 1); /* and the same as a file is read */
    assert_int_equal(tri__hf_open(folder, &hf), TRI_OK);
    tri__hf_close(hf);
}

/* A snapshot of Hugging Face's cache: shards, of which each type of weights is one, are links to blobs of the model. */
TEST_IN(snapshots, setup, teardown) {
    static const char *const folders[] = {"/models--o--m", "/models--o--m/blobs", "/models--o--m/snapshots",
                                          "/models--o--m/snapshots/1"};
    static const struct {
        const char *name, *blob, *tensor;
        tri_dtype dtype;
        const void *data;
    } rows[] = {{"model-1.safetensors", "a", "bert.encoder.layer.0.output.dense.bias", TRI_F32, plain},
                {"model-2.safetensors", "b", "bert.encoder.layer.1.output.dense.bias", TRI_F16, half},
                {"model-3.safetensors", "c", "bert.encoder.layer.2.output.dense.bias", TRI_BF16, brain}};
    char path[TRI_PATH_MAX], target[TRI_PATH_MAX], snapshot[TRI_PATH_MAX], text[1024] = "";
    float out[4][2];
    uint8_t filled[4];
    tri_hf *hf;
    for (size_t i = 0; i < 4; i++) {
        snprintf(snapshot, sizeof snapshot, "%s%s", folder, folders[i]);
        assert_int_equal(tri__folder_make(snapshot), TRI_OK);
    }
    for (size_t i = 0; i < 3; i++) {
        const tri_piece piece = whole(rows[i].tensor, rows[i].dtype, tri__shape_1d(2), rows[i].data);
        snprintf(target, sizeof target, "models--o--m/blobs/%s", rows[i].blob);
        write_file(target, &piece, 1);
        snprintf(target, sizeof target, "../../blobs/%s", rows[i].blob);
        assert_int_equal(tri__path_join(path, snapshot, rows[i].name), TRI_OK);
        assert_int_equal(symlink(target, path), 0);
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s\"%s\": \"%s\"", i ? "," : "{\"weight_map\": {", rows[i].tensor,
                 rows[i].name);
    }
    strcat(text, "}}");
    assert_int_equal(tri__path_join(path, snapshot, "model.safetensors.index.json"), TRI_OK);
    assert_int_equal(tri__file_write(path, text, strlen(text)), TRI_OK);
    tri_piece pieces[4];
    for (int i = 0; i < 4; i++)
        pieces[i] = whole((const char *[]){"primary.encoder.layer.0.output.dense.bias",
                                           "primary.encoder.layer.1.output.dense.bias",
                                           "primary.encoder.layer.2.output.dense.bias",
                                           "primary.encoder.layer.2.output.dense.weight"}[i],
                          TRI_F32, tri__shape_1d(2), out[i]);
    assert_int_equal(tri__hf_open(snapshot, &hf), TRI_OK);
    assert_int_equal(tri__hf_read(hf, "primary.", "bert.", pieces, 3, filled, NULL), TRI_OK);
    for (int i = 0; i < 3; i++) assert_true(out[i][0] == 1 && out[i][1] == -2);
    assert_int_equal(tri__hf_check_layers(hf, 3), TRI_OK);
    assert_int_equal(tri__hf_check_layers(hf, 2), TRI_DATA); /* a layer too many, one too few, one that is not whole */
    assert_non_null(strstr(tri_error(), "'bert.encoder.layer.2.output.dense.bias' [2]"));
    assert_int_equal(tri__hf_check_layers(hf, 4), TRI_DATA);
    assert_int_equal(tri__hf_read(hf, "primary.", "bert.", pieces, 4, filled, NULL), TRI_DATA);
    assert_non_null(strstr(tri_error(), "no tensor 'encoder.layer.2.output.dense.weight', the model's has shape [2]"));
    pieces[1] = whole(pieces[1].name, TRI_F32, tri__shape_1d(1), out[1]);
    assert_int_equal(tri__hf_read(hf, "primary.", "bert.", pieces, 3, filled, NULL), TRI_DATA);
    assert_non_null(
        strstr(tri_error(), "has shape [2], the model's 'primary.encoder.layer.1.output.dense.bias' has [1]"));
    tri__hf_close(hf);
    /* A link out of the model's blobs is refused, as in any folder. */
    assert_int_equal(tri__path_join(path, snapshot, rows[2].name), TRI_OK);
    assert_int_equal(unlink(path), 0);
    write_text("c", "x");
    assert_int_equal(tri__path_join(path, snapshot, rows[2].name), TRI_OK);
    assert_int_equal(symlink("../../../c", path), 0);
    assert_int_equal(tri__hf_open(snapshot, &hf), TRI_DATA);
    assert_non_null(strstr(tri_error(), "symbolic link"));
    snprintf(path, sizeof path, "%s/models--o--m", folder);
    assert_int_equal(tri__folder_remove_all(path), TRI_OK);
}

/* --extend-positions copy: rows 0 to P - 1 again and again; with RoBERTa, those before the first usable one stay once.
 * Any range of the elements, as shards have them. */
TEST_IN(repeated, setup, teardown) {
    enum { HAVE = 5, WANT = 14, WIDTH = 2 };
    static const int from[2][WANT] = {{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3},
                                      {0, 1, 2, 3, 4, 2, 3, 4, 2, 3, 4, 2, 3, 4}};
    float table[HAVE * WIDTH], out[WANT * WIDTH];
    char said[4096] = "";
    tri_log log = {.say = collect, .context = said};
    tri_hf *hf;
    for (int i = 0; i < HAVE * WIDTH; i++) table[i] = (float)i;
    const tri_piece stored = whole("bert.embeddings.position_embeddings.weight", TRI_F32, tri__shape_2d(HAVE, WIDTH),
                                   table);
    tri_piece piece = whole("primary.embeddings.position_embeddings.weight", TRI_F32, tri__shape_2d(WANT, WIDTH), out);
    uint8_t filled[1];
    write_file("model.safetensors", &stored, 1);
    assert_int_equal(tri__hf_open(folder, &hf), TRI_OK);
    assert_int_equal(tri__hf_read(hf, "primary.", "bert.", &piece, 1, filled, NULL), TRI_DATA); /* not asked for */
    for (int base = 0; base < 3; base += 2)
        for (int64_t begin = 0; begin < WANT * WIDTH; begin += 3)
            for (int64_t end = begin; end <= WANT * WIDTH; end += 5) {
                piece.repeat = base + 1;
                piece.slice.begin = begin, piece.slice.end = end;
                memset(out, 0xff, sizeof out);
                said[0] = 0;
                assert_int_equal(tri__hf_read(hf, "primary.", "bert.", &piece, 1, filled, &log), TRI_OK);
                assert_non_null(strstr(said, base ? "primary: the folder's 3 positions are repeated to 12\n"
                                                  : "primary: the folder's 5 positions are repeated to 14\n"));
                for (int64_t e = begin; e < end; e++)
                    assert_true(out[e - begin] == table[from[base > 0][e / WIDTH] * WIDTH + e % WIDTH]);
            }
    piece = whole(piece.name, TRI_F32, tri__shape_2d(WANT, 1), out); /* another width; more rows than wanted */
    piece.repeat = 1;
    assert_int_equal(tri__hf_read(hf, "primary.", "bert.", &piece, 1, filled, NULL), TRI_DATA);
    piece = whole(piece.name, TRI_F32, tri__shape_2d(4, WIDTH), out);
    piece.repeat = 1;
    assert_int_equal(tri__hf_read(hf, "primary.", "bert.", &piece, 1, filled, NULL), TRI_DATA);
    tri__hf_close(hf);
}

/* Parts of a joined tensor are runs of its rows, read by any slice of them. */
TEST_IN(joined, setup, teardown) {
    static const float rows[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const tri_piece stored[] = {whole("model.layers.0.attn.Wqkv.weight", TRI_F32, tri__shape_2d(6, 2), rows),
                                whole("model.layers.0.mlp.Wi.bias", TRI_F32, tri__shape_1d(4), rows),
                                whole("head.dense.weight", TRI_F32, tri__shape_2d(2, 2), four)};
    write_file("model.safetensors", stored, 3);
    float query[4] = {0}, value[2] = {0}, gate[2] = {0};
    tri_piece pieces[] = {whole("primary.layers.0.attn.Wqkv.query.weight", TRI_F32, tri__shape_2d(2, 2), query),
                          whole("primary.layers.0.attn.Wqkv.value.weight", TRI_F32, tri__shape_2d(2, 2), value),
                          whole("primary.layers.0.mlp.Wi.gate.bias", TRI_F32, tri__shape_1d(2), gate)};
    pieces[1].slice = (tri_slice){.start = {1, 0}, .extent = {1, 2}, .begin = 0, .end = 2}; /* its second row */
    uint8_t filled[3] = {0};
    char said[4096] = "";
    tri_log log = {.say = collect, .context = said};
    tri_hf *hf;
    assert_int_equal(tri__hf_open(folder, &hf), TRI_OK);
    assert_int_equal(tri__hf_read(hf, "primary.", "model.", pieces, 3, filled, &log), TRI_OK);
    assert_memory_equal(query, rows, sizeof query);
    assert_true(value[0] == 11 && value[1] == 12 && gate[0] == 3 && gate[1] == 4);
    assert_null(strstr(said, "does not have"));
    assert_non_null(strstr(said, "ignored 1: head.dense.weight"));
    pieces[0] = whole(pieces[0].name, TRI_F32, tri__shape_2d(3, 2), query);
    assert_int_equal(tri__hf_read(hf, "primary.", "model.", pieces, 1, filled, NULL), TRI_DATA);
    assert_non_null(strstr(tri_error(), "'model.layers.0.attn.Wqkv.weight' has shape [6, 2]"));
    tri__hf_close(hf);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
