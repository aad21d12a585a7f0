/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Context: all that a process needs. close() ends its services and frees its memory at once, but
 * what somebody looks into: the library's context is closed when the last view of it is gone.
 */
#include "binding.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define CLOSE_MS 1000 /* of a context that nobody has closed */

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

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
	struct ripc_config cfg = {.size = sizeof(cfg), .log = log_line};
	struct ripc_context *ctx = NULL;
	struct context *context;
	PyThreadState *state;
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
	context->closing = context->deferred = false;
	context->generation = fork_generation;
	node_init(&context->services);
	node_init(&context->memory);
	state = PyEval_SaveThread(); /* names of peers are asked for */
	error = ripc_open(&cfg, &ctx);
	PyEval_RestoreThread(state);
	if (error)
		return open_failed(context, error);
	log_opened(context->log);
	context->ctx = ctx;
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

static void wait_until_left(struct context *context)
{
	const struct timespec briefly = {.tv_nsec = 1000000};

	while (context->busy) {
		PyThreadState *state = PyEval_SaveThread();

		nanosleep(&briefly, NULL);
		PyEval_RestoreThread(state);
	}
}

static int end(struct context *context, int timeout_ms)
{
	context->closing = true;
	while (!none(&context->services))
		service_end(container_of(context->services.next, struct service, node));
	wait_until_left(context);
	memory_end(context);
	if (none(&context->memory))
		return close_now(context, timeout_ms);
	context->deferred = true;
	return 0;
}

static PyObject *context_close(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	struct context *context = (struct context *)self;
	int timeout_ms;

	if (n > 1) {
		PyErr_SetString(PyExc_TypeError, "close() takes a timeout, and no more");
		return NULL;
	}
	if (timeout_read(n ? args[0] : NULL, CLOSE_MS, &timeout_ms))
		return NULL;
	if (!context->ctx || context->closing || context_is_foreign(context))
		Py_RETURN_NONE;
	return error_or_none(end(context, timeout_ms));
}

static PyObject *context_leave(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	(void)args;
	(void)n;
	return context_close(self, NULL, 0);
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

static PyObject *context_service(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	struct context *context = (struct context *)self;
	struct ripc_context *ctx;
	struct ripc_service *svc;
	PyThreadState *state;
	uint64_t id = 0;
	int error;

	if (n > 0 && args[0] != Py_None && id_read(args[0], &id))
		return NULL;
	ctx = context_use(context);
	if (!ctx)
		return NULL;
	state = context_leave_python(context);
	error = ripc_service_open(ctx, id, 0, &svc);
	context_enter_python(context, state);
	return error ? error_raise(error, 0, NULL) : service_new(context, svc);
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

static PyObject *services_list(struct context *context, struct ripc_service **svcs, Py_ssize_t n)
{
	PyObject *list = PyList_New(n);

	for (Py_ssize_t i = 0; list && i < n; i++) {
		PyObject *service = Py_None;

		if (svcs[i])
			service = service_new(context, svcs[i]);
		else
			Py_INCREF((PyObject *)service);
		if (!service || PyList_SetItem(list, i, service))
			Py_CLEAR(list); /* the rest ends with the context */
	}
	return list;
}

static PyObject *services_open(struct context *context, PyObject *names, Py_ssize_t n)
{
	uint64_t *ids = PyMem_Calloc((size_t)n + 1, sizeof(*ids));
	struct ripc_service **svcs = PyMem_Calloc((size_t)n + 1, sizeof(struct ripc_service *));
	PyObject *list = NULL;

	if (!ids || !svcs) {
		PyErr_NoMemory();
	} else if (!ids_read(names, ids, n) && context_use(context)) {
		PyThreadState *state = context_leave_python(context);
		int opened = ripc_services_open(context->ctx, ids, (size_t)n, 0, svcs);

		context_enter_python(context, state);
		list = opened < 0 ? error_raise(opened, 0, NULL) : services_list(context, svcs, n);
	}
	PyMem_Free(ids);
	PyMem_Free(svcs);
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

/* What ripc_resolve() and ripc_await() have in common. */
static PyObject *find(PyObject *self, PyObject *const *args, Py_ssize_t n,
		int (*how)(struct ripc_context *, uint64_t, int))
{
	struct context *context = (struct context *)self;
	struct ripc_context *ctx;
	PyThreadState *state;
	int timeout_ms, error;
	uint64_t id;

	if (n < 1 || n > 2) {
		PyErr_SetString(PyExc_TypeError, "a service and perhaps a timeout are wanted");
		return NULL;
	}
	if (id_read(args[0], &id) || timeout_read(n > 1 ? args[1] : NULL, 5000, &timeout_ms))
		return NULL;
	ctx = context_use(context);
	if (!ctx)
		return NULL;
	state = context_leave_python(context);
	error = how(ctx, id, timeout_ms);
	context_enter_python(context, state);
	if (error == -EINTR && PyErr_CheckSignals())
		return NULL;
	return error_or_none(error);
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
			PyErr_SetString(PyExc_ValueError, "a buffer has 0 bytes or more");
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

/* That which begins at the same address. */
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
		"service(id=None)\n--\n\nRegister a service; None draws a private ID."},
	{"services", context_services, METH_O,
		"services(ids)\n--\n\nRegister many at once; None in the list where one failed."},
	{"resolve", FAST(context_resolve), METH_FASTCALL,
		"resolve(id, timeout=5.0)\n--\n\nFind a service, so that the first send need not."},
	{"wait_for", FAST(context_wait_for), METH_FASTCALL,
		"wait_for(id, timeout=5.0)\n--\n\nWait until somebody has the ID."},
	{"list", context_list, METH_O,
		"list(timeout)\n--\n\nLook for services for so many seconds."},
	{"buffer", context_buffer, METH_O,
		"buffer(len)\n--\n\nTake memory of the pool, which is sent without a copy."},
	{"register", context_register, METH_O,
		"register(memory)\n--\n\nMake own memory as good as the pool's."},
	{"unregister", context_unregister, METH_O, "unregister(memory)\n--\n\nEnd that."},
	{"stats", context_stats, METH_NOARGS, "stats()\n--\n\nThe counters, by their names in C."},
	{"holders", context_holders, METH_NOARGS,
		"holders()\n--\n\nWho holds memory that was given."},
	{"log", context_log, METH_NOARGS,
		"log()\n--\n\nThe last errors (0) and warnings (1), once: [(level, text), ...]."},
	{"reload_keys", context_reload_keys, METH_NOARGS,
		"reload_keys()\n--\n\nRead the directory of keys again, now."},
	{"poll", context_poll, METH_NOARGS, "poll()\n--\n\nDo what there is to do."},
	{"poll_timeout", context_poll_timeout, METH_NOARGS,
		"poll_timeout()\n--\n\nSeconds until poll() is due; None: no timer."},
	{"fd", context_fd, METH_NOARGS,
		"fd()\n--\n\nA descriptor, readable when poll() has something to do."},
	{"close", FAST(context_close), METH_FASTCALL,
		"close(timeout=1.0)\n--\n\nClose all services, and the context as soon as nobody "
		"looks into its memory."},
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
	{Py_tp_doc, "All that a process needs; usually one per process."},
	{0},
};

PyType_Spec context_spec = {
	.name = "ripc.Context",
	.basicsize = sizeof(struct context),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};
