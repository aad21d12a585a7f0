/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads in progress. A read waits at its link while libfabric does not take it (FI_EAGAIN), is
 * taken, and ends: by its completion, by an error, or because none of its link was taken or ended
 * for OFI_STUCK_US. After that nothing is done to its memory, and its event is handed over once.
 *
 * The EFA provider only lets the device read when it has heard what the other end can do
 * (libfabric 1.17: its handshake); before that it does the same in datagrams, by the other end's
 * processor. So the first read of a link waits until a message of ours is known to have been
 * received, which libfabric only tells when it has heard that.
 */
#include "ofi.h"
#include "util/system/cancel.h"

#include <errno.h>

void ripc__ofi_reads_open(struct ofi_port *port)
{
	list_init(&port->free_reads);
	list_init(&port->ended);
	list_init(&port->reading);
	for (uint32_t i = 0; i < OFI_READS; i++)
		list_append(&port->free_reads, &port->net->reads[i].node);
}

static void finish(struct ofi_port *port, struct ofi_read *read, int status)
{
	read->status = status;
	list_append(&port->ended, &read->node);
}

void ripc__ofi_read_end(struct ofi_port *port, struct ofi_read *read, int status)
{
	struct ofi_link *link = read->link;

	if (!link)
		return;
	read->link = NULL;
	port->net->n_ops--;
	link->n_reads--;
	if (!list_empty(&link->reads))
		link->reading_us = port->worked_us;
	finish(port, read, status);
	ripc__ofi_entry_ended(port, link);
}

void ripc__ofi_reads_drop(struct ofi_port *port, struct ofi_link *link, int status)
{
	while (!list_empty(&link->reads))
		finish(port, list_entry(list_pop(&link->reads), struct ofi_read, node), status);
	list_remove(&link->reading);
}

/* ---- posting ----------------------------------------------------------------------------- */

/* 0: libfabric has it; -EAGAIN: not now. */
static int post(struct ofi_port *port, struct ofi_read *read)
{
	struct ofi_link *link = read->link;
	ssize_t error = fi_read(port->net->ep, read->mem, read->len, read->desc, link->to,
		read->address, read->key, &read->context);

	port->net->n_ops += !error;
	link->n_reads += !error;
	return (int)error;
}

/* 0: libfabric knows the other end. */
static int greet(struct ofi_port *port, struct ofi_link *link)
{
	if (link->greeted || port->net->info->ep_attr->protocol != FI_PROTO_EFA)
		return 0;
	return link->greeting ? -EAGAIN : ripc__ofi_greet(port, link);
}

/* Those of one link, as far as they are taken. */
static void push(struct ofi_port *port, struct ofi_link *link)
{
	int error = greet(port, link);

	while (!error && !list_empty(&link->reads)) {
		struct ofi_read *read = list_entry(link->reads.next, struct ofi_read, node);

		list_remove(&read->node);
		error = post(port, read);
		if (error == -FI_EAGAIN)
			list_prepend(&link->reads, &read->node);
		else if (error)
			finish(port, read, error);
		else
			link->reading_us = port->worked_us;
	}
	if (list_empty(&link->reads))
		list_remove(&link->reading);
	else if (port->worked_us > link->reading_us + OFI_STUCK_US)
		ripc__ofi_reads_drop(port, link, -ETIMEDOUT);
}

void ripc__ofi_reads_push(struct ofi_port *port)
{
	list_for_each_safe(node, &port->reading)
		push(port, list_entry(node, struct ofi_link, reading));
}

/* ---- what core asks for ------------------------------------------------------------------ */

static void begin(struct ofi_port *port, struct ofi_read *read)
{
	struct ofi_link *link = read->link;
	int error = list_empty(&link->reads) ? greet(port, link) : -EAGAIN;

	if (!error)
		error = post(port, read);
	if (!error)
		return;
	if (error != -FI_EAGAIN) {
		finish(port, read, error);
		return;
	}
	if (list_empty(&link->reads)) {
		link->reading_us = port->worked_us;
		list_append(&port->reading, &link->reading);
	}
	list_append(&link->reads, &read->node);
}

int ripc__ofi_read(void *state, void *peer_state, const struct ripc__move *move)
{
	RIPC__HOLD_CANCEL;
	struct ofi_peer *peer = peer_state;
	struct ofi_port *port = state;
	struct ofi_read *read;
	struct ofi_region *region = move->region;
	int error;

	if (port->is_lost || peer->resets != peer->link->resets)
		return -ECONNRESET;
	if (list_empty(&port->free_reads))
		return -EAGAIN;
	if (move->len && !region && ripc__ofi_registers(&port->dev))
		return -EINVAL;
	read = list_entry(list_pop(&port->free_reads), struct ofi_read, node);
	read->link = peer->link;
	read->cookie = move->cookie;
	read->mem = move->mem;
	read->len = move->len;
	read->desc = region ? fi_mr_desc(region->mr) : NULL;
	error = ripc__ofi_key_parse(port, &move->key, move->offset, &read->address, &read->key);
	if (error || !move->len)
		finish(port, read, move->len ? error : 0);
	else
		begin(port, read);
	return 0;
}

uint32_t ripc__ofi_reads_take(struct ofi_port *port, struct ripc__event *events, uint32_t at,
		uint32_t n)
{
	while (at < n && !list_empty(&port->ended)) {
		struct ofi_read *read = list_entry(list_pop(&port->ended), struct ofi_read, node);

		events[at++] = (struct ripc__event){.kind = RIPC_EV_READ, .cookie = read->cookie,
			.status = read->status};
		list_append(&port->free_reads, &read->node);
	}
	return at;
}
