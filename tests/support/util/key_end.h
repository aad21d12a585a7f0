/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context with keys for tests of handshakes: its clock stands still, its random numbers are drawn
 * from a seed, and its network keeps what is sent. A test hands datagrams from one end to another,
 * or makes them up.
 */
#ifndef KEY_END_H
#define KEY_END_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/keys/internal.h"
#include "core/keys/sealed.h"
#include "core/net/env.h"
#include "core/objects.h"
#include "util/text.h"

#define KEY_END_SENT 16u   /* datagrams that are kept; more are lost */
#define KEY_END_ROOM 2048u
#define KEY_END_DIR  64u   /* bytes of a directory's name */

struct key_datagram {
	uint32_t len;
	uint8_t bytes[KEY_END_ROOM];
	uint8_t to; /* the number of the end that it was sent to */
};

struct key_end {
	struct ripc__env env;
	struct ripc_context *ctx;
	struct ripc__addr addr;    /* where this end lives */
	uint64_t now_us, drawn;
	const uint8_t *ephemeral;  /* the next random number of 32 bytes; or NULL: drawn, too */
	uint32_t n_sent;
	struct key_datagram sent[KEY_END_SENT];
	struct key_datagram in;    /* the datagram that the next poll finds; len 0: none */
	struct ripc__addr in_from;
};

struct key_end_port {
	struct key_end *end;
};

static inline int key_end_probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	(void)host;
	why[0] = remedy[0] = 0;
	return 0;
}

static inline int key_end_port_open(void *port, const struct ripc__host *host,
		struct ripc__attr *attr)
{
	((struct key_end_port *)port)->end = host->env;
	*attr = (struct ripc__attr){.fd = -1, .receive_buffer = 1 << 20};
	return 0;
}

static inline void key_end_port_close(void *port)
{
	(void)port;
}

static inline int key_end_address(void *port, uint8_t blob[RIPC_ADDR_MAX])
{
	struct key_end *end = ((struct key_end_port *)port)->end;

	memcpy(blob, end->addr.blob, end->addr.len);
	return end->addr.len;
}

static inline int key_end_choose(void *port, const uint8_t *blob, size_t len,
		const uint8_t host[16], struct ripc__addr *addr)
{
	(void)port;
	if (len == 0 || len > 8)
		return -EINVAL;
	*addr = (struct ripc__addr){.len = (uint8_t)len};
	memcpy(addr->host, host, 16);
	memcpy(addr->blob, blob, len);
	return 0;
}

static inline void key_end_text(const struct ripc__addr *addr, char text[64])
{
	snprintf(text, 64, "end %u", addr->blob[0]);
}

static inline int key_end_route_open(void *port, void *route, const struct ripc__addr *addr)
{
	(void)port;
	memcpy(route, addr, sizeof(*addr));
	return 0;
}

static inline void key_end_route_close(void *port, void *route)
{
	(void)port;
	(void)route;
}

static inline void key_end_where(void *port, const void *route, struct ripc__where *where)
{
	(void)port;
	*where = (struct ripc__where){.addr = *(const struct ripc__addr *)route};
}

static inline uint32_t key_end_mtu(void *port, void *route)
{
	(void)port;
	(void)route;
	return KEY_END_ROOM;
}

static inline bool key_end_matches(void *port, const void *route, const struct ripc__addr *from)
{
	(void)port;
	return memcmp(route, from, sizeof(*from)) == 0;
}

static inline int key_end_send(void *port, void *route, const struct ripc__tx *tx, uint32_t n)
{
	struct key_end *end = ((struct key_end_port *)port)->end;

	for (uint32_t i = 0; i < n && end->n_sent < KEY_END_SENT; i++) {
		struct key_datagram *at = &end->sent[end->n_sent++];

		at->to = ((const struct ripc__addr *)route)->blob[2];
		at->len = 0;
		for (uint32_t j = 0; j < tx[i].n_iov; j++) {
			memcpy(at->bytes + at->len, tx[i].iov[j].iov_base, tx[i].iov[j].iov_len);
			at->len += (uint32_t)tx[i].iov[j].iov_len;
		}
	}
	return (int)n;
}

static inline int key_end_poll(void *port, struct ripc__event *events, uint32_t n, bool all)
{
	struct key_end *end = ((struct key_end_port *)port)->end;
	uint32_t len = end->in.len;

	(void)all;
	if (!n || !len)
		return 0;
	end->in.len = 0;
	*events = (struct ripc__event){.kind = RIPC_EV_DATAGRAM, .data = end->in.bytes, .len = len,
		.from = &end->in_from};
	return 1;
}

