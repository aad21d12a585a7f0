/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ofi backend when libfabric accepts no operation, or reports failures. The tests come between
 * it and the tcp provider.
 */
#include "ofi_work.h"
#include "suite.h"

#define MANY    3000u
#define LEN     200u /* more than the provider injects */
#define WINDOW  40u  /* under way at once */
#define LONG    10u  /* seconds: enough to be given up */

static struct {
	struct fi_ops_msg msg, *real_msg;
	struct fi_ops_cq cq, *real_cq;
	struct fi_ops_eq eq;
	uint32_t refuse;       /* of 100 operations */
	uint64_t refused;
	fi_addr_t dead;        /* takes nothing */
	fi_addr_t living;      /* FI_ADDR_NOTAVAIL: all; else of others no send completes */
	void *swallowed[OFI_SENDS];
	uint32_t n_swallowed;
	bool fails;            /* sends are taken and fail by their completion, */
	int error;             /* so */
	void *failed[2 * OFI_SENDS];
	uint32_t n_failed;
	bool cut;              /* the next receive fails */
	uint32_t n_before;     /* errors about partners, in front of that of the endpoint */
	void *cut_context;
} between;

static bool refuses(fi_addr_t to)
{
	bool yes = to == between.dead || (uint32_t)(random() % 100) < between.refuse;

	between.refused += yes;
	return yes;
}

static ssize_t send_between(struct fid_ep *ep, const void *buf, size_t len, void *desc,
		fi_addr_t to, void *context)
{
	if (refuses(to))
		return -FI_EAGAIN;
	if (between.living != FI_ADDR_NOTAVAIL && to != between.living) {
		between.swallowed[between.n_swallowed++] = context;
		return 0;
	}
	if (between.fails) {
		between.failed[between.n_failed++] = context;
		return 0;
	}
	return between.real_msg->send(ep, buf, len, desc, to, context);
}

static ssize_t inject_between(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to)
{
	return refuses(to) ? -FI_EAGAIN : between.real_msg->inject(ep, buf, len, to);
}

static ssize_t recv_between(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
		void *context)
{
	return refuses(FI_ADDR_NOTAVAIL - 1) ? -FI_EAGAIN :
		between.real_msg->recv(ep, buf, len, desc, from, context);
}

static ssize_t read_between(struct fid_cq *cq, void *buf, size_t count)
{
	struct fi_cq_msg_entry *entries = buf;
	ssize_t n;

	if (between.n_failed || between.cut_context)
		return -FI_EAVAIL;
	n = between.real_cq->read(cq, buf, between.cut && count ? 1 : count);
	if (n == 1 && between.cut && entries->flags & FI_RECV) {
		between.cut = false;
		between.cut_context = entries->op_context;
		return -FI_EAVAIL;
	}
	return n;
}

static ssize_t readerr_between(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
	if (between.cut_context) {
		entry->op_context = between.cut_context;
		entry->err = FI_ETRUNC;
		between.cut_context = NULL;
		return 1;
	}
	if (!between.n_failed)
		return between.real_cq->readerr(cq, entry, flags);
	entry->op_context = between.failed[--between.n_failed];
	entry->err = between.error;
	return 1;
}

static void come_between(struct end *end)
{
	memset(&between, 0, sizeof(between));
	between.dead = between.living = FI_ADDR_NOTAVAIL;
	between.real_msg = end->port.net->ep->msg;
	between.msg = *between.real_msg;
	between.msg.send = send_between;
	between.msg.inject = inject_between;
	between.msg.recv = recv_between;
	end->port.net->ep->msg = &between.msg;
	between.real_cq = end->port.net->cq->ops;
	between.cq = *between.real_cq;
	between.cq.read = read_between;
	between.cq.readerr = readerr_between;
	end->port.net->cq->ops = &between.cq;
}

static void step_back(struct end *end)
{
	end->port.net->ep->msg = between.real_msg;
	end->port.net->cq->ops = between.real_cq;
}

