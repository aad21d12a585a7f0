/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hello_client [NAME]: requests a greeting from the service named "hello" and prints it. The
 * service is found by its ID, wherever it runs; see hello_server.c for the other side.
 */
#include <ripc/call.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	char *name = argc > 1 ? argv[1] : "world";
	struct iovec item = {name, strlen(name)};
	struct ripc_request request = {
		.size = sizeof(request),
		.to = ripc_id_from_name("hello"),
		.items = &item,
		.n_items = 1,
		.flags = RIPC_IDEMPOTENT, /* a second greeting does no harm */
		.timeout_ms = 2000,	  /* also for a server that starts only now */
	};
	struct ripc_context *ctx = NULL;
	struct ripc_service *svc;
	struct ripc_msg *answer;
	int err = ripc_open(NULL, &ctx);

	if (err == 0) /* ID 0: any free one; we only need to get the reply */
		err = ripc_service_open(ctx, 0, 0, &svc);
	if (err == 0)
		err = ripc_call(svc, &request, &answer, NULL);
	if (err == 0) {
		printf("%.*s\n", (int)answer->items[0].iov_len, (char *)answer->items[0].iov_base);
		ripc_msg_free(answer);
	} else {
		fprintf(stderr, "hello_client: %s\n", ripc_strerror(err));
	}
	if (ctx)
		ripc_close(ctx, 1000); /* closes the service too */
	return err ? 1 : 0;
}
