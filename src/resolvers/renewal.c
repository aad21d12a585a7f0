/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a list of hosts anew, in a thread that ends with it (peers.h). The name service may take
 * its time: a thread whose result nobody wants any more frees it itself, when it has ended.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resolvers/peers.h"
#include "util/system/thread.h"

struct renewal {
	pthread_mutex_t lock;
	pthread_t thread;
	char *text;
	in_port_t port;
	int fd;
	bool is_done, is_left;
	int error;
	struct peers peers;
};

static void renewal_free(struct renewal *renewal)
{
	pthread_mutex_destroy(&renewal->lock);
	free(renewal->text);
	free(renewal);
}

static void *renewal_main(void *arg)
{
	struct renewal *renewal = arg;
	uint64_t one = 1;
	bool is_left;

	renewal->error = ripc__peers_read(renewal->text, renewal->port, &renewal->peers);
	pthread_mutex_lock(&renewal->lock);
	renewal->is_done = true;
	is_left = renewal->is_left;
	while (!is_left && write(renewal->fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_mutex_unlock(&renewal->lock);
	if (is_left)
		renewal_free(renewal);
	return NULL;
}

struct renewal *ripc__renewal_begin(const char *text, in_port_t port, int fd)
{
	struct renewal *renewal = calloc(1, sizeof(*renewal));

	if (!renewal)
		return NULL;
	pthread_mutex_init(&renewal->lock, NULL);
	renewal->text = strdup(text);
	renewal->port = port;
	renewal->fd = fd;
	if (renewal->text &&
			ripc__thread_make(&renewal->thread, renewal_main, renewal) == 0)
		return renewal;
	renewal_free(renewal);
	return NULL;
}

bool ripc__renewal_take(struct renewal *renewal, struct peers *newer, int *error)
{
	bool is_done;

	pthread_mutex_lock(&renewal->lock);
	is_done = renewal->is_done;
	pthread_mutex_unlock(&renewal->lock);
	if (!is_done)
		return false;
	pthread_join(renewal->thread, NULL);
	*newer = renewal->peers;
	*error = renewal->error;
	renewal_free(renewal);
	return true;
}

void ripc__renewal_leave(struct renewal *renewal)
{
	pthread_t thread = renewal->thread;
	bool is_done;

	pthread_mutex_lock(&renewal->lock);
	is_done = renewal->is_done;
	renewal->is_left = true;
	pthread_mutex_unlock(&renewal->lock);
	if (!is_done) {
		pthread_detach(thread);
		return;
	}
	pthread_join(thread, NULL);
	renewal_free(renewal);
}
