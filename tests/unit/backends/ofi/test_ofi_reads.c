/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads of the ofi backend when libfabric takes none or says that one has failed, before it knows
 * the other end, and with keys that are none. The tests come between it and the tcp provider, which
 * reads if it is told to; where EFA differs, it is told that it is EFA.
 */
#include <stdlib.h>
#include <sys/wait.h>

#include "ofi_work.h"
#include "suite.h"

#define LEN   5000u
#define LONG  10u /* seconds: enough to be given up */
#define SHORT 2u

static struct {
	struct fi_ops_rma rma, *real_rma;
	struct fi_ops_msg msg, *real_msg;
	struct fi_ops_cq cq, *real_cq;
	struct fi_ops_mr mr, *real_mr;
	uint32_t n_reads;   /* that were asked for */
	uint32_t refuse;    /* number of operations to refuse */
	bool keeps;         /* takes reads, and what it does not do ends only when told */
	void *kept;
	uint32_t n_greetings;
	void *greeting;     /* its context */
	void *ended;        /* the operation that the next look at the queue finds, */
	int error;          /* and how it ended */
} between;

/* Left holds the memory, right reads it. */
static struct end left, right;
static struct ripc__key key;
static void *region; /* ours, where that is registered */
static uint8_t theirs[LEN], ours[LEN];

static ssize_t read_between(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
		uint64_t address, uint64_t wanted_key, void *context)
{
	between.n_reads++;
	if (between.refuse) {
		between.refuse--;
		return -FI_EAGAIN;
	}
	if (between.keeps) {
		between.kept = context;
		return 0;
	}
	return between.real_rma->read(ep, buf, len, desc, from, address, wanted_key, context);
}

static ssize_t sendmsg_between(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	(void)ep;
	ck_assert_uint_eq(flags & FI_DELIVERY_COMPLETE, FI_DELIVERY_COMPLETE);
	between.n_greetings++;
	if (between.refuse) {
		between.refuse--;
		return -FI_EAGAIN;
	}
	between.greeting = msg->context;
	return 0;
}

static ssize_t cq_read_between(struct fid_cq *cq, void *buf, size_t count)
{
	struct fi_cq_msg_entry *entry = buf;

	if (!between.ended || !count)
		return between.real_cq->read(cq, buf, count);
	if (between.error)
		return -FI_EAVAIL;
	memset(entry, 0, sizeof(*entry));
	entry->op_context = between.ended;
	between.ended = NULL;
	return 1;
}

static ssize_t cq_readerr_between(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
	if (!between.ended)
		return between.real_cq->readerr(cq, entry, flags);
	entry->op_context = between.ended;
	entry->err = between.error;
	between.ended = NULL;
	return 1;
}

static int reg_fails(struct fid *fid, const void *buf, size_t len, uint64_t access,
		uint64_t offset, uint64_t wanted_key, uint64_t flags, struct fid_mr **mr,
		void *context)
{
	(void)fid, (void)buf, (void)len, (void)access, (void)offset, (void)wanted_key, (void)flags;
	(void)mr, (void)context;
	return -FI_ENOMEM;
}

static void come_between(struct end *end)
{
	struct ofi_net *net = end->port.net;

	memset(&between, 0, sizeof(between));
	between.real_rma = net->ep->rma;
	between.rma = *between.real_rma;
	between.rma.read = read_between;
	net->ep->rma = &between.rma;
	between.real_msg = net->ep->msg;
	between.msg = *between.real_msg;
	between.msg.sendmsg = sendmsg_between;
	net->ep->msg = &between.msg;
	between.real_cq = net->cq->ops;
	between.cq = *between.real_cq;
	between.cq.read = cq_read_between;
	between.cq.readerr = cq_readerr_between;
	net->cq->ops = &between.cq;
}

static void pair_open(void)
{
	world_reads = "1";
	end_open(&left);
	end_open(&right);
	ck_assert_uint_eq(right.attr.caps & RIPC_CAP_READ, RIPC_CAP_READ);
	end_route(&left, &right);
	end_route(&right, &left);
	for (uint32_t i = 0; i < LEN; i++)
		theirs[i] = (uint8_t)(i % 251);
	memset(ours, 0, LEN);
	ck_assert_int_eq(ripc__ofi_mem_open(&left.port, &left.peer, theirs, LEN, false, &key), 0);
	come_between(&right);
}

