/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shorts to a group that are multicast in one datagram (protocol.md, "Datagrams to many").
 * heard.c is the other end.
 */
#ifndef RIPC_STREAM_H
#define RIPC_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#define MULTICAST_LEAST 8u /* members on a network with multicast; option group.many */

struct partner;
struct ripc__member;
struct ripc_send;
struct ripc_service;
struct stream;
struct wire_packet;

/*
 * A short is about to be sent from the service to these members of a group. NULL: each member gets
 * a copy of its own. This function may announce the stream to the members.
 */
struct stream *ripc__stream_for(struct ripc_service *service, uint64_t group,
		const struct ripc__member *members, uint32_t n);
/*
 * Multicasts the short, of len bytes, if that pays, or if a test is due that shows who hears.
 * False: each member needs a copy; len has no meaning.
 */
bool ripc__stream_send(struct stream *stream, struct ripc_service *service,
		const struct ripc_send *request, uint32_t *len);
/* After ripc__stream_send(): does this member surely hear the stream? Others need copies. */
bool ripc__stream_reaches(const struct stream *stream, uint64_t incarnation);
/* The number in the stream that the copies of the short carry; 0: the short was not multicast. */
uint32_t ripc__stream_number(const struct stream *stream);
/* HEARD: a member reports the highest number that it has heard. */
void ripc__stream_heard(struct partner *partner, const struct wire_packet *packet);
void ripc__streams_free(struct ripc_service *service);

#endif
