/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts through the public calls: configuration, statistics, paths, finding and measuring. */
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "api.h"

#define FEW        100 /* descriptors */
#define NOT_RAISED 77 /* exit status: the program runs with plain rights */

struct said {
	int n, n_errors;
	char text[1000];
};

static void hear(void *arg, int level, const char *text)
{
	struct said *said = arg;

	said->n++;
	if (level == RIPC_LOG_ERROR) {
		said->n_errors++;
		snprintf(said->text, sizeof(said->text), "%s", text);
	}
}

/* Opening fails with this error, says why in words, and leaves the output alone. */
static void check_refused(const struct ripc_config *cfg, int error, const char *word)
{
	struct ripc_context *ctx = NULL;
	struct ripc_config logged = *cfg;
	struct said said = {0};
	int n = descriptors_open();

	logged.log = hear;
	logged.log_arg = &said;
	ck_assert_int_eq(ripc_open(&logged, &ctx), error);
	ck_assert_ptr_null(ctx);
	ck_assert_int_eq(descriptors_open(), n);
	if (word && !strstr(said.text, word))
		ck_abort_msg("\"%s\" is not in \"%s\"", word, said.text);
}

START_TEST(open__defaults)
{
	struct ripc_context *ctx;

	ck_assert_int_eq(ripc_open(NULL, &ctx), 0);
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
}
END_TEST

START_TEST(open__size)
{
	struct ripc_config cfg = api_config(0);
	struct {
		struct ripc_config known;
		uint64_t later;
	} newer = {.known = api_config(0)};
	struct ripc_context *ctx;

	cfg.size = 0;
	check_refused(&cfg, -EINVAL, NULL);
	cfg.size = SIZE_MAX;
	check_refused(&cfg, -E2BIG, NULL);
	/* Programs that are older or newer than this library. */
	cfg.size = offsetof(struct ripc_config, spin_us);
	ck_assert_int_eq(ripc_open(&cfg, &ctx), 0);
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
	newer.known.size = sizeof(newer);
	ck_assert_int_eq(ripc_open(&newer.known, &ctx), 0);
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
	newer.later = 1; /* a field that this library cannot honour */
	ctx = NULL;
	ck_assert_int_eq(ripc_open(&newer.known, &ctx), -E2BIG);
	ck_assert_ptr_null(ctx);
}
END_TEST

START_TEST(open__cannot_be_understood)
{
	static const struct {
		const char *backends, *options, *word;
	} bad[] = {
		{"telepathy", NULL, "telepathy"},
		{"udp,telepathy", NULL, "telepathy"},
		{",", NULL, "backends"},
		{"udp", "nonsense", "nonsense"},
		{"udp", "a=b,c", "a=b,c"},
		{"udp", ",", "options"},
		{"udp", "resolver.port=frog", "frog"},
		{"udp", "resolver.port=70000", "70000"},
		{"udp", "resolver.group=10.0.0.1", "10.0.0.1"},
		{"udp", "udp.port=frog", "frog"},
		{"udp", "udp.gso=perhaps", "perhaps"},
		{"udp", "udp.prot=5", "udp.prot"},
		{"udp", "foo.bar=1", "foo.bar"},
		/* Also where nobody would heed it. */
		{"udp", "verbs.receives=1", "from 64 to 16384"},
	};
	struct ripc_config cfg;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cfg = api_config(0);
		cfg.backends = bad[i].backends;
		if (bad[i].options)
			cfg.options = bad[i].options;
		check_refused(&cfg, -EINVAL, bad[i].word);
	}
	cfg = api_config(1u << 30);
	check_refused(&cfg, -EINVAL, "flags");
	cfg = api_config(0);
	cfg.peers = "host.invalid:99999";
	check_refused(&cfg, -EINVAL, "99999");
}
END_TEST

