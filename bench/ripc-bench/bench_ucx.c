/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX in ripc-bench: tagged messages of UCP from and into memory that UCX allocates and registers,
 * receives posted before the messages come. Each link has a context and a worker of its own. A
 * polling end calls ucp_worker_progress(); a sleeping one arms the worker and waits for its
 * descriptor.
 *
 * ucx-one has all messages in one place at each end, where ucx_perftest has them, so that
 * bench/compare/fairness can compare the two. They overwrite one another, so nobody may look at
 * them: what is sent was written once, before, and the client writes its numbers elsewhere.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <unistd.h>
#include "bench_link.h"

#define TAG	      1
#define DRAIN_TRIES   100000
#define NOT_SUMMED_UP (1ull << 32) /* of no message of a warm-up is this the number */

struct slot {
	void *request; /* under way, or NULL */
	ucp_tag_recv_info_t info;
};

/* Messages of one direction, used in turn. */
struct ring {
	char *memory;
	ucp_mem_h handle;
	int one_place;	    /* all lie where the first one does */
	size_t step;	    /* from one message to the next */
	char *aside;	    /* with one_place: where messages are written, and never sent from */
	unsigned int n, at; /* at: the one that is next to be used */
	struct slot *slots;
};

struct end {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h ep;
	int fd; /* to sleep on */
	struct ring in, out;
};

static int failure(ucs_status_t status)
{
	switch (status) {
	case UCS_OK:
		return 0;
	case UCS_ERR_NO_MEMORY:
		return -ENOMEM;
	case UCS_ERR_TIMED_OUT:
	case UCS_ERR_ENDPOINT_TIMEOUT:
		return -ETIMEDOUT;
	case UCS_ERR_CONNECTION_RESET:
		return -ECONNRESET;
	case UCS_ERR_UNREACHABLE:
	case UCS_ERR_NO_DEVICE:
		return -EHOSTUNREACH;
	case UCS_ERR_MESSAGE_TRUNCATED:
		return -EMSGSIZE;
	default:
		return -EPROTO;
	}
}

/* ---- memory ---- */

static void *slot_memory(const struct ring *ring, unsigned int i)
{
	return ring->memory + i * ring->step;
}

static int open_ring(struct end *end, struct ring *ring, unsigned int n, size_t size)
{
	ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
	ucp_mem_map_params_t params = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
			      UCP_MEM_MAP_PARAM_FIELD_FLAGS,
		.flags = UCP_MEM_MAP_ALLOCATE,
	};
	size_t room = (size + 63) & ~(size_t)63;
	ucs_status_t status;
	unsigned int i;

	ring->n = n;
	ring->step = ring->one_place ? 0 : room;
	ring->slots = calloc(n, sizeof(ring->slots[0]));
	if (!ring->slots)
		return -ENOMEM;
	params.length = ring->one_place ? 2 * room : n * room;
	status = ucp_mem_map(end->context, &params, &ring->handle);
	if (status == UCS_OK)
		status = ucp_mem_query(ring->handle, &attr);
	if (status != UCS_OK)
		return failure(status);
	ring->memory = attr.address;
	ring->aside = ring->memory + room;
	for (i = 0; i < n; i++)
		bench_fill(slot_memory(ring, i), size, ring->one_place ? NOT_SUMMED_UP : 0);
	return 0;
}

/* Requests in progress are given up, or UCX would complain of each. */
static void drain_ring(struct end *end, struct ring *ring)
{
	unsigned int i, tries;

	for (i = 0; ring->slots && i < ring->n; i++) {
		if (!ring->slots[i].request)
			continue;
		ucp_request_cancel(end->worker, ring->slots[i].request);
		for (tries = 0; tries < DRAIN_TRIES; tries++) {
			if (ucp_request_check_status(ring->slots[i].request) != UCS_INPROGRESS)
				break;
			ucp_worker_progress(end->worker);
		}
		ucp_request_free(ring->slots[i].request);
	}
}

static void close_ring(struct end *end, struct ring *ring)
{
	if (ring->handle)
		ucp_mem_unmap(end->context, ring->handle);
	free(ring->slots);
}

/* ---- an end ---- */

