/* SPDX-License-Identifier: BSD-3-Clause */
/* The page that shows a context: that the context counts in it, and that nobody else can write. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../../../support/util/process.h"
#include "core/show/show.h"
#include "lone.h"
#include "ripc/group.h"
#include "ripc/page.h"

static const char *memory_of(int fd, const struct ripc_page **page)
{
	size_t unit = (size_t)sysconf(_SC_PAGESIZE), len = unit + sizeof(struct ripc_page);
	char *at = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);

	ck_assert_ptr_ne(at, MAP_FAILED);
	*page = (const struct ripc_page *)(at + unit);
	return at;
}

static void send_shorts(struct lone *lone, uint32_t n)
{
	const struct iovec item = {(void *)"hello", 5};

	while (n--)
		ck_assert_int_eq(ripc_send_short(lone->svc, lone->service, &item, 1), 0);
}

START_TEST(page_show__is_counted_in)
{
	const struct ripc_stats *live;
	const struct ripc_page *page;
	static struct lone lone;
	struct ripc_stats stats;
	int fd;

	lone_open(&lone);
	lone_introduce(&lone);
	send_shorts(&lone, 3); /* counted before there is a page */
	fd = ripc__page_show(lone.ctx);
	ck_assert_int_ge(fd, 0);
	live = (const struct ripc_stats *)memory_of(fd, &page);
	ck_assert_uint_eq(live->short_sent, 3);
	send_shorts(&lone, 4);
	ck_assert_uint_eq(live->short_sent, 7);
	ck_assert_uint_eq(live->size, sizeof(*live));
	ck_assert_uint_eq(page->stats.short_sent, 3); /* as nobody has asked since */
	ck_assert_int_eq(ripc__page_show(lone.ctx), fd);
	stats = lone_stats(&lone);
	ck_assert_mem_eq(&page->stats, &stats, sizeof(stats));
	ck_assert_uint_eq(stats.short_sent, 7);
	lone_close_all(&lone);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
	ck_assert_uint_eq(live->short_sent, 7); /* the memory is the reader's, too */
}
END_TEST

START_TEST(page_show__has_services_and_partners)
{
	const struct ripc_page *page;
	static struct lone lone;
	uint32_t sequence;

	lone_open(&lone);
	lone_introduce(&lone);
	memory_of(ripc__page_show(lone.ctx), &page);
	sequence = page->sequence;
	ck_assert_uint_eq(sequence % 2, 0);
	ck_assert_uint_eq(page->magic, RIPC_PAGE_MAGIC);
	ck_assert_uint_eq(page->n_services, 1);
	ck_assert_uint_eq(page->services[0].id, ripc_service_id(lone.svc));
	ck_assert_uint_eq(page->services[0].incarnation, ripc_service_incarnation(lone.svc));
	ck_assert_uint_eq(page->n_partners, 1);
	ck_assert_uint_eq(page->partners[0].id, lone.service);
	ck_assert_uint_eq(page->partners[0].incarnation, lone.incarnation);
	ck_assert_uint_eq(page->partners[0].context, lone.context);
	ck_assert_uint_eq(page->partners[0].flags, RIPC_PAGE_READY);
	send_shorts(&lone, 2);
	lone_newcomer(&lone, 9);
	ripc__page_show(lone.ctx);
	ck_assert_uint_eq(page->sequence, sequence + 2);
	ck_assert_uint_eq(page->n_partners, 2);
	ck_assert_uint_eq(page->partners[0].id, lone.service); /* the one that was used last */
	ck_assert_uint_eq(page->all_partners, 2);
	lone_close_all(&lone);
}
END_TEST

START_TEST(page_show__has_members)
{
	const uint64_t group = 0xffull << 56;
	const struct ripc_page *page;
	static struct lone lone;

	lone_open(&lone);
	for (uint32_t i = 0; i <= RIPC_PAGE_MEMBERS; i++)
		ck_assert_int_eq(ripc_join(lone.svc, group + i), 0);
	memory_of(ripc__page_show(lone.ctx), &page);
	ck_assert_uint_eq(page->n_members, RIPC_PAGE_MEMBERS);
	ck_assert_uint_eq(page->all_members, RIPC_PAGE_MEMBERS + 1);
	for (uint32_t i = 1; i <= RIPC_PAGE_MEMBERS; i++)
		ck_assert_int_eq(ripc_leave(lone.svc, group + i), 0);
	ripc__page_show(lone.ctx);
	ck_assert_uint_eq(page->n_members, 1);
	ck_assert_uint_eq(page->all_members, 1);
	ck_assert_uint_eq(page->members[0].service, ripc_service_id(lone.svc));
	ck_assert_uint_eq(page->members[0].group, group);
	lone_close_all(&lone);
}
END_TEST

START_TEST(page_show__nobody_else_writes)
{
	size_t unit = (size_t)sysconf(_SC_PAGESIZE);
	static struct lone lone;
	int fd;

	lone_open(&lone);
	fd = ripc__page_show(lone.ctx);
	ck_assert_ptr_eq(mmap(NULL, unit, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	ck_assert_int_eq(pwrite(fd, "x", 1, 0), -1);
	ck_assert_int_eq(ftruncate(fd, 0), -1);
	ck_assert_int_eq(ftruncate(fd, 1 << 20), -1);
	lone_close_all(&lone);
}
END_TEST

/* Without a descriptor, or a file of that length, there is no page, and nothing else changes. */
START_TEST(page_show__without_descriptors)
{
	struct rlimit limit, none;
	static struct lone lone;
	rlim_t before;
	int error;

	lone_open(&lone);
	lone_introduce(&lone);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){0, limit.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ck_assert_int_eq(ripc__page_show(lone.ctx), -EMFILE);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	before = file_limit(4096);
	error = ripc__page_show(lone.ctx);
	file_limit(before);
	ck_assert_int_eq(error, -EFBIG);
	send_shorts(&lone, 5);
	ck_assert_uint_eq(lone_stats(&lone).short_sent, 5);
	ck_assert_int_ge(ripc__page_show(lone.ctx), 0);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {page_show__is_counted_in,
		page_show__has_services_and_partners, page_show__has_members,
		page_show__nobody_else_writes,
		page_show__without_descriptors, NULL};

	return suite_run("page", tests);
}
