/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshakes [COUNT [PARTNERS]]: what a handshake costs the processor at either end, and what
 * memory a partner takes for its keys. Both ends live in this process, and hand each other their
 * datagrams; no network and no kernel are in between. Prints a line of JSON: microseconds of
 * processor, the median of 20 parts of COUNT handshakes (2,000) of two ends, and bytes of the heap
 * for each of PARTNERS (10,000) members that have a session.
 */
#include <time.h>

#include "../../../support/util/heap.h"
#include "../../../support/util/key_end.h"
#include "core/base/base.h"

#define PARTS   20u
#define SWEPT_US 30000000u /* then what is kept for some seconds has gone */
#define PAUSE_US 5000u /* between handshakes, so that no budget is used up */

static struct key_end ends[2];
static char dirs[2][KEY_END_DIR];

static int fail(const char *what)
{
	fprintf(stderr, "handshakes: %s\n", what);
	return 1;
}

static double cpu_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void pass(int to)
{
	struct key_datagram came;

	if (!ends[!to].n_sent)
		return;
	came = ends[!to].sent[--ends[!to].n_sent];
	ripc__handshake_input(key_end_net(&ends[to]), came.bytes, came.len, &ends[!to].addr);
}

static void pause_pass(void)
{
	for (int i = 0; i < 2; i++) {
		ends[i].n_sent = 0;
		ends[i].now_us += PAUSE_US;
		ripc_poll(ends[i].ctx);
	}
}

/* One handshake that the first end begins with a valid proof. Adds up what each end computed. */
static bool shake(double us[2])
{
	struct member *member = key_end_member(&ends[0], &ends[1]);
	double t[5];

	if (!member)
		return false;
	ripc__member_proof_keep(ends[0].ctx->seal, member, ripc__proof(ends[1].ctx,
		ends[0].ctx->incarnation, ends[0].addr.host, 0));
	t[0] = cpu_us();
	if (ripc__handshake_begin(key_end_net(&ends[0]), member, &ends[1].addr))
		return false;
	t[1] = cpu_us();
	pass(1);
	t[2] = cpu_us();
	pass(0);
	t[3] = cpu_us();
	us[0] += t[1] - t[0] + t[3] - t[2];
	us[1] += t[2] - t[1];
	pause_pass();
	return member->current != NULL;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static bool shakes(unsigned int count, double medians[2])
{
	double us[2][PARTS] = {{0}};

	for (unsigned int part = 0; part < PARTS; part++) {
		double sum[2] = {0};

		for (unsigned int i = 0; i < count / PARTS; i++)
			if (!shake(sum))
				return false;
		us[0][part] = sum[0] / (count / PARTS);
		us[1][part] = sum[1] / (count / PARTS);
	}
	for (int end = 0; end < 2; end++) {
		qsort(us[end], PARTS, sizeof(us[end][0]), by_value);
		medians[end] = us[end][PARTS / 2];
	}
	return true;
}

/* Each time the first end is another context; the second one keeps what it knows of each. */
static double bytes_each(unsigned int n)
{
	struct seal *seal = ends[1].ctx->seal, *first = ends[0].ctx->seal;
	size_t before = heap_bytes();
	double us[2] = {0};

	for (unsigned int i = 0; i < n; i++) {
		struct member *theirs;

		ends[0].ctx->incarnation += 2;
		if (!shake(us))
			return -1;
		theirs = key_end_member(&ends[1], &ends[0]);
		if (!theirs || !theirs->next)
			return -1;
		ripc__session_confirm(key_end_net(&ends[1]),
			ripc__session_by(seal, theirs->next));
		ripc__member_hold(seal, theirs);
		/* The knowledge of the first end is deleted: it is the same member each time. */
		ripc__sessions_end(first, key_end_member(&ends[0], &ends[1]));
	}
	ends[1].now_us += SWEPT_US;
	ripc_poll(ends[1].ctx);
	return (double)(heap_bytes() - before) / n;
}

static bool open_ends(void)
{
	static const uint8_t secret[32] = {1}, private[2][32] = {{2}, {3}};

	for (int i = 0; i < 2; i++) {
		if (!key_end_dir_make(dirs[i], private[i], secret) ||
				key_end_open(&ends[i], dirs[i], (uint8_t)(i + 1),
					ripc__crypto_load))
			return false;
		key_end_dir_remove(dirs[i]);
	}
	return true;
}

int main(int argc, char **argv)
{
	unsigned int count = argc > 1 ? (unsigned int)atoi(argv[1]) : 2000;
	unsigned int partners = argc > 2 ? (unsigned int)atoi(argv[2]) : 10000;
	double us[2], bytes;

	if (count < PARTS || !partners)
		return fail("usage: handshakes [COUNT [PARTNERS]]");
	if (!open_ends())
		return fail("no context with keys can be opened (RIPC_LOG=error says why)");
	if (!shakes(count, us))
		return fail("a handshake did not end well");
	bytes = bytes_each(partners);
	if (bytes < 0)
		return fail("a partner has no session");
	printf("{\"initiator_us\": %.1f, \"responder_us\": %.1f, \"bytes_each\": %.1f}\n", us[0],
		us[1], bytes);
	for (int i = 0; i < 2; i++)
		ripc_close(ends[i].ctx, 0);
	return 0;
}
