/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop backend: contexts of one process, for tests.
 * It is reliable: a sender whose partner's queue is full is told so. Reads and writes are
 * native; what is given is mapped, so that its holder sees it even without its owner.
 *
 * The hub has one mutex, under which everything happens, copies too. So a range that mem.close
 * has taken back is out of reach at once. Waiting for that mutex is the one rule of backend.h that
 * this backend breaks; no thread holds the mutex longer than a copy takes.
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

struct loop_key {
	struct list node; /* hub->keys */
	struct loop_port *port; /* owner; NULL: closed, but it is mapped */
	uint64_t partner; /* owner of the port that may use it */
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
	struct ripc__host host;
	uint32_t n_home;  /* keys that were handed, and have been unmapped */
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

/* The owner of a handed key hears that it is free. */
static void wake_owner(const struct loop_key *key)
{
	key->port->n_home++;
	wake(key->port);
}

static void unmap_key(struct loop_key *key)
{
	munmap(key->base, key->base_len);
	key->holder = NULL;
	if (!key->port) {
		list_remove(&key->node);
		free(key);
	} else if (key->handed) {
		wake_owner(key);
	}
}

static void unmap_all(struct loop_port *port)
{
	list_for_each_safe(node, &port->hub->keys) {
		struct loop_key *key = list_entry(node, struct loop_key, node);

		if (key->holder == port)
			unmap_key(key);
	}
}

/* Handed keys that nobody holds any more. */
static uint32_t come_home(struct loop_port *port, struct ripc__event *events, uint32_t n)
{
	uint32_t filled = 0;

	if (port->n_home == 0)
		return 0;
	list_for_each_safe(node, &port->hub->keys) {
		struct loop_key *key = list_entry(node, struct loop_key, node);

		if (key->port != port || !key->handed || key->holder || filled == n)
			continue;
		events[filled++] = (struct ripc__event){.kind = RIPC_EV_FENCED,
			.cookie = key->cookie};
		port->n_home--;
		list_remove(&key->node);
		free(key);
	}
	return filled;
}

/* ---- the port ---------------------------------------------------------------------------- */

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

static int open_port(void *state, const struct ripc__host *host, struct ripc__attr *attr)
{
	struct loop_port *port = state;
	int rc = get_hub(host) ? 0 : -ENODEV;

	if (!rc)
		rc = ripc__buffers_open(QUEUE, DATAGRAM_MAX, &port->buffers);
	if (rc)
		return rc;
	port->hub = get_hub(host);
	port->host = *host;
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
	*attr = (struct ripc__attr){
		.caps = RIPC_CAP_RELIABLE | RIPC_CAP_INTACT | RIPC_CAP_READ | RIPC_CAP_WRITE |
			RIPC_CAP_MAP,
		.fd = port->fd,
	};
	return 0;
}

/* Memory mapped by a key stays. */
static void close_keys(struct loop_port *port)
{
	list_for_each_safe(node, &port->hub->keys) {
		struct loop_key *key = list_entry(node, struct loop_key, node);

		if (key->port != port)
			continue;
		key->port = NULL;
		if (key->holder)
			continue;
		list_remove(&key->node);
		free(key);
	}
}

static void close_port(void *state)
{
	struct loop_port *port = state;

	pthread_mutex_lock(&port->hub->lock);
	list_remove(&port->node);
	unmap_all(port);
	close_keys(port);
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

static int address(void *state, uint8_t blob[RIPC_ADDR_MAX])
{
	const struct loop_port *port = state;

	put64(blob, port->address);
	return ADDR_LEN;
}

static int choose(void *port, const uint8_t *blob, size_t len, const uint8_t host[16],
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

static int route_open(void *port, void *state, const struct ripc__addr *addr)
{
	struct loop_peer *peer = state;

	(void)port;
	if (addr->len != ADDR_LEN)
		return -EINVAL;
	peer->address = get64(addr->blob);
	return 0;
}

static void route_close(void *port, void *peer)
{
	(void)port;
	(void)peer;
}

static void route_where(void *port, const void *state, struct ripc__where *where)
{
	const struct loop_peer *peer = state;

	(void)port;
	fill_addr(&where->addr, peer->address);
	where->reader = 0;
}

static uint32_t route_mtu(void *port, void *peer)
{
	(void)port;
	(void)peer;
	return DATAGRAM_MAX;
}

static bool route_matches(void *port, const void *state, const struct ripc__addr *from)
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
		/* Datagrams to a closed port are lost, as on any network. */
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

static int poll_events(void *state, struct ripc__event *events, uint32_t n, bool all)
{
	struct loop_port *port = state;
	uint32_t filled = 0;

	(void)all;
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
	struct loop_port *port = state;
	const struct loop_peer *peer = peer_state;
	struct loop_key *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	if (getrandom(&made->key, sizeof(made->key), 0) != sizeof(made->key)) {
		free(made);
		return -EIO;
	}
	made->port = port;
	made->partner = peer->address;
	made->mem = mem;
	made->len = len;
	made->writable = writable;
	pthread_mutex_lock(&port->hub->lock);
	list_append(&port->hub->keys, &made->node);
	pthread_mutex_unlock(&port->hub->lock);
	*key = (struct ripc__key){.address = (uintptr_t)mem, .key = made->key};
	return 0;
}

/* Under the hub's lock. False: the partner has not mapped it. */
static bool key_hand(struct loop_key *key, uint64_t cookie)
{
	key->handed = key->holder != NULL;
	key->cookie = cookie;
	return key->handed;
}

/* Under the hub's lock. */
static void key_close(struct loop_key *key)
{
	if (key->holder) {
		key->port = NULL; /* the key goes when it is unmapped */
		return;
	}
	list_remove(&key->node);
	free(key);
}

/* But for what is handed over nothing follows: copies happen under the lock. */
static int mem_close(void *state, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie)
{
	struct loop_port *port = state;
	struct loop_key *found;
	int rc = 0;

	pthread_mutex_lock(&port->hub->lock);
	found = find_key(port->hub, key->key);
	if (!found || found->port != port || found->handed)
		rc = -EINVAL;
	else if (how == RIPC_CLOSE_HAND && key_hand(found, cookie))
		rc = -EINPROGRESS;
	else
		key_close(found);
	pthread_mutex_unlock(&port->hub->lock);
	return rc;
}

/* Under the hub's lock. Where a port may reach the partner's memory; NULL: it may not. */
static uint8_t *reach(struct loop_port *port, const struct loop_peer *peer,
		const struct ripc__move *move)
{
	const struct loop_key *found = find_key(port->hub, move->key.key);
	const struct loop_port *holder = find_port(port->hub, peer->address);

	if (!found || found->handed || !holder || found->port != holder ||
			found->partner != port->address || found->writable != move->writes)
		return NULL;
	if (move->key.address != (uintptr_t)found->mem)
		return NULL;
	if (move->offset > found->len || move->len > found->len - move->offset)
		return NULL;
	return found->mem + move->offset;
}

/* Under the hub's lock. Only what its owner can share is more than its own. */
static int map_key(struct loop_port *port, struct loop_key *key, size_t len,
		struct ripc__mapping *mapping)
{
	const struct ripc__host *host = &key->port->host;
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
	if (reach(port, peer, &(struct ripc__move){.key = *key, .len = len}))
		rc = map_key(port, find_key(port->hub, key->key), len, mapping);
	pthread_mutex_unlock(&port->hub->lock);
	return rc;
}

static void unmap_memory(void *state, void *handle)
{
	struct loop_port *port = state;

	pthread_mutex_lock(&port->hub->lock);
	unmap_key(handle);
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

/* Under the hub's lock. 0, or why nothing was moved. */
static int copy(struct loop_port *port, const struct loop_peer *peer, const struct ripc__move *move)
{
	uint8_t *theirs = reach(port, peer, move);

	if (!theirs)
		return -EACCES;
	if (move->len && move->writes)
		memcpy(theirs, move->mem, move->len);
	else if (move->len)
		memcpy(move->mem, theirs, move->len);
	return 0;
}

static int move_memory(void *state, void *peer, const struct ripc__move *move)
{
	struct loop_port *port = state;
	int rc = -EAGAIN;

	pthread_mutex_lock(&port->hub->lock);
	if (port->n_ended < ENDED) {
		end_operation(port, move->writes ? RIPC_EV_WRITE : RIPC_EV_READ, move->cookie,
			copy(port, peer, move));
		rc = 0;
	}
	pthread_mutex_unlock(&port->hub->lock);
	return rc;
}

/* ---- waiting ----------------------------------------------------------------------------- */

static int arm(void *state)
{
	struct loop_port *port = state;
	uint64_t count;
	int rc = 0;

	pthread_mutex_lock(&port->hub->lock);
	while (read(port->fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	if (port->n_waiting || port->n_ended || port->n_home)
		rc = -EAGAIN;
	else
		port->armed = true;
	pthread_mutex_unlock(&port->hub->lock);
	return rc;
}

const struct ripc__backend ripc__loop_backend = {
	.name = "loop",
	.id = 255,
	.port_size = sizeof(struct loop_port),
	.route_size = sizeof(struct loop_peer),
	.net = {.probe = probe, .open = open_port, .close = close_port, .address = address,
		.arm = arm},
	.route = {.choose = choose, .text = addr_text, .open = route_open, .close = route_close,
		.where = route_where, .mtu = route_mtu, .matches = route_matches},
	.datagrams = {.send = send_datagrams, .poll = poll_events, .release = release},
	.mem = {.open = mem_open, .close = mem_close},
	.remote = {.move = move_memory, .map = map_memory, .unmap = unmap_memory},
};
