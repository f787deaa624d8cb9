/* regrouped_rank.h - the ranks of test_regroup: a training of steps, each one sum over all ranks, whose state (the sum
 * of the steps so far) every rank keeps in shared memory. `test_regroup rank STEPS NOTES SCRIPT` is one of them; the
 * script says what goes wrong: words "G.R@S=X", in world G rank R before step S does X.
 *   K killed; P killed, and the next rank with it; A all killed at once; T stopped (SIGSTOP);
 *   I fails with TRI_INTERNAL, D with TRI_DATA; X exits with 0; S asks the supervisor to stop, U kills it;
 *   Z killed once a stop was requested.
 * STEPS below 0: three steps of world -STEPS are the last.
 * S is a step, or `b`: the third one in this world; `l`: after it has left the world; `e`: after it has left the last
 * one; `w`: once it was given the next one, before it joins; `j`: before it joins the first one. */
#ifndef TESTS_REGROUPED_RANK_H
#define TESTS_REGROUPED_RANK_H

int regrouped_rank(char **argv);

#endif
