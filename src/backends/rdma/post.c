/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting to queue pairs whose device sends by a TCP socket of the kernel, within the call: siw
 * (Linux 6.1, siw_post_send()) does not ask TCP for no SIGPIPE when the other end is gone. That
 * would end a program which has not arranged for it, as it knows nothing of a socket.
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

/* Where the thread has it blocked already it stays with the thread, as the program wants it. */
static RIPC__RARE int post_guarded(struct ibv_qp *qp, struct ibv_send_wr *wr,
		struct ibv_send_wr **bad)
{
	const struct timespec at_once = {0};
	sigset_t pipe, before;
	int error;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, &before);
	error = ibv_post_send(qp, wr, bad);
	if (sigismember(&before, SIGPIPE))
		return error;
	while (sigtimedwait(&pipe, NULL, &at_once) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

int ripc__rdma_post(struct ibv_qp *qp, bool guarded, struct ibv_send_wr *wr,
		struct ibv_send_wr **bad)
{
	return guarded ? post_guarded(qp, wr, bad) : ibv_post_send(qp, wr, bad);
}
