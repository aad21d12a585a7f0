/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TCP counterpart of xfer: a stream of the same bytes into a buffer that was touched before,
 * acknowledged by one byte when the last byte of a message has been read, and by another when it
 * has been checked. Also a flow that just fills a link for some time. Speaks JSON, one object
 * per line.
 *
 *   tcpxfer serve PORT BYTES               receives messages of so many bytes
 *   tcpxfer sink PORT SECONDS              receives anything, for at most so long
 *   tcpxfer send ADDRESS PORT BYTES        sends one whenever a line comes in
 *   tcpxfer flow ADDRESS PORT SECONDS      sends for so long, to a sink
 * TCP_CONGESTION in the environment chooses the congestion control.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "xfer.h"

static int fail(const char *what)
{
	perror(what);
	return 1;
}

static void options(int fd)
{
	const char *congestion = getenv("TCP_CONGESTION");
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (congestion && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion,
			(socklen_t)strlen(congestion)))
		perror("tcpxfer: TCP_CONGESTION");
}

static char *touched(uint64_t bytes)
{
	char *buffer = malloc(bytes);

	if (buffer)
		pattern_fill(buffer, bytes, 0);
	return buffer;
}

static bool receive_all(int fd, char *buffer, uint64_t bytes)
{
	while (bytes) {
		ssize_t n = recv(fd, buffer, bytes, 0);

		if (n <= 0)
			return false;
		buffer += n;
		bytes -= (uint64_t)n;
	}
	return true;
}

static bool send_all(int fd, const char *buffer, uint64_t bytes)
{
	while (bytes) {
		ssize_t n = send(fd, buffer, bytes, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		buffer += n;
		bytes -= (uint64_t)n;
	}
	return true;
}

static int serve_messages(int fd, uint64_t bytes)
{
	char *buffer = touched(bytes);
	uint64_t seed, wrong = 0, messages = 0;

	while (buffer && receive_all(fd, buffer, bytes)) {
		if (!send_all(fd, "", 1))
			break;
		wrong += !pattern_check(buffer, bytes, &seed);
		messages++;
		if (!send_all(fd, "", 1))
			break;
	}
	free(buffer);
	printf("{\"messages\":%llu,\"wrong\":%llu}\n", (unsigned long long)messages,
		(unsigned long long)wrong);
	return wrong != 0;
}

/* Receives for so many seconds, or until the other end closes. */
static int serve_flow(int fd, double most_s)
{
	static char buffer[1 << 20];
	struct timeval wait = {.tv_usec = 100000};
	uint64_t bytes = 0;
	double began = now_s();
	ssize_t n = 1;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	while (n != 0 && now_s() - began < most_s) {
		n = recv(fd, buffer, sizeof(buffer), 0);
		if (n < 0 && errno != EAGAIN)
			break;
		bytes += n > 0 ? (uint64_t)n : 0;
	}
	printf("{\"bytes\":%llu,\"seconds\":%.3f,\"mbs\":%.3f}\n", (unsigned long long)bytes,
		now_s() - began, 1e-6 * (double)bytes / (now_s() - began));
	return 0;
}

/* bytes: of a message; 0: a sink, for most_s seconds. */
static int serve(uint16_t port, uint64_t bytes, double most_s)
{
	struct sockaddr_in6 here = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int listener = socket(AF_INET6, SOCK_STREAM, 0), fd, on = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)&here, sizeof(here)) || listen(listener, 1))
		return fail("tcpxfer: listen");
	printf("ready\n");
	fflush(stdout);
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		return fail("tcpxfer: accept");
	options(fd);
	return bytes ? serve_messages(fd, bytes) : serve_flow(fd, most_s);
}

static int send_messages(int fd, uint64_t bytes)
{
	char *buffer = touched(bytes), line[64], ack;

	for (uint64_t seed = 1; buffer; seed++) {
		double began, seconds;

		pattern_fill(buffer, bytes, seed);
		if (!fgets(line, sizeof(line), stdin))
			break;
		began = now_s();
		if (!send_all(fd, buffer, bytes) || !receive_all(fd, &ack, 1))
			return fail("tcpxfer: send");
		seconds = now_s() - began;
		if (!receive_all(fd, &ack, 1))
			return fail("tcpxfer: check");
		printf("{\"sent\":%llu,\"seconds\":%.6f,\"mbs\":%.3f}\n", (unsigned long long)bytes,
			seconds, 1e-6 * (double)bytes / seconds);
		fflush(stdout);
	}
	return 0;
}

static int send_flow(int fd, double seconds)
{
	static char buffer[1 << 16];
	double until = now_s() + seconds;

	while (now_s() < until) {
		if (!send_all(fd, buffer, sizeof(buffer)))
			return fail("tcpxfer: send");
	}
	return 0;
}

static int send_to(const char *address, uint16_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	options(fd);
	inet_pton(AF_INET, address, &in.sin_addr);
	if (connect(fd, (struct sockaddr *)&in, sizeof(in))) {
		perror("tcpxfer: connect");
		return -1;
	}
	return fd;
}

int main(int argc, char **argv)
{
	int fd;

	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		return serve((uint16_t)number(argv[2]), number(argv[3]), 0);
	if (argc == 4 && strcmp(argv[1], "sink") == 0)
		return serve((uint16_t)number(argv[2]), 0, strtod(argv[3], NULL));
	if (argc != 5) {
		fprintf(stderr, "usage: tcpxfer serve PORT BYTES | sink PORT SECONDS | "
			"send ADDRESS PORT BYTES | flow ADDRESS PORT SECONDS\n");
		return 2;
	}
	fd = send_to(argv[2], (uint16_t)number(argv[3]));
	if (fd < 0)
		return 1;
	return strcmp(argv[1], "flow") == 0 ? send_flow(fd, strtod(argv[4], NULL)) :
		send_messages(fd, number(argv[4]));
}
