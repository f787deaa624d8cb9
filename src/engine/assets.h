/* assets.h - external inputs of a model's texts: folders, tokenizers, encoder architectures. */
#pragma once

#include "base/file.h"
#include "data/dataset/windows.h"
#include "data/text/tokenizer.h"
#include "settings/settings.h"

typedef struct tri_assets {
    int n_texts, n_encoders;
    tri_readers readers;
    char folder[2][TRI_PATH_MAX];  /* may hold weights; "": none */
    tri_tokenizer *tokenizer[TRI_TEXTS_MAX]; /* by text, each its encoder's; NULL without a folder */
    tri_encoder encoder[2];
    int overridden[2];             /* an *_encoder object changes the architecture that the folder describes */
} tri_assets;

/* Folders named by the configuration, found as by tri__model_folder. A known name without a folder takes the
 * vocabulary of another name with the same one, and logs it; without need_tokenizers it needs none. --tiny shrinks the
 * encoders, and ignores the folder's weights. */
tri_status tri__assets_open(const tri_settings *settings, int need_tokenizers, const tri_log *log, tri_assets *assets);
/* Those stored in a checkpoint; settings are the checkpoint's. */
tri_status tri__assets_restore(const tri_settings *settings, const char *checkpoint, tri_assets *assets);
/* How texts are windowed, and who reads them. */
tri_windows tri__assets_windows(const tri_model_config *model, const tri_assets *assets);
/* Writes the tokenizers into primary/ and, with two encoders, secondary/ of a folder; `context` is a
 * tri_assets. */
tri_status tri__assets_save(void *context, const char *folder);
void tri__assets_close(tri_assets *assets);
