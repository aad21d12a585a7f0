/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that a partner may read, and memory that is read into.
 *
 * A key is one registration of exactly the range, for one transfer. Closing the key deregisters,
 * and the device then reads no more of the range. libfabric has one domain for all partners: a
 * partner that knows the key of another one's transfer can read the same memory. The upper half
 * of a key is a check of the rest and of the reader's address: a key that was garbled on its
 * way, or reached another partner by mistake, costs its message a detour and does not reach the
 * device. The check does not stop an attacker.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "internal.h"
#include "ripc/ripc.h"
#include "util/bytes.h"
#include "util/hash/crc32c.h"
#include "util/system/cancel.h"

struct ofi_key {
	struct fid_mr *mr;
	uint64_t address;
};

static bool has_mode(const struct ofi_device *dev, int mode)
{
	return (dev->net->info->domain_attr->mr_mode & mode) != 0;
}

/* Logged once: the same failure will come again. The message is pulled then. */
static void explain(struct ofi_device *dev, size_t len, int error)
{
	if (!dev->told_memory)
		dev->host.log(dev->host.arg, RIPC_LOG_WARN, "ofi: registering %zu bytes failed "
			"(%s): if locked memory is short, raise its limit by \"ulimit -l "
			"unlimited\" or LimitMEMLOCK=infinity in systemd",
			len, fi_strerror(-error));
	dev->told_memory = true;
}

/* Registers memory; the key is the provider's choice, or this. */
static int register_memory(struct ofi_device *dev, const struct iovec *mem, uint64_t access,
		struct fid_mr **mr)
{
	uint32_t key = 0;
	int error;

	if (!has_mode(dev, FI_MR_PROV_KEY) && getrandom(&key, sizeof(key), 0) != sizeof(key))
		return -EIO;
	error = fi_mr_reg(dev->net->domain, mem->iov_base, mem->iov_len, access, 0, key, 0, mr,
		NULL);
	if (error)
		explain(dev, mem->iov_len, error);
	return error == -FI_EPERM ? -ENOMEM : error;
}

/* Memory that cannot be deregistered would stay open to partners. */
static void deregister(struct ofi_device *dev, struct fid_mr *mr)
{
	int error = fi_close(&mr->fid);

	if (error)
		dev->host.log(dev->host.arg, RIPC_LOG_WARN,
			"ofi: deregistering memory failed: %s", fi_strerror(-error));
}

/* ---- destinations of reads --------------------------------------------------------------- */

int ripc__ofi_mem_reg(void *state, void *route, void *mem, size_t len, bool source, void **region)
{
	RIPC__HOLD_CANCEL;
	struct iovec range = {.iov_base = mem, .iov_len = len};
	struct ofi_region *made = calloc(1, sizeof(*made));
	struct ofi_device *dev = &((struct ofi_port *)state)->dev;
	int error = made ? 0 : -ENOMEM;

	(void)route;
	if (!error)
		error = register_memory(dev, &range, source ? FI_WRITE : FI_READ, &made->mr);
	if (error) {
		free(made);
		return error;
	}
	list_append(&dev->regions, &made->node);
	*region = made;
	return 0;
}

static void region_close(struct ofi_device *dev, struct ofi_region *region)
{
	list_remove(&region->node);
	deregister(dev, region->mr);
	free(region);
}

void ripc__ofi_mem_dereg(void *port, void *region)
{
	RIPC__HOLD_CANCEL;

	region_close(&((struct ofi_port *)port)->dev, region);
}

void ripc__ofi_regions_close(struct ofi_device *dev)
{
	while (!list_empty(&dev->regions))
		region_close(dev, list_entry(dev->regions.next, struct ofi_region, node));
}

/* ---- memory for partners ----------------------------------------------------------------- */

static uint32_t check_of(uint64_t address, uint32_t key, const uint8_t *reader, size_t len)
{
	uint8_t bytes[12 + RIPC_ADDR_MAX];

	put64(bytes, address);
	put32(bytes + 8, key);
	memcpy(bytes + 12, reader, len);
	return ripc__crc32c(0, bytes, 12 + len);
}

