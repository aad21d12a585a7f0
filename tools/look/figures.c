/* SPDX-License-Identifier: BSD-3-Clause */
/* The figures of struct ripc_stats, with what they say in words. */
#include "look.h"

#define COUNTER(name, help) {#name, help, offsetof(struct ripc_stats, name), false, false}
#define GATHERED(name, help) {#name, help, offsetof(struct ripc_stats, name), false, true}
#define GAUGE(name, help) {#name, help, offsetof(struct ripc_stats, name), true, true}

const struct figure look_figures[] = {
	COUNTER(short_sent, "short messages sent"),
	COUNTER(short_sent_bytes, "bytes of short messages sent"),
	COUNTER(short_received, "short messages received"),
	COUNTER(short_received_bytes, "bytes of short messages received"),
	COUNTER(long_sent, "long messages delivered"),
	COUNTER(long_sent_bytes, "bytes of long messages delivered"),
	COUNTER(long_received, "long messages received"),
	COUNTER(long_received_bytes, "bytes of long messages received"),
	COUNTER(long_not_delivered, "long messages of ours that were not delivered"),
	COUNTER(long_unknown, "long messages of ours whose outcome is unknown"),
	COUNTER(datagrams_sent, "datagrams sent"),
	COUNTER(datagrams_received, "datagrams received"),
	COUNTER(drop_malformed, "dropped: malformed"),
	COUNTER(drop_version, "dropped: another version"),
	COUNTER(drop_checksum, "dropped: altered in transit"),
	COUNTER(drop_token, "dropped: no valid token"),
	COUNTER(drop_proof, "dropped: no valid address token"),
	COUNTER(drop_duplicate, "dropped: duplicate"),
	COUNTER(drop_late, "dropped: short message too old"),
	COUNTER(drop_queue_full, "dropped: the application is too slow"),
	COUNTER(drop_no_memory, "dropped: no buffer"),
	GATHERED(drop_receive_buffer, "dropped: the kernel had no room"),
	COUNTER(drop_partner_limit, "dropped: too many partners"),
	COUNTER(drop_send_full, "not sent: the network accepted no more"),
	COUNTER(drop_send_unresolved, "not sent: the partner was not found in time"),
	COUNTER(data_resent_bytes, "bytes sent again"),
	COUNTER(pull_requests, "requests for bytes"),
	COUNTER(announcements_repeated, "announcements repeated"),
	COUNTER(hellos, "hello packets received"),
	COUNTER(retries, "retries"),
	COUNTER(messages_refused, "long messages that this context refused"),
	COUNTER(messages_abandoned, "long messages that this context gave up receiving"),
	GATHERED(offload_fallbacks, "fallbacks from segmentation offload"),
	COUNTER(datagram_size_fallbacks, "fallbacks to smaller datagrams"),
	COUNTER(sends_from_foreign_memory, "items sent from memory outside the pool"),
	GAUGE(pool_bytes, "memory of the pool"),
	GAUGE(pool_limit_bytes, "limit of the pool"),
	GAUGE(pool_used_bytes, "memory of the pool in use"),
	GAUGE(partners, "partners known"),
	GAUGE(partner_bytes, "memory of the partners"),
	GAUGE(services, "services"),
	GATHERED(queries_sent, "queries of the resolver"),
	GATHERED(queries_answered, "queries from others answered"),
	GATHERED(responses_received, "responses to the resolver"),
	GATHERED(resolver_dropped, "packets that the resolver dropped"),
	GAUGE(granted_bytes, "bytes on their way to us"),
	COUNTER(path_changes, "routes moved to another network"),
	COUNTER(read_bytes, "bytes read from the senders' memory"),
	COUNTER(reads_failed, "reads that failed"),
	COUNTER(mapped_bytes, "transferred bytes received in the senders' memory"),
	GAUGE(mapped_held_bytes, "transferred bytes of others that are not freed yet"),
	GAUGE(given_held_bytes, "memory of our pool that receivers have not freed yet"),
	COUNTER(written_bytes, "bytes written into return buffers"),
	COUNTER(writes_failed, "writes that were given up"),
	COUNTER(landed_bytes, "bytes that others wrote into return buffers"),
	GAUGE(calls_open, "calls open"),
	COUNTER(calls_replied, "calls that ended with a reply"),
	COUNTER(calls_failed, "calls that ended without a reply"),
	COUNTER(calls_repeated, "requests sent again"),
	COUNTER(calls_refused, "requests refused"),
	COUNTER(replies_late, "replies that arrived too late"),
	COUNTER(drop_no_member, "dropped: to a group, by a service that is no member"),
	COUNTER(many_sent, "multicast datagrams sent to groups"),
};

const size_t look_n_figures = sizeof(look_figures) / sizeof(look_figures[0]);

_Static_assert(offsetof(struct ripc_stats, short_sent) +
	sizeof(look_figures) / sizeof(look_figures[0]) * sizeof(uint64_t) ==
	sizeof(struct ripc_stats), "each figure is listed once");
