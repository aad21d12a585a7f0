/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys that change while programs run: the secret is replaced under load, and no message is lost; a
 * revoked key is refused at once, a new capability counts at once, and both ends say why.
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "core/engine/internal.h"
#include "core/keys/internal.h"
#include "core/net/env.h"
#include "core/objects.h"
#include "key_dirs.h"

#define LONG_BYTES 20000u
#define STEP       30u /* messages that pass between two steps */

static char said[2][16384]; /* by the log of each end */
static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;

static void hear(void *arg, int level, const char *text)
{
	char *to = said[(intptr_t)arg];
	size_t len;

	(void)level;
	pthread_mutex_lock(&said_lock);
	len = strlen(to);
	snprintf(to + len, sizeof(said[0]) - len, "%s\n", text);
	pthread_mutex_unlock(&said_lock);
}

static bool has_said(int end, const char *text)
{
	bool has;

	pthread_mutex_lock(&said_lock);
	has = strstr(said[end], text) != NULL;
	pthread_mutex_unlock(&said_lock);
	return has;
}

static void open_with(struct side *side, int end, int keys, uint64_t id)
{
	struct ripc_config cfg = api_config(0);

	cfg.keys = key_dirs[keys];
	cfg.log = hear;
	cfg.log_arg = (void *)(intptr_t)end;
	side_open_as(side, &cfg, id);
}

/* ---- load ---------------------------------------------------------------------------------- */

static struct stream {
	const struct side *from;
	uint64_t to;
	pthread_t sends, receives;
	atomic_uint delivered, got;
	atomic_bool stop;
	atomic_int failed; /* how a send failed; 0: none */
} stream;

static void *send_all(void *arg)
{
	uint8_t *bytes = arg;
	struct iovec one = {bytes, LONG_BYTES};

	while (!atomic_load(&stream.stop)) {
		int status;

		fill(bytes, LONG_BYTES, atomic_load(&stream.delivered));
		status = ripc_send_long(stream.from->svc, stream.to, &one, 1, PATIENCE_MS);
		if (status) {
			atomic_store(&stream.failed, status);
			break;
		}
		atomic_fetch_add(&stream.delivered, 1);
	}
	return NULL;
}

static void *receive_all(void *arg)
{
	const struct side *side = arg;
	struct ripc_msg *msg;

	for (bool last = false; !last;) {
		last = atomic_load(&stream.stop);
		while (ripc_receive(side->svc, 50, &msg) == 0) {
			if (msg->kind == RIPC_LONG) {
				ck_assert_uint_eq(msg->items[0].iov_len, LONG_BYTES);
				check_filled(msg->items[0].iov_base, LONG_BYTES,
					atomic_load(&stream.got));
				atomic_fetch_add(&stream.got, 1);
			}
			ripc_msg_free(msg);
		}
	}
	return NULL;
}

static void stream_start(const struct side *from, struct side *to)
{
	static uint8_t bytes[LONG_BYTES];

	memset(&stream, 0, sizeof(stream));
	stream.from = from;
	stream.to = to->id;
	ck_assert_int_eq(pthread_create(&stream.receives, NULL, receive_all, to), 0);
	ck_assert_int_eq(pthread_create(&stream.sends, NULL, send_all, bytes), 0);
}

/* Until more have passed, or one has failed. */
static void stream_await(uint32_t more)
{
	uint32_t begin = atomic_load(&stream.delivered);

	while (atomic_load(&stream.delivered) - begin < more && !atomic_load(&stream.failed))
		usleep(1000);
}

/* Every delivered message has arrived, once. */
static void stream_end(void)
{
	atomic_store(&stream.stop, true);
	ck_assert_int_eq(pthread_join(stream.sends, NULL), 0);
	ck_assert_int_eq(pthread_join(stream.receives, NULL), 0);
	ck_assert_uint_eq(atomic_load(&stream.got), atomic_load(&stream.delivered));
}

/* ---- the secret -------------------------------------------------------------------------- */

