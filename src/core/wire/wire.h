/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes on the wire: every packet's layout, and nothing else. Decoders check every length and
 * copy out fixed-width fields; encoders write into a caller's buffer. All numbers are
 * little-endian. docs/protocol.md is the specification; tests/unit/golden.h has the golden packets.
 *
 * A packet is: header (40) | extensions, by flag, in the order of their bits | body, by type |
 * payload. The checksum is CRC32C over the payload first, then over all before it with the
 * checksum field zero: so one pass over the payload serves the packet and, combined by offset,
 * the whole message.
 */
#ifndef RIPC_WIRE_H
#define RIPC_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WIRE_VERSION   2
#define WIRE_REFUSED   (1ull << 63) /* value of an ABORT, sealed: your key may not do that */
#define WIRE_HEADER    40
#define WIRE_HELLO     48
#define WIRE_ACK       24
#define WIRE_REPLY     8
#define WIRE_RETURN    24
#define WIRE_ORDERED   8
#define WIRE_CALL      8
#define WIRE_CALL_PLAIN (WIRE_HEADER + WIRE_REPLY + WIRE_CALL) /* a SHORT of one item */
#define WIRE_RETURNS_MAX 8 /* return buffers that one request opens */
#define WIRE_DATA_BODY 12
#define WIRE_ANNOUNCE_BODY 40 /* before the lengths */
#define WIRE_STREAM_BODY 24
#define WIRE_ECHO_BODY 16 /* also of an ECHO_REPLY: no reply is longer than its ECHO */
#define WIRE_OLDEST_MAX (UINT64_MAX - 64) /* 64 numbers must follow it */
#define WIRE_REPLIES   (1ull << 63) /* replies, as long messages, are numbered from here on */
/* The longest header with all extensions but the last three, before body and payload. */
#define WIRE_HEADER_MAX (WIRE_HEADER + WIRE_HELLO + WIRE_ACK + 2 * WIRE_REPLY)
#define WIRE_RETURNS_LEN(n) (8 + WIRE_RETURN * (n))
/* Longest non-payload part of any packet: an announcement of RIPC_ITEMS_MAX items. */
#define WIRE_PREFIX_MAX \
	(WIRE_HEADER_MAX + WIRE_RETURNS_LEN(WIRE_RETURNS_MAX) + WIRE_ORDERED + WIRE_CALL + \
	WIRE_ANNOUNCE_BODY + 8 * 64 + 16 * 64)
#define WIRE_HOLES_MAX  48 /* hole ranges in one PULL */

enum wire_type {
	WIRE_SHORT = 1,  /* payload: the items */
	WIRE_ANNOUNCE,   /* a long message begins; payload: its first bytes, perhaps none */
	WIRE_DATA,       /* payload: bytes of a long message at body.offset */
	WIRE_PULL,       /* receiver to sender: the bytes received, permitted, and missing */
	WIRE_ANSWER,     /* receiver to sender: the end of a long message: delivered or refused */
	WIRE_CANCEL,     /* sender to receiver: gives the message up, and queries its outcome */
	WIRE_HELLO_ONLY, /* no payload: carries the hello extension */
	WIRE_RETRY,      /* requests another hello, with this address token: there is no state */
	WIRE_ECHO,       /* requests an ECHO_REPLY as a sign of life */
	WIRE_ECHO_REPLY,
	WIRE_GONE,       /* the incarnation is not here; a failure hint until proven */
	WIRE_ABORT,      /* the version or a flag is not known, or a right is missing */
	WIRE_STREAM,     /* shorts to a group will be multicast with this token */
	WIRE_HEARD,      /* the answer: the part of that stream that has come */
	WIRE_TYPE_END
};

/* Packets of these types carry the number of a message in header.number. */
static inline bool wire_is_numbered(uint8_t type)
{
	return type <= WIRE_CANCEL;
}

/*
 * GONE and RETRY never answer packets of these types: most of these packets are answers themselves.
 */
static inline bool wire_is_unanswered(uint8_t type)
{
	return type >= WIRE_RETRY && type != WIRE_ECHO && type != WIRE_STREAM;
}

enum wire_flag {            /* every bit must be understood; unknown ones: ABORT */
	WIRE_F_HELLO = 1,   /* hello extension: token and constant facts */
	WIRE_F_ACK = 2,     /* ack extension: the answer to one long message */
	WIRE_F_LENDS = 4,   /* reply extension: return buffers are lent under this ID */
	WIRE_F_REPLIES = 8, /* reply extension: a reply to the message that lent that ID */
	WIRE_F_LAST = 16,   /* DATA, ANNOUNCE: body.sum is the checksum of the whole message, or
	                       of the part that does not come in datagrams */
	WIRE_F_RETURNS = 32, /* returns extension: buffers that the reply may be written into */
	WIRE_F_ORDERED = 64, /* ordered extension: the ordered message before this one */
	WIRE_F_CALL = 128, /* call extension: the message is a request, or a reply to one */
	WIRE_F_KNOWN = 255
};