START_TEST(open__environment_wins)
{
	struct ripc_config cfg = api_config(0);
	struct ripc_context *ctx;

	cfg.backends = "telepathy";
	setenv("RIPC_BACKENDS", "udp", 1);
	ck_assert_int_eq(ripc_open(&cfg, &ctx), 0);
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
	setenv("RIPC_BACKENDS", "telepathy", 1);
	cfg.backends = "udp";
	check_refused(&cfg, -EINVAL, "telepathy");
	unsetenv("RIPC_BACKENDS");
	setenv("RIPC_OPTIONS", "resolver.port=frog", 1);
	check_refused(&cfg, -EINVAL, "frog");
	unsetenv("RIPC_OPTIONS");
	setenv("RIPC_PEERS", "127.0.0.1:0", 1);
	check_refused(&cfg, -EINVAL, "127.0.0.1");
	unsetenv("RIPC_PEERS");
	setenv("RIPC_KEYS", "", 1); /* without this the context would open without a message */
	check_refused(&cfg, -EINVAL, "RIPC_KEYS is empty");
	cfg.keys = "/nowhere";
	check_refused(&cfg, -EINVAL, "RIPC_KEYS is empty");
	unsetenv("RIPC_KEYS");
	cfg.keys = "";
	check_refused(&cfg, -EINVAL, "ripc_config.keys is empty");
	cfg.keys = NULL;
	setenv("RIPC_LOG", "verbose", 1);
	check_refused(&cfg, -EINVAL, "error, warn, info or debug");
	setenv("RIPC_LOG", "", 1);
	ck_assert_int_eq(ripc_open(&cfg, &ctx), 0);
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
	unsetenv("RIPC_LOG");
	ck_assert_int_eq(ripc_open(&cfg, &ctx), 0);
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
}
END_TEST

/* Without descriptors there is an error; with them again there is a context. */
START_TEST(open__no_descriptors)
{
	struct ripc_config cfg = api_config(0);
	struct ripc_context *ctx = NULL;
	struct said said;
	int n = descriptors_open();

	cfg.log = hear;
	cfg.log_arg = &said;

	for (int more = 0; more < 12; more++) {
		rlim_t before = descriptors_limit((rlim_t)(n + more));
		int error;

		said = (struct said){0};
		error = ripc_open(&cfg, &ctx);
		descriptors_limit(before);
		if (error == 0)
			ck_assert_int_eq(ripc_close(ctx, 0), 0);
		else
			ck_assert(error == -EMFILE || error == -ENODEV);
		if (error == -EMFILE)
			ck_assert_ptr_nonnull(strstr(said.text, "ulimit -n"));
		if (more == 0)
			ck_assert_int_lt(error, 0);
		ck_assert_int_eq(descriptors_open(), n);
	}
	ck_assert_int_eq(ripc_open(&cfg, &ctx), 0);
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
}
END_TEST

