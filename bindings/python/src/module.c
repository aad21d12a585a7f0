/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module ripc._ripc: constants, functions without a context, and what fork() changes. It is
 * of one interpreter only, as the library's threads are of one process.
 */
#include "binding.h"

#include <sys/syscall.h>
#include <unistd.h>

uint32_t fork_generation;

static _Thread_local signed char main_thread; /* 1: yes, -1: no, 0: not known yet */

bool is_main_thread(void)
{
	if (!main_thread)
		main_thread = syscall(SYS_gettid) == getpid() ? 1 : -1;
	return main_thread > 0;
}

/* The thread that forks is the child's main thread. */
static void in_child(void)
{
	fork_generation++;
	main_thread = 1;
}

static PyObject *module_id(PyObject *module, PyObject *name)
{
	uint64_t id;

	(void)module;
	if (!PyUnicode_Check(name)) {
		PyErr_SetString(PyExc_TypeError, "the name of a service must be a str");
		return NULL;
	}
	return id_read(name, &id) ? NULL : PyLong_FromUnsignedLongLong(id);
}

static PyObject *module_group(PyObject *module, PyObject *name)
{
	const char *text;

	(void)module;
	if (!PyUnicode_Check(name)) {
		PyErr_SetString(PyExc_TypeError, "the name of a group must be a str");
		return NULL;
	}
	text = PyUnicode_AsUTF8AndSize(name, NULL);
	return text ? PyLong_FromUnsignedLongLong(ripc_group_from_name(text)) : NULL;
}

static PyObject *module_strerror(PyObject *module, PyObject *number)
{
	long error = PyLong_AsLong(number);

	(void)module;
	if (error == -1 && PyErr_Occurred())
		return NULL;
	return PyUnicode_FromString(ripc_strerror((int)error));
}

static PyObject *module_errname(PyObject *module, PyObject *number)
{
	long error = PyLong_AsLong(number);
	const char *name;

	(void)module;
	if (error == -1 && PyErr_Occurred())
		return NULL;
	name = error == (int)error ? ripc_errname((int)error) : NULL;
	if (!name)
		Py_RETURN_NONE;
	return PyUnicode_FromString(name);
}

static PyObject *module_version(PyObject *module, PyObject *unused)
{
	uint32_t version = ripc_version();

	(void)module;
	(void)unused;
	return Py_BuildValue("III", version >> 16, version >> 8 & 0xff, version & 0xff);
}

static PyMethodDef methods[] = {
	{"errname", module_errname, METH_O,
		"errname(errno)\n--\n\nThe name of an errno, or None."},
	{"version", module_version, METH_NOARGS,
		"version()\n--\n\nThe version of the C library: (major, minor, patch)."},
	{"id_from_name", module_id, METH_O,
		"id_from_name(name)\n--\n\nThe well-known ID of a name."},
	{"group_from_name", module_group, METH_O,
		"group_from_name(name)\n--\n\nThe ID of a group, for join() and as a destination."},
	{"strerror", module_strerror, METH_O,
		"strerror(errno)\n--\n\nThe meaning of an errno in this library."},
	{"probe", module_probe, METH_NOARGS,
		"probe()\n--\n\nWhich backends and resolver sources can run on this host, and why "
		"the others cannot."},
	{0},
};

static const struct constant {
	const char *name;
	long value;
} constants[] = {
	{"SHORT", RIPC_SHORT}, {"LONG", RIPC_LONG}, {"COMPLETION", RIPC_COMPLETION},
	{"NOTICE", RIPC_NOTICE}, {"REQUEST", RIPC_REQUEST}, {"REPLY", RIPC_REPLY},
	{"NOT_DELIVERED", RIPC_NOT_DELIVERED}, {"DELIVERED", RIPC_DELIVERED},
	{"UNKNOWN", RIPC_UNKNOWN}, {"IN_POOL", RIPC_IN_POOL}, {"IN_WINDOW", RIPC_IN_WINDOW},
	{"IN_RETURN", RIPC_IN_RETURN}, {"IN_SENDER", RIPC_IN_SENDER}, {"SHORT_MIN", RIPC_SHORT_MIN},
	{"SENDER_CLAIMED", RIPC_SENDER_CLAIMED}, {"SENDER_RESOLVED", RIPC_SENDER_RESOLVED},
	{"SENDER_PROVEN", RIPC_SENDER_PROVEN}, {"LOG_ERROR", RIPC_LOG_ERROR},
	{"LOG_WARN", RIPC_LOG_WARN}, {"LOG_INFO", RIPC_LOG_INFO},
	{"LOG_DEBUG", RIPC_LOG_DEBUG}, {"ITEMS_MAX", RIPC_ITEMS_MAX},
	{"SPIN_NEVER", RIPC_SPIN_NEVER},
};

static PyTypeObject *type_add(PyObject *module, PyType_Spec *spec, const char *name)
{
	PyObject *type = PyType_FromSpec(spec);

	if (type && name && PyModule_AddObjectRef(module, name, type))
		Py_CLEAR(type);
	return (PyTypeObject *)type;
}

static int types_add(PyObject *module)
{
	context_type = type_add(module, &context_spec, "Context");
	service_type = type_add(module, &service_spec, "Service");
	message_type = type_add(module, &message_spec, "Message");
	buffer_type = type_add(module, &buffer_spec, "Buffer");
	item_type = type_add(module, &item_spec, NULL);
	return context_type && service_type && message_type && buffer_type && item_type ? 0 : -1;
}

static int constants_add(PyObject *module)
{
	for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++)
		if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value))
			return -1;
	return PyModule_AddStringConstant(module, "__version__", RIPC_PYTHON_VERSION);
}

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "ripc._ripc",
	.m_doc = "The extension module of ripc.",
	.m_size = -1,
	.m_methods = methods,
};

PyMODINIT_FUNC PyInit__ripc(void);

PyMODINIT_FUNC PyInit__ripc(void)
{
	PyObject *module = PyModule_Create(&definition);

	if (!module)
		return NULL;
	if (errors_init() || types_add(module) || constants_add(module) ||
			pthread_atfork(NULL, NULL, in_child)) {
		Py_DECREF(module);
		return NULL;
	}
	return module;
}
