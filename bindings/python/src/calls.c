/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls: requests, replies, and watching. */
#include "binding.h"

#include <errno.h>

#define LARGE 65536u /* bytes from which on other threads may run meanwhile */

struct asking {
	struct service *service;
	struct items items, returns;
	struct ripc_request request;
	struct ripc_buffer places[RIPC_ITEMS_MAX];
};

enum { TO, DATA, TIMEOUT, IDEMPOTENT, RETURNS, TO_INCARNATION, GIVE, COOKIE, N_ARGUMENTS };

const char *answer_note(int status, enum ripc_outcome asked)
{
	switch (status) {
	case -ETIMEDOUT:
	case -ECONNRESET:
	case -ECANCELED:
	case -ESHUTDOWN:
		return NULL;
	default:
		return asked == RIPC_DELIVERED ? REMOTE_ERROR : NULL;
	}
}

/* ---- asking ---------------------------------------------------------------------------- */

static void release(struct asking *asking)
{
	items_release(&asking->items);
	items_release(&asking->returns);
}

/* A reference to each item for the library, if they are given. */
static int give_it(struct asking *asking)
{
	int error = asking->request.flags & RIPC_GIVE ?
		items_give(asking->service->context, &asking->items) : 0;

	if (!error)
		return 0;
	error_raise(error, RIPC_NOT_DELIVERED,
		"transferred data must be in ctx.buffer() or in a received message");
	return -1;
}

static int request_read(struct asking *asking, const struct argument *arguments)
{
	struct ripc_request *request = &asking->request;
	int idempotent = truth_read(arguments[IDEMPOTENT].value);
	int give = truth_read(arguments[GIVE].value);
	PyObject *returns = arguments[RETURNS].value;

	*request = (struct ripc_request){.size = sizeof(*request),
		.flags = (idempotent > 0 ? RIPC_IDEMPOTENT : 0) | (give > 0 ? RIPC_GIVE : 0)};
	asking->items.n = asking->returns.n = 0;
	if (idempotent < 0 || give < 0 ||
			to_read(asking->service, arguments[TO].value, &request->to) ||
			deadline_read(arguments[TIMEOUT].value, &request->timeout_ms) ||
			number_read(arguments[TO_INCARNATION].value, &request->to_incarnation) ||
			items_read(&asking->items, arguments[DATA].value, PyBUF_SIMPLE))
		return -1;
	if (returns && returns != Py_None &&
			items_read(&asking->returns, returns, PyBUF_WRITABLE)) {
		items_release(&asking->items);
		return -1;
	}
	if (asking->service->n_left)
		ends_collect(asking->service);
	if (!service_use(asking->service) || give_it(asking)) {
		release(asking);
		return -1;
	}
	request->items = asking->items.iov;
	request->n_items = asking->items.n;
	request->n_returns = asking->returns.n;
	return 0;
}

static void lend(struct asking *asking)
{
	struct ripc_request *request = &asking->request;

	for (uint32_t i = 0; i < request->n_returns; i++)
		asking->places[i] = (struct ripc_buffer){.mem = asking->returns.iov[i],
			.cookie = request->cookie};
	request->returns = request->n_returns ? asking->places : NULL;
}

/* The library did not take the buffer: it stays the caller's. */
static void keep_it(struct asking *asking)
{
	if (asking->request.flags & RIPC_GIVE)
		items_keep(asking->service->context, asking->items.views, asking->items.n);
}

/* The hold has the items from now on. */
static int hold_it(struct asking *asking, struct items *items, PyObject *cookie)
{
	asking->request.cookie = hold_take(&asking->service->holds, HOLD_CALL, cookie, items,
		&asking->returns);
	if (!asking->request.cookie) {
		keep_it(asking);
		release(asking);
		return -1;
	}
	lend(asking);
	return 0;
}

static void items_end(struct asking *asking, enum ripc_outcome asked)
{
	if (asked == RIPC_NOT_DELIVERED)
		keep_it(asking);
	items_release(&asking->items);
}

/* Takes the end. */
static PyObject *answer_of(struct asking *asking, struct ripc_msg *end)
{
	struct service *service = asking->service;
	enum ripc_outcome asked = end->outcome;
	int status = end->status;
	PyObject *answer = status ? NULL : message_new(service, end);

	if (status)
		ripc_msg_free(end);
	items_end(asking, asked);
	hold_undo(&service->holds, asking->request.cookie);
	if (!status && !answer)
		return NULL;
	if (PyErr_CheckSignals()) {
		Py_XDECREF(answer);
		return outcome_note(asked);
	}
	return status ? error_raise(status, (int)asked, answer_note(status, asked)) : answer;
}

