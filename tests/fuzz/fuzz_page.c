/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as the page of a context (ripc/page.h), which "ripc top" reads twice and shows: what
 * it takes has no more entries than there is room for, and only printable text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../tools/look/top.h"
#include "fuzz.h"

static void check_text(const char *text, size_t size)
{
	CLAIM(memchr(text, '\0', size) != NULL);
	for (; *text; text++)
		CLAIM(*text >= ' ' && *text <= '~');
}

static void check_sample(const struct look_sample *sample)
{
	const struct ripc_page *page = &sample->page;

	CLAIM(page->n_services <= RIPC_PAGE_SERVICES && page->n_partners <= RIPC_PAGE_PARTNERS &&
		page->n_members <= RIPC_PAGE_MEMBERS);
	CLAIM(page->stats.size == sizeof(page->stats) && sample->taken_ns);
	for (uint32_t i = 0; i < page->n_partners; i++) {
		check_text(page->partners[i].network, sizeof(page->partners[i].network));
		check_text(page->partners[i].address, sizeof(page->partners[i].address));
	}
}

/* The bytes again and again; the head is right where the first byte says so. */
static void fill(uint8_t *memory, size_t len, const uint8_t *data, size_t data_len)
{
	struct ripc_page *page = (struct ripc_page *)(memory + sysconf(_SC_PAGESIZE));

	for (size_t at = 0, n; at < len; at += n) {
		n = at ? at : data_len; /* the same bytes once more */
		n = n < len - at ? n : len - at;
		memcpy(memory + at, at ? memory : data, n);
	}
	if (!(data[0] & 1) || len < sizeof(*page) + (size_t)sysconf(_SC_PAGESIZE))
		return;
	page->magic = RIPC_PAGE_MAGIC;
	page->version = RIPC_PAGE_VERSION;
	page->word = sizeof(size_t);
	page->sequence &= ~1u; /* without this, each run would wait for the end of the writing */
	page->n_services %= RIPC_PAGE_SERVICES + 2;
	page->n_partners %= RIPC_PAGE_PARTNERS + 2;
	page->n_members %= RIPC_PAGE_MEMBERS + 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_len)
{
	static FILE *nowhere;
	static struct look_context of; /* too large for the stack of some */
	struct look look = {.list = {&of}, .n = 1};
	size_t len;
	uint8_t *memory;

	nowhere = nowhere ? nowhere : fopen("/dev/null", "w");
	if (data_len < 2 || !nowhere)
		return 0;
	len = (size_t)sysconf(_SC_PAGESIZE) + sizeof(struct ripc_page) + 8 - data[1] % 9;
	len = data[0] & 2 ? len : len / (1u + data[1]);
	memory = malloc(len + 1);
	if (!memory)
		return 0;
	fill(memory, len, data, data_len);
	of = (struct look_context){.command = "fuzz", .answered = data[0] & 4};
	if (look_read(memory, len, of.answered, &of.before) < 0)
		of.before.taken_ns = 0;
	memory[len / 2]++;
	if (look_read(memory, len, of.answered, &of.now) == 0) {
		check_sample(&of.now);
		if (data[0] & 16) /* takes most of the time */
			top_json(nowhere, &look);
		if (data[0] & 32)
			top_screen(nowhere, &look, data[0] & 8 ? 0 : data[1], 80);
	}
	free(memory);
	return 0;
}
