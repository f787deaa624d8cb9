/* meeting_name.h - the abstract socket name under which ranks of a key meet, for tests that take it themselves. */
#ifndef TESTS_MEETING_NAME_H
#define TESTS_MEETING_NAME_H

#include "base/hash.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static inline socklen_t meeting_name(const char *key, struct sockaddr_un *name) {
    uint64_t low = tri__hash64(0, key, strlen(key)), high = tri__hash64(low, key, strlen(key));
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    int used = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "trident.%u.%016llx%016llx",
                        (unsigned)geteuid(), (unsigned long long)high, (unsigned long long)low);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)used);
}

#endif
