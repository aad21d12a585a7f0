/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Message: what was received, in the library's memory. It goes back when the Message and all views
 * of its items are gone, or by free(). A view can be written to where nobody else reads the memory.
 */
#include "binding.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

PyTypeObject *message_type, *item_type;

/* One of several items; memoryviews of it keep it, and it keeps the message. */
struct item {
	PyObject_HEAD
	struct message *message;
	uint32_t index;
};

/* ---- what comes back with a message ---------------------------------------------------- */

static void cookie_set(struct message *message, const struct hold *hold)
{
	message->cookie = hold ? hold->cookie : NULL;
	Py_XINCREF(message->cookie);
}

/* Objects of a send that did not wait. */
static void completed(struct message *message, struct holds *holds)
{
	struct hold *hold = hold_get(holds, message->head.cookie);
	bool failed = message->head.outcome == RIPC_NOT_DELIVERED;

	cookie_set(message, hold);
	if (!hold)
		return;
	if (failed && hold->given)
		items_keep(message->service->context, hold->items, hold->n_items);
	if (failed)
		hold_end(holds, hold);
	else
		hold_items_end(holds, hold);
}

static void noticed(struct message *message, struct holds *holds)
{
	struct hold *hold = hold_get(holds, message->head.cookie);

	cookie_set(message, hold);
	if (hold && hold->kind == HOLD_SEND)
		hold_items_end(holds, hold);
}

static void answered(struct message *message, struct holds *holds)
{
	struct hold *hold = hold_get(holds, message->head.request_cookie);

	cookie_set(message, hold);
	if (!hold)
		return;
	if (message->head.outcome == RIPC_NOT_DELIVERED && hold->given)
		items_keep(message->service->context, hold->items, hold->n_items);
	hold_end(holds, hold);
}

/* The memory of the hold is the message's now. */
static int land(struct message *message, struct hold *hold)
{
	uint32_t n = message->n_landed + hold->n_returns;
	Py_buffer *landed = PyMem_Realloc(message->landed, n * sizeof(*landed));

	if (!landed)
		return -1;
	memcpy(landed + message->n_landed, hold->returns, hold->n_returns * sizeof(*landed));
	message->landed = landed;
	message->n_landed = n;
	PyMem_Free(hold->returns);
	hold->returns = NULL;
	hold->n_returns = 0;
	return 0;
}

static bool was_lent(const struct ripc_buffer *place)
{
	return place->place == RIPC_IN_WINDOW || place->place == RIPC_IN_RETURN;
}

/* By the places of the items. */
static int lent_note(struct message *message, uint32_t index, PyObject *cookie)
{
	cookie = cookie ? cookie : Py_None;
	Py_INCREF(cookie);
	if (message->lent)
		return PyTuple_SetItem(message->lent, (Py_ssize_t)index, cookie);
	Py_DECREF(cookie);
	return -1;
}

/* Objects of cancelled operations are released here. */
static void lent_end(struct message *message, struct holds *holds)
{
	for (uint32_t i = 0; i < message->head.n_items; i++) {
		const struct ripc_buffer *place = &message->head.places[i];
		struct hold *hold = was_lent(place) ? hold_get(holds, place->cookie) : NULL;

		if (hold && hold->kind != HOLD_CALL)
			hold_returns_end(holds, hold);
	}
}

/* The tuple comes first: to make it may collect garbage, which may close the service. */
static int landed(struct message *message, struct holds *holds)
{
	bool any = false;

	for (uint32_t i = 0; i < message->head.n_items; i++)
		any |= was_lent(&message->head.places[i]);
	if (any)
		message->lent = PyTuple_New(message->head.n_items);
	for (uint32_t i = 0; i < message->head.n_items; i++) {
		const struct ripc_buffer *place = &message->head.places[i];
		struct hold *hold = was_lent(place) ? hold_get(holds, place->cookie) : NULL;

		if (hold && lent_note(message, i, hold->cookie))
			return -1;
		if (hold && hold->n_returns && land(message, hold))
			return -1;
	}
	lent_end(message, holds);
	return 0;
}

/* ---- life ------------------------------------------------------------------------------ */

static void settle(struct message *message, struct holds *holds)
{
	switch (message->head.kind) {
	case RIPC_COMPLETION:
		completed(message, holds);
		break;
	case RIPC_NOTICE:
		noticed(message, holds);
		break;
	case RIPC_REPLY:
		answered(message, holds);
		break;
	default:
		break;
	}
}