static inline void key_end_release(void *port, void *handle)
{
	(void)port;
	(void)handle;
}

static const struct ripc__backend key_end_backend = {
	.name = "ends", .id = 1, .is_sealable = true,
	.port_size = sizeof(struct key_end_port), .route_size = sizeof(struct ripc__addr),
	.net = {.probe = key_end_probe, .open = key_end_port_open, .close = key_end_port_close,
		.address = key_end_address},
	.route = {.choose = key_end_choose, .text = key_end_text, .open = key_end_route_open,
		.close = key_end_route_close, .where = key_end_where, .mtu = key_end_mtu,
		.matches = key_end_matches},
	.datagrams = {.send = key_end_send, .poll = key_end_poll, .release = key_end_release},
};
static const struct ripc__backend *const key_end_backends[] = {&key_end_backend, NULL};
static const struct ripc__source *const key_end_sources[] = {NULL};

static inline uint64_t key_end_now_us(void *arg)
{
	return ((struct key_end *)arg)->now_us;
}

static inline uint64_t key_end_wall_ns(void *arg)
{
	return ((struct key_end *)arg)->now_us * 1000;
}

static inline int key_end_random(void *arg, void *bytes, size_t len)
{
	struct key_end *end = arg;

	if (len == 32 && end->ephemeral) {
		memcpy(bytes, end->ephemeral, 32);
		return 0;
	}
	for (size_t i = 0; i < len; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(++end->drawn * 0x9e3779b97f4a7c15u >> 56);
	return 0;
}

/* The end lives at an address that number makes; the seed of its random numbers, too. */
static inline int key_end_open(struct key_end *end, const char *dir, uint8_t number,
		const struct ripc__crypto *(*crypto)(char why[256], char remedy[256]))
{
	struct ripc_config cfg = {.size = sizeof(cfg), .flags = RIPC_SINGLE_THREAD, .keys = dir,
		.pool_bytes = 1 << 20};

	*end = (struct key_end){.now_us = 1000000000, .drawn = 1000u * number,
		.addr = {.host = {[10] = 0xff, 0xff, 10, 0, 0, number}, .len = 4,
			.blob = {1, 0, number, 40}}};
	end->env = (struct ripc__env){.arg = end, .now_us = key_end_now_us,
		.wall_ns = key_end_wall_ns, .random = key_end_random,
		.backends = key_end_backends, .sources = key_end_sources, .crypto = crypto,
		.host_identity = 7};
	return ripc__open_in(&cfg, &end->env, &end->ctx);
}

/* The one network of an end. */
static inline struct sealed_net *key_end_net(const struct key_end *end)
{
	return &end->ctx->seal->nets[0];
}

/* The knowledge of end about other. NULL: no memory. */
static inline struct member *key_end_member(struct key_end *end, const struct key_end *other)
{
	return ripc__member_get(end->ctx->seal, other->ctx->seal->dir.own.public,
		other->ctx->incarnation);
}

/* ---- directories of keys ------------------------------------------------------------------- */

static inline bool key_end_file(const char *dir, const char *name, const void *text, size_t len,
		mode_t mode)
{
	char path[KEY_END_DIR + 32];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	return file && fchmod(fileno(file), mode) == 0 && fwrite(text, 1, len, file) == len &&
		fclose(file) == 0;
}

static inline bool key_end_digits(const char *dir, const char *name, const uint8_t *bytes,
		size_t len)
{
	char text[2 * CAPABILITY_LEN + 1];

	ripc__hex_write(text, bytes, len);
	text[2 * len] = '\n';
	return key_end_file(dir, name, text, 2 * len + 1, 0600);
}

/* An empty directory, in memory where there is a place for it: a fuzz target writes there often. */
static inline bool key_end_dir_empty(char dir[KEY_END_DIR])
{
	strcpy(dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm/ripc-keys-XXXXXX" :
		"/tmp/ripc-keys-XXXXXX");
	return mkdtemp(dir);
}

/* Makes a directory of keys. key_end_dir_remove() removes it. */
static inline bool key_end_dir_make(char dir[KEY_END_DIR], const uint8_t private[32],
		const uint8_t secret[32])
{
	return key_end_dir_empty(dir) && key_end_digits(dir, "private", private, 32) &&
		key_end_digits(dir, "secret", secret, 32);
}

static inline void key_end_dir_remove(const char *dir)
{
	static const char *const names[] = {"private", "secret", "authority", "capabilities"};
	char path[KEY_END_DIR + 32];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

#endif