static void rotate(const struct side *side, int keys, uint32_t step)
{
	ck_assert_int_eq(ripc_keys_rotate(key_dirs[keys], step, key_why), 0);
	ck_assert_int_eq(ripc_keys_reload(side->ctx), 0);
	stream_await(STEP);
}

static uint64_t handshakes(const struct side *side)
{
	struct ripc_stats stats = RIPC_INIT(struct ripc_stats);

	ck_assert_int_eq(ripc_stats_get(side->ctx, &stats), 0);
	return stats.hellos;
}

START_TEST(secret__replaced_under_load)
{
	struct iovec one = {"x", 1};
	struct side a, b, old;
	char command[160];
	uint64_t before;

	key_dirs_make(0);
	open_with(&a, 0, 0, 0);
	open_with(&b, 1, 1, 0);
	stream_start(&a, &b);
	stream_await(STEP);
	rotate(&a, 0, RIPC_ROTATE_BEGIN);
	snprintf(command, sizeof(command), "cp -p %s/secret.next %s", key_dirs[0], key_dirs[1]);
	ck_assert_int_eq(system(command), 0);
	ck_assert_int_eq(ripc_keys_reload(b.ctx), 0);
	stream_await(STEP);
	before = handshakes(&b);
	rotate(&a, 0, RIPC_ROTATE_USE);
	ck_assert_uint_gt(handshakes(&b), before); /* with the new one */
	rotate(&b, 1, RIPC_ROTATE_USE);
	rotate(&a, 0, RIPC_ROTATE_END);
	rotate(&b, 1, RIPC_ROTATE_END);
	stream_end();
	ck_assert_int_eq(atomic_load(&stream.failed), 0);
	/* A program with only the old secret is excluded. */
	open_with(&old, 1, 2, 0);
	ck_assert_int_lt(ripc_send_long(old.svc, b.id, &one, 1, 1000), 0);
	ck_assert_int_eq(ripc_keys_rotate(key_dirs[0], RIPC_ROTATE_END, key_why), -EALREADY);
	side_close(&old);
	side_close(&a);
	side_close(&b);
}
END_TEST

static int note_rotation(void *arg, const char *text)
{
	if (strncmp(text, "rotation: ", 10) == 0)
		snprintf(arg, 32, "%.31s", text);
	return 0;
}

/* The step according to "ripc key show". */
static void check_step(const char *step)
{
	char line[32] = "";

	ck_assert_int_eq(ripc_keys_show(key_dirs[0], note_rotation, line, key_why), 0);
	ck_assert_msg(strncmp(line, step, strlen(step)) == 0 && !line[0] == !step[0], "%s", line);
}

static int step(uint32_t what)
{
	return ripc_keys_rotate(key_dirs[0], what, key_why);
}

/* Each step may be repeated, and none can be left out: the new secret is not lost. */
START_TEST(rotate__steps_in_order)
{
	uint8_t before[32], next[32], now[32];
	char command[160];

	key_dirs_make(0);
	ck_assert_int_eq(ripc__key_file_read(key_dirs[0], "secret", true, before, key_why), 0);
	ck_assert_int_eq(step(RIPC_ROTATE_USE), -ENOENT);
	ck_assert_ptr_nonnull(strstr(key_why, "ripc key rotate begin"));
	check_step("");
	ck_assert_int_eq(step(RIPC_ROTATE_BEGIN), 0);
	ck_assert_int_eq(step(RIPC_ROTATE_BEGIN), -EEXIST);
	check_step("rotation: begun");
	ck_assert_int_eq(ripc__key_file_read(key_dirs[0], "secret.next", true, next, key_why), 0);
	ck_assert_int_eq(step(RIPC_ROTATE_END), -EBUSY);
	ck_assert_ptr_nonnull(strstr(key_why, "ripc key rotate use"));
	/* As if a process had been killed in the middle of the step. */
	snprintf(command, sizeof(command), "cd %s && cp -p secret secret.old", key_dirs[0]);
	ck_assert_int_eq(system(command), 0);
	check_step("rotation: begun");
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(step(RIPC_ROTATE_USE), i ? -EALREADY : 0);
		ck_assert_int_eq(ripc__key_file_read(key_dirs[0], "secret", true, now, key_why),
			0);
		ck_assert_mem_eq(now, next, 32);
		check_step("rotation: in use");
	}
	ck_assert_int_eq(step(RIPC_ROTATE_BEGIN), -EEXIST);
	ck_assert_int_eq(ripc__key_file_read(key_dirs[0], "secret.old", true, now, key_why), 0);
	ck_assert_mem_eq(now, before, 32);
	ck_assert_int_eq(step(RIPC_ROTATE_END), 0);
	ck_assert_int_eq(step(RIPC_ROTATE_END), -EALREADY);
	ck_assert_int_eq(step(RIPC_ROTATE_USE), -ENOENT);
	check_step("");
	ck_assert_int_eq(ripc__key_file_read(key_dirs[0], "secret", true, now, key_why), 0);
	ck_assert_mem_eq(now, next, 32);
}
END_TEST

