/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shorts to a group that are multicast in one datagram (protocol.md, "Datagrams to many").
 * mcast_in.c is the other end.
 */
#ifndef RIPC_MCAST_OUT_H
#define RIPC_MCAST_OUT_H

#include <stdbool.h>
#include <stdint.h>

#define MULTICAST_LEAST 8u /* members on a network with multicast; option group.many */

struct partner;
struct ripc__member;
struct ripc_send;
struct ripc_service;
struct mcast_out;
struct wire_packet;

/*
 * A short is about to be sent from the service to these members of a group. NULL: each member gets
 * a copy of its own. This function may announce the stream to the members.
 */
struct mcast_out *ripc__mcast_out_for(struct ripc_service *service, uint64_t group,
		const struct ripc__member *members, uint32_t n);
/*
 * Multicasts the short, of len bytes, if that pays, or if a test is due that shows who hears.
 * False: each member needs a copy; len has no meaning.
 */
bool ripc__mcast_out_send(struct mcast_out *out, struct ripc_service *service,
		const struct ripc_send *request, uint32_t *len);
/* After ripc__mcast_out_send(): does this member surely hear the stream? Others need copies. */
bool ripc__mcast_out_reaches(const struct mcast_out *out, uint64_t incarnation);
/* The number in the stream that the copies of the short carry; 0: the short was not multicast. */
uint32_t ripc__mcast_out_number(const struct mcast_out *out);
/* HEARD: a member reports the highest number that it has heard. */
void ripc__mcast_out_heard(struct partner *partner, const struct wire_packet *packet);
void ripc__mcast_out_free(struct ripc_service *service);

#endif