/* Most messages are gone before the next one of their service comes: that has their memory. */
static struct message *take_spare(struct service *service)
{
	struct message *spare = service->spare;

	service->spare = NULL;
	return (struct message *)PyObject_Init((PyObject *)spare, message_type);
}

static void memory_put(struct message *message)
{
	struct service *service = message->service;

	if (service->spare)
		PyObject_Free(message);
	else
		service->spare = message;
	Py_DECREF((PyObject *)service);
}

PyObject *message_new(struct service *service, struct ripc_msg *msg)
{
	struct message *message = service->spare ? take_spare(service) :
		PyObject_New(struct message, message_type);
	struct context *context = service->context;

	if (!message) {
		ripc_msg_free(msg);
		return NULL;
	}
	message->memory.exports = 0;
	message->msg = msg;
	message->head = *msg;
	message->cookie = message->lent = NULL;
	message->landed = NULL;
	message->n_landed = 0;
	message->service = service;
	Py_INCREF((PyObject *)service);
	node_append(&context->memory, &message->memory.node);
	if (msg->places && landed(message, &service->holds)) {
		Py_DECREF((PyObject *)message);
		return PyErr_NoMemory();
	}
	settle(message, &service->holds);
	return (PyObject *)message;
}

void message_free(struct message *message)
{
	struct ripc_msg *msg = message->msg;
	Py_buffer *views = message->landed;
	uint32_t n = message->n_landed;

	message->msg = NULL;
	message->head.items = NULL;
	message->head.places = NULL;
	message->head.n_items = 0;
	message->landed = NULL;
	message->n_landed = 0;
	if (msg && !context_is_foreign(message->service->context)) {
		ripc_msg_free(msg);
		context_memory_gone(message->service->context, &message->memory);
	}
	if (!views)
		return;
	views_release(views, n);
	PyMem_Free(views);
}

static void message_dealloc(PyObject *self)
{
	struct message *message = (struct message *)self;
	PyTypeObject *type = Py_TYPE(self);

	message_free(message);
	Py_XDECREF(message->cookie);
	Py_XDECREF(message->lent);
	memory_put(message);
	Py_DECREF(type);
}

static PyObject *message_close(PyObject *self, PyObject *unused)
{
	struct message *message = (struct message *)self;

	(void)unused;
	if (message->memory.exports) {
		PyErr_Format(PyExc_BufferError, "%zd views of it are in use: release them first",
			message->memory.exports);
		return NULL;
	}
	message_free(message);
	Py_RETURN_NONE;
}

static PyObject *message_enter(PyObject *self, PyObject *unused)
{
	(void)unused;
	Py_INCREF(self);
	return self;
}

/* Items with views are freed with the last view. */
static PyObject *message_leave(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	struct message *message = (struct message *)self;

	(void)args;
	(void)n;
	if (!message->memory.exports)
		message_free(message);
	Py_RETURN_NONE;
}

/* ---- the buffer protocol --------------------------------------------------------------- */

static int readable(const struct message *message)
{
	if (message->msg && !context_is_foreign(message->service->context))
		return 0;
	PyErr_SetString(PyExc_BufferError, message->msg ?
		"this memory belongs to the parent process: copy the data before fork()" :
		"the message was freed, or its context closed");
	return -1;
}

/* In a window or return buffer, or in memory of our pool that nobody else has. */
static bool is_ours(const struct message *message, uint32_t index)
{
	if (message->head.places && was_lent(&message->head.places[index]))
		return true;
	return ripc_buf_refs(message->service->context->ctx,
		message->head.items[index].iov_base) == 1;
}

/* A caller that requests the bytes alone does not write to them. */
static int view_of(PyObject *exporter, struct message *message, uint32_t index, Py_buffer *view,
		int flags)
{
	const struct iovec none = {NULL, 0};
	const struct iovec *item = message->head.n_items ? &message->head.items[index] : &none;
	bool shared = item->iov_len && (flags == PyBUF_SIMPLE || !is_ours(message, index));

	if (shared && flags & PyBUF_WRITABLE) {
		PyErr_SetString(PyExc_BufferError, "the sender or another receiver reads this "
			"memory, too: copy it, as by bytearray(), or post windows");
		return -1;
	}
	if (PyBuffer_FillInfo(view, exporter, item->iov_base, (Py_ssize_t)item->iov_len, shared,
			flags))
		return -1;
	message->memory.exports++;
	return 0;
}

