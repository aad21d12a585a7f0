/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending datagrams. Each is copied into a registered buffer behind our head; short ones are
 * then copied once more by libfabric (fi_inject; not on EFA), and need no completion. A datagram
 * that libfabric does not take (FI_EAGAIN) waits at its link and is tried again whenever
 * libfabric has worked. A partner that takes nothing keeps only a share of the buffers, the
 * smaller the fewer there are. The last buffers are given singly, to partners that have none. A
 * partner that has taken nothing for OFI_STUCK_US has failed. So has a partner none of whose
 * operations libfabric has completed for as long; it gets no more datagrams until libfabric
 * does.
 */
#include "internal.h"
#include "util/buffers.h"

#include <errno.h>
#include <string.h>

#define WAITING_MAX 32u /* datagrams of one partner */
#define RESERVE     32u /* buffers for partners that have none */

void ripc__ofi_sends_open(struct ofi_port *port)
{
	list_init(&port->free_sends);
	list_init(&port->posting);
	for (uint32_t i = 0; i < OFI_SENDS; i++)
		list_append(&port->free_sends, &port->net->sends[i].node);
	port->n_free = OFI_SENDS;
}

static uint8_t *bytes_of(const struct ofi_port *port, const struct ofi_send *send)
{
	uint32_t index = (uint32_t)(send - port->net->sends);

	return ripc__buffers_at(port->net->send_buffers, index)->data;
}

static void send_free(struct ofi_port *port, struct ofi_send *send)
{
	list_prepend(&port->free_sends, &send->node);
	port->n_free++;
}

/*
 * Core has given up sending by the link, and there is room for a batch again, or all there can
 * be.
 */
static void tell_if_missed(struct ofi_port *port, struct ofi_link *link)
{
	uint32_t taken = link->n_posted + link->n_waiting;

	if (link->missed && link->n_waiting < WAITING_MAX / 2 &&
			(!taken || taken + OFI_BATCH + RESERVE <= port->n_free))
		ripc__ofi_link_tell(port, link);
}

/* The link's first send was posted, or one has completed. */
static void note_posted(struct ofi_port *port, struct ofi_link *link)
{
	list_remove(&link->posting);
	if (!link->n_posted)
		return;
	link->posted_us = port->worked_us;
	list_append(&port->posting, &link->posting);
}

/* libfabric has one more send of the link. */
static void begun(struct ofi_port *port, struct ofi_link *link)
{
	port->net->n_ops++;
	if (!link->n_posted++)
		note_posted(port, link);
}

void ripc__ofi_send_end(struct ofi_port *port, struct ofi_send *send)
{
	struct ofi_link *link = send->link;

	/* EFA (1.17) reports twice that a message of two packets has failed. */
	if (!link)
		return;
	send->link = NULL;
	if (send->greets)
		link->greeting = false;
	send_free(port, send);
	port->net->n_ops--;
	link->n_posted--;
	link->silent = false;
	note_posted(port, link);
	tell_if_missed(port, link);
	ripc__ofi_entry_ended(port, link);
}

/* ---- posting ----------------------------------------------------------------------------- */

/* 0: the send is on its way; -EAGAIN: not now; other errors: it cannot be sent there. */
static int post(struct ofi_port *port, struct ofi_send *send)
{
	struct ofi_net *net = port->net;
	void *desc = net->send_mr ? fi_mr_desc(net->send_mr) : NULL;
	struct ofi_link *link = send->link;
	ssize_t error;

	if (send->len <= port->inject_max) {
		error = fi_inject(net->ep, bytes_of(port, send), send->len, link->to);
		if (!error)
			send_free(port, send);
		return (int)error;
	}
	error = fi_send(net->ep, bytes_of(port, send), send->len, desc, link->to, &send->context);
	if (!error)
		begun(port, link);
	return (int)error;
}

static void wait_in_line(struct ofi_port *port, struct ofi_send *send)
{
	struct ofi_link *link = send->link;

	if (!link->n_waiting++) {
		link->stuck_us = port->worked_us;
		list_append(&port->stuck, &link->stuck);
	}
	list_append(&link->waiting, &send->node);
}

void ripc__ofi_sends_drop(struct ofi_port *port, struct ofi_link *link)
{
	while (!list_empty(&link->waiting))
		send_free(port, list_entry(list_pop(&link->waiting), struct ofi_send, node));
	link->n_waiting = 0;
	list_remove(&link->stuck);
}

