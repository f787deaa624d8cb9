/* http_address.c - what each client's address has open, so that one of them cannot take everything. */
#include "web/http_parts.h"

static void key_of(const struct sockaddr *address, unsigned char key[static 8]) {
    memset(key, 0, 8);
    if (address && address->sa_family == AF_INET) {
        memcpy(key, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    } else if (address && address->sa_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(six)) memcpy(key, six->s6_addr + 12, 4);
        else memcpy(key, six->s6_addr, 8); /* a client has all of its network's second half */
    }
}

static tri_http_address **bucket_of(tri_http_addresses *all, const unsigned char *key) {
    return &all->bucket[tri__hash64(1, key, 8) % (sizeof all->bucket / sizeof *all->bucket)];
}

tri_http_address *tri__http_address_add(tri_http_addresses *all, const struct sockaddr *address, int most) {
    unsigned char key[8];
    key_of(address, key);
    TRI_LOCKED(&all->mutex);
    tri_http_address **first = bucket_of(all, key), *a = *first;
    while (a && memcmp(a->key, key, 8)) a = a->next;
    if (!a && (a = calloc(1, sizeof *a))) {
        memcpy(a->key, key, 8);
        a->next = *first, *first = a;
    }
    if (a && a->connections >= most) a = NULL;
    if (a) a->connections++;
    return a;
}

void tri__http_address_remove(tri_http_addresses *all, tri_http_address *address) {
    TRI_LOCKED(&all->mutex);
    if (--address->connections == 0) {
        tri_http_address **at = bucket_of(all, address->key);
        while (*at != address) at = &(*at)->next;
        *at = address->next;
        free(address);
    }
}

int tri__http_address_slow(tri_http_addresses *all, tri_http_address *address, int change, int most) {
    TRI_LOCKED(&all->mutex);
    int allowed = change < 0 || address->slow < most;
    if (allowed) address->slow += change;
    return allowed;
}
