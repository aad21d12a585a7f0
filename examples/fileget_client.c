/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to a fileserver; see fileget.h. Each request has a slot, whose number is the cookie of
 * the call. A request that has failed is sent again while the server shows signs of life, also to a
 * server that was started anew. The reply is kept until our caller is done with it, wherever its
 * data lies: in our pool, or, when it was given by a server on this host, in that one's memory.
 *
 * The first piece of a file, which often is all of it, is requested as RIPC_IDEMPOTENT: a short
 * message is quicker. The library repeats that soon, which is not worth it while a long piece is on
 * its way; so the other ones are requested without.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "fileget.h"

#define TICK_MS 50 /* interval of checks without events */

enum slot_state {
	SLOT_FREE,
	SLOT_WAITING, /* to be sent again: the server, or the network, took no more */
	SLOT_ASKED,
	SLOT_ANSWERED
};

struct slot {
	struct fileget_piece *piece;
	enum slot_state state;
	struct ripc_msg *msg; /* the reply, kept until it is released */
	size_t request_len;
	uint8_t request[FILE_REQUEST_MAX]; /* the library's while it is under way */
};

struct fileget_client {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t server, sign_of_life_ms, looked_ms;
	int timeout_ms;
	const volatile int *stop;
	unsigned int n_slots, n_asked, n_waiting;
	int is_refused; /* the last request that failed */
	struct slot slots[];
};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void log_to_stderr(void *arg, int level, const char *text)
{
	(void)arg;
	if (level <= RIPC_LOG_WARN)
		fprintf(stderr, "fileget: %s\n", text);
}

/* Whether the server can be reached at all; else says why by no network. 0 or a negative errno. */
static int check_path(const struct fileget_client *client)
{
	struct ripc_path path = {.size = sizeof(path)};
	int err = ripc_path_info(client->svc, client->server, &path);

	if (err != -EHOSTUNREACH)
		return 0;
	fprintf(stderr, "fileget: no network leads to the server: %s\n", path.others);
	return err;
}

int fileget_client_open(uint64_t server, unsigned int depth, int timeout_ms,
	const volatile int *stop, struct fileget_client **client)
{
	struct ripc_config config = {.size = sizeof(config), .log = log_to_stderr};
	struct fileget_client *new = calloc(1, sizeof(*new) + depth * sizeof(new->slots[0]));
	int err;

	if (!new)
		return -ENOMEM;
	new->server = server;
	new->timeout_ms = timeout_ms;
	new->stop = stop;
	new->n_slots = depth;
	err = ripc_open(&config, &new->ctx);
	if (err < 0)
		goto free_client;
	err = ripc_service_open(new->ctx, 0, 0, &new->svc);
	if (err == 0)
		err = ripc_resolve(new->ctx, server, timeout_ms);
	if (err == 0)
		err = check_path(new);
	if (err < 0)
		goto close_context;
	*client = new;
	return 0;

close_context:
	ripc_close(new->ctx, 0);
free_client:
	free(new);
	return err;
}

void fileget_client_close(struct fileget_client *client)
{
	unsigned int i;

	for (i = 0; i < client->n_slots; i++)
		ripc_msg_free(client->slots[i].msg);
	ripc_close(client->ctx, 1000);
	free(client);
}

void fileget_path_text(struct fileget_client *client, char *text, size_t len)
{
	struct ripc_path path = {.size = sizeof(path)};
	int err = ripc_path_info(client->svc, client->server, &path);

	if (err < 0)
		snprintf(text, len, "unknown");
	else
		snprintf(text, len, "%s/%s", path.backend, path.bulk);
}

/* ---- requests ---- */

/* A server that is gone may come again; where no network leads to it, waiting is in vain. */
static int is_lasting(int err)
{
	return err == -EHOSTUNREACH || err == -EPROTONOSUPPORT || err == -EMSGSIZE ||
	       err == -EINVAL || err == FILE_MALFORMED;
}

/* Sends the request of a slot, or puts it off. 0, or an error that no repetition would change. */
static int ask_slot(struct fileget_client *client, struct slot *slot)
{
	struct iovec item = {slot->request, slot->request_len};
	struct ripc_request request = {
		.size = sizeof(request),
		.to = client->server,
		.cookie = (uint64_t)(slot - client->slots),
		.items = &item,
		.n_items = 1,
		.flags = slot->piece->offset == 0 ? RIPC_IDEMPOTENT : 0,
		.timeout_ms = client->timeout_ms,
	};
	int err = ripc_call_start(client->svc, &request);

	slot->state = err < 0 ? SLOT_WAITING : SLOT_ASKED;
	client->n_waiting += err < 0;
	if (err < 0)
		client->is_refused = err == -EACCES;
	return is_lasting(err) ? err : 0;
}

/* Sends what was put off, at most so many times. 0 or an error, as above. */
static int ask_waiting(struct fileget_client *client, unsigned int most)
{
	struct slot *slot = client->slots;
	int err = 0;

	for (; client->n_waiting > 0 && most > 0 && err == 0; slot++) {
		if (slot == client->slots + client->n_slots)
			break;
		if (slot->state != SLOT_WAITING)
			continue;
		client->n_waiting--;
		most--;
		err = ask_slot(client, slot);
	}
	return err;
}

