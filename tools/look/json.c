/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts as JSON, for programs: one line each. IDs are strings, as many readers of JSON keep 53
 * bits only.
 */
#include <inttypes.h>

#include "../common.h"
#include "top.h"

static void print_stats(FILE *to, const struct ripc_stats *stats)
{
	fputs("\"stats\":{", to);
	for (size_t i = 0; i < look_n_figures; i++)
		fprintf(to, "%s\"%s\":%" PRIu64, i ? "," : "", look_figures[i].name,
			look_figure(stats, &look_figures[i]));
	fputs("}", to);
}

/* Growth since the previous sample, per second. */
static void print_rates(FILE *to, const struct look_context *of)
{
	const char *comma = "";

	fputs(",\"rates\":{", to);
	for (size_t i = 0; i < look_n_figures; i++) {
		const struct figure *figure = &look_figures[i];

		if (figure->is_gauge)
			continue;
		fprintf(to, "%s\"%s\":%.1f", comma, figure->name,
			look_rate(of, look_figure(&of->now.page.stats, figure),
				look_figure(&of->before.page.stats, figure)));
		comma = ",";
	}
	fputs("}", to);
}

static void print_service(FILE *to, const struct ripc_page_service *service)
{
	fprintf(to, "{\"id\":\"0x%016" PRIx64 "\",\"incarnation\":\"0x%016" PRIx64 "\","
		"\"queued\":%u,\"incoming\":%u,\"partners\":%u,\"calls\":%u,\"waiting\":%u,"
		"\"draining\":%s}", service->id, service->incarnation, service->queued,
		service->incoming, service->partners, service->calls, service->waiting,
		service->flags & RIPC_PAGE_DRAINING ? "true" : "false");
}

static void print_partner_rates(FILE *to, const struct look_context *of,
		const struct ripc_page_partner *partner)
{
	const struct ripc_page_partner *before = look_before(of, partner);

	if (before)
		fprintf(to, ",\"rates\":{\"shorts_out\":%.1f,\"longs_out\":%.1f,"
			"\"shorts_in\":%.1f,\"longs_in\":%.1f}",
			look_rate(of, partner->shorts_out, before->shorts_out),
			look_rate(of, partner->longs_out, before->longs_out),
			look_rate(of, partner->shorts_in, before->shorts_in),
			look_rate(of, partner->longs_in, before->longs_in));
}

static void print_partner(FILE *to, const struct look_context *of,
		const struct ripc_page_partner *partner)
{
	fprintf(to, "{\"service\":\"0x%016" PRIx64 "\",\"id\":\"0x%016" PRIx64 "\","
		"\"incarnation\":\"0x%016" PRIx64 "\",\"context\":\"0x%016" PRIx64 "\","
		"\"network\":", partner->service, partner->id, partner->incarnation,
		partner->context);
	tool_json_string(to, partner->network);
	fputs(",\"address\":", to);
	tool_json_string(to, partner->address);
	fprintf(to, ",\"ready\":%s,\"dead\":%s,\"rtt_us\":%u,\"rtt_deviation_us\":%u,"
		"\"rtt_least_us\":%u,\"window_bytes\":%u,\"in_flight_bytes\":%u,\"loss\":%.4f,"
		"\"outgoing\":%u,\"queued\":%u,\"held_bytes\":%" PRIu64 ",\"idle_ms\":%u,"
		"\"shorts_out\":%" PRIu64 ",\"longs_out\":%" PRIu64 ",\"shorts_in\":%" PRIu64
		",\"longs_in\":%" PRIu64,
		partner->flags & RIPC_PAGE_READY ? "true" : "false",
		partner->flags & RIPC_PAGE_DEAD ? "true" : "false", partner->rtt_us,
		partner->rtt_deviation_us, partner->rtt_least_us, partner->window_bytes,
		partner->in_flight_bytes, partner->loss_1024 / 1024.0, partner->outgoing,
		partner->queued, partner->held_bytes, partner->idle_ms, partner->shorts_out,
		partner->longs_out, partner->shorts_in, partner->longs_in);
	print_partner_rates(to, of, partner);
	fputs("}", to);
}

static void print_context(FILE *to, const struct look_context *of)
{
	const struct ripc_page *page = &of->now.page;

	fprintf(to, "{\"pid\":%d,\"command\":", (int)of->pid);
	tool_json_string(to, of->command);
	fprintf(to, ",\"user\":%u,\"context\":\"0x%016" PRIx64 "\",\"answers\":%s,",
		(unsigned int)of->uid, of->context, of->answered ? "true" : "false");
	print_stats(to, &page->stats);
	if (of->before.taken_ns)
		print_rates(to, of);
	fprintf(to, ",\"all_services\":%u,\"services\":[", page->all_services);
	for (uint32_t i = 0; i < page->n_services; i++) {
		fputs(i ? "," : "", to);
		print_service(to, &page->services[i]);
	}
	fprintf(to, "],\"all_partners\":%u,\"partners\":[", page->all_partners);
	for (uint32_t i = 0; i < page->n_partners; i++) {
		fputs(i ? "," : "", to);
		print_partner(to, of, &page->partners[i]);
	}
	fprintf(to, "],\"all_members\":%u,\"members\":[", page->all_members);
	for (uint32_t i = 0; i < page->n_members; i++)
		fprintf(to, "%s{\"service\":\"0x%016" PRIx64 "\",\"group\":\"0x%016" PRIx64 "\"}",
			i ? "," : "", page->members[i].service, page->members[i].group);
	fputs("]}\n", to);
}

void top_json(FILE *to, const struct look *look)
{
	for (size_t i = 0; i < look->n; i++) {
		if (look->list[i]->now.taken_ns)
			print_context(to, look->list[i]);
	}
}
