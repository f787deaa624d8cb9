/* assets.h - external inputs of a model's texts: folders, tokenizers, encoder architectures. */
#pragma once

#include "base/file.h"
#include "data/dataset/windows.h"
#include "data/text/tokenizer.h"
#include "settings/settings.h"

typedef struct tri_assets {
    int n_texts;
    int shares;                    /* 1: both texts go through the primary encoder */
    char folder[2][TRI_PATH_MAX];  /* may hold weights; "": none */
    tri_tokenizer *tokenizer[2];   /* NULL without a folder; where texts share an encoder, the same one */
    tri_encoder encoder[2];        /* likewise equal */
    int overridden[2];             /* an *_encoder object changes the architecture that the folder describes */
} tri_assets;

static inline int tri__assets_encoders(const tri_assets *assets) { return assets->shares ? 1 : assets->n_texts; }
/* Folders named by the configuration, found as by tri__model_folder. A known name without a folder takes the
 * vocabulary of another name with the same one, and logs it; without need_tokenizers it needs none. --tiny shrinks the
 * encoders, and ignores the folder's weights. */
tri_status tri__assets_open(const tri_settings *settings, int need_tokenizers, const tri_log *log, tri_assets *assets);
/* Those stored in a checkpoint; settings are the checkpoint's. */
tri_status tri__assets_restore(const tri_settings *settings, const char *checkpoint, tri_assets *assets);
/* How texts are windowed, and whether they are joined. */
tri_windows tri__assets_windows(const tri_model_config *model, const tri_assets *assets);
/* Writes the tokenizers into primary/ and, unless texts share an encoder, secondary/ of a folder; `context` is a
 * tri_assets. */
tri_status tri__assets_save(void *context, const char *folder);
void tri__assets_close(tri_assets *assets);
