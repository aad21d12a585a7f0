/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What there is to know: log, statistics, services, paths, holders, backends.
 *
 * The library calls the function for a line of its log with its locks held, on any thread; to take
 * the GIL there could stand still for ever. So lines are kept until Python asks for them.
 */
#include "binding.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	uint32_t place;

	if (level > RIPC_LOG_WARN)
		return;
	pthread_mutex_lock(&log->lock);
	if (log->n == LOG_LINES)
		log->first++;
	else
		log->n++;
	place = (log->first + log->n - 1) % LOG_LINES;
	log->level[place] = level;
	snprintf(log->text[place], LOG_TEXT, "%s", text);
	pthread_mutex_unlock(&log->lock);
}

void log_errors(struct log *log, char *text, size_t size)
{
	size_t len = 0;

	text[0] = '\0';
	pthread_mutex_lock(&log->lock);
	for (uint32_t i = 0; i < log->n; i++) {
		uint32_t place = (log->first + i) % LOG_LINES;

		if (len < size)
			len += (size_t)snprintf(text + len, size - len, "%s%s", len ? "; " : "",
				log->text[place]);
	}
	pthread_mutex_unlock(&log->lock);
}

/* False: there is none. */
static bool log_take(struct log *log, int *level, char text[LOG_TEXT])
{
	bool any;

	pthread_mutex_lock(&log->lock);
	any = log->n > 0;
	if (any) {
		*level = log->level[log->first % LOG_LINES];
		memcpy(text, log->text[log->first % LOG_LINES], LOG_TEXT);
		log->first++;
		log->n--;
	}
	pthread_mutex_unlock(&log->lock);
	return any;
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
	PyObject *lines = PyList_New(0);
	char text[LOG_TEXT];
	int level;

	(void)unused;
	if (context_is_foreign(context)) /* its lock may be another thread's, which is not here */
		return lines;
	while (lines && log_take(context->log, &level, text))
		if (append(lines, Py_BuildValue("is", level, text)))
			Py_CLEAR(lines);
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

/* A list that is being made by a callback; NULL after a failure, which was raised. */
static void add_holder(void *arg, const struct ripc_holder *holder)
{
	PyObject **list = arg;

	if (*list && append(*list, Py_BuildValue("{s:K,s:K,s:K,s:K}", "id",
			(unsigned long long)holder->id, "incarnation",
			(unsigned long long)holder->incarnation, "bytes",
			(unsigned long long)holder->bytes, "messages",
			(unsigned long long)holder->messages)))
		Py_CLEAR(*list);
}

PyObject *context_holders(PyObject *self, PyObject *unused)
{
	struct ripc_context *ctx = context_use((struct context *)self);
	PyObject *list = ctx ? PyList_New(0) : NULL;
	int n;

	(void)unused;
	if (!list)
		return NULL;
	n = ripc_holders(ctx, add_holder, &list);
	if (n >= 0 || !list)
		return list;
	Py_DECREF(list);
	return error_raise(n, 0, NULL);
}

/* The library lists with its locks held: without Python. */
struct listed {
	struct listed *next;
	uint64_t id, incarnation;
	int local;
	char source[32], address[128];
};

static void add_listed(void *arg, const struct ripc_listing *listing)
{
	struct listed **first = arg, *listed = malloc(sizeof(*listed));

	if (!listed)
		return; /* one less is listed */
	*listed = (struct listed){.next = *first, .id = listing->id,
		.incarnation = listing->incarnation, .local = listing->local};
	snprintf(listed->source, sizeof(listed->source), "%s", listing->source);
	snprintf(listed->address, sizeof(listed->address), "%s", listing->address);
	*first = listed;
}

static PyObject *listed_dicts(struct listed *first)
{
	PyObject *list = PyList_New(0);

	while (first) {
		struct listed *next = first->next;

		if (list && append(list, Py_BuildValue("{s:K,s:K,s:N,s:s,s:s}", "id",
				(unsigned long long)first->id, "incarnation",
				(unsigned long long)first->incarnation, "local",
				PyBool_FromLong(first->local), "source", first->source,
				"address", first->address)))
			Py_CLEAR(list);
		free(first);
		first = next;
	}
	return list;
}

PyObject *context_list(PyObject *self, PyObject *timeout)
{
	struct context *context = (struct context *)self;
	struct ripc_context *ctx;
	struct listed *first = NULL;
	PyThreadState *state;
	PyObject *list;
	int timeout_ms, n;

	if (timeout_read(timeout, 1000, &timeout_ms))
		return NULL;
	ctx = context_use(context);
	if (!ctx)
		return NULL;
	state = context_leave_python(context);
	n = ripc_list(ctx, timeout_ms, add_listed, &first);
	context_enter_python(context, state);
	list = listed_dicts(first);
	if (n >= 0 || !list)
		return list;
	Py_DECREF(list);
	return error_raise(n, 0, NULL);
}

static void add_finding(void *arg, const struct ripc_finding *finding)
{
	PyObject **list = arg;

	if (*list && append(*list, Py_BuildValue("{s:s,s:s,s:N,s:s,s:s}", "kind", finding->kind,
			"name", finding->name, "usable", PyBool_FromLong(finding->usable),
			"detail", finding->detail, "remedy", finding->remedy)))
		Py_CLEAR(*list);
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
