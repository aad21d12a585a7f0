/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of devices that send by a TCP socket of the kernel, within the call: siw (Linux 6.1,
 * siw_post_send(), siw_reject(), siw_send_terminate()) does not ask TCP for no SIGPIPE when the
 * other end is gone. SIGPIPE would end a program that has not arranged for it, as the program knows
 * nothing of a socket.
 */
#include <errno.h>
#include <signal.h>
#include <time.h>

#include "rdma.h"
#include "util/rare.h"

bool ripc__rdma_sigpipe_ends(void)
{
	struct sigaction now;

	return sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL;
}

static void only_pipe(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGPIPE);
}

RIPC__RARE void ripc__rdma_guard_begin(sigset_t *before)
{
	sigset_t pipe;

	only_pipe(&pipe);
	pthread_sigmask(SIG_BLOCK, &pipe, before);
}

/* Where the thread has it blocked already it stays with the thread, as the program wants it. */
RIPC__RARE void ripc__rdma_guard_end(const sigset_t *before)
{
	const struct timespec at_once = {0};
	sigset_t pipe;

	if (sigismember(before, SIGPIPE))
		return;
	only_pipe(&pipe);
	while (sigtimedwait(&pipe, NULL, &at_once) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

static RIPC__RARE int post_guarded(struct ibv_qp *qp, struct ibv_send_wr *wr,
		struct ibv_send_wr **bad)
{
	sigset_t before;
	int error;

	ripc__rdma_guard_begin(&before);
	error = ibv_post_send(qp, wr, bad);
	ripc__rdma_guard_end(&before);
	return error;
}

int ripc__rdma_post(struct ibv_qp *qp, bool guarded, struct ibv_send_wr *wr,
		struct ibv_send_wr **bad)
{
	return guarded ? post_guarded(qp, wr, bad) : ibv_post_send(qp, wr, bad);
}
