/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a long message that is announced may be accepted. */
#include <errno.h>
#include <sys/uio.h>

#include "admit.h"
#include "core/message/message.h"
#include "core/message/queue.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/partner/share.h"
#include "core/peer/peer.h"
#include "core/peer/share.h"
#include "core/wire/wire.h"
#include "util/list.h"

uint64_t ripc__whole_bytes(const struct wire_packet *packet)
{
	return sizeof(struct message) + packet->n_items * sizeof(struct iovec) +
		packet->payload_len;
}

int ripc__admit(const struct ripc_service *service, const struct wire_packet *packet)
{
	const struct ripc_context *ctx = service->ctx;
	uint64_t most = ctx->cfg.message_max_bytes;

	if (service->draining)
		return -ESHUTDOWN;
	if (packet->announce.total > (most ? most : ctx->held_max[SHARE_LARGE] << 10) ||
			packet->announce.total >> 10 > LARGE_MAX ||
			packet->announce.total > SIZE_MAX / 2) /* a size_t may have 32 bits */
		return -EMSGSIZE;
	return 0;
}

bool ripc__is_whole(const struct partner *partner, const struct wire_packet *packet)
{
	return packet->payload_len == packet->announce.total &&
		list_empty(&partner->service->windows) && !packet->replies;
}

/*
 * The others need room, too, however greedy or slow to be read this one is. But a message of a
 * host that holds nothing may be as long as there is memory.
 */
bool ripc__over_share(const struct partner *partner, const struct wire_packet *packet)
{
	if (!ripc__queue_has_room(partner))
		return true;
	if (ripc__is_whole(partner, packet))
		return ripc__share_left(partner, SHARE_SMALL) < ripc__whole_bytes(packet);
	return ripc__share_left(partner, SHARE_UNFINISHED) == 0 ||
		(partner->peer->host->held[SHARE_LARGE] &&
		ripc__share_left(partner, SHARE_LARGE) < packet->announce.total >> 10);
}
