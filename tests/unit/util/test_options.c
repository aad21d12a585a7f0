/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of options: what each takes, and what is said of what it does not take. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/net/backend.h"
#include "ripc/ripc.h"
#include "suite.h"
#include "util/options.h"

START_TEST(check__takes_and_refuses)
{
	static const struct {
		const char *name, *text, *word; /* word: in what is said; NULL: it is taken */
	} cases[] = {
		{"udp.port", "0", NULL},
		{"udp.port", "65535", NULL},
		{"udp.port", "65536", "from 0 to 65535"},
		{"udp.port", "frog", "frog"},
		{"udp.gso", "on", NULL},
		{"udp.gro", "1", NULL},
		{"udp.gso", "0", NULL},
		{"udp.gso", "maybe", "on or off (yes or no, true or false, 1 or 0)"},
		{"ofi.checksum", "off", NULL},
		{"ofi.checksum", "0", NULL},
		{"ofi.reads", "true", NULL},
		{"ofi.reads", "2", "on or off"},
		{"rdmacm.any", "yes", NULL},
		{"udp.rcvbuf", "1073741824", NULL},
		{"verbs.receives", "63", "from 64 to 16384"},
		{"rdmacm.connections", "1", "from 2 to 4096"},
		{"ofi.datagram", "1535", "from 1536 to 65536"},
		{"ofi.provider", "anything;else", NULL},
		{"resolver.port", "0", "from 1 to 65535"},
		{"resolver.ttl", "999", "from 0 to 255"},
		{"shm.uids", "any", NULL},
		/* Slips of the pen: what there is instead. */
		{"udp.prot", "5", "known options: udp.gro, udp.gso, udp.port, udp.rcvbuf"},
		{"udp", "5", "\"udp\""},
		{"foo.bar", "1", "\"foo.bar\""},
		{"", "1", "\"\""},
	};
	char why[OPTION_WHY];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		why[0] = '\0';
		ck_assert_int_eq(ripc__option_check(ripc__options, cases[i].name, cases[i].text,
			why), cases[i].word ? -EINVAL : 0);
		if (cases[i].word && !strstr(why, cases[i].word))
			ck_abort_msg("\"%s\" is not in \"%s\"", cases[i].word, why);
	}
}
END_TEST

/* However long what was configured is, the sentence ends in time. */
START_TEST(check__long_words)
{
	char name[300], why[OPTION_WHY];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	ck_assert_int_eq(ripc__option_check(ripc__options, name, name, why), -EINVAL);
	ck_assert_uint_lt(strlen(why), sizeof(why));
	ck_assert_int_eq(ripc__option_check(ripc__options, "udp.port", name, why), -EINVAL);
	ck_assert_uint_lt(strlen(why), sizeof(why));
	memcpy(name, "verbs.", 6);
	ck_assert_int_eq(ripc__option_check(ripc__options, name, name, why), -EINVAL);
	ck_assert_uint_lt(strlen(why), sizeof(why));
}
END_TEST

/* ---- reading a list of them -------------------------------------------------------------- */

/* A host, and what is configured there. */
struct configured {
	const char *names[3], *texts[3];
	char said[OPTION_WHY];
	int level;
	struct ripc__host host;
};

static const char *configured_option(void *arg, const char *name)
{
	const struct configured *own = arg;

	for (size_t i = 0; i < sizeof(own->names) / sizeof(own->names[0]); i++) {
		if (own->names[i] && strcmp(own->names[i], name) == 0)
			return own->texts[i];
	}
	return NULL;
}

__attribute__((format(printf, 3, 4)))
static void configured_log(void *arg, int level, const char *format, ...)
{
	struct configured *own = arg;
	va_list args;

	own->level = level;
	va_start(args, format);
	vsnprintf(own->said, sizeof(own->said), format, args);
	va_end(args);
}

/* Three options, which are 77, 88 and on. */
struct three {
	uint32_t receives, port;
	bool gso;
};

static const struct ripc__option three_options[] = {
	{"verbs.receives", RIPC_NUMBER, 64, 16384, offsetof(struct three, receives)},
	{"udp.gso", RIPC_SWITCH, 0, 0, offsetof(struct three, gso)},
	{"udp.port", RIPC_NUMBER, 0, 65535, offsetof(struct three, port)},
	{0},
};

