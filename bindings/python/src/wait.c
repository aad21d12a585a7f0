/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting that signals end.
 *
 * Design notes. Python runs the handlers of signals in the main thread, between two of its own
 * instructions. So a call of the main thread waits for a quarter of a second at a time and looks
 * for signals between: Ctrl-C is never missed, also one that comes just before it waits, or whose
 * first part (in C) runs in another thread, and a wait costs no system call more. With
 * Context(interruptible=True) a signal ends most waits at once.
 *
 * A send or call is started, and its end is waited for in such slices. When a handler raises, the
 * send or call is cancelled. Its end is waited for once more. If it does not come soon (the partner
 * does not answer), the end is left behind: its hold keeps the memory until the end is collected,
 * by a later call in the service. The exception has as its context an Interrupted with the outcome.
 *
 * A call of the library that can be neither continued nor ended early is an errand: a thread of
 * its own makes it, and the main thread waits for that thread. When a handler raises, the errand
 * is left to its thread, which clears up.
 */
#include "binding.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int left_ms(int64_t until_ms)
{
	int64_t left = until_ms - now_ms();

	return left > 0 ? (int)left : 0;
}

int slice_ms(int timeout_ms)
{
	return is_main_thread() && (timeout_ms < 0 || timeout_ms > SLICE_MS) ? SLICE_MS :
		timeout_ms;
}

void pause_ms(int ms)
{
	const struct timespec pause = {.tv_nsec = ms * 1000000};
	PyThreadState *state = PyEval_SaveThread();

	nanosleep(&pause, NULL);
	PyEval_RestoreThread(state);
}

/* ---- the ends of sends and calls --------------------------------------------------------- */

static const char *sentence(enum ripc_outcome outcome)
{
	switch (outcome) {
	case RIPC_DELIVERED:
		return "the message was delivered";
	case RIPC_NOT_DELIVERED:
		return "the message was not delivered";
	default:
		return "whether the message was delivered is unknown";
	}
}

/* Appends to the chain of contexts. Takes context. */
static void chain(PyObject *exception, PyObject *context)
{
	PyObject *next = PyException_GetContext(exception);

	Py_INCREF(exception);
	while (next) {
		Py_DECREF(exception);
		exception = next;
		next = PyException_GetContext(exception);
	}
	PyException_SetContext(exception, context);
	Py_DECREF(exception);
}

PyObject *outcome_note(enum ripc_outcome outcome)
{
	PyObject *type, *exception, *trace, *context;

	PyErr_Fetch(&type, &exception, &trace);
	PyErr_NormalizeException(&type, &exception, &trace);
	context = error_new(-EINTR, (int)outcome, sentence(outcome));
	if (context && exception)
		chain(exception, context);
	else
		PyErr_Clear();
	PyErr_Restore(type, exception, trace);
	return NULL;
}

/* The memory is the program's again, what it was lent for an answer to a send excepted. */
static void hold_settle(struct service *service, struct hold *hold, enum ripc_outcome outcome)
{
	if (outcome == RIPC_NOT_DELIVERED && hold->given)
		items_keep(service->context, hold->items, hold->n_items);
	if (outcome == RIPC_NOT_DELIVERED || hold->kind == HOLD_CALL)
		hold_end(&service->holds, hold);
	else
		hold_items_end(&service->holds, hold);
}

static bool is_open(const struct service *service)
{
	return service->svc && !service->closing;
}

void ends_collect(struct service *service)
{
	struct holds *holds = &service->holds;

	for (uint32_t place = 0; is_open(service) && place < holds->n; place++) {
		struct hold *hold = &holds->table[place];
		struct ripc_msg *end;
		enum ripc_outcome outcome;

		if (!hold->is_left || ripc_receive_end(service->svc, hold_cookie(holds, place), 0,
				&end))
			continue;
		outcome = end->outcome;
		ripc_msg_free(end);
		service->n_left--;
		hold->is_left = false;
		hold_settle(service, hold, outcome);
	}
}

/* From now on the hold has the items, and the end of the send or call is collected. */
static int leave_behind(struct service *service, struct awaited *awaited)
{
	struct hold *hold = hold_get(&service->holds, awaited->cookie);

	if (!hold)
		return 0; /* another thread has closed the service */
	if (awaited->items && hold_adopt(hold, awaited->items))
		return -1;
	hold->given |= awaited->given;
	hold->is_left = true;
	service->n_left++;
	return 0;
}

/* The library may use the items until the service is closed: the hold has them until then. */
static void leave_to_close(struct service *service, struct awaited *awaited)
{
	struct hold *hold = hold_get(&service->holds, awaited->cookie);

	if (hold && awaited->items && hold_adopt(hold, awaited->items))
		while (service->svc || service->holds.n)
			pause_ms(1); /* no memory to leave it */
}

/* Cancels it. 0: *end is its end; else a negative errno. */
static int cancel(struct service *service, uint64_t cookie, int timeout_ms, struct ripc_msg **end)
{
	struct ripc_service *svc = service->svc;
	PyThreadState *state = service_leave_python(service);
	int cancelled = ripc_cancel(svc, cookie);
	int error = ripc_receive_end(svc, cookie, timeout_ms, end);
	struct hold *hold;

	service_enter_python(service, state);
	hold = cancelled ? NULL : hold_get(&service->holds, cookie);
	if (hold && hold->kind == HOLD_SEND && hold->n_returns && hold->n_items)
		hold_returns_end(&service->holds, hold);
	return error;
}

