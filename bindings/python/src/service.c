/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Service: one registered ID. Here is its life, and receiving.
 *
 * Design notes. Threads that wait when close() begins are woken, and their sends are cancelled, so
 * that they can report the outcome; operations that have not ended a little later end with the
 * service. A message that comes together with a signal whose handler raises is kept for the next
 * receive(). Then fd() must be readable, of which the library knows nothing: fd() is an epoll of
 * the library's descriptor, an eventfd, which can always be written to. While a message is kept,
 * the epoll waits for that, too.
 */
#include "binding.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define TRY_EVERY   8   /* of the receives that wait, one looks with the GIL before */
#define YIELD_EVERY 8   /* of the looks of look(): others may need our processor */
#define POLITELY_MS 250 /* for which close() lets others end by themselves */
#define DROP_MS     20  /* for which service_drop_one() waits: sends of other threads may end */

PyTypeObject *service_type;

struct ripc_service *service_use(struct service *service)
{
	if (service->svc && !service->closing)
		return service->svc;
	return (void *)error_raise(-ESHUTDOWN, 0, "the service is closed");
}

PyThreadState *service_leave_python(struct service *service)
{
	service->busy++;
	return PyEval_SaveThread();
}

void service_enter_python(struct service *service, PyThreadState *state)
{
	PyEval_RestoreThread(state);
	service->busy--;
}

/* ---- life ------------------------------------------------------------------------------ */

PyObject *service_new(struct context *context, struct ripc_service *svc)
{
	struct service *service = PyObject_GC_New(struct service, service_type);

	if (!service && context->ctx)
		ripc_service_close(svc);
	if (!service)
		return NULL;
	service->svc = svc;
	service->holds = (struct holds){0};
	service->busy = service->wakes = service->n_left = 0;
	atomic_init(&service->errands, 0);
	service->kept = NULL;
	service->fd = service->library_fd = -1;
	service->told = false;
	service->tries = 0;
	service->closing = service->often = false;
	service->to = service->from = (struct known){0};
	service->spare = NULL;
	service->context = context;
	Py_INCREF((PyObject *)context);
	node_append(&context->services, &service->node);
	PyObject_GC_Track((PyObject *)service);
	return (PyObject *)service;
}

static void cancel_all(struct service *service)
{
	for (uint32_t i = 0; i < service->holds.n; i++) {
		const struct hold *hold = &service->holds.table[i];

		if (hold->kind == HOLD_SEND || hold->kind == HOLD_CALL)
			ripc_cancel(service->svc, hold_cookie(&service->holds, i));
	}
}

/* Other threads are in its calls, and may be about to enter the library. */
static void drive_out(struct service *service)
{
	int64_t until_ms = now_ms() + POLITELY_MS;

	while (service->busy && left_ms(until_ms)) {
		ripc_wake(service->svc);
		cancel_all(service);
		pause_ms(1);
	}
}

/* The descriptor is readable while a message is kept. */
static void kept_tell(struct service *service)
{
	struct epoll_event event = {.events = service->kept ? EPOLLIN | EPOLLOUT : EPOLLIN};

	if (service->fd >= 0 && service->told == !service->kept)
		service->told = epoll_ctl(service->fd, EPOLL_CTL_MOD, service->library_fd,
			&event) == 0 && service->kept;
}

static bool take_kept(struct service *service, struct ripc_msg **msg)
{
	*msg = service->kept;
	service->kept = NULL;
	if (service->told)
		kept_tell(service);
	return *msg != NULL;
}

void service_end(struct service *service)
{
	struct ripc_service *svc;
	struct ripc_msg *kept;
	PyThreadState *state;

	if (!service->svc || service->closing)
		return;
	service->closing = true;
	node_remove(&service->node);
	if (!context_is_foreign(service->context)) {
		service->context->busy++;
		drive_out(service);
		svc = service->svc;
		service->svc = NULL;
		(void)take_kept(service, &kept);
		state = PyEval_SaveThread();
		ripc_msg_free(kept);
		ripc_service_close(svc);
		if (service->fd >= 0)
			close(service->fd);
		PyEval_RestoreThread(state);
		while (service->busy || atomic_load(&service->errands))
			pause_ms(1); /* threads find the service closed */
		service->context->busy--;
	}
	service->svc = NULL;
	holds_clear(&service->holds);
}