/* Returns as read does. */
static int read_three(struct configured *own, uint32_t *receives, uint32_t *port, bool *gso)
{
	struct three three = {77, 88, true};
	int error;

	own->host.arg = own;
	own->host.log = configured_log;
	error = ripc__options_read(&own->host, three_options, &three);
	*receives = three.receives;
	*port = three.port;
	*gso = three.gso;
	return error;
}

START_TEST(read__takes_what_is_configured)
{
	struct configured own = {.names = {"verbs.receives", "udp.gso"}, .texts = {"64", "off"},
		.host.option = configured_option};
	uint32_t receives, port;
	bool gso;

	ck_assert_int_eq(read_three(&own, &receives, &port, &gso), 0);
	ck_assert_uint_eq(receives, 64);
	ck_assert_uint_eq(port, 88);
	ck_assert(!gso);
	ck_assert_str_eq(own.said, "");
}
END_TEST

START_TEST(read__nothing_is_configured)
{
	struct configured own = {0};
	uint32_t receives, port;
	bool gso;

	ck_assert_int_eq(read_three(&own, &receives, &port, &gso), 0);
	ck_assert_uint_eq(receives, 77);
	ck_assert_uint_eq(port, 88);
	ck_assert(gso);
}
END_TEST

/* Options before the wrong one are taken, neither that one nor the later ones. */
START_TEST(read__says_what_is_wrong)
{
	struct configured own = {.names = {"verbs.receives", "udp.gso", "udp.port"},
		.texts = {"64", "nay", "5"}, .host.option = configured_option};
	uint32_t receives, port;
	bool gso;

	ck_assert_int_eq(read_three(&own, &receives, &port, &gso), -EINVAL);
	ck_assert_int_eq(own.level, RIPC_LOG_ERROR);
	ck_assert_str_eq(own.said, "option udp.gso: \"nay\" is not on or off "
		"(yes or no, true or false, 1 or 0)");
	ck_assert_uint_eq(receives, 64);
	ck_assert_uint_eq(port, 88);
	ck_assert(gso);
	own.texts[0] = "1";
	ck_assert_int_eq(read_three(&own, &receives, &port, &gso), -EINVAL);
	ck_assert_str_eq(own.said,
		"option verbs.receives: \"1\" is not a number from 64 to 16384");
	ck_assert_uint_eq(receives, 77);
	ck_assert(gso);
}
END_TEST

/* A switch with a default that is neither keeps that as long as nobody sets it. */
START_TEST(read__third_state)
{
	struct configured own = {.names = {"ofi.reads"}, .host.option = configured_option};
	uint32_t reads = 2;
	const struct ripc__option wanted[] = {{"ofi.reads", RIPC_THIRD, 0, 0, 0}, {0}};

	own.host.arg = &own;
	own.host.log = configured_log;
	ck_assert_int_eq(ripc__options_read(&own.host, wanted, &reads), 0);
	ck_assert_uint_eq(reads, 2);
	own.texts[0] = "off";
	ck_assert_int_eq(ripc__options_read(&own.host, wanted, &reads), 0);
	ck_assert_uint_eq(reads, 0);
	own.texts[0] = "1";
	ck_assert_int_eq(ripc__options_read(&own.host, wanted, &reads), 0);
	ck_assert_uint_eq(reads, 1);
	own.texts[0] = "2";
	ck_assert_int_eq(ripc__options_read(&own.host, wanted, &reads), -EINVAL);
	ck_assert_uint_eq(reads, 1);
}
END_TEST

/* Each list ends, its names begin alike and stand in order, as they are told. */
START_TEST(options__are_in_order)
{
	for (const struct ripc__option *const *list = ripc__options; *list; list++) {
		const struct ripc__option *first = *list;
		size_t part_len = strcspn(first->name, ".") + 1;

		for (const struct ripc__option *at = first; at[1].name; at++) {
			ck_assert_int_eq(strncmp(at[1].name, first->name, part_len), 0);
			ck_assert_int_lt(strcmp(at->name, at[1].name), 0);
			ck_assert_uint_le(at->min, at->max);
		}
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		check__takes_and_refuses, check__long_words, read__takes_what_is_configured,
		read__nothing_is_configured, read__says_what_is_wrong, read__third_state,
		options__are_in_order,
		NULL,
	};

	return suite_run("options", tests);
}
