/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Context: all that a process needs. close() ends its services and frees its memory at once, but
 * what somebody looks into: the library's context is closed when the last view of it is gone.
 */
#include "binding.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define CLOSE_MS   1000 /* of a context that nobody has closed */
#define TIMEOUT_MS 5000 /* of sends and calls, if the program names none */
#define AT_ONCE    1024 /* services: so many are registered in the time of one */

PyTypeObject *context_type;

bool context_is_foreign(const struct context *context)
{
	return context->generation != fork_generation;
}

struct ripc_context *context_use(struct context *context)
{
	if (context->ctx && !context->closing)
		return context->ctx;
	return (void *)error_raise(-ESHUTDOWN, 0, "the context is closed");
}

PyThreadState *context_leave_python(struct context *context)
{
	context->busy++;
	return PyEval_SaveThread();
}

void context_enter_python(struct context *context, PyThreadState *state)
{
	PyEval_RestoreThread(state);
	context->busy--;
}

/* ---- opening --------------------------------------------------------------------------- */

static int flag(int wanted, uint32_t bit, struct ripc_config *cfg)
{
	cfg->flags |= wanted ? bit : 0;
	return 0;
}

static int config_read(PyObject *args, PyObject *names, struct ripc_config *cfg)
{
	static char *known[] = {"backends", "peers", "interfaces", "options", "spin_us", "timeout",
		"peer_timeout", "pool_bytes", "message_max_bytes", "interruptible", "no_thread",
		"keys", "copy_given", NULL};
	PyObject *timeout = NULL, *peer_timeout = NULL;
	unsigned long long pool = 0, longest = 0;
	int interruptible = 0, no_thread = 0, copy_given = 0, ms, peer_ms;
	unsigned int spin_us = 0;

	if (!PyArg_ParseTupleAndKeywords(args, names, "|$zzzzIOOKKppzp:Context", known,
			&cfg->backends, &cfg->peers, &cfg->interfaces, &cfg->options, &spin_us,
			&timeout, &peer_timeout, &pool, &longest, &interruptible, &no_thread,
			&cfg->keys, &copy_given))
		return -1;
	if (timeout_read(timeout, 0, &ms) || timeout_read(peer_timeout, 0, &peer_ms))
		return -1;
	cfg->spin_us = spin_us;
	cfg->timeout_ms = (uint32_t)ms;
	cfg->peer_timeout_ms = (uint32_t)peer_ms;
	cfg->pool_bytes = pool;
	cfg->message_max_bytes = longest;
	flag(interruptible, RIPC_INTERRUPTIBLE, cfg);
	flag(copy_given, RIPC_COPY_GIVEN, cfg);
	return flag(no_thread, RIPC_NO_THREAD, cfg);
}

static PyObject *open_failed(struct context *context, int error)
{
	char note[NOTE_LEN];

	memcpy(note, context->log->text, sizeof(note));
	Py_DECREF((PyObject *)context);
	return error_raise(error, 0, note[0] ? note : NULL);
}

static int open_run(struct errand *errand)
{
	return ripc_open(&errand->cfg, &errand->ctx);
}

static void open_undo(struct errand *errand)
{
	if (!errand->result)
		ripc_close(errand->ctx, 0);
}