/* Takes all but some of them; returns how many are to be closed again. */
static int descriptors_take(int *taken, int n_free)
{
	int n = 0;

	while (n < FEW && (taken[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	ck_assert_int_gt(n, n_free);
	ck_assert_int_lt(n, FEW);
	for (int i = 0; i < n_free; i++)
		close(taken[--n]);
	return n;
}

/* The lack is named whichever backend is the last one that cannot be opened. */
START_TEST(open__no_descriptors_for_any_backend)
{
	static const char *const backends[] = {"udp", "shm", "udp,shm", "shm,udp", "udp,verbs",
		NULL};
	struct ripc_config cfg = api_config(0);
	struct ripc_context *ctx = NULL;
	rlim_t before = descriptors_limit(FEW);
	int taken[FEW];
	struct said said;

	cfg.log = hear;
	cfg.log_arg = &said;
	for (int i = 0; i < 12; i++) {
		/* Without one not even the file can be read that tells which host this is. */
		int n = descriptors_take(taken, i % 2);
		int error;

		cfg.backends = backends[i / 2];
		said = (struct said){0};
		error = ripc_open(&cfg, &ctx);
		while (n > 0)
			close(taken[--n]);
		ck_assert_int_eq(error, -EMFILE);
		ck_assert_ptr_nonnull(strstr(said.text, "ulimit -n"));
	}
	descriptors_limit(before);
}
END_TEST

static void hear_last(void *arg, int level, const char *text)
{
	struct said *said = arg;

	if (level <= RIPC_LOG_WARN) {
		said->n++;
		snprintf(said->text, sizeof(said->text), "%s", text);
	}
}

/* A value that is too small is named, once, and by the error, too. */
START_TEST(buf_alloc__full_pool_is_explained)
{
	struct ripc_config cfg = api_config(0);
	struct ripc_context *ctx = NULL;
	struct said said = {0};
	void *buf = NULL;

	cfg.pool_bytes = 1u << 20;
	cfg.log = hear_last;
	cfg.log_arg = &said;
	ck_assert_int_eq(ripc_open(&cfg, &ctx), 0);
	said = (struct said){0};
	ck_assert_int_eq(ripc_buf_alloc(ctx, 1u << 30, &buf), -ENOMEM);
	ck_assert_int_eq(ripc_buf_alloc(ctx, 1u << 30, &buf), -ENOMEM);
	ck_assert_ptr_null(buf);
	ck_assert_int_eq(said.n, 1);
	ck_assert_ptr_nonnull(strstr(said.text, "1073741824"));
	ck_assert_ptr_nonnull(strstr(said.text, "raise pool_bytes"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-ENOMEM), "pool_bytes"));
	ck_assert_ptr_nonnull(strstr(ripc_strerror(-EMFILE), "ulimit -n"));
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
}
END_TEST

START_TEST(open__bad_arguments)
{
	struct ripc_context *ctx;

	ck_assert_int_eq(ripc_open(NULL, NULL), -EINVAL);
	ck_assert_int_eq(ripc_close(NULL, 0), -EINVAL);
	ck_assert_int_eq(ripc_poll(NULL), -EINVAL);
	ck_assert_int_eq(ripc_poll_timeout(NULL), -1);
	ck_assert_int_eq(ripc_resolve(NULL, 1, 0), -EINVAL);
	ck_assert_int_eq(ripc_probe(NULL, NULL, NULL), -EINVAL);
	ripc_msg_free(NULL);
	ck_assert_int_eq(ripc_open(NULL, &ctx), 0);
	ck_assert_int_eq(ripc_resolve(ctx, 0, 0), -EINVAL);
	ck_assert_int_eq(ripc_resolve(ctx, 1, -1), -EINVAL);
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
}
END_TEST

START_TEST(close__negative_timeout)
{
	struct side side;

	side_open(&side, 0);
	ck_assert_int_eq(ripc_close(side.ctx, -1), -EINVAL);
	side_close(&side);
}
END_TEST

/* ---- waiting and receiving --------------------------------------------------------------- */

START_TEST(receive__nothing_there)
{
	struct ripc_msg *msg = NULL;
	struct side side;
	uint64_t began_ms;

	side_open(&side, 0);
	ck_assert_int_eq(ripc_receive(side.svc, 0, &msg), -EAGAIN);
	began_ms = clock_ms();
	ck_assert_int_eq(ripc_receive(side.svc, 50, &msg), -ETIMEDOUT);
	ck_assert_uint_ge(clock_ms() + 1, began_ms + 50);
	ck_assert_ptr_null(msg);
	ck_assert_int_eq(ripc_receive(NULL, 0, &msg), -EINVAL);
	ck_assert_int_eq(ripc_receive(side.svc, 0, NULL), -EINVAL);
	ck_assert_int_eq(ripc_receive(side.svc, -2, &msg), -EINVAL);
	side_close(&side);
}
END_TEST

START_TEST(receive__spinning_first)
{
	struct ripc_config cfg = api_config(0);
	struct ripc_msg *msg;
	struct pair pair;

	cfg.spin_us = 200;
	side_open_as(&pair.a, &cfg, 0);
	side_open_as(&pair.b, &cfg, 0);
	for (int i = 0; i < 50; i++)
		acquaint(&pair.a, &pair.b);
	ck_assert_int_eq(ripc_receive(pair.a.svc, 10, &msg), -ETIMEDOUT);
	pair_close(&pair);
}
END_TEST

/* ---- finding, measuring, asking ---------------------------------------------------------- */

START_TEST(resolve__found_or_not)
{
	struct pair pair;

	pair_open(&pair);
	ck_assert_int_eq(ripc_resolve(pair.a.ctx, pair.b.id, PATIENCE_MS), 0);
	ck_assert_int_eq(ripc_resolve(pair.a.ctx, pair.a.id, PATIENCE_MS), 0);
	ck_assert_int_eq(ripc_resolve(pair.a.ctx, nobody, PATIENCE_MS), -ENOENT);
	ck_assert_int_eq(ripc_resolve(pair.a.ctx, pair.b.id, 0), 0);
	ck_assert_int_eq(ripc_resolve(pair.a.ctx, nobody + 1, 0), -ETIMEDOUT);
	pair_close(&pair);
}
END_TEST

START_TEST(path_info__says_how)
{
	struct ripc_path path = {.size = sizeof(path)}, old = {.size = sizeof(old.size)};
	struct {
		struct ripc_path known;
		uint64_t later;
	} newer = {.known = {.size = sizeof(newer)}, .later = 99};
	struct pair pair;

	pair_open(&pair);
	ck_assert_int_eq(ripc_path_info(pair.a.svc, pair.b.id, &path), -ENOENT);
	ck_assert_str_eq(path.backend, "");
	acquaint(&pair.a, &pair.b);
	ck_assert_int_eq(ripc_path_info(pair.a.svc, pair.b.id, &path), 0);
	ck_assert_str_eq(path.backend, "udp");
	ck_assert_str_eq(path.bulk, "pull");
	ck_assert_ptr_nonnull(strstr(path.address, "127.0.0.1"));
	ck_assert_uint_ge(path.short_max_bytes, RIPC_SHORT_MIN);
	ck_assert_uint_ge(path.datagram_bytes, 1200);
	ck_assert_uint_eq(path.incarnation, ripc_service_incarnation(pair.b.svc));
	ck_assert_uint_eq(path.size, sizeof(path));
	ck_assert_int_eq(ripc_path_info(pair.a.svc, pair.b.id, &old), 0);
	ck_assert_str_eq(old.backend, "");
	ck_assert_int_eq(ripc_path_info(pair.a.svc, nobody, &path), -ENOENT);
	ck_assert_int_eq(ripc_path_info(NULL, pair.b.id, &path), -EINVAL);
	ck_assert_int_eq(ripc_path_info(pair.a.svc, 0, &path), -EINVAL);
	ck_assert_int_eq(ripc_path_info(pair.a.svc, pair.b.id, NULL), -EINVAL);
	path.size = 0;
	ck_assert_int_eq(ripc_path_info(pair.a.svc, pair.b.id, &path), -EINVAL);
	path.size = SIZE_MAX;
	ck_assert_int_eq(ripc_path_info(pair.a.svc, pair.b.id, &path), -E2BIG);
	ck_assert_int_eq(ripc_path_info(pair.a.svc, pair.b.id, &newer.known), 0);
	ck_assert_str_eq(newer.known.backend, "udp");
	ck_assert_uint_eq(newer.known.size, sizeof(newer));
	ck_assert_uint_eq(newer.later, 0);
	pair_close(&pair);
}
END_TEST

START_TEST(ping__measures)
{
	uint64_t rtt_ns = 0;
	struct pair pair;

	pair_open(&pair);
	ck_assert_int_eq(ripc_ping(pair.a.svc, pair.b.id, PATIENCE_MS, &rtt_ns), 0);
	ck_assert_uint_gt(rtt_ns, 0);
	rtt_ns = 77;
	ck_assert_int_eq(ripc_ping(pair.a.svc, nobody, PATIENCE_MS, &rtt_ns), -ENOENT);
	ck_assert_int_eq(ripc_ping(NULL, pair.b.id, 10, &rtt_ns), -EINVAL);
	ck_assert_int_eq(ripc_ping(pair.a.svc, 0, 10, &rtt_ns), -EINVAL);
	ck_assert_int_eq(ripc_ping(pair.a.svc, pair.b.id, -1, &rtt_ns), -EINVAL);
	ck_assert_int_eq(ripc_ping(pair.a.svc, pair.b.id, 10, NULL), -EINVAL);
	ck_assert_uint_eq(rtt_ns, 77);
	/* The application of the partner sees nothing of it. */
	check_nothing(pair.b.svc);
	pair_close(&pair);
}
END_TEST

START_TEST(ping__silent_partner)
{
	uint64_t rtt_ns = 77;
	struct pair pair;
	struct pump pump;

	side_open(&pair.a, 0);
	side_open(&pair.b, RIPC_NO_THREAD);
	pump_start(&pump, pair.b.ctx);
	acquaint(&pair.a, &pair.b);
	pump_stop(&pump);
	ck_assert_int_eq(ripc_ping(pair.a.svc, pair.b.id, 50, &rtt_ns), -ETIMEDOUT);
	ck_assert_uint_eq(rtt_ns, 77);
	pair_close(&pair);
}
END_TEST

struct findings {
	int n, udp_usable, local_usable;
};

static int found(void *arg, const struct ripc_finding *finding)
{
	struct findings *findings = arg;

	findings->n++;
	ck_assert_str_ne(finding->detail, "");
	ck_assert_ptr_nonnull(finding->remedy);
	if (strcmp(finding->kind, "backend") == 0 && strcmp(finding->name, "udp") == 0)
		findings->udp_usable = finding->usable;
	if (strcmp(finding->kind, "resolver") == 0 && strcmp(finding->name, "local") == 0)
		findings->local_usable = finding->usable;
	return 0;
}

START_TEST(probe__tells_of_each)
{
	struct ripc_config cfg = api_config(0);
	struct findings findings = {0};
	int n = descriptors_open();

	ck_assert_int_eq(ripc_probe(&cfg, found, &findings), 0);
	ck_assert_int_ge(findings.n, 5);
	ck_assert_int_eq(findings.udp_usable, 1);
	ck_assert_int_eq(findings.local_usable, 1);
	ck_assert_int_eq(descriptors_open(), n);
	cfg.size = 1;
	ck_assert_int_eq(ripc_probe(&cfg, found, &findings), -EINVAL);
	cfg.size = SIZE_MAX;
	ck_assert_int_eq(ripc_probe(&cfg, found, &findings), -E2BIG);
	/* Where opening would be refused, probing says so. */
	cfg = api_config(0);
	cfg.options = "udp.prot=5";
	ck_assert_int_eq(ripc_probe(&cfg, found, &findings), -EINVAL);
	cfg.options = NULL;
	cfg.peers = "127.0.0.1:0";
	ck_assert_int_eq(ripc_probe(&cfg, found, &findings), -EINVAL);
	cfg.peers = NULL;
	cfg.backends = "shm";
	cfg.options = "shm.uids=joe";
	ck_assert_int_eq(ripc_probe(&cfg, found, &findings), -EINVAL);
	cfg.backends = "udp";
	ck_assert_int_eq(ripc_probe(&cfg, found, &findings), 0);
	ck_assert_int_eq(ripc_probe(NULL, found, &findings), 0);
}
END_TEST

START_TEST(stats__any_size)
{
	struct {
		struct ripc_stats known;
		uint64_t later;
	} newer = {.known = {.size = sizeof(newer)}, .later = 99};
	struct ripc_stats stats = {.size = offsetof(struct ripc_stats, short_received)};
	const struct iovec one = item("four", 4);
	struct pair pair;

	pair_open(&pair);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, &one, 1), 0);
	ripc_msg_free(take(pair.b.svc, RIPC_SHORT));
	stats.short_received = 55;
	ck_assert_int_eq(ripc_stats_get(pair.a.ctx, &stats), 0);
	ck_assert_uint_eq(stats.short_sent, 1);
	ck_assert_uint_eq(stats.short_sent_bytes, 4);
	ck_assert_uint_eq(stats.short_received, 55);
	ck_assert_int_eq(ripc_stats_get(pair.b.ctx, &newer.known), 0);
	ck_assert_uint_eq(newer.known.short_received, 1);
	ck_assert_uint_eq(newer.known.short_received_bytes, 4);
	ck_assert_uint_eq(newer.known.services, 1);
	ck_assert_uint_eq(newer.known.partners, 1);
	ck_assert_uint_eq(newer.known.size, sizeof(newer));
	ck_assert_uint_eq(newer.later, 0);
	stats.size = 0;
	ck_assert_int_eq(ripc_stats_get(pair.a.ctx, &stats), -EINVAL);
	stats.size = SIZE_MAX;
	ck_assert_int_eq(ripc_stats_get(pair.a.ctx, &stats), -E2BIG);
	ck_assert_int_eq(ripc_stats_get(NULL, &stats), -EINVAL);
	ck_assert_int_eq(ripc_stats_get(pair.a.ctx, NULL), -EINVAL);
	pair_close(&pair);
}
END_TEST

