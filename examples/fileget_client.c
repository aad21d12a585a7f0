/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asking a fileserver; see fileget.h. Each question has a slot and goes as a short message. As
 * shorts can be lost, a question is repeated until something comes back. The answer is kept until
 * our caller is done with it, wherever its data lies: in our pool, or, when it was given by a
 * server on this host, in that one's memory. The number of a question is never used again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "fileget.h"

#define REPEAT_FIRST_MS 50
#define REPEAT_MOST_MS	2000
#define TICK_MS		50

enum slot_state { SLOT_FREE, SLOT_ASKED, SLOT_ANSWERED };

struct slot {
	struct fileget_piece *piece;
	enum slot_state state;
	enum file_what what;
	const char *path;
	uint64_t number, repeat_at_ms;
	uint8_t attempt;
	struct ripc_msg *msg; /* the answer, kept until it is released */
};

struct fileget_client {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t server, last_number, sign_of_life_ms;
	int timeout_ms;
	const volatile int *stop;
	unsigned int n_slots, n_asked;
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

/* ---- sending ---- */

static size_t encode(const struct slot *slot, uint8_t *bytes)
{
	struct file_request request = {
		.what = (uint8_t)slot->what,
		.attempt = slot->attempt,
		.path_len = (uint16_t)strlen(slot->path),
		.number = slot->number,
		.offset = slot->piece->offset,
		.len = slot->piece->len,
	};

	memcpy(request.path, slot->path, request.path_len);
	return file_request_encode(&request, bytes);
}

static int send_question(struct fileget_client *client, const struct slot *slot)
{
	uint8_t bytes[RIPC_SHORT_MIN];
	struct iovec item = {bytes, encode(slot, bytes)};

	return ripc_send_short(client->svc, client->server, &item, 1);
}

/* A server that is gone may come again; where no network leads to it, waiting is in vain. */
static int is_lasting(int err)
{
	return err == -EHOSTUNREACH || err == -EPROTONOSUPPORT || err == -EMSGSIZE ||
	       err == -EINVAL;
}

/* 0, or a negative errno that no repetition would change. */
static int repeat(struct fileget_client *client, struct slot *slot, uint64_t now)
{
	uint64_t wait_ms = REPEAT_FIRST_MS;
	int err;

	slot->attempt += slot->attempt < UINT8_MAX;
	/* If the network takes no more now, this one counts as lost. */
	err = send_question(client, slot);
	if (slot->attempt < 6)
		wait_ms <<= slot->attempt;
	slot->repeat_at_ms = now + (wait_ms < REPEAT_MOST_MS ? wait_ms : REPEAT_MOST_MS);
	return is_lasting(err) ? err : 0;
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
	slot->what = what;
	slot->path = path;
	slot->piece = piece;
	slot->number = ++client->last_number;
	slot->attempt = 0;
	err = send_question(client, slot);
	if (is_lasting(err))
		return err;
	slot->state = SLOT_ASKED;
	/* Whatever else keeps it from leaving now, the repetition comes soon. */
	slot->repeat_at_ms = now_ms() + (err < 0 ? TICK_MS : REPEAT_FIRST_MS);
	client->n_asked++;
	return 0;
}

/* ---- receiving ---- */

static struct slot *find_slot(struct fileget_client *client, uint64_t number)
{
	unsigned int i;

	for (i = 0; i < client->n_slots; i++)
		if (client->slots[i].state == SLOT_ASKED && client->slots[i].number == number)
			return &client->slots[i];
	return NULL;
}

/* Whether the data that came is what the header says, and no more than was asked for. */
static int is_consistent(
	const struct ripc_msg *msg, const struct slot *slot, const struct file_answer *answer)
{
	size_t data_len = msg->n_items == 2 ? msg->items[1].iov_len : 0;

	if (answer->status != FILE_OK)
		return msg->n_items == 1;
	return msg->kind == RIPC_LONG && msg->n_items <= 2 && answer->len == data_len &&
	       answer->len <= slot->piece->len &&
	       (slot->what == FILE_LIST || answer->offset == slot->piece->offset);
}

/* Returns the slot that msg answers, which then owns msg, or NULL. */
static struct slot *take_answer(struct fileget_client *client, struct ripc_msg *msg)
{
	struct file_answer answer;
	struct slot *slot;

	if ((msg->kind != RIPC_SHORT && msg->kind != RIPC_LONG) || msg->from != client->server ||
		msg->n_items < 1 || file_answer_decode(&msg->items[0], &answer) < 0)
		return NULL;
	client->sign_of_life_ms = now_ms();
	slot = find_slot(client, answer.number);
	if (!slot || answer.status == FILE_WORKING || !is_consistent(msg, slot, &answer))
		return NULL;
	slot->state = SLOT_ANSWERED;
	slot->msg = msg;
	slot->piece->answer = answer;
	slot->piece->data = msg->n_items == 2 ? msg->items[1].iov_base : NULL;
	client->n_asked--;
	return slot;
}

static uint64_t next_repeat_ms(const struct fileget_client *client)
{
	uint64_t next = UINT64_MAX;
	unsigned int i;

	for (i = 0; i < client->n_slots; i++)
		if (client->slots[i].state == SLOT_ASKED && client->slots[i].repeat_at_ms < next)
			next = client->slots[i].repeat_at_ms;
	return next;
}

static int repeat_due(struct fileget_client *client, uint64_t now)
{
	unsigned int i;
	int err = 0;

	for (i = 0; err == 0 && i < client->n_slots; i++)
		if (client->slots[i].state == SLOT_ASKED && client->slots[i].repeat_at_ms <= now)
			err = repeat(client, &client->slots[i], now);
	return err;
}

/* Handles what comes next. Returns the answered slot, or NULL and in *err whether to go on. */
static struct slot *step(struct fileget_client *client, int *err)
{
	uint64_t now = now_ms();
	/* With a repetition due, only look: the answer may have come already. */
	int due = next_repeat_ms(client) <= now;
	struct ripc_msg *msg;
	struct slot *slot;

	*err = ripc_receive(client->svc, due ? 0 : TICK_MS, &msg);
	if (*err == 0) {
		slot = take_answer(client, msg);
		if (!slot)
			ripc_msg_free(msg);
		return slot;
	}
	if (*err != -EAGAIN && *err != -ETIMEDOUT)
		return NULL;
	*err = due ? repeat_due(client, now) : 0;
	if (*err == 0 && now_ms() - client->sign_of_life_ms > (uint64_t)client->timeout_ms)
		*err = -ETIMEDOUT;
	return NULL;
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
		slot = step(client, &err);
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
		return;
	}
}
