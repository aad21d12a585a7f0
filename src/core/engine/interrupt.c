/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ending calls that wait.
 *
 * Design notes. A signal handler may call ripc_wake(), also one that interrupts a thread which has
 * the lock. So ripc_wake() takes none: the wake is counted in its service, ctx->woken is set, and
 * the reader's sleep ended, of whichever kind it is. The reader finds ctx->woken set, and ends the
 * sleep of those beside it that are meant (ripc__wake_ready()). A thread that sleeps beside has a
 * reader, or has just become the reader. A reader that goes into a port's own wait says so
 * (ctx->waits_on), then looks at ctx->woken; ripc_wake() sets that, then looks at ctx->waits_on:
 * one of them sees the other. In ppoll() the kick stays readable until it is taken.
 *
 * Sends and calls that close are not ended: they report an outcome. A wake that meets none but
 * these is kept for the next call that it can end.
 */
#include "core/objects.h"
#include "core/peer/devices.h"
#include "interrupt.h"
#include "readiness.h"
#include "util/system/cancel.h"

#include <errno.h>


bool ripc__wake_take(_Atomic uint32_t *wakes)
{
	uint32_t n = atomic_load(wakes);

	while (n > 0 && !atomic_compare_exchange_weak(wakes, &n, n - 1))
		;
	return n > 0;
}

int ripc_wake(struct ripc_service *svc)
{
	RIPC__HOLD_CANCEL;
	struct ripc_context *ctx = svc ? svc->ctx : NULL;
	struct device *device;
	int before = errno;

	if (!ctx)
		return -EINVAL;
	if (!ripc__is_own(ctx))
		return ripc__refusal(ctx);
	atomic_fetch_add(&svc->wakes, 1);
	atomic_store(&ctx->woken, true);
	device = atomic_load(&ctx->waits_on);
	if (device)
		device->ops->net.wake(device->port);
	ripc__kick(ctx->kick_fd);
	errno = before;
	return 0;
}

void ripc__signals_hold(struct signals *signals)
{
	/* What the program itself has done wrong is told at once. */
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
	sigset_t most;

	sigfillset(&most);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&most, own[i]);
	pthread_sigmask(SIG_BLOCK, &most, &signals->before);
}

void ripc__signals_release(const struct signals *signals)
{
	pthread_sigmask(SIG_SETMASK, &signals->before, NULL);
}

bool ripc__signals_came(const struct signals *signals)
{
	return !ripc__sleep_on(NULL, 0, 0, 0, &signals->before);
}
