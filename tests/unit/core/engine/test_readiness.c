/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors for event loops: of services, and of a context's ports. Their events, receivers, and
 * how often.
 */
#include <poll.h>
#include <sys/epoll.h>

#include "api.h"
#include "core/net/env.h"

static bool readable(int fd, int timeout_ms)
{
	struct pollfd poller = {.fd = fd, .events = POLLIN};

	return poll(&poller, 1, timeout_ms) == 1;
}

/* Waits for the descriptor, then receives: there is something. */
static struct ripc_msg *take_by_fd(struct ripc_service *svc, int fd)
{
	struct ripc_msg *msg = NULL;

	ck_assert(readable(fd, PATIENCE_MS));
	ck_assert_int_eq(ripc_receive(svc, 0, &msg), 0);
	return msg;
}

/*
 * The same where the application looks after the ports: whenever their descriptor says so. It waits
 * for both, as event loops do: the progress thread, asleep on the ports since before
 * ripc_context_fd(), may still take the first message.
 */
static struct ripc_msg *take_by_both(const struct side *side, int fd, int ports_fd)
{
	uint64_t began_ms = clock_ms();

	while (!readable(fd, 0) && clock_ms() < began_ms + PATIENCE_MS) {
		struct pollfd pollers[] = {{fd, POLLIN, 0}, {ports_fd, POLLIN, 0}};

		ck_assert_int_ge(poll(pollers, 2, PATIENCE_MS), 1);
		ck_assert_int_ge(ripc_poll(side->ctx), 0);
	}
	return take_by_fd(side->svc, fd);
}

static struct ripc_msg *take_next(const struct side *side, int fd, int ports_fd)
{
	return ports_fd < 0 ? take_by_fd(side->svc, fd) : take_by_both(side, fd, ports_fd);
}

static void use_by_fd(const char *backend, uint32_t flags, bool own)
{
	struct ripc_config cfg = api_config(0);
	const struct iovec one = item("x", 1);
	struct pair pair;
	int fd, ports_fd = -1;

	cfg.backends = backend;
	side_open_as(&pair.a, &cfg, 0);
	cfg.flags = flags;
	side_open_as(&pair.b, &cfg, 0);
	acquaint(&pair.a, &pair.b);
	fd = ripc_service_fd(pair.b.svc);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ripc_service_fd(pair.b.svc), fd);
	if (own) {
		ports_fd = ripc_context_fd(pair.b.ctx);
		ck_assert_int_ge(ports_fd, 0);
		ck_assert_int_eq(ripc_context_fd(pair.b.ctx), ports_fd);
	}
	for (int i = 0; i < 300; i++) {
		ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, &one, 1), 0);
		ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, &one, 1), 0);
		ripc_msg_free(take_next(&pair.b, fd, ports_fd));
		ripc_msg_free(take_next(&pair.b, fd, ports_fd));
	}
	ck_assert(!readable(fd, 0));
	check_nothing(pair.b.svc);
	/* Level-triggered: as long as something is queued, however often one looks. */
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, &one, 1), 0);
	ripc_msg_free(take_next(&pair.b, fd, ports_fd));
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, &one, 1), 0);
	while (own && !readable(fd, 0))
		ripc_poll(pair.b.ctx);
	for (int i = 0; i < 10; i++)
		ck_assert(readable(fd, PATIENCE_MS));
	ripc_msg_free(take_by_fd(pair.b.svc, fd));
	pair_close(&pair);
}

static const char *const backends[] = {"udp", "shm"};

START_TEST(service_fd__with_a_progress_thread)
{
	use_by_fd(backends[_i], 0, false);
}
END_TEST

START_TEST(context_fd__with_a_progress_thread)
{
	use_by_fd(backends[_i], 0, true);
}
END_TEST

START_TEST(context_fd__without_a_progress_thread)
{
	use_by_fd(backends[_i], RIPC_NO_THREAD, true);
}
END_TEST

START_TEST(context_fd__single_thread)
{
	use_by_fd(backends[_i], RIPC_SINGLE_THREAD, true);
}
END_TEST

/* Nobody is there but the application: its descriptor says all that there is to do. */
START_TEST(context_fd__is_quiet_when_nothing_is_to_be_done)
{
	struct ripc_config cfg = api_config(0);
	struct pair pair;
	int fd;

	cfg.backends = backends[_i];
	side_open_as(&pair.a, &cfg, 0);
	cfg.flags = RIPC_NO_THREAD;
	side_open_as(&pair.b, &cfg, 0);
	fd = ripc_context_fd(pair.b.ctx);
	for (int i = 0; i < 100; i++)
		acquaint(&pair.a, &pair.b);
	/*
	 * After the end of all work one look is enough; something of the resolver's may still come.
	 */
	for (int i = 0; i < 100 && readable(fd, 20); i++)
		ripc_poll(pair.b.ctx);
	ck_assert(!readable(fd, 0));
	ck_assert_int_eq(ripc_wake(pair.b.svc), 0);
	ck_assert(readable(fd, 0));
	for (int i = 0; i < 100 && readable(fd, 20); i++)
		ripc_poll(pair.b.ctx);
	ck_assert(!readable(fd, 0));
	pair_close(&pair);
}
END_TEST

