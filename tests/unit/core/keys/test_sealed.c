/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two contexts with keys on one link with somebody who reads, alters, cuts off, replays, reorders
 * and forges what passes: the inner network of one of them is udp with that one in its poll. All
 * that arrives is what was sent, once, and outcomes are true; without the one on the link all
 * arrives. And the ends of a mixed world: who has no keys, another secret, no capability.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "api.h"
#include "core/keys/internal.h"
#include "core/net/backend.h"
#include "core/net/env.h"
#include "ripc/call.h"
#include "ripc/keys.h"

#define KEPT       512
#define COPY       65536
#define SHORTS     4000
#define LONGS      24
#define LONG_BYTES 300000u
#define REFUSAL_MS 1500 /* a deadline before which a refusal has been heard */

/* The actions of the attacker on the link, for one of n datagrams of a kind; 0: nothing. */
static uint32_t alters, cuts, replays, swaps, forges;
static uint64_t state = 1;
static struct kept {
	uint32_t len;
	uint8_t bytes[COPY];
} kept[KEPT];
static uint32_t n_seen[8], n_kept, n_done;
static uint8_t made[4 * RIPC_EVENTS_MAX][COPY];

static bool chance(uint32_t of)
{
	return of && suite_random(&state) % of == 0;
}

static uint8_t kind_of(const struct ripc__event *event)
{
	ck_assert_uint_ge(event->len, SEALED_HEADER);
	ck_assert_uint_eq(event->data[0], SEALED_MAGIC); /* nothing else is ever on the link */
	return event->data[1] & 7;
}

static void keep(const struct ripc__event *event)
{
	struct kept *at = &kept[n_kept++ % KEPT];

	at->len = event->len;
	memcpy(at->bytes, event->data, event->len);
}

/* Alters one bit, cuts off some bytes, replays what passed before, or makes something up. */
static void attack(struct ripc__event *event)
{
	uint8_t *bytes = (uint8_t *)event->data;

	if (chance(alters)) {
		uint64_t bit = suite_random(&state) % (8 * event->len);

		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	} else if (chance(cuts)) {
		event->len -= (uint32_t)(suite_random(&state) % event->len);
	} else if (chance(forges)) {
		for (uint32_t i = chance(2) ? 2 : 8; i < event->len; i++)
			bytes[i] = (uint8_t)suite_random(&state);
	} else if (chance(replays) && n_kept) {
		const struct kept *old = &kept[suite_random(&state) % (n_kept < KEPT ? n_kept :
			KEPT)];
		uint8_t *place = made[n_done % (4 * RIPC_EVENTS_MAX)];

		memcpy(place, old->bytes, old->len); /* in place of this one, which is lost */
		event->data = place;
		event->len = old->len;
	} else {
		return;
	}
	n_done++;
}

static pthread_mutex_t link_lock = PTHREAD_MUTEX_INITIALIZER;

static int link_poll(void *port, struct ripc__event *events, uint32_t n, bool all)
{
	int found = ripc__udp_backend.datagrams.poll(port, events, n, all);

	pthread_mutex_lock(&link_lock); /* both contexts have threads that poll */
	for (int i = 0; i < found; i++) {
		if (events[i].kind != RIPC_EV_DATAGRAM)
			continue;
		n_seen[kind_of(&events[i])]++;
		keep(&events[i]);
		attack(&events[i]);
		if (i && chance(swaps) && events[i - 1].kind == RIPC_EV_DATAGRAM) {
			struct ripc__event other = events[i - 1];

			events[i - 1] = events[i];
			events[i] = other;
		}
	}
	pthread_mutex_unlock(&link_lock);
	return found;
}

/* Reads a counter of the one on the link, whose thread may count meanwhile. */
static uint32_t counter_read(const uint32_t *counter)
{
	uint32_t n;

	pthread_mutex_lock(&link_lock);
	n = *counter;
	pthread_mutex_unlock(&link_lock);
	return n;
}

static struct ripc__backend link_backend;
static const struct ripc__backend *link_backends[] = {&link_backend, NULL};
static struct ripc__env env;
static char dirs[3][32], why[RIPC_KEYS_WHY];

