/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The costs of finding services with many hosts: the real resolvers of all hosts, in one process,
 * on a simulated network segment that loses nothing, and on which all that was sent arrives within
 * a millisecond of a simulated clock. Each host has one context with so many services. Counts are
 * exact; the processor times are this machine's, of the resolvers alone.
 *
 *   scale HOSTS SERVICES [LOOKUPS]
 *
 * All services are registered at once; then nothing happens for two minutes, of which the second
 * one counts; then the first host looks up LOOKUPS services of the others (10,000).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../support/util/heap.h"
#include "core/net/backend.h"
#include "core/resolve/resolver.h"
#include "core/wire/record.h"
#include "resolvers/internal.h"
#include "util/bytes.h"

#define TYPE_AT   1
#define ID_AT     48 /* or the bits of a digest */
#define STEP_US   1000u
#define MINUTE_US 60000000u
#define AT_ONCE   1024u /* registrations of one context, as ripc_services_open() has it */
#define LOOKUPS   64u   /* at once, as of so many threads */

struct datagram {
	uint32_t refs, len, from;
	bool group;
	uint8_t data[WIRE_RESOLVE_MAX];
};

struct host {
	struct ripc__resolver *resolver;
	struct filter filter;
	uint32_t index, n_begun, n_published, n_resolved, n_wrong;
	struct datagram **queue;
	uint32_t n_queued, next, room;
	struct datagram *last;
};

struct counts {
	uint64_t sent, delivered, passed; /* to the group; to hosts; through their filters */
	uint64_t answers, bytes;
};

static struct host *hosts;
static uint32_t n_hosts, n_services, n_lookups = 10000;
static uint64_t now_us = 1000000, drawn = 88172645463325252u;
static struct counts counts;

static uint64_t draw(void *arg)
{
	(void)arg;
	drawn ^= drawn << 13;
	drawn ^= drawn >> 7;
	drawn ^= drawn << 17;
	return drawn;
}

/* IDs are spread as hashes of names are. */
static uint64_t id_of(uint32_t host, uint32_t i)
{
	/* No group's: the highest bit is 0. */
	return ((uint64_t)host * n_services + i + 1) * 0x9e3779b97f4a7c15u & INT64_MAX;
}

static uint32_t index_of(const struct host *host, uint64_t id)
{
	/* The inverse of the multiplication. */
	return (uint32_t)(id * 0xf1de83e19937733du - 1 - (uint64_t)host->index * n_services);
}

/* ---- the segment ------------------------------------------------------------------------- */

static void put(struct host *host, struct datagram *datagram)
{
	if (host->n_queued == host->room) {
		host->room = host->room ? 2 * host->room : 64;
		host->queue = realloc(host->queue, host->room * sizeof(struct datagram *));
		if (!host->queue)
			abort();
	}
	host->queue[host->n_queued++] = datagram;
	datagram->refs++;
}

static void drop(struct datagram *datagram)
{
	if (datagram && --datagram->refs == 0)
		free(datagram);
}

static struct datagram *datagram_make(const struct host *from, const void *data, size_t len)
{
	struct datagram *datagram = malloc(sizeof(*datagram));

	if (!datagram || len > sizeof(datagram->data))
		abort();
	datagram->refs = 1;
	datagram->from = from->index;
	datagram->len = (uint32_t)len;
	memcpy(datagram->data, data, len);
	counts.bytes += len;
	return datagram;
}

/* The bits that a datagram needs one of to pass a filter. */
static void bits_of(const struct datagram *datagram, struct filter *filter)
{
	*filter = (struct filter){0};
	if (datagram->data[TYPE_AT] != WIRE_DIGEST)
		ripc__filter_add(filter, get64(datagram->data + ID_AT), false);
	for (uint32_t i = 0; datagram->data[TYPE_AT] == WIRE_DIGEST && i < FILTER_WORDS; i++)
		filter->bits[i] = get32(datagram->data + ID_AT + 4 * (size_t)i);
}