/* A handler has raised an exception: tells it the outcome. */
static void give_up(struct service *service, struct awaited *awaited)
{
	PyObject *type, *exception, *trace;
	struct ripc_msg *end = NULL;
	struct hold *hold;
	int error = -ESHUTDOWN;

	PyErr_Fetch(&type, &exception, &trace);
	if (is_open(service))
		error = cancel(service, awaited->cookie, SLICE_MS, &end);
	while ((error == -ETIMEDOUT || error == -EINTR) && leave_behind(service, awaited))
		error = cancel(service, awaited->cookie, -1, &end); /* no memory to leave it */
	if (!error) {
		awaited->outcome = end->outcome;
		ripc_msg_free(end);
		hold = hold_get(&service->holds, awaited->cookie);
		if (hold)
			hold_settle(service, hold, awaited->outcome);
	} else if (!is_open(service)) {
		leave_to_close(service, awaited);
	}
	PyErr_Restore(type, exception, trace);
	outcome_note(awaited->outcome);
}

static int wait_once(struct service *service, uint64_t cookie, struct ripc_msg **end)
{
	struct ripc_service *svc = service->svc;
	int timeout_ms = slice_ms(-1);
	PyThreadState *state = service_leave_python(service);
	int error = ripc_receive_end(svc, cookie, timeout_ms, end);

	service_enter_python(service, state);
	return error;
}

int end_await(struct service *service, struct awaited *awaited, int error, struct ripc_msg **end)
{
	awaited->outcome = RIPC_UNKNOWN;
	while (error == -ETIMEDOUT || error == -EINTR) {
		if (PyErr_CheckSignals()) {
			give_up(service, awaited);
			return -1;
		}
		error = is_open(service) ? wait_once(service, awaited->cookie, end) : -ESHUTDOWN;
	}
	if (!error)
		return 0;
	leave_to_close(service, awaited);
	error_raise(-ESHUTDOWN, RIPC_UNKNOWN, "the service is closed");
	return -1;
}

/* ---- errands ----------------------------------------------------------------------------- */

enum { RUNS, ENDED, LEFT };

static void errand_free(struct errand *errand)
{
	PyObject *owner = errand->owner;

	if (errand->fd >= 0)
		close(errand->fd);
	PyMem_Free(errand->ids);
	PyMem_Free(errand->svcs);
	Py_XDECREF(errand->strings);
	PyMem_Free(errand);
	Py_DECREF(owner);
}

struct errand *errand_new(PyObject *owner, atomic_uint *running)
{
	struct errand *errand = PyMem_Calloc(1, sizeof(*errand));

	if (!errand)
		return (void *)PyErr_NoMemory();
	errand->fd = -1;
	errand->owner = owner;
	errand->running = running;
	Py_INCREF(owner);
	return errand;
}

void errand_end(struct errand *errand)
{
	errand_free(errand);
}

/* The main thread has left. */
static void clear_up(struct errand *errand)
{
	PyGILState_STATE state;

	if (errand->undo)
		errand->undo(errand);
	atomic_fetch_sub(errand->running, 1);
	if (!Py_IsInitialized())
		return; /* the process is about to end */
	state = PyGILState_Ensure();
	errand_free(errand);
	PyGILState_Release(state);
}

static void *errand_main(void *arg)
{
	struct errand *errand = arg;
	uint64_t one = 1;

	errand->result = errand->run(errand);
	if (atomic_exchange(&errand->state, ENDED) == LEFT) {
		clear_up(errand);
		return NULL;
	}
	atomic_fetch_sub(errand->running, 1);
	if (write(errand->fd, &one, sizeof(one)) < 0)
		return NULL; /* cannot be: the main thread finds it ENDED after a slice */
	return NULL;
}

/* Signals are for the other threads, whose handlers Python has set. */
static int thread_start(struct errand *errand)
{
	sigset_t all, before;
	int error;

	errand->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (errand->fd < 0)
		return -errno;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	error = pthread_create(&errand->thread, NULL, errand_main, errand);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

static void run_here(struct errand *errand)
{
	PyThreadState *state = PyEval_SaveThread();

	errand->result = errand->run(errand);
	PyEval_RestoreThread(state);
	atomic_fetch_sub(errand->running, 1);
}

/* A context that was closed meanwhile has closed the errand's object, too. */
static void undo_here(struct errand *errand)
{
	PyThreadState *state;

	if (!errand->undo || ((struct context *)errand->owner)->closing)
		return;
	atomic_fetch_add(errand->running, 1);
	state = PyEval_SaveThread();
	errand->undo(errand);
	PyEval_RestoreThread(state);
	atomic_fetch_sub(errand->running, 1);
}

static void wait_for_thread(struct errand *errand)
{
	struct pollfd ended = {.fd = errand->fd, .events = POLLIN};
	PyThreadState *state = PyEval_SaveThread();

	poll(&ended, 1, SLICE_MS); /* a signal ends it at once */
	PyEval_RestoreThread(state);
}

/* 0: it has ended. -1: a handler has raised an exception, and the thread clears up. */
static int thread_await(struct errand *errand)
{
	while (atomic_load(&errand->state) != ENDED) {
		wait_for_thread(errand);
		if (!PyErr_CheckSignals())
			continue;
		if (atomic_exchange(&errand->state, LEFT) == RUNS) {
			pthread_detach(errand->thread);
			return -1;
		}
		break;
	}
	pthread_join(errand->thread, NULL);
	return 0;
}

int errand_run(struct errand *errand)
{
	atomic_fetch_add(errand->running, 1);
	if (!is_main_thread() || thread_start(errand))
		run_here(errand);
	else if (thread_await(errand))
		return -1;
	if (!PyErr_Occurred() && !PyErr_CheckSignals())
		return 0;
	undo_here(errand);
	errand_free(errand);
	return -1;
}
