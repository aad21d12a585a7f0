/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric in ripc-bench: messages of FI_EP_RDM endpoints, over its tcp provider with ofi_rxm, and
 * over its shm provider; what is short enough goes by fi_inject(), the rest from and into
 * registered memory, receives posted before the messages come. Each link has a domain of its own. A
 * polling end calls fi_cq_read(), a sleeping one fi_cq_sread(). The shm provider has nothing to
 * sleep on: there that polls and yields the processor, whatever --spin says; its own FI_WAIT_YIELD
 * does that too, but knows no timeout.
 */
#include <errno.h>
#include <netdb.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include "bench_link.h"

struct slot {
	struct fi_context2 context; /* the provider's while it is busy */
	int busy;
	size_t len; /* of what was received */
};

/* Messages of one direction, used in turn. */
struct ring {
	char *memory;
	struct fid_mr *mr;
	size_t step;	    /* from one message to the next */
	unsigned int n, at; /* at: the one that is next to be used */
	struct slot *slots;
};

struct end {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	fi_addr_t to;
	int yields;	/* instead of sleeping */
	char name[128]; /* of our shared memory, while it is needed */
	struct ring in, out;
};

/* libfabric's codes are errno's as far as these go. */
static int failure(ssize_t status)
{
	return status >= 0 ? 0 : status > -FI_ERRNO_OFFSET ? (int)status : -EPROTO;
}

static int over_shm(const struct bench_link *link)
{
	return strcmp(link->variant, "shm") == 0;
}

/* ---- memory ---- */

static void *slot_memory(const struct ring *ring, unsigned int i)
{
	return ring->memory + i * ring->step;
}

static int open_ring(struct end *end, struct ring *ring, unsigned int n, size_t size)
{
	unsigned int i;

	ring->n = n;
	ring->step = (size + 63) & ~(size_t)63;
	ring->slots = calloc(n, sizeof(ring->slots[0]));
	ring->memory = aligned_alloc(64, ring->step * n);
	if (!ring->slots || !ring->memory)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		bench_fill(slot_memory(ring, i), size, 0);
	if (!(end->info->domain_attr->mr_mode & FI_MR_LOCAL))
		return 0;
	return failure(fi_mr_reg(end->domain, ring->memory, ring->step * n, FI_SEND | FI_RECV, 0, 0,
		0, &ring->mr, NULL));
}

static void *desc_of(const struct ring *ring)
{
	return ring->mr ? fi_mr_desc(ring->mr) : NULL;
}

static void close_ring(struct ring *ring)
{
	if (ring->mr)
		fi_close(&ring->mr->fid);
	free(ring->memory);
	free(ring->slots);
}

/* ---- an end ---- */

static void close_end(struct bench_link *link)
{
	struct end *end = link->state;

	if (end->ep)
		fi_close(&end->ep->fid);
	close_ring(&end->in);
	close_ring(&end->out);
	if (end->cq)
		fi_close(&end->cq->fid);
	if (end->av)
		fi_close(&end->av->fid);
	if (end->domain)
		fi_close(&end->domain->fid);
	if (end->fabric)
		fi_close(&end->fabric->fid);
	if (end->info)
		fi_freeinfo(end->info);
	free(end);
}

/* The address of ours by which the TCP connection reaches the other host. */
static int own_host(const struct bench_link *link, char *host, socklen_t len)
{
	struct sockaddr_storage own;
	socklen_t own_len = sizeof(own);

	if (getsockname(link->fd, (struct sockaddr *)&own, &own_len) < 0)
		return -errno;
	if (getnameinfo((struct sockaddr *)&own, own_len, host, len, NULL, 0, NI_NUMERICHOST) != 0)
		return -EADDRNOTAVAIL;
	return 0;
}

static int choose_provider(const struct bench_link *link, struct end *end)
{
	struct fi_info *hints = fi_allocinfo();
	char host[NI_MAXHOST];
	int shm = over_shm(link), err = shm ? 0 : own_host(link, host, sizeof(host));

	if (!hints)
		return -ENOMEM;
	hints->caps = FI_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	hints->fabric_attr->prov_name = strdup(shm ? "shm" : "tcp;ofi_rxm");
	if (err == 0)
		err = failure(fi_getinfo(FI_VERSION(1, 17), shm ? NULL : host, NULL,
			shm ? 0 : FI_SOURCE, hints, &end->info));
	fi_freeinfo(hints);
	return err;
}

