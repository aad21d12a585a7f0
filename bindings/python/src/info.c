/* SPDX-License-Identifier: BSD-3-Clause */
/* Information: log, statistics, services, paths, holders, backends. */
#include "binding.h"

#include <errno.h>
#include <ripc/list.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_PAGE 64

/* ---- the log --------------------------------------------------------------------------- */

struct log *log_new(void)
{
	struct log *log = PyMem_Calloc(1, sizeof(*log));

	if (log)
		pthread_mutex_init(&log->lock, NULL);
	return log;
}

void log_free(struct log *log)
{
	if (!log)
		return;
	pthread_mutex_destroy(&log->lock);
	PyMem_Free(log);
}

void log_line(void *arg, int level, const char *text)
{
	struct log *log = arg;

	if (level > RIPC_LOG_WARN)
		return;
	pthread_mutex_lock(&log->lock);
	if (!log->opened && log->len < sizeof(log->text))
		log->len += (size_t)snprintf(log->text + log->len, sizeof(log->text) - log->len,
			"%s%s", log->len ? "; " : "", text);
	pthread_mutex_unlock(&log->lock);
}

void log_opened(struct log *log)
{
	pthread_mutex_lock(&log->lock);
	log->opened = true;
	pthread_mutex_unlock(&log->lock);
}

/* Appends what was made, which may be NULL, and gives the reference away. */
static int append(PyObject *list, PyObject *made)
{
	int error = made ? PyList_Append(list, made) : -1;

	Py_XDECREF(made);
	return error;
}

PyObject *context_log(PyObject *self, PyObject *unused)
{
	struct context *context = (struct context *)self;
	struct ripc_log_message message = {.size = sizeof(message)};
	PyObject *lines = PyList_New(0);

	(void)unused;
	while (lines && context->ctx && ripc_log_next(context->ctx, &message) == 0) {
		if ((message.lost && append(lines, Py_BuildValue("iN", RIPC_LOG_WARN,
				PyUnicode_FromFormat("%llu messages before this were lost",
					(unsigned long long)message.lost)))) ||
				append(lines, Py_BuildValue("is", message.level, message.text)))
			Py_CLEAR(lines);
	}
	return lines;
}

/* ---- statistics ------------------------------------------------------------------------ */

#define FIELD(name) {#name, offsetof(struct ripc_stats, name)}

static const struct field {
	const char *name;
	size_t offset;
} fields[] = {
	FIELD(short_sent), FIELD(short_sent_bytes), FIELD(short_received),
	FIELD(short_received_bytes), FIELD(long_sent), FIELD(long_sent_bytes),
	FIELD(long_received), FIELD(long_received_bytes), FIELD(long_not_delivered),
	FIELD(long_unknown), FIELD(datagrams_sent), FIELD(datagrams_received),
	FIELD(drop_malformed), FIELD(drop_version), FIELD(drop_checksum), FIELD(drop_token),
	FIELD(drop_proof), FIELD(drop_duplicate), FIELD(drop_late), FIELD(drop_queue_full),
	FIELD(drop_no_memory), FIELD(drop_receive_buffer), FIELD(drop_partner_limit),
	FIELD(drop_send_full), FIELD(drop_send_unresolved), FIELD(data_resent_bytes),
	FIELD(pull_requests), FIELD(announcements_repeated), FIELD(hellos), FIELD(retries),
	FIELD(messages_refused), FIELD(messages_abandoned), FIELD(offload_fallbacks),
	FIELD(datagram_size_fallbacks), FIELD(sends_from_foreign_memory), FIELD(pool_bytes),
	FIELD(pool_limit_bytes), FIELD(pool_used_bytes), FIELD(partners), FIELD(partner_bytes),
	FIELD(services), FIELD(queries_sent), FIELD(queries_answered),
	FIELD(responses_received), FIELD(resolver_dropped), FIELD(granted_bytes),
	FIELD(path_changes), FIELD(read_bytes), FIELD(reads_failed), FIELD(mapped_bytes),
	FIELD(mapped_held_bytes), FIELD(given_held_bytes), FIELD(written_bytes),
	FIELD(writes_failed), FIELD(landed_bytes), FIELD(calls_open), FIELD(calls_replied),
	FIELD(calls_failed), FIELD(calls_repeated), FIELD(calls_refused), FIELD(replies_late),
	FIELD(drop_no_member), FIELD(many_sent),
};

static PyObject *stats_dict(const struct ripc_stats *stats)
{
	PyObject *dict = PyDict_New();

	for (size_t i = 0; dict && i < sizeof(fields) / sizeof(fields[0]); i++) {
		const uint64_t *value = (const void *)((const char *)stats + fields[i].offset);
		PyObject *number = PyLong_FromUnsignedLongLong(*value);

		if (!number || PyDict_SetItemString(dict, fields[i].name, number))
			Py_CLEAR(dict);
		Py_XDECREF(number);
	}
	return dict;
}

PyObject *context_stats(PyObject *self, PyObject *unused)
{
	struct ripc_context *ctx = context_use((struct context *)self);
	struct ripc_stats stats = {.size = sizeof(stats)};
	int error;

	(void)unused;
	if (!ctx)
		return NULL;
	error = ripc_stats_get(ctx, &stats);
	return error ? error_raise(error, 0, NULL) : stats_dict(&stats);
}

/* ---- lists ----------------------------------------------------------------------------- */

struct holders {
	struct ripc_holder *list;
	size_t n;
	bool no_memory;
};

