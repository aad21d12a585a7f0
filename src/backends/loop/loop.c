/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop backend: contexts of one process, for tests and as the reference for the contract.
 * It is reliable: a sender whose partner's queue is full is told so. Reads and writes are
 * native; what is given is mapped, so that its holder sees it even without its owner.
 *
 * The hub has one mutex, under which everything happens, copies too. So a range that mem_close
 * has taken back is out of reach at once. Waiting
 * for that mutex is the one rule of backend.h that this backend breaks; nobody holds it longer
 * than a copy takes.
 */
#include "loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/net/backend.h"
#include "util/buffers.h"
#include "util/bytes.h"
#include "util/list.h"

#define HUB_MAGIC    0x62756870706f6f6cu /* "looppuhb": env may be something else's */
#define DATAGRAM_MAX 8192
#define QUEUE        128 /* datagrams that a port holds, waiting or handed over */
#define ENDED        64  /* reads and writes that may have ended without being polled */
#define ADDR_LEN     8

struct ripc__loop_hub {
	uint64_t magic;
	pthread_mutex_t lock;
	struct list ports, keys;
	uint64_t last_address;
};

struct loop_device {
	struct ripc__loop_hub *hub;
	struct ripc__host host;
	uint32_t n_home; /* keys that were handed, and have been unmapped */
};

struct loop_key {
	struct list node; /* hub->keys */
	struct loop_device *dev; /* NULL: closed, but it is mapped */
	uint64_t partner; /* whose port may use it */
	uint64_t key;     /* random */
	uint8_t *mem;
	size_t len;
	bool writable;
	const struct loop_port *holder; /* by whom it is mapped; NULL: it is not */
	void *base;
	size_t base_len;
	bool handed;
	uint64_t cookie;
};

struct waiting {
	struct ripc__buffer *buffer;
	uint32_t len;
	uint64_t from;
};

struct loop_port {
	struct list node; /* hub->ports */
	struct ripc__loop_hub *hub;
	struct loop_device *dev;
	uint64_t address;
	int fd;           /* eventfd */
	bool armed;       /* somebody may sleep on fd */
	struct ripc__buffers *buffers;
	uint32_t next_buffer;                 /* where to look for a free one */
	uint32_t first, n_waiting;            /* a ring */
	struct waiting waiting[QUEUE];
	uint32_t first_ended, n_ended;        /* a ring */
	struct ripc__event ended[ENDED];
	struct ripc__addr from[RIPC_EVENTS_MAX]; /* of the last poll's datagrams */
};

struct loop_peer {
	uint64_t address;
};

/* ---- the hub ----------------------------------------------------------------------------- */

int ripc__loop_hub_open(struct ripc__loop_hub **hub)
{
	struct ripc__loop_hub *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	made->magic = HUB_MAGIC;
	pthread_mutex_init(&made->lock, NULL);
	list_init(&made->ports);
	list_init(&made->keys);
	*hub = made;
	return 0;
}

void ripc__loop_hub_close(struct ripc__loop_hub *hub)
{
	pthread_mutex_destroy(&hub->lock);
	free(hub);
}

static struct loop_port *find_port(struct ripc__loop_hub *hub, uint64_t address)
{
	list_for_each(node, &hub->ports) {
		struct loop_port *port = list_entry(node, struct loop_port, node);

		if (port->address == address)
			return port;
	}
	return NULL;
}

static struct loop_key *find_key(struct ripc__loop_hub *hub, uint64_t number)
{
	list_for_each(node, &hub->keys) {
		struct loop_key *key = list_entry(node, struct loop_key, node);

		if (key->key == number)
			return key;
	}
	return NULL;
}

