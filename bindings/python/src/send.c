/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending. A short message is gone when the call returns. The memory of a long message is held
 * until its outcome is known, which may be after the call: then its COMPLETION ends the hold.
 */
#include "binding.h"

#include <errno.h>

#define AGAIN_MS 20 /* until a send that found nobody is begun anew (wait=True) */

#define LARGE 65536u /* bytes from which on other threads may run meanwhile */

struct sending {
	struct service *service;
	struct items items, returns;
	struct ripc_send send;
	struct ripc_buffer places[RIPC_ITEMS_MAX];
	PyObject *cookie; /* borrowed; NULL: none */
};

PyObject *service_send_short(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	struct service *service = (struct service *)self;
	struct ripc_service *svc;
	struct items items;
	uint64_t to;
	int error;

	if (n != 2) {
		PyErr_SetString(PyExc_TypeError, "send_short() takes a service and data");
		return NULL;
	}
	if (to_read(service, args[0], &to) || items_read(&items, args[1], PyBUF_SIMPLE))
		return NULL;
	svc = service_use(service);
	error = svc ? ripc_send_short(svc, to, items.iov, items.n) : 0;
	items_release(&items);
	if (!svc)
		return NULL;
	if (error)
		return error_raise(error, RIPC_NOT_DELIVERED, NULL);
	Py_RETURN_NONE;
}

/* ---- long messages --------------------------------------------------------------------- */

static void end_of(struct sending *sending, enum ripc_outcome outcome)
{
	struct holds *holds = &sending->service->holds;
	struct hold *hold = hold_get(holds, sending->send.cookie);

	if (!hold)
		return; /* its service was closed */
	if (outcome == RIPC_NOT_DELIVERED && hold->given)
		items_keep(sending->service->context, hold->items, hold->n_items);
	if (outcome == RIPC_NOT_DELIVERED)
		hold_end(holds, hold);
	else
		hold_items_end(holds, hold);
}

/* How it ended; outcome 0: an exception was raised, and the hold has ended. */
struct ended {
	int error;
	enum ripc_outcome outcome;
};

/* Sends, and waits for the end. */
static struct ended send_once(struct sending *sending)
{
	struct service *service = sending->service;
	struct ripc_service *svc = service->svc;
	struct awaited awaited = {.cookie = sending->send.cookie};
	int timeout_ms = slice_ms(-1), waited = 0, error;
	PyThreadState *state = service_leave_python(service);
	struct ripc_msg *end = NULL;
	struct ended ended;

	error = ripc_sendmsg(svc, &sending->send, NULL);
	if (!error)
		waited = ripc_receive_end(svc, awaited.cookie, timeout_ms, &end);
	service_enter_python(service, state);
	if (error)
		return (struct ended){error, RIPC_NOT_DELIVERED};
	if (waited && end_await(service, &awaited, waited, &end))
		return (struct ended){0, 0};
	ended = (struct ended){end->status, end->outcome};
	ripc_msg_free(end);
	return ended;
}

static bool found_nobody(const struct ended *ended)
{
	return ended->error == -ENOENT && ended->outcome == RIPC_NOT_DELIVERED;
}

/* Begins anew while nobody has the ID, until the deadline. */
static struct ended send_patiently(struct sending *sending)
{
	struct ripc_send *send = &sending->send;
	int timeout_ms = send->timeout_ms ? send->timeout_ms :
		sending->service->context->timeout_ms;
	int64_t until_ms = now_ms() + timeout_ms;
	struct ended ended;
	bool was_nobody = false;

	for (;;) {
		send->timeout_ms = left_ms(until_ms) ? left_ms(until_ms) : 1;
		ended = send_once(sending);
		if (!found_nobody(&ended) || !left_ms(until_ms))
			break;
		was_nobody = true;
		pause_ms(AGAIN_MS);
		if (PyErr_CheckSignals() || !service_use(sending->service))
			break; /* which is raised below */
	}
	if (ended.error == -ETIMEDOUT && was_nobody)
		ended.error = -ENOENT;
	return ended;
}

/* An exception is raised already, or comes from the handler of a signal. */
static bool is_interrupted(void)
{
	return PyErr_Occurred() || PyErr_CheckSignals();
}