static bool shares_bit(const struct filter *a, const struct filter *b)
{
	bool shares = false;

	for (uint32_t i = 0; i < FILTER_WORDS; i++)
		shares |= a->bits[i] & b->bits[i];
	return shares;
}

static int net_notify(void *source, const void *data, size_t len)
{
	struct host *from = *(struct host **)source;
	struct datagram *datagram = datagram_make(from, data, len);
	bool is_notice = datagram->data[TYPE_AT] != WIRE_QUERY;
	bool is_digest = datagram->data[TYPE_AT] == WIRE_DIGEST, is_kin;
	uint64_t id = get64(datagram->data + ID_AT);
	struct filter bits;

	bits_of(datagram, &bits);
	datagram->group = true;
	counts.sent++;
	for (uint32_t i = 0; i < n_hosts; i++) {
		struct host *host = &hosts[i];

		if (host == from)
			continue;
		counts.delivered++;
		is_kin = is_digest && (host->index - from->index) % WIRE_DIGEST_KIN == 0;
		if (id && !is_kin && !shares_bit(&host->filter, &bits) &&
				!(is_notice && (host->filter.knows || !host->filter.serves)))
			continue;
		counts.passed++;
		put(host, datagram);
	}
	drop(datagram);
	return 1;
}

static int net_ask(void *source, uint64_t id, const void *data, size_t len)
{
	(void)id;
	return net_notify(source, data, len);
}

static int net_reply(void *source, const struct ripc__addr *to, const void *data, size_t len)
{
	struct datagram *datagram = datagram_make(*(struct host **)source, data, len);
	uint32_t index;

	memcpy(&index, to->blob, sizeof(index));
	datagram->group = false;
	counts.answers++;
	put(&hosts[index], datagram);
	drop(datagram);
	return 0;
}

static int net_poll(void *source, struct ripc__source_event *event)
{
	struct host *host = *(struct host **)source;

	drop(host->last);
	host->last = NULL;
	if (host->next == host->n_queued) {
		host->next = host->n_queued = 0;
		return 0;
	}
	host->last = host->queue[host->next++];
	*event = (struct ripc__source_event){.data = host->last->data, .len = host->last->len,
		.group = host->last->group, .host = {[10] = 0xff, 0xff, 10}, .reply.len = 4};
	memcpy(event->host + 13, (uint8_t *)&host->last->from, 3);
	memcpy(event->reply.host, event->host, sizeof(event->host));
	memcpy(event->reply.blob, &host->last->from, 4);
	return 1;
}

static void net_heed(void *source, uint64_t id, bool private_id)
{
	ripc__filter_add(&(*(struct host **)source)->filter, id, private_id);
}

static void net_know(void *source)
{
	ripc__filter_know(&(*(struct host **)source)->filter);
}

static int source_open(void *source, const struct ripc__host *host)
{
	*(struct host **)source = host->env;
	return 0;
}

static void source_close(void *source)
{
	(void)source;
}

/* ---- a host, with nobody else on it ------------------------------------------------------ */

static int home_publish(void *source, uint64_t id, uint64_t incarnation, enum ripc__naming naming)
{
	(void)source;
	(void)id;
	(void)incarnation;
	(void)naming;
	return 0;
}

static void home_withdraw(void *source, uint64_t id)
{
	(void)source;
	(void)id;
}

static int home_ask(void *source, uint64_t id, const void *data, size_t len)
{
	(void)source;
	(void)id;
	(void)data;
	(void)len;
	return 0;
}

static int home_reply(void *source, const struct ripc__addr *to, const void *data, size_t len)
{
	(void)source;
	(void)to;
	(void)data;
	(void)len;
	return 0;
}

static int home_poll(void *source, struct ripc__source_event *event)
{
	(void)source;
	(void)event;
	return 0;
}

