/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening and closing libfabric's objects. Closing an endpoint may take long: the EFA provider
 * waits in it, without end, for acknowledgements, perhaps of a dead partner. A thread therefore
 * closes the endpoint. The closing of the port waits for that thread a moment, and then leaves
 * the rest to the thread, with the memory that libfabric still uses.
 *
 * libfabric removes its own parts when the process ends, even while that thread runs. The thread
 * therefore lets libfabric work only now and then until all our operations have completed, or
 * ten seconds are over, and closes the endpoint then.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "ripc/ripc.h"
#include "util/buffers.h"
#include "util/options.h"
#include "util/system/clock.h"
#include "util/system/thread.h"

#define CLOSE_MS       500  /* after this the closing goes on alone */
#define LOOK_MS        5000 /* between two looks of a thread that closes alone */
#define LOOKS          2    /* looks: libfabric drops some operations that partners left open */
#define EXIT_MS	       5000 /* an exiting process waits this long for threads that close alone */
#define ENDPOINT_TRIES 8

/*
 * Shared by all contexts of the process. libfabric's destructors free what fi_close works with:
 * before they run, a thread that closes alone has to be out of libfabric, and no thread may
 * enter any more.
 */
static struct {
	atomic_uint inside;
	atomic_bool exits;
	_Atomic pid_t pid; /* a child has none of the threads */
} process;

/* Shared by the thread that closes and its caller. */
struct ofi_closing {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct ofi_net *net;
	bool alone;  /* an operation has not completed: nobody waits for the thread */
	bool done;   /* the endpoint is closed; the thread is about to end */
	bool orphan; /* the thread closes all the rest, too */
};

static void close_fid(struct fid *fid)
{
	if (fid)
		fi_close(fid);
}

#define CLOSE(object) (close_fid((object) ? &(object)->fid : NULL), (object) = NULL)

/* ---- opening ----------------------------------------------------------------------------- */

int ripc__ofi_net_open(struct fi_info *info, struct ofi_net **net)
{
	struct ofi_net *made = calloc(1, sizeof(*made));
	int error;

	if (!made) {
		fi_freeinfo(info);
		return -ENOMEM;
	}
	made->info = info;
	error = fi_fabric(info->fabric_attr, &made->fabric, NULL);
	if (!error)
		error = fi_domain(made->fabric, info, &made->domain, NULL);
	if (error) {
		ripc__ofi_net_close(made);
		return error;
	}
	*net = made;
	return 0;
}

/* Opens the completion queue, with a descriptor to sleep on if the provider has one. */
static int open_cq(struct ofi_net *net, size_t entries)
{
	struct fi_cq_attr attr = {.size = entries, .format = FI_CQ_FORMAT_MSG,
		.wait_obj = FI_WAIT_FD};
	int error = fi_cq_open(net->domain, &attr, &net->cq, NULL);

	if (!error)
		return 0;
	attr.wait_obj = FI_WAIT_NONE;
	return fi_cq_open(net->domain, &attr, &net->cq, NULL);
}

static int open_queues(struct ofi_net *net, size_t entries)
{
	struct fi_av_attr av = {.type = net->info->domain_attr->av_type};
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_NONE};
	int error = open_cq(net, entries);

	if (!error)
		error = fi_av_open(net->domain, &av, &net->av, NULL);
	if (!error)
		error = fi_eq_open(net->fabric, &eq, &net->eq, NULL);
	return error;
}

static int try_endpoint(struct ofi_net *net)
{
	int error = fi_endpoint(net->domain, net->info, &net->ep, NULL);

	if (!error)
		error = fi_ep_bind(net->ep, &net->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!error)
		error = fi_ep_bind(net->ep, &net->av->fid, 0);
	/* The EFA provider ends the process if it has no queue for an error of the endpoint. */
	if (!error)
		(void)fi_ep_bind(net->ep, &net->eq->fid, 0);
	return error ? error : fi_enable(net->ep);
}

/*
 * The shm provider (1.17) names an endpoint by the number of its process. If that name is taken,
 * because a process of that number died here before, it removes the old one, and returns
 * -FI_EBUSY.
 */