static void pair_close(void)
{
	right.port.net->ep->rma = between.real_rma;
	right.port.net->ep->msg = between.real_msg;
	right.port.net->cq->ops = between.real_cq;
	ripc__ofi_route_close(&left.port, &left.peer);
	ripc__ofi_route_close(&right.port, &right.peer);
	end_close(&left);
	end_close(&right);
}

static int read_by(const struct ripc__key *by, uint64_t cookie)
{
	return ripc__ofi_read(&right.port, &right.peer, &(struct ripc__move){.key = *by,
		.mem = ours, .len = LEN, .region = region, .cookie = cookie});
}

static void start_read(uint64_t cookie)
{
	ck_assert_int_eq(read_by(&key, cookie), 0);
}

/* How the next read of an end has ended; the other end moves too, if there is one to move. */
static int end_of(struct end *end, struct end *other, uint64_t cookie)
{
	struct ripc__event event;

	end_next(end, other, &event);
	ck_assert_int_eq(event.kind, RIPC_EV_READ);
	ck_assert_uint_eq(event.cookie, cookie);
	return event.status;
}

static void read_all(uint64_t cookie)
{
	start_read(cookie);
	ck_assert_int_eq(end_of(&right, &left, cookie), 0);
}

/* libfabric accepts the first of the reads 1 and 2, which does not end, and not the second. */
static void keep_one_refuse_one(void)
{
	between.keeps = true;
	start_read(1);
	between.refuse = UINT32_MAX;
	start_read(2);
}

static void expect_nothing(struct end *end)
{
	struct ripc__event event;

	ck_assert_int_eq(ripc__ofi_poll(&end->port, &event, 1, false), 0);
}

/* Refused reads are posted again, in their turn. */
START_TEST(read__outlasts_refusals)
{
	pair_open();
	between.refuse = 100;
	start_read(1);
	start_read(2);
	ck_assert_int_eq(end_of(&right, &left, 1), 0);
	ck_assert_int_eq(end_of(&right, &left, 2), 0);
	ck_assert_uint_eq(between.n_reads, 102);
	ck_assert_mem_eq(ours, theirs, LEN);
	ck_assert_int_eq(ripc__ofi_mem_close(&left.port, &key, RIPC_CLOSE_DONE, 0), 0);
	ck_assert_int_eq(ripc__ofi_mem_close(&left.port, &key, RIPC_CLOSE_DONE, 0), -EINVAL);
	pair_close();
}
END_TEST

/* Where none is ever taken, all that wait end. */
START_TEST(read__is_given_up)
{
	pair_open();
	between.refuse = UINT32_MAX;
	start_read(1);
	start_read(2);
	expect_nothing(&right);
	work(&right, LONG);
	ck_assert_int_eq(end_of(&right, NULL, 1), -ETIMEDOUT);
	ck_assert_int_eq(end_of(&right, NULL, 2), -ETIMEDOUT);
	expect_nothing(&right);
	between.refuse = 0;
	read_all(3);
	pair_close();
}
END_TEST

/* Waiting reads are not given up while others of the partner end. */
START_TEST(read__waits_while_others_end)
{
	pair_open();
	keep_one_refuse_one();
	work(&right, SHORT);
	between.ended = between.kept;
	ck_assert_int_eq(end_of(&right, NULL, 1), 0);
	work(&right, SHORT);
	expect_nothing(&right);
	work(&right, LONG);
	ck_assert_int_eq(end_of(&right, NULL, 2), -ETIMEDOUT);
	pair_close();
}
END_TEST

/* A long time in which nobody looked gives up no read. */
START_TEST(read__nobody_looked)
{
	pair_open();
	between.refuse = UINT32_MAX;
	start_read(1);
	work(&right, 1);
	idle(&right, LONG);
	work(&right, 1);
	expect_nothing(&right);
	between.refuse = 0;
	ck_assert_int_eq(end_of(&right, &left, 1), 0);
	ck_assert_mem_eq(ours, theirs, LEN);
	pair_close();
}
END_TEST

/* The device refuses: only that read has failed. */
START_TEST(read__fails_by_its_completion)
{
	pair_open();
	between.keeps = true;
	start_read(1);
	between.ended = between.kept;
	between.error = FI_EACCES;
	ck_assert_int_eq(end_of(&right, NULL, 1), -EACCES);
	between.keeps = false;
	read_all(2);
	ck_assert_int_eq(end_send(&right, 5, 200), 1);
	ck_assert_uint_eq(end_number(&left, &right), 5);
	pair_close();
}
END_TEST

