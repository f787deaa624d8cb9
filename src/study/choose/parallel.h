/* parallel.h - independent pieces of work on several threads. */
#ifndef TRI_STUDY_CHOOSE_PARALLEL_H
#define TRI_STUDY_CHOOSE_PARALLEL_H

/* Calls work(context, i) for all i of [0, n), on at most `threads` threads, this one included; returns when all are
 * done. Where a thread cannot be started, the others do its work. */
void tri__parallel(int n, int threads, void (*work)(void *context, int i), void *context);

#endif
