/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets of the resolver: queries, records, and notices. */
#ifndef RIPC_RECORD_H
#define RIPC_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_RECORD_MAX 1100
#define WIRE_MARK       16 /* mark behind the packet, if its sender has keys (keys/sealed.h) */
#define WIRE_RESOLVE_MAX (WIRE_RECORD_MAX + WIRE_MARK)
#define WIRE_BLOB_MAX   104 /* 64, and a key and an incarnation in a context with keys */

enum wire_resolve_type {
	WIRE_QUERY = 32, /* queries the owner of an ID; id 0: queries all IDs of all contexts */
	WIRE_RECORD,        /* answer: a record; also notice of a registration */
	WIRE_WITHDRAWN,     /* notice: that incarnation is not here any more */
	WIRE_NOBODY,        /* answer to a unicast query: no record */
	WIRE_DIGEST,        /* notice: names many registrations */
};

#define WIRE_NAMED_LEN  16u /* of one registration in a DIGEST: ID, incarnation */
#define WIRE_NAMED_MAX  61u
/* A DIGEST has a bit for the hash of each ID that it names: receivers' kernels filter by them. */
#define WIRE_DIGEST_BITS 512u
/* Contexts whose last bits are equal hear each other's digests, whatever these name. */
#define WIRE_DIGEST_KIN  32u
#define WIRE_HASH        0x9e3779b1u
#define WIRE_HASH_SHIFT  23u /* leaves 9 bits */

/* Is this the ID of a group? */
static inline bool wire_is_group(uint64_t id)
{
	return id >> 56 == 0xff;
}

/* Can a service have this ID? One comparison: neither 0 nor a group. */
static inline bool wire_is_service(uint64_t id)
{
	return id - 1 < (0xffull << 56) - 1;
}

struct wire_record_addr {
	uint8_t backend, len;
	uint8_t blob[WIRE_BLOB_MAX];
};

struct wire_record {
	uint64_t id, incarnation;
	uint64_t stamp;   /* wall clock at registration, ns; orders cache entries only. For a
	                     member of a group (id): its service ID */
	uint64_t host;    /* hash of boot ID and network namespace */
	uint64_t context; /* incarnation of the owning context */
	uint32_t n_addrs; /* 1 to 8 */
	struct wire_record_addr addrs[8];
};

struct wire_resolve {
	uint8_t type;
	uint8_t hops;     /* QUERY: 1: already relayed */
	bool definite;    /* NOBODY: nobody there has the ID; false: its owner there is silent */
	uint64_t nonce;   /* QUERY: random; in the answer: the query's; notices: 0 */
	uint64_t asker;   /* QUERY: incarnation of the querying context; notices: the sender's */
	uint64_t proof;   /* RECORD: address token for the asker */
	uint8_t host[16]; /* QUERY, relayed: the first asker's address; else zero */
	struct wire_record record; /* QUERY, NOBODY: id only */
	const uint8_t *named; /* DIGEST: n_named times ID and incarnation; in the datagram */
	uint32_t n_named;
};

/* The bit of an ID, below WIRE_DIGEST_BITS. */
uint32_t wire_hash(uint64_t id);
/* Writes, and reads, registration i of a DIGEST. */
void wire_named_put(uint8_t *named, uint32_t i, uint64_t id, uint64_t incarnation);
void wire_named_get(const struct wire_resolve *r, uint32_t i, uint64_t *id,
		uint64_t *incarnation);

/*
 * Encode returns the length (queries are padded to WIRE_RECORD_MAX). Decode returns 0, -EBADMSG or
 * -EPROTONOSUPPORT. buffer has WIRE_RECORD_MAX bytes. Resolver packets carry a CRC32C.
 */
size_t wire_resolve_encode(void *buffer, const struct wire_resolve *r);
int wire_resolve_decode(const void *data, size_t len, struct wire_resolve *r);

#endif