/* The way is lost: what waits ends at once, what libfabric has when it says so. */
START_TEST(read__way_is_lost)
{
	struct ripc__event event;

	pair_open();
	keep_one_refuse_one();
	ripc__ofi_link_fail(&right.port, right.peer.link);
	end_next(&right, NULL, &event);
	ck_assert_int_eq(event.kind, RIPC_EV_PEER);
	ck_assert_int_eq(end_of(&right, NULL, 2), -ECONNRESET);
	ck_assert_int_eq(read_by(&key, 3), -ECONNRESET);
	expect_nothing(&right);
	between.ended = between.kept;
	ck_assert_int_eq(end_of(&right, NULL, 1), 0);
	pair_close();
}
END_TEST

/* A route that is closed meanwhile keeps the partner's entry until the read has ended. */
START_TEST(read__outlives_its_route)
{
	struct ofi_route again;

	pair_open();
	between.keeps = true;
	start_read(1);
	right.peer.link->failed = true;
	ripc__ofi_route_close(&right.port, &right.peer);
	ck_assert_uint_eq(right.port.n_unused, 1);
	between.ended = between.kept;
	ck_assert_int_eq(end_of(&right, NULL, 1), 0);
	end_route_by(&right, &left, &again);
	right.peer = again;
	between.keeps = false;
	read_all(2);
	pair_close();
}
END_TEST

/* Keys that were altered, or meant for somebody else, are not asked for. */
START_TEST(read__hostile_keys)
{
	struct ripc__key wrong;
	uint64_t cookie = 0;

	pair_open();
	for (uint32_t bit = 0; bit < 128; bit++) {
		wrong = key;
		*(bit < 64 ? &wrong.address : &wrong.key) ^= 1ull << bit % 64;
		ck_assert_int_eq(read_by(&wrong, ++cookie), 0);
		ck_assert_int_eq(end_of(&right, NULL, cookie), -EINVAL);
	}
	ck_assert_int_eq(ripc__ofi_read(&left.port, &left.peer, &(struct ripc__move){.key = key,
		.mem = ours, .len = LEN, .cookie = 1}), 0);
	ck_assert_int_eq(end_of(&left, NULL, 1), -EINVAL);
	ck_assert_uint_eq(between.n_reads, 0);
	ck_assert_uint_eq(ours[1], 0);
	wrong = key;
	wrong.key ^= 1;
	ck_assert_int_eq(ripc__ofi_mem_close(&left.port, &wrong, RIPC_CLOSE_DONE, 0), -EINVAL);
	wrong = key;
	wrong.address ^= 1;
	ck_assert_int_eq(ripc__ofi_mem_close(&left.port, &wrong, RIPC_CLOSE_DONE, 0), -EINVAL);
	pair_close();
}
END_TEST

/* The same key far beyond the range: no address comes round to its beginning. */
START_TEST(read__hostile_offsets)
{
	uint64_t address, number;

	pair_open();
	left.port.dev.net->info->domain_attr->mr_mode |= FI_MR_VIRT_ADDR;
	ck_assert_int_eq(ripc__ofi_mem_open(&left.port, &left.peer, theirs, LEN, false, &key), 0);
	ck_assert_uint_eq(key.address, (uintptr_t)theirs);
	ck_assert_int_eq(ripc__ofi_key_parse(&right.port, &key, 7, &address, &number), 0);
	ck_assert_uint_eq(address, (uintptr_t)theirs + 7);
	ck_assert_uint_le(number, UINT32_MAX);
	ck_assert_int_eq(ripc__ofi_key_parse(&right.port, &key, UINT64_MAX, &address, &number),
		-EINVAL);
	ck_assert_int_eq(ripc__ofi_key_parse(&right.port, &key, 0 - key.address, &address,
		&number), -EINVAL);
	pair_close();
}
END_TEST

