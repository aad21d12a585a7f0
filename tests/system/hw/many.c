/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One datagram to many by the verbs backend, over a device: by its slots alone, as core uses them.
 * Two processes on two hosts run the same, each with two ports on its device. In turns the first
 * port of either sends, and both of the other host hear: one datagram reaches both; only the
 * first, when the second one hears no more; and both again. After each the sender sends a mark to
 * each one by one, so that nobody waits for what does not come.
 *
 *   hw-many DEVICE DIRECTORY 1|2     the directory is shared: in it they wait for each other
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/net/backend.h"

#define BACKEND    (&ripc__verbs_backend)
#define NUMBER     0x7a11ull
#define PATIENCE_S 30

struct end {
	void *port;
	struct ripc__attr attr;
	void *routes[2]; /* to the ports of the other host */
};

static const char *device, *directory;
static int me; /* 1 or 2 */
static struct end ends[2];

static _Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static _Noreturn void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	exit(1);
}

static void log_line(void *arg, int level, const char *format, ...)
{
	va_list args;

	(void)arg;
	(void)level;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

static const char *option(void *arg, const char *name)
{
	(void)arg;
	return strcmp(name, "verbs.device") == 0 ? device : NULL;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- the other process ------------------------------------------------------------------- */

static void path_of(char path[256], const char *what, int whose)
{
	snprintf(path, 256, "%s/many-%s-%d", directory, what, whose);
}

/* Under its name the file is whole. */
static void tell(const char *what, const void *bytes, size_t len)
{
	char path[256], unfinished[272];
	FILE *file;

	path_of(path, what, me);
	snprintf(unfinished, sizeof(unfinished), "%s.new", path);
	file = fopen(unfinished, "w");
	if (!file || fwrite(bytes, 1, len, file) != len || fclose(file) ||
			rename(unfinished, path))
		fail("%s cannot be written", path);
}

static size_t hear(const char *what, void *bytes, size_t len)
{
	double end_s = now_s() + PATIENCE_S;
	char path[256];
	FILE *file = NULL;

	path_of(path, what, 3 - me);
	while (!(file = fopen(path, "r"))) {
		if (now_s() > end_s)
			fail("the other host does not say \"%s\"", what);
		poll(NULL, 0, 20);
	}
	len = fread(bytes, 1, len, file);
	fclose(file);
	return len;
}

/* Both hosts have come as far. */
static void meet(void)
{
	static int n;
	char what[16], byte = 0;

	snprintf(what, sizeof(what), "at-%d", ++n);
	tell(what, &byte, 1);
	(void)hear(what, &byte, 1);
}

/* ---- ports and routes -------------------------------------------------------------------- */

static void open_end(struct end *end, uint64_t context)
{
	struct ripc__host host = {.log = log_line, .option = option, .context = context};
	int error;

	end->port = calloc(1, BACKEND->port_size);
	end->routes[0] = calloc(1, BACKEND->route_size);
	end->routes[1] = calloc(1, BACKEND->route_size);
	if (!end->port || !end->routes[0] || !end->routes[1])
		fail("no memory");
	error = BACKEND->net.open(end->port, &host, &end->attr);
	if (error)
		fail("the port: %s", strerror(-error));
}

/* The next event; false: there is none in the time that is left. */
static bool next_event(struct end *end, struct ripc__event *event, double end_s)
{
	struct pollfd fd = {.fd = end->attr.fd, .events = POLLIN};

	while (BACKEND->datagrams.poll(end->port, event, 1, false) == 0) {
		if (now_s() > end_s)
			return false;
		if (BACKEND->net.arm(end->port) == 0)
			poll(&fd, 1, 100);
	}
	return true;
}

static void open_route(struct end *end, void *route, const uint8_t *blob, size_t len)
{
	static const uint8_t host[16];
	struct ripc__addr addr;
	struct ripc__event event;
	int error = BACKEND->route.choose(end->port, blob, len, host, &addr);

	if (!error)
		error = BACKEND->route.open(end->port, route, &addr);
	if (error == -EINPROGRESS) {
		if (!next_event(end, &event, now_s() + PATIENCE_S) || event.kind != RIPC_EV_PEER)
			fail("no route after %d s", PATIENCE_S);
		error = event.status;
	}
	if (error)
		fail("the route: %s", strerror(-error));
}

/* Each host tells its addresses; each port has routes to both of the other host. */
static void open_all(void)
{
	uint8_t blobs[2][RIPC_ADDR_MAX] = {{0}}, others[2][RIPC_ADDR_MAX];
	int lens[2];

	for (int i = 0; i < 2; i++) {
		open_end(&ends[i], (uint64_t)(me * 2 + i));
		lens[i] = BACKEND->net.address(ends[i].port, blobs[i]);
		if (lens[i] < 0)
			fail("no address");
	}
	tell("addresses", blobs, sizeof(blobs));
	if (hear("addresses", others, sizeof(others)) != sizeof(others))
		fail("the other's addresses are not whole");
	for (int i = 0; i < 4; i++)
		open_route(&ends[i / 2], ends[i / 2].routes[i % 2], others[i % 2], (size_t)lens[0]);
}

static void close_all(void)
{
	for (int i = 0; i < 2; i++) {
		BACKEND->route.close(ends[i].port, ends[i].routes[0]);
		BACKEND->route.close(ends[i].port, ends[i].routes[1]);
		BACKEND->net.close(ends[i].port);
		free(ends[i].routes[0]);
		free(ends[i].routes[1]);
		free(ends[i].port);
	}
}

/* ---- datagrams --------------------------------------------------------------------------- */

static void send_one(void *route, char byte)
{
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct ripc__tx tx = {.iov = &iov, .n_iov = 1, .len = 1};
	int sent = BACKEND->datagrams.send(ends[0].port, route, &tx, 1);

	if (sent != 1)
		fail("'%c' was not sent: %d", byte, sent);
}

/*
 * Receives the datagrams before the mark: a number of multicasts, with this byte, from the sender.
 */
static void expect(struct end *end, char byte, uint32_t n)
{
	double end_s = now_s() + PATIENCE_S;
	struct ripc__event event;
	uint32_t came = 0;
	char what = byte;

	while (what != '!') {
		if (!next_event(end, &event, end_s))
			fail("no mark after '%c'", byte);
		if ((event.kind != RIPC_EV_DATAGRAM && event.kind != RIPC_EV_MULTICAST) ||
				event.len != 1)
			fail("event %d, %u bytes", event.kind, event.len);
		what = (char)event.data[0];
		if ((event.kind == RIPC_EV_MULTICAST) != (what != '!'))
			fail("'%c' came as event %d", what, event.kind);
		if (!BACKEND->route.matches(end->port, end->routes[0], event.from))
			fail("'%c' came from elsewhere", what);
		if (what != byte && what != '!')
			fail("'%c' came instead of '%c'", what, byte);
		came += what == byte;
		BACKEND->datagrams.release(end->port, event.handle);
	}
	if (came != n)
		fail("'%c' came %u times, not %u", byte, came, n);
}

/* One to many, as far as the second port of the other host hears. */
static void step(bool sends, void *many, char byte, bool second_hears)
{
	meet();
	if (sends) {
		send_one(many, byte);
		send_one(ends[0].routes[0], '!');
		send_one(ends[0].routes[1], '!');
		return;
	}
	expect(&ends[0], byte, 1);
	expect(&ends[1], byte, second_hears);
}

/* ---- both directions --------------------------------------------------------------------- */

static void change(struct end *end, bool hears)
{
	int error = 0;

	if (hears)
		error = BACKEND->multicast.hear(end->port, end->routes[0], NUMBER);
	else
		BACKEND->multicast.ignore(end->port, NUMBER);
	if (error)
		fail("hearing: %s", strerror(-error));
}

static void turn(bool sends)
{
	void *many = calloc(1, BACKEND->route_size);
	int error = BACKEND->multicast.open(ends[0].port, many, ends[0].routes[0], NUMBER);

	if (error)
		fail("a way to many: %s", strerror(-error));
	step(sends, many, 'a', true);
	if (!sends)
		change(&ends[1], false);
	step(sends, many, 'b', false);
	if (!sends)
		change(&ends[1], true);
	step(sends, many, 'c', true);
	meet();
	BACKEND->route.close(ends[0].port, many);
	free(many);
}

int main(int argc, char **argv)
{
	struct ripc__event event;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 4)
		return 2;
	device = argv[1];
	directory = argv[2];
	me = atoi(argv[3]);
	open_all();
	change(&ends[0], true);
	change(&ends[1], true);
	turn(me == 1);
	turn(me == 2);
	/* Not what this host has sent itself. */
	for (int i = 0; i < 2; i++) {
		if (BACKEND->datagrams.poll(ends[i].port, &event, 1, true) != 0)
			fail("something came at last");
	}
	close_all();
	return 0;
}