static void close_end(struct bench_link *link)
{
	struct end *end = link->state;

	drain_ring(end, &end->out);
	drain_ring(end, &end->in);
	/* Its endpoint goes with it. */
	if (end->worker)
		ucp_worker_destroy(end->worker);
	close_ring(end, &end->in);
	close_ring(end, &end->out);
	if (end->context)
		ucp_cleanup(end->context);
	free(end);
}

static ucs_status_t open_context(const struct bench_link *link, struct end *end)
{
	ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
		.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
		.estimated_num_eps = 1,
	};
	ucp_config_t *config;
	ucs_status_t status = ucp_config_read(NULL, NULL, &config);

	if (status != UCS_OK)
		return status;
	if (strcmp(link->variant, "tcp") == 0)
		status = ucp_config_modify(config, "TLS", "tcp");
	if (status == UCS_OK)
		status = ucp_init(&params, config, &end->context);
	ucp_config_release(config);
	return status;
}

static ucs_status_t open_worker(struct end *end, char *address, size_t *len)
{
	ucp_worker_params_t params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SINGLE,
	};
	ucp_address_t *own;
	ucs_status_t status = ucp_worker_create(end->context, &params, &end->worker);

	if (status == UCS_OK)
		status = ucp_worker_get_efd(end->worker, &end->fd);
	if (status == UCS_OK)
		status = ucp_worker_get_address(end->worker, &own, len);
	if (status != UCS_OK)
		return status;
	if (*len <= BENCH_ADDRESS_LEN)
		memcpy(address, own, *len);
	else
		status = UCS_ERR_BUFFER_TOO_SMALL;
	ucp_worker_release_address(end->worker, own);
	return status;
}

static int post_receive(struct end *end, size_t size, unsigned int i)
{
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
		.memh = end->in.handle,
	};
	void *request = ucp_tag_recv_nbx(
		end->worker, slot_memory(&end->in, i), size, TAG, UINT64_MAX, &param);

	if (UCS_PTR_IS_ERR(request))
		return failure(UCS_PTR_STATUS(request));
	end->in.slots[i].request = request;
	return 0;
}

static int open_end(struct bench_link *link, char *address, size_t *len)
{
	int err, one_place = strcmp(link->variant, "one") == 0;
	struct end *end;
	unsigned int i;

	if (one_place && !link->job->untouched) {
		fprintf(stderr,
			"%s: ucx-one: messages overwrite each other: only with --untouched\n",
			PROGRAM);
		return -EOPNOTSUPP;
	}
	end = calloc(1, sizeof(*end));
	if (!end)
		return -ENOMEM;
	link->state = end;
	*(link->serves ? &end->in.one_place : &end->out.one_place) = one_place;
	/* UCX warns on the standard output, which is the report's. */
	dup2(STDERR_FILENO, STDOUT_FILENO);
	err = failure(open_context(link, end));
	if (err == 0)
		err = failure(open_worker(end, address, len));
	if (err == 0)
		err = open_ring(end, &end->in, link->n_in, link->in_size);
	if (err == 0)
		err = open_ring(end, &end->out, link->n_out, link->out_size);
	for (i = 0; err == 0 && i < end->in.n; i++)
		err = post_receive(end, link->in_size, i);
	if (err < 0)
		close_end(link);
	return err;
}

static int connect_end(struct bench_link *link, const char *address, size_t len)
{
	struct end *end = link->state;
	ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
		.address = (const ucp_address_t *)address,
	};

	if (len == 0)
		return -EBADMSG;
	return failure(ucp_ep_create(end->worker, &params, &end->ep));
}

/* ---- messages ---- */

/* The sender's memory, as soon as what was sent from there last is done. */
static int get_buffer(struct bench_link *link, void **buffer)
{
	struct end *end = link->state;
	struct slot *slot = &end->out.slots[end->out.at];
	uint64_t end_ns = 0, i;
	ucs_status_t status;

	for (i = 1; slot->request; i++) {
		status = ucp_request_check_status(slot->request);
		if (status != UCS_INPROGRESS) {
			ucp_request_free(slot->request);
			slot->request = NULL;
			if (status != UCS_OK)
				return failure(status);
			break;
		}
		ucp_worker_progress(end->worker);
		if (i % BENCH_POLLS)
			continue;
		end_ns = end_ns ? end_ns : tool_now_ns() + BENCH_STALL_MS * 1000000ull;
		if (tool_now_ns() > end_ns)
			return -ETIMEDOUT;
	}
	*buffer = end->out.one_place ? end->out.aside : slot_memory(&end->out, end->out.at);
	return 0;
}

