/* SPDX-License-Identifier: BSD-3-Clause */
/* ripc key: makes directories of keys, grants capabilities, and shows what a directory has. */
#include <errno.h>
#include <ripc/keys.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ripc_tool.h"

#define DAY_S 86400u

static const char usage_text[] =
	"usage: ripc key new [--authority | --like DIR] [DIR]\n"
	"       ripc key show [DIR]\n"
	"       ripc key grant [--be NAME]... [--send NAME]... --for TIME [--dir DIR] KEY\n"
	"       ripc key revoke [--dir DIR] KEY\n"
	"       ripc key rotate begin|use|end [DIR]\n"
	"\n"
	"  new    makes a directory of keys: with a new secret, or, with --like, the secret of\n"
	"         DIR, for programs of the same deployment; with --authority also the keys of\n"
	"         an authority, which grants capabilities: a key without capabilities may\n"
	"         then do nothing\n"
	"  show   prints fingerprint, authority and capabilities of the keys\n"
	"  grant  prints capabilities for the owner of KEY (its file \"public\"), which appends\n"
	"         these lines to its file \"capabilities\". NAME * is any service. TIME: 30d,\n"
	"         12h, 600s\n"
	"  revoke makes programs with DIR refuse the owner of KEY, within a minute\n"
	"  rotate replaces the secret while programs run. begin makes DIR/secret.next: copy it\n"
	"         to all hosts. When all have it, run use on each host; when all use it, run\n"
	"         end on each host. Programs check once a minute; show prints the step\n"
	"\n"
	"DIR defaults to the directory in RIPC_KEYS.\n";

static int fail(const char *why)
{
	fprintf(stderr, "%s: key: %s\n", PROGRAM, why);
	return TOOL_FAILED;
}

static const char *dir_or_default(const char *dir)
{
	return dir ? dir : getenv("RIPC_KEYS");
}

static int new_main(int argc, char **argv)
{
	const char *dir = NULL, *like = NULL;
	char why[RIPC_KEYS_WHY] = "invalid request";
	uint32_t flags = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--authority") == 0)
			flags |= RIPC_KEYS_AUTHORITY;
		else if (strcmp(argv[i], "--like") == 0 && i + 1 < argc)
			like = argv[++i];
		else if (argv[i][0] != '-' && !dir)
			dir = argv[i];
		else
			return usage_error(usage_text, "unexpected argument");
	}
	dir = dir_or_default(dir);
	if (!dir || !*dir || (like && flags))
		return usage_error(usage_text, dir ? "--like and --authority exclude each other" :
			"a directory is needed (argument or RIPC_KEYS)");
	if (ripc_keys_new(dir, like, flags, why))
		return fail(why);
	if (flags & RIPC_KEYS_AUTHORITY)
		printf("made an authority in %s: ripc key new --like %s makes keys for programs, "
			"ripc key grant --dir %s their capabilities\n", dir, dir, dir);
	else
		printf("made keys in %s: programs use them with RIPC_KEYS=%s\n", dir, dir);
	return TOOL_OK;
}

static int print_line(void *arg, const char *text)
{
	(void)arg;
	puts(text);
	return 0;
}

static int show_main(int argc, char **argv)
{
	const char *dir = dir_or_default(argc > 1 ? argv[1] : NULL);
	char why[RIPC_KEYS_WHY] = "";

	if (argc > 2 || !dir || !*dir)
		return usage_error(usage_text, "a directory is needed (argument or RIPC_KEYS)");
	return ripc_keys_show(dir, print_line, NULL, why) ? fail(why) : TOOL_OK;
}

/* "30d", "12h", "600s". 0: none. */
static uint64_t seconds_of(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);
	uint64_t unit = *end == 'd' ? DAY_S : *end == 'h' ? 3600 : *end == 's';

	if (!unit || end[1] || text[0] < '0' || text[0] > '9' || n > 36500ull * DAY_S / unit)
		return 0;
	return n * unit;
}

#define GRANTS_MAX 8

struct granting {
	const char *dir, *key;
	const char *time;
	int n;
	const char *names[GRANTS_MAX];
	uint32_t what[GRANTS_MAX];
};

