/* experts.c - mixtures of experts: routing with a capacity in each sequence, the balancing loss, and rows on their way
 * to experts and back. */
#include "device/cpu/reference/reference.h"

/* The expert of a choice: of a row, one of `each` of every expert, or of a choice without a place. */
static int64_t expert_of(int32_t choice, int64_t each) { return choice < 0 ? -1 - (int64_t)choice : choice / each; }

/* The most probable expert but for `not`. Where nothing is a number: the first. */
static int64_t best(const float *logits, int64_t C, int64_t not) {
    int64_t found = not == 0;
    for (int64_t e = found + 1; e < C; e++)
        if (e != not && logits[e] > logits[found]) found = e;
    return found;
}

/* probs [C], and the weights of the K chosen experts; choice holds their numbers. */
static void weigh(const float *logits, int64_t C, int64_t K, const int32_t *choice, float *probs, float *weight) {
    double most = logits[choice[0]], sum = 0, chosen = 0;
    for (int64_t e = 0; e < C; e++) sum += exp(logits[e] - most);
    for (int64_t e = 0; e < C && probs; e++) probs[e] = (float)(exp(logits[e] - most) / sum);
    for (int64_t j = 0; j < K; j++) chosen += exp(logits[choice[j]] - most);
    for (int64_t j = 0; j < K; j++) weight[j] = (float)(exp(logits[choice[j]] - most) / (K > 1 ? chosen : sum));
}

/* Gives the j-th choices of a sequence, tokens [begin, end), places [place, end_place) of their experts' runs. What an
 * expert has taken shows in `from`: places are filled from the first on. */
static void take(int32_t *choice, int32_t *from, const int32_t at[static 4], int64_t K, int64_t j, int64_t each) {
    int64_t begin = at[0], end = at[1], first = at[2], last = at[3];
    for (int64_t t = begin; t < end; t++) {
        int64_t e = choice[t * K + j], r = e * each + first;
        while (r < e * each + last && from[r] >= 0) r++;
        if (r == e * each + last) {
            choice[t * K + j] = (int32_t)(-1 - e);
            continue;
        }
        choice[t * K + j] = (int32_t)r;
        from[r] = (int32_t)(t * K + j);
    }
}

static void route(const tri_call *call) {
    OPERANDS(route);
    const float *logits = f32(call, ARG(logits));                                       /* [T,C] */
    const int32_t *seq = i32(call, ARG(seq)), *places = i32(call, ARG(places));         /* [N+1] [N+1] */
    float *probs = f32(call, ARG(probs)), *weight = f32(call, ARG(weight));             /* [T,C] or absent, [T,K] */
    int32_t *choice = call->t[ARG(choice)].data, *from = call->t[ARG(from)].data;       /* [T,K] [R] */
    int64_t T = call->t[ARG(logits)].rows, C = call->t[ARG(logits)].cols, K = call->t[ARG(choice)].cols;
    int64_t N = call->t[ARG(seq)].rows - 1, R = call->t[ARG(from)].rows;
    for (int64_t r = 0; r < R; r++) from[r] = -1;
    for (int64_t t = 0; t < seq[N]; t++) {
        int32_t *chosen = choice + t * K;
        for (int64_t j = 0; j < K; j++) chosen[j] = (int32_t)best(logits + t * C, C, j ? chosen[0] : -1);
        weigh(logits + t * C, C, K, chosen, probs ? probs + t * C : NULL, weight + t * K);
    }
    for (int64_t i = seq[N] * C; i < T * C && probs; i++) probs[i] = 0;
    for (int64_t i = seq[N] * K; i < T * K; i++) choice[i] = -1, weight[i] = 0;
    for (int64_t s = 0; s < N; s++)
        for (int64_t j = 0; j < K; j++)
            take(choice, from, (const int32_t[]){seq[s], seq[s + 1], places[s], places[s + 1]}, K, j, R / C);
}

static void route_din(const tri_call *call) {
    OPERANDS(route_din);
    const float *dprobs = f32(call, ARG(dprobs)), *dweight = f32(call, ARG(dweight)); /* [T,C] [T,K] */
    const float *probs = f32(call, ARG(probs));                                       /* [T,C] */
    const int32_t *choice = i32(call, ARG(choice));                                   /* [T,K] */
    int64_t T = call->t[ARG(probs)].rows, C = call->t[ARG(probs)].cols, K = call->t[ARG(choice)].cols;
    int64_t each = call->t[ARG(from)].rows / C;
    for (int64_t t = 0; t < T; t++) {
        const float *p = probs + t * C, *dw = dweight + t * K;
        int64_t a = expert_of(choice[t * K], each), b = K > 1 ? expert_of(choice[t * K + 1], each) : a;
        double sum = (double)p[a] + p[b], ga = K > 1 ? 0 : dw[0], gb = 0, dot = 0;
        if (K > 1 && sum > 0) {
            double g = ((double)dw[0] - dw[1]) / (sum * sum);
            ga = g * p[b], gb = -g * p[a];
        }
        for (int64_t e = 0; e < C; e++) dot += p[e] * (dprobs[t * C + e] + (e == a) * ga + (K > 1 && e == b) * gb);
        for (int64_t e = 0; e < C; e++)
            store(call, ARG(dlogits), t * C + e,
                  p[e] * (dprobs[t * C + e] + (e == a) * ga + (K > 1 && e == b) * gb - dot));
    }
}

/* How many tokens of [begin, end) have expert e as their first choice. */
static int64_t first_choices(const int32_t *choice, int64_t K, const int32_t *at, int64_t e, int64_t each) {
    int64_t n = 0;
    for (int64_t t = at[0]; t < at[1]; t++) n += expert_of(choice[t * K], each) == e;
    return n;
}