static PyObject *call(struct asking *asking)
{
	struct service *service = asking->service;
	struct ripc_service *svc = service->svc;
	struct awaited awaited = {.cookie = asking->request.cookie, .items = &asking->items,
		.given = asking->request.flags & RIPC_GIVE};
	int timeout_ms = slice_ms(-1), waited = 0, error;
	PyThreadState *state = service_leave_python(service);
	struct ripc_msg *end = NULL;

	error = ripc_call_start(svc, &asking->request);
	if (!error)
		waited = ripc_receive_end(svc, awaited.cookie, timeout_ms, &end);
	service_enter_python(service, state);
	if (error) {
		items_end(asking, RIPC_NOT_DELIVERED);
		hold_undo(&service->holds, awaited.cookie);
		return PyErr_CheckSignals() ? outcome_note(RIPC_NOT_DELIVERED) :
			error_raise(error, RIPC_NOT_DELIVERED, NULL);
	}
	if (waited && end_await(service, &awaited, waited, &end)) {
		items_end(asking, awaited.outcome);
		return NULL;
	}
	return answer_of(asking, end);
}

PyObject *service_call(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct argument arguments[] = {{"to", NULL}, {"data", NULL}, {"timeout", NULL},
		{"idempotent", NULL}, {"returns", NULL}, {"to_incarnation", NULL},
		{"give", NULL}};
	const struct call given = {args, n, names};
	struct asking asking;

	asking.service = (struct service *)self;
	if (arguments_read(&given, arguments, N_ARGUMENTS - 1, 2, 4) ||
			request_read(&asking, arguments))
		return NULL;
	asking.request.flags |= RIPC_AWAITED;
	if (hold_it(&asking, NULL, NULL))
		return NULL;
	return call(&asking);
}

static bool is_large(const struct iovec *items, uint32_t n)
{
	size_t len = 0;

	for (uint32_t i = 0; i < n; i++)
		len += items[i].iov_len;
	return len > LARGE;
}

PyObject *service_call_start(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct argument arguments[] = {{"to", NULL}, {"data", NULL}, {"timeout", NULL},
		{"idempotent", NULL}, {"returns", NULL}, {"to_incarnation", NULL},
		{"give", NULL}, {"cookie", NULL}};
	const struct call given = {args, n, names};
	struct service *service = (struct service *)self;
	PyThreadState *state = NULL;
	struct ripc_service *svc;
	struct asking asking;
	struct hold *hold;
	PyObject *cookie;
	bool large;
	int error;

	asking.service = service;
	if (arguments_read(&given, arguments, N_ARGUMENTS, 2, 4) ||
			request_read(&asking, arguments))
		return NULL;
	cookie = arguments[COOKIE].value == Py_None ? NULL : arguments[COOKIE].value;
	large = is_large(asking.items.iov, asking.items.n);
	if (hold_it(&asking, &asking.items, cookie))
		return NULL;
	hold = hold_get(&service->holds, asking.request.cookie);
	hold->given = asking.request.flags & RIPC_GIVE;
	svc = service->svc;
	if (large)
		state = service_leave_python(service);
	error = ripc_call_start(svc, &asking.request);
	if (large)
		service_enter_python(service, state);
	if (!error)
		Py_RETURN_NONE;
	hold = hold_get(&service->holds, asking.request.cookie);
	if (hold && hold->given)
		items_keep(service->context, hold->items, hold->n_items);
	hold_undo(&service->holds, asking.request.cookie);
	return error_raise(error, RIPC_NOT_DELIVERED, NULL);
}

/* ---- replying -------------------------------------------------------------------------- */

static struct message *request_of(PyObject *object)
{
	if (Py_TYPE(object) != message_type) {
		PyErr_Format(PyExc_TypeError, "a request must be a Message, not a %R",
			(PyObject *)Py_TYPE(object));
		return NULL;
	}
	if (((struct message *)object)->head.kind != RIPC_REQUEST)
		return (void *)error_raise(-EINVAL, 0, "only a REQUEST can be replied to: answer "
			"other messages by a message to their from_id");
	return (struct message *)object;
}

/* A reply that the client does not want, or does not take, is no error of the server. */
static PyObject *was_sent(int error)
{
	if (error == -ENOENT || error == -EAGAIN)
		Py_RETURN_FALSE;
	if (error)
		return error_raise(error, 0, NULL);
	Py_RETURN_TRUE;
}

