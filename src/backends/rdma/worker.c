/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper threads for calls that block: resolving a neighbour that does not respond (1 s in the
 * kernel), building and destroying queue pairs. There are a few, hence one dead partner does not
 * hold up all others, and they are started when first needed. Results are returned through a
 * list and an eventfd.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdma.h"
#include "util/rare.h"
#include "util/system/kick.h"
#include "util/system/thread.h"

struct thread {
	struct ripc__rdma_worker *worker;
	pthread_t id;
	struct ripc__rdma_job *job; /* the job that runs; NULL: none */
	bool is_there;              /* to be joined */
	bool is_left;               /* cancelled: it ends with its job */
	bool has_ended;             /* its last job has ended */
};

struct ripc__rdma_worker {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct list queued, slow, finished; /* slow: queued, and is_slow */
	struct thread threads[RIPC__RDMA_THREADS];
	uint32_t n_threads, n_idle, n_queued; /* n_threads: not ended */
	uint32_t n_slow; /* slow jobs that run */
	uint32_t n_pending;         /* only used by the owner */
	_Atomic bool any_finished;
	bool stop;
	int fd;
};

static void finish(struct ripc__rdma_worker *worker, struct ripc__rdma_job *job)
{
	list_append(&worker->finished, &job->node);
	ripc__kick(worker->fd);
	/* Set afterwards: a thread that finds it false again has read the eventfd. */
	atomic_store(&worker->any_finished, true);
}

/* Under the lock. */
static void job_ran(struct thread *thread)
{
	struct ripc__rdma_job *job = thread->job;

	job->ran = true;
	thread->job = NULL;
	thread->has_ended = thread->is_left;
	thread->worker->n_threads -= thread->is_left;
	thread->worker->n_slow -= job->is_slow;
	finish(thread->worker, job);
}

/* The job was within ripc__rdma_may_be_left(), and is left. */
static void left(void *arg)
{
	struct thread *thread = arg;

	pthread_mutex_lock(&thread->worker->lock);
	job_ran(thread);
	pthread_mutex_unlock(&thread->worker->lock);
}

static void run(struct thread *thread)
{
	pthread_cleanup_push(left, thread);
	thread->job->run(thread->job);
	pthread_cleanup_pop(0);
}

int ripc__rdma_may_be_left(int (*call)(void *arg), void *arg)
{
	int before, result;

	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
	result = call(arg);
	pthread_setcancelstate(before, NULL);
	return result;
}

/* The next job that a thread may run now, or NULL. Under the lock. */
static struct ripc__rdma_job *next_job(struct ripc__rdma_worker *worker)
{
	struct list *from = &worker->queued;

	if (list_empty(from) && worker->n_slow < RIPC__RDMA_THREADS - 1)
		from = &worker->slow;
	if (list_empty(from))
		return NULL;
	worker->n_queued--;
	return list_entry(list_pop(from), struct ripc__rdma_job, node);
}

static void *thread_main(void *arg)
{
	struct thread *thread = arg;
	struct ripc__rdma_worker *worker = thread->worker;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_mutex_lock(&worker->lock);
	while (!worker->stop && !thread->is_left) {
		thread->job = next_job(worker);
		if (!thread->job) {
			worker->n_idle++;
			pthread_cond_wait(&worker->more, &worker->lock);
			worker->n_idle--;
			continue;
		}
		worker->n_slow += thread->job->is_slow;
		pthread_mutex_unlock(&worker->lock);
		run(thread);
		pthread_mutex_lock(&worker->lock);
		job_ran(thread);
	}
	pthread_mutex_unlock(&worker->lock);
	return NULL;
}

int ripc__rdma_worker_open(struct ripc__rdma_worker **worker)
{
	struct ripc__rdma_worker *made = calloc(1, sizeof(*made));
	int error;

	if (!made)
		return -ENOMEM;
	made->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (made->fd < 0) {
		error = -errno;
		free(made);
		return error;
	}
	pthread_mutex_init(&made->lock, NULL);
	pthread_cond_init(&made->more, NULL);
	list_init(&made->queued);
	list_init(&made->slow);
	list_init(&made->finished);
	*worker = made;
	return 0;
}

int ripc__rdma_worker_fd(const struct ripc__rdma_worker *worker)
{
	return worker->fd;
}

uint32_t ripc__rdma_worker_pending(const struct ripc__rdma_worker *worker)
{
	return worker->n_pending;
}