void ripc__ofi_memory_close(struct ofi_device *dev)
{
	struct ofi_key *open;
	uint32_t at = 0;

	while ((open = ripc__map_next(&dev->keys, &at))) {
		deregister(dev, open->mr);
		free(open);
	}
	ripc__map_free(&dev->keys);
}

/* The key as it is sent. -ENOTSUP: the provider's is too long. */
static int key_of(const struct ofi_key *open, const struct ofi_link *link, struct ripc__key *wire)
{
	uint64_t key = fi_mr_key(open->mr);
	uint32_t check;

	if (key > UINT32_MAX)
		return -ENOTSUP;
	check = check_of(open->address, (uint32_t)key, link->addr.blob, link->addr.len);
	*wire = (struct ripc__key){.address = open->address, .key = key | (uint64_t)check << 32};
	return 0;
}

int ripc__ofi_mem_open(void *state, void *route, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	RIPC__HOLD_CANCEL;
	struct iovec range = {.iov_base = mem, .iov_len = len};
	struct ofi_key *open = calloc(1, sizeof(*open));
	struct ofi_device *dev = &((struct ofi_port *)state)->dev;
	struct ripc__key made;
	int error = open ? 0 : -ENOMEM;

	if (!error && writable)
		error = -ENOTSUP;
	if (!error)
		error = register_memory(dev, &range, FI_REMOTE_READ, &open->mr);
	if (error)
		goto err_free;
	open->address = has_mode(dev, FI_MR_VIRT_ADDR) ? (uintptr_t)mem : 0;
	error = key_of(open, ((struct ofi_route *)route)->link, &made);
	if (!error)
		error = ripc__map_put(&dev->keys, made.key, open);
	if (error)
		goto err_deregister;
	*key = made;
	return 0;
err_deregister:
	deregister(dev, open->mr);
err_free:
	free(open);
	return error;
}

/* No event follows, however the key is closed. */
int ripc__ofi_mem_close(void *state, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie)
{
	RIPC__HOLD_CANCEL;
	struct ofi_device *dev = &((struct ofi_port *)state)->dev;
	struct ofi_key *open = ripc__map_get(&dev->keys, key->key);

	(void)how;
	(void)cookie;
	if (!open || open->address != key->address)
		return -EINVAL;
	ripc__map_remove(&dev->keys, key->key);
	deregister(dev, open->mr);
	free(open);
	return 0;
}

int ripc__ofi_key_parse(const struct ofi_port *port, const struct ripc__key *wire, uint64_t offset,
		uint64_t *address, uint64_t *key)
{
	uint8_t reader[RIPC_ADDR_MAX];
	int len = ripc__ofi_name_encode(&port->self, reader);

	if (wire->key >> 32 != check_of(wire->address, (uint32_t)wire->key, reader, (size_t)len) ||
			wire->address + offset < wire->address)
		return -EINVAL;
	*address = wire->address + offset;
	*key = (uint32_t)wire->key;
	return 0;
}

/* ---- reads ------------------------------------------------------------------------------- */

/*
 * Reads in progress. A read waits at its link while libfabric does not take it (FI_EAGAIN), is
 * taken, and ends: by its completion, by an error, or because none of its link was taken or
 * ended for OFI_STUCK_US. After that its memory is not touched, and its event is returned once.
 *
 * The EFA provider only lets the device read when it has heard what the other end can do
 * (libfabric 1.17: its handshake); before that it does the same in datagrams, by the other end's
 * processor. The first read of a link therefore waits until a message of ours is known to have
 * been received, which libfabric only reports when it has heard that.
 */

void ripc__ofi_reads_open(struct ofi_port *port)
{
	list_init(&port->free_reads);
	list_init(&port->ended);
	list_init(&port->reading);
	for (uint32_t i = 0; i < OFI_READS; i++)
		list_append(&port->free_reads, &port->net->reads[i].node);
}

static void finish(struct ofi_port *port, struct ofi_read *read, int status)
{
	read->status = status;
	list_append(&port->ended, &read->node);
}

void ripc__ofi_read_end(struct ofi_port *port, struct ofi_read *read, int status)
{
	struct ofi_link *link = read->link;

	if (!link)
		return;
	read->link = NULL;
	port->net->n_ops--;
	link->n_reads--;
	if (!list_empty(&link->reads))
		link->reading_us = port->worked_us;
	finish(port, read, status);
	ripc__ofi_entry_ended(port, link);
}