static void pair_open(struct end *left, struct end *right)
{
	end_open(left);
	end_open(right);
	end_route(left, right);
	end_route(right, left);
	ck_assert_int_eq(end_send(left, 1, LEN), 1);
	ck_assert_uint_eq(end_number(right, left), 1);
	come_between(left);
}

static void pair_close(struct end *left, struct end *right)
{
	step_back(left);
	ripc__ofi_route_close(&left->port, &left->peer);
	ripc__ofi_route_close(&right->port, &right->peer);
	end_close(left);
	end_close(right);
}

/* Sends as many as are taken until WINDOW are under way. */
static void send_some(struct end *end, uint32_t *sent, uint32_t got)
{
	while (*sent < MANY && *sent - got < WINDOW) {
		int rc = end_send(end, *sent, *sent % 2 ? LEN : 8);

		ck_assert_int_ge(rc, 0);
		if (rc == 0)
			return;
		++*sent;
	}
}

/* Nine of ten operations are refused: each datagram arrives, once. */
START_TEST(send__outlasts_storms)
{
	static bool seen[MANY];
	struct end left, right;
	uint32_t sent = 0, got = 0;

	memset(seen, 0, sizeof(seen));
	srandom((unsigned int)_i + 1);
	pair_open(&left, &right);
	between.refuse = 90;
	while (got < MANY) {
		uint32_t number;

		send_some(&left, &sent, got);
		number = end_number(&right, &left);
		ck_assert_uint_lt(number, sent);
		ck_assert(!seen[number]);
		seen[number] = true;
		got++;
	}
	ck_assert_uint_gt(between.refused, MANY);
	pair_close(&left, &right);
}
END_TEST

/* The same at who receives. */
START_TEST(recv__outlasts_storms)
{
	struct end left, right;
	uint32_t sent = 0, got = 0;

	srandom((unsigned int)_i + 1);
	pair_open(&right, &left); /* the sender is right */
	between.refuse = 95;
	while (got < MANY) {
		send_some(&left, &sent, got);
		end_number(&right, &left);
		got++;
	}
	ck_assert_uint_gt(between.refused, 0);
	pair_close(&right, &left);
}
END_TEST

/* Swallowed sends complete, and no buffer is forgotten. */
static void expect_all_free(struct end *end)
{
	struct ripc__event none;
	uint32_t n = 0;

	for (int turn = 0; turn < TURNS_MAX && end->port.n_free < OFI_SENDS; turn++) {
		ripc__ofi_poll(&end->port, &none, 0, false);
		poll(NULL, 0, 1);
	}
	ck_assert_uint_eq(end->port.n_free, OFI_SENDS);
	ck_assert_uint_eq(end->port.net->n_ops, 0);
	list_for_each(node, &end->port.free_sends)
		n++;
	ck_assert_uint_eq(n, OFI_SENDS);
}

static void end_third(struct end *third, struct end *of, struct ofi_route *peer)
{
	end_open(third);
	end_route_by(of, third, peer);
}

/* One partner takes nothing: it fails after a while, and nobody else notices. */
START_TEST(send__dead_partner_delays_nobody)
{
	struct end left, right, third;
	struct ofi_route alive, dead;
	struct ripc__event event;
	uint32_t taken = 0;
	int rc;

	pair_open(&left, &right);
	end_third(&third, &left, &dead);
	alive = left.peer;
	between.dead = dead.link->to;
	left.peer = dead;
	while ((rc = end_send(&left, taken, LEN)) == 1)
		taken++;
	ck_assert_int_eq(rc, 0);
	ck_assert(taken > 0 && taken < OFI_SENDS / 2);
	left.peer = alive;
	for (uint32_t i = 0; i < 500; i++) {
		ck_assert_int_eq(end_send(&left, i, LEN), 1);
		ck_assert_uint_eq(end_number(&right, &left), i);
	}
	work(&left, LONG);
	end_next(&left, NULL, &event);
	ck_assert_int_eq(event.kind, RIPC_EV_PEER);
	ck_assert(ripc__ofi_route_matches(&left.port, &dead, event.from));
	left.peer = dead;
	ck_assert_int_eq(end_send(&left, 1, LEN), -ECONNRESET);
	left.peer = alive;
	expect_all_free(&left);
	ripc__ofi_route_close(&left.port, &dead);
	end_close(&third);
	pair_close(&left, &right);
}
END_TEST