static void dir_make(int i, const char *like, uint32_t flags)
{
	strcpy(dirs[i], "/tmp/ripc-sealed-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dirs[i]));
	ck_assert_int_eq(ripc_keys_new(dirs[i], like, flags, why), 0);
}

static void set_up(void)
{
	link_backend = ripc__udp_backend;
	link_backend.datagrams.poll = link_poll;
	link_backend.net.wait = NULL;
	link_backend.net.wake = NULL;
	ripc__env_init(&env);
	env.backends = link_backends;
	alters = cuts = replays = swaps = forges = 0;
	dir_make(0, NULL, 0);
	dir_make(1, dirs[0], 0);
	dir_make(2, NULL, 0);
}

static void tear_down(void)
{
	char command[128];

	for (int i = 0; i < 3; i++) {
		snprintf(command, sizeof(command), "rm -r %s", dirs[i]);
		ck_assert_int_eq(system(command), 0);
	}
}

static atomic_bool is_told[2]; /* of another deployment: the one with dirs[2], the other */

static void hear(void *arg, int level, const char *text)
{
	(void)level;
	if (strstr(text, "or other keys") || strstr(text, "or with other keys"))
		atomic_store((atomic_bool *)arg, true);
}

static void side_open_with(struct side *side, const char *keys)
{
	struct ripc_config cfg = api_config(0);

	cfg.keys = keys;
	cfg.log = hear;
	cfg.log_arg = &is_told[keys != dirs[2]];
	ck_assert_int_eq(ripc__open_in(&cfg, &env, &side->ctx), 0);
	ck_assert_int_eq(ripc_service_open(side->ctx, 0, 0, &side->svc), 0);
	side->id = ripc_service_id(side->svc);
}

static uint32_t came[SHORTS];

static void shorts_take(const struct side *side, int timeout_ms)
{
	struct ripc_msg *msg;
	uint32_t number;

	while (ripc_receive(side->svc, timeout_ms, &msg) == 0) {
		if (msg->kind == RIPC_SHORT) {
			ck_assert_uint_eq(msg->n_items, 1);
			ck_assert_uint_eq(msg->items[0].iov_len, 64);
			memcpy(&number, msg->items[0].iov_base, 4);
			ck_assert_uint_lt(number, SHORTS);
			came[number]++;
			for (size_t i = 4; i < 64; i++)
				ck_assert_uint_eq(((uint8_t *)msg->items[0].iov_base)[i],
					(uint8_t)(number + i));
		}
		ripc_msg_free(msg);
	}
}

static void shorts_send(const struct side *from, const struct side *to)
{
	uint8_t bytes[64];
	struct iovec item = {bytes, sizeof(bytes)};

	memset(came, 0, sizeof(came));
	for (uint32_t i = 0; i < SHORTS; i++) {
		memcpy(bytes, &i, 4);
		for (size_t at = 4; at < 64; at++)
			bytes[at] = (uint8_t)(i + at);
		(void)ripc_send_short(from->svc, to->id, &item, 1);
		if (i % 8 == 7)
			shorts_take(to, i < 64 ? 50 : 0);
	}
	shorts_take(to, 300);
}

/* How many came; none twice. */
static uint32_t shorts_count(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < SHORTS; i++) {
		ck_assert_uint_le(came[i], 1);
		n += came[i];
	}
	return n;
}

static atomic_bool all_sent;

/* Until nothing is left of what was sent. */
static void *receive_longs(void *arg)
{
	const struct side *side = arg;
	struct ripc_msg *msg;
	uint32_t n = 0;

	for (;;) {
		bool last = atomic_load(&all_sent);

		if (ripc_receive(side->svc, 100, &msg)) {
			if (last)
				break;
			continue;
		}
		if (msg->kind == RIPC_LONG) {
			const uint8_t *bytes = msg->items[0].iov_base;

			ck_assert_uint_eq(msg->items[0].iov_len, LONG_BYTES);
			for (uint32_t i = 1; i < LONG_BYTES; i += 97)
				ck_assert_uint_eq(bytes[i], (uint8_t)(bytes[0] + i));
			n++;
		}
		ripc_msg_free(msg);
	}
	return (void *)(uintptr_t)n;
}

