/* joined.h - tensors that Hugging Face's files have joined and models as parts, so that ranks can split each: equal
 * runs of the tensor's rows. */
#pragma once

#include "base/file.h"

/* Of a part's name, as layers.0.attn.Wqkv.key.weight: the number of the tensor's parts, 3; which of them it is, 1; and
 * the tensor's name, layers.0.attn.Wqkv.weight. Other names: 0. */
int tri__joined_parts(const char *name, int *part, char whole[static TRI_PATH_MAX]);