/* EFA reads by itself only when it has heard of the other end: nothing is read before. */
START_TEST(read__greets_first)
{
	pair_open();
	right.port.net->info->ep_attr->protocol = FI_PROTO_EFA;
	between.refuse = 3;
	start_read(1);
	start_read(2);
	for (int i = 0; i < 10; i++)
		expect_nothing(&right);
	ck_assert_uint_eq(between.n_greetings, 4);
	ck_assert_uint_eq(between.n_reads, 0);
	between.ended = between.greeting;
	between.error = FI_ENORX; /* the greeting was lost: another one */
	expect_nothing(&right);
	ck_assert_uint_eq(between.n_greetings, 5);
	between.ended = between.greeting;
	between.error = 0;
	ck_assert_int_eq(end_of(&right, &left, 1), 0);
	ck_assert_int_eq(end_of(&right, &left, 2), 0);
	read_all(3);
	ck_assert_uint_eq(between.n_greetings, 5);
	ck_assert_uint_eq(right.port.n_free, OFI_SENDS);
	pair_close();
}
END_TEST

/* A partner that never answers a greeting is not read from, and has failed. */
START_TEST(read__greeting_is_not_answered)
{
	struct ripc__event event;

	pair_open();
	right.port.net->info->ep_attr->protocol = FI_PROTO_EFA;
	start_read(1);
	expect_nothing(&right);
	work(&right, LONG);
	end_next(&right, NULL, &event);
	ck_assert_int_eq(event.kind, RIPC_EV_PEER);
	ck_assert(right.peer.link->silent);
	ck_assert_int_eq(end_of(&right, NULL, 1), -ETIMEDOUT);
	ck_assert_uint_eq(between.n_reads, 0);
	between.ended = between.greeting;
	expect_nothing(&right);
	ck_assert_uint_eq(right.port.n_free, OFI_SENDS);
	pair_close();
}
END_TEST

/* Where memory must be registered, nothing is read into what is not. */
START_TEST(mem_reg__is_needed)
{
	pair_open();
	right.port.dev.net->info->domain_attr->mr_mode |= FI_MR_LOCAL;
	ck_assert_int_eq(read_by(&key, 1), -EINVAL);
	ck_assert_int_eq(ripc__ofi_mem_reg(&right.port, &right.peer, ours, LEN, false, &region), 0);
	read_all(2);
	ck_assert_mem_eq(ours, theirs, LEN);
	ripc__ofi_mem_dereg(&right.port, region);
	region = NULL;
	ck_assert_int_eq(read_by(&key, 3), -EINVAL);
	ck_assert_int_eq(ripc__ofi_mem_reg(&right.port, &right.peer, ours, LEN, false, &region), 0);
	pair_close(); /* remaining reads end with the port */
	region = NULL;
}
END_TEST

/* No memory can be registered: that is said, and nothing stays. */
START_TEST(mem_open__fails)
{
	void *none;

	pair_open();
	between.real_mr = left.port.dev.net->domain->mr;
	between.mr = *between.real_mr;
	between.mr.reg = reg_fails;
	left.port.dev.net->domain->mr = &between.mr;
	ck_assert_int_eq(ripc__ofi_mem_open(&left.port, &left.peer, theirs, LEN, false, &key),
		-ENOMEM);
	ck_assert_int_eq(ripc__ofi_mem_reg(&left.port, &left.peer, ours, LEN, false, &none),
		-ENOMEM);
	left.port.dev.net->domain->mr = between.real_mr;
	ck_assert_int_eq(ripc__ofi_mem_open(&left.port, &left.peer, theirs, LEN, true, &key),
		-ENOTSUP);
	ck_assert_uint_eq(left.port.dev.keys.count, 1);
	ck_assert(list_empty(&left.port.dev.regions));
	pair_close();
}
END_TEST

