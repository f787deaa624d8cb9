/* main.c - the program: all of it is in the library. */
#include "trident_table.h"

int main(int argc, char **argv) { return tri_main(argc, argv); }