START_TEST(strerror__says_something)
{
	ck_assert_str_eq(ripc_strerror(0), "success");
	for (int error = 1; error < 200; error++) {
		ck_assert_str_ne(ripc_strerror(-error), "");
		ck_assert_str_eq(ripc_strerror(-error), ripc_strerror(error));
	}
	ck_assert_str_eq(ripc_strerror(-123456), "unknown error");
	ck_assert_ptr_nonnull(ripc_strerror(INT32_MIN));
	ck_assert_str_ne(ripc_strerror(-ECONNRESET), strerror(ECONNRESET));
}
END_TEST

static void hear_ignored(void *arg, int level, const char *text)
{
	*(bool *)arg |= level == RIPC_LOG_WARN && strstr(text, "RIPC_BACKENDS is ignored");
}

/* Only the library's own networks: the libraries of others load code that the environment names. */
static int count_refused(void *arg, const struct ripc_finding *finding)
{
	bool is_own = strcmp(finding->name, "shm") == 0 || strcmp(finding->name, "udp") == 0;

	if (strcmp(finding->kind, "backend") == 0 && !is_own)
		*(int *)arg += strstr(finding->detail, "raised rights") ? 1 : -100;
	return 0;
}

/* This program, run with raised rights and variables that no context could be opened with. */
static int raised_main(void)
{
	bool ignored = false;
	struct ripc_config cfg = api_config(0);
	struct ripc_context *ctx;
	int n_refused = 0;

	if (!getauxval(AT_SECURE))
		return NOT_RAISED;
	cfg.backends = "udp";
	cfg.log = hear_ignored;
	cfg.log_arg = &ignored;
	if (ripc_open(&cfg, &ctx) || ripc_close(ctx, 0))
		return 1;
	ripc_probe(NULL, count_refused, &n_refused);
	return n_refused != 3 ? 4 : ignored ? 0 : 2;
}

