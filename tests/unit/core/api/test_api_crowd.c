/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a thousand partners after one message to each: all memory that the process has from
 * the allocator, including the resolver's records, the backend's state and the allocator's
 * overhead.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "../../../support/util/heap.h"
#include "api.h"

#define MANY       1000
#define FIRST      20 /* partners before: tables, caches and buffers are there then */
#define BYTES_EACH 560u

/* Another process: a thousand services that take what comes, until it is killed. */
static void serve(const char *backends, int ids)
{
	struct ripc_config cfg = api_config(0);
	struct ripc_service *svc;
	struct ripc_context *ctx;
	uint64_t id;

	cfg.backends = backends;
	if (ripc_open(&cfg, &ctx))
		_exit(1);
	for (uint32_t i = 0; i < MANY; i++) {
		if (ripc_service_open(ctx, 0, 0, &svc))
			_exit(1);
		id = ripc_service_id(svc);
		if (write(ids, &id, sizeof(id)) != sizeof(id))
			_exit(1);
	}
	for (;;)
		pause();
}

/* Returns the process; its services' IDs come by the pipe. */
static pid_t serve_beside(const char *backends, int *ids)
{
	int ends[2];
	pid_t child;

	ck_assert_int_eq(pipe(ends), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0)
		serve(backends, ends[1]);
	close(ends[1]);
	*ids = ends[0];
	return child;
}

static void speak_to_next(const struct side *side, int ids, uint32_t n)
{
	const struct iovec one = item("x", 1);
	uint64_t id;

	for (uint32_t i = 0; i < n; i++) {
		ck_assert_int_eq(read(ids, &id, sizeof(id)), sizeof(id));
		ck_assert_int_eq(ripc_send_long(side->svc, id, &one, 1, PATIENCE_MS), 0);
	}
}

static void check_cost(const char *backends)
{
	struct ripc_config cfg = api_config(RIPC_NO_THREAD);
	struct side side;
	size_t before;
	time_t end;
	pid_t child;
	int ids;

	cfg.backends = backends;
	child = serve_beside(backends, &ids);
	side_open_as(&side, &cfg, 0);
	speak_to_next(&side, ids, FIRST);
	before = heap_bytes();
	speak_to_next(&side, ids, MANY - FIRST);
	ck_assert_uint_eq(stats_of(side.ctx).partners, MANY);
	/* Questions to the resolver linger a moment. */
	end = time(NULL) + PATIENCE_MS / 1000;
	while (heap_bytes() - before > (MANY - FIRST) * BYTES_EACH && time(NULL) < end)
		ripc_poll(side.ctx);
	ck_assert_uint_le((heap_bytes() - before) / (MANY - FIRST), BYTES_EACH);
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	close(ids);
	side_close(&side);
}

START_TEST(partners__thousand_over_udp)
{
	check_cost("udp");
}
END_TEST

START_TEST(partners__thousand_over_shared_memory)
{
	check_cost("shm");
}
END_TEST

int main(void)
{
	void *volatile block = malloc(1); /* not optimised away */
	bool tells = heap_bytes() > 0;
	TCase *tcase;

	free(block);
	if (!tells) {
		printf("skipped: this allocator does not tell what it has given out\n");
		return 77;
	}
	if (descriptors_allow() < MANY + 200) {
		printf("skipped: RLIMIT_NOFILE allows less than %d files\n", MANY + 200);
		return 77;
	}
	tcase = tcase_create("api_crowd");
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, partners__thousand_over_udp);
	tcase_add_test(tcase, partners__thousand_over_shared_memory);
	return suite_finish("api_crowd", tcase);
}
