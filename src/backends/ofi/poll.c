/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions, received datagrams, and sleeping. Each call of poll lets libfabric work: it may
 * have no thread that does. Half of the receive buffers at most are with the context; a context
 * that holds that many loses later datagrams, but the endpoint never runs dry: libfabric would
 * keep datagrams without a buffer in memory of its own, without bound.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ripc/ripc.h"
#include "util/buffers.h"
#include "util/system/cancel.h"
#include "util/system/clock.h"

#define STUCK_LOOK_US 2000 /* until waiting operations are tried again */
#define STEP_US       100000  /* a longer gap between two looks was not libfabric's work */
#define EQ_EVERY      1024u   /* of the polls, one looks for errors of the endpoint */
#define EQ_MOST       256u    /* of these at a look: more than partners make between two */
/*
 * Those completion statuses of EFA (efa_io_defs.h of the Linux driver) that are about the other
 * end.
 */
#define EFA_REMOTE_FIRST 7  /* bad address */
#define EFA_REMOTE_LAST  15 /* not reachable; before it: unknown peer, unresponsive, aborted ... */

/* ---- receive buffers --------------------------------------------------------------------- */

static void keep(struct ofi_port *port, struct ofi_receive *receive)
{
	receive->next = port->idle;
	port->idle = receive;
}

static struct ripc__buffer *buffer_of(const struct ofi_port *port, uint32_t index)
{
	return ripc__buffers_at(port->net->receive_buffers, index);
}

/* False: libfabric takes no more now. */
static bool post(struct ofi_port *port, struct ofi_receive *receive)
{
	struct ofi_net *net = port->net;
	uint32_t index = (uint32_t)(receive - net->receives);
	void *desc = net->receive_mr ? fi_mr_desc(net->receive_mr) : NULL;

	return fi_recv(net->ep, buffer_of(port, index)->data, port->buffer_len, desc,
		FI_ADDR_UNSPEC, &receive->context) == 0;
}

/* Posts again the buffers that were released, and those that are idle. */
static void refill(struct ofi_port *port)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < port->n_handed; i++) {
		uint32_t index = port->handed[i];

		if (ripc__buffer_is_free(buffer_of(port, index)))
			keep(port, &port->net->receives[index]);
		else
			port->handed[kept++] = index;
	}
	port->n_handed = kept;
	while (port->idle && post(port, port->idle))
		port->idle = port->idle->next;
}

int ripc__ofi_receives_open(struct ofi_port *port)
{
	port->handed = calloc(port->n_receives, sizeof(port->handed[0]));
	if (!port->handed)
		return -ENOMEM;
	for (uint32_t i = port->n_receives; i-- > 0;)
		keep(port, &port->net->receives[i]);
	refill(port);
	return port->idle == &port->net->receives[0] ? -EIO : 0;
}

/* ---- completions ------------------------------------------------------------------------- */

static bool is_receive(const struct ofi_port *port, const void *context)
{
	const struct ofi_receive *receives = port->net->receives;

	return (const struct ofi_receive *)context >= receives &&
		(const struct ofi_receive *)context < receives + port->n_receives;
}

/* Is it only a head, sent to make a connection or to greet? Core does not get it. */
static bool is_knock(const struct ofi_port *port, const struct ofi_receive *receive, size_t len)
{
	uint32_t index = (uint32_t)(receive - port->net->receives);
	struct ofi_name name;

	return len <= OFI_HEAD_MAX && ripc__ofi_head_decode(buffer_of(port, index)->data, len,
		&port->self, &name) == (int)len;
}

static void take_receive(struct ofi_port *port, struct ofi_receive *receive, size_t len)
{
	if (is_knock(port, receive, len)) {
		keep(port, receive);
		return;
	}
	port->arrivals[port->n_arrivals++] = (struct ofi_arrival){
		.index = (uint32_t)(receive - port->net->receives),
		.len = (uint32_t)len,
	};
}

static void take_send(struct ofi_port *port, struct ofi_send *send)
{
	if (send->greets && send->link)
		send->link->greeted = true;
	ripc__ofi_send_end(port, send);
}

/* There is room in port->arrivals. */
static void take(struct ofi_port *port, const struct fi_cq_msg_entry *entry)
{
	if (ripc__ofi_is_send(port->net, entry->op_context))
		take_send(port, entry->op_context);
	else if (ripc__ofi_is_read(port->net, entry->op_context))
		ripc__ofi_read_end(port, entry->op_context, 0);
	else if (is_receive(port, entry->op_context))
		take_receive(port, entry->op_context, entry->len);
}

