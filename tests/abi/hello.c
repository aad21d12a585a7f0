/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program outside of the project, as a user would build it: a service sends a message to
 * another one of the same process and takes it out.
 */
#include <ripc/ripc.h>
#include <stdio.h>
#include <string.h>

static int exchange(struct ripc_service *from, struct ripc_service *to)
{
	struct iovec item = {.iov_base = (void *)"hello", .iov_len = 5};
	struct ripc_msg *msg;
	int error;

	error = ripc_send_long(from, ripc_service_id(to), &item, 1, 5000);
	if (error == 0)
		error = ripc_receive(to, 5000, &msg);
	if (error < 0) {
		fprintf(stderr, "hello: %s\n", ripc_strerror(error));
		return 1;
	}
	error = msg->n_items != 1 || msg->items[0].iov_len != 5 ||
			memcmp(msg->items[0].iov_base, "hello", 5) != 0;
	ripc_msg_free(msg);
	return error;
}

int main(void)
{
	struct ripc_context *ctx;
	struct ripc_service *from, *to;
	int failed;

	if (ripc_open(NULL, &ctx) < 0)
		return 1;
	failed = ripc_service_open(ctx, 0, 0, &from) < 0 || ripc_service_open(ctx, 0, 0, &to) < 0 ||
			exchange(from, to);
	return ripc_close(ctx, 1000) < 0 || failed;
}
