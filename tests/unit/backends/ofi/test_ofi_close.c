/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports of the ofi backend and the dead: whom libfabric waits for, and what they left behind. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ofi_world.h"
#include "suite.h"

static struct {
	struct fi_ops ops, *real;
	struct fi_ops_cq cq_ops;
	void *op; /* completes as soon as it may */
	sem_t may_go, gone, may_complete;
	int pipe;
} between;

static int close_late(struct fid *fid)
{
	int error;

	while (sem_wait(&between.may_go))
		;
	error = between.real->close(fid);
	sem_post(&between.gone);
	return error;
}

static void come_between(struct end *end)
{
	struct fid *fid = &end->port.net->ep->fid;

	sem_init(&between.may_go, 0, 0);
	sem_init(&between.gone, 0, 0);
	between.real = fid->ops;
	between.ops = *between.real;
	between.ops.close = close_late;
	fid->ops = &between.ops;
}

/* Both ports are closed, and held memory stays; the endpoint closes when it can. */
START_TEST(port_close__does_not_wait_for_ever)
{
	struct end left, right;
	struct ripc__event event;
	uint32_t number;

	end_open(&left);
	end_open(&right);
	end_route(&left, &right);
	ck_assert_int_eq(end_send(&left, 7, 200), 1);
	end_next(&right, &left, &event);
	come_between(&right);
	end_close(&right);
	memcpy(&number, event.data, sizeof(number));
	ck_assert_uint_eq(number, 7);
	sem_post(&between.may_go);
	while (sem_wait(&between.gone))
		;
	memcpy(&number, event.data, sizeof(number));
	ck_assert_uint_eq(number, 7);
	ripc__buffer_release(NULL, event.handle);
	ripc__ofi_route_close(&left.port, &left.peer);
	end_close(&left);
}
END_TEST

static bool read_now(int fd)
{
	struct pollfd there = {.fd = fd, .events = POLLIN};

	return poll(&there, 1, 0) == 1;
}

static int close_slowly(struct fid *fid)
{
	int error;

	poll(NULL, 0, 1500);
	error = between.real->close(fid);
	ck_assert_int_eq((int)write(between.pipe, "!", 1), 1);
	return error;
}

/* A thread that exits meanwhile waits for the end: libfabric is not taken down during a close. */
START_TEST(exit__waits_for_who_closes)
{
	int fds[2], status;
	struct end end;
	char mark = 0;
	pid_t child;

	ck_assert_int_eq(pipe(fds), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		end_open(&end);
		come_between(&end);
		between.ops.close = close_slowly;
		between.pipe = fds[1];
		end_close(&end);
		exit(read_now(fds[0]) ? 1 : 0); /* the exit did not wait */
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	close(fds[1]);
	ck_assert_int_eq((int)read(fds[0], &mark, 1), 1);
	ck_assert_int_eq(mark, '!');
	close(fds[0]);
}
END_TEST

/* The endpoint is closed after the port, and before the device. */
START_TEST(dev_close__finds_it_closed)
{
	struct end end;

	end_open(&end);
	come_between(&end);
	ripc__ofi_backend.net.close(&end.port);
	sem_post(&between.may_go);
	while (sem_wait(&between.gone))
		;
	poll(NULL, 0, 200); /* for the thread to end, most of the time */
}
END_TEST

static ssize_t complete_late(struct fid_cq *cq, void *buf, size_t count)
{
	(void)cq;
	if (!count || sem_trywait(&between.may_complete))
		return -FI_EAGAIN;
	*(struct fi_cq_msg_entry *)buf = (struct fi_cq_msg_entry){.op_context = between.op};
	return 1;
}

/* A datagram of ours has no outcome: nothing is closed until it has one, and then all is. */
START_TEST(port_close__leaves_alone_what_was_sent)
{
	static struct ofi_link link;
	struct ofi_net *net;
	struct end end;

	end_open(&end);
	come_between(&end);
	net = end.port.net;
	net->info->ep_attr->protocol = FI_PROTO_EFA;
	net->sends[0].link = &link;
	net->n_ops = 1;
	between.op = &net->sends[0].context;
	sem_init(&between.may_complete, 0, 0);
	between.cq_ops = *net->cq->ops;
	between.cq_ops.read = complete_late;
	net->cq->ops = &between.cq_ops;
	sem_post(&between.may_go);
	end_close(&end);
	ck_assert_int_ne(sem_trywait(&between.gone), 0);
	sem_post(&between.may_complete);
	while (sem_wait(&between.gone))
		;
}
END_TEST

static void region_path(uint32_t number, char path[64])
{
	snprintf(path, 64, "/dev/shm/%d:%u:%u", getpid(), getuid(), number);
}

/*
 * The head of the file that libfabric 1.17 leaves in /dev/shm when a process of this number dies.
 */
static void leave_region(uint32_t number)
{
	const struct {
		uint8_t version, unused[3];
		int32_t pid;
		uint8_t rest[8192];
	} region = {.version = 1, .pid = getpid()};
	char path[64];
	int fd;

	region_path(number, path);
	(void)unlink(path); /* a file that was truly left so */
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq((int)write(fd, &region, sizeof(region)), (int)sizeof(region));
	close(fd);
}

/* The names that libfabric's shm would take are those of a dead process that had our number. */
START_TEST(port_open__after_the_dead)
{
	struct end end;
	char path[64];

	world_provider = "shm";
	if (!world_can())
		return;
	for (uint32_t i = 0; i < 3; i++)
		leave_region(i);
	end_open(&end);
	end_close(&end);
	for (uint32_t i = 0; i < 3; i++) {
		region_path(i, path);
		(void)unlink(path);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		port_close__does_not_wait_for_ever,
		exit__waits_for_who_closes,
		dev_close__finds_it_closed,
		port_close__leaves_alone_what_was_sent,
		port_open__after_the_dead,
		NULL,
	};

	return world_can() ? suite_run("ofi_close", tests) : SKIPPED;
}
