/* embed.c - embeddings: rows of the word, position and type tables, added; and the gradients of the tables. */
#include "device/cpu/reference/reference.h"

/* The row of token t's word in this table of V rows; -1: not in it. */
static int64_t word_row(const tri_call *call, int32_t id, int64_t V) {
    int64_t row = (int64_t)id - call->attr->row0;
    return row >= 0 && row < V ? row : -1;
}

static void embed(const tri_call *call) {
    OPERANDS(embed);
    const int32_t *ids = i32(call, ARG(ids)), *pos = i32(call, ARG(pos)); /* [T] */
    const float *word = f32(call, ARG(word)), *position = f32(call, ARG(position)),
                *type = f32(call, ARG(type)); /* [V,H] [P,H] [Y,H] */
    int64_t T = call->t[ARG(y)].rows, H = call->t[ARG(y)].cols;
    for (int64_t t = 0; t < T; t++) {
        int64_t row = word_row(call, ids[t], call->t[ARG(word)].rows);
        for (int64_t c = 0; c < H; c++) {
            double sum = row >= 0 ? word[row * H + c] : 0;
            if (position) sum += position[pos[t] * H + c];
            if (type) sum += type[c];
            store(call, ARG(y), t * H + c, sum);
        }
    }
}

/* Adds token by token, so that the order of addition is the token order. Padding rows receive no gradient, as with
 * PyTorch's padding_idx. */
static void embed_dw(const tri_call *call) {
    OPERANDS(embed_dw);
    const int32_t *ids = i32(call, ARG(ids)), *pos = i32(call, ARG(pos)); /* [T] */
    const float *dy = f32(call, ARG(dy));                                 /* [T,H] */
    float *dword = f32(call, ARG(dword)), *dposition = f32(call, ARG(dposition)),
          *dtype = f32(call, ARG(dtype)); /* [V,H], [P,H] and [Y,H] or NULL */
    int64_t T = call->t[ARG(dy)].rows, H = call->t[ARG(dy)].cols;
    clear(call, ARG(dword));
    if (dposition) clear(call, ARG(dposition));
    if (dtype) clear(call, ARG(dtype));
    for (int64_t t = 0; t < T; t++) {
        int64_t row = ids[t] + 1 == call->attr->pad ? -1 : word_row(call, ids[t], call->t[ARG(dword)].rows);
        int positioned = dposition && pos[t] + 1 != call->attr->pad_position;
        for (int64_t c = 0; c < H; c++) {
            if (row >= 0) dword[row * H + c] += dy[t * H + c];
            if (positioned) dposition[pos[t] * H + c] += dy[t * H + c];
            if (dtype) dtype[c] += dy[t * H + c];
        }
    }
}

const tri_kernel_row tri__cpu_embed_reference[] = TRI_KERNEL_ROWS(TRI_KERNEL(embed), TRI_KERNEL(embed_dw));
