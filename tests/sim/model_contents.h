/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contents of messages, made so that they tell what they are. The tag is the number, or
 * what fits of it into the message; it is the first bytes. The rest follows from the key, which
 * stands for sender, kind, length and tag.
 */
#ifndef MODEL_CONTENTS_H
#define MODEL_CONTENTS_H

#include <stdint.h>

#include "ripc/ripc.h"

#define CONTENTS_TAG_BYTES 8

/* A one-to-one hash (the finalizer of splitmix64). */
uint64_t contents_mix(uint64_t x);
uint64_t contents_tag(uint64_t number, uint64_t len);
uint64_t contents_key(uint64_t from, enum ripc_kind kind, uint64_t len, uint64_t tag);
/* Bytes [at, at + n) of the message; at is a multiple of 8. Little-endian on every machine. */
void contents_write(uint64_t key, uint64_t tag, uint64_t at, uint8_t *to, size_t n);
/* How a message of this key is cut into items: anywhere, also into empty ones. */
uint32_t contents_split(uint64_t key, enum ripc_kind kind, uint64_t len, uint64_t lens[5]);
/* Do the items hold the message? Returns the offset of the first wrong byte, -1 for none. */
int64_t contents_differ(uint64_t key, uint64_t tag, const struct iovec *items, uint32_t n);
/* The tag that a received message bears. */
uint64_t contents_tag_received(const struct ripc_msg *msg, uint64_t len);

#endif