/* ---- capabilities ------------------------------------------------------------------------ */

START_TEST(key__revoked)
{
	char key[65];
	struct side a, b;

	key_dirs_make(RIPC_KEYS_AUTHORITY);
	key_grant(0, RIPC_MAY_BE | RIPC_MAY_SEND, 0, 100);
	key_grant(1, RIPC_MAY_SEND, 0, 100);
	open_with(&a, 0, 0, 0);
	open_with(&b, 1, 1, 0);
	stream_start(&b, &a);
	stream_await(STEP);
	key_public(1, key);
	ck_assert_int_eq(ripc_keys_revoke(key_dirs[0], key, key_why), 0);
	ck_assert_int_eq(ripc_keys_reload(a.ctx), 0);
	while (!atomic_load(&stream.failed))
		usleep(1000);
	atomic_store(&stream.stop, true);
	ck_assert_int_eq(pthread_join(stream.sends, NULL), 0);
	ck_assert_int_eq(pthread_join(stream.receives, NULL), 0);
	/* The one under way may have come, and its sender may not have heard of that. */
	ck_assert_int_ge(atomic_load(&stream.got), atomic_load(&stream.delivered));
	ck_assert_int_le(atomic_load(&stream.got), atomic_load(&stream.delivered) + 1);
	if (atomic_load(&stream.failed) != -ECONNRESET)
		ck_assert_int_eq(atomic_load(&stream.failed), -EACCES);
	ck_assert(has_said(0, "is revoked") && has_said(1, "our key is revoked"));
	side_close(&a);
	side_close(&b);
}
END_TEST

/* Refused without; once it is there it counts, and the service needs to know nothing of it. */
START_TEST(capability__comes_later)
{
	struct iovec one = {"x", 1};
	struct side a, b;
	char key[65];

	key_dirs_make(RIPC_KEYS_AUTHORITY);
	key_grant(0, RIPC_MAY_BE | RIPC_MAY_SEND, 0, 100);
	open_with(&a, 0, 0, 0);
	open_with(&b, 1, 1, 0);
	ck_assert_int_eq(ripc_send_long(b.svc, a.id, &one, 1, 5000), -EACCES);
	ck_assert(has_said(0, "is refused: it has no capabilities") &&
		has_said(1, "ripc key grant"));
	key_public(1, key);
	ck_assert(has_said(0, key)); /* ripc key grant needs it */
	key_grant(1, RIPC_MAY_SEND, 0, 100);
	ck_assert_int_eq(ripc_keys_reload(b.ctx), 0);
	ck_assert_int_eq(ripc_send_long(b.svc, a.id, &one, 1, 5000), 0);
	side_close(&a);
	side_close(&b);
}
END_TEST