static int open_endpoint(struct ofi_net *net)
{
	int error = try_endpoint(net);

	for (int i = 1; error == -FI_EBUSY && i < ENDPOINT_TRIES; i++) {
		CLOSE(net->ep);
		error = try_endpoint(net);
	}
	return error;
}

static int register_buffers(struct ofi_net *net, struct ripc__buffers *buffers, uint64_t access,
		struct fid_mr **mr)
{
	struct iovec range;

	ripc__buffers_range(buffers, &range);
	/* A child of fork that wrote there would take the pages from the device. */
	(void)madvise(range.iov_base, range.iov_len, MADV_DONTFORK);
	if (!(net->info->domain_attr->mr_mode & FI_MR_LOCAL))
		return 0;
	return fi_mr_reg(net->domain, range.iov_base, range.iov_len, access, 0,
		access == FI_SEND ? 1 : 2, 0, mr, NULL);
}

static int open_buffers(struct ofi_net *net, uint32_t receives, uint32_t len)
{
	int error;

	net->receives = calloc(receives, sizeof(net->receives[0]));
	net->sends = calloc(OFI_SENDS, sizeof(net->sends[0]));
	net->reads = calloc(OFI_READS, sizeof(net->reads[0]));
	if (!net->receives || !net->sends || !net->reads)
		return -ENOMEM;
	error = ripc__buffers_open(receives, len, &net->receive_buffers);
	if (!error)
		error = ripc__buffers_open(OFI_SENDS, len, &net->send_buffers);
	if (!error)
		error = register_buffers(net, net->receive_buffers, FI_RECV, &net->receive_mr);
	if (!error)
		error = register_buffers(net, net->send_buffers, FI_SEND, &net->send_mr);
	return error;
}

/* ---- closing ----------------------------------------------------------------------------- */

/* Closes the objects that the endpoint used, as far as they were opened. */
static void endpoint_close(struct ofi_net *net)
{
	CLOSE(net->ep);
	CLOSE(net->av);
	CLOSE(net->cq);
	CLOSE(net->eq);
	CLOSE(net->receive_mr);
	CLOSE(net->send_mr);
	if (net->receive_buffers)
		ripc__buffers_close(net->receive_buffers);
	if (net->send_buffers)
		ripc__buffers_close(net->send_buffers);
	free(net->receives);
	free(net->sends);
	free(net->reads);
	/* Field by field: the closing of the device may be looking at net->closing. */
	net->receive_buffers = net->send_buffers = NULL;
	net->receives = NULL;
	net->sends = NULL;
	net->reads = NULL;
}

static void device_close(struct ofi_net *net)
{
	CLOSE(net->domain);
	CLOSE(net->fabric);
	fi_freeinfo(net->info);
	free(net);
}

/* Is this the end of one of our operations? An ended one has no link. */
static bool is_end(const struct ofi_net *net, void *context)
{
	struct ofi_link **link = NULL;
	bool ends;

	if (ripc__ofi_is_send(net, context))
		link = &((struct ofi_send *)context)->link;
	else if (ripc__ofi_is_read(net, context))
		link = &((struct ofi_read *)context)->link;
	ends = link && *link;
	if (ends)
		*link = NULL;
	return ends;
}

/* Lets libfabric work. Have all our operations completed? */
static bool look(struct ofi_net *net)
{
	struct fi_cq_msg_entry entries[OFI_BATCH];
	struct fi_cq_err_entry failed;
	ssize_t n;

	do {
		n = fi_cq_read(net->cq, entries, OFI_BATCH);
		for (ssize_t i = 0; i < n; i++)
			net->n_ops -= is_end(net, entries[i].op_context);
		if (n != -FI_EAVAIL)
			continue;
		failed = (struct fi_cq_err_entry){0}; /* libfabric reads its room, too */
		n = fi_cq_readerr(net->cq, &failed, 0);
		net->n_ops -= n == 1 && is_end(net, failed.op_context);
	} while (n > 0);
	return net->n_ops == 0;
}

/* Would closing wait for operations in progress? */
static bool has_ops(const struct ofi_net *net)
{
	return net->info->ep_attr->protocol == FI_PROTO_EFA && net->n_ops;
}

