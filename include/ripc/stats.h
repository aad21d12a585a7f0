/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a context counts: struct ripc_stats, which ripc_stats() of ripc.h fills. ripc.h includes
 * this header.
 */
#ifndef RIPC_STATS_H
#define RIPC_STATS_H

#include <stddef.h>
#include <stdint.h>

/* Counters since the context was opened, and gauges (marked "now"). Drops are by cause. */
struct ripc_stats {
	size_t size; /* sizeof(struct ripc_stats), set by the caller */
	uint64_t short_sent, short_sent_bytes;
	uint64_t short_received, short_received_bytes;
	uint64_t long_sent, long_sent_bytes;         /* outcome DELIVERED */
	uint64_t long_received, long_received_bytes;
	uint64_t long_not_delivered, long_unknown;   /* outcomes of our own sends */
	uint64_t datagrams_sent, datagrams_received;
	/* what was received and dropped */
	uint64_t drop_malformed;   /* too short, bad lengths, unknown type */
	uint64_t drop_version;     /* another protocol version or a flag that must be understood */
	uint64_t drop_checksum;    /* altered on the way */
	uint64_t drop_token;       /* no valid token: forged, or from before we forgot it */
	uint64_t drop_proof;       /* first packet without a valid address proof */
	uint64_t drop_duplicate;   /* seen before */
	uint64_t drop_late;        /* a short older than the window of 64 */
	uint64_t drop_queue_full;  /* the sender's part of the queue or of the pool is full: its
	                              receiver is too slow */
	uint64_t drop_no_memory;   /* no buffer for it */
	uint64_t drop_receive_buffer; /* the kernel had no room (SO_RXQ_OVFL) */
	uint64_t drop_partner_limit;  /* too many partners */
	/* what was to be sent and dropped */
	uint64_t drop_send_full;       /* shorts: the network took no more */
	uint64_t drop_send_unresolved; /* shorts held for a partner that was not found in time */
	/* how the reliable protocol fared */
	uint64_t data_resent_bytes, pull_requests, announcements_repeated, hellos, retries;
	uint64_t messages_refused, messages_abandoned; /* by us as the receiver */
	uint64_t offload_fallbacks;       /* segmentation offload failed and was left */
	uint64_t datagram_size_fallbacks; /* large datagrams vanished; smaller ones used */
	/* memory */
	uint64_t sends_from_foreign_memory; /* items that were not in the pool */
	uint64_t pool_bytes, pool_limit_bytes, pool_used_bytes; /* now: taken, limit, in use */
	uint64_t partners, partner_bytes;   /* now: known partners, and the memory that they take,
	                                       without long messages in progress, the resolver's
	                                       records of services, and malloc's own */
	uint64_t services;                  /* now */
	/* the resolver */
	uint64_t questions_sent, questions_answered, answers_received, resolver_dropped;
	/* long messages */
	uint64_t granted_bytes; /* now: asked of their senders and not yet arrived */
	uint64_t path_changes;  /* partners that went on over another backend */
	uint64_t read_bytes;    /* of those received, taken from their senders by native reads */
	uint64_t reads_failed;  /* native reads that ended with an error: the bytes were sent */
	/* given messages (RIPC_GIVE) that are read where they are */
	uint64_t mapped_bytes;      /* of those received, in their senders' memory */
	uint64_t mapped_held_bytes; /* now: of that, not freed yet */
	uint64_t given_held_bytes;  /* now: of our pool, what receivers hold; it is in use until
	                               they free it */
	/* answers that native writes put into return buffers */
	uint64_t written_bytes; /* of those sent, also if that came to nothing */
	uint64_t writes_failed; /* attempts that were given up: the answers went another way */
	uint64_t landed_bytes;  /* of those received */
	/* calls (ripc/call.h) */
	uint64_t calls_open;    /* now */
	uint64_t calls_answered, calls_failed;   /* by the server; ended without an answer */
	uint64_t calls_repeated, calls_refused;  /* asked again; -EAGAIN */
	uint64_t answers_late;  /* received for a call that had ended, and dropped */
};

#endif
