/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context's configuration: the caller's struct and what the environment says instead of it
 * (RIPC_BACKENDS and so on, RIPC_LOG). A word in it that nobody knows is refused: left alone it
 * would be a wish that is silently not heeded.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "core/base/base.h"
#include "core/objects.h"
#include "util/options.h"

/* What RIPC_LOG=LEVEL asks for when the application has no log callback. */
static void log_to_stderr(void *arg, int level, const char *text)
{
	static const char *const names[] = {"error", "warning", "info", "debug"};
	intptr_t most = (intptr_t)arg;

	if (level <= most)
		dprintf(STDERR_FILENO, "ripc: %s: %s\n", names[level & 3], text);
}

/* What level RIPC_LOG names: -1 none, as it is not set; -EINVAL: nobody knows. */
static int level_wanted(void)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};
	const char *wanted = secure_getenv("RIPC_LOG");

	if (!wanted || !*wanted)
		return -1;
	for (int level = 0; level < 4; level++) {
		if (strcmp(wanted, names[level]) == 0)
			return level;
	}
	return -EINVAL;
}

/*
 * A user who asks for a level that does not exist is told so, as one who asks for errors would be.
 */
static void log_from_environment(struct ripc_config *cfg)
{
	int level = level_wanted();

	if (cfg->log || level == -1)
		return;
	cfg->log = log_to_stderr;
	cfg->log_arg = (void *)(intptr_t)(level < 0 ? RIPC_LOG_ERROR : level);
}

static int string_take(struct ripc_context *ctx, int at, const char **field, const char *variable)
{
	const char *environment = secure_getenv(variable);
	const char *value = environment ? environment : *field;

	*field = NULL;
	if (!value || !*value)
		return 0;
	ctx->strings[at] = strdup(value);
	if (!ctx->strings[at])
		return -ENOMEM;
	*field = ctx->strings[at];
	return 0;
}

/* A variable that has lost its value must not open a context without keys. */
static int keys_check(struct ripc_context *ctx)
{
	const char *environment = secure_getenv("RIPC_KEYS");
	const char *value = environment ? environment : ctx->cfg.keys;

	if (!value || *value)
		return 0;
	ripc__log(ctx, RIPC_LOG_ERROR, "%s is empty: unset the variable, or name a directory of "
		"keys",
		environment ? "RIPC_KEYS" : "ripc_config.keys");
	return -EINVAL;
}

/* The directory of keys is read again later, when the program may be in another directory. */
static int keys_fix(struct ripc_context *ctx)
{
	char *here, *path;
	int len;

	if (!ctx->cfg.keys || ctx->cfg.keys[0] == '/')
		return 0;
	here = getcwd(NULL, 0);
	if (!here)
		return -errno;
	len = asprintf(&path, "%s/%s", here, ctx->cfg.keys);
	free(here);
	if (len < 0)
		return -ENOMEM;
	free(ctx->strings[4]);
	ctx->cfg.keys = ctx->strings[4] = path;
	return 0;
}

/* "a=b,c=d" becomes "a\0b\0c\0d\0\0" in ctx->options. */
static int options_split(struct ripc_context *ctx)
{
	const char *text = ctx->cfg.options ? ctx->cfg.options : "";
	size_t len = strlen(text);
	char *copy = calloc(1, len + 2);
	bool has_value = false;

	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++) {
		bool splits = text[i] == ',' || (text[i] == '=' && !has_value);

		if (text[i] == ',' && !has_value)
			goto err_free_copy;
		has_value = text[i] == ',' ? false : has_value || text[i] == '=';
		copy[i] = splits ? 0 : text[i];
	}
	if (len > 0 && !has_value)
		goto err_free_copy;
	ctx->options = copy;
	return 0;
err_free_copy:
	free(copy);
	ripc__log(ctx, RIPC_LOG_ERROR, "options \"%s\": write them as name=value,name=value", text);
	return -EINVAL;
}

const char *ripc__config_option(void *arg, const char *name)
{
	struct ripc_context *ctx = arg;
	const char *at = ctx->options;

	while (at && *at) {
		const char *value = at + strlen(at) + 1;

		if (strcmp(at, name) == 0)
			return value;
		at = value + strlen(value) + 1;
	}
	return NULL;
}

