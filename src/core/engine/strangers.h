/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers to packets of strangers; no answer is longer than the packet that it answers. */
#ifndef RIPC_STRANGERS_H
#define RIPC_STRANGERS_H

struct device;
struct ripc__event;
struct ripc_context;
struct wire_packet;

/* GONE: the addressed incarnation is not here. */
void ripc__answer_gone(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event);
/* RETRY: say hello, with this proof. */
void ripc__answer_retry(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event);
/* ABORT: the sender of this packet may not have its ID, or may not send to this service. */
void ripc__answer_refused(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event);
/* ABORT: the packet has another version of the protocol. */
void ripc__answer_version(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event);

#endif
