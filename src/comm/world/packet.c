/* packet.c - sendmsg and recvmsg with SCM_RIGHTS. */
#include "comm/world/packet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

typedef union room {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(TRI_PACKET_DESCRIPTORS * sizeof(int))];
} room;

int tri__packet_send(int socket, const void *bytes, size_t n, const int *fd, int n_fd) {
    size_t size = (size_t)n_fd * sizeof *fd;
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = n};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    room control = {0};
    if (n_fd) {
        packet.msg_control = &control, packet.msg_controllen = CMSG_SPACE(size);
        control.head = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(size)};
        memcpy(CMSG_DATA(&control.head), fd, size);
    }
    ssize_t sent;
    do sent = sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)n;
}

ssize_t tri__packet_receive(int socket, void *bytes, size_t n, int fd[static TRI_PACKET_DESCRIPTORS], int *n_fd) {
    struct iovec part = {.iov_base = bytes, .iov_len = n};
    room control = {0};
    struct msghdr packet = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes};
    ssize_t got;
    do got = recvmsg(socket, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    const struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&packet) : NULL;
    *n_fd = 0;
    for (int i = 0; i < TRI_PACKET_DESCRIPTORS; i++) fd[i] = -1;
    if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) return got;
    *n_fd = (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof *fd); /* the kernel has dropped what did not fit */
    memcpy(fd, CMSG_DATA(head), (size_t)*n_fd * sizeof *fd);
    return got;
}
