/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks and takes no answer, as it is told, line by line. Knows nothing but ripc/call.h. Answers
 * each line with one.
 *
 *   asker NAME              whom it asks
 *
 *   ask N FLAGS ITEM...     so many questions; an item is hexadecimal, or zeros:LENGTH
 *   wait                    until all is answered, or has failed
 *   take                    all answers that are there; says how many were good
 *
 * The questions stay open for a minute; at most 16,384 can be.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ripc/call.h"

#define DEADLINE_MS 60000
#define PATIENCE_MS 20000 /* for the room that one more question wants */
#define WORDS_MAX   66

struct asker {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t to;
};

static void check(const char *what, int error)
{
	if (error >= 0)
		return;
	fprintf(stderr, "asker: %s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static size_t parse_hex(const char *word, uint8_t *bytes)
{
	size_t len = strlen(word) / 2;

	for (size_t i = 0; i < len; i++) {
		const char digits[3] = {word[2 * i], word[2 * i + 1], 0};

		bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return len;
}

/* Its memory is never freed: the network may still use it. */
static struct iovec parse_item(const char *word)
{
	size_t len = strncmp(word, "zeros:", 6) == 0 ? strtoul(word + 6, NULL, 10) :
		strlen(word) / 2;
	struct iovec item = {calloc(1, len + 1), len};

	check("memory", item.iov_base ? 0 : -ENOMEM);
	if (strncmp(word, "zeros:", 6) != 0)
		parse_hex(word, item.iov_base);
	return item;
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* As many as there is room for, waiting for room. Says how many, and why no more. */
static void ask(const struct asker *asker, unsigned long n, const struct ripc_request *question)
{
	unsigned long asked = 0;
	int err = 0, waited_ms = 0;

	while (asked < n && waited_ms < PATIENCE_MS) {
		err = ripc_call_start(asker->svc, question);
		if (err == 0) {
			asked++;
			waited_ms = 0;
			continue;
		}
		if (err != -EAGAIN)
			break;
		pause_ms(1);
		waited_ms++;
	}
	printf("asked %lu: %s\n", asked, ripc_strerror(err));
}

static void wait_for_all(const struct asker *asker)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	check("stats", ripc_stats_get(asker->ctx, &stats));
	while (stats.calls_open > 0) {
		pause_ms(1);
		check("stats", ripc_stats_get(asker->ctx, &stats));
	}
	printf("waited\n");
}

static void take(const struct asker *asker)
{
	unsigned long n = 0, good = 0;
	struct ripc_msg *msg;

	while (ripc_receive(asker->svc, 0, &msg) == 0) {
		n += msg->kind == RIPC_REPLY;
		good += msg->kind == RIPC_REPLY && msg->status == 0;
		ripc_msg_free(msg);
	}
	printf("took %lu, %lu good\n", n, good);
}

static void obey(const struct asker *asker, char *line)
{
	char *words[WORDS_MAX + 1] = {strtok(line, " \n")};
	struct iovec items[RIPC_ITEMS_MAX];
	struct ripc_request question = {.size = sizeof(question), .to = asker->to,
		.items = items, .timeout_ms = DEADLINE_MS};
	int n = 0;

	while (words[n] && n < WORDS_MAX)
		words[++n] = strtok(NULL, " \n");
	if (n == 1 && strcmp(words[0], "wait") == 0) {
		wait_for_all(asker);
		return;
	}
	if (n == 1 && strcmp(words[0], "take") == 0) {
		take(asker);
		return;
	}
	if (n < 4 || strcmp(words[0], "ask") != 0)
		check("line", -EINVAL);
	question.flags = (uint32_t)strtoul(words[2], NULL, 10);
	for (int i = 3; i < n; i++)
		items[question.n_items++] = parse_item(words[i]);
	ask(asker, strtoul(words[1], NULL, 10), &question);
}

int main(int argc, char **argv)
{
	static char line[100000];
	struct asker asker = {.to = argc == 2 ? ripc_id_from_name(argv[1]) : 0};

	check("NAME", asker.to ? 0 : -EINVAL);
	check("open", ripc_open(NULL, &asker.ctx));
	check("service", ripc_service_open(asker.ctx, 0, 0, &asker.svc));
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin))
		obey(&asker, line);
	ripc_close(asker.ctx, 0);
	return 0;
}