/* A copy of this program that runs with the rights of root, whoever starts it. */
static void copy_raised(char *path)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = mkostemp(path, O_CLOEXEC);
	struct stat status;

	ck_assert_int_ge(from, 0);
	ck_assert_int_ge(to, 0);
	ck_assert_int_eq(fstat(from, &status), 0);
	for (ssize_t left = status.st_size, n; left > 0; left -= n) {
		n = sendfile(to, from, NULL, (size_t)left);
		ck_assert_int_gt(n, 0);
	}
	ck_assert_int_eq(fchmod(to, 04755), 0);
	close(from);
	close(to);
}

START_TEST(open__raised_rights_ignore_environment)
{
	char path[] = "./raised-XXXXXX";
	int status;
	pid_t pid;

	if (geteuid() != 0) {
		printf("skipped: open__raised_rights_ignore_environment: root alone can make a "
			"setuid program\n");
		return;
	}
	copy_raised(path);
	pid = fork();
	if (pid == 0) {
		setenv("RIPC_BACKENDS", "telepathy", 1);
		setenv("RIPC_KEYS", "/nonexistent", 1);
		setenv("RIPC_OPTIONS", "resolver.port=none", 1);
		setenv("RIPC_LOG", "loudly", 1);
		if (setgid(65534) == 0 && setuid(65534) == 0)
			execl(path, path, "raised", (char *)NULL);
		_exit(3);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	unlink(path);
	ck_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == NOT_RAISED)
		printf("skipped: open__raised_rights_ignore_environment: this file system "
			"raises nobody's rights (nosuid)\n");
	else
		ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

int main(int argc, char **argv)
{
	const TTest *const tests[] = {
		open__defaults, open__size, open__cannot_be_understood, open__environment_wins,
		open__raised_rights_ignore_environment,
		open__no_descriptors, open__no_descriptors_for_any_backend,
		buf_alloc__full_pool_is_explained, open__bad_arguments,
		close__negative_timeout,
		receive__nothing_there, receive__spinning_first, resolve__found_or_not,
		path_info__says_how, ping__measures, ping__silent_partner,
		probe__tells_of_each, stats__any_size, strerror__says_something, NULL,
	};

	if (argc == 2 && strcmp(argv[1], "raised") == 0)
		return raised_main();
	return suite_run("api_open", tests);
}
