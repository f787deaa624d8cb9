/* version.c - the version that files and reports carry. */
#include "trident.h"

const char *tri_version(void) { return TRI_VERSION; }