/* Each packet is refused, as its sender looks at nobody's capabilities; one line tells. */
START_TEST(refusal__told_once)
{
	struct iovec one = {"x", 1};
	struct side a, b;
	char path[96], key[65], *at = said[0];
	uint32_t n = 0;

	key_dirs_make(RIPC_KEYS_AUTHORITY);
	key_grant(0, RIPC_MAY_BE | RIPC_MAY_SEND, 0, 100);
	key_grant(1, RIPC_MAY_BE, 7, 100);
	snprintf(path, sizeof(path), "%s/authority", key_dirs[1]);
	ck_assert_int_eq(unlink(path), 0);
	open_with(&a, 0, 0, 0x7e57);
	open_with(&b, 1, 1, 0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_lt(ripc_send_long(b.svc, a.id, &one, 1, 300), 0);
	side_close(&a);
	side_close(&b);
	key_public(1, key);
	while ((at = strstr(at, "may not be service"))) {
		n++;
		at++;
	}
	ck_assert_uint_eq(n, 1);
	ck_assert(has_said(0, key));
}
END_TEST

/* Another private key, with its own capabilities, is for contexts that are opened from now on. */
START_TEST(private__waits_for_the_next_open)
{
	struct iovec one = {"x", 1};
	struct side a, b;
	char command[256];

	key_dirs_make(RIPC_KEYS_AUTHORITY);
	key_grant(0, RIPC_MAY_BE | RIPC_MAY_SEND, 0, 100);
	key_grant(1, RIPC_MAY_SEND, 0, 100);
	key_grant(2, RIPC_MAY_SEND, 0, 100);
	open_with(&a, 0, 0, 0);
	open_with(&b, 1, 1, 0);
	ck_assert_int_eq(ripc_send_long(b.svc, a.id, &one, 1, 5000), 0);
	snprintf(command, sizeof(command), "cd %s && cp -p private public capabilities %s",
		key_dirs[2], key_dirs[1]);
	ck_assert_int_eq(system(command), 0);
	ck_assert_int_eq(ripc_keys_reload(b.ctx), 0);
	ck_assert(has_said(1, "this context keeps its own"));
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(ripc_send_long(b.svc, a.id, &one, 1, 5000), 0);
		usleep(5000);
	}
	ck_assert(!has_said(1, "of our 1 capabilities are not valid"));
	side_close(&a);
	side_close(&b);
}
END_TEST

static atomic_bool lacks_memory;
static const struct ripc__crypto *sound;

static int frail_mac(void *lib, const uint8_t key[32], const struct iovec *in, uint32_t n,
		uint8_t mac[32])
{
	return atomic_load(&lacks_memory) ? -ENOMEM : sound->mac(lib, key, in, n, mac);
}

static const struct ripc__crypto *frail_crypto(char lacks[256], char remedy[256])
{
	static struct ripc__crypto frail;

	sound = ripc__crypto_load(lacks, remedy);
	frail = *sound;
	frail.mac = frail_mac;
	return &frail;
}

/* A daemon that has left its directory still finds its keys. */
START_TEST(reload__after_chdir)
{
	struct ripc_config cfg = api_config(0);
	struct side a;
	char was[4096];

	key_dirs_make(0);
	ck_assert_ptr_nonnull(getcwd(was, sizeof(was)));
	ck_assert_int_eq(chdir(key_top), 0);
	cfg.keys = "0";
	side_open_as(&a, &cfg, 0);
	ck_assert_int_eq(chdir("/"), 0);
	ck_assert_int_eq(ripc_keys_reload(a.ctx), 0);
	ck_assert_int_eq(chdir(was), 0);
	side_close(&a);
}
END_TEST

/* Without memory for a second secret there is none: not one whose keys are zeros. */
START_TEST(reload__without_memory)
{
	struct ripc_config cfg = api_config(0);
	struct ripc__env env;
	struct side a;

	key_dirs_make(0);
	ripc__env_init(&env);
	env.crypto = frail_crypto;
	cfg.keys = key_dirs[0];
	ck_assert_int_eq(ripc__open_in(&cfg, &env, &a.ctx), 0);
	ck_assert_int_eq(ripc_keys_rotate(key_dirs[0], RIPC_ROTATE_BEGIN, key_why), 0);
	atomic_store(&lacks_memory, true);
	ck_assert_int_eq(ripc_keys_reload(a.ctx), -ENOMEM);
	atomic_store(&lacks_memory, false);
	ck_assert_uint_eq(a.ctx->seal->dir.n_secrets, 1);
	ck_assert_int_eq(ripc_keys_reload(a.ctx), 0);
	ck_assert_uint_eq(a.ctx->seal->dir.n_secrets, 2);
	side_close(&a);
}
END_TEST

