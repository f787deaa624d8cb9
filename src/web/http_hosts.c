/* http_hosts.c - a page of another site can have its own name point to this machine's address (DNS rebinding) and then
 * read what is served here as if it were its own. Its name gives it away: the browser sends it as the Host. A page that
 * only sends requests, without reading the answers, is given away by its Origin. */
#include "web/http_hosts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* "name", "name:port", "[address]:port": the name, without its port. */
static void host_name(const char *header, char out[static 256]) {
    size_t length = strcspn(header, header[0] == '[' ? "]" : ":");
    snprintf(out, 256, "%.*s", (int)(length < 255 ? length : 255), header[0] == '[' ? header + 1 : header);
    if (header[0] == '[') out[strcspn(out, "]")] = 0;
}

static int is_listed(const char *name, const char *list) {
    size_t n;
    for (const char *at = list; at && *at; at += n, at += *at == ',') {
        at += strspn(at, " ");
        n = strcspn(at, ", :"); /* a port says nothing */
        if ((n == 1 && *at == '*') || (n == strlen(name) && !strncasecmp(at, name, n))) return 1;
        n = strcspn(at, ",");
    }
    return 0;
}

int tri__host_is_own(const char *header, const char *host, const char *allowed) {
    char name[256], machine[256] = "";
    unsigned char address[16];
    if (!header) header = "";
    host_name(header, name);
    if (gethostname(machine, sizeof machine - 1)) machine[0] = 0;
    return is_listed(name, allowed) || !strcasecmp(name, "localhost") || (*name && !strcasecmp(name, machine)) ||
           !strcasecmp(name, host) || inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

int tri__origin_is_own(const char *origin, const char *header, const char *allowed) {
    const char *site = strstr(origin, "://");
    char name[256];
    if (!site) return is_listed("null", allowed); /* of a file, or of a page in a sandbox */
    host_name(site + 3, name);
    return (header && !strcasecmp(site + 3, header)) || is_listed(name, allowed);
}

int tri__host_is_loopback(const char *host) {
    return !strcasecmp(host, "localhost") || !strncmp(host, "127.", 4) || !strcmp(host, "::1");
}