static const struct ripc__source home = {.name = "local", .size = sizeof(struct host *),
	.open = source_open, .close = source_close, .publish = home_publish,
	.withdraw = home_withdraw, .ask = home_ask, .reply = home_reply, .poll = home_poll};
static const struct ripc__source net = {.name = "multicast", .size = sizeof(struct host *),
	.open = source_open, .close = source_close, .ask = net_ask, .reply = net_reply,
	.notify = net_notify, .poll = net_poll, .heed = net_heed, .know = net_know};

static uint64_t owner_proof(void *arg, uint64_t asker, const uint8_t host[16])
{
	(void)arg;
	return asker + host[12];
}

static int owner_record(void *arg, uint64_t id, struct wire_record *record)
{
	const struct host *host = arg;

	if (index_of(host, id) >= n_services)
		return -ENOENT;
	*record = (struct wire_record){.id = id, .incarnation = ~id, .stamp = 1,
		.host = host->index + 1, .context = host->index + 1, .n_addrs = 2,
		.addrs = {{.backend = 1, .len = 30}, {.backend = 2, .len = 20}}};
	return 0;
}

static uint32_t owner_ids(void *arg, uint64_t *ids, uint32_t max)
{
	const struct host *host = arg;

	for (uint32_t i = 0; i < max && i < n_services; i++)
		ids[i] = id_of(host->index, i);
	return n_services;
}

static void owner_resolved(void *arg, uint64_t id, int status, const struct ripc__answer *answer)
{
	struct host *host = arg;

	host->n_resolved++;
	host->n_wrong += status || answer->record.incarnation != ~id;
}

static void owner_published(void *arg, uint64_t id, int status)
{
	struct host *host = arg;

	(void)id;
	host->n_published++;
	host->n_wrong += status != 0;
}

static void owner_conflict(void *arg, uint64_t id, uint64_t incarnation)
{
	(void)id;
	(void)incarnation;
	((struct host *)arg)->n_wrong++;
}

static bool owner_moved(void *arg, uint64_t id, uint64_t incarnation)
{
	(void)arg;
	(void)id;
	(void)incarnation;
	return false;
}

static void silent_log(void *arg, int level, const char *format, ...)
{
	(void)arg;
	(void)level;
	(void)format;
}

static void host_open(uint32_t index)
{
	static const struct ripc__source *const sources[] = {&home, &net, NULL};
	struct host *host = &hosts[index];
	const struct ripc__host env = {.arg = host, .log = silent_log, .env = host,
		.context = index + 1};
	const struct ripc__resolver_owner owner = {.arg = host, .context = index + 1,
		.random = draw, .proof = owner_proof, .record = owner_record, .ids = owner_ids,
		.resolved = owner_resolved, .published = owner_published,
		.conflict = owner_conflict, .moved = owner_moved};

	host->index = index;
	if (ripc__resolver_open(&owner, &env, sources, &host->resolver))
		abort();
}

/* ---- what happens ------------------------------------------------------------------------ */

static void step_all(uint64_t step_us)
{
	now_us += step_us;
	for (uint32_t i = 0; i < n_hosts; i++) {
		struct host *host = &hosts[i];

		/* Datagrams arriving in this step are heard in the next one. */
		while (host->next < host->n_queued ||
				ripc__resolver_deadline(host->resolver) <= now_us)
			ripc__resolver_step(host->resolver, now_us);
	}
}

static void begin_more(struct host *host)
{
	while (host->n_begun < n_services && host->n_begun < host->n_published + AT_ONCE)
		ripc__resolver_publish(host->resolver, id_of(host->index, host->n_begun++), false,
			now_us);
}

static uint64_t register_all(void)
{
	uint64_t began_us = now_us;
	uint32_t n_ready;

	do {
		n_ready = 0;
		for (uint32_t i = 0; i < n_hosts; i++) {
			begin_more(&hosts[i]);
			n_ready += hosts[i].n_published == n_services;
		}
		step_all(STEP_US);
	} while (n_ready < n_hosts);
	return now_us - began_us;
}

