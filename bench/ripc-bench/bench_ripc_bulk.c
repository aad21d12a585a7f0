/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages of libripc in ripc-bench: out of a pool buffer into wherever the library puts
 * them; and the same bytes by its other ways, which count as peers:
 *
 *   ripc-return   the client lends its buffer with a short request; the reply lands there
 *   ripc-window   the server lends a window for each message
 *   ripc-give     the client gives its buffer away and asks until it has come home
 *
 * A verdict, a long message of one byte, says after the sum whether the bytes were right.
 */
#include <errno.h>
#include <stdlib.h>
#include "bench_ripc.h"

/* ---- the server ---- */

/* Does not wait: the next messages are on their way. */
static int send_verdict(const struct bench_end *end, uint64_t to, int is_right)
{
	static char verdicts[2] = {'n', 'y'};
	struct iovec item = {&verdicts[is_right], 1};
	struct ripc_send send = {.size = sizeof(send), .to = to, .items = &item, .n_items = 1,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = BENCH_STALL_MS};

	int err;

	while ((err = ripc_sendmsg(end->svc, &send, NULL)) == -EAGAIN)
		ripc_poll(end->ctx);
	return err;
}

static int is_right(const struct bench_job *job, const struct ripc_msg *msg)
{
	uint64_t seed;

	if (!bench_is_message(msg, job->size))
		return 0;
	return bench_take(job, msg->items[0].iov_base, &seed) == 0;
}

int bench_ripc_serve_bandwidth(const struct bench_job *job, int ready_fd)
{
	struct bench_end end = {0};
	struct ripc_msg *msg;
	uint64_t from;
	int right, err = bench_end_open_server(job, &end, ready_fd);

	while (err == 0) {
		err = ripc_receive(end.svc, -1, &msg);
		if (err < 0)
			break;
		from = msg->from;
		right = msg->kind == RIPC_LONG ? is_right(job, msg) : -1;
		/* The memory is for the next message, before that is asked for. */
		ripc_msg_free(msg);
		if (right >= 0)
			send_verdict(&end, from, right);
	}
	return err;
}

/* The window is posted again before the verdict asks for the next message. */
static int serve_window(const struct bench_job *job, int ready_fd)
{
	struct bench_end end = {0};
	struct iovec window = {NULL, job->size};
	struct ripc_msg *msg;
	uint64_t from;
	int right, err = bench_end_open(job, &end);

	window.iov_base = end.buffer;
	if (err == 0)
		err = ripc_window_post(end.svc, &window, 1);
	if (err == 0)
		err = bench_end_tell(&end, ready_fd);
	while (err == 0) {
		err = ripc_receive(end.svc, -1, &msg);
		if (err < 0)
			break;
		from = msg->from;
		right = msg->kind == RIPC_LONG ? is_right(job, msg) && msg->places &&
			msg->places[0].place == RIPC_IN_WINDOW : -1;
		ripc_msg_free(msg);
		if (right < 0)
			continue;
		err = ripc_window_post(end.svc, &window, 1);
		send_verdict(&end, from, right);
	}
	return err;
}

/* The reply to each request is the buffer as it is from the beginning, of seed 0. */
static int serve_return(const struct bench_job *job, int ready_fd)
{
	struct bench_end end = {0};
	struct iovec item = {NULL, job->size};
	struct ripc_send send = {.size = sizeof(send), .items = &item, .n_items = 1,
		.flags = RIPC_SEND_LONG, .timeout_ms = BENCH_STALL_MS};
	struct ripc_msg *msg;
	int err = bench_end_open_server(job, &end, ready_fd);

	item.iov_base = end.buffer;
	while (err == 0) {
		err = ripc_receive(end.svc, -1, &msg);
		if (err < 0)
			break;
		send.to = msg->from;
		send.reply_to = msg->reply;
		if (msg->kind == RIPC_SHORT && msg->reply)
			ripc_sendmsg(end.svc, &send, NULL);
		ripc_msg_free(msg);
	}
	return err;
}

/* ---- the client: one message after the other ---- */

static int await_verdict(const struct bench_end *end)
{
	struct ripc_msg *msg;
	int err, verdict = 0;

	while (!verdict) {
		err = ripc_receive(end->svc, BENCH_STALL_MS, &msg);
		if (err < 0)
			return err;
		if (msg->kind == RIPC_LONG && msg->n_items == 1 && msg->items[0].iov_len == 1)
			verdict = *(const char *)msg->items[0].iov_base;
		ripc_msg_free(msg);
	}
	return verdict == 'y' ? 0 : -EBADMSG;
}

