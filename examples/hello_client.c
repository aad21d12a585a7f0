/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hello_client [NAME]: asks the service named "hello" for a greeting and prints it. The service
 * is found by its ID, wherever it runs; see hello_server.c for the other side.
 */
#include <ripc/ripc.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	char *name = argc > 1 ? argv[1] : "world";
	struct iovec item = {name, strlen(name)};
	uint64_t hello = ripc_id_from_name("hello");
	struct ripc_context *ctx = NULL;
	struct ripc_service *svc;
	struct ripc_msg *msg;
	int err = ripc_open(NULL, &ctx);

	if (err == 0) /* ID 0: any free one; we only need to be answered */
		err = ripc_service_open(ctx, 0, 0, &svc);
	if (err == 0) /* not needed, but it says at once when nobody serves "hello" */
		err = ripc_resolve(ctx, hello, 2000);
	if (err == 0)
		err = ripc_send_short(svc, hello, &item, 1);
	if (err == 0) /* shorts can get lost, so wait for two seconds and not for ever */
		err = ripc_receive(svc, 2000, &msg);
	if (err == 0) {
		if (msg->n_items > 0)
			printf("%.*s\n", (int)msg->items[0].iov_len,
				(const char *)msg->items[0].iov_base);
		ripc_msg_free(msg);
	} else {
		fprintf(stderr, "hello_client: %s\n", ripc_strerror(err));
	}
	if (ctx)
		ripc_close(ctx, 1000); /* closes the service too */
	return err ? 1 : 0;
}