/* Under the hub's lock. */
static void wake(struct loop_port *port)
{
	uint64_t one = 1;

	if (!port->armed)
		return;
	port->armed = false;
	/* Cannot fail: the counter was read to zero when it was armed. */
	while (write(port->fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* ---- mapping; all under the hub's lock --------------------------------------------------- */

/* Whoever owns a handed key is told that it is free. */
static void wake_owner(struct ripc__loop_hub *hub, struct loop_key *key)
{
	key->dev->n_home++;
	list_for_each(node, &hub->ports) {
		struct loop_port *port = list_entry(node, struct loop_port, node);

		if (port->dev == key->dev)
			wake(port);
	}
}

static void unmap_key(struct ripc__loop_hub *hub, struct loop_key *key)
{
	munmap(key->base, key->base_len);
	key->holder = NULL;
	if (!key->dev) {
		list_remove(&key->node);
		free(key);
	} else if (key->handed) {
		wake_owner(hub, key);
	}
}

static void unmap_all(struct loop_port *port)
{
	list_for_each_safe(node, &port->hub->keys) {
		struct loop_key *key = list_entry(node, struct loop_key, node);

		if (key->holder == port)
			unmap_key(port->hub, key);
	}
}

/* Handed keys that nobody holds any more. */
static uint32_t come_home(struct loop_port *port, struct ripc__event *events, uint32_t n)
{
	uint32_t filled = 0;

	if (port->dev->n_home == 0)
		return 0;
	list_for_each_safe(node, &port->hub->keys) {
		struct loop_key *key = list_entry(node, struct loop_key, node);

		if (key->dev != port->dev || !key->handed || key->holder || filled == n)
			continue;
		events[filled++] = (struct ripc__event){.kind = RIPC_EV_FENCED,
			.cookie = key->cookie};
		port->dev->n_home--;
		list_remove(&key->node);
		free(key);
	}
	return filled;
}

/* ---- device and port --------------------------------------------------------------------- */

static struct ripc__loop_hub *get_hub(const struct ripc__host *host)
{
	struct ripc__loop_hub *hub = host->env;

	return hub && hub->magic == HUB_MAGIC ? hub : NULL;
}

static int probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	remedy[0] = '\0';
	if (!get_hub(host)) {
		snprintf(why, 256,
			"only for tests inside one process, which bring the hub that it needs");
		return -ENODEV;
	}
	snprintf(why, 256, "a hub inside this process");
	return 0;
}

static int dev_open(void *state, const struct ripc__host *host, struct ripc__attr *attr)
{
	struct loop_device *dev = state;

	dev->hub = get_hub(host);
	if (!dev->hub)
		return -ENODEV;
	dev->host = *host;
	dev->n_home = 0;
	*attr = (struct ripc__attr){
		.caps = RIPC_CAP_RELIABLE | RIPC_CAP_INTACT | RIPC_CAP_READ | RIPC_CAP_WRITE |
			RIPC_CAP_PASSIVE | RIPC_CAP_MAP,
		.datagram_max = DATAGRAM_MAX,
	};
	return 0;
}

static void dev_close(void *state)
{
	struct loop_device *dev = state;

	pthread_mutex_lock(&dev->hub->lock);
	list_for_each_safe(node, &dev->hub->keys) {
		struct loop_key *key = list_entry(node, struct loop_key, node);

		if (key->dev != dev)
			continue;
		key->dev = NULL;
		if (key->holder)
			continue;
		list_remove(&key->node);
		free(key);
	}
	pthread_mutex_unlock(&dev->hub->lock);
}

static int port_open(void *dev, void *state)
{
	struct loop_port *port = state;
	int rc;

	port->dev = dev;
	port->hub = port->dev->hub;
	rc = ripc__buffers_open(QUEUE, DATAGRAM_MAX, &port->buffers);
	if (rc)
		return rc;
	port->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (port->fd < 0) {
		rc = -errno;
		ripc__buffers_close(port->buffers);
		return rc;
	}
	pthread_mutex_lock(&port->hub->lock);
	port->address = ++port->hub->last_address;
	list_append(&port->hub->ports, &port->node);
	pthread_mutex_unlock(&port->hub->lock);
	return 0;
}

static void port_close(void *state)
{
	struct loop_port *port = state;

	pthread_mutex_lock(&port->hub->lock);
	list_remove(&port->node);
	unmap_all(port);
	pthread_mutex_unlock(&port->hub->lock);
	for (uint32_t i = 0; i < port->n_waiting; i++)
		ripc__buffer_put(port->waiting[(port->first + i) % QUEUE].buffer, 1);
	ripc__buffers_close(port->buffers);
	close(port->fd);
}

/* ---- addresses and partners -------------------------------------------------------------- */

static void fill_addr(struct ripc__addr *addr, uint64_t address)
{
	memset(addr->host, 0, sizeof(addr->host));
	addr->len = ADDR_LEN;
	put64(addr->blob, address);
}

static int port_addr(void *state, uint8_t blob[RIPC_ADDR_MAX])
{
	const struct loop_port *port = state;

	put64(blob, port->address);
	return ADDR_LEN;
}

static int addr_choose(void *port, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	(void)port;
	(void)host;
	if (len != ADDR_LEN || get64(blob) == 0)
		return -EBADMSG;
	fill_addr(addr, get64(blob));
	return 0;
}

static void addr_text(const struct ripc__addr *addr, char text[64])
{
	if (addr->len == ADDR_LEN)
		snprintf(text, 64, "loop:%llu", (unsigned long long)get64(addr->blob));
	else
		snprintf(text, 64, "?");
}

static int peer_open(void *port, void *state, const struct ripc__addr *addr)
{
	struct loop_peer *peer = state;

	(void)port;
	if (addr->len != ADDR_LEN)
		return -EINVAL;
	peer->address = get64(addr->blob);
	return 0;
}

static void peer_close(void *port, void *peer)
{
	(void)port;
	(void)peer;
}

static void peer_addr(void *port, const void *state, struct ripc__addr *addr)
{
	const struct loop_peer *peer = state;

	(void)port;
	fill_addr(addr, peer->address);
}

static uint32_t peer_mtu(void *port, void *peer)
{
	(void)port;
	(void)peer;
	return DATAGRAM_MAX;
}

static bool peer_matches(void *port, const void *state, const struct ripc__addr *from)
{
	const struct loop_peer *peer = state;

	(void)port;
	return from->len == ADDR_LEN && get64(from->blob) == peer->address;
}

/* ---- datagrams --------------------------------------------------------------------------- */

static void copy_datagram(uint8_t *to, const struct ripc__tx *tx)
{
	for (uint32_t i = 0; i < tx->n_iov; i++) {
		if (tx->iov[i].iov_len)
			memcpy(to, tx->iov[i].iov_base, tx->iov[i].iov_len);
		to += tx->iov[i].iov_len;
	}
}

/* Under the hub's lock. False: the queue is full. */
static bool enqueue(struct loop_port *to, uint64_t from, const struct ripc__tx *tx)
{
	struct ripc__buffer *buffer = ripc__buffers_find(to->buffers, &to->next_buffer);
	struct waiting *waiting = &to->waiting[(to->first + to->n_waiting) % QUEUE];

	if (!buffer) {
		to->next_buffer = 0;
		buffer = ripc__buffers_find(to->buffers, &to->next_buffer);
	}
	if (!buffer)
		return false;
	copy_datagram(buffer->data, tx);
	ripc__buffer_hold(buffer, 1);
	*waiting = (struct waiting){.buffer = buffer, .len = tx->len, .from = from};
	to->n_waiting++;
	wake(to);
	return true;
}

static int send_datagrams(void *state, void *peer_state, const struct ripc__tx *tx, uint32_t n)
{
	struct loop_port *port = state;
	const struct loop_peer *peer = peer_state;
	struct loop_port *to;
	uint32_t taken;

	if (tx[0].len > DATAGRAM_MAX)
		return -EMSGSIZE;
	pthread_mutex_lock(&port->hub->lock);
	to = find_port(port->hub, peer->address);
	for (taken = 0; taken < n && tx[taken].len <= DATAGRAM_MAX; taken++) {
		/* What goes to a closed port is lost, as on any network. */
		if (to && !enqueue(to, port->address, &tx[taken]))
			break;
	}
	pthread_mutex_unlock(&port->hub->lock);
	return (int)taken;
}

/* Under the hub's lock. */
static void hand_over(struct loop_port *port, struct ripc__event *event, struct ripc__addr *from)
{
	const struct waiting *waiting = &port->waiting[port->first];

	fill_addr(from, waiting->from);
	*event = (struct ripc__event){
		.kind = RIPC_EV_DATAGRAM,
		.data = waiting->buffer->data,
		.len = waiting->len,
		.handle = waiting->buffer,
		.from = from,
	};
	port->first = (port->first + 1) % QUEUE;
	port->n_waiting--;
}

static int poll_events(void *state, struct ripc__event *events, uint32_t n)
{
	struct loop_port *port = state;
	uint32_t filled = 0;

	if (n > RIPC_EVENTS_MAX)
		n = RIPC_EVENTS_MAX;
	pthread_mutex_lock(&port->hub->lock);
	filled = come_home(port, events, n);
	while (filled < n && port->n_ended) {
		events[filled++] = port->ended[port->first_ended];
		port->first_ended = (port->first_ended + 1) % ENDED;
		port->n_ended--;
	}
	while (filled < n && port->n_waiting) {
		hand_over(port, &events[filled], &port->from[filled]);
		filled++;
	}
	pthread_mutex_unlock(&port->hub->lock);
	return (int)filled;
}

static void release(void *port, void *handle)
{
	(void)port; /* may be closed already */
	ripc__buffer_put(handle, 1);
}

/* ---- one-sided operations ---------------------------------------------------------------- */

static int mem_open(void *state, void *peer_state, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	struct loop_device *dev = state;
	const struct loop_peer *peer = peer_state;
	struct loop_key *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	if (getrandom(&made->key, sizeof(made->key), 0) != sizeof(made->key)) {
		free(made);
		return -EIO;
	}
	made->dev = dev;
	made->partner = peer->address;
	made->mem = mem;
	made->len = len;
	made->writable = writable;
	pthread_mutex_lock(&dev->hub->lock);
	list_append(&dev->hub->keys, &made->node);
	pthread_mutex_unlock(&dev->hub->lock);
	*key = (struct ripc__key){.address = (uintptr_t)mem, .key = made->key};
	return 0;
}

/* Under the hub's lock. One that is open. */
static struct loop_key *own_key(const struct loop_device *dev, const struct ripc__key *key)
{
	struct loop_key *found = find_key(dev->hub, key->key);

	return found && found->dev == dev && !found->handed ? found : NULL;
}

static int mem_close(void *state, const struct ripc__key *key, uint64_t cookie)
{
	struct loop_device *dev = state;
	struct loop_key *found;

	(void)cookie; /* nothing follows: copies happen under the lock */
	pthread_mutex_lock(&dev->hub->lock);
	found = own_key(dev, key);
	if (found && found->holder) {
		found->dev = NULL; /* it goes when it is unmapped */
		pthread_mutex_unlock(&dev->hub->lock);
		return 0;
	}
	if (found)
		list_remove(&found->node);
	pthread_mutex_unlock(&dev->hub->lock);
	if (!found)
		return -EINVAL;
	free(found);
	return 0;
}

static int mem_hand(void *state, const struct ripc__key *key, uint64_t cookie)
{
	struct loop_device *dev = state;
	struct loop_key *found;
	bool mapped;

	pthread_mutex_lock(&dev->hub->lock);
	found = own_key(dev, key);
	mapped = found && found->holder;
	if (mapped) {
		found->handed = true;
		found->cookie = cookie;
	}
	pthread_mutex_unlock(&dev->hub->lock);
	return mapped ? -EINPROGRESS : mem_close(state, key, cookie);
}

/* Under the hub's lock. Where a port may reach the partner's memory; NULL: it may not. */
static uint8_t *reach(struct loop_port *port, const struct loop_peer *peer,
		const struct ripc__key *key, uint64_t offset, size_t len, bool writes)
{
	const struct loop_key *found = find_key(port->hub, key->key);
	const struct loop_port *holder = find_port(port->hub, peer->address);

	if (!found || found->handed || !holder || found->dev != holder->dev ||
			found->partner != port->address || found->writable != writes)
		return NULL;
	if (key->address != (uintptr_t)found->mem)
		return NULL;
	if (offset > found->len || len > found->len - offset)
		return NULL;
	return found->mem + offset;
}

/* Under the hub's lock. Only what its owner can share is more than its own. */
static int map_key(struct loop_port *port, struct loop_key *key, size_t len,
		struct ripc__mapping *mapping)
{
	const struct ripc__host *host = &key->dev->host;
	struct ripc__shared shared;
	int rc = !host->share ? -EINVAL : key->holder ? -EBUSY :
		host->share(host->arg, key->mem, len, 0, &shared);
	void *base;

	if (rc)
		return rc;
	base = mmap(NULL, shared.len, PROT_READ, MAP_SHARED, shared.fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	key->holder = port;
	key->base = base;
	key->base_len = shared.len;
	*mapping = (struct ripc__mapping){.mem = (uint8_t *)base + (key->mem - shared.base),
		.base = base, .base_len = shared.len, .handle = key};
	return 0;
}

static int map_memory(void *state, void *peer, const struct ripc__key *key, size_t len,
		struct ripc__mapping *mapping)
{
	struct loop_port *port = state;
	int rc = -EACCES;

	pthread_mutex_lock(&port->hub->lock);
	if (reach(port, peer, key, 0, len, false))
		rc = map_key(port, find_key(port->hub, key->key), len, mapping);
	pthread_mutex_unlock(&port->hub->lock);
	return rc;
}

static void unmap_memory(void *state, void *handle)
{
	struct loop_port *port = state;

	pthread_mutex_lock(&port->hub->lock);
	unmap_key(port->hub, handle);
	pthread_mutex_unlock(&port->hub->lock);
}

/* Under the hub's lock. There is room. */
static void end_operation(struct loop_port *port, enum ripc__event_kind kind, uint64_t cookie,
		int status)
{
	struct ripc__event *event = &port->ended[(port->first_ended + port->n_ended) % ENDED];

	*event = (struct ripc__event){.kind = kind, .status = status, .cookie = cookie};
	port->n_ended++;
	wake(port);
}

static int read_memory(void *state, void *peer, const struct ripc__key *key, uint64_t offset,
		void *mem, size_t len, uint64_t cookie)
{
	struct loop_port *port = state;
	int rc = -EAGAIN;

	pthread_mutex_lock(&port->hub->lock);
	if (port->n_ended < ENDED) {
		const uint8_t *from = reach(port, peer, key, offset, len, false);

		if (from && len)
			memcpy(mem, from, len);
		end_operation(port, RIPC_EV_READ, cookie, from ? 0 : -EACCES);
		rc = 0;
	}
	pthread_mutex_unlock(&port->hub->lock);
	return rc;
}

static int write_memory(void *state, void *peer, const struct ripc__key *key, uint64_t offset,
		const void *mem, size_t len, uint64_t cookie)
{
	struct loop_port *port = state;
	int rc = -EAGAIN;

	pthread_mutex_lock(&port->hub->lock);
	if (port->n_ended < ENDED) {
		uint8_t *to = reach(port, peer, key, offset, len, true);

		if (to && len)
			memcpy(to, mem, len);
		end_operation(port, RIPC_EV_WRITE, cookie, to ? 0 : -EACCES);
		rc = 0;
	}
	pthread_mutex_unlock(&port->hub->lock);
	return rc;
}

/* ---- waiting ----------------------------------------------------------------------------- */

static int wait_fd(void *state)
{
	return ((struct loop_port *)state)->fd;
}

static int wait_arm(void *state)
{
	struct loop_port *port = state;
	uint64_t count;
	int rc = 0;

	pthread_mutex_lock(&port->hub->lock);
	while (read(port->fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	if (port->n_waiting || port->n_ended || port->dev->n_home)
		rc = -EAGAIN;
	else
		port->armed = true;
	pthread_mutex_unlock(&port->hub->lock);
	return rc;
}

const struct ripc__backend ripc__loop_backend = {
	.name = "loop",
	.id = 255,
	.dev_size = sizeof(struct loop_device),
	.port_size = sizeof(struct loop_port),
	.peer_size = sizeof(struct loop_peer),
	.probe = probe,
	.dev_open = dev_open,
	.dev_close = dev_close,
	.mem_open = mem_open,
	.mem_close = mem_close,
	.mem_hand = mem_hand,
	.port_open = port_open,
	.port_close = port_close,
	.port_addr = port_addr,
	.addr_choose = addr_choose,
	.addr_text = addr_text,
	.peer_open = peer_open,
	.peer_close = peer_close,
	.peer_addr = peer_addr,
	.peer_mtu = peer_mtu,
	.peer_matches = peer_matches,
	.send = send_datagrams,
	.poll = poll_events,
	.release = release,
	.read = read_memory,
	.write = write_memory,
	.map = map_memory,
	.unmap = unmap_memory,
	.wait_fd = wait_fd,
	.wait_arm = wait_arm,
};
