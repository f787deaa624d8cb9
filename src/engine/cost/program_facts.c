/* program_facts.c - a program's size, cost and traffic: the same keys in `trident plan --json` and in summary.json. */
#include "engine/cost/program_facts.h"

#include "program/transfer.h"
#include "comm/ops/describe.h"

/* Bytes sent in a step, by kind of collective. */
static tri_json *bytes_json(const double *bytes) {
    tri_json *sent = tri__json_object();
    for (int kind = 0; kind < TRI_COLLECTIVE_COUNT; kind++)
        if (bytes[kind] > 0) tri__json_set_new(sent, tri__collective_name(kind), tri__json_real(bytes[kind]));
    return sent;
}

/* The same for each kind of step. */
static tri_json *kinds_json(const tri_program *p) {
    tri_json *kinds = tri__json_array();
    for (int gate = 0; gate < TRI_GATE_COUNT; gate++) {
        double bytes[TRI_COLLECTIVE_COUNT];
        if (!(p->gates >> gate & 1)) continue;
        tri__kind_sent(p, 1u << gate, bytes);
        tri__json_append_new(kinds, tri__json_pack("{s:s, s:f, s:o}", "kind", tri__gate_name((tri_gate)gate), "share",
                                                   p->share[gate], "sent_bytes", bytes_json(bytes)));
    }
    return kinds;
}

tri_json *tri__program_json(const tri_program *p) {
    tri_json *bytes = tri__json_object();
    tri_cost cost = tri__program_cost(p);
    double sent[TRI_COLLECTIVE_COUNT];
    tri__program_sent(p, sent);
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
        if (tri__mem_is_listed((tri_mem)mem, p->bytes[mem]))
            tri__json_set_new(bytes, tri__mem_name((tri_mem)mem), tri__json_integer(p->bytes[mem]));
    tri__json_set_new(bytes, "total", tri__json_integer(tri__program_bytes(p)));
    tri_json *all = tri__json_pack("{s:i, s:i, s:i, s:f, s:f, s:o, s:I, s:o}", "rank", p->rank, "instructions",
                                   p->n_instrs, "slots", p->n_slots, "flops", cost.flops, "traffic_bytes", cost.bytes,
                                   "bytes", bytes, "offload_bytes", (tri_json_int)tri__program_offload_bytes(p),
                                   "sent_bytes", bytes_json(sent));
    if (p->gates) tri__json_set_new(all, "kinds", kinds_json(p));
    return all;
}

/* Of each class the most that a program of the rank needs: they share memory. */
static void raise_bytes(const tri_classes *all, int rank, tri_json *bytes) {
    int64_t total = 0;
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        int64_t most = 0;
        for (int kind = 0; kind < TRI_PROGRAMS; kind++) {
            int64_t need = all[kind].n ? tri__class_of(&all[kind], rank, NULL)->program->bytes[mem] : 0;
            if (need > most) most = need;
        }
        if (tri__mem_is_listed((tri_mem)mem, most))
            tri__json_set_new(bytes, tri__mem_name((tri_mem)mem), tri__json_integer(most));
        total += most;
    }
    tri__json_set_new(bytes, "total", tri__json_integer(total));
}

tri_json *tri__programs_json(const tri_classes *all, tri_program_kind kind) {
    const tri_classes *these = &all[kind];
    /* of each class, made on first use */
    tri_json **class = calloc((size_t)these->n, sizeof *class), *ranks = class ? tri__json_array() : NULL;
    for (int rank = 0; rank < these->world && ranks; rank++) {
        const tri_class *of = tri__class_of(these, rank, NULL);
        tri_json **like = &class[of - these->at];
        if (!*like) *like = tri__program_json(of->program);
        tri_json *one = tri__json_deep_copy(*like);
        tri__json_set_new(one, "rank", tri__json_integer(rank));
        raise_bytes(all, rank, tri__json_get(one, "bytes"));
        tri__json_append_new(ranks, one);
    }
    for (int i = 0; i < these->n && class; i++) tri__json_decref(class[i]);
    free(class);
    return ranks;
}
