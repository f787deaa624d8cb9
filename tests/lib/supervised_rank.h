/* supervised_rank.h - the ranks of test_supervisor: what each does when the supervisor executes the test program as
 * `test_supervisor rank ACTION [FILE]`. */
#ifndef TESTS_SUPERVISED_RANK_H
#define TESTS_SUPERVISED_RANK_H

int supervised_rank(int argc, char **argv);

#endif