/* Does not call Python, which could free a message meanwhile: a callback must not do that. */
static int add_holder(void *arg, const struct ripc_holder *holder)
{
	struct holders *holders = arg;
	struct ripc_holder *list = realloc(holders->list, (holders->n + 1) * sizeof(*list));

	holders->no_memory = !list;
	if (!list)
		return 1;
	holders->list = list;
	list[holders->n++] = *holder;
	return 0;
}

static PyObject *holder_dicts(const struct holders *holders)
{
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < holders->n; i++) {
		const struct ripc_holder *holder = &holders->list[i];

		if (append(list, Py_BuildValue("{s:K,s:K,s:K,s:K}", "id",
				(unsigned long long)holder->id, "incarnation",
				(unsigned long long)holder->incarnation, "bytes",
				(unsigned long long)holder->bytes, "messages",
				(unsigned long long)holder->messages)))
			Py_CLEAR(list);
	}
	return list;
}

PyObject *context_holders(PyObject *self, PyObject *unused)
{
	struct ripc_context *ctx = context_use((struct context *)self);
	struct holders holders = {0};
	PyObject *list;
	int n;

	(void)unused;
	if (!ctx)
		return NULL;
	n = ripc_holders(ctx, add_holder, &holders);
	if (holders.no_memory)
		n = -ENOMEM;
	list = n < 0 ? error_raise(n, 0, NULL) : holder_dicts(&holders);
	free(holders.list);
	return list;
}

static int add_listings(PyObject *list, const struct ripc_listing *found, int n)
{
	for (int i = 0; i < n; i++) {
		if (append(list, Py_BuildValue("{s:K,s:K,s:N,s:s,s:s}", "id",
				(unsigned long long)found[i].id, "incarnation",
				(unsigned long long)found[i].incarnation, "local",
				PyBool_FromLong(found[i].local), "source", found[i].source,
				"address", found[i].address)))
			return -1;
	}
	return 0;
}

/* A slice of the time. Returns whether to go on; -1: an exception was raised. */
static int list_slice(struct context *context, struct ripc_lister *lister, int64_t until_ms,
		PyObject *list)
{
	struct ripc_listing found[LIST_PAGE];
	int more_ms = left_ms(until_ms), n;
	PyThreadState *state;

	state = context_leave_python(context);
	n = ripc_lister_next(lister, more_ms < SLICE_MS ? more_ms : SLICE_MS,
		found, LIST_PAGE, sizeof(found[0]));
	context_enter_python(context, state);
	if (n > 0)
		return add_listings(list, found, n) || PyErr_CheckSignals() ? -1 : 1;
	if (n != -ETIMEDOUT && n != -EAGAIN && n != -EINTR) {
		error_raise(n, 0, NULL);
		return -1;
	}
	return PyErr_CheckSignals() ? -1 : more_ms > 0;
}

/* A handler of a signal, or another thread, may close the context meanwhile, with the lister. */
PyObject *context_list(PyObject *self, PyObject *timeout)
{
	struct context *context = (struct context *)self;
	struct ripc_lister *lister;
	struct ripc_context *ctx;
	int timeout_ms, more = 1;
	PyObject *list;
	int64_t until_ms;

	if (timeout_read(timeout, 1000, &timeout_ms))
		return NULL;
	ctx = context_use(context);
	if (!ctx)
		return NULL;
	more = ripc_lister_open(ctx, &lister);
	if (more)
		return error_raise(more, 0, NULL);
	until_ms = now_ms() + timeout_ms;
	list = PyList_New(0);
	more = list ? 1 : -1;
	while (more > 0)
		more = context_use(context) ? list_slice(context, lister, until_ms, list) : -1;
	if (context->ctx && !context->closing)
		ripc_lister_close(lister);
	if (more < 0)
		Py_CLEAR(list);
	return list;
}

/* A list that is being made by a callback; NULL after a failure, which was raised. */
static int add_finding(void *arg, const struct ripc_finding *finding)
{
	PyObject **list = arg;

	if (append(*list, Py_BuildValue("{s:s,s:s,s:N,s:s,s:s}", "kind", finding->kind,
			"name", finding->name, "usable", PyBool_FromLong(finding->usable),
			"detail", finding->detail, "remedy", finding->remedy)))
		Py_CLEAR(*list);
	return !*list;
}

PyObject *module_probe(PyObject *module, PyObject *unused)
{
	PyObject *list = PyList_New(0);
	int error;

	(void)module;
	(void)unused;
	if (!list)
		return NULL;
	error = ripc_probe(NULL, add_finding, &list);
	if (error >= 0 || !list)
		return list;
	Py_DECREF(list);
	return error_raise(error, 0, NULL);
}

/* ---- paths ----------------------------------------------------------------------------- */

PyObject *service_path(PyObject *self, PyObject *to)
{
	struct service *service = (struct service *)self;
	struct ripc_path path = {.size = sizeof(path)};
	uint64_t id;
	int error;

	if (id_read(to, &id) || !service_use(service))
		return NULL;
	error = ripc_path_info(service->svc, id, &path);
	if (error)
		return error_raise(error, 0, path.others[0] ? path.others : NULL);
	return Py_BuildValue("{s:s,s:s,s:s,s:I,s:I,s:K,s:K,s:s}", "backend", path.backend,
		"bulk", path.bulk, "address", path.address,
		"short_max_bytes", path.short_max_bytes, "datagram_bytes", path.datagram_bytes,
		"rtt_us", (unsigned long long)path.rtt_us,
		"incarnation", (unsigned long long)path.incarnation, "others", path.others);
}
