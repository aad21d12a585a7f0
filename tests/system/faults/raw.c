/* SPDX-License-Identifier: BSD-3-Clause */
/* See raw.h. Everything is encoded by core/wire/wire.c, so that only the meaning is a lie. */
#include "raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/wire/wire.h"
#include "fault.h"
#include "util/hash/crc32c.h"

#define INTRODUCE_MS 10000u

void raw_rebind(struct raw *raw)
{
	if (raw->fd >= 0)
		close(raw->fd);
	raw->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (raw->fd < 0)
		fault_fail("socket: %s", strerror(errno));
	raw->sent_bytes = raw->received_bytes = 0;
}

void raw_open(struct raw *raw, struct ripc_service *from, struct ripc_service *svc, uint64_t seed)
{
	struct ripc_path path = {.size = sizeof(path)};
	uint64_t rtt_ns;
	const char *port;
	/* A partner that was idle for a minute has been forgotten: an echo finds it again. */
	int error = ripc_ping(from, ripc_service_id(svc), 5000, &rtt_ns);

	error = error ? error : ripc_path_info(from, ripc_service_id(svc), &path);
	if (error)
		fault_fail("the path to the target is not known: %s", ripc_strerror(error));
	port = strrchr(path.address, ':');
	memset(raw, 0, sizeof(*raw));
	raw->fd = -1;
	raw->seed = seed;
	raw_rebind(raw);
	raw->to = (struct sockaddr_in){.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons((uint16_t)(port ? atoi(port + 1) : 0))};
	raw->service = fault_random(&raw->seed) >> 8 | 1; /* 0xff.. are groups */
	raw->incarnation = fault_random(&raw->seed) | 1;
	raw->context = fault_random(&raw->seed) | 1;
	raw->token_in = fault_random(&raw->seed) | 1;
	raw->their_service = ripc_service_id(svc);
	raw->their_incarnation = ripc_service_incarnation(svc);
}

void raw_close(struct raw *raw)
{
	close(raw->fd);
}

void raw_send(struct raw *raw, const void *bytes, size_t len)
{
	ssize_t n = sendto(raw->fd, bytes, len, 0, (struct sockaddr *)&raw->to, sizeof(raw->to));

	if (n == (ssize_t)len)
		raw->sent_bytes += len;
	else if (errno != ECONNREFUSED && errno != ENOBUFS)
		fault_fail("sendto %zu bytes: %s", len, strerror(errno));
}

void raw_say(struct raw *raw, struct wire_packet *packet, const uint64_t *lens, const void *payload)
{
	packet->h.version = WIRE_VERSION;
	packet->h.src = raw->incarnation;
	packet->h.dst = raw->their_incarnation;
	packet->h.token = raw->token_out;
	if (raw->token_out == 0 && packet->h.type != WIRE_DATA) {
		packet->h.flags |= WIRE_F_HELLO;
		packet->hello = (struct wire_hello){.token = raw->token_in,
			.service = raw->service, .context = raw->context,
			.to_service = raw->their_service, .proof = raw->proof,
			.unasked = 65536};
	}
	raw->len = wire_encode(raw->bytes, packet, lens, NULL);
	wire_checksum(raw->bytes, raw->len, ripc__crc32c(0, payload, packet->payload_len));
	if (payload)
		memcpy(raw->bytes + raw->len, payload, packet->payload_len);
	raw->len += packet->payload_len;
	raw_send(raw, raw->bytes, raw->len);
}

bool raw_hear(struct raw *raw, struct wire_packet *packet, int timeout_ms)
{
	struct pollfd poller = {.fd = raw->fd, .events = POLLIN};
	ssize_t n;

	while (poll(&poller, 1, timeout_ms) == 1) {
		n = recv(raw->fd, raw->received, sizeof(raw->received), MSG_DONTWAIT);
		if (n < 0)
			continue;
		raw->received_bytes += (uint64_t)n;
		if (wire_decode(raw->received, (size_t)n, packet) == 0 && wire_verify(packet,
				ripc__crc32c(0, packet->payload, packet->payload_len)))
			return true;
	}
	return false;
}

void raw_drain(struct raw *raw)
{
	struct wire_packet packet;

	while (raw_hear(raw, &packet, 50))
		;
}

void raw_introduce(struct raw *raw)
{
	uint64_t until_ms = fault_now_ms() + INTRODUCE_MS;
	struct wire_packet packet;

	/* On a loaded machine many other packets may come before the answer. */
	while (raw->token_out == 0 && fault_now_ms() < until_ms) {
		struct wire_packet hello = {.h.type = WIRE_HELLO_ONLY};

		raw_say(raw, &hello, NULL, NULL);
		if (!raw_hear(raw, &packet, 100))
			continue;
		if (packet.h.type == WIRE_RETRY)
			raw->proof = packet.value;
		if (packet.h.flags & WIRE_F_HELLO && packet.h.token == raw->token_in)
			raw->token_out = packet.hello.token;
	}
	if (raw->token_out == 0)
		fault_fail("the target does not accept a valid partner");
}