#define DEAD_MAX 20u

static void send_all(struct end *end, struct ofi_route *peer)
{
	struct ofi_route before = end->peer;

	end->peer = *peer;
	while (end_send(end, 0, LEN) == 1)
		;
	end->peer = before;
}

/* Swallowed sends fail after all, and each is reported twice, as EFA's provider (1.17) may. */
static void give_back(struct end *end)
{
	for (uint32_t i = 0; i < 2 * between.n_swallowed; i++)
		between.failed[i] = between.swallowed[i / 2];
	between.n_failed = 2 * between.n_swallowed;
	between.n_swallowed = 0;
	between.error = FI_ECANCELED;
	between.living = FI_ADDR_NOTAVAIL;
	expect_all_free(end);
}

/* libfabric takes what many partners are sent, and never completes it: there is some for others. */
START_TEST(send__never_completed_delays_nobody)
{
	static struct end left, right, third[DEAD_MAX];
	struct ofi_route dead[DEAD_MAX], again;
	struct ripc__addr addr;

	pair_open(&left, &right);
	for (uint32_t i = 0; i < DEAD_MAX; i++)
		end_third(&third[i], &left, &dead[i]);
	between.living = left.peer.link->to;
	for (uint32_t i = 0; i < DEAD_MAX; i++)
		send_all(&left, &dead[i]);
	ck_assert_uint_ge(between.n_swallowed, OFI_SENDS / 2);
	for (uint32_t i = 0; i < 100; i++) {
		ck_assert_int_eq(end_send(&left, i, LEN), 1);
		ck_assert_uint_eq(end_number(&right, &left), i);
		while (left.peer.link->n_posted)
			ripc__ofi_progress(&left.port);
	}
	work(&left, LONG);
	for (uint32_t i = 0; i < DEAD_MAX; i++) {
		ck_assert(dead[i].link->silent);
		end_addr(&third[i], &left, &addr);
		ck_assert_int_eq(ripc__ofi_route_open(&left.port, &again, &addr), -EHOSTUNREACH);
	}
	ck_assert_uint_eq(left.peer.resets, left.peer.link->resets);
	give_back(&left);
	for (uint32_t i = 0; i < DEAD_MAX; i++) {
		ripc__ofi_route_close(&left.port, &dead[i]);
		end_route_by(&left, &third[i], &dead[i]);
		ripc__ofi_route_close(&left.port, &dead[i]);
		end_close(&third[i]);
	}
	pair_close(&left, &right);
}
END_TEST

/* A long time in which nobody looked says nothing about a partner of which nothing completes, */
START_TEST(send__nobody_looked)
{
	struct end left, right;

	pair_open(&left, &right);
	between.living = FI_ADDR_NOTAVAIL - 1;
	ck_assert_int_eq(end_send(&left, 1, LEN), 1);
	idle(&left, LONG);
	work(&left, 1);
	ck_assert(!left.peer.link->failed);
	give_back(&left);
	work(&left, LONG);
	ck_assert(!left.peer.link->failed);
	pair_close(&left, &right);
}
END_TEST

/* the failure of a partner that takes nothing is not reported, either */
START_TEST(send__not_taken_and_nobody_looked)
{
	struct end left, right;

	pair_open(&left, &right);
	between.dead = left.peer.link->to;
	ck_assert_int_eq(end_send(&left, 5, LEN), 1);
	idle(&left, LONG);
	work(&left, 1);
	ck_assert_uint_eq(left.peer.link->n_waiting, 1);
	ck_assert(!left.peer.link->failed);
	between.dead = FI_ADDR_NOTAVAIL;
	ck_assert_uint_eq(end_number(&right, &left), 5);
	pair_close(&left, &right);
}
END_TEST

