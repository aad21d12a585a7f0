/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A control group with 64 MiB: whoever takes all that the pool gives, and writes to it, while
 * messages come over shared memory, gets -ENOMEM, and is neither killed nor gets a SIGBUS.
 * Skipped where no group with a limit can be made.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault.h"

#define LIMIT       "67108864"
#define BLOCK_LEN   (1u << 20)
#define BLOCKS_MAX  128
#define PATIENCE_MS 60000
#define SKIPPED     77

static const struct {
	const char *parent, *limit;
} places[] = {
	{"/sys/fs/cgroup", "memory.max"},
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
};

static int write_file(const char *group, const char *name, const char *text)
{
	char path[256];
	FILE *file;
	int bad;

	snprintf(path, sizeof(path), "%s/%s", group, name);
	if (access(path, W_OK))
		return -1;
	file = fopen(path, "we");
	if (!file)
		return -1;
	bad = fputs(text, file) < 0;
	return fclose(file) || bad ? -1 : 0;
}

/* False: there can be none. */
static bool group_make(char group[128])
{
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(group, 128, "%s/ripctest-%d", places[i].parent, (int)getpid());
		if (mkdir(group, 0700))
			continue;
		if (write_file(group, places[i].limit, LIMIT) == 0)
			return true;
		rmdir(group);
	}
	return false;
}

static void exchange(struct ripc_service *from, struct ripc_service *to, const void *bytes)
{
	const struct iovec item = {(void *)(uintptr_t)bytes, BLOCK_LEN / 4};
	struct ripc_msg *msg;
	int error = ripc_send_long(from, ripc_service_id(to), &item, 1, 10000);

	if (error)
		fault_fail("a send: %s", ripc_strerror(error));
	error = ripc_receive(to, 10000, &msg);
	if (error)
		fault_fail("a receive: %s", ripc_strerror(error));
	ripc_msg_free(msg);
}

/* In the group. */
static int child_main(void)
{
	struct ripc_config cfg = fault_config();
	struct ripc_context *taker, *other;
	struct ripc_service *from, *to;
	void *blocks[BLOCKS_MAX];
	int n = 0, error = 0;

	if (ripc_open(&cfg, &taker) || ripc_open(&cfg, &other) ||
			ripc_service_open(other, fault_id(1), 0, &to) ||
			ripc_service_open(taker, fault_id(2), 0, &from))
		fault_fail("cannot open");
	while (n < BLOCKS_MAX && !error) {
		error = ripc_buf_alloc(taker, BLOCK_LEN, &blocks[n]);
		if (error)
			break;
		memset(blocks[n], n, BLOCK_LEN);
		if (n % 8 == 0)
			exchange(from, to, blocks[n]);
		n++;
	}
	if (error != -ENOMEM || n == 0)
		fault_fail("after %d MiB: %s", n, ripc_strerror(error));
	printf("%d MiB of %s bytes, then: %s\n", n, LIMIT, ripc_strerror(error));
	exchange(from, to, blocks[0]);
	while (n > 0)
		ripc_buf_free(taker, blocks[--n]);
	if (ripc_close(taker, 1000) || ripc_close(other, 1000))
		fault_fail("cannot close");
	fflush(stdout);
	return 0;
}

int main(void)
{
	char group[128], own[16];
	int child, status;

	if (!group_make(group)) {
		printf("skipped: no control group with a limit of memory can be made here\n");
		return SKIPPED;
	}
	setenv("RIPC_BACKENDS", "shm", 1);
	child = fork();
	if (child == 0) {
		snprintf(own, sizeof(own), "%d", (int)getpid());
		if (write_file(group, "cgroup.procs", own))
			fault_fail("cannot enter the group");
		_exit(child_main());
	}
	status = child < 0 ? -1 : fault_await(child, PATIENCE_MS);
	rmdir(group);
	if (status)
		fault_fail("the child ended with %#x", status);
	return 0;
}