/* Returns how many were said to be delivered: exactly these came. */
static uint32_t longs_pass(const struct side *from, struct side *to)
{
	static uint8_t bytes[LONG_BYTES];
	struct iovec item = {bytes, sizeof(bytes)};
	uint32_t delivered = 0, unknown = 0;
	pthread_t thread;
	void *received;

	atomic_store(&all_sent, false);
	ck_assert_int_eq(pthread_create(&thread, NULL, receive_longs, to), 0);
	for (uint32_t n = 0; n < LONGS; n++) {
		int status;

		for (uint32_t i = 0; i < LONG_BYTES; i++)
			bytes[i] = (uint8_t)(n + i);
		status = ripc_send_long(from->svc, to->id, &item, 1, PATIENCE_MS);
		delivered += status == 0;
		unknown += status == -ECONNRESET;
	}
	atomic_store(&all_sent, true);
	ck_assert_int_eq(pthread_join(thread, &received), 0);
	ck_assert_uint_ge((uintptr_t)received, delivered);
	ck_assert_uint_le((uintptr_t)received, delivered + unknown);
	return delivered;
}

START_TEST(link__quiet)
{
	struct side a, b;

	side_open_with(&a, dirs[0]);
	side_open_with(&b, dirs[1]);
	ck_assert_uint_eq(longs_pass(&a, &b), LONGS);
	shorts_send(&a, &b);
	ck_assert_uint_gt(shorts_count(), SHORTS / 2); /* a full socket loses some */
	ck_assert_uint_ge(counter_read(&n_seen[SEALED_INIT]), 1);
	ck_assert_uint_ge(counter_read(&n_seen[SEALED_REPLY]), 1);
	side_close(&a);
	side_close(&b);
}
END_TEST

static const struct attack {
	const char *name;
	uint32_t alters, cuts, replays, swaps, forges;
} attacks[] = {
	{"alters", 5, 0, 0, 0, 0}, {"cuts", 0, 5, 0, 0, 0}, {"replays", 0, 0, 5, 0, 0},
	{"swaps", 0, 0, 0, 2, 0}, {"forges", 0, 0, 0, 0, 5}, {"all", 20, 20, 20, 3, 20},
};

START_TEST(link__attacked)
{
	const struct attack *attack = &attacks[_i];
	struct ripc_stats stats = RIPC_INIT(struct ripc_stats);
	struct side a, b;

	alters = attack->alters;
	cuts = attack->cuts;
	replays = attack->replays;
	swaps = attack->swaps;
	forges = attack->forges;
	state = (uint64_t)_i + 7;
	side_open_with(&a, dirs[0]);
	side_open_with(&b, dirs[1]);
	ck_assert_uint_eq(longs_pass(&a, &b), LONGS);
	shorts_send(&b, &a);
	shorts_count();
	/* Nothing altered came as far as where it would have counted as such. */
	ck_assert_int_eq(ripc_stats_get(a.ctx, &stats), 0);
	ck_assert_uint_eq(stats.drop_version, 0);
	if (!swaps || alters)
		ck_assert_uint_gt(counter_read(&n_done), 100);
	side_close(&a);
	side_close(&b);
}
END_TEST

#define ALIKE 100 /* messages of the same bytes */

/*
 * Counts datagrams while a sends the same bytes again and again. Returns how many datagrams had
 * them.
 */
static uint32_t capture(struct kept *captured)
{
	uint8_t bytes[400] = {0};
	struct iovec item = {bytes, sizeof(bytes)};
	struct ripc_msg *msg;
	struct side a, b;
	uint32_t n = 0;

	side_open_with(&a, dirs[0]);
	side_open_with(&b, dirs[1]);
	ck_assert_int_eq(ripc_send_long(a.svc, b.id, &item, 1, PATIENCE_MS), 0);
	pthread_mutex_lock(&link_lock);
	n_kept = 0;
	pthread_mutex_unlock(&link_lock);
	for (int i = 0; i < ALIKE; i++) {
		ck_assert_int_eq(ripc_send_short(a.svc, b.id, &item, 1), 0);
		while (ripc_receive(b.svc, PATIENCE_MS, &msg) == 0 && msg->kind != RIPC_SHORT)
			ripc_msg_free(msg);
		ripc_msg_free(msg);
	}
	side_close(&a);
	side_close(&b);
	for (uint32_t i = 0; i < n_kept && i < KEPT && n < ALIKE; i++) {
		if (kept[i].len < sizeof(bytes))
			continue;
		captured[n].len = kept[i].len;
		memcpy(captured[n++].bytes, kept[i].bytes, kept[i].len);
	}
	return n;
}

