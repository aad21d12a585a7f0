/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening many services at once, and what opening one says when it cannot. */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api.h"

#define MANY  1500 /* more than are asked about at once */
#define TAKEN 800

static uint64_t own_id(int k)
{
	return 0x5e4u << 20 | (uint64_t)getpid() << 32 | (uint64_t)k;
}

static void limit_raise(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max < 8192 ? limit.rlim_max : 8192;
	setrlimit(RLIMIT_NOFILE, &limit);
}

START_TEST(services_open__many)
{
	struct ripc_service **services = calloc(MANY, sizeof(struct ripc_service *));
	uint64_t *ids = calloc(MANY, sizeof(*ids));
	struct ripc_config cfg = api_config(0);
	struct side asker;
	struct ripc_context *ctx;

	limit_raise();
	side_open(&asker, 0);
	ck_assert_int_eq(ripc_open(&cfg, &ctx), 0);
	for (uint32_t i = 0; i < MANY; i++)
		ids[i] = own_id(1000 + (int)i);
	ck_assert_int_eq(ripc_services_open(ctx, ids, MANY, 0, services), MANY);
	for (uint32_t i = 0; i < MANY; i++)
		ck_assert_uint_eq(ripc_service_id(services[i]), ids[i]);
	for (uint32_t i = 0; i < MANY; i += 499)
		ck_assert_int_eq(ripc_resolve(asker.ctx, ids[i], PATIENCE_MS), 0);
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
	side_close(&asker);
	free(services);
	free(ids);
}
END_TEST

START_TEST(services_open__some_that_are_taken)
{
	uint64_t ids[] = {own_id(1), own_id(2), 0, own_id(2), own_id(3), 0};
	struct ripc_service *services[6] = {0};
	struct ripc_config cfg = api_config(0);
	struct side first;
	struct ripc_context *ctx;

	side_open_as(&first, &cfg, own_id(3));
	ck_assert_int_eq(ripc_open(&cfg, &ctx), 0);
	ck_assert_int_eq(ripc_services_open(ctx, ids, 6, 0, services), 4);
	ck_assert_uint_eq(ripc_service_id(services[0]), ids[0]);
	ck_assert_uint_eq(ripc_service_id(services[1]), ids[1]);
	ck_assert_uint_ne(ripc_service_id(services[2]), 0);
	ck_assert_ptr_null(services[3]);
	ck_assert_ptr_null(services[4]);
	ck_assert_uint_ne(ripc_service_id(services[5]), ripc_service_id(services[2]));
	ck_assert_int_eq(ripc_services_open(ctx, ids, 2, 0, services), -EADDRINUSE);
	ck_assert_ptr_null(services[0]);
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
	side_close(&first);
}
END_TEST

/* The number of answers at once of which most get lost. */
START_TEST(services_open__all_of_which_are_taken)
{
	struct ripc_service **first = calloc(TAKEN, sizeof(struct ripc_service *));
	struct ripc_service **second = calloc(TAKEN, sizeof(struct ripc_service *));
	uint64_t *ids = calloc(TAKEN, sizeof(*ids));
	struct ripc_config cfg = api_config(0);
	struct ripc_context *holder, *other;
	int opened = 0;

	limit_raise();
	ck_assert_int_eq(ripc_open(&cfg, &holder), 0);
	for (uint32_t i = 0; i < TAKEN; i++)
		ids[i] = own_id(5000 + (int)i);
	ck_assert_int_eq(ripc_services_open(holder, ids, TAKEN, 0, first), TAKEN);
	/* A holder that gets no processor for 60 ms is taken for one that does not answer. */
	for (int times = 0; times < 5 && opened != -EADDRINUSE; times++) {
		ck_assert_int_eq(ripc_open(&cfg, &other), 0);
		opened = ripc_services_open(other, ids, TAKEN, 0, second);
		ck_assert_int_eq(ripc_close(other, 0), 0);
	}
	ck_assert_int_eq(opened, -EADDRINUSE);
	for (uint32_t i = 0; i < TAKEN; i++)
		ck_assert_ptr_null(second[i]);
	ck_assert_int_eq(ripc_close(holder, 0), 0);
	free(first);
	free(second);
	free(ids);
}
END_TEST

START_TEST(services_open__bad_arguments)
{
	struct ripc_service *service;
	struct ripc_context *ctx;
	uint64_t id = 0;

	ck_assert_int_eq(ripc_open(NULL, &ctx), 0);
	ck_assert_int_eq(ripc_services_open(NULL, &id, 1, 0, &service), -EINVAL);
	ck_assert_int_eq(ripc_services_open(ctx, NULL, 1, 0, &service), -EINVAL);
	ck_assert_int_eq(ripc_services_open(ctx, &id, 0, 0, &service), -EINVAL);
	ck_assert_int_eq(ripc_services_open(ctx, &id, 1, 1, &service), -EINVAL);
	ck_assert_int_eq(ripc_services_open(ctx, &id, 1, 0, NULL), -EINVAL);
	ck_assert_int_eq(ripc_services_open(ctx, &id, SIZE_MAX, 0, &service), -EINVAL);
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
}
END_TEST

/* Root is not limited, so this is for another user, in a child. */
START_TEST(service_open__without_a_thread)
{
	const struct rlimit none = {0, 0};
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct ripc_service *service;
		struct ripc_context *ctx;

		if (setuid(12345) || ripc_open(NULL, &ctx) || setrlimit(RLIMIT_NPROC, &none))
			_exit(2);
		_exit(-ripc_service_open(ctx, 0, 0, &service));
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(WEXITSTATUS(status), ENOMEM);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("services");

	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, services_open__many);
	tcase_add_test(tcase, services_open__some_that_are_taken);
	tcase_add_test(tcase, services_open__all_of_which_are_taken);
	tcase_add_test(tcase, services_open__bad_arguments);
	if (getuid() == 0)
		tcase_add_test(tcase, service_open__without_a_thread);
	else
		puts("skipped: no thread (needs root)");
	return suite_finish("services", tcase);
}