static int open_cq(const struct bench_link *link, struct end *end)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_MSG,
		.size = 2 * (link->n_in + link->n_out),
		.wait_obj = end->yields ? FI_WAIT_NONE : FI_WAIT_UNSPEC};

	return failure(fi_cq_open(end->domain, &attr, &end->cq, NULL));
}

static int open_endpoint(struct bench_link *link, struct end *end)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	int err = failure(fi_fabric(end->info->fabric_attr, &end->fabric, NULL));

	if (err == 0)
		err = failure(fi_domain(end->fabric, end->info, &end->domain, NULL));
	if (err == 0)
		err = open_cq(link, end);
	if (err == 0)
		err = failure(fi_av_open(end->domain, &av_attr, &end->av, NULL));
	if (err == 0)
		err = failure(fi_endpoint(end->domain, end->info, &end->ep, NULL));
	if (err == 0)
		err = failure(fi_ep_bind(end->ep, &end->av->fid, 0));
	if (err == 0)
		err = failure(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV));
	return err < 0 ? err : failure(fi_enable(end->ep));
}

static int post_receive(struct end *end, size_t size, unsigned int i)
{
	struct slot *slot = &end->in.slots[i];
	int err = failure(fi_recv(end->ep, slot_memory(&end->in, i), size, desc_of(&end->in),
		FI_ADDR_UNSPEC, &slot->context));

	slot->busy = err == 0;
	return err;
}

/* "fi_shm://NAME" or, as others have it, "NAME". */
static void remember_name(struct end *end, const char *address, size_t len)
{
	const char *name = memmem(address, len, "://", 3);

	name = name ? name + 3 : address;
	len -= (size_t)(name - address);
	snprintf(end->name, sizeof(end->name), "/%.*s", (int)len, name);
}

static int open_end(struct bench_link *link, char *address, size_t *len)
{
	struct end *end = calloc(1, sizeof(*end));
	unsigned int i;
	int err;

	if (!end)
		return -ENOMEM;
	link->state = end;
	end->yields = over_shm(link);
	err = choose_provider(link, end);
	if (err == 0)
		err = open_endpoint(link, end);
	if (err == 0)
		err = open_ring(end, &end->in, link->n_in, link->in_size);
	if (err == 0)
		err = open_ring(end, &end->out, link->n_out, link->out_size);
	for (i = 0; err == 0 && i < end->in.n; i++)
		err = post_receive(end, link->in_size, i);
	*len = BENCH_ADDRESS_LEN;
	if (err == 0)
		err = failure(fi_getname(&end->ep->fid, address, len));
	if (err == 0 && over_shm(link))
		remember_name(end, address, *len);
	if (err < 0)
		close_end(link);
	return err;
}

static int connect_end(struct bench_link *link, const char *address, size_t len)
{
	struct end *end = link->state;
	int n;

	if (len == 0 || (over_shm(link) && address[len - 1]))
		return -EBADMSG;
	n = fi_av_insert(end->av, address, 1, &end->to, 0, NULL);
	return n == 1 ? 0 : n < 0 ? failure(n) : -EHOSTUNREACH;
}

/* ---- messages ---- */

static int failed_completion(struct end *end)
{
	struct fi_cq_err_entry entry = {0};
	ssize_t got = fi_cq_readerr(end->cq, &entry, 0);

	return got < 0 ? failure(got) : entry.err ? failure(-entry.err) : -EPROTO;
}

/* Takes a completion if there is one; sleeps for it up to timeout_ms. -EAGAIN: there is none. */
static int progress(struct end *end, int timeout_ms)
{
	struct fi_cq_msg_entry entry;
	struct slot *slot;
	int sleeps = timeout_ms && !end->yields;
	ssize_t got = sleeps ? fi_cq_sread(end->cq, &entry, 1, NULL, timeout_ms)
			     : fi_cq_read(end->cq, &entry, 1);

	if (got == -FI_EAVAIL)
		return failed_completion(end);
	if (got < 0 && got != -FI_EAGAIN && got != -FI_EINTR)
		return failure(got);
	if (got == -FI_EAGAIN && timeout_ms && end->yields)
		sched_yield();
	slot = got > 0 ? entry.op_context : NULL;
	if (!slot)
		return -EAGAIN;
	slot->len = entry.len;
	slot->busy = 0;
	return 0;
}

