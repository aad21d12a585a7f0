/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of the library as exceptions: the classes are Python's, in ripc/errors.py. */
#include "binding.h"

#include <string.h>

static PyObject *make;   /* ripc.errors.make(error, outcome, sentence, note) */
static PyObject *closed; /* ripc.errors.Shutdown */

int errors_init(void)
{
	PyObject *module = PyImport_ImportModule("ripc.errors");

	make = module ? PyObject_GetAttrString(module, "make") : NULL;
	closed = module ? PyObject_GetAttrString(module, "Shutdown") : NULL;
	Py_XDECREF(module);
	return make && closed ? 0 : -1;
}

PyObject *error_new(int error, int outcome, const char *note)
{
	bool remote = note && strcmp(note, REMOTE_ERROR) == 0;

	return PyObject_CallFunction(make, "iisz", -error, outcome,
		remote ? strerror(-error) : ripc_strerror(error), note);
}

PyObject *error_raise(int error, int outcome, const char *note)
{
	PyObject *exception = error_new(error, outcome, note);

	if (exception)
		PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
	Py_XDECREF(exception);
	return NULL;
}

PyObject *error_or_none(int error)
{
	if (error)
		return error_raise(error, 0, NULL);
	Py_RETURN_NONE;
}

void errors_end_iteration(void)
{
	if (PyErr_ExceptionMatches(closed))
		PyErr_Clear();
}
