/* server.h - models on the wire: `trident serve`. HTTP is web/http.h's, the models are model.h's; here is what requests
 * mean and what is answered. docs/reference/serving.md lists it. */
#pragma once

#include "serve/infer/model.h"
#include "web/http.h"

typedef struct tri_server tri_server;

typedef struct tri_server_options {
    int n_models;               /* 1 or more; the first is that of /predict */
    const char *const *name;    /* [n_models] */
    const char *const *run;     /* [n_models] a checkpoint, an export or a run folder */
    const tri_settings *asked;  /* device, precision, mesh, threads; its checkpoint is not read */
    tri_batching batching;
    tri_http_options http;      /* routes, context and done are the server's own */
    const char *key_file;       /* of the keys, for the example; NULL: none */
    int64_t max_rows;           /* of one request */
    int auto_truncate;          /* long texts are cut unless a request says otherwise */
    int access_log;             /* descriptor for a line of JSON a request; -1: none */
} tri_server_options;

/* Loads the models and starts to listen. What `options` points to must last as long as the server. */
tri_status tri__server_open(const tri_server_options *options, const tri_log *log, tri_server **out);
/* http://HOST:PORT, valid until the server is closed. */
const char *tri__server_address(const tri_server *server);
/* A line for a shell that asks the server for a prediction of a made-up row; the caller frees it. NULL: out of
 * memory. */
char *tri__server_example(const tri_server *server);
/* Loads each model's current checkpoint beside the old one, switches, and closes the old one after its last answer.
 * Requests go on meanwhile. If one does not load, it stays as it was; the log says why. The first failure is
 * returned. */
tri_status tri__server_reload(tri_server *server);
/* Drains, for at most so many seconds, and closes. Accepts NULL. Returns how many requests were answered in all. */
int64_t tri__server_close(tri_server *server, double seconds);