struct wire_header {
	uint8_t version, type;
	uint16_t flags;
	uint32_t crc;
	uint64_t src, dst; /* incarnations of the services */
	uint64_t token;    /* given by dst to src; 0: none yet */
	uint64_t number;   /* shorts and longs count separately, from 1 */
};

/* Constant facts about the sender, which are sent until its token comes back. */
struct wire_hello {
	uint64_t token;      /* the receiver must put this into packets to the sender */
	uint64_t service;    /* the sender's service ID */
	uint64_t context;    /* incarnation of the sender's context */
	uint64_t to_service; /* the service that the sender believes to address */
	uint64_t proof;      /* address token from the resolver's answer or a RETRY; 0: none */
	uint32_t unasked;    /* bytes of a long message that the receiver may send unasked */
	uint32_t reserved;   /* 0 */
};

struct wire_ack {
	uint64_t number;
	uint32_t status; /* 0 delivered, else the errno of a refusal */
	uint64_t also;   /* bit i: number - 64 + i has been delivered */
	uint32_t echo;   /* of a stamp; 0: none */
};

enum wire_call_kind {
	WIRE_CALL_ASKS = 1, /* a request; value: 1 if it is idempotent, else 0 */
	WIRE_CALL_ANSWERS,     /* a reply; value: 0 */
	WIRE_CALL_FAILS,       /* a reply with an error; value: a Linux errno */
	WIRE_CALL_GROUP,       /* no call: LENDS is the group that the message is sent to; value:
	                          lower half of the number in the stream (of a SHORT); 0: none */
};

struct wire_call {
	uint32_t kind; /* 0: the packet has no such extension */
	uint32_t value;
};

/* Body of ANNOUNCE: 40 bytes, then 8 per item (its length). */
struct wire_announce {
	uint64_t total;  /* bytes of all items */
	uint64_t oldest; /* sender's oldest unresolved long number */
	uint32_t n_items;
	uint32_t unasked; /* bytes that come unasked, including this packet's payload */
	uint32_t sum;    /* with WIRE_F_LAST */
	uint32_t keys;   /* enum wire_keys; see wire_has_keys(): address and key per item may
	                    follow the lengths */
	uint32_t stamp;  /* the sender's clock */
	uint32_t echo;   /* of the receiver's stamp; 0: none */
};

enum wire_keys {
	WIRE_KEYS_READ = 1, /* for reads */
	WIRE_KEYS_GIVEN,    /* the items are transferred: they may be mapped */
	WIRE_KEYS_WRITTEN,  /* no keys: all but the payload is in the return buffers */
	WIRE_KEYS_SUMMING,  /* for reads; the checksum comes with a later announcement */
};

/* Do an address and a key for each item follow the lengths? */
static inline bool wire_has_keys(uint32_t keys)
{
	return keys && keys != WIRE_KEYS_WRITTEN;
}

/* A return buffer that the reply may be written into. */
struct wire_return {
	uint64_t len; /* 0: the buffer is not offered; then the other fields are 0, too */
	uint64_t address, key;
};

struct wire_range {
	uint64_t start, end; /* bytes, [start, end) */
};

enum wire_busy {
	WIRE_NO_CREDIT = 1, /* the receiver lives, but has no credit for the sender now */
	WIRE_NO_ROOM,       /* the receiver lives, but has no room, and keeps no part */
};

/* Body of STREAM and HEARD: the stream of multicast datagrams of a service to a group. */
struct wire_stream {
	uint64_t group, token;
	uint64_t number; /* STREAM: the next number; HEARD: the highest that came, or 0 */
};

/* Body of PULL: 32 bytes, then 16 per hole. */
struct wire_pull {
	uint64_t have;   /* all bytes before this have arrived */
	uint64_t limit;  /* bytes before this may be sent */
	uint32_t n_holes;
	uint32_t busy;   /* enum wire_busy, or 0 */
	uint32_t stamp, echo; /* as in ANNOUNCE */
	struct wire_range holes[WIRE_HOLES_MAX]; /* missing bytes, to be sent again */
};

/* A decoded packet. Pointers are into the datagram. */
struct wire_packet {
	struct wire_header h;
	struct wire_hello hello;   /* WIRE_F_HELLO */
	struct wire_ack ack;       /* WIRE_F_ACK; for ANSWER the body */
	uint64_t lends, replies;   /* WIRE_F_LENDS, WIRE_F_REPLIES */
	uint32_t n_returns;        /* WIRE_F_RETURNS: number of return buffers, else 0 */
	const struct wire_return *offers; /* to encode: the return buffers */
	const uint8_t *returns;    /* decoded: see wire_return_at() */
	uint64_t previous;         /* WIRE_F_ORDERED: see wire_previous() */
	struct wire_call call;     /* WIRE_F_CALL */
	uint64_t value;            /* ECHO, ECHO_REPLY: nonce; RETRY: address token; GONE: us;
	                              ABORT: bit i: version i is understood */
	uint64_t stamp;            /* ECHO, ECHO_REPLY: the asker's clock, handed back */
	struct wire_stream stream; /* STREAM, HEARD */
	uint64_t offset;           /* DATA */
	uint32_t sum;              /* DATA with WIRE_F_LAST */
	uint32_t echo;             /* DATA without LAST: of the last stamp; 0: none */
	uint32_t n_items;          /* SHORT, ANNOUNCE */
	struct wire_announce announce;
	const uint8_t *lengths;    /* SHORT: u16 each; ANNOUNCE: u64 each; then keys */
	const uint8_t *prefix;     /* the datagram's start */
	uint32_t prefix_len;       /* header, extensions, body */
	const uint8_t *payload;
	uint32_t payload_len;
	bool intact;               /* the path alters nothing; wire_decode() sets false */
	bool plain;                /* decoded: a SHORT of one item, without extensions */
	struct wire_pull pull;     /* last, because it is long: see wire_clear() */
};

