/* elastic.c - meshes of a run that goes on with other ranks. */
#include "cli/elastic.h"

#include "engine/accept.h"
#include "settings/elastic.h"
#include "study/study.h"

/* Whether other stages can be planned: there may be too few layers, or too few microbatches. */
static int is_possible(const tri_settings *asked, const tri_elastic_mesh *mesh) {
    tri_settings s = tri__elastic_settings(asked, mesh->stages, mesh->replicas);
    tri_log silent = {0};
    tri_study study = {.runs = 1};
    tri_words words;
    if (mesh->stages == asked->pp_size) return 1;
    tri__words_keep(&words);
    tri_status status = tri__engine_accept(&s);
    if (status == TRI_OK) status = tri__study_open(&s, &silent, NULL, s.output_dir, &study);
    tri__study_close(&study);
    tri__words_restore(&words);
    return status == TRI_OK;
}

int tri__elastic_fit(void *settings, int alive, int32_t *stages, int32_t *replicas) {
    enum { MESHES = 16 };
    tri_elastic_mesh mesh[MESHES];
    int n = tri__elastic_meshes(settings, alive, mesh, MESHES);
    for (int i = 0; i < n; i++)
        if (is_possible(settings, &mesh[i])) {
            *stages = mesh[i].stages, *replicas = mesh[i].replicas;
            return mesh[i].ranks;
        }
    return 0;
}
