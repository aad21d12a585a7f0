/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that may make no long files (RLIMIT_FSIZE), and processes to which memfd_create() is
 * refused (seccomp): they start, and long messages arrive, though not by shared memory.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fault.h"

#define LEN         (20u << 20)
#define TIMEOUT_MS  60000
#define PATIENCE_MS 180000
#define SKIPPED     77

static void limit_files(rlim_t len)
{
	const struct rlimit limit = {len, len};

	if (setrlimit(RLIMIT_FSIZE, &limit))
		fault_fail("setrlimit: %s", strerror(errno));
}

static void refuse_memfd(unsigned int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
			prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(SKIPPED);
}

static void exchange(struct ripc_service *from, struct ripc_service *to, uint8_t *bytes)
{
	const struct iovec item = {bytes, LEN};
	struct ripc_msg *msg;
	int error;

	fault_fill(bytes, LEN, 1);
	error = ripc_send_long(from, ripc_service_id(to), &item, 1, TIMEOUT_MS);
	if (error)
		fault_fail("a send: %s", ripc_strerror(error));
	error = ripc_receive(to, TIMEOUT_MS, &msg);
	if (error)
		fault_fail("a receive: %s", ripc_strerror(error));
	if (msg->items[0].iov_len != LEN || !fault_filled(msg->items[0].iov_base, LEN, 1))
		fault_fail("other bytes arrived than were sent");
	ripc_msg_free(msg);
}

static int talk(const char *backends)
{
	struct ripc_config cfg = fault_config();
	struct ripc_context *one, *two;
	struct ripc_service *from, *to;
	void *bytes = NULL;
	int error;

	cfg.backends = backends;
	error = ripc_open(&cfg, &one);
	if (error)
		fault_fail("no context: %s", ripc_strerror(error));
	if (ripc_open(&cfg, &two) || ripc_service_open(one, fault_id(1), 0, &from) ||
			ripc_service_open(two, fault_id(2), 0, &to))
		fault_fail("cannot open");
	error = ripc_buf_alloc(one, LEN, &bytes);
	if (error)
		fault_fail("a buffer: %s", ripc_strerror(error));
	for (int i = 0; i < 3; i++)
		exchange(from, to, bytes);
	ripc_buf_free(one, bytes);
	if (ripc_close(one, 1000) || ripc_close(two, 1000))
		fault_fail("cannot close");
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long value = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	int child, status;

	if (argc != 4)
		fault_fail("usage: sandbox BACKENDS files|memfd LENGTH|ERRNO");
	child = fork();
	if (child == 0) {
		if (strcmp(argv[2], "files") == 0)
			limit_files(value);
		else
			refuse_memfd((unsigned int)value);
		_exit(talk(argv[1]));
	}
	status = child < 0 ? -1 : fault_await(child, PATIENCE_MS);
	if (status == SKIPPED << 8)
		return SKIPPED;
	if (status)
		fault_fail("the child ended with %#x", status);
	return 0;
}