/* Without its file an authority stays until the next open, where the log speaks of it. */
START_TEST(authority__vanishes)
{
	struct iovec one = {"x", 1};
	struct side a, b;
	char path[96], key[65];

	key_dirs_make(RIPC_KEYS_AUTHORITY);
	key_grant(0, RIPC_MAY_BE | RIPC_MAY_SEND, 0, 100);
	open_with(&a, 0, 0, 0);
	open_with(&b, 1, 1, 0);
	snprintf(path, sizeof(path), "%s/authority", key_dirs[0]);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(ripc_keys_reload(a.ctx), -ENOENT);
	ck_assert(has_said(0, "authority is missing"));
	ck_assert_int_eq(ripc_send_long(b.svc, a.id, &one, 1, 5000), -EACCES);
	side_close(&a);
	side_close(&b);
	ck_assert(!has_said(0, "but no file \"authority\""));
	open_with(&a, 0, 0, 0);
	ck_assert(has_said(0, "but no file \"authority\""));
	key_public(1, key);
	ck_assert_int_eq(ripc_keys_revoke(key_dirs[0], key, key_why), 0);
	ck_assert_int_eq(ripc_keys_reload(a.ctx), 0);
	side_close(&a);
}
END_TEST

/* Errors in the directory change nothing. */
START_TEST(reload__refuses_what_is_wrong)
{
	struct iovec one = {"x", 1};
	struct side a, b, open;
	char path[96];

	key_dirs_make(0);
	open_with(&a, 0, 0, 0);
	open_with(&b, 1, 1, 0);
	snprintf(path, sizeof(path), "%s/secret", key_dirs[0]);
	ck_assert_int_eq(chmod(path, 0644), 0);
	ck_assert_int_eq(ripc_keys_reload(a.ctx), -EACCES);
	ck_assert(has_said(0, "not reloaded"));
	ck_assert_int_eq(ripc_send_long(a.svc, b.id, &one, 1, 5000), 0);
	ck_assert_int_eq(chmod(path, 0600), 0);
	ck_assert_int_eq(ripc_keys_reload(a.ctx), 0);
	ck_assert_int_eq(ripc_keys_revoke(key_dirs[0], "no key", key_why), -EINVAL);
	snprintf(path, sizeof(path), "echo no key >%s/revoked", key_dirs[0]);
	ck_assert_int_eq(system(path), 0);
	ck_assert_int_eq(ripc_keys_reload(a.ctx), -EINVAL);
	ck_assert(has_said(0, "a line that is not a public key"));
	side_open(&open, 0);
	ck_assert_int_eq(ripc_keys_reload(open.ctx), -ENOKEY);
	ck_assert_int_eq(ripc_keys_reload(NULL), -EINVAL);
	side_close(&open);
	side_close(&a);
	side_close(&b);
}
END_TEST

/* ---- a file system that hangs ------------------------------------------------------------- */

static atomic_int hanging;
static atomic_bool hangs;

static void hang(void *arg, const char *name)
{
	(void)arg;
	if (strcmp(name, "in_keys"))
		return;
	atomic_fetch_add(&hanging, 1);
	while (atomic_load(&hangs))
		usleep(1000);
	atomic_fetch_sub(&hanging, 1);
}

static void look_now(struct ripc_context *ctx)
{
	ripc__lock_timely(ctx);
	ripc__timer_set(&ctx->loop.timers, &ctx->seal->look, ctx->now_us);
	ripc__leave(ctx);
}

static void await_hanging(int n)
{
	for (int i = 0; i < 5000 && atomic_load(&hanging) != n; i++)
		usleep(1000);
	ck_assert_int_eq(atomic_load(&hanging), n);
}

static void *reload(void *ctx)
{
	return (void *)(intptr_t)ripc_keys_reload(ctx);
}