static int message_get(PyObject *self, Py_buffer *view, int flags)
{
	struct message *message = (struct message *)self;

	if (readable(message))
		return -1;
	if (message->head.n_items <= 1)
		return view_of(self, message, 0, view, flags);
	PyErr_Format(PyExc_BufferError, "the message has %u items: use message[0] and so on",
		message->head.n_items);
	return -1;
}

static void view_put(struct message *message)
{
	if (--message->memory.exports == 0 && message->service->context->closing)
		message_free(message);
}

static void message_put(PyObject *self, Py_buffer *view)
{
	(void)view;
	view_put((struct message *)self);
}

static int item_get(PyObject *self, Py_buffer *view, int flags)
{
	struct item *item = (struct item *)self;

	if (readable(item->message))
		return -1;
	return view_of(self, item->message, item->index, view, flags);
}

static void item_put(PyObject *self, Py_buffer *view)
{
	(void)view;
	view_put(((struct item *)self)->message);
}

static void item_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	Py_DECREF((PyObject *)((struct item *)self)->message);
	PyObject_Free(self);
	Py_DECREF(type);
}

/* ---- as a sequence of items ------------------------------------------------------------ */

static Py_ssize_t message_len(PyObject *self)
{
	return ((struct message *)self)->head.n_items;
}

/* Also one without items is something. */
static int message_true(PyObject *self)
{
	(void)self;
	return 1;
}

static PyObject *message_item(PyObject *self, Py_ssize_t index)
{
	struct message *message = (struct message *)self;
	struct item *item;
	PyObject *view;

	if (index < 0 || index >= (Py_ssize_t)message->head.n_items) {
		PyErr_Format(PyExc_IndexError, "the message has %u items", message->head.n_items);
		return NULL;
	}
	item = PyObject_New(struct item, item_type);
	if (!item)
		return NULL;
	Py_INCREF((PyObject *)message);
	item->message = message;
	item->index = (uint32_t)index;
	view = PyMemoryView_FromObject((PyObject *)item);
	Py_DECREF((PyObject *)item);
	return view;
}

static PyObject *message_bytes(PyObject *self, PyObject *unused)
{
	struct message *message = (struct message *)self;
	PyObject *bytes;
	size_t len = 0;
	char *at;

	(void)unused;
	if (readable(message))
		return NULL;
	for (uint32_t i = 0; i < message->head.n_items; i++)
		len += message->head.items[i].iov_len;
	bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)len);
	at = bytes ? PyBytes_AsString(bytes) : NULL;
	for (uint32_t i = 0; at && i < message->head.n_items; i++) {
		if (message->head.items[i].iov_len)
			memcpy(at, message->head.items[i].iov_base,
				message->head.items[i].iov_len);
		at += message->head.items[i].iov_len;
	}
	return bytes;
}

/* ---- what it says ---------------------------------------------------------------------- */

static PyObject *message_places(PyObject *self, void *unused)
{
	struct message *message = (struct message *)self;
	PyObject *places = PyTuple_New(message->head.n_items);

	(void)unused;
	for (uint32_t i = 0; places && i < message->head.n_items; i++) {
		long place = message->head.places ? message->head.places[i].place : RIPC_IN_POOL;
		PyObject *number = PyLong_FromLong(place);

		if (!number || PyTuple_SetItem(places, (Py_ssize_t)i, number))
			Py_CLEAR(places);
	}
	return places;
}

static PyObject *message_lent(PyObject *self, void *unused)
{
	struct message *message = (struct message *)self;
	PyObject *lent = message->lent;

	(void)unused;
	Py_XINCREF(lent);
	return lent ? lent : PyTuple_New(0);
}

/* Known, so that a reply to it need not read it. */
static PyObject *message_from(PyObject *self, void *unused)
{
	struct message *message = (struct message *)self;
	struct known *known = &message->service->from;
	PyObject *id;

	(void)unused;
	if (known->object && known->id == message->head.from) {
		Py_INCREF(known->object);
		return known->object;
	}
	id = PyLong_FromUnsignedLongLong(message->head.from);
	if (id)
		known_set(known, id, message->head.from);
	return id;
}

