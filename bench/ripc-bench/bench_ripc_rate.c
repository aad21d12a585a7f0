/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams of short messages of libripc in ripc-bench: each thread, at either end, has a context of
 * its own. The first service says, if it is asked by a long message, the IDs of all.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "bench_ripc.h"

/* ---- the server ---- */

/* Messages received from one client. */
struct tally {
	uint64_t from, received, told;
};

struct rate_server {
	const struct bench_job *job;
	struct bench_end end;
	const uint64_t *ids;
	struct tally tallies[BENCH_THREADS_MAX];
	uint64_t n_tallies;
};

static struct tally *find_tally(struct rate_server *server, uint64_t from)
{
	uint64_t i = 0;

	while (i < server->n_tallies && server->tallies[i].from != from)
		i++;
	if (i == BENCH_THREADS_MAX)
		return NULL;
	if (i == server->n_tallies)
		server->tallies[server->n_tallies++] = (struct tally){.from = from};
	return &server->tallies[i];
}

static void count_message(struct rate_server *server, uint64_t from)
{
	struct tally *tally = find_tally(server, from);
	struct iovec item = {tally ? &tally->received : NULL, sizeof(tally->received)};

	if (!tally || ++tally->received - tally->told < bench_ack_step(server->job))
		return;
	tally->told = tally->received;
	ripc_send_short(server->end.svc, from, &item, 1);
}

static void answer_ids(struct rate_server *server, uint64_t to)
{
	struct iovec item = {(void *)server->ids, server->job->services * sizeof(uint64_t)};

	ripc_send_long(server->end.svc, to, &item, 1, BENCH_STALL_MS);
}

static void take(struct rate_server *server, const struct ripc_msg *msg)
{
	uint64_t seed;

	if (msg->kind == RIPC_LONG)
		answer_ids(server, msg->from);
	else if (bench_is_message(msg, server->job->size) &&
		 bench_take(server->job, msg->items[0].iov_base, &seed) == 0)
		count_message(server, msg->from);
}

static void *run_server(void *arg)
{
	struct rate_server *server = arg;
	struct ripc_msg *msg;
	int err;

	while ((err = ripc_receive(server->end.svc, -1, &msg)) == 0) {
		take(server, msg);
		ripc_msg_free(msg);
	}
	return NULL;
}

int bench_ripc_serve_rate(const struct bench_job *job, int ready_fd)
{
	static struct rate_server servers[BENCH_THREADS_MAX];
	static uint64_t ids[BENCH_THREADS_MAX];
	pthread_t thread;
	uint64_t i;
	int err = 0;

	for (i = 0; err == 0 && i < job->services; i++) {
		servers[i].job = job;
		servers[i].ids = ids;
		err = bench_end_open(job, &servers[i].end);
		ids[i] = err == 0 ? ripc_service_id(servers[i].end.svc) : 0;
	}
	for (i = 1; err == 0 && i < job->services; i++)
		err = -pthread_create(&thread, NULL, run_server, &servers[i]);
	if (err == 0)
		err = bench_end_tell(&servers[0].end, ready_fd);
	if (err == 0)
		run_server(&servers[0]);
	return err ? err : -ESHUTDOWN;
}

/* ---- a client ---- */

struct rate_client {
	struct bench_end end;
	uint64_t acked; /* messages that the server says it has received, ever */
};

int bench_ask_ids(struct bench_end *end, uint64_t *ids, uint64_t n)
{
	struct iovec item = {(char[]){'?'}, 1};
	struct ripc_msg *msg;
	int err = ripc_send_long(end->svc, end->partner, &item, 1, BENCH_STALL_MS);

	if (err == 0)
		err = ripc_receive(end->svc, BENCH_STALL_MS, &msg);
	if (err < 0)
		return err;
	if (bench_is_message(msg, n * sizeof(*ids)))
		memcpy(ids, msg->items[0].iov_base, n * sizeof(*ids));
	else
		err = -EBADMSG;
	ripc_msg_free(msg);
	return err;
}

