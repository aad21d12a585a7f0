/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The objects of the Python binding, and who keeps what alive.
 *
 * Design notes. A Message and a Buffer keep the Context's memory alive, as far as somebody looks
 * into it: their "exports" count the views. Context.close() gives back what nobody looks at; the
 * library's context is closed with the last view. A Service may be closed while other threads are
 * in its calls: "busy" counts them, and close() ends them first. All counts and lists are guarded
 * by the GIL. A call that may wait for the network is made without the GIL, others with it.
 *
 * Objects that the library uses after a call has returned (items of a send that does not wait,
 * return buffers, windows) are held in a table of the service. Its places are the cookies that the
 * library sees; the cookie of the program is any object, and is kept in there.
 *
 * Reading an argument can run any Python code (__index__, __float__, __buffer__, __getitem__,
 * garbage collection), which may close the service and the context. Therefore a method first reads
 * all arguments, and then takes the service or context by service_use() or context_use().
 */
#ifndef RIPC_PYTHON_BINDING_H
#define RIPC_PYTHON_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <ripc/call.h>
#include <ripc/group.h>
#include <ripc/keys.h>
#include <ripc/ripc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <structmember.h>

#define NOTE_LEN 1024
#define SLICE_MS 250 /* for which the main thread waits before it looks for signals */

/* A ring. The node of a list that has no members leads to itself. */
struct node {
	struct node *next, *before;
};

/* Errors and warnings of an opening, for the exception if it fails. */
struct log {
	pthread_mutex_t lock;
	bool opened;
	size_t len;
	char text[NOTE_LEN];
};

struct registered {
	struct registered *next;
	Py_buffer view;
};

struct context {
	PyObject_HEAD
	struct ripc_context *ctx;      /* NULL: closed for good */
	struct node services;          /* of struct service */
	struct node memory;            /* of struct memory: what must be free before ctx closes */
	struct registered *registered;
	struct log *log;
	uint32_t generation;           /* of the process that opened it: fork_generation then */
	uint32_t busy;                 /* threads that are in a call of the context */
	atomic_uint errands;           /* of it that have not ended (wait.c) */
	int timeout_ms;                /* the default of sends and calls */
	bool closing;                  /* close() was called */
	bool ending;                   /* and nothing runs in it any more */
	bool deferred;                 /* and has done all but to close ctx: somebody looks */
};

/* The beginning of what lives in the library's memory: a Message or a Buffer. */
struct memory {
	PyObject_HEAD
	struct node node;              /* context->memory; leads to itself: it has no memory */
	Py_ssize_t exports;
};

struct hold;

/* Memory posted to the library; the place in the table is the library's cookie. */
struct holds {
	struct hold *table;
	uint32_t n, first_free;        /* n: none is free */
};

/* An int or str that names a service, and its ID: most name the same object again. */
struct known {
	PyObject *object;              /* NULL: none yet */
	uint64_t id;
};

struct service {
	PyObject_HEAD
	struct node node;              /* context->services */
	struct context *context;
	struct ripc_service *svc;      /* NULL: closed */
	struct holds holds;
	uint32_t busy;
	atomic_uint errands;           /* of it that have not ended (wait.c) */
	uint32_t wakes;                /* of wake(), not yet told */
	uint32_t n_left;               /* sends and calls whose ends are to be collected */
	bool closing;
	uint8_t tries;                 /* see receive() */
	bool often;                    /* a message was there when last looked for */
	struct known to, from;         /* of the last send and the last from_id */
	struct message *spare;         /* memory for the next Message; NULL: none */
	struct ripc_msg *kept;         /* received when a signal came, for the next receive() */
	int fd;                        /* an epoll of the library's descriptor; -1: none yet */
	int library_fd;
	bool told;                     /* fd is readable because of kept */
};

struct message {
	struct memory memory;
	struct service *service;
	struct ripc_msg *msg;          /* NULL: freed */
	struct ripc_msg head;          /* a copy: without items and places once it was freed */
	PyObject *cookie;              /* NULL: none */
	PyObject *lent;                /* a tuple; NULL: all items are in the pool */
	Py_buffer *landed;             /* windows and return buffers that it lies in */
	uint32_t n_landed;
};

struct buffer {
	struct memory memory;
	struct context *context;
	void *mem;                     /* NULL: freed */
	Py_ssize_t len;
};

/* Items of a message to be sent, or places that are lent. */
struct items {
	uint32_t n;
	struct iovec iov[RIPC_ITEMS_MAX];
	Py_buffer views[RIPC_ITEMS_MAX];
};

enum hold_kind { HOLD_FREE, HOLD_SEND, HOLD_CALL, HOLD_WINDOW, HOLD_WATCH };

struct hold {
	uint32_t generation, next_free;
	uint8_t kind, n_items, n_returns; /* views that are still held */
	bool given;                    /* each item has a reference, for RIPC_GIVE */
	bool is_left;                  /* nobody waits for the end: it is collected */
	uint64_t id;                   /* HOLD_WATCH: the ID that is watched */
	PyObject *cookie;
	Py_buffer *items, *returns;
};