/* The service's own, with messages that are there, come, and are taken by others. */
START_TEST(service_fd__says_what_is_there)
{
	const struct iovec one = item("x", 1);
	struct pair pair;
	int fd;

	pair_open(&pair);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
	fd = ripc_service_fd(pair.b.svc);
	ck_assert(readable(fd, 0));
	ripc_msg_free(take(pair.b.svc, RIPC_LONG));
	ck_assert(!readable(fd, 0));
	for (int i = 0; i < 100; i++) {
		acquaint(&pair.a, &pair.b);
		ck_assert(!readable(fd, 0));
	}
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
	ck_assert(readable(fd, 0));
	ripc_msg_free(take(pair.b.svc, RIPC_LONG));
	ck_assert(readable(fd, 0));
	ripc_msg_free(take(pair.b.svc, RIPC_LONG));
	ck_assert(!readable(fd, 0));
	ck_assert_int_eq(ripc_service_drain(pair.b.svc, PATIENCE_MS), 0);
	ck_assert(readable(fd, 0));
	pair_close(&pair);
}
END_TEST

struct loop {
	struct side *sides;
	uint64_t returns, received;
	int epoll_fd;
};

/* Takes all there is of each that is told, until so many have come. */
static void loop_take(struct loop *loop, uint64_t received)
{
	struct epoll_event events[8];
	struct ripc_msg *msg;

	while (loop->received < received) {
		int n = epoll_wait(loop->epoll_fd, events, 8, PATIENCE_MS);

		ck_assert_int_gt(n, 0);
		for (int i = 0; i < n; i++) {
			struct side *side = &loop->sides[events[i].data.u32];

			loop->returns++;
			while (ripc_receive(side->svc, 0, &msg) == 0) {
				loop->received++;
				ripc_msg_free(msg);
			}
		}
	}
}

static void loop_watch(struct loop *loop, uint32_t at, uint32_t how)
{
	struct epoll_event event = {.events = EPOLLIN | how, .data.u32 = at};

	ck_assert_int_eq(epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD,
		ripc_service_fd(loop->sides[at].svc), &event), 0);
}

