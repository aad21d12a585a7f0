/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chat MY_NAME NAME...: a chat of two or more people, each with a program of their own. A line that
 * is typed goes to everybody who is there. Every name is watched, and the program says who comes,
 * who goes, and who was replaced. One loop waits for the keyboard and for messages; the end of the
 * input or Ctrl-C ends it.
 */
#include <errno.h>
#include <poll.h>
#include <ripc/call.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PEOPLE_MAX 64
#define LINE_BYTES 1000 /* a longer line is cut in two */
#define EARLY_MAX  16	/* lines of one person that are kept */
#define WAIT_MS	   5000

struct person {
	const char *name;
	uint64_t id, incarnation; /* incarnation 0: is not there */
	/* Lines of somebody who only claims to be this person, until it is known who that is. */
	struct ripc_msg *early[EARLY_MAX];
	int n_early;
};

/* Typed text on its way to one person. */
struct line {
	const struct person *to;
	int len;
	char text[LINE_BYTES];
};

struct chat {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct person people[PEOPLE_MAX];
	unsigned int n_people;
	char typed[LINE_BYTES];
	int n_typed;
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

/* A name is the ID of a service: of two programs with one name the second cannot start. */
static uint64_t id_of(const char *name)
{
	char text[256];

	snprintf(text, sizeof(text), "chat/%s", name);
	return ripc_id_from_name(text);
}

/* Bytes come from elsewhere: control characters in them must not reach a terminal. */
static void print_text(const char *text, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++) {
		unsigned char byte = (unsigned char)text[i];

		putchar(byte < 0x20 || byte == 0x7f ? '?' : byte);
	}
	putchar('\n');
}

/* ---- what comes ---- */

static void print_line(const struct person *person, const struct ripc_msg *msg)
{
	printf("%s: ", person->name);
	print_text(msg->items[0].iov_base, msg->items[0].iov_len);
}

/*
 * A sender is believed if it is the one that is found under its ID. Its text can arrive before that
 * is known. Returns 1 if the message is kept.
 */
static int take_line(struct chat *chat, struct ripc_msg *msg)
{
	struct person *person = chat->people;

	while (person < chat->people + chat->n_people && person->id != msg->from)
		person++;
	if (person == chat->people + chat->n_people)
		return 0;
	if (msg->sender != RIPC_SENDER_RESOLVED && msg->from_incarnation != person->incarnation) {
		if (person->n_early == EARLY_MAX)
			return 0;
		person->early[person->n_early++] = msg;
		return 1;
	}
	print_line(person, msg);
	return 0;
}

/* Now it is known who the person is. */
static void take_early(struct person *person)
{
	int i;

	for (i = 0; i < person->n_early; i++) {
		if (person->early[i]->from_incarnation == person->incarnation)
			print_line(person, person->early[i]);
		ripc_msg_free(person->early[i]);
	}
	person->n_early = 0;
}

/* The cookie is the person. */
static void take_change(const struct ripc_msg *msg)
{
	struct person *person = (struct person *)(uintptr_t)msg->cookie;

	if (msg->from_incarnation == 0)
		printf("* %s is not here\n", person->name);
	else if (person->incarnation == 0)
		printf("* %s is here\n", person->name);
	else
		printf("* %s was replaced by another %s\n", person->name, person->name);
	person->incarnation = msg->from_incarnation;
	if (person->incarnation != 0)
		take_early(person);
}

/* The cookie is the line, which is ours again. */
static void take_outcome(const struct ripc_msg *msg)
{
	struct line *line = (struct line *)(uintptr_t)msg->cookie;

	if (msg->outcome != RIPC_DELIVERED) {
		printf("* %s %s: ", line->to->name,
			msg->outcome == RIPC_UNKNOWN ? "may not have got" : "did not get");
		print_text(line->text, (size_t)line->len);
	}
	free(line);
}

/* Takes a message. 0, or -EADDRINUSE: another program has our name. */
static int take(struct chat *chat, struct ripc_msg *msg)
{
	int err = 0;

	if (msg->kind == RIPC_LONG && take_line(chat, msg))
		return 0;
	if (msg->kind == RIPC_COMPLETION)
		take_outcome(msg);
	else if (msg->kind == RIPC_NOTICE && msg->flags & RIPC_WATCHED)
		take_change(msg);
	else if (msg->kind == RIPC_NOTICE && msg->status == -EADDRINUSE)
		err = msg->status;
	ripc_msg_free(msg);
	return err;
}

