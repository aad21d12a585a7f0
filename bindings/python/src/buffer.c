/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffer: memory of the pool, which is sent without a copy, or given away. */
#include "binding.h"

#include <errno.h>

PyTypeObject *buffer_type;

PyObject *buffer_new(struct context *context, Py_ssize_t len)
{
	void *mem;
	int error = ripc_buf_alloc(context->ctx, (size_t)(len ? len : 1), &mem);
	struct buffer *buffer;

	if (error)
		return error_raise(error, 0, NULL);
	buffer = PyObject_New(struct buffer, buffer_type);
	if (!buffer) {
		ripc_buf_free(context->ctx, mem);
		return NULL;
	}
	Py_INCREF((PyObject *)context);
	buffer->context = context;
	buffer->memory.exports = 0;
	buffer->mem = mem;
	buffer->len = len;
	node_append(&context->memory, &buffer->memory.node);
	return (PyObject *)buffer;
}

/* Receivers of a transferred buffer keep it, and read it still. */
void buffer_free(struct buffer *buffer)
{
	void *mem = buffer->mem;

	buffer->mem = NULL;
	if (!mem || context_is_foreign(buffer->context))
		return;
	ripc_buf_free(buffer->context->ctx, mem);
	context_memory_gone(buffer->context, &buffer->memory);
}

static void buffer_dealloc(PyObject *self)
{
	struct buffer *buffer = (struct buffer *)self;
	PyTypeObject *type = Py_TYPE(self);

	buffer_free(buffer);
	Py_DECREF((PyObject *)buffer->context);
	PyObject_Free(self);
	Py_DECREF(type);
}

static int refs(struct buffer *buffer)
{
	return ripc_buf_refs(buffer->context->ctx, buffer->mem);
}

/* A program that has transferred a buffer must not write to it while receivers read it. */
static int buffer_get(PyObject *self, Py_buffer *view, int flags)
{
	struct buffer *buffer = (struct buffer *)self;
	bool shared;

	if (!buffer->mem || context_is_foreign(buffer->context)) {
		PyErr_SetString(PyExc_BufferError, buffer->mem ?
			"this memory belongs to the parent process: open a context in this "
			"process, and use its "
			"buffers" : "the buffer was freed, or its context closed");
		return -1;
	}
	shared = refs(buffer) != 1;
	if (shared && flags & PyBUF_WRITABLE) {
		PyErr_SetString(PyExc_BufferError, "the buffer is being sent or was transferred, "
			"and is read in place: write to it when buffer.refs is 1, or use another "
			"buffer");
		return -1;
	}
	if (PyBuffer_FillInfo(view, self, buffer->mem, buffer->len, shared, flags))
		return -1;
	buffer->memory.exports++;
	return 0;
}

/* After close(): the last view frees. */
static void buffer_put(PyObject *self, Py_buffer *view)
{
	struct buffer *buffer = (struct buffer *)self;

	(void)view;
	if (--buffer->memory.exports == 0 && buffer->context->closing)
		buffer_free(buffer);
}

static PyObject *buffer_close(PyObject *self, PyObject *unused)
{
	struct buffer *buffer = (struct buffer *)self;

	(void)unused;
	if (buffer->memory.exports) {
		PyErr_Format(PyExc_BufferError, "%zd views of it are in use: release them first",
			buffer->memory.exports);
		return NULL;
	}
	buffer_free(buffer);
	Py_RETURN_NONE;
}

static PyObject *buffer_refs(PyObject *self, void *unused)
{
	struct buffer *buffer = (struct buffer *)self;
	int n = buffer->mem ? refs(buffer) : 0;

	(void)unused;
	return n < 0 ? error_raise(n, 0, NULL) : PyLong_FromLong(n);
}

static Py_ssize_t buffer_len(PyObject *self)
{
	return ((struct buffer *)self)->len;
}

static PyMethodDef methods[] = {
	{"free", buffer_close, METH_NOARGS,
		"free()\n--\n\nFree the buffer now, not with its last reference."},
	{0},
};

static PyGetSetDef properties[] = {
	{"refs", buffer_refs, NULL,
		"The number of references: 1 is this object alone; 0: the buffer was freed.", NULL},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_dealloc, buffer_dealloc},
	{Py_tp_methods, methods},
	{Py_tp_getset, properties},
	{Py_sq_length, buffer_len},
	{Py_bf_getbuffer, buffer_get},
	{Py_bf_releasebuffer, buffer_put},
	{Py_tp_doc, "Memory of the pool. memoryview() and numpy.frombuffer() give access."},
	{0},
};

PyType_Spec buffer_spec = {
	.name = "ripc.Buffer",
	.basicsize = sizeof(struct buffer),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
