/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows: memory of the program that is lent as the place of an item. */
#include "binding.h"

#include <errno.h>

PyObject *service_window_post(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	struct service *service = (struct service *)self;
	PyObject *cookie = n > 1 && args[1] != Py_None ? args[1] : NULL;
	struct items window;
	uint64_t number;
	int error;

	if (n < 1 || n > 2) {
		PyErr_SetString(PyExc_TypeError,
			"post_window() takes memory and optionally a cookie");
		return NULL;
	}
	if (items_read(&window, args[0], PyBUF_WRITABLE))
		return NULL;
	if (window.n != 1) {
		items_release(&window);
		PyErr_SetString(PyExc_TypeError, "a window must be one contiguous piece of memory");
		return NULL;
	}
	number = service_use(service) ?
		hold_take(&service->holds, HOLD_WINDOW, cookie, NULL, &window) : 0;
	if (!number) {
		items_release(&window);
		return NULL;
	}
	error = ripc_window_post(service->svc, &window.iov[0], number);
	if (error)
		hold_undo(&service->holds, number);
	return error_or_none(error);
}

/* 1: it is back; 0: a message has it; -1: an exception was raised. */
static int cancel(struct service *service, uint32_t place)
{
	uint64_t number = hold_cookie(&service->holds, place);
	struct ripc_service *svc = service->svc;
	PyThreadState *state = service_leave_python(service);
	int error = ripc_window_cancel(svc, number);

	service_enter_python(service, state);
	if (error == -ENOENT)
		return 0;
	if (error) {
		error_raise(error, 0, NULL);
		return -1;
	}
	hold_undo(&service->holds, number);
	return 1;
}

PyObject *service_window_cancel(PyObject *self, PyObject *cookie)
{
	struct service *service = (struct service *)self;
	struct holds *holds = &service->holds;
	int n = 0;

	for (uint32_t place = 0; service_use(service) && place < holds->n; place++) {
		int done = holds->table[place].kind == HOLD_WINDOW ?
			cookie_matches(holds, place, cookie) : 0;

		if (done > 0 && service->svc && holds->table[place].kind == HOLD_WINDOW)
			done = cancel(service, place);
		if (done < 0)
			return NULL;
		n += done;
	}
	if (PyErr_Occurred())
		return NULL;
	if (!n)
		return error_raise(-ENOENT, 0, "no window of this cookie is posted");
	Py_RETURN_NONE;
}
