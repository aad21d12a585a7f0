/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links: the connections by which memory is read, one per direction and pair of ports, made at the
 * first read (docs/protocol.md has the messages).
 *
 * Design notes. The reader is the client. The client builds a queue pair and sends a request.
 * The server, which has opened memory for it to read, wants its proof back first: an attacker
 * that cannot receive at the client's address cannot make us give up a working connection. Then
 * the server builds its own queue pair and replies, to each repeated request. The client repeats
 * its request until it gets the reply or gives up: then its reads end, and core does without
 * them.
 *
 * There is a limit to the queue pairs of a port. At the limit the one that was not used for the
 * longest time ends, unless all are in use: then the newcomer is refused. A server cannot see
 * reads, hence its end is in use as long as any memory is open for that partner.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "util/hash/siphash.h"
#include "util/system/clock.h"

#define ASK_US      20000u    /* at first; then twice as long each time, */
#define ASK_MAX_US  160000u   /* up to this, */
#define GIVE_UP_US  1500000u  /* until this has passed; */
#define HOLD_US     1000000u  /* then no attempt for this long */
#define ROOM_US     10000u    /* until room for a queue pair is looked for again */
#define STALL_US    4000000u  /* without the end of a read: the device has lost it */
#define FLUSH_US    1000000u  /* a failed queue pair must have flushed within this */
#define IDLE_US     10000000u /* then the client closes; the server after twice that */
#define SWEEP_US    1000000u
#define NUMBER_MASK 0xffffffu

/* ---- links ------------------------------------------------------------------------------- */

static uint64_t link_key(const struct verbs_port *port, const struct verbs_addr *remote)
{
	struct verbs_addr bound = *remote;
	uint8_t bytes[VERBS_ADDR_LEN];

	bound.mtu = 0; /* may differ between the route and the datagrams */
	ripc__verbs_addr_encode(&bound, bytes);
	return ripc__siphash(port->secret, bytes, sizeof(bytes));
}

static void touch(struct verbs_link *link)
{
	link->used_us = ripc__clock_us();
	list_remove(&link->node);
	list_append(&link->port->links, &link->node);
}

static int link_new(struct verbs_port *port, const struct verbs_addr *remote, uint64_t key,
		struct verbs_link **link)
{
	struct verbs_link *made = calloc(1, sizeof(*made));
	int error;

	if (!made)
		return -ENOMEM;
	*made = (struct verbs_link){.port = port, .key = key, .remote = *remote};
	made->client.link = made->server.link = made;
	made->server.is_server = true;
	made->server.proof = ripc__rdma_nonce(port->secret, &port->counter);
	list_init(&made->node);
	ripc__rdma_flow_init(&made->flow, &port->reads);
	error = ripc__verbs_path_get(port, remote, &made->path);
	if (error && error != -EINPROGRESS)
		goto err_free;
	error = ripc__rdma_space_open(port->rdma, &made->space);
	if (error)
		goto err_path;
	error = ripc__map_put(&port->links_by_addr, key, made);
	if (error)
		goto err_space;
	ripc__verbs_due_at(port, ripc__clock_us() + SWEEP_US);
	*link = made;
	return 0;
err_space:
	ripc__rdma_space_put(made->space);
err_path:
	ripc__verbs_path_put(made->path);
err_free:
	free(made);
	return error;
}

int ripc__verbs_link_get(struct verbs_port *port, const struct verbs_addr *remote,
		struct verbs_link **link)
{
	uint64_t key = link_key(port, remote);
	struct verbs_link *found = ripc__map_get(&port->links_by_addr, key);
	int error = found ? 0 : link_new(port, remote, key, &found);

	if (error)
		return error;
	touch(found);
	*link = found;
	return 0;
}

static void link_free(struct verbs_link *link)
{
	ripc__map_remove(&link->port->links_by_addr, link->key);
	list_remove(&link->node);
	ripc__rdma_space_put(link->space);
	ripc__verbs_path_put(link->path);
	free(link);
}

/* ---- messages ---------------------------------------------------------------------------- */

static void say(struct verbs_link *link, enum verbs_setup_type type, const struct verbs_pair *pair)
{
	struct verbs_setup setup = {.type = (uint8_t)type, .nonce = pair->nonce};

	if (type == VERBS_REQUEST || type == VERBS_REPLY) {
		setup.qpn = pair->qp->qp_num;
		setup.mtu = pair->mtu;
		setup.reads = pair->reads;
		setup.psn = type == VERBS_REQUEST ? pair->psn : 0;
		setup.proof = pair->proof;
	}
	ripc__verbs_setup_send(link, &setup);
}