/* Each message after -EAGAIN makes an edge; level-triggered it is no more often. */
START_TEST(service_fd__tells_each_message_once)
{
	struct side sides[2];
	struct loop loop = {.sides = sides, .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
	struct ripc_config cfg = api_config(0);
	const struct iovec one = item("x", 1);

	cfg.backends = backends[_i / 2];
	side_open_as(&sides[0], &cfg, 0);
	side_open_as(&sides[1], &cfg, 0);
	acquaint(&sides[1], &sides[0]);
	loop_watch(&loop, 0, _i % 2 ? (uint32_t)EPOLLET : 0);
	for (uint64_t i = 1; i <= 2000; i++) {
		ck_assert_int_eq(ripc_send_short(sides[1].svc, sides[0].id, &one, 1), 0);
		loop_take(&loop, i);
	}
	ck_assert_uint_le(loop.returns, 2000);
	close(loop.epoll_fd);
	side_close(&sides[0]);
	side_close(&sides[1]);
}
END_TEST

/* A thousand services in one epoll, nested in nothing: only the one that is meant is told. */
START_TEST(service_fd__a_thousand_in_one_epoll)
{
	static struct side sides[1000];
	struct loop loop = {.sides = sides, .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
	const struct iovec one = item("x", 1);
	struct side sender;

	side_open(&sender, 0);
	side_open(&sides[0], 0);
	for (uint32_t i = 0; i < 1000; i++) {
		sides[i].ctx = sides[0].ctx;
		if (i > 0)
			ck_assert_int_eq(ripc_service_open(sides[0].ctx, 0, 0, &sides[i].svc), 0);
		loop_watch(&loop, i, i % 2 ? (uint32_t)EPOLLET : 0);
	}
	for (uint64_t i = 0; i < 300; i++) {
		uint64_t to = ripc_service_id(sides[i * 7 % 1000].svc);

		ck_assert_int_eq(ripc_send_long(sender.svc, to, &one, 1, PATIENCE_MS), 0);
		loop_take(&loop, i + 1);
	}
	ck_assert_uint_eq(loop.returns, 300);
	close(loop.epoll_fd);
	side_close(&sender);
	side_close(&sides[0]);
}
END_TEST

/* One epoll loop serves several services, completions included, without a thread of ours. */
START_TEST(service_fd__one_loop_for_all)
{
	const size_t len = 300000;
	struct iovec one = item(filled(len, 0), len);
	struct side sides[3];
	uint32_t received = 0, completed = 0;
	uint64_t began_ms = clock_ms();
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ports = {.events = EPOLLIN, .data.u32 = 3};

	side_open(&sides[0], RIPC_NO_THREAD);
	ck_assert_int_eq(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, ripc_context_fd(sides[0].ctx),
		&ports), 0);
	for (int i = 0; i < 3; i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};

		if (i > 0) {
			sides[i].ctx = sides[0].ctx;
			ck_assert_int_eq(ripc_service_open(sides[0].ctx, 0, 0, &sides[i].svc), 0);
			sides[i].id = ripc_service_id(sides[i].svc);
		}
		ck_assert_int_eq(epoll_ctl(epoll_fd, EPOLL_CTL_ADD,
			ripc_service_fd(sides[i].svc), &event), 0);
	}
	for (uint64_t i = 0; i < 3; i++) {
		struct ripc_send send = long_send(sides[(i + 1) % 3].id, &one, 1);

		send.flags |= RIPC_NOWAIT;
		send.cookie = i;
		ck_assert_int_eq(ripc_sendmsg(sides[i].svc, &send, NULL), 0);
	}
	while (received + completed < 6 && clock_ms() < began_ms + PATIENCE_MS) {
		int64_t left_us = ripc_poll_timeout(sides[0].ctx);
		struct epoll_event events[3];
		int left_ms = left_us < 0 ? 1000 : (int)(left_us / 1000) + 1;
		int n = epoll_wait(epoll_fd, events, 3, left_ms);
		struct ripc_msg *msg;

		ck_assert_int_ge(n, 0);
		ripc_poll(sides[0].ctx);
		for (int i = 0; i < n; i++) {
			if (events[i].data.u32 == 3 ||
					ripc_receive(sides[events[i].data.u32].svc, 0, &msg))
				continue;
			received += msg->kind == RIPC_LONG;
			completed += msg->kind == RIPC_COMPLETION;
			ck_assert_int_eq(msg->status, 0);
			ripc_msg_free(msg);
		}
	}
	ck_assert_uint_eq(received, 3);
	ck_assert_uint_eq(completed, 3);
	close(epoll_fd);
	free(one.iov_base);
	side_close(&sides[0]);
}
END_TEST

START_TEST(service_fd__one_more_descriptor)
{
	struct ripc_service *svc;
	struct side side;
	int n;

	side_open(&side, 0);
	n = descriptors_open();
	ck_assert_int_eq(ripc_service_open(side.ctx, 0, 0, &svc), 0);
	ck_assert_int_eq(descriptors_open(), n + 1);
	ck_assert_int_ge(ripc_service_fd(svc), 0);
	ck_assert_int_eq(descriptors_open(), n + 2);
	ck_assert_int_ge(ripc_service_fd(svc), 0);
	ck_assert_int_eq(descriptors_open(), n + 2);
	ck_assert_int_eq(ripc_service_close(svc), 0);
	ck_assert_int_eq(descriptors_open(), n);
	side_close(&side);
}
END_TEST

/* ---- how many there are: docs/guarantees.md ---------------------------------------------- */

/* Contexts of one process need no proof that the other lives: OF_LIFE is for those of others. */
enum { OF_CONTEXT = 20, OF_SERVICE = 1, OF_PARTNER = 6, OF_LIFE = 2, OF_READS = 2 };

START_TEST(budget__of_contexts_and_services)
{
	struct ripc_config cfg = api_config(0);
	struct ripc_service *services[5];
	struct ripc_context *ctx;
	int before = descriptors_open();

	cfg.backends = NULL;
	ck_assert_int_eq(ripc_open(&cfg, &ctx), 0);
	ck_assert_int_le(descriptors_open(), before + OF_CONTEXT);
	before = descriptors_open();
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(ripc_service_open(ctx, 0, 0, &services[i]), 0);
	ck_assert_int_le(descriptors_open(), before + 5 * OF_SERVICE);
	ck_assert_int_ge(ripc_context_fd(ctx), 0);
	ck_assert_int_le(descriptors_open(), before + 5 * OF_SERVICE + 1);
	ck_assert_int_eq(ripc_close(ctx, PATIENCE_MS), 0);
}
END_TEST

