/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program with keys ends well, however it ends, while clients come and go: libcrypto belongs to
 * the whole process, and may be cleaned up before the library's last use (src/crypto/cleanup.c).
 *
 *   left        main returns, and a thread is still in ripc_receive()
 *   atexit      a handler that was registered before ripc_open() sends, and closes the context
 *   destructor  a destructor does that
 *   thread      a thread calls exit() while main receives
 *   cleanup     main calls OPENSSL_cleanup(), sends, and closes the context
 *
 * Each also as "first-HOW": the program has used libcrypto itself before, and libcrypto cleans up
 * at exit. In the others a last message must arrive, but not after OPENSSL_cleanup(). Objects of
 * libcrypto in contexts are then not freed, so the test does not check for leaks there.
 *
 * usage: faults-ends HOW RUNS
 */
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ripc/ripc.h"

#define HEARD       3     /* messages that come before a server ends */
#define SEND_MS     200   /* of a client, whose server may just have ended */
#define PATIENCE_MS 60000
#define CLIENTS     2     /* that come and go */

static const char *how;
static bool is_first, ends_late, loses_libcrypto; /* in a server: by how */
static uint64_t server_id, listener_id;
static struct ripc_context *ctx;
static struct ripc_service *svc;

static __attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "ends %s: ", how);
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	_exit(2);
}

static void must(int error, const char *what)
{
	if (error)
		fail("%s: %s", what, ripc_strerror(error));
}

static int say(struct ripc_service *from, uint64_t to, int timeout_ms)
{
	const struct iovec item = {(void *)(uintptr_t)"here", 4};

	return ripc_send_long(from, to, &item, 1, timeout_ms);
}

static void receive(struct ripc_service *at, int timeout_ms)
{
	struct ripc_msg *msg;
	int error = ripc_receive(at, timeout_ms, &msg);

	must(error, "ripc_receive");
	ripc_msg_free(msg);
}

/* Asked by the leak sanitizer, where there is one. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return loses_libcrypto;
}

/* ---- the clients ------------------------------------------------------------------------- */

static void *listen_main(void *arg)
{
	for (;;)
		receive(arg, -1);
	return arg;
}

/* Contexts that are always new, so that their handshakes meet the server's end. */
static void *client_main(void *arg)
{
	for (;;) {
		struct ripc_context *mine;
		struct ripc_service *own;

		must(ripc_open(NULL, &mine), "a client's ripc_open");
		must(ripc_service_open(mine, 0, 0, &own), "a client's ripc_service_open");
		for (int i = 0; i < 4 && say(own, server_id, SEND_MS) == 0; i++)
			;
		must(ripc_close(mine, 0), "a client's ripc_close");
	}
	return arg;
}

static void thread_start(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, arg) || pthread_detach(thread))
		fail("no thread");
}

/* Writes a byte when the listener is there. */
static void clients(int ready)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	must(ripc_open(NULL, &ctx), "ripc_open");
	must(ripc_service_open(ctx, listener_id, 0, &svc), "ripc_service_open");
	thread_start(listen_main, svc);
	for (int i = 0; i < CLIENTS; i++)
		thread_start(client_main, NULL);
	if (write(ready, "", 1) != 1)
		fail("the parent has gone");
	for (;;)
		pause();
}

/* ---- a server, whose end is tested ------------------------------------------------------- */

static void last_words(void)
{
	int error = say(svc, listener_id, loses_libcrypto ? SEND_MS : PATIENCE_MS);

	if (!error == loses_libcrypto)
		fail("the last message: %s", ripc_strerror(error));
	must(ripc_close(ctx, 0), "ripc_close");
}

static void at_exit(void)
{
	last_words();
}

static __attribute__((destructor)) void at_end(void)
{
	if (ends_late)
		last_words();
}

static void *receive_main(void *arg)
{
	for (;;)
		receive(arg, -1);
	return arg;
}

static void *exit_main(void *arg)
{
	(void)arg;
	exit(0);
}

static int serve(void)
{
	uint8_t byte;

	if (strcmp(how, "atexit") == 0 && atexit(at_exit))
		fail("no handler");
	if (is_first && RAND_bytes(&byte, 1) != 1)
		fail("no random number");
	must(ripc_open(NULL, &ctx), "ripc_open");
	must(ripc_service_open(ctx, server_id, 0, &svc), "ripc_service_open");
	for (int i = 0; i < HEARD; i++)
		receive(svc, PATIENCE_MS);
	if (strcmp(how, "left") == 0) {
		thread_start(receive_main, svc);
	} else if (strcmp(how, "thread") == 0) {
		thread_start(exit_main, NULL);
		(void)receive_main(svc);
	} else if (strcmp(how, "cleanup") == 0) {
		OPENSSL_cleanup();
		last_words();
	} else {
		ends_late = strcmp(how, "destructor") == 0;
	}
	return 0;
}

/* ------------------------------------------------------------------------------------------ */

static pid_t clients_start(void)
{
	pid_t pid;
	char byte;
	int ready[2];

	if (pipe(ready) || (pid = fork()) < 0)
		fail("no process");
	if (pid == 0)
		clients(ready[1]);
	(void)close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		fail("no clients");
	(void)close(ready[0]);
	return pid;
}

/* A program of its own, whose libraries begin and end anew. */
static void server_run(const char *self, const char *what, const char *base, int run)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		(void)execl(self, self, "serve", what, base, (char *)NULL);
		_exit(3);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		fail("no process");
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail("run %d ended with %s %d", run, WIFSIGNALED(status) ? "signal" : "status",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void how_parse(const char *what, const char *base)
{
	is_first = strncmp(what, "first-", 6) == 0;
	how = what + 6 * is_first;
	loses_libcrypto = is_first || strcmp(how, "cleanup") == 0;
	server_id = strtoull(base, NULL, 16);
	listener_id = server_id + 1;
}

int main(int argc, char **argv)
{
	char base[32];
	pid_t pid;

	if (argc == 4 && strcmp(argv[1], "serve") == 0) {
		how_parse(argv[2], argv[3]);
		return serve();
	}
	if (argc != 3)
		return 2;
	snprintf(base, sizeof(base), "%llx", 0xe4d5ull << 32 | (unsigned long long)getpid() << 1);
	how_parse(argv[1], base);
	pid = clients_start();
	for (int run = 0; run < atoi(argv[2]); run++)
		server_run(argv[0], argv[1], base, run);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	printf("%s: %s ends\n", argv[1], argv[2]);
	return 0;
}