extern PyTypeObject *context_type, *service_type, *message_type, *item_type, *buffer_type;
extern uint32_t fork_generation;

/* ---- module.c -------------------------------------------------------------------------- */

/* Is this the thread that runs the handlers of signals? */
bool is_main_thread(void);

static inline void node_init(struct node *node)
{
	node->next = node->before = node;
}

static inline void node_append(struct node *list, struct node *node)
{
	node->next = list;
	node->before = list->before;
	list->before->next = node;
	list->before = node;
}

static inline void node_remove(struct node *node)
{
	node->before->next = node->next;
	node->next->before = node->before;
	node_init(node);
}

#define container_of(pointer, type, member) \
	((type *)(void *)((char *)(pointer) - offsetof(type, member)))

/* ---- errors.c -------------------------------------------------------------------------- */

int errors_init(void);
/* The exception for a negative errno; note (may be NULL) says more. NULL: another was raised. */
PyObject *error_new(int error, int outcome, const char *note);
/* Raises it. Returns NULL. */
PyObject *error_raise(int error, int outcome, const char *note);
/* None, or the exception. */
PyObject *error_or_none(int error);
/* After a failure of receive(): that the service has ended is no error of an iteration. */
void errors_end_iteration(void);

/* ---- arguments.c ----------------------------------------------------------------------- */

/* An argument by its name; those that may stand without a name come first. */
struct argument {
	const char *name;
	PyObject *value; /* borrowed; NULL: not given */
};

/* The arguments of a call with METH_FASTCALL | METH_KEYWORDS. */
struct call {
	PyObject *const *args;
	Py_ssize_t n;
	PyObject *names;
};

/* Fills arguments; n_needed of them must be given, n_placed may be without a name. 0, or -1. */
int arguments_read(const struct call *call, struct argument *arguments, int n, int n_needed,
		int n_placed);
/* An ID, or a name. 0, or -1. */
int id_read(PyObject *object, uint64_t *id);
/* The same of one that is sent to. */
int to_read(struct service *service, PyObject *object, uint64_t *id);
/* From now on this object, which must be an int or a str, is known. */
void known_set(struct known *known, PyObject *object, uint64_t id);
int number_read(PyObject *object, uint64_t *number);
/* Seconds; NULL or None: missing. 0, or -1. */
int timeout_read(PyObject *object, int missing, int *timeout_ms);
/* The same for what cannot but wait: 0 is an error. */
int deadline_read(PyObject *object, int *timeout_ms);
/* 1, 0, or -1. NULL: 0 */
int truth_read(PyObject *object);
/* One object with a buffer, or a list or tuple of such. 0, or -1 and nothing is held. */
int items_read(struct items *items, PyObject *data, int flags);
void items_release(struct items *items);
void views_release(Py_buffer *views, uint32_t n);
/* Takes a reference of each for RIPC_GIVE. 0, or a negative errno. */
int items_give(struct context *context, const struct items *items);
void items_keep(struct context *context, const Py_buffer *views, uint32_t n);

/* ---- hold.c ---------------------------------------------------------------------------- */

/*
 * Takes the views of items and returns (either may be NULL) and a reference to cookie. Returns
 * the library's cookie of it; 0: no memory, nothing was taken, an exception was raised.
 */
uint64_t hold_take(struct holds *holds, enum hold_kind kind, PyObject *cookie,
		struct items *items, struct items *returns);
/* NULL: there is none, or not any more. */
struct hold *hold_get(struct holds *holds, uint64_t cookie);
/* The library's cookie of what is held at that place. */
uint64_t hold_cookie(const struct holds *holds, uint32_t place);
/* Gives the hold, which has no items, the views of items. 0; -1: no memory. */
int hold_adopt(struct hold *hold, struct items *items);
/* The functions below may run any Python code, and the hold may be gone afterwards. */
void hold_items_end(struct holds *holds, struct hold *hold);
void hold_returns_end(struct holds *holds, struct hold *hold);
void hold_end(struct holds *holds, struct hold *hold);
/* Back to where it came from: the call has failed. */
void hold_undo(struct holds *holds, uint64_t cookie);
void holds_clear(struct holds *holds);
int holds_visit(struct holds *holds, visitproc visit, void *arg);

/* ---- context.c ------------------------------------------------------------------------- */

/* Raises, and returns NULL, if it is closed. */
struct ripc_context *context_use(struct context *context);
/* A child of the process that opened it must not touch its memory. */
bool context_is_foreign(const struct context *context);
/* The memory of a Message or Buffer is free; it may have been the last that close() waits for. */
void context_memory_gone(struct context *context, struct memory *memory);
/* Without the GIL: what waits is counted, so that close() knows of it. */
PyThreadState *context_leave_python(struct context *context);
void context_enter_python(struct context *context, PyThreadState *state);

/* ---- info.c ---------------------------------------------------------------------------- */

