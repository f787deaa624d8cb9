/* wheel_main.c - the program of a wheel: everything else is in the library beside it (tools/release.mk). */
int tri__main(int n, char **words);

int main(int n, char **words) { return tri__main(n, words); }