static int grants_parse(struct granting *granting, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		bool be = strcmp(argv[i], "--be") == 0, send = strcmp(argv[i], "--send") == 0;

		if ((be || send) && i + 1 < argc && granting->n < GRANTS_MAX) {
			granting->names[granting->n] = argv[++i];
			granting->what[granting->n++] = be ? RIPC_MAY_BE : RIPC_MAY_SEND;
		} else if (strcmp(argv[i], "--for") == 0 && i + 1 < argc) {
			granting->time = argv[++i];
		} else if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc) {
			granting->dir = argv[++i];
		} else if (argv[i][0] != '-' && !granting->key) {
			granting->key = argv[i];
		} else {
			return -EINVAL;
		}
	}
	return granting->n && granting->key && granting->time ? 0 : -EINVAL;
}

static int grant_main(int argc, char **argv)
{
	char texts[GRANTS_MAX][RIPC_CAPABILITY], why[RIPC_KEYS_WHY] = "";
	struct granting granting = {0};
	const char *dir;
	uint64_t for_s;

	if (grants_parse(&granting, argc, argv))
		return usage_error(usage_text, "needed: --be or --send (at most 8 in all), --for, "
			"and one KEY");
	for_s = seconds_of(granting.time);
	if (!for_s) {
		fprintf(stderr, "%s: key: --for \"%s\" is not a duration: write days, hours or "
			"seconds, as 30d, 12h or 600s; 36500d is the "
			"longest\n", PROGRAM, granting.time);
		return TOOL_USAGE;
	}
	dir = dir_or_default(granting.dir);
	if (!dir || !*dir)
		return usage_error(usage_text, "a directory is needed (argument or RIPC_KEYS)");
	for (int i = 0; i < granting.n; i++) {
		struct ripc_grant grant = {.size = sizeof(grant), .key = granting.key,
			.what = granting.what[i], .until_s = (uint64_t)time(NULL) + for_s};

		if (strcmp(granting.names[i], "*") != 0 &&
				tool_parse_service(granting.names[i], &grant.id))
			return usage_error(usage_text, "not a service ID or name");
		if (ripc_keys_grant(dir, &grant, texts[i], why))
			return fail(why);
	}
	for (int i = 0; i < granting.n; i++)
		puts(texts[i]);
	return TOOL_OK;
}

static int revoke_main(int argc, char **argv)
{
	const char *dir = NULL, *key = NULL;
	char why[RIPC_KEYS_WHY] = "invalid request";

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc)
			dir = argv[++i];
		else if (argv[i][0] != '-' && !key)
			key = argv[i];
		else
			return usage_error(usage_text, "unexpected argument");
	}
	dir = dir_or_default(dir);
	if (!key || !dir || !*dir)
		return usage_error(usage_text, key ? "a directory is needed (argument or "
			"RIPC_KEYS)" : "a key is needed");
	return ripc_keys_revoke(dir, key, why) ? fail(why) : TOOL_OK;
}

/* A step that was done before does no harm. */
static int rotate(const char *dir, uint32_t step)
{
	char why[RIPC_KEYS_WHY] = "invalid request";
	int error = ripc_keys_rotate(dir, step, why);

	if (error == -EALREADY)
		puts(why);
	return error && error != -EALREADY ? fail(why) : TOOL_OK;
}

static int rotate_main(int argc, char **argv)
{
	static const char *const steps[] = {"begin", "use", "end"};
	const char *dir = dir_or_default(argc > 2 ? argv[2] : NULL);

	for (uint32_t i = 0; i < 3 && (argc == 2 || argc == 3) && dir && *dir; i++) {
		if (strcmp(argv[1], steps[i]) == 0)
			return rotate(dir, RIPC_ROTATE_BEGIN + i);
	}
	return usage_error(usage_text, "needed: begin, use or end, and a directory (argument or "
		"RIPC_KEYS)");
}

int ripc_key_main(int argc, char **argv)
{
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		fputs(usage_text, stdout);
		return TOOL_OK;
	}
	if (argc > 1 && strcmp(argv[1], "new") == 0)
		return new_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "show") == 0)
		return show_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "grant") == 0)
		return grant_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "revoke") == 0)
		return revoke_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "rotate") == 0)
		return rotate_main(argc - 1, argv + 1);
	return usage_error(usage_text, "needed: new, show, grant, revoke or rotate");
}