struct log *log_new(void);
void log_free(struct log *log);
void log_line(void *log, int level, const char *text);
/* The context is open: from now on ripc_log_next() has the log. */
void log_opened(struct log *log);
PyObject *context_log(PyObject *self, PyObject *unused);
PyObject *context_stats(PyObject *self, PyObject *unused);
PyObject *context_holders(PyObject *self, PyObject *unused);
PyObject *context_list(PyObject *self, PyObject *timeout);
PyObject *service_path(PyObject *self, PyObject *to);
PyObject *module_probe(PyObject *module, PyObject *unused);

/* ---- wait.c ---------------------------------------------------------------------------- */

/* The monotonic clock. */
int64_t now_ms(void);
/* Until then; 0: it is over. */
int left_ms(int64_t until_ms);
/* For how long this thread waits before it looks for signals; timeout_ms -1: for ever. */
int slice_ms(int timeout_ms);
/* Lets other threads run for a while, less than a second. */
void pause_ms(int ms);

/* A send or call of RIPC_AWAITED. */
struct awaited {
	uint64_t cookie;            /* of its hold */
	struct items *items;        /* the items to send; NULL: the hold has them */
	bool given;                 /* RIPC_GIVE; for items */
	enum ripc_outcome outcome;  /* set when end_await() fails */
};

/*
 * Waits for the end; error is what the first ripc_receive_end() has returned. 0: *end is there.
 * Else -1, and an exception was raised: by a handler, after which the send or call was cancelled,
 * or because the service was closed. The hold has ended then, or has the items, and *items none.
 */
int end_await(struct service *service, struct awaited *awaited, int error, struct ripc_msg **end);
/* Ends of sends and calls that nobody waited for any more: gives their memory back. */
void ends_collect(struct service *service);
/* An exception was raised when this was the outcome: its context tells. Returns NULL. */
PyObject *outcome_note(enum ripc_outcome outcome);

/*
 * A call of the library that waits, made by a thread of its own while the main thread waits and
 * looks for signals. Other threads make it themselves.
 */
struct errand {
	int (*run)(struct errand *errand);   /* the call; without the GIL, as undo */
	void (*undo)(struct errand *errand); /* nobody wants the result; or NULL: of a service */
	PyObject *owner;             /* is kept until the end */
	atomic_uint *running;        /* the owner's count of them; not guarded by the GIL */
	struct ripc_context *ctx;
	struct ripc_service *svc;
	int timeout_ms, result;
	uint64_t id, rtt_ns;
	uint64_t *ids;               /* freed with it, as svcs */
	struct ripc_service **svcs;
	size_t n;
	struct ripc_config cfg;
	PyObject *strings;           /* keeps those of cfg; or NULL */
	pthread_t thread;
	int fd;                      /* readable when it has ended */
	atomic_int state;
};

/* NULL: no memory, which was raised. */
struct errand *errand_new(PyObject *owner, atomic_uint *running);
/*
 * 0: errand->result. -1: an exception was raised, and the errand is gone. A handler may have closed
 * the owner meanwhile, and with it all that was opened there.
 */
int errand_run(struct errand *errand);
void errand_end(struct errand *errand);

/* ---- service.c, send.c, calls.c, windows.c --------------------------------------------- */

PyObject *service_new(struct context *context, struct ripc_service *svc);
struct ripc_service *service_use(struct service *service);
/* Ends what other threads do in it, then the service. */
void service_end(struct service *service);
/* Has a long send of it not ended? */
bool service_is_sending(const struct service *service);
/* Waits a while for the end of one, and drops what is received. 0, or -1 and an exception. */
int service_drop_one(struct service *service, int64_t until_ms);
PyThreadState *service_leave_python(struct service *service);
void service_enter_python(struct service *service, PyThreadState *state);
PyObject *service_send_short(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *service_send_long(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *service_send(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* 1, 0, or -1 and an exception was raised; may run any Python code. */
int cookie_matches(struct holds *holds, uint32_t place, PyObject *cookie);
PyObject *service_cancel(PyObject *self, PyObject *cookie);
PyObject *service_call(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *service_call_start(PyObject *self, PyObject *const *args, Py_ssize_t n,
		PyObject *names);
/* The sentence of an error that came from the server. */
#define REMOTE_ERROR "the server has replied with this error"
/* The meaning of a reply's error, besides its sentence; NULL: nothing. */
const char *answer_note(int status, enum ripc_outcome asked);
PyObject *service_reply(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *service_reply_error(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *service_watch(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *service_unwatch(PyObject *self, PyObject *id);
PyObject *service_join(PyObject *self, PyObject *group);
PyObject *service_leave_group(PyObject *self, PyObject *group);
PyObject *service_window_post(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *service_window_cancel(PyObject *self, PyObject *cookie);

/* ---- message.c, buffer.c --------------------------------------------------------------- */

/* Takes msg, also when it fails. service->holds is told what has come back. */
PyObject *message_new(struct service *service, struct ripc_msg *msg);
/* Gives the library its memory back. */
void message_free(struct message *message);
PyObject *buffer_new(struct context *context, Py_ssize_t len);
void buffer_free(struct buffer *buffer);

extern PyType_Spec context_spec, service_spec, message_spec, item_spec, buffer_spec;

#endif