static void answer(struct verbs_link *link, enum verbs_setup_type type, uint64_t nonce)
{
	struct verbs_setup setup = {.type = (uint8_t)type, .nonce = nonce,
		.proof = type == VERBS_CHALLENGE ? link->server.proof : 0};

	ripc__verbs_setup_send(link, &setup);
}

/* ---- room -------------------------------------------------------------------------------- */

static void destroyed(struct verbs_pair *pair);

static void destroy(struct verbs_pair *pair)
{
	ripc__verbs_pair_destroy(pair, destroyed);
}

static void close_client(struct verbs_link *link)
{
	say(link, VERBS_CLIENT_GONE, &link->client);
	ripc__rdma_flow_fail(&link->flow); /* the remaining reads use the next one */
	destroy(&link->client);
}

static void close_server(struct verbs_link *link)
{
	say(link, VERBS_SERVER_GONE, &link->server);
	destroy(&link->server);
}

static bool client_is_idle(const struct verbs_link *link)
{
	return link->client.state == VERBS_READY && ripc__rdma_flow_is_idle(&link->flow);
}

static bool server_is_idle(const struct verbs_link *link)
{
	return link->server.state == VERBS_READY && link->space->n_keys == 0;
}

static bool is_going(const struct verbs_pair *pair)
{
	return pair->state == VERBS_DESTROYING || pair->state == VERBS_FLUSHING || pair->unwanted;
}

/* 0: one more queue pair may be made. -EAGAIN: soon. -EBUSY: all are in use. */
static int make_room(struct verbs_port *port)
{
	bool any_going = false;

	if (port->n_pairs < port->dev.connections)
		return 0;
	list_for_each(node, &port->links) {
		struct verbs_link *link = list_entry(node, struct verbs_link, node);

		any_going |= is_going(&link->client) || is_going(&link->server);
	}
	if (any_going)
		return -EAGAIN;
	list_for_each(node, &port->links) {
		struct verbs_link *link = list_entry(node, struct verbs_link, node);

		if (!client_is_idle(link) && !server_is_idle(link))
			continue;
		if (client_is_idle(link))
			close_client(link);
		else
			close_server(link);
		return -EAGAIN;
	}
	return -EBUSY;
}

/* ---- the client -------------------------------------------------------------------------- */

/* There can be no connection: the link's reads end, and the next ones for a while. */
static void client_fail(struct verbs_link *link, int error)
{
	link->hold_us = ripc__clock_us() + HOLD_US;
	if (error == -ETIMEDOUT)
		ripc__verbs_path_doubt(link->path);
	ripc__rdma_flow_refuse(&link->flow, error);
	if (link->client.state != VERBS_NONE)
		destroy(&link->client);
}

static void client_ask(struct verbs_link *link, uint64_t now_us)
{
	struct verbs_pair *pair = &link->client;

	say(link, VERBS_REQUEST, pair);
	pair->due_us = now_us + pair->wait_us;
	pair->wait_us = 2 * pair->wait_us < ASK_MAX_US ? 2 * pair->wait_us : ASK_MAX_US;
	ripc__verbs_due_at(link->port, pair->due_us);
}

static void client_built(struct verbs_pair *pair)
{
	pair->state = VERBS_ASKING;
	if (pair->error || pair->unwanted) {
		client_fail(pair->link, pair->error ? pair->error : -ECANCELED);
		return;
	}
	client_ask(pair->link, ripc__clock_us());
}

/* Begins to connect, if a read waits for it. */
static void client_want(struct verbs_link *link)
{
	struct verbs_port *port = link->port;
	struct verbs_pair *pair = &link->client;
	uint64_t now_us = ripc__clock_us();
	int error;

	if (list_empty(&link->flow.waiting) || pair->state != VERBS_NONE)
		return;
	error = port->no_more || port->rdma->is_lost || now_us < link->hold_us ? -EHOSTUNREACH :
		make_room(port);
	if (error == -EAGAIN) {
		ripc__verbs_due_at(port, now_us + ROOM_US);
		return;
	}
	if (error) {
		ripc__rdma_flow_refuse(&link->flow, error);
		return;
	}
	pair->nonce = ripc__rdma_nonce(port->secret, &port->counter);
	pair->psn = (uint32_t)ripc__rdma_nonce(port->secret, &port->counter) & NUMBER_MASK;
	pair->mtu = port->self.mtu;
	pair->reads = ripc__rdma_reads_at_once(port->rdma->attr.max_qp_init_rd_atom,
		RIPC__RDMA_READS_OF_QP);
	pair->until_us = now_us + GIVE_UP_US;
	pair->wait_us = ASK_US;
	ripc__verbs_pair_build(pair, client_built);
}