/* Names of peers are asked for. Takes strings. 1: an exception was raised, context is gone. */
static int open_it(struct context *context, const struct ripc_config *cfg, PyObject *strings)
{
	struct errand *errand = strings ? errand_new((PyObject *)context, &context->errands) : NULL;
	int error = 1;

	if (!errand) {
		Py_XDECREF(strings);
		Py_DECREF((PyObject *)context);
		return 1;
	}
	errand->run = open_run;
	errand->undo = open_undo;
	errand->cfg = *cfg;
	errand->strings = strings;
	if (errand_run(errand)) {
		Py_DECREF((PyObject *)context);
		return 1;
	}
	error = errand->result;
	context->ctx = error ? NULL : errand->ctx;
	errand_end(errand);
	return error;
}

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
	struct ripc_config cfg = {.size = sizeof(cfg), .log = log_line};
	struct context *context;
	int error;

	if (config_read(args, names, &cfg))
		return NULL;
	cfg.log_arg = log_new();
	context = cfg.log_arg ? PyObject_New(struct context, type) : NULL;
	if (!context) {
		log_free(cfg.log_arg);
		return PyErr_NoMemory();
	}
	context->ctx = NULL;
	context->log = cfg.log_arg;
	context->registered = NULL;
	context->busy = 0;
	atomic_init(&context->errands, 0);
	context->closing = context->ending = context->deferred = false;
	context->timeout_ms = cfg.timeout_ms ? (int)cfg.timeout_ms : TIMEOUT_MS;
	context->generation = fork_generation;
	node_init(&context->services);
	node_init(&context->memory);
	error = open_it(context, &cfg, Py_BuildValue("(OO)", args, names ? names : Py_None));
	if (error > 0)
		return NULL;
	if (error)
		return open_failed(context, error);
	log_opened(context->log);
	return (PyObject *)context;
}

/* ---- closing --------------------------------------------------------------------------- */

static bool none(const struct node *list)
{
	return list->next == list;
}

static void registered_free(struct context *context)
{
	while (context->registered) {
		struct registered *registered = context->registered;

		context->registered = registered->next;
		PyBuffer_Release(&registered->view);
		PyMem_Free(registered);
	}
}

/* Nothing of its memory is used any more. */
static int close_now(struct context *context, int timeout_ms)
{
	struct ripc_context *ctx = context->ctx;
	PyThreadState *state;
	int error;

	context->ctx = NULL;
	context->deferred = false;
	state = PyEval_SaveThread();
	error = ripc_close(ctx, timeout_ms);
	PyEval_RestoreThread(state);
	registered_free(context);
	return error;
}

void context_memory_gone(struct context *context, struct memory *memory)
{
	node_remove(&memory->node);
	if (context->deferred && none(&context->memory))
		close_now(context, 0);
}

static void memory_free(struct memory *memory)
{
	if (Py_TYPE((PyObject *)memory) == buffer_type)
		buffer_free((struct buffer *)memory);
	else
		message_free((struct message *)memory);
}

static void memory_end(struct context *context)
{
	struct node *node = context->memory.next;

	while (node != &context->memory) {
		struct memory *memory = container_of(node, struct memory, node);

		node = node->next;
		if (memory->exports == 0)
			memory_free(memory);
	}
}

/* -1: a signal's handler has raised an exception. */
static int wait_until_left(struct context *context)
{
	while (context->busy || atomic_load(&context->errands)) {
		pause_ms(1);
		if (PyErr_CheckSignals())
			return -1;
	}
	return 0;
}

static struct service *one_that_sends(const struct context *context)
{
	struct node *node = context->services.next;

	for (; node != &context->services; node = node->next) {
		struct service *service = container_of(node, struct service, node);

		if (service_is_sending(service))
			return service;
	}
	return NULL;
}

/* 0: sends have ended, or the time has; -1: a signal's handler has raised an exception. */
static int wait_until_sent(struct context *context, int64_t until_ms)
{
	struct service *service;
	int error = 0;

	while (!error && left_ms(until_ms) && (service = one_that_sends(context))) {
		Py_INCREF((PyObject *)service);
		error = service_drop_one(service, until_ms);
		Py_DECREF((PyObject *)service);
	}
	return error;
}