/* Is only the datagram lost, because the partner has no room for it, or it was taken back? */
static bool is_loss(int error)
{
	return error == FI_EAGAIN || error == FI_ENORX || error == FI_ECANCELED;
}

static void take_error(struct ofi_port *port)
{
	struct fi_cq_err_entry entry = {0};

	if (fi_cq_readerr(port->net->cq, &entry, 0) != 1)
		return;
	if (ripc__ofi_is_send(port->net, entry.op_context)) {
		struct ofi_send *send = entry.op_context;
		if (send->link && !is_loss(entry.err)) {
			ripc__ofi_entry_lost(port, send->link);
			ripc__ofi_link_fail(port, send->link);
		}
		ripc__ofi_send_end(port, send);
		/* Last: the failure may be reported twice. */
		list_remove(&send->node);
		list_append(&port->free_sends, &send->node);
	} else if (ripc__ofi_is_read(port->net, entry.op_context)) {
		ripc__ofi_read_end(port, entry.op_context, entry.err > 0 ? -entry.err : -EIO);
	} else if (is_receive(port, entry.op_context)) {
		/* Too long for any of ours, or broken off. */
		keep(port, entry.op_context);
		port->dropped++;
	}
}

/*
 * The EFA provider also reports here the fate of its own packets, which greet a partner that is
 * gone by then: a status of the device about the other end; partners that it has no room for;
 * and packets that it dropped, which anybody can cause (efa_errno.h of libfabric).
 */
static bool is_of_partner(const struct ofi_port *port, const struct fi_eq_err_entry *entry)
{
	int status = entry->prov_errno;

	if (port->net->info->ep_attr->protocol != FI_PROTO_EFA)
		return false;
	switch (status) {
	case 4097: /* a type of packet that is out of use, */
	case 4098: /* not valid, */
	case 4099: /* or not known */
	case 4104: /* the number of a packet that has come already */
	case 4110: /* no room for the sender of something */
	case 4111: /* a read or write of memory that is not open for it */
	case 4113: /* the sender of something could not be greeted */
	case 4115: /* pieces of different messages */
		return true;
	default:
		return status >= EFA_REMOTE_FIRST && status <= EFA_REMOTE_LAST;
	}
}

/* After an error of the endpoint itself nothing works any more. False: there was none. */
static bool take_endpoint_error(struct ofi_port *port)
{
	struct fi_eq_err_entry entry = {0};
	uint32_t kind;

	if (fi_eq_read(port->net->eq, &kind, &entry, sizeof(entry), 0) != -FI_EAVAIL ||
			fi_eq_readerr(port->net->eq, &entry, 0) < 0)
		return false;
	if (is_of_partner(port, &entry) || port->is_lost)
		return true;
	port->is_lost = true;
	port->dev.host.log(port->dev.host.arg, RIPC_LOG_ERROR,
		"ofi: the endpoint has failed: %s (%d)", fi_strerror(entry.err), entry.prov_errno);
	return true;
}

/* The provider keeps them all until they are taken. */
static void look_for_errors(struct ofi_port *port)
{
	for (uint32_t n = 0; n < EQ_MOST && take_endpoint_error(port); n++)
		;
}

/* A long time since the last note was not libfabric's. */
static void note_time(struct ofi_port *port)
{
	uint64_t now_us = ripc__clock_us(), passed_us = now_us - port->looked_us;

	port->looked_us = now_us;
	port->worked_us += passed_us < STEP_US ? passed_us : STEP_US;
}

void ripc__ofi_progress(struct ofi_port *port)
{
	struct fi_cq_msg_entry entries[OFI_BATCH];
	uint32_t room = OFI_BATCH - port->n_arrivals;
	ssize_t n = fi_cq_read(port->net->cq, room ? entries : NULL, room);
	bool all_seen = room && n == -FI_EAGAIN;

	if (n == -FI_EAVAIL)
		take_error(port);
	for (ssize_t i = 0; i < n; i++)
		take(port, &entries[i]);
	if (!list_empty(&port->stuck) || !list_empty(&port->reading) ||
			(all_seen && !list_empty(&port->posting)))
		note_time(port);
	if (!list_empty(&port->stuck))
		ripc__ofi_sends_push(port);
	if (!list_empty(&port->reading))
		ripc__ofi_reads_push(port);
	if (all_seen && !list_empty(&port->posting))
		ripc__ofi_sends_look(port);
}

/* ---- datagrams --------------------------------------------------------------------------- */

/*
 * The sender. Most datagrams have the same sender as the one before. Returns the length of the
 * head.
 */
