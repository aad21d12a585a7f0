/* SPDX-License-Identifier: BSD-3-Clause */
/* How "ripc metrics" tells of contexts: as OpenMetrics, over HTTP. */
#ifndef TOOLS_METRICS_H
#define TOOLS_METRICS_H

#include <stdio.h>

#include "look.h"

/* The content type of the text, for HTTP. */
#define METRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* All contexts that have shown themselves, as OpenMetrics 1.0. */
void metrics_print(FILE *to, const struct look *look);

/*
 * Opens a socket that listens at "PORT", "HOST:PORT" or "[HOST]:PORT"; without a host, at
 * 127.0.0.1. Port 0: any. Returns it, and where it listens, or a negative errno.
 */
int http_listen(const char *where, char listening[128]);
/*
 * Answers "GET /metrics" with what text prints (it is called once for many requests that come
 * close together), and everything else with an error. Returns only with a negative errno.
 */
int http_serve(int listener, int (*text)(void *arg, FILE *to), void *arg);

#endif