/* Posted reads come back, then the queue pair is destroyed. */
static void client_break(struct verbs_link *link)
{
	ripc__rdma_flow_fail(&link->flow);
	ripc__verbs_pair_break(&link->client);
	ripc__verbs_path_doubt(link->path); /* a possible cause */
	link->client.until_us = ripc__clock_us() + FLUSH_US;
	ripc__verbs_due_at(link->port, link->client.until_us);
}

/* Checks the client after something was posted, or has ended. */
static void client_check(struct verbs_link *link)
{
	if (link->client.state == VERBS_READY && link->flow.failed)
		client_break(link);
	if (link->client.state == VERBS_FLUSHING && link->flow.n_posted == 0)
		destroy(&link->client);
}

static void client_connected(struct verbs_pair *pair)
{
	struct verbs_link *link = pair->link;

	pair->state = VERBS_READY;
	if (pair->error || pair->unwanted) {
		client_fail(link, pair->error ? pair->error : -ECANCELED);
		return;
	}
	link->stalled_us = 0;
	ripc__rdma_flow_start(&link->flow, pair->qp, pair->reads);
	client_check(link);
}

static void client_heard(struct verbs_link *link, const struct verbs_setup *setup)
{
	struct verbs_pair *pair = &link->client;

	if (setup->nonce != pair->nonce)
		return;
	if (setup->type == VERBS_SERVER_GONE && pair->state == VERBS_READY) {
		client_break(link);
		client_check(link);
		return;
	}
	if (pair->state != VERBS_ASKING)
		return;
	if (setup->type == VERBS_CHALLENGE && setup->proof != pair->proof) {
		pair->proof = setup->proof;
		client_ask(link, ripc__clock_us());
	} else if (setup->type == VERBS_REFUSE) {
		client_fail(link, -EBUSY);
	} else if (setup->type == VERBS_REPLY) {
		pair->proof = setup->proof;
		pair->remote_qpn = setup->qpn;
		pair->mtu = setup->mtu < pair->mtu ? setup->mtu : pair->mtu;
		pair->reads = ripc__rdma_reads_at_once(setup->reads, pair->reads);
		ripc__verbs_pair_connect(pair, client_connected);
	}
}

static void destroyed(struct verbs_pair *pair)
{
	struct verbs_link *link = pair->link;

	if (pair->is_server) {
		pair->nonce = 0;
		return;
	}
	ripc__rdma_flow_stop(&link->flow, -ECONNRESET);
	client_want(link);
}

/* ---- the server -------------------------------------------------------------------------- */

static void server_built(struct verbs_pair *pair)
{
	struct verbs_link *link = pair->link;

	if (pair->error)
		answer(link, VERBS_REFUSE, pair->nonce);
	pair->state = VERBS_READY;
	if (pair->error || pair->unwanted)
		destroy(pair);
	else
		say(link, VERBS_REPLY, pair);
}

static void server_accept(struct verbs_link *link, const struct verbs_setup *setup)
{
	struct verbs_port *port = link->port;
	struct verbs_pair *pair = &link->server;
	bool may = link->space->n_keys > 0 && !port->no_more && !port->rdma->is_lost;
	int error = may ? make_room(port) : -EBUSY;

	if (error == -EBUSY)
		answer(link, VERBS_REFUSE, setup->nonce);
	if (error)
		return; /* -EAGAIN: the client repeats its request */
	pair->nonce = setup->nonce;
	pair->proof = ripc__rdma_nonce(port->secret, &port->counter); /* a proof is valid once */
	pair->remote_qpn = setup->qpn;
	pair->psn = setup->psn;
	pair->mtu = setup->mtu < port->self.mtu ? setup->mtu : port->self.mtu;
	pair->reads = ripc__rdma_reads_at_once(setup->reads, port->rdma->attr.max_qp_rd_atom);
	ripc__verbs_pair_build(pair, server_built);
}

static void server_asked(struct verbs_link *link, const struct verbs_setup *setup)
{
	struct verbs_pair *pair = &link->server;

	if (pair->nonce == setup->nonce && pair->state == VERBS_READY)
		say(link, VERBS_REPLY, pair);
	else if (pair->nonce == setup->nonce && pair->state == VERBS_BUILDING)
		return; /* the reply follows */
	else if (setup->proof != pair->proof)
		answer(link, VERBS_CHALLENGE, setup->nonce);
	else if (pair->state == VERBS_READY)
		destroy(pair); /* the client has lost its end, and repeats its request */
	else if (pair->state == VERBS_NONE)
		server_accept(link, setup);
}

