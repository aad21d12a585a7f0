/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that lie: a golden one with a field altered, and the result of decoding it. Part of
 * test_wire.c.
 */
#ifndef WIRE_LIES_H
#define WIRE_LIES_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire/wire.h"

/* A golden packet with some bytes replaced, and what wire_decode() says to it. */
struct lie {
	const char *golden, *what;
	size_t at, n;    /* which bytes are replaced by value's lowest ones */
	uint64_t value;
	int result;
};

#define SHORT_LENGTHS 128 /* of "short, three items, all extensions" */
#define BODY          WIRE_HEADER

static const struct lie lies[] = {
	{ "echo", "version 3", 0, 1, 3, -EPROTONOSUPPORT },
	{ "echo", "version 0", 0, 1, 0, -EPROTONOSUPPORT },
	{ "abort", "version 3", 0, 1, 3, 0 },
	{ "echo", "type 0", 1, 1, 0, -EBADMSG },
	{ "echo", "type unknown", 1, 1, WIRE_TYPE_END, -EBADMSG },
	{ "echo", "type of a resolver packet", 1, 1, WIRE_QUERY, -EBADMSG },
	{ "echo", "flag of a call", 2, 2, WIRE_F_CALL, -EBADMSG },
	{ "echo", "flag of a query", 2, 2, 0x20, -EBADMSG },
	{ "short, offers a return buffer", "lends nothing", 2, 1, 0x20, -EBADMSG },
	{ "short, offers a return buffer", "no buffers", BODY + 8, 4, 0, -EBADMSG },
	{ "short, offers a return buffer", "one buffer more", BODY + 8, 4, 3, -EBADMSG },
	{ "short, offers a return buffer", "one buffer less", BODY + 8, 4, 1, 0 },
	{ "short, offers a return buffer", "9 buffers", BODY + 8, 4, 9, -EBADMSG },
	{ "short, offers a return buffer", "2^32 - 1 buffers", BODY + 8, 4, 0xffffffff, -EBADMSG },
	{ "short, offers a return buffer", "not zero", BODY + 12, 4, 1, -EBADMSG },
	{ "short, offers a return buffer", "address of nothing", BODY + 24, 8, 1, -EBADMSG },
	{ "short, offers a return buffer", "key of nothing", BODY + 32, 8, 1, -EBADMSG },
	{ "announce, written", "keys 4 and a checksum", BODY + 8 + 28, 4, 4, -EBADMSG },
	{ "announce, written", "keys 5", BODY + 8 + 28, 4, 5, -EBADMSG },
	{ "announce, written", "keys beyond the end", BODY + 8 + 28, 4, 1, -EBADMSG },
	{ "echo", "upper flag unknown", 2, 2, 0x0100, -EPROTONOSUPPORT },
	{ "short, one item", "a call without its bytes", 2, 1, WIRE_F_CALL, -EBADMSG },
	{ "echo", "LENDS has no meaning here", 2, 2, WIRE_F_LENDS, -EBADMSG },
	{ "echo", "LAST has no meaning here", 2, 2, WIRE_F_LAST, -EBADMSG },
	{ "answer, delivered", "ACK twice", 2, 2, WIRE_F_ACK, -EBADMSG },
	{ "retry", "HELLO has no meaning here", 2, 2, WIRE_F_HELLO, -EBADMSG },
	{ "hello only", "no hello: its bytes are too many", 2, 2, 0, -EBADMSG },
	{ "hello only", "reserved field", BODY + 44, 4, 1, -EBADMSG },
	{ "short, one item", "no items", 3, 1, 0, -EBADMSG },
	{ "short, one item", "65 items", 3, 1, 65, -EBADMSG },
	{ "short, one item", "255 items", 3, 1, 255, -EBADMSG },
	{ "short, one item", "two items with other lengths", 3, 1, 2, -EBADMSG },
	{ "short, one item", "lengths beyond the end", 3, 1, 7, -EBADMSG },
	{ "short, three items, all extensions", "one more", SHORT_LENGTHS, 2, 6, -EBADMSG },
	{ "short, three items, all extensions", "one less", SHORT_LENGTHS, 2, 4, -EBADMSG },
	{ "short, three items, all extensions", "65,535", SHORT_LENGTHS, 2, 0xffff, -EBADMSG },
	{ "short, three items, all extensions", "ack status", BODY + 48 + 8, 4, 4096, -EBADMSG },
	{ "short, three items, all extensions", "ack status", BODY + 48 + 8, 4, 4095, 0 },
	{ "announce, alone", "no items", BODY + 16, 4, 0, -EBADMSG },
	{ "announce, alone", "65 items", BODY + 16, 4, 65, -EBADMSG },
	{ "announce, alone", "2^32 - 1 items", BODY + 16, 4, 0xffffffff, -EBADMSG },
	{ "announce, alone", "items beyond the end", BODY + 16, 4, 3, -EBADMSG },
	{ "announce, alone", "one item and payload", BODY + 16, 4, 1, -EBADMSG },
	{ "announce, alone", "sum without LAST", BODY + 24, 4, 1, -EBADMSG },
	{ "announce, alone", "written, but no answer", BODY + 28, 4, 3, -EBADMSG },
	{ "announce, alone", "keys beyond the end", BODY + 28, 4, 1, -EBADMSG },
	{ "announce, alone", "total", BODY, 8, 0x1234567899, -EBADMSG },
	{ "announce, alone", "no number 64 after oldest", BODY + 8, 8, UINT64_MAX - 63, -EBADMSG },
	{ "announce, alone", "a number 64 after oldest", BODY + 8, 8, UINT64_MAX - 64, 0 },
	{ "cancel", "no number 64 after oldest", BODY, 8, UINT64_MAX - 63, -EBADMSG },
	{ "cancel", "a number 64 after oldest", BODY, 8, UINT64_MAX - 64, 0 },
	{ "announce, alone", "lengths wrap", BODY + 40, 8, UINT64_MAX, -EBADMSG },
	{ "announce, ordered", "after itself", BODY, 8, 42, -EBADMSG },
	{ "announce, ordered", "after a later one", BODY, 8, 43, -EBADMSG },
	{ "announce, ordered", "after none", BODY, 8, 0, 0 },
	{ "announce, whole message, first contact", "payload beyond unasked", BODY + 76, 4, 8,
	  -EBADMSG },
	{ "announce, whole message, first contact", "nothing unasked", BODY + 76, 4, 0, -EBADMSG },
	{ "announce, whole message, first contact", "more unasked", BODY + 76, 4, 10, 0 },
	{ "data", "another echo", BODY + 8, 4, 1, 0 },
	{ "data", "offset wraps", BODY, 8, UINT64_MAX - 23, -EBADMSG },
	{ "data", "offset just does not wrap", BODY, 8, UINT64_MAX - 24, 0 },
	{ "pull, no holes", "one hole, no bytes", BODY + 16, 4, 1, -EBADMSG },
	{ "pull, two holes, ack", "49 holes", BODY + WIRE_ACK + 16, 4, 49, -EBADMSG },
	{ "pull, two holes, ack", "2^32 - 1 holes", BODY + WIRE_ACK + 16, 4, 0xffffffff, -EBADMSG },
	{ "pull, two holes, ack", "2^28 + 2 holes", BODY + WIRE_ACK + 16, 4, 0x10000002, -EBADMSG },
	{ "pull, two holes, ack", "one hole, bytes left", BODY + WIRE_ACK + 16, 4, 1, -EBADMSG },
	{ "pull, two holes, ack", "busy 2", BODY + WIRE_ACK + 20, 4, 2, 0 },
	{ "pull, two holes, ack", "busy 3", BODY + WIRE_ACK + 20, 4, 3, -EBADMSG },
	{ "pull, two holes, ack", "empty hole", BODY + WIRE_ACK + 32 + 8, 8, 0x1000, -EBADMSG },
	{ "pull, two holes, ack", "hole backwards", BODY + WIRE_ACK + 32 + 8, 8, 0xfff, -EBADMSG },
	{ "pull, two holes, ack", "holes overlap", BODY + WIRE_ACK + 32 + 8, 8, 0x2001, -EBADMSG },
	{ "pull, two holes, ack", "holes touch", BODY + WIRE_ACK + 32 + 8, 8, 0x2000, 0 },
	{ "pull, two holes, ack", "holes descend", BODY + WIRE_ACK + 48, 8, 0x800, -EBADMSG },
	{ "short, one item", "number 0", 32, 8, 0, -EBADMSG },
	{ "short, three items, all extensions", "number 0", 32, 8, 0, -EBADMSG },
	{ "short, one item", "from nobody", 8, 8, 0, -EBADMSG },
	{ "short, one item", "to nobody", 16, 8, 0, -EBADMSG },
	{ "retry", "from nobody", 8, 8, 0, -EBADMSG },
	{ "gone", "to nobody", 16, 8, 0, -EBADMSG },
	{ "abort", "from nobody", 8, 8, 0, 0 },
	{ "announce, alone", "number 0", 32, 8, 0, -EBADMSG },
	{ "data", "number 0", 32, 8, 0, -EBADMSG },
	{ "pull, no holes", "number 0", 32, 8, 0, -EBADMSG },
	{ "cancel", "number 0", 32, 8, 0, -EBADMSG },
	{ "answer, delivered", "number 0", 32, 8, 0, -EBADMSG },
	{ "answer, delivered", "two numbers", BODY, 8, 41, -EBADMSG },
	{ "short, three items, all extensions", "ack of 0", BODY + 48, 8, 0, -EBADMSG },
	{ "hello only", "number 1", 32, 8, 1, -EBADMSG },
	{ "echo", "number 1", 32, 8, 1, -EBADMSG },
	{ "echo reply", "number 1", 32, 8, 1, -EBADMSG },
	{ "gone", "number 1", 32, 8, 1, 0 },
	{ "hello only", "gives no token", BODY, 8, 0, -EBADMSG },
	{ "hello only", "of no service", BODY + 8, 8, 0, -EBADMSG },
	{ "hello only", "of no context", BODY + 16, 8, 0, -EBADMSG },
	{ "hello only", "to no service", BODY + 24, 8, 0, -EBADMSG },
	{ "answer, refused", "status no errno", BODY + 8, 4, 4096, -EBADMSG },
	{ "stream", "of no group", BODY, 8, 0xbeef, -EBADMSG },
	{ "stream", "gives no token", BODY + 8, 8, 0, -EBADMSG },
	{ "stream", "begins nowhere", BODY + 16, 8, 0, -EBADMSG },
	{ "stream", "number 1", 32, 8, 1, -EBADMSG },
	{ "stream", "LENDS has no meaning here", 2, 2, WIRE_F_LENDS, -EBADMSG },
	{ "heard", "of no group", BODY, 8, 0xbeef, -EBADMSG },
	{ "heard", "of no token", BODY + 8, 8, 0, -EBADMSG },
	{ "heard", "nothing has come", BODY + 16, 8, 0, 0 },
	{ "short, to a group", "a number in the stream", BODY + 12, 4, 0x80000001, 0 },
	{ "answer, refused", "status 2^32 - 1", BODY + 8, 4, 0xffffffff, -EBADMSG },
};

#endif