static PyObject *send_waiting(struct sending *sending)
{
	struct ripc_send *send = &sending->send;
	bool patient = send->flags & RIPC_WAIT && !send->to_incarnation &&
		!send->to_handle; /* without it: -EINVAL */
	struct ended ended;

	send->flags |= RIPC_NOWAIT | RIPC_AWAITED;
	if (patient)
		send->flags &= ~(uint32_t)RIPC_WAIT;
	ended = patient ? send_patiently(sending) : send_once(sending);
	if (!ended.outcome)
		return NULL;
	end_of(sending, ended.outcome);
	if (is_interrupted())
		return outcome_note(ended.outcome);
	if (ended.error)
		return error_raise(ended.error, (int)ended.outcome, NULL);
	Py_RETURN_NONE;
}

static bool is_large(const struct ripc_send *send)
{
	size_t len = 0;

	for (uint32_t i = 0; i < send->n_items; i++)
		len += send->items[i].iov_len;
	return len > LARGE;
}

/* A send that does not wait, short or long. */
static PyObject *send_at_once(struct sending *sending)
{
	struct ripc_service *svc = sending->service->svc;
	bool large = is_large(&sending->send);
	PyThreadState *state = large ? service_leave_python(sending->service) : NULL;
	int error = ripc_sendmsg(svc, &sending->send, NULL);

	if (large)
		service_enter_python(sending->service, state);
	if (error || !(sending->send.flags & RIPC_SEND_LONG))
		end_of(sending, error ? RIPC_NOT_DELIVERED : RIPC_DELIVERED);
	if (error)
		return error_raise(error, RIPC_NOT_DELIVERED, NULL);
	Py_RETURN_NONE;
}

static void lend(struct sending *sending)
{
	struct ripc_send *send = &sending->send;

	for (uint32_t i = 0; i < send->n_returns; i++)
		sending->places[i] = (struct ripc_buffer){.mem = sending->returns.iov[i],
			.cookie = send->cookie};
	send->returns = send->n_returns ? sending->places : NULL;
}

/* Items and returns were read; they go to the hold. */
static PyObject *send_held(struct sending *sending)
{
	struct ripc_send *send = &sending->send;
	struct holds *holds = &sending->service->holds;
	bool give = send->flags & RIPC_GIVE, open;
	int error;

	if (sending->service->n_left)
		ends_collect(sending->service);
	open = service_use(sending->service) != NULL;
	error = give && open ? items_give(sending->service->context, &sending->items) : 0;
	if (!open || error) {
		items_release(&sending->items);
		items_release(&sending->returns);
		return !open ? NULL : error_raise(error, RIPC_NOT_DELIVERED,
			"transferred data must be in ctx.buffer() or in a received message");
	}
	send->items = sending->items.iov;
	send->n_items = sending->items.n;
	send->n_returns = sending->returns.n;
	send->cookie = hold_take(holds, HOLD_SEND, sending->cookie, &sending->items,
		&sending->returns);
	if (!send->cookie) {
		if (give)
			items_keep(sending->service->context, sending->items.views,
				sending->items.n);
		items_release(&sending->items);
		items_release(&sending->returns);
		return NULL;
	}
	hold_get(holds, send->cookie)->given = give;
	lend(sending);
	return send->flags & RIPC_SEND_LONG && !(send->flags & RIPC_NOWAIT) ?
		send_waiting(sending) : send_at_once(sending);
}

static int flags_read(struct sending *sending, const struct argument *arguments, int n,
		const uint32_t *bits)
{
	for (int i = 0; i < n; i++) {
		int truth = truth_read(arguments[i].value);

		if (truth < 0)
			return -1;
		if (truth)
			sending->send.flags ^= bits[i];
	}
	return 0;
}

static int start(struct sending *sending, PyObject *self, const struct argument *arguments)
{
	sending->service = (struct service *)self;
	sending->send = (struct ripc_send){.size = sizeof(struct ripc_send),
		.flags = RIPC_SEND_LONG};
	sending->cookie = NULL;
	sending->items.n = sending->returns.n = 0;
	if (to_read(sending->service, arguments[0].value, &sending->send.to))
		return -1;
	return deadline_read(arguments[2].value, &sending->send.timeout_ms);
}

