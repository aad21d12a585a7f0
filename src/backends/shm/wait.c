/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping and waking. The receiver notes on its board that it sleeps, then polls its rings once
 * more; a sender puts its datagram into the ring, then reads the board. Between the two steps
 * both have a full fence, hence at least one of them sees the other (Dekker).
 *
 * Core may poll while a thread sleeps on the descriptor: polling therefore does not end the
 * sleep on the board. Each sender wakes once for each sleep; a poll that takes the wake-up of a
 * sleep on the sockets, or the bell, begins a new one. The board may thus say "asleep" though no
 * thread sleeps: that costs a message, never a wake-up.
 *
 * On a descriptor the receiver sleeps in core, and a sender wakes it by a message on their
 * socket: a descriptor of the partner, like an eventfd, could block its writer. In wait() the
 * receiver sleeps on a futex, which neither the end of a connection nor a datagram over a socket
 * can end: it does so only if all partners use their rings, as far as is known, and after a
 * short while it goes on sleeping on the sockets.
 *
 * The section rouse has the sender's side.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "util/rare.h"
#include "util/system/cancel.h"
#include "util/system/kick.h"

#define FUTEX_MS 2
#define WAIT_MS  98

static void tell(struct shm_port *port, enum shm_asleep how)
{
	uint32_t now = atomic_load_explicit(&port->board->asleep, memory_order_relaxed);

	/* A thread that waits and one that maps may do so at once. */
	while (!atomic_compare_exchange_weak(&port->board->asleep, &now, ((now | 3) + 1) | how))
		;
}

static bool any_ready(const struct shm_port *port)
{
	for (uint32_t i = 0; i < port->n_rings; i++) {
		if (port->rings[i] && ripc__shm_ring_ready(&port->rings[i]->ring))
			return true;
	}
	return false;
}

/* Begins a sleep. False: something has arrived already. */
static bool arm(struct shm_port *port, enum shm_asleep how)
{
	tell(port, how);
	ripc__shm_point("sleep_told");
	port->armed = true;
	ripc__shm_point("armed");
	atomic_thread_fence(memory_order_seq_cst);
	return !port->n_reads && !any_ready(port) && !ripc__shm_any_home(port);
}

void ripc__shm_rearm(struct shm_port *port)
{
	if (!arm(port, SHM_ASLEEP_ON_SOCKETS))
		ripc__kick(port->bell.fd);
	port->armed = port->roused = false;
}

/* A message in the sockets makes the descriptor readable. */
int ripc__shm_wait_arm(void *port)
{
	return arm(port, SHM_ASLEEP_ON_SOCKETS) ? 0 : -EAGAIN;
}

/* Sleeps on the futex. False: time has passed. */
static bool futex_sleep(struct shm_port *port, uint32_t seen)
{
	const struct timespec most = {.tv_nsec = FUTEX_MS * 1000000};

	ripc__shm_point("futex_sleeps");
	return syscall(SYS_futex, &port->bits->wakes, FUTEX_WAIT, seen, &most, NULL, 0) == 0 ||
		errno != ETIMEDOUT;
}

void ripc__shm_wait(void *state)
{
	struct shm_port *port = state;
	uint32_t seen = atomic_load(&port->bits->wakes);
	struct epoll_event ready;
	bool done = false;

	if (port->n_socket_links == 0 && port->n_ring_links > 0) {
		if (!arm(port, SHM_ASLEEP_ON_FUTEX))
			return;
		done = atomic_load(&port->woken) || futex_sleep(port, seen);
	}
	if (!done && !atomic_load(&port->woken) && arm(port, SHM_ASLEEP_ON_SOCKETS))
		(void)epoll_wait(port->epoll_fd, &ready, 1, WAIT_MS);
	/* A sender that wakes us from now on finds us awake. */
	ripc__shm_point("slept");
	atomic_store(&port->woken, false);
}

void ripc__shm_wake(void *state)
{
	struct shm_port *port = state;

	atomic_store(&port->woken, true);
	atomic_fetch_add(&port->bits->wakes, 1);
	syscall(SYS_futex, &port->bits->wakes, FUTEX_WAKE, SHM_SLEEPERS, NULL, NULL, 0);
	ripc__kick(port->bell.fd);
}

/* ---- rouse ------------------------------------------------------------------------------- */

/* The sender's side of sleeping and waking: how a sleeping receiver is woken. */

static RIPC__RARE void mark(struct shm_out *out)
{
	_Atomic uint64_t *word = &out->bits->rings[out->index / 64].word;
	uint64_t bit = 1ull << out->index % 64;

	if (!(atomic_load(word) & bit))
		atomic_fetch_or(word, bit);
}

/* Wakes once for each sleep; for want of memory in the kernel, again with the next datagram. */
static RIPC__RARE void rouse_from(struct shm_out *out, uint32_t asleep)
{
	RIPC__HOLD_CANCEL;

	if (asleep % 4 == SHM_ASLEEP_ON_SOCKETS) {
		ripc__shm_point("wake_due");
		if (ripc__shm_send_head(out->watch.fd, SHM_WAKE) == 0)
			out->rung = asleep;
		ripc__shm_point("wake_sent");
		return;
	}
	out->rung = asleep;
	ripc__shm_point("futex_due");
	atomic_fetch_add(&out->bits->wakes, 1);
	ripc__shm_point("futex_counted");
	syscall(SYS_futex, &out->bits->wakes, FUTEX_WAKE, SHM_SLEEPERS, NULL, NULL, 0);
	ripc__shm_point("futex_woken");
}

void ripc__shm_rouse(struct shm_out *out)
{
	uint32_t asleep;

	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&out->board->crowded, memory_order_relaxed))
		mark(out);
	asleep = atomic_load_explicit(&out->board->asleep, memory_order_relaxed);
	if (asleep % 4 != SHM_AWAKE && asleep != out->rung)
		rouse_from(out, asleep);
}