/* The same, and -ETIMEDOUT is that it has been tried for BENCH_STALL_MS. */
static int progress_until(struct end *end, uint64_t *end_ns, uint64_t i)
{
	int err = progress(end, 0);

	if (err != -EAGAIN || i % BENCH_POLLS)
		return err == -EAGAIN ? 0 : err;
	*end_ns = *end_ns ? *end_ns : tool_now_ns() + BENCH_STALL_MS * 1000000ull;
	return tool_now_ns() > *end_ns ? -ETIMEDOUT : 0;
}

static int get_buffer(struct bench_link *link, void **buffer)
{
	struct end *end = link->state;
	struct slot *slot = &end->out.slots[end->out.at];
	uint64_t end_ns = 0, i;
	int err = 0;

	for (i = 1; err == 0 && slot->busy; i++)
		err = progress_until(end, &end_ns, i);
	*buffer = slot_memory(&end->out, end->out.at);
	return err;
}

static ssize_t try_send(struct bench_link *link, struct end *end, unsigned int i)
{
	const void *memory = slot_memory(&end->out, i);
	struct slot *slot = &end->out.slots[i];
	ssize_t status;

	if (link->out_size <= end->info->tx_attr->inject_size)
		return fi_inject(end->ep, memory, link->out_size, end->to);
	slot->busy = 1;
	status = fi_send(
		end->ep, memory, link->out_size, desc_of(&end->out), end->to, &slot->context);
	if (status < 0)
		slot->busy = 0;
	return status;
}

/* Also what connects the endpoints is done while it says -FI_EAGAIN. */
static int send_buffer(struct bench_link *link)
{
	struct end *end = link->state;
	unsigned int at = end->out.at;
	uint64_t end_ns = 0, i;
	ssize_t status = try_send(link, end, at);
	int err = 0;

	for (i = 1; err == 0 && status == -FI_EAGAIN; i++) {
		err = progress_until(end, &end_ns, i);
		status = try_send(link, end, at);
	}
	end->out.at = (at + 1) % end->out.n;
	return err < 0 ? err : failure(status);
}

/*
 * A partner that has sent us a message has mapped our memory. The name is no longer needed, and
 * would stay for ever if we are killed, as servers are.
 */
static void forget_name(struct end *end)
{
	shm_unlink(end->name);
	end->name[0] = '\0';
}

/* Is the receive done whose turn it is? */
static int is_done(const struct end *end)
{
	return !end->in.slots[end->in.at].busy;
}

static int receive(struct bench_link *link, int timeout_ms, const void **message)
{
	struct end *end = link->state;
	uint64_t end_ns = timeout_ms ? tool_now_ns() + (uint64_t)timeout_ms * 1000000 : 0;
	int err = is_done(end) ? 0 : progress(end, 0);

	while (timeout_ms && !is_done(end) && (err == 0 || err == -EAGAIN)) {
		err = progress(end, timeout_ms);
		if (tool_now_ns() > end_ns)
			err = -ETIMEDOUT;
	}
	if (!is_done(end))
		return err == 0 ? -EAGAIN : err;
	if (err < 0 && err != -EAGAIN)
		return err;
	if (end->name[0])
		forget_name(end);
	*message = slot_memory(&end->in, end->in.at);
	return end->in.slots[end->in.at].len == link->in_size ? 0 : -EBADMSG;
}

static void release(struct bench_link *link)
{
	struct end *end = link->state;
	unsigned int i = end->in.at;

	end->in.at = (i + 1) % end->in.n;
	/* If it cannot be posted, what was received there last seems to be there again. */
	end->in.slots[i].len = 0;
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

BENCH_LINK_FUNCTIONS(calls, tcp)
BENCH_LINK_FUNCTIONS(calls, shm)

#define SETTINGS                                                                                   \
	"FI_EP_RDM, FI_THREAD_DOMAIN, fi_inject() as far as it goes, receives posted beforehand, " \
	"registered memory where the provider asks for it"

static const struct bench_peer fi_tcp = {
	.name = "fi-tcp",
	.settings = SETTINGS,
	.halves = BENCH_LINK_HALVES(tcp),
};

static const struct bench_peer fi_shm = {
	.name = "fi-shm",
	.settings = SETTINGS ", yields instead of sleeping",
	.halves = BENCH_LINK_HALVES(shm),
};

BENCH_MODULE(&fi_tcp, &fi_shm);