/* Takes one more reference, which goes with the message. */
static int give_buffer(const struct bench_end *end, const struct bench_job *job)
{
	struct iovec item = {end->buffer, job->size};
	struct ripc_send send = {.size = sizeof(send), .to = end->partner, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_GIVE, .timeout_ms = BENCH_STALL_MS};
	int err;

	while (ripc_buf_refs(end->ctx, end->buffer) > 1)
		ripc_poll(end->ctx);
	err = ripc_buf_ref(end->ctx, end->buffer);
	return err < 0 ? err : ripc_sendmsg(end->svc, &send, NULL);
}

static int send_plainly(const struct bench_end *end, const struct bench_job *job)
{
	return bench_send_buffer(end, end->partner, job->size, 1);
}

static double rate_of(const struct bench_job *job, uint64_t messages, uint64_t ns)
{
	return (double)job->size * (double)messages * 1e3 / (double)(ns + !ns);
}

static int measure_each(const struct bench_job *job, struct bench_end *end,
	int (*send)(const struct bench_end *end, const struct bench_job *job),
	struct bench_result *result)
{
	uint64_t i, begin_ns, ns;
	int err;

	for (i = 0; i < job->count + job->warm_up; i++) {
		bench_fill(end->buffer, job->size, i);
		begin_ns = tool_now_ns();
		err = send(end, job);
		ns = tool_now_ns() - begin_ns;
		if (err < 0)
			return bench_failed(result, "sending", err);
		err = await_verdict(end);
		if (err < 0 && err != -EBADMSG)
			return bench_failed(result, "waiting for the verdict", err);
		result->messages++;
		result->wrong += err == -EBADMSG;
		if (i >= job->warm_up)
			result->samples[result->n++] = rate_of(job, 1, ns);
	}
	bench_note_path(end, result);
	bench_end_close(end);
	return 0;
}

/* ---- several at once ---- */

/* A buffer each. So many, as with peers, are without a verdict; those come in any order. */
struct stream {
	struct bench_end *end;
	const struct bench_job *job;
	void *buffers[BENCH_DEPTH_MAX];
	uint8_t busy[BENCH_DEPTH_MAX];
	uint64_t sent, judged;
};

static int stream_send(struct stream *stream, uint64_t slot)
{
	struct iovec item = {stream->buffers[slot], stream->job->size};
	struct ripc_send send = {.size = sizeof(send), .to = stream->end->partner, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_NOWAIT,
		.timeout_ms = BENCH_STALL_MS, .cookie = slot + 1};
	int err;

	bench_put(stream->job, stream->buffers[slot], stream->sent);
	err = ripc_sendmsg(stream->end->svc, &send, NULL);
	if (err == 0) {
		stream->busy[slot] = 1;
		stream->sent++;
	}
	return err == -EAGAIN ? 0 : err;
}

static int stream_fill(struct stream *stream, uint64_t most)
{
	uint64_t slot, depth = stream->job->depth;
	int err = 0;

	if (most > stream->judged + depth)
		most = stream->judged + depth;
	for (slot = 0; err == 0 && slot < depth && stream->sent < most; slot++)
		if (!stream->busy[slot])
			err = stream_send(stream, slot);
	return err;
}

static int stream_take(struct stream *stream, struct bench_result *result)
{
	struct ripc_msg *msg;
	int err = ripc_receive(stream->end->svc, BENCH_STALL_MS, &msg);

	if (err < 0)
		return bench_failed(result, "waiting", err);
	if (msg->kind == RIPC_COMPLETION && msg->status < 0) {
		err = bench_failed(result, "sending", msg->status);
	} else if (msg->kind == RIPC_COMPLETION && msg->cookie) {
		stream->busy[msg->cookie - 1] = 0;
	} else if (msg->kind == RIPC_LONG && msg->n_items == 1) {
		stream->judged++;
		result->wrong += *(const char *)msg->items[0].iov_base != 'y';
	}
	ripc_msg_free(msg);
	return err;
}