void ripc__ofi_net_await(struct ofi_net *net)
{
	uint64_t until_us = ripc__clock_us() + CLOSE_MS * 1000;

	while (has_ops(net) && !look(net) && ripc__clock_us() < until_us)
		poll(NULL, 0, 1);
}

static void closing_free(struct ofi_closing *closing)
{
	pthread_cond_destroy(&closing->changed);
	pthread_mutex_destroy(&closing->lock);
	free(closing);
}

/* Does not return if the process exits. */
static void libfabric_enter(void)
{
	atomic_store(&process.pid, getpid());
	atomic_fetch_add(&process.inside, 1);
	if (!atomic_load(&process.exits))
		return;
	atomic_fetch_sub(&process.inside, 1);
	for (;;)
		pause();
}

static void libfabric_leave(void)
{
	atomic_fetch_sub(&process.inside, 1);
}

/* Runs before libfabric's own, because libfabric was loaded for us. */
static __attribute__((destructor)) void process_exits(void)
{
	uint64_t until_us = ripc__clock_us() + EXIT_MS * 1000;

	atomic_store(&process.exits, true);
	while (atomic_load(&process.inside) && process.pid == getpid() &&
			ripc__clock_us() < until_us)
		poll(NULL, 0, 1);
}

static void *closing_main(void *arg)
{
	struct ofi_closing *closing = arg;
	bool orphan;

	for (int i = 0; closing->alone && i < LOOKS; i++) {
		/* First: the program that has closed the port may be about to exit. */
		poll(NULL, 0, LOOK_MS);
		libfabric_enter();
		closing->alone = !look(closing->net);
		libfabric_leave();
	}
	libfabric_enter();
	endpoint_close(closing->net);
	pthread_mutex_lock(&closing->lock);
	closing->done = true;
	orphan = closing->orphan;
	pthread_cond_signal(&closing->changed);
	pthread_mutex_unlock(&closing->lock);
	if (orphan) {
		device_close(closing->net);
		closing_free(closing);
	}
	libfabric_leave();
	return NULL;
}

static struct ofi_closing *closing_new(struct ofi_net *net)
{
	struct ofi_closing *closing = calloc(1, sizeof(*closing));
	pthread_condattr_t attr;

	if (!closing)
		return NULL;
	closing->net = net;
	pthread_mutex_init(&closing->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&closing->changed, &attr);
	pthread_condattr_destroy(&attr);
	return closing;
}

/* False: it is not done within a moment. */
static bool closing_wait(struct ofi_closing *closing)
{
	struct timespec until;
	bool done;
	int error = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += CLOSE_MS * 1000000l;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&closing->lock);
	while (!closing->done && error != ETIMEDOUT)
		error = pthread_cond_timedwait(&closing->changed, &closing->lock, &until);
	done = closing->done;
	pthread_mutex_unlock(&closing->lock);
	return done;
}

void ripc__ofi_net_stop(struct ofi_net *net)
{
	struct ofi_closing *closing = closing_new(net);
	bool alone = has_ops(net);
	pthread_t thread;

	net->closing = closing;
	if (closing)
		closing->alone = alone;
	if (!closing || ripc__thread_make(&thread, closing_main, closing)) {
		/* If no thread can be started, the endpoint stays open, and the device, too. */
		if (!alone)
			endpoint_close(net);
	} else if (alone || !closing_wait(closing)) {
		pthread_detach(thread);
		return;
	} else {
		pthread_join(thread, NULL);
	}
	if (closing)
		closing_free(closing);
	net->closing = NULL;
}

void ripc__ofi_net_close(struct ofi_net *net)
{
	struct ofi_closing *closing = net->closing;
	bool done = true;

	if (closing) {
		pthread_mutex_lock(&closing->lock);
		done = closing->done;
		closing->orphan = !done;
		pthread_mutex_unlock(&closing->lock);
		/* If it is done, the thread does not touch it any more. */
		if (done)
			closing_free(closing);
	}
	if (done && !net->ep)
		device_close(net);
}

