/* task_heap.c - a heap in which every task knows its place, so that a change of its rate moves it. */
#include "sim/task_heap.h"

static int earlier(const tri_tasks *t, int a, int b) {
    double x = t->task[a].end, y = t->task[b].end;
    return x != y ? x < y : a < b;
}

static void put(tri_tasks *t, int at, int id) {
    t->heap[at] = id;
    t->task[id].at = at;
}

static void rise(tri_tasks *t, int at, int id) {
    for (; at > 0 && earlier(t, id, t->heap[(at - 1) / 2]); at = (at - 1) / 2) put(t, at, t->heap[(at - 1) / 2]);
    put(t, at, id);
}

static void sink(tri_tasks *t, int at, int id) {
    for (int child; (child = 2 * at + 1) < t->n_heap; at = child) {
        if (child + 1 < t->n_heap && earlier(t, t->heap[child + 1], t->heap[child])) child++;
        if (!earlier(t, t->heap[child], id)) break;
        put(t, at, t->heap[child]);
    }
    put(t, at, id);
}

static void take_out(tri_tasks *t, int id) {
    int at = t->task[id].at, last = t->heap[--t->n_heap];
    t->task[id].at = -1;
    if (last == id) return;
    if (at > 0 && earlier(t, last, t->heap[(at - 1) / 2])) rise(t, at, last);
    else sink(t, at, last);
}

static void put_in(tri_tasks *t, int id) {
    tri_task *task = &t->task[id];
    task->end = task->since + task->left / task->rate;
    TRI_PUSH(t->arena, t->heap, t->n_heap, t->cap_heap);
    rise(t, t->n_heap - 1, id);
}

void tri__tasks_begin(tri_tasks *t, int id, double work, double rate) {
    while (id >= t->n) *TRI_PUSH(t->arena, t->task, t->n, t->cap) = (tri_task){.at = -1};
    if (t->task[id].at >= 0) take_out(t, id);
    t->task[id] = (tri_task){.left = work, .rate = rate, .since = t->now, .at = -1};
    if (rate > 0) put_in(t, id);
}

void tri__tasks_rate(tri_tasks *t, int id, double rate) {
    tri_task *task = &t->task[id];
    if (task->rate == rate || task->left < 0) return;
    double done = (t->now - task->since) * task->rate;
    task->left = done < task->left ? task->left - done : 0;
    task->since = t->now;
    if (task->at >= 0) take_out(t, id);
    task->rate = rate;
    if (rate > 0) put_in(t, id);
}

int tri__tasks_next(tri_tasks *t) {
    if (!t->n_heap) return -1;
    int id = t->heap[0];
    take_out(t, id);
    t->now = t->task[id].end;
    t->task[id].left = -1;
    return id;
}