/* A context with keys whose directory cannot be read while hangs is set. */
static void hanging_open(struct ripc_context **ctx,
		void (*log)(void *arg, int level, const char *text))
{
	struct ripc_config cfg = api_config(0);
	struct ripc__env env;

	key_dirs_make(RIPC_KEYS_AUTHORITY);
	key_grant(0, RIPC_MAY_BE | RIPC_MAY_SEND, 0, 100);
	ripc__env_init(&env);
	env.point = hang;
	cfg.keys = key_dirs[0];
	cfg.log = log;
	ck_assert_int_eq(ripc__open_in(&cfg, &env, ctx), 0);
}

/* Messages pass meanwhile; then what was read is in use. */
START_TEST(reload__of_a_file_system_that_hangs)
{
	struct iovec one = {"x", 1};
	struct side a, b;
	pthread_t thread;
	char key[65];
	void *status;

	hanging_open(&a.ctx, hear);
	ck_assert_int_eq(ripc_service_open(a.ctx, nobody, 0, &a.svc), 0);
	open_with(&b, 1, 0, 0);
	atomic_store(&hangs, true);
	look_now(a.ctx);
	await_hanging(1);
	look_now(a.ctx);
	ck_assert_int_eq(ripc_send_long(b.svc, nobody, &one, 1, 5000), 0);
	for (int i = 0; i < 5000 && !has_said(0, "has not responded"); i++)
		usleep(1000);
	ck_assert(has_said(0, "has not responded"));
	ck_assert_int_eq(pthread_create(&thread, NULL, reload, a.ctx), 0);
	await_hanging(2);
	ck_assert_int_eq(ripc_send_long(b.svc, nobody, &one, 1, 5000), 0);
	key_public(2, key);
	ck_assert_int_eq(ripc_keys_revoke(key_dirs[0], key, key_why), 0);
	ck_assert(!has_said(0, "and was reloaded"));
	atomic_store(&hangs, false);
	ck_assert_int_eq(pthread_join(thread, &status), 0);
	ck_assert_int_eq((intptr_t)status, 0);
	ck_assert(has_said(0, "and was reloaded"));
	side_close(&b);
	side_close(&a);
}
END_TEST

static struct {
	struct ripc_context *ctx;
	bool is_locked;
} reread;

static void hear_reread(void *arg, int level, const char *text)
{
	if (strstr(text, "and was reloaded"))
		reread.is_locked = atomic_load(&reread.ctx->lock.word) != 0;
	hear(arg, level, text);
}

static void *close_main(void *ctx)
{
	return (void *)(intptr_t)ripc_close(ctx, 0);
}

/* The thread that reads keys takes the lock, though calls of the application are refused by now. */
START_TEST(close__while_keys_are_read)
{
	pthread_t thread;
	char key[65];
	void *status;

	hanging_open(&reread.ctx, hear_reread);
	atomic_store(&hangs, true);
	look_now(reread.ctx);
	ck_assert_int_ge(ripc_poll(reread.ctx), 0);
	await_hanging(1);
	key_public(2, key);
	ck_assert_int_eq(ripc_keys_revoke(key_dirs[0], key, key_why), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, close_main, reread.ctx), 0);
	while (!ripc__is_closed(reread.ctx))
		usleep(1000);
	atomic_store(&hangs, false);
	ck_assert_int_eq(pthread_join(thread, &status), 0);
	ck_assert_int_eq((intptr_t)status, 0);
	ck_assert(has_said(0, "and was reloaded"));
	ck_assert(reread.is_locked);
}
END_TEST

static void set_up(void)
{
	memset(said, 0, sizeof(said));
}

int main(void)
{
	const TTest *const tests[] = {secret__replaced_under_load, rotate__steps_in_order,
		key__revoked, capability__comes_later, refusal__told_once,
		private__waits_for_the_next_open, reload__after_chdir, reload__without_memory,
		reload__refuses_what_is_wrong, reload__of_a_file_system_that_hangs,
		close__while_keys_are_read, authority__vanishes};
	TCase *tcase = tcase_create("rotation");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, set_up, key_dirs_remove);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	return suite_finish("rotation", tcase);
}