static size_t encode(
	enum file_what what, const char *path, const struct fileget_piece *piece, uint8_t *bytes)
{
	struct file_request request = {
		.what = (uint8_t)what,
		.path_len = (uint16_t)strlen(path),
		.offset = piece->offset,
		.len = piece->len,
	};

	memcpy(request.path, path, request.path_len);
	return file_request_encode(&request, bytes);
}

int fileget_ask(struct fileget_client *client, enum file_what what, const char *path,
	struct fileget_piece *piece)
{
	struct slot *slot = client->slots;
	int err;

	if (strlen(path) > FILE_PATH_MAX)
		return -ENAMETOOLONG;
	while (slot < client->slots + client->n_slots && slot->state != SLOT_FREE)
		slot++;
	if (slot == client->slots + client->n_slots)
		return -EAGAIN;
	slot->piece = piece;
	slot->request_len = encode(what, path, piece, slot->request);
	err = ask_slot(client, slot);
	if (err < 0) {
		slot->state = SLOT_FREE;
		client->n_waiting--;
		return err;
	}
	client->n_asked++;
	return 0;
}

/* ---- receiving ---- */

/* Whether the data that came is what the header says, and no more than was requested. */
static int is_consistent(const struct ripc_msg *msg, const struct fileget_piece *piece,
	const struct file_answer *answer)
{
	size_t data_len = msg->n_items == 2 ? msg->items[1].iov_len : 0;

	if (answer->status != FILE_OK)
		return msg->n_items == 1;
	return msg->n_items <= 2 && answer->len == data_len && answer->len <= piece->len;
}

/* The reply for a slot: takes msg. 0, or -EBADMSG: it is nonsense. */
static int take_answer(struct fileget_client *client, struct slot *slot, struct ripc_msg *msg)
{
	struct file_answer answer;

	if (file_answer_decode(&msg->items[0], &answer) < 0 ||
		!is_consistent(msg, slot->piece, &answer))
		return -EBADMSG;
	client->sign_of_life_ms = now_ms();
	client->n_asked--;
	slot->state = SLOT_ANSWERED;
	slot->msg = msg;
	slot->piece->answer = answer;
	slot->piece->data = msg->n_items == 2 ? msg->items[1].iov_base : NULL;
	return 0;
}

/* No reply came, or the server is busy: the request is sent again, unless that is in vain. */
static int take_failure(struct fileget_client *client, struct slot *slot, int err)
{
	slot->state = SLOT_WAITING;
	client->n_waiting++;
	client->is_refused = err == -EACCES;
	if (is_lasting(err))
		return err;
	return now_ms() - client->sign_of_life_ms >= (uint64_t)client->timeout_ms ? err : 0;
}

/* Takes a message. 0 or a negative errno. *answered: the slot that keeps it, if one does. */
static int take(struct fileget_client *client, struct ripc_msg *msg, struct slot **answered)
{
	struct slot *slot = &client->slots[msg->request_cookie];
	int err;

	if (msg->kind != RIPC_REPLY) { /* a notice: the network takes more again */
		ripc_msg_free(msg);
		return ask_waiting(client, client->n_slots);
	}
	err = msg->status ? take_failure(client, slot, msg->status)
			  : take_answer(client, slot, msg);
	if (slot->state == SLOT_ANSWERED)
		*answered = slot;
	else
		ripc_msg_free(msg);
	return err;
}

/* Now and then: what was put off is sent again. Also, is there still a way to the server? */
static int look_around(struct fileget_client *client)
{
	uint64_t now = now_ms();
	int err;

	if (now - client->looked_ms < TICK_MS)
		return 0;
	client->looked_ms = now;
	err = check_path(client);
	if (err == 0)
		err = ask_waiting(client, client->n_slots);
	if (err == 0 && now - client->sign_of_life_ms > (uint64_t)client->timeout_ms)
		err = client->is_refused ? -EACCES : -ETIMEDOUT;
	return err;
}

/* Takes what comes next. 0 or a negative errno. *answered: as above. */
static int step(struct fileget_client *client, struct slot **answered)
{
	struct ripc_msg *msg;
	int err = ripc_receive(client->svc, TICK_MS, &msg);

	if (err == 0)
		return take(client, msg, answered);
	return err == -ETIMEDOUT ? 0 : err;
}

int fileget_wait(struct fileget_client *client, struct fileget_piece **piece)
{
	struct slot *slot = NULL;
	int err = client->n_asked ? 0 : -ENOENT;

	/* Silence counts only while we listen: our caller may have been busy for long. */
	client->sign_of_life_ms = now_ms();
	while (err == 0 && !slot) {
		if (*client->stop)
			return -EINTR;
		err = look_around(client);
		if (err == 0)
			err = step(client, &slot);
	}
	if (slot)
		*piece = slot->piece;
	return err;
}

void fileget_release(struct fileget_client *client, struct fileget_piece *piece)
{
	unsigned int i;

	for (i = 0; i < client->n_slots; i++) {
		if (client->slots[i].piece != piece || client->slots[i].state != SLOT_ANSWERED)
			continue;
		ripc_msg_free(client->slots[i].msg);
		client->slots[i].msg = NULL;
		client->slots[i].piece = NULL;
		client->slots[i].state = SLOT_FREE;
		break;
	}
	/* The server has room for another reply now. The next tick finds errors. */
	ask_waiting(client, 1);
}
