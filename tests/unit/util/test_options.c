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
		{"udp.prot", "5", "there are udp.gro, udp.gso, udp.port, udp.rcvbuf"},
		{"udp", "5", "\"udp\""},
		{"foo.bar", "1", "\"foo.bar\""},
		{"", "1", "\"\""},
	};
	char why[OPTION_WHY];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		why[0] = '\0';
		ck_assert_int_eq(ripc__option_check(cases[i].name, cases[i].text, why),
			cases[i].word ? -EINVAL : 0);
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
	ck_assert_int_eq(ripc__option_check(name, name, why), -EINVAL);
	ck_assert_uint_lt(strlen(why), sizeof(why));
	ck_assert_int_eq(ripc__option_check("udp.port", name, why), -EINVAL);
	ck_assert_uint_lt(strlen(why), sizeof(why));
	memcpy(name, "verbs.", 6);
	ck_assert_int_eq(ripc__option_check(name, name, why), -EINVAL);
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

/* Of three options that are 77, 88 and on. Returns as read does. */
static int read_three(struct configured *own, uint32_t *receives, uint32_t *port, bool *gso)
{
	const struct ripc__option wanted[] = {
		{"verbs.receives", receives, NULL},
		{"udp.gso", NULL, gso},
		{"udp.port", port, NULL},
		{0},
	};

	*receives = 77;
	*port = 88;
	*gso = true;
	own->host.arg = own;
	own->host.log = configured_log;
	return ripc__options_read(&own->host, wanted);
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

/* What is before the one that is wrong is taken, neither that one nor what comes after it. */
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
	const struct ripc__option wanted[] = {{"ofi.reads", .third = &reads}, {0}};

	own.host.arg = &own;
	own.host.log = configured_log;
	ck_assert_int_eq(ripc__options_read(&own.host, wanted), 0);
	ck_assert_uint_eq(reads, 2);
	own.texts[0] = "off";
	ck_assert_int_eq(ripc__options_read(&own.host, wanted), 0);
	ck_assert_uint_eq(reads, 0);
	own.texts[0] = "1";
	ck_assert_int_eq(ripc__options_read(&own.host, wanted), 0);
	ck_assert_uint_eq(reads, 1);
	own.texts[0] = "2";
	ck_assert_int_eq(ripc__options_read(&own.host, wanted), -EINVAL);
	ck_assert_uint_eq(reads, 1);
}
END_TEST

/* A slip of ours, not the user's: an option that is not in the table. */
START_TEST(read__knows_no_such_option)
{
	struct configured own = {.host = {.arg = &own, .log = configured_log}};
	uint32_t receives = 77;
	const struct ripc__option number[] = {{"verbs.recieves", &receives, NULL}, {0}};
	bool gso = true;
	const struct ripc__option on[] = {{"udp.gos", NULL, &gso}, {0}};

	ck_assert_int_eq(ripc__options_read(&own.host, number), -EINVAL);
	ck_assert_ptr_nonnull(strstr(own.said, "there are verbs.connections"));
	ck_assert_int_eq(ripc__options_read(&own.host, on), -EINVAL);
	ck_assert_ptr_nonnull(strstr(own.said, "there are udp.gro"));
	ck_assert_uint_eq(receives, 77);
	ck_assert(gso);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		check__takes_and_refuses, check__long_words, read__takes_what_is_configured,
		read__nothing_is_configured, read__says_what_is_wrong, read__third_state,
		 read__knows_no_such_option,
		NULL,
	};

	return suite_run("options", tests);
}