void ripc__ofi_reads_drop(struct ofi_port *port, struct ofi_link *link, int status)
{
	while (!list_empty(&link->reads))
		finish(port, list_entry(list_pop(&link->reads), struct ofi_read, node), status);
	list_remove(&link->reading);
}

/* ---- posting ----------------------------------------------------------------------------- */

/* 0: libfabric has it; -EAGAIN: not now. */
static int post(struct ofi_port *port, struct ofi_read *read)
{
	struct ofi_link *link = read->link;
	ssize_t error = fi_read(port->net->ep, read->mem, read->len, read->desc, link->to,
		read->address, read->key, &read->context);

	port->net->n_ops += !error;
	link->n_reads += !error;
	return (int)error;
}

/* Greets the other end. 0: libfabric knows it. */
static int greet(struct ofi_port *port, struct ofi_link *link)
{
	if (link->greeted || port->net->info->ep_attr->protocol != FI_PROTO_EFA)
		return 0;
	return link->greeting ? -EAGAIN : ripc__ofi_greet(port, link);
}

/* Posts the reads of one link, as far as they are taken. */
static void push(struct ofi_port *port, struct ofi_link *link)
{
	int error = greet(port, link);

	while (!error && !list_empty(&link->reads)) {
		struct ofi_read *read = list_entry(link->reads.next, struct ofi_read, node);

		list_remove(&read->node);
		error = post(port, read);
		if (error == -FI_EAGAIN)
			list_prepend(&link->reads, &read->node);
		else if (error)
			finish(port, read, error);
		else
			link->reading_us = port->worked_us;
	}
	if (list_empty(&link->reads))
		list_remove(&link->reading);
	else if (port->worked_us > link->reading_us + OFI_STUCK_US)
		ripc__ofi_reads_drop(port, link, -ETIMEDOUT);
}

void ripc__ofi_reads_push(struct ofi_port *port)
{
	list_for_each_safe(node, &port->reading)
		push(port, list_entry(node, struct ofi_link, reading));
}

/* ---- core's reads ------------------------------------------------------------------------ */

static void begin(struct ofi_port *port, struct ofi_read *read)
{
	struct ofi_link *link = read->link;
	int error = list_empty(&link->reads) ? greet(port, link) : -EAGAIN;

	if (!error)
		error = post(port, read);
	if (!error)
		return;
	if (error != -FI_EAGAIN) {
		finish(port, read, error);
		return;
	}
	if (list_empty(&link->reads)) {
		link->reading_us = port->worked_us;
		list_append(&port->reading, &link->reading);
	}
	list_append(&link->reads, &read->node);
}

int ripc__ofi_read(void *state, void *route_state, const struct ripc__move *move)
{
	RIPC__HOLD_CANCEL;
	struct ofi_route *route = route_state;
	struct ofi_port *port = state;
	struct ofi_read *read;
	struct ofi_region *region = move->region;
	int error;

	if (port->is_lost || route->resets != route->link->resets)
		return -ECONNRESET;
	if (list_empty(&port->free_reads))
		return -EAGAIN;
	if (move->len && !region && has_mode(&port->dev, FI_MR_LOCAL))
		return -EINVAL;
	read = list_entry(list_pop(&port->free_reads), struct ofi_read, node);
	read->link = route->link;
	read->cookie = move->cookie;
	read->mem = move->mem;
	read->len = move->len;
	read->desc = region ? fi_mr_desc(region->mr) : NULL;
	error = ripc__ofi_key_parse(port, &move->key, move->offset, &read->address, &read->key);
	if (error || !move->len)
		finish(port, read, move->len ? error : 0);
	else
		begin(port, read);
	return 0;
}

uint32_t ripc__ofi_reads_take(struct ofi_port *port, struct ripc__event *events, uint32_t at,
		uint32_t n)
{
	while (at < n && !list_empty(&port->ended)) {
		struct ofi_read *read = list_entry(list_pop(&port->ended), struct ofi_read, node);

		events[at++] = (struct ripc__event){.kind = RIPC_EV_READ, .cookie = read->cookie,
			.status = read->status};
		list_append(&port->free_reads, &read->node);
	}
	return at;
}