static int sender_of(struct ofi_port *port, const uint8_t *bytes, uint32_t len,
		struct ripc__addr *from)
{
	struct ofi_name name;
	int head;

	if (port->recent_len && len >= port->recent_len &&
			memcmp(bytes, port->recent_head, port->recent_len) == 0) {
		*from = port->recent;
		return (int)port->recent_len;
	}
	head = ripc__ofi_head_decode(bytes, len, &port->self, &name);
	if (head < 0)
		return head;
	ripc__ofi_addr_fill(&name, &port->self, from);
	port->recent = *from;
	port->recent_len = (uint32_t)head;
	memcpy(port->recent_head, bytes, port->recent_len);
	return head;
}

/* False: the arrival is not for core, and its buffer is kept. */
static bool hand_over(struct ofi_port *port, const struct ofi_arrival *arrival,
		struct ripc__event *event, struct ripc__addr *from)
{
	struct ripc__buffer *buffer = buffer_of(port, arrival->index);
	bool may_hand = port->n_handed < port->n_receives / 2;
	int head = sender_of(port, buffer->data, arrival->len, from);

	port->dropped += head >= 0 && !may_hand;
	if (head < 0 || !may_hand) {
		keep(port, &port->net->receives[arrival->index]);
		return false;
	}
	ripc__buffer_hold(buffer, 1);
	port->handed[port->n_handed++] = arrival->index;
	*event = (struct ripc__event){
		.kind = RIPC_EV_DATAGRAM,
		.data = buffer->data + head,
		.len = arrival->len - (uint32_t)head,
		.handle = buffer,
		.from = from,
	};
	return true;
}

/* Fills events[at..n); returns where it ended. */
static uint32_t take_arrivals(struct ofi_port *port, struct ripc__event *events, uint32_t at,
		uint32_t n)
{
	while (at < n && port->at < port->n_arrivals)
		at += hand_over(port, &port->arrivals[port->at++], &events[at], &port->from[at]);
	if (port->at == port->n_arrivals)
		port->at = port->n_arrivals = 0;
	return at;
}

int ripc__ofi_poll(void *state, struct ripc__event *events, uint32_t n, bool all)
{
	RIPC__HOLD_CANCEL;
	struct ofi_port *port = state;
	uint32_t filled;

	(void)all;
	n = n < RIPC_EVENTS_MAX ? n : RIPC_EVENTS_MAX;
	refill(port); /* first: released buffers may be used again */
	if (port->at == port->n_arrivals || !list_empty(&port->stuck) || n == 0)
		ripc__ofi_progress(port);
	filled = ripc__ofi_links_take(port, events, 0, n);
	filled = ripc__ofi_reads_take(port, events, filled, n);
	filled = take_arrivals(port, events, filled, n);
	if (++port->polls % EQ_EVERY == 0)
		look_for_errors(port);
	return (int)filled;
}

void ripc__ofi_stats(void *state, struct ripc__net_stats *stats)
{
	struct ofi_port *port = state;

	*stats = (struct ripc__net_stats){.overflows = port->dropped};
	port->dropped = 0;
}

/* ---- sleeping ---------------------------------------------------------------------------- */

/* Waiting operations are tried again even if libfabric has nothing to report. */
int ripc__ofi_wait_open(struct ofi_port *port)
{
	int fd, error;

	if (fi_control(&port->net->cq->fid, FI_GETWAIT, &fd))
		return 0;
	error = ripc__sleeper_open(&port->sleeper, &fd, 1);
	port->sleeps = !error;
	return error;
}

void ripc__ofi_wait_close(struct ofi_port *port)
{
	if (port->sleeps)
		ripc__sleeper_close(&port->sleeper);
}

static bool has_something(const struct ofi_port *port)
{
	return port->at < port->n_arrivals || !list_empty(&port->told) ||
		!list_empty(&port->ended);
}

int ripc__ofi_wait_arm(void *state)
{
	RIPC__HOLD_CANCEL;
	struct ofi_port *port = state;
	struct fid *queue = &port->net->cq->fid;
	int quiet;

	refill(port);
	if (!has_something(port))
		ripc__ofi_progress(port);
	quiet = !port->sleeps || has_something(port) ||
		fi_trywait(port->net->fabric, &queue, 1) == 0;
	/* The timer fires once, while anything waits; setting it makes it quiet. */
	if (port->sleeps)
		ripc__sleeper_set_after(&port->sleeper, list_empty(&port->stuck) &&
			list_empty(&port->reading) ? 0 : STUCK_LOOK_US);
	return has_something(port) || !quiet ? -EAGAIN : 0;
}
