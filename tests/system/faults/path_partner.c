/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The partner of the path tests: counts the notes that it gets, each of which may come once, and
 * does by a signal, at any moment of its life, what breaks a path of shared memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/shm/internal.h"
#include "core/keys/internal.h"
#include "core/net/env.h"
#include "core/objects.h"
#include "fault.h"
#include "path.h"

#define PATIENCE_MS    10000
#define DESCRIPTORS    256

struct partner_process {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct shm_port *port; /* NULL: it has no shared memory */
	pthread_t signals;
	atomic_bool end;
	uint32_t got;
	uint8_t seen[STREAMS][NUMBERS];
};

uint64_t note_seed(const struct note *note)
{
	return (uint64_t)note->stream << 32 | note->number;
}

int note_read(const struct ripc_msg *msg, struct note *note)
{
	struct note copy;

	if (msg->kind != RIPC_LONG || msg->n_items != 2 || msg->items[0].iov_len != sizeof(copy))
		return -1;
	memcpy(&copy, msg->items[0].iov_base, sizeof(copy));
	if (msg->items[1].iov_len != copy.len ||
			!fault_filled(msg->items[1].iov_base, copy.len, note_seed(&copy)))
		return -1;
	*note = copy;
	return 0;
}

/* ---- breaking the path ------------------------------------------------------------------- */

/* As if the other side had ended them: the library notices at its next look. */
static void links_end(void)
{
	for (int fd = FAULT_READY_FD + 1; fd < DESCRIPTORS; fd++) {
		int domain = 0, type = 0, listens = 1;
		socklen_t len = sizeof(int);

		if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
				getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
				getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 &&
				domain == AF_UNIX && type == SOCK_SEQPACKET && !listens)
			shutdown(fd, SHUT_RDWR);
	}
}

/* The listening socket goes, and its name with it; one that nobody can connect to stays. */
static void links_refuse(struct shm_port *port)
{
	int other = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (other < 0 || dup3(other, port->listener.fd, O_CLOEXEC) < 0)
		fault_fail("partner: no other socket");
	close(other);
	links_end();
}

static void links_admit(struct shm_port *port)
{
	int again = ripc__shm_listen(port->name);

	if (again < 0 || dup3(again, port->listener.fd, O_CLOEXEC) < 0 ||
			ripc__shm_watch(port, &port->listener))
		fault_fail("partner: cannot listen again: %d", again);
	close(again);
}

static void signals_wanted(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGNAL_BREAK);
	sigaddset(set, SIGNAL_REFUSE);
	sigaddset(set, SIGNAL_ADMIT);
	sigaddset(set, SIGNAL_END);
}

static void *signals_main(void *arg)
{
	struct partner_process *process = arg;
	sigset_t set;
	int got = 0;

	signals_wanted(&set);
	while (sigwait(&set, &got) == 0 && got != SIGNAL_END) {
		/* To whoever sent the signal: it is done. */
		if (got == SIGNAL_BREAK)
			links_end();
		else if (got == SIGNAL_REFUSE && process->port)
			links_refuse(process->port);
		else if (got == SIGNAL_ADMIT && process->port)
			links_admit(process->port);
		if (write(FAULT_READY_FD, "d", 1) != 1)
			fault_fail("partner: cannot say that it is done");
	}
	atomic_store(&process->end, true);
	return NULL;
}

/* ---- its life ---------------------------------------------------------------------------- */

static void take(struct partner_process *process, struct ripc_msg *msg)
{
	struct note note;
	int error;

	if (msg->kind == RIPC_NOTICE)
		return;
	if (note_read(msg, &note) || note.stream >= STREAMS || note.number >= NUMBERS)
		fault_fail("partner: got something broken");
	if (process->seen[note.stream][note.number]++)
		fault_fail("partner: got note %u of stream %u twice", note.number, note.stream);
	process->got++;
	error = note.echo ? ripc_send_long(process->svc, msg->from, msg->items, msg->n_items,
		PATIENCE_MS) : 0;
	if (error && note.stream == 0)
		fault_fail("partner: the answer ended with %s", ripc_strerror(error));
}

static struct shm_port *find_port(const struct ripc_context *ctx)
{
	for (uint32_t i = 0; i < ctx->peers.n_devices; i++) {
		if (strcmp(ctx->peers.devices[i].ops->name, "shm") == 0)
			return ctx->seal ? inner_port(ctx->peers.devices[i].port) :
			ctx->peers.devices[i].port;
	}
	return NULL;
}

static void partner_open(struct partner_process *process, struct ripc__env *env)
{
	struct ripc_config cfg = fault_config();
	int error;

	ripc__env_init(env);
	fault_open(env, &cfg, &process->ctx);
	error = ripc_service_open(process->ctx, fault_id(SERVICE_PARTNER), 0, &process->svc);
	if (error)
		fault_fail("partner: no service: %s", ripc_strerror(error));
	process->port = find_port(process->ctx);
}

int partner_main(const char *uid)
{
	static struct partner_process process;
	struct ripc__env env;
	struct ripc_msg *msg;
	uid_t user = uid ? (uid_t)atoi(uid) : 0;
	sigset_t set;

	if (uid && (setgroups(0, NULL) || setresgid(user, user, user) ||
			setresuid(user, user, user)))
		fault_fail("partner: cannot become user %s", uid);
	signals_wanted(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	partner_open(&process, &env);
	if (pthread_create(&process.signals, NULL, signals_main, &process))
		fault_fail("partner: no thread");
	if (write(FAULT_READY_FD, "r", 1) != 1)
		fault_fail("partner: cannot say that it is ready");
	while (!atomic_load(&process.end)) {
		if (ripc_receive(process.svc, 20, &msg))
			continue;
		take(&process, msg);
		ripc_msg_free(msg);
	}
	while (ripc_receive(process.svc, 0, &msg) == 0) {
		take(&process, msg);
		ripc_msg_free(msg);
	}
	pthread_join(process.signals, NULL);
	ripc_close(process.ctx, PATIENCE_MS);
	return write(FAULT_READY_FD, &process.got, sizeof(process.got)) < 0;
}
