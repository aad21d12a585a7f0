/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of the ofi backend: address blobs, and the head of every datagram, which names its
 * sender (docs/protocol.md). Both carry the provider's own name of an endpoint, which the
 * provider has no means to check: the known forms of names are therefore checked here, before
 * the provider gets one.
 */
#include "internal.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "util/bytes.h"

#define HEAD       4u /* bytes of a head before the name */
#define EFA_NAME   32u
#define EFA_PLACE  20u /* GID and queue pair, which may have had other owners */
#define EFA_USED   24u /* the bytes behind are the provider's own, on its host */

static const uint8_t zeros[16];

/* ---- forms of names ---------------------------------------------------------------------- */

static bool is_ip4(const uint8_t *bytes, size_t len)
{
	struct sockaddr_in at;
	uint32_t ip;

	if (len != sizeof(at))
		return false;
	memcpy(&at, bytes, sizeof(at));
	ip = ntohl(at.sin_addr.s_addr);
	return at.sin_family == AF_INET && at.sin_port && ip >> 24 && ip >> 28 < 0xe;
}

static bool is_ip6(const uint8_t *bytes, size_t len)
{
	struct sockaddr_in6 at;

	if (len != sizeof(at))
		return false;
	memcpy(&at, bytes, sizeof(at));
	return at.sin6_family == AF_INET6 && at.sin6_port && at.sin6_addr.s6_addr[0] != 0xff &&
		memcmp(&at.sin6_addr, zeros, sizeof(zeros)) != 0;
}

/* The key of a queue pair, as its host has it in memory. */
static uint32_t efa_key(const uint8_t *bytes)
{
	uint32_t key;

	memcpy(&key, bytes + EFA_PLACE, sizeof(key));
	return key;
}

/* struct efa_ep_addr of libfabric: GID, number and key of a queue pair, a pointer (zero here). */
static bool is_efa(const uint8_t *bytes, size_t len)
{
	return len == EFA_NAME && memcmp(bytes, zeros, 16) != 0 && bytes[0] != 0xff &&
		get16(bytes + 16) && !get16(bytes + 18) && efa_key(bytes) < OFI_KEY_LEVEL &&
		memcmp(bytes + EFA_USED, zeros, EFA_NAME - EFA_USED) == 0;
}