static int measure_stream(const struct bench_job *job, struct bench_end *end,
	struct bench_result *result)
{
	static struct stream stream;
	uint64_t all = job->count + job->warm_up, begin_ns = tool_now_ns(), began = 0, i;
	int err = 0;

	stream.end = end;
	stream.job = job;
	for (i = 0; err == 0 && i < job->depth; i++)
		err = ripc_buf_alloc(end->ctx, job->size, &stream.buffers[i]);
	if (err < 0)
		return bench_failed(result, "memory for that depth", err);
	while (err == 0 && stream.judged < all) {
		if (!began && stream.judged >= job->warm_up) {
			began = stream.judged;
			begin_ns = tool_now_ns();
		}
		err = stream_fill(&stream, all);
		if (err == 0)
			err = stream_take(&stream, result);
	}
	if (err < 0)
		return err;
	result->messages = all;
	result->samples[result->n++] = rate_of(job, all - began, tool_now_ns() - begin_ns);
	bench_note_path(end, result);
	for (i = 0; i < job->depth; i++)
		ripc_buf_free(end->ctx, stream.buffers[i]);
	bench_end_close(end);
	return 0;
}

int bench_ripc_measure_bandwidth(const struct bench_job *job, struct bench_result *result)
{
	struct bench_end end = {0};
	int err = bench_end_open_client(job, &end, result);

	if (err < 0)
		return err;
	return job->depth > 1 ? measure_stream(job, &end, result) :
		measure_each(job, &end, send_plainly, result);
}

static int measure_give(const struct bench_job *job, struct bench_result *result)
{
	struct bench_end end = {0};
	int err = bench_end_open_client(job, &end, result);

	return err < 0 ? err : measure_each(job, &end, give_buffer, result);
}

/* ---- replies ---- */

/* Sends a request, and checks that the reply lies where it belongs. */
static int ask(const struct bench_end *end, const struct bench_job *job)
{
	struct ripc_buffer lent = {.mem = {end->buffer, job->size}, .cookie = 1};
	struct iovec request = {(char[]){'?'}, 1};
	struct ripc_send send = {.size = sizeof(send), .to = end->partner, .items = &request,
		.n_items = 1, .returns = &lent, .n_returns = 1};
	struct ripc_msg *msg;
	int err = ripc_sendmsg(end->svc, &send, NULL);

	if (err == 0)
		err = ripc_receive(end->svc, BENCH_STALL_MS, &msg);
	if (err < 0)
		return err;
	if (!bench_is_message(msg, job->size) || !msg->places ||
		msg->places[0].place != RIPC_IN_RETURN)
		err = -EBADMSG;
	ripc_msg_free(msg);
	return err;
}

static int measure_return(const struct bench_job *job, struct bench_result *result)
{
	struct bench_end end = {0};
	uint64_t i, begin_ns, ns, seed;
	int err = bench_end_open_client(job, &end, result);

	for (i = 0; err == 0 && i < job->count + job->warm_up; i++) {
		bench_fill(end.buffer, job->size, 1 + i); /* or an old reply would do, too */
		begin_ns = tool_now_ns();
		err = ask(&end, job);
		ns = tool_now_ns() - begin_ns;
		if (err < 0)
			return bench_failed(result, "waiting for the reply", err);
		if (bench_check(end.buffer, job->size, &seed) < 0 || seed != 0)
			result->wrong++;
		result->messages++;
		if (i >= job->warm_up)
			result->samples[result->n++] = rate_of(job, 1, ns);
	}
	if (err < 0)
		return err;
	bench_note_path(&end, result);
	bench_end_close(&end);
	return 0;
}

const struct bench_peer bench_ripc_return = {
	.name = "ripc-return",
	.about = "libripc: the reply to a short request lands in a lent buffer (bandwidth only)",
	.halves = {[BENCH_BANDWIDTH] = {serve_return, measure_return}},
};

const struct bench_peer bench_ripc_window = {
	.name = "ripc-window",
	.about = "libripc: the receiver lends a window for each message (bandwidth only)",
	.halves = {[BENCH_BANDWIDTH] = {serve_window, bench_ripc_measure_bandwidth}},
};

const struct bench_peer bench_ripc_give = {
	.name = "ripc-give",
	.about = "libripc: the buffer is given, and read where it is on one host (bandwidth only)",
	.halves = {[BENCH_BANDWIDTH] = {bench_ripc_serve_bandwidth, measure_give}},
};