static void assert_unlike(const struct kept *a, const struct kept *b)
{
	for (uint32_t at = SEALED_HEADER; at + 8 <= a->len && at + 8 <= b->len; at++)
		ck_assert_mem_ne(a->bytes + at, b->bytes + at, 8);
}

/*
 * No 8 bytes at equal places in two datagrams of the same plaintext, beyond the header: within one
 * session, and in two captures, which have the same keys and the same counters.
 */
START_TEST(link__tells_nothing)
{
	static struct kept captures[2][ALIKE];
	uint32_t n = capture(captures[0]), other = capture(captures[1]);

	ck_assert_uint_gt(n, ALIKE / 2);
	ck_assert_uint_gt(other, ALIKE / 2);
	for (uint32_t i = 0; i + 1 < n; i++)
		assert_unlike(&captures[0][i], &captures[0][i + 1]);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < other; j++)
			assert_unlike(&captures[0][i], &captures[1][j]);
}
END_TEST

/* Another secret: one finds the other not, as its word has no mark that counts. */
START_TEST(mixed__another_deployment)
{
	struct iovec item = {"x", 1};
	struct ripc_request question = {.size = sizeof(question), .items = &item, .n_items = 1,
		.timeout_ms = REFUSAL_MS};
	struct ripc_msg *msg;
	struct side a, b;
	uint64_t rtt_ns;

	side_open_with(&a, dirs[0]);
	side_open_with(&b, dirs[2]);
	ck_assert_int_eq(ripc_send_long(a.svc, b.id, &item, 1, REFUSAL_MS), -EACCES);
	ck_assert(atomic_load(&is_told[0]) && atomic_load(&is_told[1]));
	ck_assert_int_eq(ripc_send_long(b.svc, a.id, &item, 1, REFUSAL_MS), -EACCES);
	ck_assert_int_eq(ripc_resolve(b.ctx, a.id, REFUSAL_MS), -EACCES);
	ck_assert_int_eq(ripc_await(b.ctx, a.id, REFUSAL_MS), -EACCES);
	ck_assert_int_eq(ripc_ping(b.svc, a.id, REFUSAL_MS, &rtt_ns), -EACCES);
	question.to = a.id;
	ck_assert_int_eq(ripc_call(b.svc, &question, &msg, NULL), -EACCES);
	side_close(&a);
	side_close(&b);
}
END_TEST

/* Without keys: told so, at once, by the one that asks. */
START_TEST(mixed__without_keys)
{
	struct iovec item = {"x", 1};
	struct side a, b;
	struct ripc_msg *msg;

	side_open_with(&a, dirs[0]);
	side_open(&b, 0);
	ck_assert_int_eq(ripc_send_long(b.svc, a.id, &item, 1, REFUSAL_MS), -ENOKEY);
	ck_assert_int_lt(ripc_send_long(a.svc, b.id, &item, 1, 1500), 0);
	ck_assert_int_eq(ripc_receive(a.svc, 0, &msg), -EAGAIN);
	ck_assert_int_eq(ripc_receive(b.svc, 0, &msg), -EAGAIN);
	side_close(&a);
	side_close(&b);
}
END_TEST

/* ---- capabilities ------------------------------------------------------------------------ */

static void capability_put(const char *authority, const char *holder, uint32_t what, uint64_t id,
		int64_t for_s)
{
	char path[64], key[66], text[RIPC_CAPABILITY];
	struct ripc_grant grant = {.size = sizeof(grant), .key = key, .id = id, .what = what,
		.until_s = (uint64_t)(time(NULL) + for_s)};
	FILE *file;

	snprintf(path, sizeof(path), "%s/public", holder);
	file = fopen(path, "r");
	ck_assert(file && fread(key, 1, 65, file) == 65);
	fclose(file);
	key[64] = 0;
	ck_assert_int_eq(ripc_keys_grant(authority, &grant, text, why), 0);
	snprintf(path, sizeof(path), "%s/capabilities", holder);
	file = fopen(path, "a");
	ck_assert(file && fprintf(file, "%s\n", text) > 0);
	ck_assert_int_eq(fclose(file), 0);
}

