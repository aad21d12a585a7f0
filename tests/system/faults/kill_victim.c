/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process that is killed: it answers letters ("serve") or writes them ("call"), and at the
 * n-th passing of a named point of the protocol it kills itself, in the middle of whatever the
 * library is doing.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "kill.h"

#define PATIENCE_MS 5000
#define AWAIT_MS    (4 * PATIENCE_MS) /* longer than the survivor tries to answer */

struct victim {
	const char *point; /* "none": live */
	uint32_t passings; /* until the end */
	struct ripc_context *ctx;
	struct ripc_service *svc;
	char *bytes;
	uint32_t life;
	uint32_t again; /* how many letters were not delivered at once */
	struct tally tally;
};

static void on_point(void *arg, const char *name)
{
	struct victim *victim = arg;

	if (strcmp(name, victim->point) == 0 && --victim->passings == 0)
		raise(SIGKILL);
}

void letter_pack(struct iovec items[2], struct letter *letter, void *bytes)
{
	fault_fill(bytes, LETTER_LEN, letter->number);
	items[0] = (struct iovec){letter, sizeof(*letter)};
	items[1] = (struct iovec){bytes, LETTER_LEN};
}

int letter_read(const struct ripc_msg *msg, struct tally *tally, struct letter *letter)
{
	if (msg->n_items != 2 || msg->items[0].iov_len != sizeof(*letter) ||
			msg->items[1].iov_len != LETTER_LEN)
		return -1;
	memcpy(letter, msg->items[0].iov_base, sizeof(*letter));
	if (letter->life < tally->life)
		return -1;
	if (letter->life > tally->life) {
		memset(tally, 0, sizeof(*tally));
		tally->life = letter->life;
	}
	if (letter->number >= NUMBERS)
		return -1;
	if (tally->seen[letter->number]++ && letter->is_answer != ANSWER_AGAIN)
		return -1;
	return fault_filled(msg->items[1].iov_base, LETTER_LEN, letter->number) ? 0 : -1;
}

static int send_letter(struct victim *victim, uint64_t to, struct letter letter)
{
	enum ripc_outcome outcome = 0;
	struct iovec items[2];
	struct ripc_send send = {.size = sizeof(send), .to = to, .items = items, .n_items = 2,
		.flags = RIPC_SEND_LONG, .timeout_ms = PATIENCE_MS};
	int error;

	letter_pack(items, &letter, victim->bytes);
	error = ripc_sendmsg(victim->svc, &send, &outcome);
	if (!fault_documented(error, outcome))
		fault_fail("victim: a send ended with %d, outcome %d", error, outcome);
	return error;
}

/* Again, if the machine stops whoever asked, or us, for a while: each letter has its answer. */
static void send_answer(struct victim *victim, uint64_t to, struct letter letter)
{
	uint64_t until_ms = fault_now_ms() + AWAIT_MS;
	int error;

	letter.is_answer = ANSWER;
	while ((error = send_letter(victim, to, letter)) && fault_now_ms() < until_ms) {
		if (error == -ECONNRESET)
			letter.is_answer = ANSWER_AGAIN;
		usleep(10000);
	}
}

/* One for whom was here before may have been held until we came. */
static bool is_stop(const struct victim *victim, const struct iovec *item)
{
	const struct stop *stop = item->iov_base;

	return item->iov_len == sizeof(*stop) && memcmp(stop->word, "stop", 4) == 0 &&
		stop->life == victim->life;
}

/* False: it is time to end. */
static bool serve_one(struct victim *victim)
{
	struct letter letter;
	struct ripc_msg *msg;
	const struct iovec *one;
	bool go_on = true;

	if (ripc_receive(victim->svc, -1, &msg))
		fault_fail("victim: cannot receive");
	one = msg->items;
	if (msg->kind == RIPC_SHORT)
		go_on = !is_stop(victim, one);
	if (msg->kind == RIPC_LONG) {
		if (letter_read(msg, &victim->tally, &letter))
			fault_fail("victim: got a letter that is broken, or twice");
		send_answer(victim, msg->from, letter);
	}
	ripc_msg_free(msg);
	return go_on;
}

/*
 * Waits for the answer to a letter; other things that come are of no interest, as the answer to
 * a letter that was delivered in an earlier life, but received in this one.
 */
static void await_answer(struct victim *victim, uint32_t number)
{
	struct letter letter = {0};
	struct ripc_msg *msg;

	while ((letter.number != number || letter.life != victim->life) &&
			ripc_receive(victim->svc, AWAIT_MS, &msg) == 0) {
		if (msg->kind == RIPC_LONG && letter_read(msg, &victim->tally, &letter))
			fault_fail("victim: got an answer that is broken, or twice");
		ripc_msg_free(msg);
	}
	if (letter.number != number || letter.life != victim->life)
		fault_fail("victim: no answer to letter %u", number);
}

/*
 * A letter there and its answer back; another one, if it was not delivered because the machine has
 * stopped whoever answers, or us, for a while. Returns the number of the next.
 */
static uint32_t exchange(struct victim *victim, uint32_t number)
{
	uint64_t until_ms = fault_now_ms() + AWAIT_MS, to = fault_id(SERVICE_DRIVER);
	uint32_t first = number;

	while (send_letter(victim, to, (struct letter){.number = number, .life = victim->life})) {
		if (fault_now_ms() > until_ms)
			fault_fail("victim: letter %u cannot be delivered", number);
		number++;
		usleep(10000);
	}
	/* Only few letters of a life meet this case. */
	victim->again += number > first;
	if (victim->again > 3)
		fault_fail("victim: too many letters were not delivered at once");
	await_answer(victim, number);
	return number + 1;
}

static void live(struct victim *victim, bool serve, uint32_t n_letters)
{
	uint32_t number = 1;

	if (serve) {
		victim->tally.life = victim->life; /* no letter to an earlier one is for us */
		while (serve_one(victim))
			;
		return;
	}
	for (uint32_t i = 0; i < n_letters; i++)
		number = exchange(victim, number);
}

int victim_main(char **argv)
{
	static struct victim victim;
	struct ripc_config cfg = fault_config();
	struct ripc__env env;
	int error;

	victim.point = argv[3];
	victim.passings = (uint32_t)atoi(argv[4]);
	victim.life = (uint32_t)atoi(argv[6]);
	victim.bytes = malloc(LETTER_LEN);
	if (!victim.bytes)
		fault_fail("victim: no memory");
	ripc__env_init(&env);
	env.arg = &victim;
	env.point = on_point;
	fault_open(&env, &cfg, &victim.ctx);
	error = ripc_service_open(victim.ctx, fault_id(SERVICE_VICTIM), 0, &victim.svc);
	if (error)
		fault_fail("victim: no service: %s", ripc_strerror(error));
	if (write(FAULT_READY_FD, "r", 1) != 1)
		fault_fail("victim: cannot say that it is ready");
	live(&victim, strcmp(argv[2], "serve") == 0, (uint32_t)atoi(argv[5]));
	ripc_service_close(victim.svc);
	ripc_close(victim.ctx, PATIENCE_MS);
	free(victim.bytes);
	return 0;
}
