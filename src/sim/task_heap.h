/* task_heap.h - work that proceeds at rates which change while it is done, in the order in which it ends. */
#pragma once

#include "base/arena.h"

typedef struct tri_task {
    double left;    /* work at `since`: seconds at rate 1; < 0: it has ended */
    double rate;    /* 0: it stands still */
    double since, end;
    int at;         /* place in the heap; -1: it is not under way */
} tri_task;

/* Zeroed, with an arena: no tasks, at time 0. Tasks are numbered from 0; any number may be used. */
typedef struct tri_tasks {
    tri_arena *arena;
    double now;
    tri_task *task;
    int *heap;      /* the earliest end on top; ties by number */
    int n, cap, n_heap, cap_heap;
} tri_tasks;

/* Begins a task now. */
void tri__tasks_begin(tri_tasks *tasks, int id, double work, double rate);
/* From now on the task proceeds at another rate. Nothing happens to one that has ended. */
void tri__tasks_rate(tri_tasks *tasks, int id, double rate);
/* Moves on to the end of the next task, which is over, and returns its number; -1: none will end. */
int tri__tasks_next(tri_tasks *tasks);