/* A route that was refused is notified when it goes on. */
START_TEST(send__tells_when_it_takes_again)
{
	struct end left, right;
	struct ripc__event event;
	uint32_t taken = 0;

	pair_open(&left, &right);
	between.dead = left.peer.link->to;
	while (end_send(&left, taken, LEN) == 1)
		taken++;
	between.dead = FI_ADDR_NOTAVAIL;
	end_next(&left, NULL, &event);
	ck_assert_int_eq(event.kind, RIPC_EV_PEER);
	ck_assert_int_eq(event.status, 0);
	for (uint32_t i = 0; i < taken; i++)
		ck_assert_uint_eq(end_number(&right, &left), i);
	pair_close(&left, &right);
}
END_TEST

/* A completion says that it went nowhere: the route is lost, and a new one works. */
START_TEST(send__fails_by_its_completion)
{
	struct end left, right;
	struct ripc__event event;

	pair_open(&left, &right);
	between.fails = true;
	between.error = FI_EHOSTUNREACH;
	for (uint32_t i = 0; i < 5; i++)
		ck_assert_int_eq(end_send(&left, i, LEN), 1);
	end_next(&left, NULL, &event);
	ck_assert_int_eq(event.kind, RIPC_EV_PEER);
	ck_assert_int_eq(end_send(&left, 9, LEN), -ECONNRESET);
	expect_all_free(&left);
	between.fails = false;
	ripc__ofi_route_close(&left.port, &left.peer);
	end_route(&left, &right);
	ck_assert_int_eq(end_send(&left, 10, LEN), 1);
	ck_assert_uint_eq(end_number(&right, &left), 10);
	pair_close(&left, &right);
}
END_TEST

/* The partner had no buffer: that is a lost datagram, and no more. */
START_TEST(send__not_ready_is_a_loss)
{
	struct end left, right;
	struct ripc__event event;

	pair_open(&left, &right);
	between.fails = true;
	between.error = FI_ENORX;
	ck_assert_int_eq(end_send(&left, 3, LEN), 1);
	ck_assert_int_eq(ripc__ofi_poll(&left.port, &event, 1, false), 0);
	between.fails = false;
	ck_assert_int_eq(end_send(&left, 4, LEN), 1);
	ck_assert_uint_eq(end_number(&right, &left), 4);
	pair_close(&left, &right);
}
END_TEST

/* Truncated datagrams are counted, and their buffers are posted again. */
START_TEST(recv__cut_off)
{
	struct ripc__net_stats stats;
	struct end left, right;

	pair_open(&right, &left);
	ck_assert_int_eq(end_send(&left, 2, LEN), 1);
	ck_assert_uint_eq(end_number(&right, &left), 2);
	between.cut = true;
	ck_assert_int_eq(end_send(&left, 3, LEN), 1);
	ck_assert_int_eq(end_send(&left, 4, LEN), 1);
	ck_assert_uint_eq(end_number(&right, &left), 4);
	ripc__ofi_stats(&right.port, &stats);
	ck_assert_uint_eq(stats.overflows, 1);
	ripc__ofi_stats(&right.port, &stats);
	ck_assert_uint_eq(stats.overflows, 0);
	ck_assert_ptr_null(right.port.idle);
	pair_close(&right, &left);
}
END_TEST

static ssize_t eq_error(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	(void)eq;
	(void)event;
	(void)buf;
	(void)len;
	(void)flags;
	return -FI_EAVAIL;
}

static ssize_t eq_error_read(struct fid_eq *eq, struct fi_eq_err_entry *entry, uint64_t flags)
{
	(void)eq;
	(void)flags;
	entry->err = FI_EIO;
	entry->prov_errno = between.error;
	if (between.n_before > 0) {
		between.n_before--;
		entry->prov_errno = 4110;
	}
	return (ssize_t)sizeof(*entry);
}