static int find_server(struct bench_sender *sender, struct rate_client *client)
{
	const struct bench_job *job = sender->job;
	struct bench_result unused;
	uint64_t ids[BENCH_THREADS_MAX];
	int err = bench_end_open_client(job, &client->end, &unused);

	if (err == 0 && job->services > 1)
		err = bench_ask_ids(&client->end, ids, job->services);
	if (err == 0 && job->services > 1) {
		client->end.partner = ids[sender->index % job->services];
		err = ripc_resolve(client->end.ctx, client->end.partner, BENCH_STALL_MS);
	}
	return err;
}

static int rate_open(struct bench_sender *sender)
{
	sender->state = calloc(1, sizeof(struct rate_client));
	return sender->state ? find_server(sender, sender->state) : -ENOMEM;
}

static void rate_close(struct bench_sender *sender)
{
	struct rate_client *client = sender->state;
	struct bench_result *result = calloc(1, sizeof(*result));

	if (result) {
		bench_note_path(&client->end, result);
		memcpy(sender->note, result->note, sizeof(sender->note));
	}
	free(result);
	bench_end_close(&client->end);
	free(client);
}

/* Waits for an acknowledgement. -ETIMEDOUT: there is none. */
static int take_ack(struct rate_client *client, int timeout_ms)
{
	struct ripc_msg *msg;
	int err = ripc_receive(client->end.svc, timeout_ms, &msg);

	if (err < 0)
		return err == -EAGAIN ? -ETIMEDOUT : err;
	if (msg->kind == RIPC_SHORT && bench_is_message(msg, sizeof(client->acked)))
		memcpy(&client->acked, msg->items[0].iov_base, sizeof(client->acked));
	ripc_msg_free(msg);
	return 0;
}

/* Sends what the window allows. 0; -EAGAIN: the network takes no more now. */
static int send_window(struct bench_sender *sender, uint64_t *sent, uint64_t most)
{
	struct rate_client *client = sender->state;
	int err = 0;

	while (err == 0 && *sent < most) {
		bench_put(sender->job, client->end.buffer, sender->first + *sent);
		err = bench_send_buffer(&client->end, client->end.partner, sender->job->size, 0);
		*sent += err == 0;
	}
	return err;
}

/* The sender's unacknowledged messages. They may still arrive, and count then. */
static uint64_t missing(const struct rate_client *client, uint64_t began, uint64_t sent)
{
	uint64_t received = client->acked - began; /* late ones of the warm-up, too */

	return received < sent ? sent - received : 0;
}

static int rate_stream(struct bench_sender *sender, uint64_t count)
{
	struct rate_client *client = sender->state;
	uint64_t began = client->acked, sent = 0, settled = 0, most; /* settled: received or lost */
	int err = 0, is_full;

	sender->lost = 0;
	while (err == 0 && settled + bench_ack_step(sender->job) <= count) {
		most = settled + sender->job->depth;
		err = send_window(sender, &sent, most < count ? most : count);
		is_full = err == -EAGAIN;
		/*
		 * The messages that fill the network may be fewer than one acknowledgement covers.
		 */
		if (err == 0 || is_full)
			err = take_ack(client, is_full ? 0 : BENCH_ACK_MS);
		if (err == -ETIMEDOUT && is_full)
			sched_yield();
		else if (err == -ETIMEDOUT)
			sender->lost = missing(client, began, sent);
		err = err == -ETIMEDOUT ? 0 : err;
		settled = client->acked - began + sender->lost;
	}
	sender->received = client->acked - began;
	return err;
}

int bench_ripc_measure_rate(const struct bench_job *job, struct bench_result *result)
{
	static const struct bench_rate_calls calls = {rate_open, rate_stream, rate_close};

	return bench_measure_rate(job, &calls, result);
}