static PyObject *reply(struct service *service, const struct message *request,
		struct items *items, bool give)
{
	struct ripc_service *svc = service->svc;
	bool large = is_large(items->iov, items->n);
	PyThreadState *state = large ? service_leave_python(service) : NULL;
	int error = ripc_reply(svc, &request->head, items->iov, items->n,
		give ? RIPC_GIVE : 0);

	if (large)
		service_enter_python(service, state);
	if (error && give)
		items_keep(service->context, items->views, items->n);
	items_release(items);
	return was_sent(error);
}

PyObject *service_reply(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct argument arguments[] = {{"request", NULL}, {"data", NULL}, {"give", NULL}};
	const struct call given = {args, n, names};
	struct service *service = (struct service *)self;
	struct message *request;
	struct items items;
	int give, error;

	if (arguments_read(&given, arguments, 3, 1, 3))
		return NULL;
	request = request_of(arguments[0].value);
	give = truth_read(arguments[2].value);
	if (!request || give < 0)
		return NULL;
	items.n = 0;
	if (arguments[1].value && arguments[1].value != Py_None &&
			items_read(&items, arguments[1].value, PyBUF_SIMPLE))
		return NULL;
	if (!service_use(service)) {
		items_release(&items);
		return NULL;
	}
	error = give ? items_give(service->context, &items) : 0;
	if (!error)
		return reply(service, request, &items, give);
	items_release(&items);
	return error_raise(error, 0, "transferred data must be in ctx.buffer()");
}

PyObject *service_reply_error(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	struct message *request = n == 2 ? request_of(args[0]) : NULL;
	struct ripc_service *svc;
	long error;

	if (!request) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_TypeError,
				"reply_error() takes a request and an errno");
		return NULL;
	}
	error = PyLong_AsLong(args[1]);
	if (error == -1 && PyErr_Occurred())
		return NULL;
	if (error <= 0 || error > 4095) {
		PyErr_SetString(PyExc_ValueError,
			"an error must be a number of errno, 1 to 4095");
		return NULL;
	}
	svc = service_use((struct service *)self);
	if (!svc)
		return NULL;
	return was_sent(ripc_reply_error(svc, &request->head, (int)-error));
}

/* ---- watching -------------------------------------------------------------------------- */

PyObject *service_watch(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	struct service *service = (struct service *)self;
	PyObject *cookie = n > 1 && args[1] != Py_None ? args[1] : NULL;
	uint64_t id, number;
	int error;

	if (n < 1 || n > 2) {
		PyErr_SetString(PyExc_TypeError, "watch() takes a service and optionally a cookie");
		return NULL;
	}
	if (id_read(args[0], &id) || !service_use(service))
		return NULL;
	number = hold_take(&service->holds, HOLD_WATCH, cookie, NULL, NULL);
	if (!number)
		return NULL;
	hold_get(&service->holds, number)->id = id;
	error = ripc_watch(service->svc, id, number);
	if (!error)
		Py_RETURN_NONE;
	hold_undo(&service->holds, number);
	return error_raise(error, 0, error == -EEXIST ? "this service watches that ID "
		"already" : NULL);
}

PyObject *service_unwatch(PyObject *self, PyObject *watched)
{
	struct service *service = (struct service *)self;
	struct holds *holds = &service->holds;
	uint64_t id;
	int error;

	if (id_read(watched, &id) || !service_use(service))
		return NULL;
	error = ripc_unwatch(service->svc, id);
	if (error)
		return error_raise(error, 0, error == -ENOENT ? "this service does not watch that "
			"ID" : NULL);
	for (uint32_t place = 0; place < holds->n; place++) {
		struct hold *hold = &holds->table[place];

		if (hold->kind == HOLD_WATCH && hold->id == id) {
			hold_end(holds, hold);
			break;
		}
	}
	Py_RETURN_NONE;
}

/* ---- groups ------------------------------------------------------------------------------ */

static PyObject *group_change(PyObject *self, PyObject *wanted,
		int (*change)(struct ripc_service *svc, uint64_t group))
{
	struct service *service = (struct service *)self;
	uint64_t group;
	int error;

	if (id_read(wanted, &group) || !service_use(service))
		return NULL;
	error = change(service->svc, group);
	if (error)
		return error_raise(error, 0, error == -EINVAL ?
			"a group must be an int from group_from_name()" : NULL);
	Py_RETURN_NONE;
}

PyObject *service_join(PyObject *self, PyObject *group)
{
	return group_change(self, group, ripc_join);
}

PyObject *service_leave_group(PyObject *self, PyObject *group)
{
	return group_change(self, group, ripc_leave);
}
