/* SPDX-License-Identifier: BSD-3-Clause */
/* The sender's side of sleeping and waking: how a receiver that sleeps is woken (see wait.c). */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm.h"
#include "util/rare.h"
#include "util/system/cancel.h"

static RIPC__RARE void mark(struct shm_out *out)
{
	_Atomic uint64_t *word = &out->bits->rings[out->index / 64].word;
	uint64_t bit = 1ull << out->index % 64;

	if (!(atomic_load(word) & bit))
		atomic_fetch_or(word, bit);
}

/* Once for each sleep; for want of memory in the kernel, again with the next datagram. */
static RIPC__RARE void rouse_from(struct shm_out *out, uint32_t asleep)
{
	RIPC__HOLD_CANCEL;

	if (asleep % 4 == SHM_ASLEEP_ON_SOCKETS) {
		ripc__shm_point("wake_due");
		if (ripc__shm_send_wake(out->watch.fd) == 0)
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