/* 1: an exception was raised; close() can be called again, and goes on. */
static int end(struct context *context, int timeout_ms)
{
	bool all_sent;
	int error = 0;

	context->closing = true;
	if (wait_until_sent(context, now_ms() + timeout_ms))
		return 1;
	all_sent = !one_that_sends(context);
	while (!none(&context->services))
		service_end(container_of(context->services.next, struct service, node));
	if (wait_until_left(context))
		return 1;
	if (context->ending)
		return 0; /* by another thread */
	context->ending = true;
	memory_end(context);
	if (none(&context->memory))
		error = close_now(context, timeout_ms);
	else
		context->deferred = true;
	return error || all_sent ? error : -ETIMEDOUT;
}

/* As end(); 0, too: it was closed before. */
static int close_once(struct context *context, int timeout_ms)
{
	if (!context->ctx || context->ending || context_is_foreign(context))
		return 0;
	return end(context, timeout_ms);
}

static PyObject *context_close(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	int timeout_ms, error;

	if (n > 1) {
		PyErr_SetString(PyExc_TypeError, "close() takes only a timeout");
		return NULL;
	}
	if (timeout_read(n ? args[0] : NULL, CLOSE_MS, &timeout_ms))
		return NULL;
	error = close_once((struct context *)self, timeout_ms);
	return error > 0 ? NULL : error_or_none(error);
}

/* The error of cut-off sends must not hide the exception that has ended the block. */
static PyObject *context_leave(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	int error = close_once((struct context *)self, CLOSE_MS);

	(void)args;
	(void)n;
	return error > 0 ? NULL : error_or_none(error == -ETIMEDOUT ? 0 : error);
}

static PyObject *context_enter(PyObject *self, PyObject *unused)
{
	(void)unused;
	Py_INCREF(self);
	return self;
}

/* Neither a service nor a message refers to it any more. */
static void context_dealloc(PyObject *self)
{
	struct context *context = (struct context *)self;
	PyTypeObject *type = Py_TYPE(self);

	if (context->ctx && !context_is_foreign(context))
		close_now(context, CLOSE_MS);
	registered_free(context);
	log_free(context->log);
	PyObject_Free(self);
	Py_DECREF(type);
}

/* ---- services -------------------------------------------------------------------------- */

static int services_run(struct errand *errand)
{
	return ripc_services_open(errand->ctx, errand->ids, errand->n, 0, errand->svcs);
}

static void services_undo(struct errand *errand)
{
	for (size_t i = 0; errand->result > 0 && i < errand->n; i++)
		if (errand->svcs[i])
			ripc_service_close(errand->svcs[i]);
}

static int service_run(struct errand *errand)
{
	int error = ripc_service_open(errand->ctx, errand->id, 0, errand->svcs);

	return error ? error : 1;
}

/* Registers n services, or (ids NULL) the one of this id. NULL: an exception was raised. */
static struct errand *register_some(struct context *context, uint64_t id, const uint64_t *ids,
		size_t n)
{
	struct errand *errand = context_use(context) ?
		errand_new((PyObject *)context, &context->errands) : NULL;

	if (!errand)
		return NULL;
	errand->run = ids ? services_run : service_run;
	errand->undo = services_undo;
	errand->ctx = context->ctx;
	errand->id = id;
	errand->n = n;
	errand->svcs = PyMem_Calloc(n, sizeof(struct ripc_service *));
	errand->ids = PyMem_Calloc(n, sizeof(*ids));
	if (!errand->svcs || !errand->ids) {
		errand_end(errand);
		return (void *)PyErr_NoMemory();
	}
	if (ids)
		memcpy(errand->ids, ids, n * sizeof(*ids));
	return errand_run(errand) ? NULL : errand;
}

static PyObject *context_service(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	struct context *context = (struct context *)self;
	struct ripc_service *svc;
	struct errand *errand;
	uint64_t id = 0;
	int result;

	if (n > 0 && args[0] != Py_None && id_read(args[0], &id))
		return NULL;
	errand = register_some(context, id, NULL, 1);
	if (!errand)
		return NULL;
	result = errand->result;
	svc = errand->svcs[0];
	errand_end(errand);
	if (result < 0)
		return error_raise(result, 0, NULL);
	return context_use(context) ? service_new(context, svc) : NULL;
}

