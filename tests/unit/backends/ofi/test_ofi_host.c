/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partners on the same host, over EFA: the device reaches them, though libfabric is told to use its
 * shm for such, and the death of one is an error and no more. By libfabric's own EFA provider on a
 * device made of software (tests/support/softefa), which counts what it sends.
 */
#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ofi_world.h"
#include "suite.h"

#define N    200u
#define LEN  200u
#define LEFT 3 /* the partner's exit status */

/* Takes all N, in whatever order, and dies with its port open. */
static void partner(int fd)
{
	static struct end own;
	bool seen[N] = {false};
	uint8_t blob[RIPC_ADDR_MAX];
	int len;

	end_open(&own);
	len = ripc__ofi_port_addr(&own.port, blob);
	ck_assert_int_eq(write(fd, blob, (size_t)len), len);
	for (uint32_t i = 0; i < N; i++) {
		uint32_t number = end_number(&own, NULL);

		ck_assert_uint_lt(number, N);
		ck_assert(!seen[number]);
		seen[number] = true;
	}
	_exit(LEFT);
}

/* A killed process leaves in /dev/shm the file of libfabric's shm: 16 MiB. */
static void clean_up_after(const struct end *end, const struct ripc__addr *addr)
{
	struct ofi_name name;
	char gid[INET6_ADDRSTRLEN], path[80];
	uint32_t key;
	uint16_t qp;

	ck_assert_int_eq(ripc__ofi_name_decode(addr->blob, addr->len, &end->port.self, &name), 0);
	memcpy(&qp, name.bytes + 16, sizeof(qp));
	memcpy(&key, name.bytes + 20, sizeof(key));
	inet_ntop(AF_INET6, name.bytes, gid, sizeof(gid));
	snprintf(path, sizeof(path), "/%s_%04x_%08x_0000", gid, qp, key);
	shm_unlink(path);
}

static void route_to(struct end *end, int fd)
{
	static const uint8_t host[16];
	uint8_t blob[RIPC_ADDR_MAX];
	ssize_t len = read(fd, blob, sizeof(blob));
	struct ripc__addr addr;

	ck_assert_int_gt(len, 0);
	ck_assert_int_eq(ripc__ofi_addr_choose(&end->port, blob, (size_t)len, host, &addr), 0);
	ck_assert_int_eq(ripc__ofi_route_open(&end->port, &end->peer, &addr), 0);
}

static int say(struct end *end, uint32_t number)
{
	struct ripc__event event;
	int taken = end_send(end, number, LEN);

	while (ripc__ofi_poll(&end->port, &event, 1, false) == 1)
		ck_assert_int_eq(event.kind, RIPC_EV_PEER);
	return taken;
}

static void talk_to(int fd, pid_t pid)
{
	static struct end own;
	int status = 0, taken = 0;

	end_open(&own);
	route_to(&own, fd);
	for (uint32_t i = 0; i < N; i += taken == 1) {
		taken = say(&own, i);
		ck_assert_int_ge(taken, 0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0)
		ripc__ofi_poll(&own.port, NULL, 0, false);
	ck_assert_int_eq(WEXITSTATUS(status), LEFT);
	for (int turn = 0; taken >= 0 && turn < TURNS_MAX; turn++) {
		taken = say(&own, N);
		poll(NULL, 0, 1);
	}
	ck_assert_int_eq(taken, -ECONNRESET);
	clean_up_after(&own, &own.peer.link->addr);
	ripc__ofi_route_close(&own.port, &own.peer);
	end_close(&own);
}

/* The device writes down what it has counted when a process exits. */
static void count_and_exit(void)
{
	int fds[2];
	pid_t pid;

	ck_assert_int_eq(pipe(fds), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		partner(fds[1]);
	talk_to(fds[0], pid);
	exit(0);
}

static unsigned long n_sent(const char *path)
{
	FILE *stream = fopen(path, "re");
	unsigned long n = 0;
	char line[2048];

	ck_assert_ptr_nonnull(stream);
	while (fgets(line, sizeof(line), stream)) {
		const char *sent = strstr(line, " sent=");

		ck_assert_ptr_nonnull(sent);
		n += strtoul(sent + strlen(" sent="), NULL, 10);
	}
	fclose(stream);
	return n;
}

START_TEST(send__by_the_device)
{
	const char *counters = getenv("SOFTEFA_COUNTERS");
	int status = 0;
	pid_t pid;

	ck_assert_ptr_nonnull(counters);
	unlink(counters);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		count_and_exit();
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_ge(n_sent(counters), N);
	unlink(counters);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {send__by_the_device, NULL};

	setenv("FI_EFA_ENABLE_SHM_TRANSFER", "1", 1);
	world_provider = "efa";
	if (!world_can())
		return SKIPPED;
	return suite_run("ofi_host", tests);
}