int ripc__ofi_net_start(struct ofi_net *net, uint32_t receives, uint32_t len)
{
	int error = open_buffers(net, receives, len);

	if (!error)
		error = open_queues(net, receives + OFI_SENDS + OFI_READS);
	if (!error)
		error = open_endpoint(net);
	if (error)
		endpoint_close(net);
	return error;
}

/* ---- the choice of provider and device --------------------------------------------------- */

#define DATAGRAM_MIN 1536u /* with our head */
#define MESSAGE_ANY  16384u /* where there is no reason for another length */
/*
 * The EFA provider puts a header before a message that is sent as one packet (libfabric 1.17:
 * 8,744 bytes are sent as one where packets have 8,760, 8,750 as two). Until it has heard of the
 * other end it puts its address there, too, and splits the longest.
 */
#define EFA_HEADER   16u
#define EFA_MTU      8760u

int ripc__ofi_wish_read(const struct ripc__host *host, struct ofi_wish *wish)
{
	*wish = (struct ofi_wish){
		.receives = OFI_RECEIVES,
		.checksum = true,
		.reads = OFI_READS_RULE,
	};
	return ripc__options_read(host, ripc__ofi_options, wish);
}

static const char *provider_of(const struct ofi_wish *wish)
{
	return wish->provider && wish->provider[0] ? wish->provider : "efa";
}

static bool wants_efa(const struct ofi_wish *wish)
{
	return strcmp(provider_of(wish), "efa") == 0;
}

/*
 * Hints for libfabric: nothing but messages, perhaps reads, and memory that we register. EFA
 * must also reach partners on this host through the device: libfabric's shm, which the provider
 * otherwise uses for them, may end a process when its partner ends.
 */
static struct fi_info *hints_new(const struct ofi_wish *wish, bool reads)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->caps = FI_MSG | (reads ? FI_RMA | FI_READ | FI_REMOTE_READ : 0) |
		(wants_efa(wish) ? FI_REMOTE_COMM : 0);
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
		FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(provider_of(wish));
	if (!hints->fabric_attr->prov_name) {
		fi_freeinfo(hints);
		return NULL;
	}
	return hints;
}

static void say_missing(const struct ofi_wish *wish, int error, char why[256], char remedy[256])
{
	uint32_t version = fi_version();

	snprintf(why, 256, "libfabric %u.%u has no endpoint of provider \"%.60s\": %.80s",
		FI_MAJOR(version), FI_MINOR(version), provider_of(wish), fi_strerror(-error));
	if (wants_efa(wish))
		snprintf(remedy, 256, "an EFA interface, the efa driver, libfabric's provider "
			"(fi_info -p efa) and locked memory (ulimit -l) are needed: docs/efa.md");
	else
		snprintf(remedy, 256, "fi_info -l lists the installed providers; FI_LOG_LEVEL=warn "
			"makes libfabric log more");
}

/*
 * libfabric 2.x also offers EFA's raw packets: they keep no order, and are not repeated for a
 * receiver that has no buffer.
 */
static bool is_raw(const struct fi_info *info)
{
	return info->fabric_attr->name && strcmp(info->fabric_attr->name, "efa-direct") == 0;
}

static bool fits(const struct fi_info *info, const struct ofi_wish *wish)
{
	if (info->ep_attr->msg_prefix_size || info->ep_attr->max_msg_size < DATAGRAM_MIN ||
			is_raw(info))
		return false;
	return !wish->domain || strcmp(info->domain_attr->name, wish->domain) == 0;
}

/* One thread at a time: with the EFA provider (1.17) threads that call at once end by SIGSEGV. */
static int ask(const struct ofi_wish *wish, bool reads, struct fi_info **all)
{
	static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
	struct fi_info *hints = hints_new(wish, reads);
	int error = -ENOMEM;

	pthread_mutex_lock(&asking);
	if (hints)
		error = fi_getinfo(OFI_API, NULL, NULL, 0, hints, all);
	pthread_mutex_unlock(&asking);
	fi_freeinfo(hints);
	return error;
}