/* Sends the waiting datagrams of one partner. False: libfabric takes no more of them. */
static bool push(struct ofi_port *port, struct ofi_link *link)
{
	uint32_t before = link->n_waiting;

	while (!list_empty(&link->waiting)) {
		struct ofi_send *send = list_entry(link->waiting.next, struct ofi_send, node);
		int error;

		list_remove(&send->node);
		error = post(port, send);
		if (error) {
			list_prepend(&link->waiting, &send->node);
			if (error != -FI_EAGAIN)
				ripc__ofi_link_fail(port, link);
			break;
		}
		link->n_waiting--;
	}
	if (link->n_waiting != before)
		link->stuck_us = port->worked_us;
	if (link->opening && link->n_waiting != before)
		ripc__ofi_link_tell(port, link);
	tell_if_missed(port, link);
	return link->n_waiting == 0;
}

void ripc__ofi_sends_push(struct ofi_port *port)
{
	list_for_each_safe(node, &port->stuck) {
		struct ofi_link *link = list_entry(node, struct ofi_link, stuck);

		if (push(port, link))
			list_remove(&link->stuck);
		else if (port->worked_us > link->stuck_us + OFI_STUCK_US)
			ripc__ofi_link_fail(port, link);
	}
}

void ripc__ofi_sends_look(struct ofi_port *port)
{
	struct ofi_link *link = list_entry(port->posting.next, struct ofi_link, posting);

	if (port->worked_us <= link->posted_us + OFI_STUCK_US)
		return;
	list_remove(&link->posting);
	link->silent = true;
	ripc__ofi_link_fail(port, link);
}

/* ---- core's datagrams -------------------------------------------------------------------- */

bool ripc__ofi_has_room(const struct ofi_port *port, const struct ofi_link *link)
{
	uint32_t taken = link->n_posted + link->n_waiting;

	return link->n_waiting < WAITING_MAX &&
		(taken ? taken + RESERVE < port->n_free : port->n_free > 0);
}

static struct ofi_send *fill(struct ofi_port *port, struct ofi_link *link,
		const struct ripc__tx *tx)
{
	struct ofi_send *send = list_entry(list_pop(&port->free_sends), struct ofi_send, node);
	uint8_t *to = bytes_of(port, send);

	port->n_free--;
	send->link = link;
	send->greets = false;
	send->len = port->head_len + tx->len;
	memcpy(to, port->head, port->head_len);
	ripc__tx_copy(to + port->head_len, tx);
	return send;
}

int ripc__ofi_send_one(struct ofi_port *port, struct ofi_link *link, const struct ripc__tx *tx)
{
	struct ofi_send *send = fill(port, link, tx);
	int error = link->n_waiting ? -FI_EAGAIN : post(port, send);

	if (error == -FI_EAGAIN) {
		wait_in_line(port, send);
		error = 0;
	} else if (error) {
		send_free(port, send);
		ripc__ofi_link_fail(port, link);
	}
	return error;
}

int ripc__ofi_knock(struct ofi_port *port, struct ofi_link *link)
{
	struct ripc__tx nothing = {0};
	int error;

	if (link->n_waiting)
		return -EAGAIN;
	if (!ripc__ofi_has_room(port, link))
		return 0;
	error = ripc__ofi_send_one(port, link, &nothing);
	return error ? error : link->n_waiting ? -EAGAIN : 0;
}

int ripc__ofi_greet(struct ofi_port *port, struct ofi_link *link)
{
	void *desc = port->net->send_mr ? fi_mr_desc(port->net->send_mr) : NULL;
	struct ripc__tx nothing = {0};
	struct ofi_send *send;
	struct iovec bytes;
	struct fi_msg message = {.msg_iov = &bytes, .desc = &desc, .iov_count = 1,
		.addr = link->to};
	ssize_t error;

	if (!ripc__ofi_has_room(port, link))
		return -EAGAIN;
	send = fill(port, link, &nothing);
	send->greets = true;
	bytes = (struct iovec){.iov_base = bytes_of(port, send), .iov_len = send->len};
	message.context = &send->context;
	error = fi_sendmsg(port->net->ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
	if (error) {
		send_free(port, send);
		return (int)error;
	}
	link->greeting = true;
	begun(port, link);
	return -EAGAIN;
}