static PyObject *message_resolved(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct message *)self)->head.sender != RIPC_SENDER_CLAIMED);
}

static PyObject *message_counts(PyObject *self, void *unused)
{
	struct message *message = (struct message *)self;
	const struct ripc_counts *counts = message->msg ? message->head.counts : NULL;

	(void)unused;
	if (readable(message))
		return NULL;
	if (!counts)
		Py_RETURN_NONE;
	return Py_BuildValue("{s:I,s:I,s:I}", "delivered", counts->delivered,
		"not_delivered", counts->not_delivered, "unknown", counts->unknown);
}

static PyObject *delivery_dict(const struct ripc_delivery *delivery)
{
	return Py_BuildValue("{s:K,s:K,s:I,s:i}", "id", (unsigned long long)delivery->id,
		"incarnation", (unsigned long long)delivery->incarnation,
		"outcome", delivery->outcome, "status", delivery->status);
}

static PyObject *deliveries_list(const struct ripc_delivery *deliveries, int n)
{
	PyObject *list = PyList_New(n);

	for (int i = 0; list && i < n; i++) {
		PyObject *delivery = delivery_dict(&deliveries[i]);

		if (!delivery || PyList_SetItem(list, i, delivery))
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *message_deliveries(PyObject *self, PyObject *unused)
{
	struct message *message = (struct message *)self;
	struct ripc_delivery *deliveries;
	PyObject *list;
	int n;

	(void)unused;
	if (readable(message))
		return NULL;
	n = ripc_deliveries(message->msg, NULL, 0, sizeof(*deliveries));
	if (n < 0)
		return error_raise(n, 0, NULL);
	deliveries = PyMem_Calloc((size_t)n + 1, sizeof(*deliveries));
	if (!deliveries)
		return PyErr_NoMemory();
	ripc_deliveries(message->msg, deliveries, (uint32_t)n, sizeof(*deliveries));
	list = deliveries_list(deliveries, n);
	PyMem_Free(deliveries);
	return list;
}

static PyObject *message_watched(PyObject *self, void *unused)
{
	struct message *message = (struct message *)self;

	(void)unused;
	return PyBool_FromLong(message->head.kind == RIPC_NOTICE &&
		message->head.flags & RIPC_WATCHED);
}

static PyObject *message_idempotent(PyObject *self, void *unused)
{
	struct message *message = (struct message *)self;

	(void)unused;
	return PyBool_FromLong(message->head.kind == RIPC_REQUEST &&
		message->head.flags & RIPC_IDEMPOTENT);
}

static PyObject *message_exception(PyObject *self, PyObject *unused)
{
	struct message *message = (struct message *)self;
	const struct ripc_msg *head = &message->head;

	(void)unused;
	if (head->status >= 0)
		Py_RETURN_NONE;
	return error_new(head->status, (int)head->outcome,
		head->kind == RIPC_REPLY ? answer_note(head->status, head->outcome) : NULL);
}

static PyObject *message_repr(PyObject *self)
{
	static const char *const kinds[] = {"?", "short", "long", "completion", "notice",
		"request", "reply"};
	const struct ripc_msg *head = &((struct message *)self)->head;
	size_t kind = head->kind <= RIPC_REPLY ? head->kind : 0;
	char text[128];

	snprintf(text, sizeof(text), "<ripc.Message %s from %016llx, %u items, status %d>",
		kinds[kind], (unsigned long long)head->from, head->n_items, head->status);
	return PyUnicode_FromString(text);
}

static PyObject *message_reply(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct message *message = (struct message *)self;
	PyObject *all[3] = {self, n > 0 ? args[0] : NULL, n > 1 ? args[1] : NULL};

	if (n > 2 || (names && PyTuple_Size(names) > 0)) {
		PyErr_SetString(PyExc_TypeError, "reply() takes data and give, without names");
		return NULL;
	}
	return service_reply((PyObject *)message->service, all, n + 1, NULL);
}

static PyObject *message_reply_error(PyObject *self, PyObject *error)
{
	PyObject *all[2] = {self, error};

	return service_reply_error((PyObject *)((struct message *)self)->service, all, 2);
}

#define HEAD(field) offsetof(struct message, head.field), READONLY

static PyMemberDef members[] = {
	{"kind", T_INT, HEAD(kind), "SHORT, LONG, COMPLETION, NOTICE, REQUEST or REPLY."},
	{"outcome", T_INT, HEAD(outcome), "In a COMPLETION or REPLY: the outcome of the send."},
	{"status", T_INT, HEAD(status), "0 or a negative errno; exception() describes it."},
	{"from_incarnation", T_ULONGLONG, HEAD(from_incarnation), "The sender's incarnation."},
	{"from_handle", T_ULONGLONG, HEAD(from_handle),
		"For send(to_handle=...): a message to exactly this sender."},
	{"reply_to", T_ULONGLONG, HEAD(reply), "For send(reply_to=...)."},
	{"sender", T_INT, HEAD(sender), "How from_id was verified: SENDER_CLAIMED, _RESOLVED, "
		"_PROVEN."},
	{"group", T_ULONGLONG, HEAD(group), "The group to which the message was sent; 0: none."},
	{"service", T_OBJECT, offsetof(struct message, service), READONLY, "The service that "
		"received the message."},
	{"cookie", T_OBJECT, offsetof(struct message, cookie), READONLY,
		"In a COMPLETION, REPLY or NOTICE: the cookie of the send, call or watch."},
	{0},
};

static PyMethodDef methods[] = {
	{"free", message_close, METH_NOARGS,
		"free()\n--\n\nFree the memory now, not with the last reference."},
	{"exception", message_exception, METH_NOARGS,
		"exception()\n--\n\nThe exception for status, or None."},
	{"reply", (PyCFunction)(void (*)(void))message_reply, METH_FASTCALL | METH_KEYWORDS,
		"reply(data=b'', give=False)\n--\n\nReply to a request."},
	{"deliveries", message_deliveries, METH_NOARGS,
		"deliveries()\n--\n\nIn a COMPLETION of a send to a group: the outcome at each "
		"member."},
	{"reply_error", message_reply_error, METH_O,
		"reply_error(errno)\n--\n\nReply to a request with an error."},
	{"__bytes__", message_bytes, METH_NOARGS, "All items, concatenated."},
	{"__enter__", message_enter, METH_NOARGS, NULL},
	{"__exit__", (PyCFunction)(void (*)(void))message_leave, METH_FASTCALL, NULL},
	{0},
};

static PyGetSetDef properties[] = {
	{"from_id", message_from, NULL, "The sender's service ID.", NULL},
	{"places", message_places, NULL,
		"Where each item is: IN_POOL, IN_WINDOW, IN_RETURN, IN_SENDER.", NULL},
	{"lent", message_lent, NULL,
		"The cookies of windows and return buffers, by item; () if all are in the pool.",
		NULL},
	{"resolved", message_resolved, NULL, "Whether the sender is RESOLVED or PROVEN, not only "
		"CLAIMED.", NULL},
	{"counts", message_counts, NULL,
		"In a COMPLETION of a send to a group: the number of members per outcome.", NULL},
	{"watched", message_watched, NULL, "Whether the message is a notice of watch().", NULL},
	{"idempotent", message_idempotent, NULL,
		"Whether the request may be carried out more than once.", NULL},
	{0},
};

static PyType_Slot message_slots[] = {
	{Py_tp_dealloc, message_dealloc},
	{Py_tp_methods, methods},
	{Py_tp_members, members},
	{Py_tp_getset, properties},
	{Py_tp_repr, message_repr},
	{Py_nb_bool, message_true},
	{Py_sq_length, message_len},
	{Py_sq_item, message_item},
	{Py_bf_getbuffer, message_get},
	{Py_bf_releasebuffer, message_put},
	{Py_tp_doc, "A received message: a sequence of its items. bytes(), memoryview(), "
		"numpy.frombuffer() accept a message of a single item."},
	{0},
};

PyType_Spec message_spec = {
	.name = "ripc.Message",
	.basicsize = sizeof(struct message),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = message_slots,
};

static PyType_Slot item_slots[] = {
	{Py_tp_dealloc, item_dealloc},
	{Py_bf_getbuffer, item_get},
	{Py_bf_releasebuffer, item_put},
	{0},
};

PyType_Spec item_spec = {
	.name = "ripc._Item",
	.basicsize = sizeof(struct item),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = item_slots,
};
