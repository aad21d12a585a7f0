/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shorts to a group that go to many members in one datagram (protocol.md, "Datagrams to many").
 * heard.c is the other end.
 */
#ifndef RIPC_STREAM_H
#define RIPC_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#define MANY_LEAST 8u /* members on a network that can do it; option group.many */

struct partner;
struct ripc__member;
struct ripc_send;
struct ripc_service;
struct stream;
struct wire_packet;

/*
 * A short is about to go from the service to these members of a group. NULL: each member gets a
 * copy of its own. The members may be told of the stream by this.
 */
struct stream *ripc__stream_for(struct ripc_service *service, uint64_t group,
		const struct ripc__member *members, uint32_t n);
/*
 * Sends the short, of len bytes, to the members that hear, if that pays now, or is to show whether
 * they do. False: each member needs a copy; len means nothing.
 */
bool ripc__stream_send(struct stream *stream, struct ripc_service *service,
		const struct ripc_send *request, uint32_t *len);
/* After that: does this member surely hear what goes to many? The others need copies. */
bool ripc__stream_reaches(const struct stream *stream, uint64_t incarnation);
/* The number in the stream that the copies of the short carry; 0: the short was not multicast. */
uint32_t ripc__stream_number(const struct stream *stream);
/* A member answers: so much it has heard. */
void ripc__stream_heard(struct partner *partner, const struct wire_packet *packet);
void ripc__streams_free(struct ripc_service *service);

#endif