static void balance(const tri_call *call) {
    OPERANDS(balance);
    const float *probs = f32(call, ARG(probs));                                       /* [T,C] */
    const int32_t *choice = i32(call, ARG(choice)), *seq = i32(call, ARG(seq));       /* [T,K] [N+1] */
    int64_t C = call->t[ARG(probs)].cols, K = call->t[ARG(choice)].cols, N = call->t[ARG(seq)].rows - 1;
    int64_t each = call->t[ARG(from)].rows / C;
    double loss = 0, dropped = 0;
    for (int64_t s = 0; s < N; s++) {
        double length = seq[s + 1] - seq[s];
        for (int64_t e = 0; e < C; e++) {
            double sum = 0;
            for (int64_t t = seq[s]; t < seq[s + 1]; t++) sum += probs[t * C + e];
            loss += (double)C * (double)first_choices(choice, K, seq + s, e, each) / length * sum / length;
        }
        for (int64_t t = seq[s]; t < seq[s + 1]; t++) {
            int placed = 0;
            for (int64_t j = 0; j < K; j++) placed |= choice[t * K + j] >= 0;
            dropped += !placed;
        }
    }
    double *sums = f64(call, ARG(sums)); /* [2] */
    sums[0] = (adds(call, ARG(sums)) ? sums[0] : 0) + (double)call->attr->rate * *f64(call, ARG(inv)) * loss;
    sums[1] = (adds(call, ARG(sums)) ? sums[1] : 0) + dropped;
}

static void balance_din(const tri_call *call) {
    OPERANDS(balance_din);
    const int32_t *choice = i32(call, ARG(choice)), *seq = i32(call, ARG(seq)); /* [T,K] [N+1] */
    int64_t C = call->t[ARG(dprobs)].cols, K = call->t[ARG(choice)].cols, N = call->t[ARG(seq)].rows - 1;
    int64_t each = call->t[ARG(from)].rows / C;
    double factor = (double)call->attr->rate * *f64(call, ARG(inv)) *
                    (f32(call, ARG(scale)) ? *f32(call, ARG(scale)) : 1) * (double)C;
    clear(call, ARG(dprobs)); /* rows of no sequence */
    for (int64_t s = 0; s < N; s++) {
        double length = seq[s + 1] - seq[s];
        for (int64_t e = 0; e < C; e++) {
            double d = factor * (double)first_choices(choice, K, seq + s, e, each) / (length * length);
            for (int64_t t = seq[s]; t < seq[s + 1]; t++) store(call, ARG(dprobs), t * C + e, d);
        }
    }
}

static void dispatch(const tri_call *call) {
    OPERANDS(dispatch);
    const float *x = f32(call, ARG(x));         /* [T,H] */
    const int32_t *from = i32(call, ARG(from)); /* [R] */
    int64_t R = call->t[ARG(y)].rows, H = call->t[ARG(y)].cols, K = call->t[ARG(choice)].cols;
    for (int64_t r = 0; r < R; r++)
        for (int64_t c = 0; c < H; c++) store(call, ARG(y), r * H + c, from[r] < 0 ? 0 : x[from[r] / K * H + c]);
}

/* Operand to [T,H] = the sum over each token's choices [T,K] that have a place, of rows x [R,H], weighted or not. */
static void collect(const tri_call *call, int to, const float *x, const int32_t *choice, int64_t K,
                    const float *weight) {
    int64_t T = call->t[to].rows, H = call->t[to].cols;
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < H; c++) {
            double sum = 0;
            for (int64_t i = t * K; i < (t + 1) * K; i++)
                if (choice[i] >= 0) sum += (weight ? (double)weight[i] : 1) * x[choice[i] * H + c];
            store(call, to, t * H + c, sum);
        }
}

static void dispatch_din(const tri_call *call) {
    OPERANDS(dispatch_din);
    collect(call, ARG(dx), f32(call, ARG(dy)), i32(call, ARG(choice)), call->t[ARG(choice)].cols, NULL);
}

static void combine(const tri_call *call) {
    OPERANDS(combine);
    collect(call, ARG(y), f32(call, ARG(x)), i32(call, ARG(choice)), call->t[ARG(choice)].cols,
            f32(call, ARG(weight)));
}

static void combine_din(const tri_call *call) {
    OPERANDS(combine_din);
    const float *dy = f32(call, ARG(dy)), *x = f32(call, ARG(x)),
                *weight = f32(call, ARG(weight)); /* [T,H] [R,H] [T,K] */
    const int32_t *choice = i32(call, ARG(choice)), *from = i32(call, ARG(from));                   /* [T,K] [R] */
    int64_t T = call->t[ARG(dy)].rows, H = call->t[ARG(dy)].cols, K = call->t[ARG(choice)].cols;
    for (int64_t r = 0; r < call->t[ARG(dx)].rows; r++)
        for (int64_t c = 0; c < H; c++)
            store(call, ARG(dx), r * H + c, from[r] < 0 ? 0 : (double)weight[from[r]] * dy[from[r] / K * H + c]);
    for (int64_t i = 0; i < T * K; i++) {
        double dot = 0;
        for (int64_t c = 0; c < H && choice[i] >= 0; c++) dot += (double)dy[i / K * H + c] * x[choice[i] * H + c];
        store(call, ARG(dweight), i, dot);
    }
}

const tri_kernel_row tri__cpu_experts_reference[] = TRI_KERNEL_ROWS(
    TRI_KERNEL(route), TRI_KERNEL(route_din), TRI_KERNEL(balance), TRI_KERNEL(balance_din), TRI_KERNEL(dispatch),
    TRI_KERNEL(dispatch_din), TRI_KERNEL(combine), TRI_KERNEL(combine_din));