static int ids_read(PyObject *names, uint64_t *ids, Py_ssize_t n)
{
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *name = PySequence_GetItem(names, i);
		int error = name ? id_read(name, &ids[i]) : -1;

		Py_XDECREF(name);
		if (error)
			return -1;
	}
	return 0;
}

/* Appends the services, or None where one was not registered. */
static int services_append(struct context *context, PyObject *list, struct errand *errand)
{
	for (size_t i = 0; i < errand->n; i++) {
		PyObject *service = Py_None;
		int error;

		if (errand->svcs[i])
			service = service_new(context, errand->svcs[i]);
		else
			Py_INCREF((PyObject *)service);
		error = service ? PyList_Append(list, service) : -1;
		Py_XDECREF(service);
		if (error)
			return -1; /* the other members end with the context */
	}
	return 0;
}

/* Returns how many were registered; or the error of the last ones; INT_MIN: an exception. */
static int services_open_some(struct context *context, const uint64_t *ids, size_t n,
		PyObject *list)
{
	struct errand *errand = register_some(context, 0, ids, n);
	int result = errand ? errand->result : INT_MIN;

	if (errand && (!context_use(context) || services_append(context, list, errand)))
		result = INT_MIN;
	if (errand)
		errand_end(errand);
	return result;
}

static PyObject *services_open_all(struct context *context, const uint64_t *ids, size_t n)
{
	PyObject *list = PyList_New(0);
	int error = 0;
	bool any = false;

	for (size_t at = 0; list && at < n; at += AT_ONCE) {
		size_t some = n - at < AT_ONCE ? n - at : AT_ONCE;
		int result = services_open_some(context, ids + at, some, list);

		any |= result > 0;
		error = result < 0 ? result : error;
		if (result == INT_MIN)
			Py_CLEAR(list);
	}
	if (list && !any && error) {
		Py_CLEAR(list);
		error_raise(error, 0, NULL);
	}
	return list;
}

static PyObject *services_open(struct context *context, PyObject *names, Py_ssize_t n)
{
	uint64_t *ids = PyMem_Calloc((size_t)n + 1, sizeof(*ids));
	PyObject *list = NULL;

	if (!ids)
		PyErr_NoMemory();
	else if (!ids_read(names, ids, n))
		list = services_open_all(context, ids, (size_t)n);
	PyMem_Free(ids);
	return list;
}

static PyObject *context_services(PyObject *self, PyObject *names)
{
	struct context *context = (struct context *)self;
	Py_ssize_t n = PySequence_Size(names);

	if (n < 0)
		return NULL;
	return n ? services_open(context, names, n) : PyList_New(0);
}

typedef int finder(struct ripc_context *ctx, uint64_t id, int timeout_ms);

/* In slices, after each of which the search goes on. 1: an exception was raised. */
static int find_by(struct context *context, uint64_t id, int timeout_ms, finder *how)
{
	int64_t until_ms = now_ms() + timeout_ms;
	bool nobody = false, more = true;
	int error = 0;

	while (more) {
		int wait_ms = left_ms(until_ms);
		PyThreadState *state = context_leave_python(context);

		error = how(context->ctx, id, wait_ms < SLICE_MS ? wait_ms : SLICE_MS);
		context_enter_python(context, state);
		nobody |= error == -ENOENT;
		if (PyErr_CheckSignals() || !context_use(context))
			return 1;
		more = left_ms(until_ms) && (error == -ETIMEDOUT || error == -EINTR ||
			error == -EACCES || (error == -ENOENT && how == ripc_await));
	}
	if (error == -ETIMEDOUT || error == -EINTR)
		return nobody ? -ENOENT : -ETIMEDOUT;
	return error;
}

