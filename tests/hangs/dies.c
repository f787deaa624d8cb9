/* dies.c - loaded before a program (LD_PRELOAD), it kills a rank of an elastic run while that gets its next world: 0.3
 * s after it has said that it is ready, and the supervisor takes 1 s to answer each rank.
 *   DIES_RANK=R   the process whose RANK is R */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t sendmsg(int fd, const struct msghdr *packet, int flags) {
    const char *rank = getenv("DIES_RANK"), *own = getenv("RANK"), *socket = getenv("TRIDENT_SOCKET");
    if (!own && packet->msg_controllen) sleep(1);
    ssize_t sent = ((ssize_t(*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg"))(fd, packet, flags);
    if (!rank || !own || !socket || strcmp(rank, own) || fd != atoi(socket)) return sent;
    usleep(300000);
    raise(SIGKILL);
    return sent;
}