static uint64_t leap_us; /* of the clock that the contexts see */

static uint64_t leaping_now_us(void *arg)
{
	struct timespec now;

	(void)arg;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000 + leap_us;
}

/* Everything there is to do, of both, until nothing more follows. */
static void turn(struct side sides[3])
{
	for (uint32_t idle = 0, i = 0; idle < 1000 && i < 1000000; i++) {
		int work = ripc_poll(sides[i % 3].ctx);

		ck_assert_int_ge(work, 0);
		idle = work ? 0 : idle + 1;
	}
}

static void exchange(const struct side *from, const struct side *to, const struct iovec *one)
{
	struct ripc_send send = long_send(to->id, one, 1);
	struct ripc_msg *msg = NULL;
	int error = -EAGAIN;

	send.flags |= RIPC_NOWAIT;
	ck_assert_int_eq(ripc_sendmsg(from->svc, &send, NULL), 0);
	for (uint64_t began_ms = clock_ms(); error && clock_ms() < began_ms + PATIENCE_MS;) {
		ripc_poll(from->ctx);
		error = ripc_receive(to->svc, 0, &msg);
	}
	ck_assert_int_eq(error, 0);
	ripc_msg_free(msg);
	for (error = -EAGAIN; error == -EAGAIN;) {
		ripc_poll(to->ctx);
		error = ripc_receive(from->svc, 0, &msg);
	}
	ck_assert_int_eq(error, 0);
	ck_assert_int_eq(msg->outcome, RIPC_DELIVERED);
	ripc_msg_free(msg);
}

/* Both ends are in this process; and after a minute of silence nothing is left of it. */
START_TEST(budget__of_partners_is_given_back)
{
	struct ripc_config cfg = api_config(RIPC_NO_THREAD);
	const size_t len = 3 << 20;
	struct ripc__env env;
	struct side sides[3];
	const int pools = _i ? 3 : 0; /* each pool keeps a long buffer */
	struct iovec one;
	int before;

	cfg.backends = "shm";
	ripc__env_init(&env);
	env.now_us = leaping_now_us;
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(ripc__open_in(&cfg, &env, &sides[i].ctx), 0);
		ck_assert_int_eq(ripc_service_open(sides[i].ctx, 0, 0, &sides[i].svc), 0);
		sides[i].id = ripc_service_id(sides[i].svc);
	}
	turn(sides);
	before = descriptors_open();
	for (int i = 1; i < 3; i++) {
		int of_pair = 2 * (OF_PARTNER - OF_LIFE - (_i ? 0 : OF_READS));

		one = item(_i ? pool_filled(sides[0].ctx, len, 1) : "x", _i ? len : 1);
		exchange(&sides[0], &sides[i], &one);
		if (_i)
			ck_assert_int_eq(ripc_buf_free(sides[0].ctx, one.iov_base), 0);
		turn(sides);
		ck_assert_int_gt(descriptors_open(), before);
		ck_assert_int_le(descriptors_open(), before + i * of_pair + pools);
	}
	/* A thread that sleeps as long as there is nothing to do wakes up for it. */
	ck_assert_int_ge(ripc_poll_timeout(sides[0].ctx), 0);
	for (int i = 0; i < 3; i++) {
		leap_us += 61000000;
		turn(sides);
	}
	ck_assert_int_le(descriptors_open(), before + pools);
	for (int i = 0; i < 3; i++)
		side_close(&sides[i]);
}
END_TEST

START_TEST(service_fd__bad_arguments)
{
	ck_assert_int_eq(ripc_service_fd(NULL), -EINVAL);
	ck_assert_int_eq(ripc_context_fd(NULL), -EINVAL);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ service_fd__with_a_progress_thread, 2 },
		{ context_fd__with_a_progress_thread, 2 },
		{ context_fd__without_a_progress_thread, 2 }, { context_fd__single_thread, 2 },
		{ context_fd__is_quiet_when_nothing_is_to_be_done, 2 },
		{ service_fd__says_what_is_there, 1 }, { service_fd__tells_each_message_once, 4 },
		{ service_fd__a_thousand_in_one_epoll, 1 }, { service_fd__one_loop_for_all, 1 },
		{ service_fd__one_more_descriptor, 1 }, { service_fd__bad_arguments, 1 },
		{ budget__of_contexts_and_services, 1 }, { budget__of_partners_is_given_back, 2 },
		{ NULL, 0 },
	};

	if (descriptors_allow() < 3000) {
		printf("skipped: RLIMIT_NOFILE allows less than 3000 files\n");
		return 77;
	}
	return suite_run_loops("descriptor", loops);
}