static uint64_t look_up(void)
{
	struct host *host = &hosts[0];
	uint64_t began_us = now_us;
	uint32_t n_begun = 0;

	while (host->n_resolved < n_lookups) {
		for (; n_begun < n_lookups && n_begun < host->n_resolved + LOOKUPS; n_begun++) {
			const struct ripc__answer *answer;
			uint32_t at = 1 + n_begun % (n_hosts - 1);

			ripc__resolver_lookup(host->resolver, id_of(at,
				n_begun / (n_hosts - 1)), now_us, &answer);
		}
		step_all(STEP_US);
	}
	return now_us - began_us;
}

/* Without what the segment itself has. */
static size_t heap(void)
{
	for (uint32_t i = 0; i < n_hosts; i++) {
		struct host *host = &hosts[i];

		drop(host->last);
		free(host->queue); /* all was heard */
		host->last = NULL;
		host->queue = NULL;
		host->n_queued = host->next = host->room = 0;
	}
	return heap_bytes();
}

static double processor_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Results of one phase; each: the divisor. */
static void say(const char *what, double each, uint64_t took_us, double began_s, size_t heap_before)
{
	printf("%-10s %8.3f s; each: %.2f datagrams to the group, %.1f deliveries to other hosts, "
		"%.2f of them pass their filters, %.2f answers, %.0f bytes sent, %.2f us of "
		"processor, %.0f bytes of heap\n", what, (double)took_us / 1e6,
		(double)counts.sent / each, (double)counts.delivered / each,
		(double)counts.passed / each, (double)counts.answers / each,
		(double)counts.bytes / each, (processor_s() - began_s) * 1e6 / each,
		((double)heap() - (double)heap_before) / each);
	fflush(stdout);
	counts = (struct counts){0};
}

static void pass_minute(void)
{
	for (uint32_t i = 0; i < MINUTE_US / STEP_US / 10; i++)
		step_all(10 * STEP_US);
}

static int run(void)
{
	double n = (double)n_hosts * n_services, began_s = processor_s();
	uint32_t n_wrong = 0;
	size_t before = heap();
	uint64_t took_us;

	took_us = register_all();
	for (uint32_t i = 0; i < 100; i++) /* the second announcements */
		step_all(STEP_US);
	say("registered", n, took_us, began_s, before);
	pass_minute(); /* the first digests */
	counts = (struct counts){0};
	began_s = processor_s();
	before = heap();
	pass_minute();
	say("a minute", n, MINUTE_US, began_s, before);
	began_s = processor_s();
	before = heap();
	took_us = look_up();
	for (uint32_t i = 0; i < 300; i++) /* lookups linger */
		step_all(STEP_US);
	say("looked up", n_lookups, took_us, began_s, before);
	for (uint32_t i = 0; i < n_hosts; i++) {
		n_wrong += hosts[i].n_wrong;
		ripc__resolver_close(hosts[i].resolver);
		drop(hosts[i].last);
		free(hosts[i].queue);
	}
	printf("%u wrong\n", n_wrong);
	return n_wrong != 0;
}

int main(int argc, char **argv)
{
	n_hosts = argc > 2 ? (uint32_t)atoi(argv[1]) : 0;
	n_services = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
	n_lookups = argc > 3 ? (uint32_t)atoi(argv[3]) : n_lookups;
	if (n_hosts < 2 || n_services < 1 || n_lookups > (n_hosts - 1) * n_services ||
			n_lookups > 60000) {
		fprintf(stderr, "usage: scale HOSTS SERVICES [LOOKUPS]\n");
		return 2;
	}
	hosts = calloc(n_hosts, sizeof(*hosts));
	if (!hosts)
		return 1;
	for (uint32_t i = 0; i < n_hosts; i++)
		host_open(i);
	return run();
}