/* The endpoint itself has failed: nothing goes any more, and core hears of it. */
START_TEST(poll__endpoint_fails)
{
	struct end left, right;
	struct ripc__event event;
	struct ofi_route peer;
	struct ripc__addr addr;
	struct fi_ops_eq *real;

	pair_open(&left, &right);
	real = left.port.net->eq->ops;
	between.eq = *real;
	between.eq.read = eq_error;
	between.eq.readerr = eq_error_read;
	left.port.net->eq->ops = &between.eq;
	left.port.net->info->ep_attr->protocol = FI_PROTO_EFA;
	between.n_before = 200; /* the events of partners hide the failure for no long time */
	for (uint32_t i = 0; i < 5000 && !left.port.is_lost; i++)
		ripc__ofi_poll(&left.port, &event, 0, false);
	left.port.net->info->ep_attr->protocol = right.port.net->info->ep_attr->protocol;
	ck_assert_int_eq(end_send(&left, 3, LEN), -ECONNRESET);
	ck_assert_int_lt(ripc__ofi_port_addr(&left.port, addr.blob), 0);
	end_addr(&right, &left, &addr);
	ck_assert_int_lt(ripc__ofi_route_open(&left.port, &peer, &addr), 0);
	left.port.net->eq->ops = real;
	pair_close(&left, &right);
}
END_TEST

/* Errors of EFA's provider about partners there are no end of the endpoint. */
START_TEST(poll__partner_fails)
{
	static const int statuses[] = {7, 9, 13, 15, 4097, 4098, 4099, 4104, 4110, 4111, 4113,
		4115};
	struct end left, right;
	struct ripc__event event;
	struct fi_ops_eq *real;

	pair_open(&left, &right);
	real = left.port.net->eq->ops;
	between.eq = *real;
	between.eq.read = eq_error;
	between.eq.readerr = eq_error_read;
	left.port.net->eq->ops = &between.eq;
	left.port.net->info->ep_attr->protocol = FI_PROTO_EFA;
	for (size_t at = 0; at < sizeof(statuses) / sizeof(statuses[0]); at++) {
		between.error = statuses[at];
		for (uint32_t i = 0; i < 3000; i++)
			ripc__ofi_poll(&left.port, &event, 0, false);
		ck_assert(!left.port.is_lost);
	}
	left.port.net->info->ep_attr->protocol = right.port.net->info->ep_attr->protocol;
	left.port.net->eq->ops = real;
	pair_close(&left, &right);
}
END_TEST

/* Strangers come and go: no more of them are kept than OFI_LINKS_KEPT. */
START_TEST(links__are_bounded)
{
	struct end left, right;
	struct ripc__addr addr;
	struct ofi_route peer;

	pair_open(&left, &right);
	end_addr(&right, &left, &addr);
	for (uint32_t i = 1; i < 1000; i++) {
		addr.blob[OFI_ADDR_HEAD + 2] = (uint8_t)(i >> 8);
		addr.blob[OFI_ADDR_HEAD + 3] = (uint8_t)i;
		ripc__ofi_route_open(&left.port, &peer, &addr);
		ripc__ofi_route_close(&left.port, &peer);
		work(&left, LONG);
		ck_assert_uint_le(left.port.n_unused, OFI_LINKS_KEPT + 1);
	}
	ck_assert_uint_eq(left.port.links_by_name.count, left.port.n_unused + 1);
	ck_assert_int_eq(end_send(&left, 3, LEN), 1);
	ck_assert_uint_eq(end_number(&right, &left), 3);
	pair_close(&left, &right);
}
END_TEST

int main(void)
{
	const struct suite_loop tests[] = {
		{send__outlasts_storms, 10},
		{recv__outlasts_storms, 10},
		{send__dead_partner_delays_nobody, 1},
		{send__never_completed_delays_nobody, 1},
		{send__nobody_looked, 1},
		{send__not_taken_and_nobody_looked, 1},
		{send__tells_when_it_takes_again, 1},
		{send__fails_by_its_completion, 1},
		{send__not_ready_is_a_loss, 1},
		{recv__cut_off, 1},
		{poll__endpoint_fails, 1},
		{poll__partner_fails, 1},
		{links__are_bounded, 1},
		{NULL, 0},
	};

	return world_can() ? suite_run_loops("ofi", tests) : SKIPPED;
}