/* The common part of ripc_resolve() and ripc_await(). */
static PyObject *find(PyObject *self, PyObject *const *args, Py_ssize_t n, finder *how)
{
	struct context *context = (struct context *)self;
	int timeout_ms, error;
	uint64_t id;

	if (n < 1 || n > 2) {
		PyErr_SetString(PyExc_TypeError, "a service and optionally a timeout are needed");
		return NULL;
	}
	if (id_read(args[0], &id) || timeout_read(n > 1 ? args[1] : NULL, 5000, &timeout_ms) ||
			!context_use(context))
		return NULL;
	error = find_by(context, id, timeout_ms, how);
	return error > 0 ? NULL : error_or_none(error);
}

static PyObject *context_resolve(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	return find(self, args, n, ripc_resolve);
}

static PyObject *context_wait_for(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	return find(self, args, n, ripc_await);
}

/* ---- memory ---------------------------------------------------------------------------- */

static PyObject *context_buffer(PyObject *self, PyObject *len)
{
	struct context *context = (struct context *)self;
	Py_ssize_t wanted = PyLong_AsSsize_t(len);

	if (wanted < 0) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_ValueError, "the length of a buffer must not be "
				"negative");
		return NULL;
	}
	return context_use(context) ? buffer_new(context, wanted) : NULL;
}

static PyObject *context_register(PyObject *self, PyObject *object)
{
	struct context *context = (struct context *)self;
	struct registered *made = PyMem_Calloc(1, sizeof(*made));
	struct ripc_context *ctx;
	int error;

	if (!made)
		return PyErr_NoMemory();
	if (PyObject_GetBuffer(object, &made->view, PyBUF_WRITABLE)) {
		PyMem_Free(made);
		return NULL;
	}
	ctx = context_use(context);
	error = ctx ? ripc_buf_register(ctx, made->view.buf, (size_t)made->view.len) : 0;
	if (!ctx || error) {
		PyBuffer_Release(&made->view);
		PyMem_Free(made);
		return ctx ? error_raise(error, 0, NULL) : NULL;
	}
	made->next = context->registered;
	context->registered = made;
	Py_RETURN_NONE;
}

/* The registration that begins at the same address. */
static struct registered *registered_take(struct context *context, const void *mem)
{
	for (struct registered **at = &context->registered; *at; at = &(*at)->next) {
		struct registered *found = *at;

		if (found->view.buf != mem)
			continue;
		*at = found->next;
		return found;
	}
	return NULL;
}

static PyObject *context_unregister(PyObject *self, PyObject *object)
{
	struct context *context = (struct context *)self;
	struct ripc_context *ctx;
	struct registered *found;
	Py_buffer view;
	const void *mem;
	int error;

	if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE))
		return NULL;
	mem = view.buf;
	PyBuffer_Release(&view);
	ctx = context_use(context);
	if (!ctx)
		return NULL;
	found = registered_take(context, mem);
	if (!found)
		return error_raise(-ENOENT, 0, "this memory is not registered");
	error = ripc_buf_unregister(ctx, found->view.buf);
	PyBuffer_Release(&found->view);
	PyMem_Free(found);
	return error_or_none(error);
}

/* ---- keys ------------------------------------------------------------------------------ */

static PyObject *context_reload_keys(PyObject *self, PyObject *unused)
{
	struct context *context = (struct context *)self;
	struct ripc_context *ctx = context_use(context);
	PyThreadState *state;
	int error;

	(void)unused;
	if (!ctx)
		return NULL;
	state = context_leave_python(context);
	error = ripc_keys_reload(ctx);
	context_enter_python(context, state);
	return error_or_none(error);
}

/* ---- event loops without the library's thread ------------------------------------------ */

static PyObject *context_poll(PyObject *self, PyObject *unused)
{
	struct ripc_context *ctx = context_use((struct context *)self);
	int n = ctx ? ripc_poll(ctx) : 0;

	(void)unused;
	if (!ctx)
		return NULL;
	return n < 0 ? error_raise(n, 0, NULL) : PyLong_FromLong(n);
}

