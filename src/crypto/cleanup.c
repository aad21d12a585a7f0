/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of libcrypto, which concerns the whole process: OPENSSL_cleanup() frees the state that
 * all users of libcrypto share. A process that exits with a context open still sends and
 * receives meanwhile: the context's thread runs on, and destructors and atexit handlers of the
 * program may use the context.
 *
 * Design notes. If we are the first to use libcrypto, it registers no atexit handler: nothing is
 * cleaned up, and contexts work to the end. If the program was first, or calls OPENSSL_cleanup()
 * itself, a handler of ours runs before anything is freed. The handler waits for the calls that
 * other threads are in, and all later ones fail. Objects of libcrypto that a context still has
 * then are not freed. State of the process cannot be avoided here, because OPENSSL_atexit()
 * takes no argument.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <sched.h>

#include "internal.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct crypto_use *uses; /* under lock */
static bool is_registered;
static atomic_bool is_gone;

/* A call of this thread itself has been left for good: by exit() in a signal handler. */
static void cleanup_begins(void)
{
	uintptr_t self = (uintptr_t)pthread_self();

	atomic_store(&is_gone, true);
	(void)pthread_mutex_lock(&lock);
	for (struct crypto_use *use = uses; use; use = use->next) {
		uintptr_t thread;

		while ((thread = atomic_load(&use->thread)) && thread != self)
			(void)sched_yield();
	}
	(void)pthread_mutex_unlock(&lock);
}

static void fork_begins(void)
{
	(void)pthread_mutex_lock(&lock);
}

static void fork_ended(void)
{
	(void)pthread_mutex_unlock(&lock);
}

/* The threads that were in a call do not exist in the child, and must not be waited for there. */
static void fork_ended_in_child(void)
{
	for (struct crypto_use *use = uses; use; use = use->next)
		atomic_store(&use->thread, 0);
	(void)pthread_mutex_unlock(&lock);
}

static void process_register(void)
{
	is_registered = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL) == 1 &&
		OPENSSL_atexit(cleanup_begins) == 1 &&
		pthread_atfork(fork_begins, fork_ended, fork_ended_in_child) == 0;
}

int ripc__crypto_use_open(struct crypto_use *use)
{
	(void)pthread_once(&once, process_register);
	if (!is_registered)
		return -ENOMEM;
	atomic_init(&use->thread, 0);
	(void)pthread_mutex_lock(&lock);
	use->next = uses;
	uses = use;
	(void)pthread_mutex_unlock(&lock);
	return 0;
}

void ripc__crypto_use_close(struct crypto_use *use)
{
	struct crypto_use **at = &uses;

	(void)pthread_mutex_lock(&lock);
	while (*at != use)
		at = &(*at)->next;
	*at = use->next;
	(void)pthread_mutex_unlock(&lock);
}

/*
 * In this order, and in the handler in the opposite one: one of the two threads sees the
 * other's.
 */
bool ripc__crypto_use_begin(struct crypto_use *use)
{
	atomic_store(&use->thread, (uintptr_t)pthread_self());
	if (!atomic_load(&is_gone))
		return true;
	ripc__crypto_use_end(use);
	return false;
}

void ripc__crypto_use_end(struct crypto_use *use)
{
	atomic_store_explicit(&use->thread, 0, memory_order_release);
}