static const struct capability_case {
	const char *name;
	/* the state of a capability: 0 good, 1 none, 2 expired, 3 of another ID */
	uint32_t be, send;
	int status;
} cases[] = {
	{"all good", 0, 0, 0}, {"server has none", 1, 0, -EACCES}, {"expired", 2, 0, -EACCES},
	{"of another ID", 3, 0, -EACCES}, {"client has none", 0, 1, -EACCES},
	{"client's expired", 0, 2, -EACCES}, {"client's is of another ID", 0, 3, -EACCES},
};

START_TEST(capability__decides)
{
	const struct capability_case *c = &cases[_i];
	uint64_t id = (uint64_t)getpid() << 20 | 0x77;
	struct ripc_config cfg = api_config(0);
	struct iovec item = {"question", 8};
	struct ripc_msg *msg;
	struct side a, b;
	uint64_t rtt_ns;
	int status;

	dir_make(0, NULL, RIPC_KEYS_AUTHORITY);
	dir_make(1, dirs[0], 0);
	if (c->be != 1)
		capability_put(dirs[0], dirs[0], RIPC_MAY_BE, c->be == 3 ? id + 1 : id,
			c->be == 2 ? -5 : 100);
	if (c->send != 1)
		capability_put(dirs[0], dirs[1], RIPC_MAY_SEND, c->send == 3 ? id + 1 : id,
			c->send == 2 ? -5 : 100);
	cfg.keys = dirs[0];
	side_open_as(&b, &cfg, id);
	side_open_with(&a, dirs[1]);
	status = ripc_send_long(a.svc, id, &item, 1, 5000);
	ck_assert_msg(status == c->status, "%s: %d", c->name, status);
	ck_assert_int_eq(ripc_ping(a.svc, id, c->status ? REFUSAL_MS : 5000, &rtt_ns), c->status);
	ck_assert_int_eq(ripc_receive(b.svc, 0, &msg), c->status ? -EAGAIN : 0);
	if (!c->status) {
		ck_assert_int_eq(msg->sender, RIPC_SENDER_PROVEN);
		ck_assert_uint_eq(msg->from, a.id);
		/* A private ID is answered without a capability. */
		ck_assert_int_eq(ripc_send_long(b.svc, msg->from, &item, 1, 5000), 0);
		ripc_msg_free(msg);
	}
	side_close(&a);
	side_close(&b);
}
END_TEST

/* No module, no library: a context with keys does not open, and never without. */
START_TEST(open__without_cryptography)
{
	struct ripc_config cfg = api_config(0);
	struct ripc_context *ctx;

	cfg.keys = dirs[0];
	env.crypto = NULL;
	ck_assert_int_eq(ripc__open_in(&cfg, &env, &ctx), -ENODEV);
}
END_TEST

static const char *is_configured(void *arg, const char *name)
{
	return arg && strcmp(name, arg) == 0 ? "7" : NULL;
}

/* Pages are handed over as they are only where nobody but our own user is admitted. */
START_TEST(caps__pages_stay_with_one_user)
{
	const char *const admitting[] = {"shm.uids", "shm.gids"};
	const uint32_t caps = RIPC_CAP_MAP | RIPC_CAP_READ;
	struct ripc__host host = {.option = is_configured};

	ck_assert_uint_eq(ripc__sealed_caps(&host, &ripc__shm_backend, caps) & caps, caps);
	host.arg = (void *)admitting[_i];
	ck_assert_uint_eq(ripc__sealed_caps(&host, &ripc__shm_backend, caps) & caps,
		RIPC_CAP_READ);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {{link__quiet, 1},
		{link__attacked, sizeof(attacks) / sizeof(attacks[0])}, {link__tells_nothing, 1},
		{mixed__another_deployment, 1}, {mixed__without_keys, 1},
		{open__without_cryptography, 1}, {caps__pages_stay_with_one_user, 2},
		{capability__decides, sizeof(cases) / sizeof(cases[0])}};
	TCase *tcase = tcase_create("sealed");

	tcase_set_timeout(tcase, 120);
	tcase_add_checked_fixture(tcase, set_up, tear_down);
	for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++)
		tcase_add_loop_test(tcase, loops[i].test, 0, (int)loops[i].n);
	return suite_finish("sealed", tcase);
}
