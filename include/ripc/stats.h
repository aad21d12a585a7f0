/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters of a context: struct ripc_stats, which ripc_stats_get() of ripc.h fills. ripc.h
 * includes this header.
 */
#ifndef RIPC_STATS_H
#define RIPC_STATS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Counters since the context was opened, and gauges (marked "now"). Names with "bytes" count bytes,
 * all others count events or things. Drops are counted by cause. A message to a group counts once
 * for each member.
 */
struct ripc_stats {
	size_t size; /* sizeof(struct ripc_stats), set by the caller */
	uint64_t short_sent, short_sent_bytes;         /* passed to the network */
	uint64_t short_received, short_received_bytes; /* put into a service's queue */
	uint64_t long_sent, long_sent_bytes;           /* outcome DELIVERED */
	uint64_t long_received, long_received_bytes;   /* put into a service's queue */
	uint64_t long_not_delivered, long_unknown;     /* outcomes of our own sends */
	uint64_t datagrams_sent, datagrams_received;
	/* packets and messages that were received and dropped */
	uint64_t drop_malformed;   /* too short, bad lengths, unknown type */
	uint64_t drop_version;     /* another protocol version or a flag that must be understood */
	uint64_t drop_checksum;    /* altered on the way */
	uint64_t drop_token;       /* no valid token: forged, or of a partner that we forgot; with
	                              keys also short messages without the right to send */
	uint64_t drop_proof;       /* first packet without a valid address proof */
	uint64_t drop_duplicate;   /* seen before */
	uint64_t drop_late;        /* a short message older than the window of 64 */
	uint64_t drop_queue_full;  /* the sender's part of the queue or of the pool is full: the
	                              receiving application is too slow */
	uint64_t drop_no_memory;   /* no buffer for the message */
	uint64_t drop_receive_buffer; /* the kernel had no room (SO_RXQ_OVFL) */
	uint64_t drop_partner_limit;  /* too many partners */
	/* short messages that were to be sent, and were dropped */
	uint64_t drop_send_full;       /* the network took no more */
	uint64_t drop_send_unresolved; /* held for a partner that was not found in time */
	/* events of the reliable protocol */
	uint64_t data_resent_bytes;      /* of long messages, sent again */
	uint64_t pull_requests;          /* requests of the receiver for data */
	uint64_t announcements_repeated; /* sent again because no response arrived */
	uint64_t hellos, retries;        /* first contacts; repeated with a new address token */
	uint64_t messages_refused, messages_abandoned; /* by this context as the receiver */
	uint64_t offload_fallbacks;       /* segmentation offload failed and is used no more */
	uint64_t datagram_size_fallbacks; /* large datagrams vanished; smaller ones are used */
	/* memory */
	uint64_t sends_from_foreign_memory; /* items that were not in the pool */
	uint64_t pool_bytes, pool_limit_bytes, pool_used_bytes; /* now: taken, limit, in use */
	uint64_t partners, partner_bytes;   /* now: known partners, and their memory; not counted:
	                                       long messages in progress, the resolver's records of
	                                       services (100 to 250 bytes each), and the overhead
	                                       of malloc() */
	uint64_t services;                  /* now: registered */
	/* the resolver */
	uint64_t queries_sent;       /* for services, by this context */
	uint64_t queries_answered;   /* of other contexts */
	uint64_t responses_received; /* to the queries of this context */
	uint64_t resolver_dropped;   /* datagrams that were malformed, altered or above a limit */
	/* long messages */
	uint64_t granted_bytes; /* now: requested from the senders and not yet arrived */
	uint64_t path_changes;  /* changes of a remote context's route to another backend */
	uint64_t read_bytes;    /* received by native reads from the senders' memory */
	uint64_t reads_failed;  /* native reads that ended with an error: the bytes were sent */
	/* given messages (RIPC_GIVE) that their receivers read where they are */
	uint64_t mapped_bytes;      /* received, in the senders' memory; or back in our pool */
	uint64_t mapped_held_bytes; /* now: of mapped_bytes, not freed yet */
	uint64_t given_held_bytes;  /* now: given, also given on, and in use because receivers
	                               have not freed them yet; ripc_holders() names them */
	/* replies that native writes put into return buffers */
	uint64_t written_bytes; /* sent, also by attempts that were given up */
	uint64_t writes_failed; /* attempts that were given up: the replies went another way */
	uint64_t landed_bytes;  /* received */
	/* calls (ripc/call.h) */
	uint64_t calls_open;    /* now: without a reply yet */
	uint64_t calls_replied, calls_failed;    /* ended with a reply, or ripc_reply_error();
	                                            ended without one */
	uint64_t calls_repeated, calls_refused;  /* requests sent again; refused with -EAGAIN */
	uint64_t replies_late;  /* received for a call that had ended, and dropped */
	/* groups (ripc/group.h) */
	uint64_t drop_no_member; /* short messages to a group that the service has left, or that the
	                            sender may not send to: received and dropped */
	uint64_t many_sent; /* multicast datagrams to members of a group */
};

#endif