void ripc__verbs_setup_came(struct verbs_port *port, const struct verbs_addr *from,
		const struct verbs_setup *setup)
{
	struct verbs_link *link = ripc__map_get(&port->links_by_addr, link_key(port, from));

	if (!link)
		return;
	switch (setup->type) {
	case VERBS_REQUEST:
		touch(link);
		server_asked(link, setup);
		break;
	case VERBS_CLIENT_GONE:
		if (link->server.nonce == setup->nonce && link->server.state == VERBS_READY)
			destroy(&link->server);
		break;
	default:
		client_heard(link, setup);
		break;
	}
}

void ripc__verbs_link_taken(struct verbs_link *link)
{
	client_check(link);
	client_want(link);
}

void ripc__verbs_link_completed(struct verbs_link *link)
{
	touch(link);
	link->stalled_us = 0;
	client_check(link);
}

void ripc__verbs_links_stop(struct verbs_port *port, const struct ripc__rdma_space *space)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	list_for_each(node, &port->links) {
		struct verbs_pair *pair = &list_entry(node, struct verbs_link, node)->server;

		if (pair->link->space != space)
			continue;
		if (pair->state == VERBS_READY) {
			(void)ibv_modify_qp(pair->qp, &attr, IBV_QP_STATE);
			destroy(pair);
		} else if (pair->state == VERBS_BUILDING) {
			pair->unwanted = true;
		}
	}
}

/* ---- time -------------------------------------------------------------------------------- */

/*
 * Reads must end. Devices ensure that (qp.c), except one: rxe (Linux 6.1) can forget to repeat a
 * read, and never reports its end when the other end has vanished.
 */
static void watch_reads(struct verbs_link *link, uint64_t now_us)
{
	if (link->flow.n_posted == 0 || !link->stalled_us)
		link->stalled_us = now_us;
	if (now_us - link->stalled_us >= STALL_US)
		client_break(link);
}

static void client_run(struct verbs_link *link, uint64_t now_us)
{
	struct verbs_pair *pair = &link->client;

	switch (pair->state) {
	case VERBS_NONE:
		client_want(link);
		break;
	case VERBS_ASKING:
		if (pair->until_us <= now_us)
			client_fail(link, -ETIMEDOUT);
		else if (pair->due_us <= now_us)
			client_ask(link, now_us);
		else
			ripc__verbs_due_at(link->port, pair->due_us);
		break;
	case VERBS_READY:
		if (client_is_idle(link) && now_us - link->used_us >= IDLE_US)
			close_client(link);
		else
			watch_reads(link, now_us);
		break;
	case VERBS_FLUSHING:
		if (pair->until_us <= now_us)
			destroy(pair);
		else
			ripc__verbs_due_at(link->port, pair->until_us);
		break;
	default:
		break;
	}
}

static bool is_unused(const struct verbs_link *link)
{
	return link->client.state == VERBS_NONE && link->server.state == VERBS_NONE &&
		ripc__rdma_flow_is_idle(&link->flow) && link->space->refs == 1;
}

void ripc__verbs_links_run(struct verbs_port *port, uint64_t now_us)
{
	port->due_us = UINT64_MAX;
	list_for_each_safe(node, &port->links) {
		struct verbs_link *link = list_entry(node, struct verbs_link, node);

		client_run(link, now_us);
		if (server_is_idle(link) && now_us - link->used_us >= 2 * IDLE_US)
			close_server(link);
		if (is_unused(link) && now_us - link->used_us >= SWEEP_US)
			link_free(link);
	}
	if (!list_empty(&port->links))
		ripc__verbs_due_at(port, now_us + SWEEP_US);
}

/* The helper threads have ended. */
void ripc__verbs_links_close(struct verbs_port *port)
{
	while (!list_empty(&port->links)) {
		struct verbs_link *link = list_entry(port->links.next, struct verbs_link, node);

		if (link->client.state == VERBS_READY)
			say(link, VERBS_CLIENT_GONE, &link->client);
		if (link->server.state == VERBS_READY)
			say(link, VERBS_SERVER_GONE, &link->server);
		ripc__verbs_pair_drop(&link->client);
		ripc__verbs_pair_drop(&link->server);
		link_free(link);
	}
	ripc__map_free(&port->links_by_addr);
}
