/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts on a screen, for people: first a line for each, with its rates and its memory; then what
 * each dropped and why, its services and its partners, the busiest first. Contexts share the lines
 * of the screen. Lines that do not fit are counted.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "top.h"

#define ROWS_MAX  RIPC_PAGE_PARTNERS
#define LINES_MIN 8 /* for a context */

struct screen {
	FILE *to;
	int n_lines, n_columns; /* n_lines 0: any number */
	int line;
	int end;                 /* of the lines for this context; n_lines 0: not looked at */
	unsigned int left_out;
};

static void __attribute__((format(printf, 2, 3)))
say(struct screen *screen, const char *format, ...)
{
	char line[512];
	va_list args;

	/* The last line tells how many are left out. */
	if (screen->n_lines && screen->line + 1 >= screen->n_lines) {
		screen->left_out++;
		return;
	}
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(screen->to, "%.*s\n", screen->n_columns, line);
	screen->line++;
}

/* How many of so many rows are shown in so many lines, with a heading and a count of the others. */
static uint32_t rows_shown(const struct screen *screen, uint32_t n, int room)
{
	if (!screen->n_lines || (int)n < room)
		return n;
	return room > 2 ? (uint32_t)room - 2 : 0;
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* A number in at most five characters: 12, 1234, 12.3k, 1.2M. */
static const char *brief(double value, double step, char text[16])
{
	static const char *const suffixes[] = {"", "k", "M", "G", "T", "P", "E"};
	unsigned int i = 0;

	while (value >= 9999.5 && i < 6) {
		value /= step;
		i++;
	}
	while (i > 0 && value >= 999.5 && i < 6) {
		value /= step;
		i++;
	}
	snprintf(text, 16, i > 0 && value < 99.95 ? "%.1f%s" : "%.0f%s", value, suffixes[i]);
	return text;
}

#define COUNT(value) brief((double)(value), 1000, (char[16]){0})
#define BYTES(value) brief((double)(value), 1024, (char[16]){0})
/* Without a sample before there is no rate. */
#define PER_SECOND(of, shown) ((of)->before.taken_ns ? (shown) : "-")
#define GROWTH(of, name) \
	look_rate(of, (of)->now.page.stats.name, (of)->before.page.stats.name)
#define RATE(of, name) PER_SECOND(of, COUNT(GROWTH(of, name)))

/* ---- contexts ------------------------------------------------------------------------------ */

static void say_overview(struct screen *screen, const struct look *look)
{
	say(screen, "%-15s %7s %11s %6s %11s %6s %12s %6s %10s %6s", "command", "pid",
		"short/s out", "in", "long/s out", "in", "bytes/s out", "in", "pool used", "taken");
	for (size_t i = 0; i < look->n; i++) {
		const struct look_context *of = look->list[i];

		if (!of->now.taken_ns) {
			say(screen, "%-15s %7d %s", of->command, (int)of->pid, of->answered ?
				"no data: the process may use another version of libripc" :
				"no response yet");
			continue;
		}
		say(screen, "%-15s %7d %11s %6s %11s %6s %12s %6s %10s %6s%s", of->command,
			(int)of->pid, RATE(of, short_sent), RATE(of, short_received),
			RATE(of, long_sent), RATE(of, long_received),
			PER_SECOND(of, BYTES(GROWTH(of, short_sent_bytes) +
				GROWTH(of, long_sent_bytes))),
			PER_SECOND(of, BYTES(GROWTH(of, short_received_bytes) +
				GROWTH(of, long_received_bytes))),
			BYTES(of->now.page.stats.pool_used_bytes),
			BYTES(of->now.page.stats.pool_bytes),
			of->answered ? "" : "  no response");
	}
}

/* Which context it is, and whose memory is in use because of whom. */
static void say_context(struct screen *screen, const struct look_context *of)
{
	const struct ripc_stats *stats = &of->now.page.stats;

	say(screen, "%s", "");
	say(screen, "%s %d, context %016" PRIx64 "%s", of->command, (int)of->pid, of->context,
		of->answered ? "" : ": no response, only its counters are current");
	if (stats->given_held_bytes || stats->mapped_held_bytes || stats->granted_bytes)
		say(screen, "  memory: %s of ours held by receivers, %s of senders held by us, "
			"%s on their way to us", BYTES(stats->given_held_bytes),
			BYTES(stats->mapped_held_bytes), BYTES(stats->granted_bytes));
}

/* Events that cost an application a message or a call. */
static const char *const losses[] = {"long_not_delivered", "long_unknown", "messages_refused",
	"messages_abandoned", "calls_failed", "calls_refused", "drop_version", "drop_queue_full",
	"drop_no_memory", "drop_receive_buffer", "drop_partner_limit", "drop_send_full",
	"drop_send_unresolved", NULL};
/*
 * Events that the protocol mends, which also occur in normal operation: when partners start, and
 * end.
 */
static const char *const mended[] = {"drop_malformed", "drop_checksum", "drop_token", "drop_proof",
	"drop_duplicate", "drop_late", "drop_no_member", "announcements_repeated",
	"data_resent_bytes", "path_changes", "reads_failed", "writes_failed", NULL};

/* The figures of these names; nothing is said of a cause that has not come up. */
static void say_figures(struct screen *screen, const struct look_context *of, const char *title,
		const char *const *names)
{
	char line[400] = "";
	size_t len = 0;

	for (; *names; names++) {
		for (size_t i = 0; i < look_n_figures; i++) {
			const struct figure *figure = &look_figures[i];
			uint64_t value = look_figure(&of->now.page.stats, figure);

			if (strcmp(figure->name, *names) == 0 && value && len < sizeof(line))
				len += (size_t)snprintf(line + len, sizeof(line) - len,
					"%s%s %" PRIu64, len ? ", " : "", figure->name, value);
		}
	}
	if (len > 0)
		say(screen, "  %s: %s", title, line);
}

/* ---- services and partners ------------------------------------------------------------------ */

static int compare_services(const void *a, const void *b)
{
	const struct ripc_page_service *left = a, *right = b;
	uint64_t l = (uint64_t)left->queued + left->calls + left->incoming;
	uint64_t r = (uint64_t)right->queued + right->calls + right->incoming;

	return l != r ? (l > r ? -1 : 1) : left->id < right->id ? -1 : left->id > right->id;
}

static void say_service(struct screen *screen, const struct ripc_page *page,
		const struct ripc_page_service *service)
{
	char groups[256] = "";
	size_t len = 0;

	for (uint32_t i = 0; i < page->n_members && len + 24 < sizeof(groups); i++) {
		if (page->members[i].service == service->id)
			len += (size_t)snprintf(groups + len, sizeof(groups) - len,
				"%s0x%016" PRIx64, len ? ", " : "  in ", page->members[i].group);
	}
	say(screen, "  0x%016" PRIx64 " %7u %8u %8u %6u %7u%s%s", service->id, service->queued,
		service->incoming, service->partners, service->calls, service->waiting,
		service->flags & RIPC_PAGE_DRAINING ? "  draining" : "", groups);
}

/* Leaves half of the lines to the partners, if they need as many. */
static void say_services(struct screen *screen, const struct look_context *of)
{
	struct ripc_page_service list[RIPC_PAGE_SERVICES];
	const struct ripc_page *page = &of->now.page;
	int room = screen->end - screen->line, need = (int)page->n_partners + 1;
	uint32_t n;

	need = need < room / 2 ? need : room / 2;
	n = rows_shown(screen, page->n_services, room - need);
	memcpy(list, page->services, page->n_services * sizeof(list[0]));
	qsort(list, page->n_services, sizeof(list[0]), compare_services);
	if (n)
		say(screen, "  %-18s %7s %8s %8s %6s %7s", "service", "queued", "incoming",
			"partners", "calls", "waiting");
	for (uint32_t i = 0; i < n; i++)
		say_service(screen, page, &list[i]);
	if (page->all_services > n)
		say(screen, "  ... and %u services", page->all_services - n);
}

struct row {
	const struct ripc_page_partner *partner;
	double out, in; /* messages a second; below 0: not known */
};

static int compare_rows(const void *a, const void *b)
{
	const struct row *left = a, *right = b;
	double l = left->out + left->in, r = right->out + right->in;

	if (l < r || l > r)
		return l > r ? -1 : 1;
	return left->partner < right->partner ? -1 : left->partner > right->partner;
}

static struct row row_of(const struct look_context *of, const struct ripc_page_partner *partner)
{
	const struct ripc_page_partner *before = look_before(of, partner);
	struct row row = {partner, -1, -1};

	if (!before)
		return row;
	row.out = look_rate(of, partner->shorts_out, before->shorts_out) +
		look_rate(of, partner->longs_out, before->longs_out);
	row.in = look_rate(of, partner->shorts_in, before->shorts_in) +
		look_rate(of, partner->longs_in, before->longs_in);
	return row;
}

static void say_partner(struct screen *screen, const struct row *row)
{
	const struct ripc_page_partner *partner = row->partner;
	const char *state = partner->incarnation ? "" : "searching";

	say(screen, "  0x%016" PRIx64 " %-6s %6s %6s %6s %6s %5.1f%% %5s %5s %6s  %s%s",
		partner->id, partner->network, partner->rtt_us ? COUNT(partner->rtt_us) : "-",
		partner->rtt_us ? COUNT(partner->rtt_deviation_us) : "-",
		BYTES(partner->window_bytes),
		BYTES(partner->in_flight_bytes), partner->loss_1024 / 10.24,
		row->out < 0 ? "-" : COUNT(row->out), row->in < 0 ? "-" : COUNT(row->in),
		BYTES(partner->held_bytes), partner->address, state);
}

static void say_partners(struct screen *screen, const struct look_context *of)
{
	const struct ripc_page *page = &of->now.page;
	struct row rows[ROWS_MAX];
	uint32_t n = 0, gone = 0, shown, more;

	for (uint32_t i = 0; i < page->n_partners; i++) {
		if (page->partners[i].flags & RIPC_PAGE_DEAD)
			gone++;
		else
			rows[n++] = row_of(of, &page->partners[i]);
	}
	qsort(rows, n, sizeof(rows[0]), compare_rows);
	shown = rows_shown(screen, n, screen->end - screen->line);
	more = page->all_partners > shown + gone ? page->all_partners - shown - gone : 0;
	if (shown)
		say(screen, "  %-18s %-6s %6s %6s %6s %6s %6s %5s %5s %6s  %s", "partner", "by",
			"rtt us", "+-", "window", "flying", "loss", "out/s", "in/s", "held",
			"address");
	for (uint32_t i = 0; i < shown; i++)
		say_partner(screen, &rows[i]);
	if (more && gone)
		say(screen, "  ... and %u partners, and %u ended ones", more, gone);
	else if (more || gone)
		say(screen, "  ... and %u%s partners", more + gone, gone ? " ended" : "");
}

/* ---- the screen ----------------------------------------------------------------------------- */

/* Gives the next of n contexts its lines. False: there are too few. */
static bool has_room(struct screen *screen, int n)
{
	int room = screen->n_lines - 1 - screen->line, share = room / n;

	screen->end = screen->line + (share > LINES_MIN ? share : LINES_MIN);
	return !screen->n_lines || room >= LINES_MIN;
}

static void say_details(struct screen *screen, const struct look_context *of)
{
	say_context(screen, of);
	say_figures(screen, of, "troubles", losses);
	say_figures(screen, of, "mended", mended);
	say_services(screen, of);
	say_partners(screen, of);
}

void top_screen(FILE *to, const struct look *look, int n_lines, int n_columns)
{
	struct screen screen = {.to = to, .n_lines = n_lines, .n_columns = n_columns};
	int n = 0;

	if (look->n == 0)
		say(&screen, "no context found in this network namespace (for that of a process: "
			"nsenter -t PID -n ripc top)");
	else
		say_overview(&screen, look);
	for (size_t i = 0; i < look->n; i++)
		n += look->list[i]->now.taken_ns != 0;
	for (size_t i = 0; i < look->n; i++) {
		if (!look->list[i]->now.taken_ns)
			continue;
		if (!has_room(&screen, n))
			break;
		say_details(&screen, look->list[i]);
		n--;
	}
	if (screen.left_out)
		fprintf(to, "... and %u lines\n", screen.left_out);
	else if (n)
		fprintf(to, "... and details of %d contexts\n", n);
}
