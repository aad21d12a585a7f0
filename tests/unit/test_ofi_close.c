/* SPDX-License-Identifier: BSD-3-Clause */
/* Closing a port of the ofi backend while libfabric waits for somebody who is dead. */
#include <pthread.h>
#include <semaphore.h>

#include "ofi_world.h"
#include "suite.h"

static struct {
	struct fi_ops ops, *real;
	sem_t may_go, gone;
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

/* Both are closed, and what is held stays; the endpoint closes when it can. */
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
	ripc__ofi_release(NULL, event.handle);
	ripc__ofi_peer_close(&left.port, &left.peer);
	end_close(&left);
}
END_TEST

/* The endpoint is closed after the port, and before the device. */
START_TEST(dev_close__finds_it_closed)
{
	struct end end;

	end_open(&end);
	come_between(&end);
	ripc__ofi_backend.port_close(&end.port);
	sem_post(&between.may_go);
	while (sem_wait(&between.gone))
		;
	ripc__ofi_backend.dev_close(&end.dev);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		port_close__does_not_wait_for_ever,
		dev_close__finds_it_closed,
		NULL,
	};

	return world_can() ? suite_run("ofi_close", tests) : SKIPPED;
}
