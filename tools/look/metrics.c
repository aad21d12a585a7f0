/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts as OpenMetrics: a family for each figure of struct ripc_stats, one for all drops with
 * their cause as a label, and some of each service, its groups, and each partner.
 */
#include <inttypes.h>
#include <string.h>

#include "metrics.h"

#define DROP "drop_"

static void family(FILE *to, const char *name, const char *type, const char *help)
{
	fprintf(to, "# TYPE ripc_%s %s\n# HELP ripc_%s %s.\n", name, type, name, help);
}

/* Text in quotes, as a label has it; commands are printable, but may have quotes. */
static void print_label(FILE *to, const char *name, const char *text)
{
	fprintf(to, "%s=\"", name);
	for (; *text; text++)
		fprintf(to, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
	fputs("\"", to);
}

/* The name of a sample, and by what its context is told from others; more labels may follow. */
static void begin(FILE *to, const char *name, const struct look_context *of)
{
	fprintf(to, "ripc_%s{pid=\"%d\",", name, (int)of->pid);
	print_label(to, "command", of->command);
	fprintf(to, ",context=\"%016" PRIx64 "\"", of->context);
}

/* ---- figures of contexts ------------------------------------------------------------------- */

static bool is_drop(const struct figure *figure)
{
	return strncmp(figure->name, DROP, strlen(DROP)) == 0;
}

static void print_figure(FILE *to, const struct look *look, const struct figure *figure)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s", figure->name, figure->is_gauge ? "" : "_total");
	family(to, figure->name, figure->is_gauge ? "gauge" : "counter", figure->help);
	for (size_t i = 0; i < look->n; i++) {
		if (!look->list[i]->now.taken_ns)
			continue;
		begin(to, name, look->list[i]);
		fprintf(to, "} %" PRIu64 "\n", look_figure(&look->list[i]->now.page.stats, figure));
	}
}

static void print_drops(FILE *to, const struct look *look)
{
	family(to, "drops", "counter", "dropped packets and messages by cause");
	for (size_t i = 0; i < look->n; i++) {
		for (size_t f = 0; look->list[i]->now.taken_ns && f < look_n_figures; f++) {
			if (!is_drop(&look_figures[f]))
				continue;
			begin(to, "drops_total", look->list[i]);
			fprintf(to, ",cause=\"%s\"} %" PRIu64 "\n",
				look_figures[f].name + strlen(DROP),
				look_figure(&look->list[i]->now.page.stats, &look_figures[f]));
		}
	}
}

static void print_answers(FILE *to, const struct look *look)
{
	family(to, "answers", "gauge", "1: the context responds; 0: only its counters are current");
	for (size_t i = 0; i < look->n; i++) {
		begin(to, "answers", look->list[i]);
		fprintf(to, "} %d\n", look->list[i]->answered);
	}
}

/* ---- services and partners ------------------------------------------------------------------ */

struct column {
	const char *name, *help;
	size_t offset;
	double unit;
};

static const struct column service_columns[] = {
	{"service_queued", "messages that the application has not received yet",
		offsetof(struct ripc_page_service, queued), 1},
	{"service_incoming", "long messages being received",
		offsetof(struct ripc_page_service, incoming), 1},
	{"service_calls", "open calls", offsetof(struct ripc_page_service, calls), 1},
};

static const struct column partner_columns[] = {
	{"partner_rtt_seconds", "smoothed round trip; 0: not measured",
		offsetof(struct ripc_page_partner, rtt_us), 1e-6},
	{"partner_rtt_deviation_seconds", "deviation of the round trip",
		offsetof(struct ripc_page_partner, rtt_deviation_us), 1e-6},
	{"partner_window_bytes", "limit of bytes on their way to us",
		offsetof(struct ripc_page_partner, window_bytes), 1},
	{"partner_in_flight_bytes", "bytes on their way to us",
		offsetof(struct ripc_page_partner, in_flight_bytes), 1},
	{"partner_loss_ratio", "share of bytes lost on their way to us",
		offsetof(struct ripc_page_partner, loss_1024), 1 / 1024.0},
	{"partner_outgoing", "long messages to the partner that have not ended",
		offsetof(struct ripc_page_partner, outgoing), 1},
	{"partner_queued", "messages of the partner that the application has not received yet",
		offsetof(struct ripc_page_partner, queued), 1},
};

static double value_of(const void *row, const struct column *column)
{
	return *(const uint32_t *)((const char *)row + column->offset) * column->unit;
}

static void print_services(FILE *to, const struct look_context *of, const struct column *column)
{
	for (uint32_t i = 0; of->now.taken_ns && i < of->now.page.n_services; i++) {
		const struct ripc_page_service *row = &of->now.page.services[i];

		begin(to, column->name, of);
		fprintf(to, ",service=\"%016" PRIx64 "\",number=\"%u\"} %.9g\n", row->id, i,
			value_of(row, column));
	}
}

static void print_members(FILE *to, const struct look *look)
{
	family(to, "group_member", "gauge", "1: the service is a member of the group");
	for (size_t i = 0; i < look->n; i++) {
		const struct look_context *of = look->list[i];

		for (uint32_t m = 0; of->now.taken_ns && m < of->now.page.n_members; m++) {
			begin(to, "group_member", of);
			fprintf(to, ",service=\"%016" PRIx64 "\",group=\"%016" PRIx64
				"\",number=\"%u\"} 1\n", of->now.page.members[m].service,
				of->now.page.members[m].group, m);
		}
	}
}

static void print_partners(FILE *to, const struct look_context *of, const struct column *column)
{
	for (uint32_t i = 0; of->now.taken_ns && i < of->now.page.n_partners; i++) {
		const struct ripc_page_partner *row = &of->now.page.partners[i];

		begin(to, column->name, of);
		fprintf(to, ",service=\"%016" PRIx64 "\",partner=\"%016" PRIx64 "\","
			"incarnation=\"%016" PRIx64 "\",", row->service, row->id, row->incarnation);
		print_label(to, "network", row->network);
		fprintf(to, "} %.9g\n", value_of(row, column));
	}
}

void metrics_print(FILE *to, const struct look *look)
{
	for (size_t i = 0; i < look_n_figures; i++) {
		if (!is_drop(&look_figures[i]))
			print_figure(to, look, &look_figures[i]);
	}
	print_drops(to, look);
	print_answers(to, look);
	for (size_t c = 0; c < sizeof(service_columns) / sizeof(service_columns[0]); c++) {
		family(to, service_columns[c].name, "gauge", service_columns[c].help);
		for (size_t i = 0; i < look->n; i++)
			print_services(to, look->list[i], &service_columns[c]);
	}
	print_members(to, look);
	for (size_t c = 0; c < sizeof(partner_columns) / sizeof(partner_columns[0]); c++) {
		family(to, partner_columns[c].name, "gauge", partner_columns[c].help);
		for (size_t i = 0; i < look->n; i++)
			print_partners(to, look->list[i], &partner_columns[c]);
	}
	fputs("# EOF\n", to);
}
