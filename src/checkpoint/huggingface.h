/* huggingface.h - weights of a Hugging Face folder: model.safetensors, or the shards of
 * model.safetensors.index.json. */
#pragma once

#include "base/json.h"
#include "base/log.h"
#include "layout/slice.h"

typedef struct tri_hf tri_hf;
enum { TRI_HF_READ = 1, TRI_HF_COPIED };

/* *out is NULL, with TRI_OK, if the folder has no weights; in Hugging Face's cache, where that is an incomplete
 * download, TRI_NOINPUT. TRI_USAGE if it has only pytorch_model.bin; the text says how to convert it. */
tri_status tri__hf_open(const char *folder, tri_hf **out);
void tri__hf_close(tri_hf *hf);
static inline void tri__hf_drop(tri_hf **at) { tri__hf_close(*at); }
/* TRI_DATA if the folder's weights are not those of so many layers. */
tri_status tri__hf_check_layers(const tri_hf *hf, int64_t layers);
/* Fills the pieces whose name is prefix + a tensor of the folder, e.g. prefix "primary.". Accepts a leading `base`, as
 * "bert.", gamma/beta, and ignores position_ids and heads. filled[i] is set to TRI_HF_READ; or to TRI_HF_COPIED for
 * experts, each of which is a copy of the folder's dense layer. Logs one line each on tensors that were loaded,
 * ignored and newly initialised. Parts of joined tensors (joined.h) are runs of their rows. TRI_DATA, naming tensor
 * and shapes, if they differ, or if a tensor of the embeddings or of a layer that the folder has is missing; rows are
 * repeated as piece->repeat allows, and that is logged. Pieces of no elements, which other ranks have, are compared as
 * well. */
tri_status tri__hf_read(tri_hf *hf, const char *prefix, const char *base, const tri_piece *pieces, int n,
                        uint8_t *filled, const tri_log *log);