static PyObject *context_poll_timeout(PyObject *self, PyObject *unused)
{
	struct ripc_context *ctx = context_use((struct context *)self);
	int64_t us = ctx ? ripc_poll_timeout(ctx) : -1;

	(void)unused;
	if (!ctx)
		return NULL;
	if (us < 0)
		Py_RETURN_NONE;
	return PyFloat_FromDouble((double)us / 1e6);
}

static PyObject *context_fd(PyObject *self, PyObject *unused)
{
	struct ripc_context *ctx = context_use((struct context *)self);
	int fd = ctx ? ripc_context_fd(ctx) : -1;

	(void)unused;
	if (!ctx)
		return NULL;
	return fd < 0 ? error_raise(fd, 0, NULL) : PyLong_FromLong(fd);
}

static PyObject *context_closed(PyObject *self, void *unused)
{
	struct context *context = (struct context *)self;

	(void)unused;
	return PyBool_FromLong(!context->ctx || context->closing);
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
	{"service", FAST(context_service), METH_FASTCALL,
		"service(id=None)\n--\n\nRegister a service; None: with a random private ID."},
	{"services", context_services, METH_O,
		"services(ids)\n--\n\nRegister many services at once; None in the list for each "
		"failure."},
	{"resolve", FAST(context_resolve), METH_FASTCALL,
		"resolve(id, timeout=5.0)\n--\n\nFind a service before the first send."},
	{"wait_for", FAST(context_wait_for), METH_FASTCALL,
		"wait_for(id, timeout=5.0)\n--\n\nWait until a service has the ID."},
	{"list", context_list, METH_O,
		"list(timeout)\n--\n\nSearch for services for this number of seconds."},
	{"buffer", context_buffer, METH_O,
		"buffer(len)\n--\n\nAllocate memory from the pool, which is sent without a copy."},
	{"register", context_register, METH_O,
		"register(memory)\n--\n\nRegister memory of the program for sends without a copy."},
	{"unregister", context_unregister, METH_O, "unregister(memory)\n--\n\nEnd the registration "
		"of memory."},
	{"stats", context_stats, METH_NOARGS, "stats()\n--\n\nThe counters, by their names in C."},
	{"holders", context_holders, METH_NOARGS,
		"holders()\n--\n\nThe partners that hold transferred memory."},
	{"log", context_log, METH_NOARGS,
		"log()\n--\n\nThe last errors (0) and warnings (1), once: [(level, text), ...]."},
	{"reload_keys", context_reload_keys, METH_NOARGS,
		"reload_keys()\n--\n\nRead the directory of keys again, now."},
	{"poll", context_poll, METH_NOARGS, "poll()\n--\n\nDo all work that is due."},
	{"poll_timeout", context_poll_timeout, METH_NOARGS,
		"poll_timeout()\n--\n\nSeconds until poll() is due; None: no timer."},
	{"fd", context_fd, METH_NOARGS,
		"fd()\n--\n\nA descriptor that is readable when poll() has work to do."},
	{"close", FAST(context_close), METH_FASTCALL,
		"close(timeout=1.0)\n--\n\nClose all services, and the context as soon as no view "
		"of its memory is in use."},
	{"__enter__", context_enter, METH_NOARGS, NULL},
	{"__exit__", FAST(context_leave), METH_FASTCALL, NULL},
	{0},
};

static PyGetSetDef properties[] = {
	{"closed", context_closed, NULL, "Whether close() was called.", NULL},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_new, context_new},
	{Py_tp_dealloc, context_dealloc},
	{Py_tp_methods, methods},
	{Py_tp_getset, properties},
	{Py_tp_doc, "The library's state of a process; usually one per process."},
	{0},
};

PyType_Spec context_spec = {
	.name = "ripc.Context",
	.basicsize = sizeof(struct context),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};