/* Takes all that is there. 0, or what ends the program. */
static int take_all(struct chat *chat)
{
	struct ripc_msg *msg;
	int err;

	while ((err = ripc_receive(chat->svc, 0, &msg)) == 0) {
		err = take(chat, msg);
		if (err < 0)
			return err;
	}
	return err == -EAGAIN ? 0 : err;
}

/* ---- what is typed ---- */

/* Sends without waiting: a person who reads slowly keeps nobody waiting. */
static void say_to(struct chat *chat, const struct person *person, const char *text, int len)
{
	struct line *line = malloc(sizeof(*line));
	struct iovec item;
	struct ripc_send send = {
		.size = sizeof(send),
		.to = person->id,
		.items = &item,
		.n_items = 1,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT | RIPC_ORDERED,
		.timeout_ms = WAIT_MS,
		.cookie = (uint64_t)(uintptr_t)line,
	};

	if (!line)
		return;
	line->to = person;
	line->len = len;
	memcpy(line->text, text, (size_t)len);
	item = (struct iovec){line->text, (size_t)len};
	if (ripc_sendmsg(chat->svc, &send, NULL) == 0)
		return;
	printf("* %s did not get: ", person->name);
	print_text(text, (size_t)len);
	free(line);
}

static void say(struct chat *chat, const char *text, int len)
{
	unsigned int i;

	for (i = 0; len > 0 && i < chat->n_people; i++)
		if (chat->people[i].incarnation != 0)
			say_to(chat, &chat->people[i], text, len);
}

/* Reads what is there and says each whole line. False: the input has ended. */
static int read_typed(struct chat *chat)
{
	ssize_t got = read(0, chat->typed + chat->n_typed, LINE_BYTES - (size_t)chat->n_typed);
	char *end;

	if (got <= 0)
		return got < 0 && errno == EINTR;
	chat->n_typed += (int)got;
	while ((end = memchr(chat->typed, '\n', (size_t)chat->n_typed))) {
		say(chat, chat->typed, (int)(end - chat->typed));
		chat->n_typed -= (int)(end + 1 - chat->typed);
		memmove(chat->typed, end + 1, (size_t)chat->n_typed);
	}
	if (chat->n_typed == LINE_BYTES) {
		say(chat, chat->typed, LINE_BYTES);
		chat->n_typed = 0;
	}
	return 1;
}

/* ---- all together ---- */

/* Waits for both at once, and for a signal, which comes only here: no other moment is to be met. */
static int run(struct chat *chat)
{
	struct pollfd fds[2] = {
		{.fd = 0, .events = POLLIN}, {.fd = ripc_service_fd(chat->svc), .events = POLLIN}};
	sigset_t none;
	int err = fds[1].fd < 0 ? fds[1].fd : 0;

	sigemptyset(&none);
	while (err == 0 && !stopped) {
		if (ppoll(fds, 2, NULL, &none) < 0)
			continue;
		if (fds[1].revents)
			err = take_all(chat);
		if (fds[0].revents && !read_typed(chat))
			stopped = 1;
		fflush(stdout);
	}
	return err;
}

/* Watches everybody named. 0 or a negative errno. */
static int watch_all(struct chat *chat, char **names, int n)
{
	struct person *person;
	int i, err = 0;

	for (i = 0; err == 0 && i < n; i++) {
		person = &chat->people[chat->n_people++];
		person->name = names[i];
		person->id = id_of(names[i]);
		err = ripc_watch(chat->svc, person->id, (uint64_t)(uintptr_t)person);
	}
	return err;
}

/* From now on SIGINT and SIGTERM wait until ppoll() lets them through; threads take them over. */
static void hold_signals(void)
{
	struct sigaction action = {.sa_handler = stop};
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

int main(int argc, char **argv)
{
	static struct chat chat;
	int err;

	if (argc < 3 || argc - 2 > PEOPLE_MAX) {
		fprintf(stderr, "usage: chat MY_NAME NAME...\n");
		return 2;
	}
	hold_signals();
	err = ripc_open(NULL, &chat.ctx);
	if (err == 0)
		err = ripc_service_open(chat.ctx, id_of(argv[1]), 0, &chat.svc);
	if (err == 0)
		err = watch_all(&chat, argv + 2, argc - 2);
	if (err == 0)
		err = run(&chat);
	if (err < 0)
		fprintf(stderr, "chat: %s\n", ripc_strerror(err));
	if (chat.ctx)
		ripc_close(chat.ctx, WAIT_MS); /* lines under way still arrive */
	return err < 0;
}