static PyObject *service_close(PyObject *self, PyObject *unused)
{
	(void)unused;
	service_end((struct service *)self);
	Py_RETURN_NONE;
}

static PyObject *service_enter(PyObject *self, PyObject *unused)
{
	(void)unused;
	Py_INCREF(self);
	return self;
}

static PyObject *service_leave(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	(void)args;
	(void)n;
	return service_close(self, NULL);
}

static int service_traverse(PyObject *self, visitproc visit, void *arg)
{
	struct service *service = (struct service *)self;

	Py_VISIT(Py_TYPE(self));
	Py_VISIT((PyObject *)service->context);
	return holds_visit(&service->holds, visit, arg);
}

static int service_clear(PyObject *self)
{
	service_end((struct service *)self);
	return 0;
}

static void service_dealloc(PyObject *self)
{
	struct service *service = (struct service *)self;
	PyTypeObject *type = Py_TYPE(self);

	PyObject_GC_UnTrack(self);
	service_end(service);
	Py_XDECREF(service->to.object);
	Py_XDECREF(service->from.object);
	PyObject_Free(service->spare);
	Py_DECREF((PyObject *)service->context);
	PyObject_GC_Del(self);
	Py_DECREF(type);
}

/* ---- receiving ------------------------------------------------------------------------- */

static int wait_once(struct service *service, int timeout_ms, struct ripc_msg **msg)
{
	struct ripc_service *svc = service->svc;
	int wait_ms = slice_ms(timeout_ms), error;
	PyThreadState *state = service_leave_python(service);

	error = ripc_receive(svc, wait_ms, msg);
	service_enter_python(service, state);
	return error;
}

/* What to do about an error of wait_once(): 0 to wait on; else -1, and an exception was raised. */
static int interrupted(struct service *service, int error, bool in_time)
{
	if (service->closing || !service->svc) {
		service_use(service);
		return -1;
	}
	if (PyErr_CheckSignals())
		return -1;
	if (error == -EINTR && service->wakes == 0)
		return 0; /* a signal, and its handler wants us to go on */
	if (error == -EINTR)
		service->wakes--;
	if (error == -ETIMEDOUT && in_time)
		return 0;
	error_raise(error, 0, NULL);
	return -1;
}

/*
 * A message has come. It is kept while the handlers of signals run, which may receive it, or wait
 * and keep another one. 1; 0: a handler has taken it; -1: one has raised an exception.
 */
static int take_unless_interrupted(struct service *service, struct ripc_msg **msg)
{
	if (!is_main_thread())
		return 1;
	service->kept = *msg;
	if (!PyErr_CheckSignals())
		return take_kept(service, msg);
	if ((!service->svc || service->closing) && take_kept(service, msg))
		ripc_msg_free(*msg);
	kept_tell(service);
	return -1;
}

/* 0, or -1 and an exception was raised. */
static int wait_for(struct service *service, int timeout_ms, struct ripc_msg **msg)
{
	int64_t until_ms = timeout_ms > 0 ? now_ms() + timeout_ms : 0;
	int wait_ms = timeout_ms;

	for (;;) {
		bool in_time = true;
		int error, taken;

		if (take_kept(service, msg))
			return 0; /* a handler's receive() has left it */
		error = wait_once(service, wait_ms, msg);
		taken = error ? 0 : take_unless_interrupted(service, msg);
		if (taken)
			return taken < 0 ? -1 : 0;
		error = error ? error : -EAGAIN;
		if (timeout_ms > 0) {
			wait_ms = left_ms(until_ms);
			in_time = wait_ms > 0;
		}
		if (interrupted(service, error == -EAGAIN ? -ETIMEDOUT : error, in_time))
			return -1;
	}
}

/* First with the GIL, where something was there the last time. 0, or -1 and an exception. */
static int receive(struct service *service, int timeout_ms, struct ripc_msg **msg)
{
	int error = -EAGAIN;

	if (take_kept(service, msg))
		return 0;
	if (service->often || timeout_ms == 0 || ++service->tries % TRY_EVERY == 0)
		error = ripc_receive(service->svc, 0, msg);
	service->often = error == 0;
	if (!error)
		return 0;
	if (error == -EAGAIN && timeout_ms != 0)
		return wait_for(service, timeout_ms, msg);
	error_raise(error, 0, NULL);
	return -1;
}

