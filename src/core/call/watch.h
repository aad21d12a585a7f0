/* SPDX-License-Identifier: BSD-3-Clause */
/* Watches: they report to the application which incarnation has an ID, and each change. */
#ifndef RIPC_WATCH_H
#define RIPC_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "util/list.h"
#include "util/timers.h"

struct message;
struct partner;
struct ripc_context;
struct ripc_service;

/* The part that all watches of a context share. */
struct watching {
	struct ripc__timer timer; /* runs while there is a watch */
	uint32_t n;
	struct list services;     /* services with watches */
	struct list left;         /* ended watches with messages that the application has */
};

/* See ripc_watch(). */
int ripc__watch_begin(struct ripc_service *service, uint64_t id, uint64_t cookie);
int ripc__watch_end(struct ripc_service *service, uint64_t id);
/* The service is closed. */
void ripc__watches_end(struct ripc_service *service);
/* The context is closed. */
void ripc__watches_free(struct ripc_context *ctx);

/* Other rooms call these. The partner is ready to be sent to. */
void ripc__watch_ready(struct partner *partner);
/* The partner is gone or forgotten, or does not own its ID any more. */
void ripc__watch_lost(struct partner *partner);
/* A notice about the ID was received: its owner may have changed. False: nobody watches the ID. */
bool ripc__watch_news(struct ripc_context *ctx, uint64_t id);
/* The application is done with the message of a watch. */
void ripc__watch_told(struct message *message);

#endif
