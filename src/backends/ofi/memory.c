/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that a partner may read, and memory that is read into.
 *
 * A key is one registration of exactly the range, for one transfer, and closing it takes it from
 * the device, which then reads no more of it. libfabric has one domain for all partners: a partner
 * that knows the key of another one's transfer can read what the other one can. The upper half of a
 * key is a check of the rest and of the reader's address: a key that was garbled on its way, or
 * reached somebody else by mistake, costs its message a detour and asks nothing of the device. The
 * check keeps out no partner that means to come in.
 */
#include "ofi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

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

/* Told once: the same failure will come again. The message is pulled then. */
static void explain(struct ofi_device *dev, size_t len, int error)
{
	if (!dev->told_memory)
		dev->host.log(dev->host.arg, RIPC_LOG_WARN, "ofi: registering %zu bytes failed "
			"(%s): if locked memory is short, raise its limit by \"ulimit -l "
			"unlimited\" or LimitMEMLOCK=infinity in systemd",
			len, fi_strerror(-error));
	dev->told_memory = true;
}

/* The provider's key is its own choice, or this. */
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

/* What cannot be taken back would stay open. */
static void deregister(struct ofi_device *dev, struct fid_mr *mr)
{
	int error = fi_close(&mr->fid);

	if (error)
		dev->host.log(dev->host.arg, RIPC_LOG_WARN,
			"ofi: deregistering memory failed: %s", fi_strerror(-error));
}

/* ---- what is read into ------------------------------------------------------------------- */

int ripc__ofi_mem_reg(void *state, void *peer, void *mem, size_t len, bool source, void **region)
{
	RIPC__HOLD_CANCEL;
	struct iovec range = {.iov_base = mem, .iov_len = len};
	struct ofi_region *made = calloc(1, sizeof(*made));
	struct ofi_device *dev = &((struct ofi_port *)state)->dev;
	int error = made ? 0 : -ENOMEM;

	(void)peer;
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

bool ripc__ofi_registers(const struct ofi_device *dev)
{
	return has_mode(dev, FI_MR_LOCAL);
}

void ripc__ofi_regions_close(struct ofi_device *dev)
{
	while (!list_empty(&dev->regions))
		region_close(dev, list_entry(dev->regions.next, struct ofi_region, node));
}

/* ---- what may be read -------------------------------------------------------------------- */

static uint32_t check_of(uint64_t address, uint32_t key, const uint8_t *reader, size_t len)
{
	uint8_t bytes[12 + RIPC_ADDR_MAX];

	put64(bytes, address);
	put32(bytes + 8, key);
	memcpy(bytes + 12, reader, len);
	return ripc__crc32c(0, bytes, 12 + len);
}

void ripc__ofi_memory_open(struct ofi_device *dev)
{
	ripc__map_init(&dev->keys, dev->host.context);
	list_init(&dev->regions);
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

/* The key as it travels. -ENOTSUP: the provider's is too long. */
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

int ripc__ofi_mem_open(void *state, void *peer, void *mem, size_t len, bool writable,
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
	error = key_of(open, ((struct ofi_peer *)peer)->link, &made);
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

/* Nothing follows, however it is closed. */
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
