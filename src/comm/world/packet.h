/* packet.h - packets between processes of one machine, over a local socket (SOCK_SEQPACKET), with descriptors. */
#pragma once

#include <sys/types.h>

enum { TRI_PACKET_DESCRIPTORS = 2 }; /* at most */

/* With the first n_fd of fd. Never waits. 0: it was not sent. */
int tri__packet_send(int socket, const void *bytes, size_t n, const int *fd, int n_fd);
/* Never waits. The packet's bytes, as recvmsg; *n_fd: descriptors that came with it, which are the caller's; the others
 * of fd are -1. */
ssize_t tri__packet_receive(int socket, void *bytes, size_t n, int fd[static TRI_PACKET_DESCRIPTORS], int *n_fd);