static PyObject *receive_message(struct service *service, int timeout_ms)
{
	struct ripc_msg *msg;

	if (service->n_left)
		ends_collect(service);
	if (!service_use(service) || receive(service, timeout_ms, &msg))
		return NULL;
	return message_new(service, msg);
}

static PyObject *service_receive(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	int timeout_ms;

	if (n > 1) {
		PyErr_SetString(PyExc_TypeError, "receive() takes only a timeout");
		return NULL;
	}
	if (timeout_read(n ? args[0] : NULL, -1, &timeout_ms))
		return NULL;
	return receive_message((struct service *)self, timeout_ms);
}

static int look_for(struct service *service, int64_t us, struct ripc_msg **msg)
{
	struct ripc_service *svc = service->svc;
	PyThreadState *state = service_leave_python(service);
	struct timespec now;
	int64_t until_ns;
	uint32_t looks = 0;
	int error;

	clock_gettime(CLOCK_MONOTONIC, &now);
	until_ns = now.tv_sec * 1000000000LL + now.tv_nsec + us * 1000;
	do {
		if (++looks % YIELD_EVERY == 0)
			sched_yield();
		error = ripc_receive(svc, 0, msg);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (error == -EAGAIN && now.tv_sec * 1000000000LL + now.tv_nsec < until_ns);
	service_enter_python(service, state);
	return error;
}

static PyObject *service_look(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	struct service *service = (struct service *)self;
	long long us = n > 0 ? PyLong_AsLongLong(args[0]) : 0;
	struct ripc_msg *msg;
	int error;

	if (us < 0 || us > 1000000) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_ValueError, "look() takes 0 to 1,000,000 us");
		return NULL;
	}
	if (!service_use(service))
		return NULL;
	error = take_kept(service, &msg) ? 0 : ripc_receive(service->svc, 0, &msg);
	while (error == -EAGAIN && us > 0) {
		int taken;

		error = look_for(service, us < SLICE_MS * 1000 ? us : SLICE_MS * 1000, &msg);
		us -= SLICE_MS * 1000;
		taken = error ? 0 : take_unless_interrupted(service, &msg);
		if (taken < 0)
			return NULL;
		if (taken)
			break;
		if (PyErr_CheckSignals() || !service_use(service))
			return NULL;
		error = take_kept(service, &msg) ? 0 : error ? error : -EAGAIN;
	}
	if (error == -EAGAIN)
		Py_RETURN_NONE;
	return error ? error_raise(error, 0, NULL) : message_new(service, msg);
}

static PyObject *service_next(PyObject *self)
{
	PyObject *message = receive_message((struct service *)self, -1);

	if (!message)
		errors_end_iteration();
	return message;
}

/* ---- the end of sends ------------------------------------------------------------------ */

bool service_is_sending(const struct service *service)
{
	for (uint32_t i = 0; i < service->holds.n; i++) {
		const struct hold *hold = &service->holds.table[i];

		if (hold->kind == HOLD_SEND && hold->n_items)
			return true;
	}
	return false;
}

int service_drop_one(struct service *service, int64_t until_ms)
{
	int wait_ms = left_ms(until_ms);
	PyObject *message;
	struct ripc_msg *msg;
	int error = 0;

	if (service->n_left)
		ends_collect(service);
	if (!take_kept(service, &msg))
		error = wait_once(service, wait_ms < DROP_MS ? wait_ms : DROP_MS, &msg);
	if (error && error != -ETIMEDOUT)
		pause_ms(1); /* the service is drained, for instance, and does not wait */
	message = error ? NULL : message_new(service, msg);
	if (!error && !message)
		return -1;
	Py_XDECREF(message);
	return PyErr_CheckSignals();
}

/* ---- the rest -------------------------------------------------------------------------- */

static PyObject *service_wake(PyObject *self, PyObject *unused)
{
	struct service *service = (struct service *)self;

	(void)unused;
	if (!service_use(service))
		return NULL;
	service->wakes++;
	ripc_wake(service->svc);
	Py_RETURN_NONE;
}

/* A signal that a thread other than the main one handles does not end it. */
static int drain(struct errand *errand)
{
	int64_t until_ms = now_ms() + errand->timeout_ms;
	int error = ripc_service_drain(errand->svc, errand->timeout_ms);

	while (error == -EINTR)
		error = ripc_service_drain(errand->svc, left_ms(until_ms));
	return error;
}