/* May the provider be chosen by its reads? Except on EFA, that may lead to another provider. */
static bool may_read(const struct ofi_wish *wish)
{
	return wish->reads == 1 || (wish->reads == OFI_READS_RULE && wants_efa(wish));
}

int ripc__ofi_info_get(const struct ofi_wish *wish, struct fi_info **info, char why[256],
		char remedy[256])
{
	struct fi_info *all = NULL, *found;
	int error = may_read(wish) ? ask(wish, true, &all) : -ENODEV;

	if (error)
		error = ask(wish, false, &all);
	if (error) {
		say_missing(wish, error, why, remedy);
		return -ENODEV;
	}
	for (found = all; found && !fits(found, wish); )
		found = found->next;
	found = found ? fi_dupinfo(found) : NULL;
	fi_freeinfo(all);
	if (!found) {
		snprintf(why, 256, "provider \"%.60s\" has no device named by ofi.domain",
			provider_of(wish));
		snprintf(remedy, 256, "fi_info -p \"%.60s\" -t FI_EP_RDM lists its domains",
			provider_of(wish));
		return -ENODEV;
	}
	*info = found;
	return 0;
}

static uint32_t packet_max(const struct fi_info *info)
{
	size_t mtu = info->nic && info->nic->link_attr ? info->nic->link_attr->mtu : 0;

	return mtu >= DATAGRAM_MIN && mtu <= RIPC_DATAGRAM_MAX ? (uint32_t)mtu : EFA_MTU;
}

uint32_t ripc__ofi_message_max(const struct fi_info *info)
{
	uint64_t most = info->ep_attr->max_msg_size;
	uint32_t len = MESSAGE_ANY;

	if (info->ep_attr->protocol == FI_PROTO_EFA)
		len = packet_max(info) - EFA_HEADER;
	return most < len ? (uint32_t)most : len;
}

bool ripc__ofi_connects(const struct fi_info *info)
{
	uint32_t protocol = info->ep_attr->protocol;

	return protocol == FI_PROTO_RXM || protocol == FI_PROTO_RXM_TCP ||
		protocol == FI_PROTO_XNET;
}

/* Only within a host's memory: what EFA's own network checks from end to end is not documented. */
bool ripc__ofi_is_intact(const struct ofi_wish *wish, const struct fi_info *info)
{
	return !wish->checksum || info->ep_attr->protocol == FI_PROTO_SHM;
}

/* ---- reads ------------------------------------------------------------------------------- */

static bool is_kind(const struct fi_info *info, const char *kind)
{
	return strcasecmp(info->nic->device_attr->device_id, kind) == 0;
}

static bool has_kind(const struct fi_info *info)
{
	return info->nic && info->nic->device_attr && info->nic->device_attr->device_id;
}

/*
 * Does the device read by default? The provider (1.17) lets all but the first two kinds, unless
 * told not to.
 */
static bool reads_unasked(const struct fi_info *info)
{
	return has_kind(info) && !is_kind(info, "0xefa0") && !is_kind(info, "0xefa1");
}

bool ripc__ofi_may_be_told(const struct fi_info *info)
{
	return has_kind(info) && is_kind(info, "0xefa1") && !getenv("FI_EFA_USE_DEVICE_RDMA");
}

/*
 * Does the device read by itself? The provider does not report that. Otherwise it would do the
 * same in datagrams, by the processor of the memory's owner, and take an outdated key for an
 * error of that owner's endpoint. If it was told to let a device read that cannot, it has ended
 * the process.
 */
static bool device_reads(const struct fi_info *info)
{
	const char *told = getenv("FI_EFA_USE_DEVICE_RDMA");

	if (!told || !told[0])
		return reads_unasked(info);
	return strtol(told, NULL, 0) != 0 || strcasecmp(told, "true") == 0 ||
		strcasecmp(told, "yes") == 0 || strcasecmp(told, "on") == 0;
}

bool ripc__ofi_has_reads(const struct ofi_wish *wish, const struct fi_info *info)
{
	if (!(info->caps & FI_RMA) || !wish->reads)
		return false;
	return info->ep_attr->protocol == FI_PROTO_EFA ? device_reads(info) : wish->reads == 1;
}
