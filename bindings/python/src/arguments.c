/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments: names, IDs, times, and objects whose bytes are sent or lent. */
#include "binding.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- by place and by name -------------------------------------------------------------- */

static int named(PyObject *name, PyObject *value, struct argument *arguments, int n)
{
	for (int i = 0; i < n; i++) {
		if (PyUnicode_CompareWithASCIIString(name, arguments[i].name))
			continue;
		if (arguments[i].value) {
			PyErr_Format(PyExc_TypeError, "argument '%s' is given twice",
				arguments[i].name);
			return -1;
		}
		arguments[i].value = value;
		return 0;
	}
	PyErr_Format(PyExc_TypeError, "unknown argument '%U'", name);
	return -1;
}

static int names_read(const struct call *call, struct argument *arguments, int n)
{
	Py_ssize_t n_names = PyTuple_Size(call->names);

	for (Py_ssize_t i = 0; i < n_names; i++)
		if (named(PyTuple_GetItem(call->names, i), call->args[call->n + i], arguments, n))
			return -1;
	return 0;
}

int arguments_read(const struct call *call, struct argument *arguments, int n, int n_needed,
		int n_placed)
{
	if (call->n > n_placed) {
		PyErr_Format(PyExc_TypeError, "at most %d arguments can be positional, not %zd",
			n_placed, call->n);
		return -1;
	}
	for (Py_ssize_t i = 0; i < call->n; i++)
		arguments[i].value = call->args[i];
	if (call->names && names_read(call, arguments, n))
		return -1;
	for (int i = 0; i < n_needed; i++) {
		if (arguments[i].value)
			continue;
		PyErr_Format(PyExc_TypeError, "argument '%s' is missing", arguments[i].name);
		return -1;
	}
	return 0;
}

/* ---- numbers and times ----------------------------------------------------------------- */

int number_read(PyObject *object, uint64_t *number)
{
	unsigned long long value;

	if (!object)
		return 0;
	value = PyLong_AsUnsignedLongLong(object);
	if (value == ULLONG_MAX && PyErr_Occurred())
		return -1;
	*number = value;
	return 0;
}

static int name_read(PyObject *object, uint64_t *id)
{
	Py_ssize_t len;
	const char *name = PyUnicode_AsUTF8AndSize(object, &len);

	if (!name)
		return -1;
	if (len == 0 || strlen(name) != (size_t)len) {
		PyErr_SetString(PyExc_ValueError,
			"the name of a service must not be empty or have a zero byte");
		return -1;
	}
	*id = ripc_id_from_name(name);
	return 0;
}

int id_read(PyObject *object, uint64_t *id)
{
	if (PyLong_Check(object))
		return number_read(object, id);
	if (PyUnicode_Check(object))
		return name_read(object, id);
	PyErr_Format(PyExc_TypeError, "a service is named by its ID, an int, or by its name, a "
		"str, not by %R", (PyObject *)Py_TYPE(object));
	return -1;
}

void known_set(struct known *known, PyObject *object, uint64_t id)
{
	PyObject *old = known->object;

	Py_INCREF(object);
	*known = (struct known){object, id};
	Py_XDECREF(old);
}

int to_read(struct service *service, PyObject *object, uint64_t *id)
{
	if (object == service->to.object || object == service->from.object) {
		*id = object == service->to.object ? service->to.id : service->from.id;
		return 0;
	}
	if (id_read(object, id))
		return -1;
	if (PyLong_CheckExact(object) || PyUnicode_CheckExact(object))
		known_set(&service->to, object, *id);
	return 0;
}

int timeout_read(PyObject *object, int missing, int *timeout_ms)
{
	double seconds;

	*timeout_ms = missing;
	if (!object || object == Py_None)
		return 0;
	seconds = PyFloat_AsDouble(object);
	if (seconds == -1.0 && PyErr_Occurred())
		return -1;
	if (!(seconds >= 0)) {
		PyErr_SetString(PyExc_ValueError,
			"a timeout is a number of seconds, 0 or more, or None");
		return -1;
	}
	*timeout_ms = seconds >= INT_MAX / 1000 ? INT_MAX : (int)ceil(seconds * 1000);
	return 0;
}

int deadline_read(PyObject *object, int *timeout_ms)
{
	if (timeout_read(object, 0, timeout_ms))
		return -1;
	if (*timeout_ms || !object || object == Py_None)
		return 0;
	PyErr_SetString(PyExc_ValueError, "this method always waits: pass a timeout above 0, or "
		"use send(..., nowait=True) or call_start()");
	return -1;
}

int truth_read(PyObject *object)
{
	return object ? PyObject_IsTrue(object) : 0;
}

/* ---- items ----------------------------------------------------------------------------- */

static int refuse_text(void)
{
	PyErr_SetString(PyExc_TypeError,
		"text must be encoded first, as in text.encode()");
	return -1;
}

/* The bytes of a bytes object are got without asking it: that is most of all short messages. */
static int view_read(PyObject *object, Py_buffer *view, int flags)
{
	char *text;
	Py_ssize_t len;

	if (!PyBytes_CheckExact(object))
		return PyUnicode_Check(object) ? refuse_text() :
			PyObject_GetBuffer(object, view, flags);
	if (flags & PyBUF_WRITABLE) {
		PyErr_SetString(PyExc_BufferError,
			"bytes are read-only: pass a bytearray, an array or ctx.buffer()");
		return -1;
	}
	if (PyBytes_AsStringAndSize(object, &text, &len))
		return -1;
	*view = (Py_buffer){.buf = text, .len = len, .obj = object, .itemsize = 1, .readonly = 1};
	Py_INCREF(object);
	return 0;
}

static int item_read(struct items *items, PyObject *object, int flags)
{
	Py_buffer *view = &items->views[items->n];

	if (view_read(object, view, flags))
		return -1;
	items->iov[items->n++] = (struct iovec){view->buf, (size_t)view->len};
	return 0;
}

static int sequence_read(struct items *items, PyObject *data, int flags)
{
	Py_ssize_t n = PySequence_Size(data);

	if (n < 0)
		return -1;
	if (n > RIPC_ITEMS_MAX) {
		PyErr_Format(PyExc_ValueError, "a message has at most %d items, not %zd",
			RIPC_ITEMS_MAX, n);
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *object = PySequence_GetItem(data, i);
		int error = object ? item_read(items, object, flags) : -1;

		Py_XDECREF(object);
		if (error) {
			items_release(items);
			return -1;
		}
	}
	return 0;
}

int items_read(struct items *items, PyObject *data, int flags)
{
	items->n = 0;
	if (PyList_Check(data) || PyTuple_Check(data))
		return sequence_read(items, data, flags);
	return item_read(items, data, flags);
}

void views_release(Py_buffer *views, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		PyBuffer_Release(&views[i]);
}

void items_release(struct items *items)
{
	views_release(items->views, items->n);
	items->n = 0;
}

void items_keep(struct context *context, const Py_buffer *views, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		ripc_buf_free(context->ctx, views[i].buf);
}

int items_give(struct context *context, const struct items *items)
{
	for (uint32_t i = 0; i < items->n; i++) {
		int error = ripc_buf_ref(context->ctx, items->iov[i].iov_base);

		if (error) {
			items_keep(context, items->views, i);
			return error;
		}
	}
	return 0;
}