static PyObject *service_drain(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	struct service *service = (struct service *)self;
	struct errand *errand;
	int timeout_ms, error;

	if (timeout_read(n > 0 ? args[0] : NULL, 1000, &timeout_ms) || !service_use(service))
		return NULL;
	errand = errand_new(self, &service->errands);
	if (!errand)
		return NULL;
	errand->run = drain;
	errand->svc = service->svc;
	errand->timeout_ms = timeout_ms;
	if (errand_run(errand))
		return NULL;
	error = errand->result;
	errand_end(errand);
	return error_or_none(error);
}

static int ping(struct errand *errand)
{
	return ripc_ping(errand->svc, errand->id, errand->timeout_ms, &errand->rtt_ns);
}

/* Its result; 1: an exception was raised. */
static int ping_once(struct service *service, uint64_t id, int timeout_ms, uint64_t *rtt_ns)
{
	struct errand *errand = service_use(service) ?
		errand_new((PyObject *)service, &service->errands) : NULL;
	int error;

	if (!errand)
		return 1;
	errand->run = ping;
	errand->svc = service->svc;
	errand->id = id;
	errand->timeout_ms = timeout_ms;
	if (errand_run(errand))
		return 1;
	error = errand->result;
	*rtt_ns = errand->rtt_ns;
	errand_end(errand);
	return error;
}

static PyObject *service_ping(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	struct service *service = (struct service *)self;
	int timeout_ms, error;
	uint64_t id, rtt_ns = 0;
	int64_t until_ms;

	if (n < 1 || n > 2) {
		PyErr_SetString(PyExc_TypeError, "ping() takes a service and a timeout");
		return NULL;
	}
	if (id_read(args[0], &id) || timeout_read(n > 1 ? args[1] : NULL, 5000, &timeout_ms))
		return NULL;
	until_ms = now_ms() + timeout_ms;
	do /* a signal, or a wake() that meant another call, does not end it */
		error = ping_once(service, id, left_ms(until_ms), &rtt_ns);
	while (error == -EINTR && !service->wakes && left_ms(until_ms));
	if (error > 0)
		return NULL;
	if (error == -EINTR && service->wakes)
		service->wakes--;
	return error ? error_raise(error, 0, NULL) : PyFloat_FromDouble((double)rtt_ns / 1e9);
}

/* 0, or a negative errno. */
static int fd_open(struct service *service)
{
	struct epoll_event event = {.events = EPOLLIN};
	int library_fd = ripc_service_fd(service->svc), error, fd;

	if (library_fd < 0)
		return library_fd;
	fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (epoll_ctl(fd, EPOLL_CTL_ADD, library_fd, &event)) {
		error = -errno;
		close(fd);
		return error;
	}
	service->fd = fd;
	service->library_fd = library_fd;
	kept_tell(service);
	return 0;
}

static PyObject *service_fd(PyObject *self, PyObject *unused)
{
	struct service *service = (struct service *)self;
	int error;

	(void)unused;
	if (!service_use(service))
		return NULL;
	error = service->fd < 0 ? fd_open(service) : 0;
	return error ? error_raise(error, 0, NULL) : PyLong_FromLong(service->fd);
}

static PyObject *service_id(PyObject *self, void *unused)
{
	struct ripc_service *svc = service_use((struct service *)self);

	(void)unused;
	return svc ? PyLong_FromUnsignedLongLong(ripc_service_id(svc)) : NULL;
}

static PyObject *service_incarnation(PyObject *self, void *unused)
{
	struct ripc_service *svc = service_use((struct service *)self);

	(void)unused;
	return svc ? PyLong_FromUnsignedLongLong(ripc_service_incarnation(svc)) : NULL;
}

