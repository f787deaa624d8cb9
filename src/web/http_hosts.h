/* http_hosts.h - which names a server answers to, and to pages of which sites. */
#pragma once

/* Whether the value of a Host header names this machine: an address, localhost, the machine's name, `host` (where the
 * server listens), or a name of `allowed`, separated by commas (NULL: none; *: every name). */
int tri__host_is_own(const char *header, const char *host, const char *allowed);
/* Whether the page that asks (an Origin header) is one of this server: of the same host and port as the Host header, or
 * of an allowed name. */
int tri__origin_is_own(const char *origin, const char *header, const char *allowed);
/* Whether a server at `host` can be reached from this machine alone. */
int tri__host_is_loopback(const char *host);