int ripc__config_take(struct ripc_context *ctx, const struct ripc_config *cfg)
{
	struct ripc_config *own = &ctx->cfg;
	int error = cfg ? ripc__struct_take(own, sizeof(*own), cfg,
		offsetof(struct ripc_config, flags) + sizeof(cfg->flags)) : 0;

	if (error)
		return error;
	log_from_environment(own);
	if (own->flags & ~(RIPC_NO_THREAD | RIPC_SINGLE_THREAD | RIPC_INTERRUPTIBLE |
			RIPC_COPY_GIVEN)) {
		ripc__log(ctx, RIPC_LOG_ERROR, "config: unknown flags %#x", own->flags);
		return -EINVAL;
	}
	if (own->flags & RIPC_SINGLE_THREAD)
		own->flags |= RIPC_NO_THREAD;
	if (!own->timeout_ms)
		own->timeout_ms = 5000;
	if (!own->peer_timeout_ms)
		own->peer_timeout_ms = 10000;
	error = error ? error : string_take(ctx, 0, &own->backends, "RIPC_BACKENDS");
	error = error ? error : string_take(ctx, 1, &own->peers, "RIPC_PEERS");
	error = error ? error : string_take(ctx, 2, &own->interfaces, "RIPC_INTERFACES");
	error = error ? error : string_take(ctx, 3, &own->options, "RIPC_OPTIONS");
	error = error ? error : keys_check(ctx);
	error = error ? error : string_take(ctx, 4, &own->keys, "RIPC_KEYS");
	error = error ? error : keys_fix(ctx);
	return error ? error : options_split(ctx);
}

/* ---- checking ---------------------------------------------------------------------------- */

static int options_check(struct ripc_context *ctx)
{
	char why[OPTION_WHY];
	int error = 0;

	for (const char *at = ctx->options; at && *at;) {
		const char *value = at + strlen(at) + 1;

		if (ripc__option_check(ripc__options, at, value, why)) {
			ripc__log(ctx, RIPC_LOG_ERROR, "%s", why);
			error = -EINVAL;
		}
		at = value + strlen(value) + 1;
	}
	return error;
}

static bool backend_exists(const struct ripc_context *ctx, const char *name, size_t len)
{
	for (uint32_t i = 0; ctx->env.backends[i]; i++) {
		const char *known = ctx->env.backends[i]->name;

		if (strlen(known) == len && memcmp(known, name, len) == 0)
			return true;
	}
	return false;
}

static void say_no_backend(struct ripc_context *ctx, const char *name, size_t len)
{
	char known[128] = "";
	size_t known_len = 0;

	for (uint32_t i = 0; ctx->env.backends[i] && known_len < sizeof(known); i++)
		known_len += (size_t)snprintf(known + known_len, sizeof(known) - known_len, "%s%s",
			i ? ", " : "", ctx->env.backends[i]->name);
	ripc__log(ctx, RIPC_LOG_ERROR, "backends: unknown \"%.*s\" in \"%.80s\"; known backends: "
		"%s",
		(int)(len < 40 ? len : 40), name, ctx->cfg.backends, known);
}

static int backends_check(struct ripc_context *ctx)
{
	const char *at = ctx->cfg.backends;
	int error = 0;

	while (at && *at) {
		size_t len = strcspn(at, ",");

		if (!backend_exists(ctx, at, len)) {
			say_no_backend(ctx, at, len);
			error = -EINVAL;
		}
		at += len + (at[len] == ',');
	}
	return error;
}

/* The environment of a setuid program comes from its caller, who has fewer rights. */
static void say_ignored(struct ripc_context *ctx)
{
	static const char *const variables[] = {"RIPC_BACKENDS", "RIPC_PEERS", "RIPC_INTERFACES",
		"RIPC_OPTIONS", "RIPC_KEYS", "RIPC_LOG"};

	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
		if (getenv(variables[i]) && !secure_getenv(variables[i]))
			ripc__log(ctx, RIPC_LOG_WARN, "%s is ignored: this program runs with "
				"raised rights (setuid, setgid or capabilities). Set the field of "
				"ripc_config in the program", variables[i]);
	}
}

int ripc__config_check(struct ripc_context *ctx)
{
	int error = 0;

	say_ignored(ctx);
	if (level_wanted() == -EINVAL) {
		ripc__log(ctx, RIPC_LOG_ERROR,
			"RIPC_LOG: \"%.40s\" is not error, warn, info or debug",
			secure_getenv("RIPC_LOG"));
		error = -EINVAL;
	}
	if (options_check(ctx))
		error = -EINVAL;
	if (backends_check(ctx))
		error = -EINVAL;
	return error;
}