PyObject *service_send_long(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	static const uint32_t bits[] = {RIPC_GIVE, RIPC_ORDERED, RIPC_WAIT};
	struct argument arguments[] = {{"to", NULL}, {"data", NULL}, {"timeout", NULL},
		{"give", NULL}, {"ordered", NULL}, {"wait", NULL}};
	const struct call call = {args, n, names};
	struct sending sending;

	if (arguments_read(&call, arguments, 6, 2, 3) || start(&sending, self, arguments) ||
			flags_read(&sending, arguments + 3, 3, bits) ||
			items_read(&sending.items, arguments[1].value, PyBUF_SIMPLE))
		return NULL;
	return send_held(&sending);
}

/* Items, and the returns, if there are. */
static int memory_read(struct sending *sending, PyObject *data, PyObject *returns)
{
	if (items_read(&sending->items, data, PyBUF_SIMPLE))
		return -1;
	if (!returns || returns == Py_None ||
			!items_read(&sending->returns, returns, PyBUF_WRITABLE))
		return 0;
	items_release(&sending->items);
	return -1;
}

PyObject *service_send(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	static const uint32_t bits[] = {RIPC_SEND_LONG, RIPC_NOWAIT, RIPC_GIVE, RIPC_ORDERED,
		RIPC_WAIT, RIPC_LEAVE_SLOW};
	struct argument arguments[] = {{"to", NULL}, {"data", NULL}, {"timeout", NULL},
		{"short", NULL}, {"nowait", NULL}, {"give", NULL}, {"ordered", NULL},
		{"wait", NULL}, {"leave_slow", NULL}, {"returns", NULL}, {"reply_to", NULL},
		{"to_incarnation", NULL}, {"to_handle", NULL}, {"cookie", NULL}};
	const struct call call = {args, n, names};
	struct sending sending;

	if (arguments_read(&call, arguments, 14, 2, 3) || start(&sending, self, arguments) ||
			flags_read(&sending, arguments + 3, 6, bits) ||
			number_read(arguments[10].value, &sending.send.reply_to) ||
			number_read(arguments[11].value, &sending.send.to_incarnation) ||
			number_read(arguments[12].value, &sending.send.to_handle))
		return NULL;
	if (arguments[13].value != Py_None)
		sending.cookie = arguments[13].value;
	if (memory_read(&sending, arguments[1].value, arguments[9].value))
		return NULL;
	return send_held(&sending);
}

/* ---- taking back ----------------------------------------------------------------------- */

int cookie_matches(struct holds *holds, uint32_t place, PyObject *cookie)
{
	PyObject *own = place < holds->n ? holds->table[place].cookie : NULL;
	int same;

	if (!own)
		return place < holds->n && cookie == Py_None;
	Py_INCREF(own);
	same = PyObject_RichCompareBool(own, cookie, Py_EQ);
	Py_DECREF(own);
	return same;
}

/* 1: it was cancelled; 0: there was nothing to cancel any more; -1: an exception was raised. */
static int cancel(struct service *service, uint32_t place)
{
	struct hold *hold = &service->holds.table[place];
	uint64_t number = hold_cookie(&service->holds, place);
	struct ripc_service *svc = service->svc;
	PyThreadState *state;
	int error;

	state = service_leave_python(service);
	error = ripc_cancel(svc, number);
	service_enter_python(service, state);
	hold = hold_get(&service->holds, number);
	if (error == -ENOENT)
		return 0;
	if (error) {
		error_raise(error, 0, NULL);
		return -1;
	}
	if (hold && hold->kind == HOLD_SEND && hold->n_returns)
		hold_returns_end(&service->holds, hold);
	return 1;
}

static bool is_sent(const struct hold *hold)
{
	return hold->kind == HOLD_SEND || hold->kind == HOLD_CALL;
}

PyObject *service_cancel(PyObject *self, PyObject *cookie)
{
	struct service *service = (struct service *)self;
	struct holds *holds = &service->holds;
	int n = 0;

	for (uint32_t place = 0; service_use(service) && place < holds->n; place++) {
		int done = is_sent(&holds->table[place]) ?
			cookie_matches(holds, place, cookie) : 0;

		if (done > 0 && service->svc && is_sent(&holds->table[place]))
			done = cancel(service, place);
		if (done < 0)
			return NULL;
		n += done;
	}
	if (PyErr_Occurred())
		return NULL;
	if (!n)
		return error_raise(-ENOENT, 0, "no send, call or return buffer of this cookie is "
			"open");
	Py_RETURN_NONE;
}