/* "fi_shm://1:0:0": a word, and then no character with a meaning in file names. */
static bool is_text(const uint8_t *bytes, size_t len)
{
	const char *text = (const char *)bytes, *rest;

	if (len < 2 || memchr(bytes, '\0', len) != bytes + len - 1)
		return false;
	rest = strstr(text, "://");
	for (const char *at = text; rest && at < rest; at++) {
		if (!islower((unsigned char)*at) && *at != '_')
			return false;
	}
	rest = rest && rest != text ? rest + 3 : "";
	return rest[0] && strspn(rest, "0123456789abcdefghijklmnopqrstuvwxyz"
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ_:-") == strlen(rest);
}

static bool is_of_format(uint8_t format, const uint8_t *bytes, size_t len)
{
	switch (format) {
	case OFI_FORMAT_IP4:
		return is_ip4(bytes, len);
	case OFI_FORMAT_IP6:
		return is_ip6(bytes, len);
	case OFI_FORMAT_EFA:
		return is_efa(bytes, len);
	case OFI_FORMAT_TEXT:
		return is_text(bytes, len);
	case OFI_FORMAT_OTHER:
		return len > 0;
	default:
		return false;
	}
}

static uint8_t format_of(const struct fi_info *info, const void *bytes, size_t len)
{
	switch (info->addr_format) {
	case FI_SOCKADDR_IN:
		return OFI_FORMAT_IP4;
	case FI_SOCKADDR_IN6:
		return OFI_FORMAT_IP6;
	case FI_SOCKADDR:
		return is_ip4(bytes, len) ? OFI_FORMAT_IP4 : OFI_FORMAT_IP6;
	case FI_ADDR_EFA:
		return OFI_FORMAT_EFA;
	case FI_ADDR_STR:
		return OFI_FORMAT_TEXT;
	default:
		return OFI_FORMAT_OTHER;
	}
}

int ripc__ofi_name_from(const struct fi_info *info, const void *bytes, size_t len,
		struct ofi_name *name)
{
	struct ofi_name made = {.protocol = info->ep_attr->protocol};

	if (len > OFI_NAME_MAX)
		return -ENAMETOOLONG;
	made.len = (uint8_t)len;
	made.format = format_of(info, bytes, len);
	memcpy(made.bytes, bytes, len);
	if (made.format == OFI_FORMAT_EFA && len == EFA_NAME)
		memset(made.bytes + EFA_USED, 0, EFA_NAME - EFA_USED);
	if (!is_of_format(made.format, made.bytes, len))
		return -EADDRNOTAVAIL;
	*name = made;
	return 0;
}

/* ---- address blobs ----------------------------------------------------------------------- */

int ripc__ofi_name_encode(const struct ofi_name *name, uint8_t blob[RIPC_ADDR_MAX])
{
	blob[0] = OFI_VERSION;
	blob[1] = name->format;
	blob[2] = name->len;
	blob[3] = name->unchecked;
	put32(blob + 4, name->protocol);
	memcpy(blob + OFI_ADDR_HEAD, name->bytes, name->len);
	return (int)(OFI_ADDR_HEAD + name->len);
}

int ripc__ofi_name_decode(const uint8_t *blob, size_t len, const struct ofi_name *self,
		struct ofi_name *name)
{
	struct ofi_name read = {0};

	if (len <= OFI_ADDR_HEAD || len > RIPC_ADDR_MAX || blob[0] != OFI_VERSION ||
			blob[3] != self->unchecked)
		return -EBADMSG;
	read.unchecked = self->unchecked;
	read.format = blob[1];
	read.len = blob[2];
	read.protocol = get32(blob + 4);
	if (read.len != len - OFI_ADDR_HEAD || read.protocol != self->protocol ||
			read.format != self->format)
		return -EBADMSG;
	memcpy(read.bytes, blob + OFI_ADDR_HEAD, read.len);
	if (!is_of_format(read.format, read.bytes, read.len))
		return -EBADMSG;
	*name = read;
	return 0;
}

/* The host, as far as the name shows it. */
static void host_of(const struct ofi_name *name, uint8_t host[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

	memset(host, 0, 16);
	if (name->format == OFI_FORMAT_IP4) {
		memcpy(host, mapped, sizeof(mapped));
		memcpy(host + 12, name->bytes + 4, 4);
	} else if (name->format == OFI_FORMAT_IP6) {
		memcpy(host, name->bytes + 8, 16);
	} else if (name->format == OFI_FORMAT_EFA) {
		memcpy(host, name->bytes, 16);
	}
}

void ripc__ofi_addr_fill(const struct ofi_name *name, const struct ofi_name *self,
		struct ripc__addr *addr)
{
	static const uint8_t here[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
	uint8_t own[16];

	host_of(name, addr->host);
	host_of(self, own);
	if (memcmp(addr->host, own, sizeof(own)) == 0 && name->format != OFI_FORMAT_OTHER)
		memcpy(addr->host, here, sizeof(here));
	addr->len = (uint8_t)ripc__ofi_name_encode(name, addr->blob);
}

bool ripc__ofi_addr_same_place(const struct ripc__addr *a, const struct ripc__addr *b)
{
	return a->len == b->len && a->blob[1] == OFI_FORMAT_EFA && b->blob[1] == OFI_FORMAT_EFA &&
		memcmp(a->blob + OFI_ADDR_HEAD, b->blob + OFI_ADDR_HEAD, EFA_PLACE) == 0;
}

void ripc__ofi_addr_nobody(const struct ripc__addr *place, uint32_t key, struct ripc__addr *addr)
{
	*addr = *place;
	memcpy(addr->blob + OFI_ADDR_HEAD + EFA_PLACE, &key, sizeof(key));
}

void ripc__ofi_addr_text(const struct ripc__addr *addr, char text[64])
{
	char ip[INET6_ADDRSTRLEN] = "";
	const uint8_t *bytes = addr->blob + OFI_ADDR_HEAD;
	struct ofi_name name, self;

	snprintf(text, 64, "?");
	if (addr->len <= OFI_ADDR_HEAD)
		return;
	self.format = addr->blob[1];
	self.unchecked = addr->blob[3] == 1;
	self.protocol = get32(addr->blob + 4);
	if (ripc__ofi_name_decode(addr->blob, addr->len, &self, &name))
		return;
	if (name.format == OFI_FORMAT_IP4)
		inet_ntop(AF_INET, bytes + 4, ip, sizeof(ip));
	else if (name.format == OFI_FORMAT_IP6)
		inet_ntop(AF_INET6, bytes + 8, ip, sizeof(ip));
	else if (name.format == OFI_FORMAT_EFA)
		inet_ntop(AF_INET6, bytes, ip, sizeof(ip));
	if (name.format == OFI_FORMAT_EFA)
		snprintf(text, 64, "%.45s qp %u", ip, get16(bytes + 16));
	else if (ip[0])
		snprintf(text, 64, "%.45s port %u", ip, (unsigned int)bytes[2] << 8 | bytes[3]);
	else if (name.format == OFI_FORMAT_TEXT)
		snprintf(text, 64, "%.55s", (const char *)name.bytes);
	else
		snprintf(text, 64, "protocol %u, %u bytes", name.protocol, name.len);
}

/* ---- before every datagram --------------------------------------------------------------- */

/* Bytes of a name that are sent, without the zeros that end each name of EFA. */
static uint8_t sent_len(const struct ofi_name *name)
{
	return name->format == OFI_FORMAT_EFA ? EFA_USED : name->len;
}

static uint32_t head_len(uint8_t name_len)
{
	return (HEAD + name_len + 7u) & ~7u;
}

uint32_t ripc__ofi_head_room(const struct fi_info *info)
{
	switch (info->addr_format) {
	case FI_SOCKADDR_IN:
		return head_len(sizeof(struct sockaddr_in));
	case FI_ADDR_EFA:
		return head_len(EFA_USED);
	default:
		return OFI_HEAD_MAX;
	}
}

uint32_t ripc__ofi_head_encode(const struct ofi_name *self, uint8_t head[OFI_HEAD_MAX])
{
	memset(head, 0, OFI_HEAD_MAX);
	head[0] = OFI_VERSION;
	head[1] = self->format;
	head[2] = sent_len(self);
	head[3] = self->unchecked;
	memcpy(head + HEAD, self->bytes, head[2]);
	return head_len(head[2]);
}

int ripc__ofi_head_decode(const uint8_t *bytes, size_t len, const struct ofi_name *self,
		struct ofi_name *name)
{
	struct ofi_name read = {.protocol = self->protocol, .unchecked = self->unchecked};
	uint32_t head;

	if (len < HEAD || bytes[0] != OFI_VERSION || bytes[1] != self->format ||
			bytes[3] != self->unchecked || bytes[2] > OFI_NAME_MAX)
		return -EBADMSG;
	read.format = bytes[1];
	read.len = bytes[2];
	head = head_len(read.len);
	if (len < head)
		return -EBADMSG;
	for (uint32_t i = HEAD + read.len; i < head; i++) {
		if (bytes[i])
			return -EBADMSG;
	}
	memcpy(read.bytes, bytes + HEAD, read.len);
	if (read.format == OFI_FORMAT_EFA)
		read.len = read.len == EFA_USED ? EFA_NAME : 0; /* only in its short form */
	if (!is_of_format(read.format, read.bytes, read.len))
		return -EBADMSG;
	*name = read;
	return (int)head;
}