/* For packets other than PULL: clears all fields that such a packet can have. */
static inline void wire_clear(struct wire_packet *packet)
{
	memset(packet, 0, offsetof(struct wire_packet, pull));
}

/* Is this the reply to a call, or an error instead? */
static inline bool wire_answers(const struct wire_call *call)
{
	return call->kind - WIRE_CALL_ANSWERS <= WIRE_CALL_FAILS - WIRE_CALL_ANSWERS;
}

static inline bool wire_is_answer(const struct wire_packet *packet)
{
	return wire_answers(&packet->call);
}

/* The group that the message is sent to; 0: none. */
static inline uint64_t wire_group(const struct wire_packet *packet)
{
	return packet->call.kind == WIRE_CALL_GROUP ? packet->lends : 0;
}

/* Is this a copy of a short that was also multicast? */
static inline bool wire_copies_stream(const struct wire_packet *packet)
{
	return packet->call.kind == WIRE_CALL_GROUP && packet->call.value;
}

/* The number of the ordered message that must be delivered before this one; 0: none. */
static inline uint64_t wire_previous(const struct wire_packet *packet)
{
	return packet->h.flags & WIRE_F_ORDERED ? packet->previous : 0;
}

/*
 * Takes a datagram apart without reading its payload or checking its checksum. 0; -EBADMSG:
 * malformed (*packet is undefined); -EPROTONOSUPPORT: version or flag unknown (h is filled, the
 * rest is undefined). ABORT is the same in every version. Fields that the packet does not have are
 * undefined, except that lends, replies, call.kind, n_returns and n_items are 0, and lengths is
 * NULL.
 */
int wire_decode(const void *data, size_t len, struct wire_packet *packet);
/*
 * Decodes only the header, with any version, type or flag. In a SHORT the number of items travels
 * in the upper byte of flags; h.flags is without it. -EBADMSG if too short.
 */
int wire_decode_header(const void *data, size_t len, struct wire_header *h);
/*
 * The token in the hello of a packet of ours, of which only len bytes may be there; 0: the packet
 * has no hello, or too few bytes.
 */
static inline uint64_t wire_quoted_hello(const struct wire_header *h, const uint8_t *data,
		size_t len)
{
	uint64_t token;

	if (!(h->flags & WIRE_F_HELLO) || len < WIRE_HEADER + sizeof(token))
		return 0;
	memcpy(&token, data + WIRE_HEADER, sizeof(token));
	return le64toh(token);
}
/* payload_crc: CRC32C of the payload alone. True if the packet is as it was sent, or intact. */
bool wire_verify(const struct wire_packet *packet, uint32_t payload_crc);

uint64_t wire_item_len(const struct wire_packet *packet, uint32_t i);
void wire_item_key(const struct wire_packet *packet, uint32_t i, uint64_t *address, uint64_t *key);
void wire_return_at(const struct wire_packet *packet, uint32_t i, struct wire_return *found);

/* ---- encode ------------------------------------------------------------------------------ */

/* Encoding packets. */

/*
 * Encoding: header with extensions (returns bytes written; which extensions follow from
 * p->h.flags), then the body of the type, then seal with the payload's checksum. The version
 * is always ours. item_lens: SHORT with n_items > 1 and ANNOUNCE, n_items lengths; keys:
 * ANNOUNCE, NULL or n_items pairs of address and key, given if announce.keys says so. Values
 * must keep the decoder's limits.
 */
size_t wire_encode(void *buffer, const struct wire_packet *p, const uint64_t *item_lens,
		const uint64_t *keys);
/* The whole prefix, WIRE_HEADER bytes, of a SHORT of one item without extensions. */
void wire_encode_plain(void *buffer, const struct wire_header *h);
/*
 * The whole prefix, WIRE_CALL_PLAIN bytes, of a plain request, reply or message to a group with
 * that ID.
 */
void wire_encode_call(void *buffer, const struct wire_header *h, uint64_t id,
		const struct wire_call *call);
/* Puts the checksum of the whole packet into its prefix. */
void wire_checksum(void *prefix, size_t prefix_len, uint32_t payload_crc);

#endif
