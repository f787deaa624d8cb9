/* session_data.c - see session_data.h. */
#include "tests/lib/session_data.h"

char root[64];

void write_file(const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", root, name);
    OK(tri__file_write(path, text, strlen(text)));
}

void write_table(const char *name, int rows, uint32_t seed) {
    char *text = calloc(1, (size_t)rows * 256 + 64), *at = text;
    at += sprintf(at, "review,title,age,score,label\n");
    for (int i = 0; i < rows; i++) {
        tri_random r = tri__philox(seed, 1, (uint32_t)i, 0, 0, 0);
        int words = 1 + (int)(r.word[0] % 14), first = (int)(r.word[1] % 20), age = (int)(r.word[2] % 60);
        for (int w = 0; w < words; w++)
            at += sprintf(at, "%sw%d", w ? " " : "", w ? (int)(r.word[3] >> w) % 20 & 15 : first);
        at += sprintf(at, ",w%d w%d,%d,%d,%d\n", (int)(r.word[3] % 20), first, 18 + age, (int)(r.word[2] >> 8) % 5,
                      first < 10);
    }
    write_file(name, text);
    free(text);
}

int make_data(void **state) {
    (void)state;
    char text[1024] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    snprintf(root, sizeof root, "/dev/shm/tri-session-%d", (int)getpid()); /* in memory: nothing waits for a disk */
    OK(tri__folder_make(root));
    for (int w = 0; w < 20; w++) sprintf(text + strlen(text), "w%d\n", w);
    char path[128];
    snprintf(path, sizeof path, "%s/vocab", root);
    OK(tri__folder_make(path));
    write_file("vocab/vocab.txt", text);
    write_file(
        "config.json",
        "{\"label_name\": \"label\", \"primary_text_name\": \"review\", \"secondary_text_name\": \"title\","
        " \"tab_field_list\": [\"age\", \"score\"], \"primary_tokenizer\": \"vocab\", \"hidden_common_dim\": 16, "
        "\"fusion_hidden_dim\": 12,"
        " \"max_sen_len\": 12, \"class_weights\": [1.0, 2.0], \"lr\": 0.002, \"warmup_steps\": 5, "
        "\"global_batch_size\": 12,"
        " \"primary_encoder\": {\"hidden_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
        "\"intermediate_size\": "
        "32,"
        " \"max_position_embeddings\": 16},"
        " \"secondary_encoder\": {\"hidden_size\": 16, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
        "\"intermediate_size\": "
        "24,"
        " \"max_position_embeddings\": 16}}");
    write_table("train.csv", 101, 1); /* 9 batches an epoch, the last of 5 rows */
    write_table("valid.csv", 30, 2);
    return 0;
}

int remove_data(void **state) {
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

tri_status join_guarded(tri_world *world, size_t guard, tri_session **session, const char *output,
                        const char *const *extra) {
    char config[128], out[128], models[128], data[128];
    snprintf(config, sizeof config, "--config=%s/config.json", root);
    snprintf(data, sizeof data, "--data-path=%s", root);
    snprintf(models, sizeof models, "--models-dir=%s", root);
    snprintf(out, sizeof out, "--output-dir=%s/%s", root, output);
    const char *options[24] = {config, data, models, out};
    int n = 4;
    for (; extra && *extra; extra++) options[n++] = *extra;
    return tri__session_join(world, n, options, NULL, guard, session);
}

tri_status join_status(tri_world *world, tri_session **session, const char *output, const char *const *extra) {
    return join_guarded(world, 0, session, output, extra);
}

tri_session *open_session(const char *output, const char *const *extra) {
    tri_session *session = NULL;
    OK(join_status(NULL, &session, output, extra));
    return session;
}

tri_status take_step(tri_session *session, double *loss, int *more) {
    TRI_TRY(tri_next_batch(session, more));
    if (!*more) return TRI_OK;
    TRI_TRY(tri_forward_backward(session, loss));
    return tri_update(session);
}

tri_status session_digest(const tri_session *s, char hex[static 33]) {
    tri_piece pieces[512];
    int n = 0;
    if (s->engine.n_weights + s->engine.n_optimizer > 512) return tri__fail(TRI_INTERNAL, "more than 512 pieces");
    for (int i = 0; i < s->engine.n_weights; i++) pieces[n++] = s->engine.weights[i];
    for (int i = 0; i < s->engine.n_optimizer; i++) pieces[n++] = s->engine.optimizer[i];
    return tri__pieces_digest(pieces, n, hex);
}