static int send_buffer(struct bench_link *link)
{
	struct end *end = link->state;
	unsigned int i = end->out.at;
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH,
		.memh = end->out.handle,
	};
	void *request =
		ucp_tag_send_nbx(end->ep, slot_memory(&end->out, i), link->out_size, TAG, &param);

	if (UCS_PTR_IS_ERR(request))
		return failure(UCS_PTR_STATUS(request));
	end->out.slots[i].request = request;
	end->out.at = (i + 1) % end->out.n;
	return 0;
}

/* Is the receive done whose turn it is? -EAGAIN: not yet. */
static int take(struct bench_link *link, const void **message)
{
	struct end *end = link->state;
	struct slot *slot = &end->in.slots[end->in.at];
	ucs_status_t status = UCS_ERR_NO_RESOURCE; /* posting it has failed */

	if (slot->request)
		status = ucp_tag_recv_request_test(slot->request, &slot->info);
	if (status == UCS_INPROGRESS)
		return -EAGAIN;
	if (slot->request)
		ucp_request_free(slot->request);
	slot->request = NULL;
	if (status != UCS_OK)
		return failure(status);
	*message = slot_memory(&end->in, end->in.at);
	return slot->info.length == link->in_size ? 0 : -EBADMSG;
}

/* Sleeps until something may have happened. */
static int sleep_until_event(struct end *end, int timeout_ms)
{
	struct pollfd poll_fd = {.fd = end->fd, .events = POLLIN};
	ucs_status_t status = ucp_worker_arm(end->worker);

	if (status == UCS_ERR_BUSY)
		return 0;
	if (status != UCS_OK)
		return failure(status);
	if (poll(&poll_fd, 1, timeout_ms) < 0 && errno != EINTR)
		return -errno;
	return 0;
}

static int receive(struct bench_link *link, int timeout_ms, const void **message)
{
	struct end *end = link->state;
	uint64_t end_ns = timeout_ms ? tool_now_ns() + (uint64_t)timeout_ms * 1000000 : 0;
	int err, busy;

	for (;;) {
		busy = ucp_worker_progress(end->worker) > 0;
		err = take(link, message);
		if (err != -EAGAIN || !timeout_ms)
			return err;
		if (busy)
			continue;
		err = sleep_until_event(end, timeout_ms);
		if (err < 0)
			return err;
		if (tool_now_ns() > end_ns)
			return -ETIMEDOUT;
	}
}

static void release(struct bench_link *link)
{
	struct end *end = link->state;
	unsigned int i = end->in.at;

	end->in.at = (i + 1) % end->in.n;
	post_receive(end, link->in_size, i);
}

static const struct bench_link_calls calls = {
	.open = open_end,
	.connect = connect_end,
	.buffer = get_buffer,
	.send = send_buffer,
	.recv = receive,
	.release = release,
	.close = close_end,
};

BENCH_LINK_FUNCTIONS(calls, any)
BENCH_LINK_FUNCTIONS(calls, tcp)
BENCH_LINK_FUNCTIONS(calls, one)

#define SETTINGS                                                                                   \
	"tagged messages, UCS_THREAD_MODE_SINGLE, memory by ucp_mem_map(), receives posted "       \
	"beforehand, UCP_FEATURE_WAKEUP"

static const struct bench_peer ucx_any = {
	.name = "ucx",
	.settings = SETTINGS,
	.halves = BENCH_LINK_HALVES(any),
};

static const struct bench_peer ucx_tcp = {
	.name = "ucx-tcp",
	.settings = SETTINGS ", UCX_TLS=tcp",
	.halves = BENCH_LINK_HALVES(tcp),
};

static const struct bench_peer ucx_one = {
	.name = "ucx-one",
	.settings = SETTINGS ", all messages in one place",
	.halves[BENCH_BANDWIDTH] = {serve_one, measure_one},
};

BENCH_MODULE(&ucx_any, &ucx_tcp, &ucx_one);