/* Which devices read, by their kind and by what the provider was told. */
START_TEST(has_reads__by_rule)
{
	static const struct {
		const char *device, *told;
		uint32_t wish;
		bool reads, may_be_told;
	} cases[] = {
		{"0xefa0", NULL, OFI_READS_RULE, false, false},
		{"0xefa1", NULL, OFI_READS_RULE, false, true},
		{"0xefa2", NULL, OFI_READS_RULE, true, false},
		{"0xefa2", "0", OFI_READS_RULE, false, false},
		{"0xefa1", "1", OFI_READS_RULE, true, false},
		{"0xefa1", "yes", OFI_READS_RULE, true, false},
		{"0xefa1", "1", 0, false, false},
		{"0xefa1", "0", 1, false, false},
		{NULL, NULL, 1, false, false},
	};
	struct fi_info *info = fi_allocinfo();
	struct fi_device_attr device = {0};
	struct fid_nic nic = {.device_attr = &device};

	ck_assert_ptr_nonnull(info);
	info->ep_attr->protocol = FI_PROTO_EFA;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct ofi_wish wish = {.reads = cases[i].wish};

		unsetenv("FI_EFA_USE_DEVICE_RDMA");
		if (cases[i].told)
			setenv("FI_EFA_USE_DEVICE_RDMA", cases[i].told, 1);
		device.device_id = (char *)cases[i].device;
		info->nic = cases[i].device ? &nic : NULL;
		info->caps = FI_MSG | FI_RMA;
		ck_assert_int_eq(ripc__ofi_has_reads(&wish, info), cases[i].reads);
		ck_assert_int_eq(ripc__ofi_may_be_told(info), cases[i].may_be_told);
		info->caps = FI_MSG;
		ck_assert(!ripc__ofi_has_reads(&wish, info));
	}
	info->caps = FI_MSG | FI_RMA;
	info->ep_attr->protocol = FI_PROTO_RXM;
	ck_assert(!ripc__ofi_has_reads(&(struct ofi_wish){.reads = OFI_READS_RULE}, info));
	ck_assert(ripc__ofi_has_reads(&(struct ofi_wish){.reads = 1}, info));
	info->nic = NULL;
	fi_freeinfo(info);
}
END_TEST

/* How libfabric itself ends a read of what it has registered, or -1: it never does. */
static int read_status(struct fid_mr *mr, struct fi_context2 *context)
{
	struct fid_cq *cq = right.port.net->cq;
	struct fi_cq_msg_entry entry;
	bool virtual = right.port.dev.net->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
	struct fi_cq_err_entry failure = {0};
	struct ripc__event none;
	ssize_t status = -FI_EAGAIN;
	bool taken = false;

	for (int turn = 0; turn < TURNS_MAX && status == -FI_EAGAIN; turn++) {
		taken = taken || fi_read(right.port.net->ep, ours, LEN, NULL, right.peer.link->to,
			virtual ? (uintptr_t)theirs : 0, fi_mr_key(mr), context) == 0;
		ripc__ofi_poll(&left.port, &none, 0, false);
		status = fi_cq_read(cq, &entry, 1);
		if (status == 1 && entry.op_context != context)
			status = -FI_EAGAIN; /* the end of something else */
		poll(NULL, 0, turn > 100);
	}
	if (status == -FI_EAVAIL && fi_cq_readerr(cq, &failure, 0) == 1)
		return failure.err;
	return status == 1 ? 0 : -1;
}

/* The tcp provider of libfabric 1.17 cannot read where a size_t has 32 bits: its key is lost. */
START_TEST(provider__reads)
{
	struct fi_context2 context;
	struct fid_mr *mr;
	int status;

	world_reads = "1";
	end_open(&left);
	end_open(&right);
	end_route(&left, &right);
	end_route(&right, &left);
	ck_assert_int_eq(fi_mr_reg(left.port.dev.net->domain, theirs, LEN, FI_REMOTE_READ, 0, 4711,
		0,
		&mr, NULL), 0);
	status = read_status(mr, &context);
	if (status)
		printf("skipped: this libfabric cannot read over %s: %s\n", world_provider,
			status > 0 ? fi_strerror(status) : "no end");
	fflush(stdout);
	_exit(status ? SKIPPED : 0);
}
END_TEST

/* 0 if it does, else what main() returns. */
static int provider_reads(void)
{
	const TTest *const tests[] = {provider__reads, NULL};
	int status = 1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setenv("CK_FORK", "no", 1);
		setenv("CK_VERBOSITY", "silent", 1);
		_exit(suite_run("provider", tests) ? 1 : 2);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void)
{
	const TTest *const tests[] = {
		read__outlasts_refusals,
		read__is_given_up,
		read__waits_while_others_end, read__nobody_looked,
		read__fails_by_its_completion,
		read__way_is_lost,
		read__outlives_its_route,
		read__hostile_keys,
		read__hostile_offsets,
		read__greets_first,
		read__greeting_is_not_answered,
		mem_reg__is_needed,
		mem_open__fails,
		has_reads__by_rule,
		NULL,
	};

	int status = world_can() ? provider_reads() : SKIPPED;

	return status ? status : suite_run("ofi_reads", tests);
}
