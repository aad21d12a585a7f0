/* SPDX-License-Identifier: BSD-3-Clause */
/* An event loop watches the descriptors of a context and of its services. */
#include <ripc/ripc.h>
#include <sys/epoll.h>

void serve(struct ripc_service *svc); /* ripc_receive() until -EAGAIN */

void run_once(int loop, struct ripc_context *ctx)
{
	struct epoll_event events[16];
	int n = epoll_wait(loop, events, 16, -1);
	int i;

	for (i = 0; i < n; i++)
		if (events[i].data.ptr == ctx)
			ripc_poll(ctx);
		else
			serve(events[i].data.ptr);
}
