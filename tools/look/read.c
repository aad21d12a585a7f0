/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes samples of pages (ripc/page.h). The page is another process's memory: it is copied, then
 * checked, and only the copy is used.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "look.h"
#include "../common.h"

#define COPIES_MAX 100 /* a page that is always being written does not count */
#define TABLES_LEN offsetof(struct ripc_page, stats)

/* Copies counters of a context of perhaps another version: what that does not know is 0. */
static void copy_stats(const void *from, size_t room, struct ripc_stats *to)
{
	size_t len = 0; /* the member size, which is the first */

	*to = (struct ripc_stats){0};
	if (room >= sizeof(len))
		memcpy(&len, from, sizeof(len));
	if (len > room)
		len = room;
	memcpy(to, from, len < sizeof(*to) ? len : sizeof(*to));
	to->size = sizeof(*to);
}

/* A copy during which nothing was written. */
static int copy_tables(const char *tables, size_t len, struct ripc_page *page)
{
	const uint32_t *sequence =
		(const uint32_t *)(tables + offsetof(struct ripc_page, sequence));

	for (int i = 0; i < COPIES_MAX; i++) {
		uint32_t before = __atomic_load_n(sequence, __ATOMIC_ACQUIRE);

		memcpy(page, tables, TABLES_LEN);
		copy_stats(tables + TABLES_LEN, len - TABLES_LEN, &page->stats);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (before % 2 == 0 && before == __atomic_load_n(sequence, __ATOMIC_RELAXED))
			return 0;
		if (i > COPIES_MAX / 2)
			tool_sleep_ns(100000);
	}
	return -EAGAIN;
}

/* Ends a text, and makes it printable. */
static void clean(char *text, size_t size)
{
	text[size - 1] = '\0';
	for (; *text; text++) {
		if (!isascii((unsigned char)*text) || !isprint((unsigned char)*text))
			*text = '?';
	}
}

/* Counters of a context that has not answered are newer than what it last wrote. */
static void take_counters(const struct ripc_stats *live, struct ripc_stats *stats)
{
	for (size_t i = 0; i < look_n_figures; i++) {
		const struct figure *figure = &look_figures[i];

		if (!figure->is_gathered)
			memcpy((char *)stats + figure->offset,
				(const char *)live + figure->offset, sizeof(uint64_t));
	}
}

int look_read(const void *memory, size_t len, bool answered, struct look_sample *sample)
{
	size_t unit = (size_t)sysconf(_SC_PAGESIZE);
	struct ripc_page *page = &sample->page;
	struct ripc_stats live;
	int error;

	if (len < unit + TABLES_LEN + sizeof(size_t))
		return -EBADMSG;
	copy_stats(memory, unit, &live);
	error = copy_tables((const char *)memory + unit, len - unit, page);
	if (error)
		return error;
	if (page->magic != RIPC_PAGE_MAGIC || page->version != RIPC_PAGE_VERSION ||
			page->word != sizeof(size_t) ||
			page->n_services > RIPC_PAGE_SERVICES ||
			page->n_partners > RIPC_PAGE_PARTNERS ||
			page->n_members > RIPC_PAGE_MEMBERS)
		return -EBADMSG;
	for (uint32_t i = 0; i < page->n_partners; i++) {
		clean(page->partners[i].network, sizeof(page->partners[i].network));
		clean(page->partners[i].address, sizeof(page->partners[i].address));
	}
	if (!answered)
		take_counters(&live, &page->stats);
	sample->taken_ns = tool_now_ns();
	return 0;
}

double look_rate(const struct look_context *of, uint64_t now, uint64_t before)
{
	uint64_t ns = of->now.taken_ns - of->before.taken_ns;

	if (!of->before.taken_ns || ns == 0 || now < before)
		return 0;
	return (double)(now - before) * 1e9 / (double)ns;
}

const struct ripc_page_partner *look_before(const struct look_context *of,
		const struct ripc_page_partner *partner)
{
	const struct ripc_page *page = &of->before.page;

	for (uint32_t i = 0; of->before.taken_ns && i < page->n_partners; i++) {
		const struct ripc_page_partner *other = &page->partners[i];

		if (other->service == partner->service && other->id == partner->id &&
				other->incarnation == partner->incarnation)
			return other;
	}
	return NULL;
}