static PyObject *service_closed(PyObject *self, void *unused)
{
	struct service *service = (struct service *)self;

	(void)unused;
	return PyBool_FromLong(!service->svc || service->closing);
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
	{"send_short", FAST(service_send_short), METH_FASTCALL,
		"send_short(to, data)\n--\n\nSend one datagram, which may get lost. Never waits."},
	{"send_long", FAST(service_send_long), METH_FASTCALL | METH_KEYWORDS,
		"send_long(to, data, timeout=None, *, give=False, ordered=False, wait=False)\n--\n"
		"\nSend a message whole and once, and wait until it was delivered."},
	{"send", FAST(service_send), METH_FASTCALL | METH_KEYWORDS,
		"send(to, data, timeout=None, *, short=False, nowait=False, give=False, "
		"ordered=False, wait=False, leave_slow=False, returns=None, reply_to=0, "
		"to_incarnation=0, to_handle=0, cookie=None)\n--\n\nSend with all options."},
	{"cancel", service_cancel, METH_O,
		"cancel(cookie)\n--\n\nEnd the sends and calls of this cookie, and take back its "
		"return buffers."},
	{"call", FAST(service_call), METH_FASTCALL | METH_KEYWORDS,
		"call(to, data, timeout=None, *, idempotent=False, returns=None, "
		"to_incarnation=0, give=False)\n--\n\nSend a request, and wait for the reply."},
	{"call_start", FAST(service_call_start), METH_FASTCALL | METH_KEYWORDS,
		"call_start(to, data, timeout=None, *, idempotent=False, returns=None, "
		"to_incarnation=0, give=False, cookie=None)\n--\n\nSend a request; a REPLY "
		"follows."},
	{"reply", FAST(service_reply), METH_FASTCALL | METH_KEYWORDS,
		"reply(request, data=b'', give=False)\n--\n\nReply. Never waits."},
	{"reply_error", FAST(service_reply_error), METH_FASTCALL,
		"reply_error(request, errno)\n--\n\nReply with an error."},
	{"receive", FAST(service_receive), METH_FASTCALL,
		"receive(timeout=None)\n--\n\nThe next message; None: wait without limit."},
	{"look", FAST(service_look), METH_FASTCALL,
		"look(us=0)\n--\n\nThe next message, or None if none arrives within us "
		"microseconds."},
	{"watch", FAST(service_watch), METH_FASTCALL,
		"watch(id, cookie=None)\n--\n\nReceive a NOTICE for each change of the owner of "
		"the ID."},
	{"unwatch", service_unwatch, METH_O, "unwatch(id)\n--\n\nEnd the watch of an ID."},
	{"join", service_join, METH_O,
		"join(group)\n--\n\nReceive messages to the group of group_from_name()."},
	{"leave", service_leave_group, METH_O, "leave(group)\n--\n\nEnd the membership in a "
		"group."},
	{"post_window", FAST(service_window_post), METH_FASTCALL,
		"post_window(memory, cookie=None)\n--\n\nPost memory for one item of a message."},
	{"cancel_window", service_window_cancel, METH_O,
		"cancel_window(cookie)\n--\n\nTake windows back."},
	{"wake", service_wake, METH_NOARGS,
		"wake()\n--\n\nEnd one receive() that waits, or the next one, with Interrupted."},
	{"drain", FAST(service_drain), METH_FASTCALL,
		"drain(timeout=1.0)\n--\n\nAccept no new messages; queued messages can be "
		"received."},
	{"ping", FAST(service_ping), METH_FASTCALL,
		"ping(to, timeout=5.0)\n--\n\nThe round trip to the library of a service, in "
		"seconds."},
	{"path", service_path, METH_O, "path(to)\n--\n\nHow messages to a partner travel."},
	{"fd", service_fd, METH_NOARGS,
		"fd()\n--\n\nA descriptor that is readable while messages are queued."},
	{"fileno", service_fd, METH_NOARGS, "fileno()\n--\n\nThe descriptor of fd(), for "
		"select()."},
	{"close", service_close, METH_NOARGS, "close()\n--\n\nEnd the service."},
	{"__enter__", service_enter, METH_NOARGS, NULL},
	{"__exit__", FAST(service_leave), METH_FASTCALL, NULL},
	{0},
};

static PyMemberDef members[] = {
	{"context", T_OBJECT, offsetof(struct service, context), READONLY, "The Context of the "
		"service."},
	{0},
};

static PyGetSetDef properties[] = {
	{"id", service_id, NULL, "The ID of the service.", NULL},
	{"incarnation", service_incarnation, NULL, "The incarnation of the service.", NULL},
	{"closed", service_closed, NULL, "Whether the service was closed.", NULL},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_dealloc, service_dealloc},
	{Py_tp_traverse, service_traverse},
	{Py_tp_clear, service_clear},
	{Py_tp_iter, PyObject_SelfIter},
	{Py_tp_iternext, service_next},
	{Py_tp_methods, methods},
	{Py_tp_members, members},
	{Py_tp_getset, properties},
	{Py_tp_doc, "One registered ID, which sends and receives."},
	{0},
};

PyType_Spec service_spec = {
	.name = "ripc.Service",
	.basicsize = sizeof(struct service),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