/* Under the lock. */
static struct thread *free_place(struct ripc__rdma_worker *worker)
{
	struct thread *thread = worker->threads;

	while (thread->is_there && !thread->has_ended)
		thread++; /* there are fewer than RIPC__RDMA_THREADS */
	if (thread->is_there)
		pthread_join(thread->id, NULL); /* the thread has unlocked for the last time */
	*thread = (struct thread){.worker = worker};
	return thread;
}

/* One more thread. Under the lock. */
static void thread_start(struct ripc__rdma_worker *worker)
{
	struct thread *thread = free_place(worker);

	thread->is_there = ripc__thread_make(&thread->id, thread_main, thread) == 0;
	worker->n_threads += thread->is_there;
}

void ripc__rdma_worker_leave(struct ripc__rdma_worker *worker, const struct ripc__rdma_job *job)
{
	pthread_mutex_lock(&worker->lock);
	for (uint32_t i = 0; i < RIPC__RDMA_THREADS; i++) {
		struct thread *thread = &worker->threads[i];

		if (thread->job != job || thread->is_left)
			continue;
		thread->is_left = true;
		pthread_cancel(thread->id); /* heeded within ripc__rdma_may_be_left() */
	}
	pthread_mutex_unlock(&worker->lock);
}

void ripc__rdma_worker_submit(struct ripc__rdma_worker *worker, struct ripc__rdma_job *job)
{
	job->ran = false;
	worker->n_pending++;
	pthread_mutex_lock(&worker->lock);
	if (!worker->stop && worker->n_idle <= worker->n_queued &&
			worker->n_threads < RIPC__RDMA_THREADS)
		thread_start(worker);
	if (!worker->stop && worker->n_threads == 0) {
		job->run(job);
		job->ran = true;
		finish(worker, job);
	} else {
		list_append(job->is_slow ? &worker->slow : &worker->queued, &job->node);
		worker->n_queued++;
		pthread_cond_signal(&worker->more);
	}
	pthread_mutex_unlock(&worker->lock);
}

static struct ripc__rdma_job *take(struct ripc__rdma_worker *worker, struct list *from)
{
	struct ripc__rdma_job *job = NULL;

	pthread_mutex_lock(&worker->lock);
	if (!list_empty(from))
		job = list_entry(list_pop(from), struct ripc__rdma_job, node);
	pthread_mutex_unlock(&worker->lock);
	return job;
}

static void hand_back(struct ripc__rdma_worker *worker, struct list *from)
{
	struct ripc__rdma_job *job;

	while ((job = take(worker, from))) {
		worker->n_pending--;
		job->done(job);
	}
}

static RIPC__RARE void take_finished(struct ripc__rdma_worker *worker)
{
	/* Jobs that finish from here on are announced anew. */
	atomic_store(&worker->any_finished, false);
	ripc__kick_drain(worker->fd);
	hand_back(worker, &worker->finished);
	pthread_mutex_lock(&worker->lock);
	if (worker->n_queued > worker->n_idle && worker->n_threads < RIPC__RDMA_THREADS)
		thread_start(worker); /* replaces a thread that was left */
	pthread_mutex_unlock(&worker->lock);
}

void ripc__rdma_worker_done(struct ripc__rdma_worker *worker)
{
	if (atomic_load_explicit(&worker->any_finished, memory_order_relaxed))
		take_finished(worker);
}

void ripc__rdma_worker_close(struct ripc__rdma_worker *worker)
{
	bool any_busy;

	pthread_mutex_lock(&worker->lock);
	worker->stop = true;
	any_busy = worker->n_idle < worker->n_threads;
	pthread_cond_broadcast(&worker->more);
	pthread_mutex_unlock(&worker->lock);
	/* Only heeded within ripc__rdma_may_be_left(). */
	for (uint32_t i = 0; any_busy && i < RIPC__RDMA_THREADS; i++) {
		if (worker->threads[i].is_there)
			pthread_cancel(worker->threads[i].id);
	}
	for (uint32_t i = 0; i < RIPC__RDMA_THREADS; i++) {
		if (worker->threads[i].is_there)
			pthread_join(worker->threads[i].id, NULL);
	}
	hand_back(worker, &worker->finished);
	hand_back(worker, &worker->queued);
	hand_back(worker, &worker->slow);
	close(worker->fd);
	pthread_cond_destroy(&worker->more);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}
