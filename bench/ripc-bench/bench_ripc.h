/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations shared by the parts of ripc-bench that use libripc. All functions return 0 or a
 * negative errno.
 */
#ifndef TOOLS_BENCH_RIPC_H
#define TOOLS_BENCH_RIPC_H

#include <ripc/ripc.h>
#include "bench.h"

/* A context with one service. The process ends soon after a failure: what was opened goes too. */
struct bench_end {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t partner;
	void *buffer; /* of the pool, job.size bytes at least, touched */
};

int bench_end_open(const struct bench_job *job, struct bench_end *end);
void bench_end_close(const struct bench_end *end);
/* Tells the service's ID through ready_fd: it serves from now on. */
int bench_end_tell(const struct bench_end *end, int ready_fd);
/* Both. */
int bench_end_open_server(const struct bench_job *job, struct bench_end *end, int ready_fd);
/* Also finds the server whose ID job->where begins with, as the partner. */
int bench_end_open_client(
	const struct bench_job *job, struct bench_end *end, struct bench_result *result);
/* By which path the partner is reached. */
void bench_note_path(const struct bench_end *end, struct bench_result *result);

int bench_is_message(const struct ripc_msg *msg, uint64_t size);
/* Sends size bytes of the end's buffer. */
int bench_send_buffer(const struct bench_end *end, uint64_t to, size_t size, int is_long);

/* Asks the partner for the IDs of its n services. */
int bench_ask_ids(struct bench_end *end, uint64_t *ids, uint64_t n);

/* bench_ripc_bulk.c, bench_ripc_rate.c, bench_ripc_find.c */
int bench_ripc_serve_bandwidth(const struct bench_job *job, int ready_fd);
int bench_ripc_measure_bandwidth(const struct bench_job *job, struct bench_result *result);
int bench_ripc_serve_rate(const struct bench_job *job, int ready_fd);
int bench_ripc_measure_rate(const struct bench_job *job, struct bench_result *result);
int bench_ripc_serve_partners(const struct bench_job *job, int ready_fd);
int bench_ripc_measure_partners(const struct bench_job *job, struct bench_result *result);
int bench_ripc_serve_resolve(const struct bench_job *job, int ready_fd);
int bench_ripc_measure_resolve(const struct bench_job *job, struct bench_result *result);

#endif
