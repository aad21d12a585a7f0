/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bad network between two namespaces: a TUN interface "relay0" in each, and this program in
 * between, which delays, reorders, duplicates, alters and drops packets as its seed says. Ends
 * when its input closes, and then prints what it did as one line of JSON.
 *
 * An altered packet has its UDP or TCP checksum made right again, as a router that rewrites
 * packets would, so that only a checksum of the message's own can find it.
 *
 * It attacks, too: a replayed packet is one that passed before, a forged one is such a packet with
 * some bits altered; of both all kinds of sealed datagrams are as frequent. It counts the UDP
 * datagrams that are sealed, and those that are open, but for the resolver's.
 *
 * With a rate, each direction is a link with a queue before it: a packet leaves when those before
 * it have, and is dropped if too many wait. How long they waited is told, too.
 *
 * usage: relay NETNS-A NETNS-B [--seed N] [--delay-us N] [--jitter-us N] [--reorder-ppm N]
 *              [--duplicate-ppm N] [--alter-ppm N] [--drop-ppm N] [--cut-bytes N]
 *              [--rate-mbit N] [--queue-packets N] [--replay-ppm N] [--forge-ppm N]
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PACKET_MAX 9216
#define HELD_MAX   65536 /* packets under way; more are dropped */
#define WAITS_MAX  20000 /* of WAIT_US each: how long packets waited in a queue */
#define WAIT_US    100
#define QUEUED_BYTES 1500 /* of each packet that a queue has room for */
#define KINDS      8     /* of sealed datagrams: the second byte; 0: all else */
#define KEPT       16    /* packets of each, to be replayed */
#define SEALED     0x92  /* the first byte of such a datagram (docs/protocol.md) */
#define RESOLVER   15511
#define TAKEN_MAX  32    /* before what is due goes on */

struct packet {
	uint32_t len;
	int to;
	uint8_t bytes[];
};

struct held {
	uint64_t due_ns, order;
	struct packet *packet;
};

/* One direction. */
struct link {
	uint64_t free_ns; /* when what waits has left */
	uint64_t waits[WAITS_MAX], n_waits, longest_us, queue_drops;
};

struct relay {
	int tun[2];
	struct link links[2];
	uint64_t random, order;
	uint64_t delay_us, jitter_us, reorder_ppm, duplicate_ppm, alter_ppm, drop_ppm, cut_bytes;
	uint64_t rate_mbit, queue_packets;
	uint64_t replay_ppm, forge_ppm, replayed, forged, sealed, open;
	struct packet *kept[KINDS * KEPT];
	uint64_t passed, bytes, reordered, duplicated, altered, dropped, overflowed;
	uint32_t n_held;
	struct held held[HELD_MAX]; /* a heap by due_ns, then order */
};

/* splitmix64, Steele et al. 2014. */
static uint64_t draw(struct relay *relay)
{
	uint64_t z = relay->random += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static bool happens(struct relay *relay, uint64_t ppm)
{
	return ppm && draw(relay) % 1000000 < ppm;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- packets that wait ------------------------------------------------------------------- */

static bool before(const struct held *a, const struct held *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void held_push(struct relay *relay, struct held held)
{
	uint32_t at = relay->n_held++;

	while (at > 0 && before(&held, &relay->held[(at - 1) / 2])) {
		relay->held[at] = relay->held[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	relay->held[at] = held;
}

static struct packet *held_pop(struct relay *relay)
{
	struct packet *first = relay->held[0].packet;
	struct held last = relay->held[--relay->n_held];
	uint32_t at = 0, child;

	while ((child = 2 * at + 1) < relay->n_held) {
		if (child + 1 < relay->n_held &&
				before(&relay->held[child + 1], &relay->held[child]))
			child++;
		if (!before(&relay->held[child], &last))
			break;
		relay->held[at] = relay->held[child];
		at = child;
	}
	relay->held[at] = last;
	return first;
}

static void hold(struct relay *relay, const uint8_t *bytes, uint32_t len, int to, uint64_t at_ns)
{
	struct packet *packet;

	if (relay->n_held == HELD_MAX) {
		relay->overflowed++;
		return;
	}
	packet = malloc(sizeof(*packet) + len);
	if (!packet)
		return;
	packet->len = len;
	packet->to = to;
	memcpy(packet->bytes, bytes, len);
	held_push(relay, (struct held){at_ns, relay->order++, packet});
}

/* ---- a link of a rate -------------------------------------------------------------------- */

static void note_wait(struct link *link, uint64_t wait_us)
{
	uint64_t slot = wait_us / WAIT_US;

	link->waits[slot < WAITS_MAX ? slot : WAITS_MAX - 1]++;
	link->n_waits++;
	if (wait_us > link->longest_us)
		link->longest_us = wait_us;
}

/* The number in 100 that waited at most this long. */
static uint64_t wait_of(const struct link *link, uint64_t percent)
{
	uint64_t n = 0, slot = 0;

	while (slot < WAITS_MAX - 1 && (n += link->waits[slot]) * 100 < link->n_waits * percent)
		slot++;
	return slot * WAIT_US;
}

/* When a packet has left that comes now; 0: the queue is full. */
static uint64_t leaves_ns(struct relay *relay, struct link *link, uint32_t len, uint64_t now)
{
	uint64_t takes_ns, wait_ns = link->free_ns > now ? link->free_ns - now : 0;

	if (!relay->rate_mbit)
		return now;
	takes_ns = 8000ull * len / relay->rate_mbit;
	if (wait_ns > 8000ull * QUEUED_BYTES * relay->queue_packets / relay->rate_mbit) {
		link->queue_drops++;
		return 0;
	}
	note_wait(link, wait_ns / 1000);
	link->free_ns = now + wait_ns + takes_ns;
	return link->free_ns;
}

/* ---- what happens to a packet ------------------------------------------------------------ */

/* Where the transport's header begins and where its checksum is; false: not UDP or TCP. */
static bool find_checksum(const uint8_t *bytes, uint32_t len, uint32_t *payload, uint32_t *sum)
{
	uint32_t header;
	uint8_t protocol;

	if (len < 40)
		return false;
	header = bytes[0] >> 4 == 4 ? (bytes[0] & 15) * 4u : 40;
	protocol = bytes[0] >> 4 == 4 ? bytes[9] : bytes[6];
	if (protocol == 17) {
		*sum = header + 6;
		*payload = header + 8;
	} else if (protocol == 6) {
		*sum = header + 16;
		*payload = header + 20;
	} else {
		return false;
	}
	return *payload < len;
}

/* Changes one bit of the payload and repairs the checksum (RFC 1624). */
static void alter(struct relay *relay, uint8_t *bytes, uint32_t len)
{
	uint32_t payload, sum, at, old, new, check;

	if (!find_checksum(bytes, len, &payload, &sum) || len - payload < 2)
		return;
	at = payload + (uint32_t)(draw(relay) % ((len - payload) / 2)) * 2;
	old = (uint32_t)bytes[at] << 8 | bytes[at + 1];
	bytes[at + draw(relay) % 2] ^= (uint8_t)(1u << draw(relay) % 8);
	new = (uint32_t)bytes[at] << 8 | bytes[at + 1];
	check = (uint32_t)bytes[sum] << 8 | bytes[sum + 1];
	check = (~check & 0xffff) + (~old & 0xffff) + new;
	check = (check & 0xffff) + (check >> 16);
	check = ~((check & 0xffff) + (check >> 16)) & 0xffff;
	bytes[sum] = (uint8_t)(check >> 8);
	bytes[sum + 1] = (uint8_t)check;
	relay->altered++;
}

/* The second byte of sealed datagrams; 0: other datagrams. Counts. */
static uint32_t kind_of(struct relay *relay, const uint8_t *bytes, uint32_t len)
{
	uint32_t payload, sum, from, to;

	if (!find_checksum(bytes, len, &payload, &sum) || sum + 2 != payload)
		return 0; /* not UDP */
	from = (uint32_t)bytes[payload - 8] << 8 | bytes[payload - 7];
	to = (uint32_t)bytes[payload - 6] << 8 | bytes[payload - 5];
	if (bytes[payload] == SEALED && payload + 1 < len) {
		relay->sealed++;
		return bytes[payload + 1] % KINDS;
	}
	relay->open += from != RESOLVER && to != RESOLVER;
	return 0;
}

static void keep(struct relay *relay, const uint8_t *bytes, uint32_t len, int to)
{
	uint32_t kind = kind_of(relay, bytes, len), at;
	struct packet *packet;

	if (!relay->replay_ppm && !relay->forge_ppm)
		return;
	at = kind * KEPT + (uint32_t)(draw(relay) % KEPT);
	packet = realloc(relay->kept[at], sizeof(*packet) + len);
	if (!packet)
		return;
	packet->len = len;
	packet->to = to;
	memcpy(packet->bytes, bytes, len);
	relay->kept[at] = packet;
}

/* Sends one of those that were kept again, as it was or forged. */
static void attack(struct relay *relay, bool forges)
{
	uint64_t altered = relay->altered, first = draw(relay) % (KINDS * KEPT);
	struct packet *packet = NULL;
	uint8_t bytes[PACKET_MAX];

	for (uint64_t i = 0; i < KINDS * KEPT && !packet; i++)
		packet = relay->kept[(first + i) % (KINDS * KEPT)];
	if (!packet)
		return;
	memcpy(bytes, packet->bytes, packet->len);
	for (uint64_t n = forges ? 1 + draw(relay) % 4 : 0; n; n--)
		alter(relay, bytes, packet->len);
	relay->altered = altered;
	hold(relay, bytes, packet->len, packet->to, now_ns());
	*(forges ? &relay->forged : &relay->replayed) += 1;
}

static void pass(struct relay *relay, uint8_t *bytes, uint32_t len, int to)
{
	uint64_t at_ns;

	keep(relay, bytes, len, to);
	if (happens(relay, relay->replay_ppm))
		attack(relay, false);
	if (happens(relay, relay->forge_ppm))
		attack(relay, true);

	if (happens(relay, relay->drop_ppm) || (relay->cut_bytes && len > relay->cut_bytes)) {
		relay->dropped++;
		return;
	}
	at_ns = leaves_ns(relay, &relay->links[to], len, now_ns());
	if (!at_ns)
		return;
	at_ns += 1000 * relay->delay_us;
	relay->passed++;
	relay->bytes += len;
	if (relay->jitter_us)
		at_ns += 1000 * (draw(relay) % relay->jitter_us);
	if (happens(relay, relay->duplicate_ppm)) {
		relay->duplicated++;
		hold(relay, bytes, len, to, at_ns + 1000 * (draw(relay) % 2000));
	}
	if (happens(relay, relay->reorder_ppm)) {
		relay->reordered++;
		at_ns += 1000 * (100 + draw(relay) % 2000);
	}
	if (happens(relay, relay->alter_ppm))
		alter(relay, bytes, len);
	hold(relay, bytes, len, to, at_ns);
}

/* ---- the program ------------------------------------------------------------------------- */

static int tun_open(const char *netns)
{
	struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	int ns = open(netns, O_RDONLY | O_CLOEXEC), tun;

	if (ns < 0 || setns(ns, CLONE_NEWNET)) {
		perror(netns);
		exit(1);
	}
	close(ns);
	strcpy(request.ifr_name, "relay0");
	tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (tun < 0 || ioctl(tun, TUNSETIFF, &request)) {
		perror("/dev/net/tun");
		exit(tun < 0 ? 77 : 1);
	}
	return tun;
}

static void take_in(struct relay *relay, int from, int most)
{
	uint8_t bytes[PACKET_MAX];

	for (int i = 0; i < most; i++) {
		ssize_t len = read(relay->tun[from], bytes, sizeof(bytes));

		if (len <= 0)
			return;
		pass(relay, bytes, (uint32_t)len, !from);
	}
}

static void let_go_first(struct relay *relay)
{
	struct packet *packet = held_pop(relay);

	/* An interface that takes no more drops, as others do. */
	if (write(relay->tun[packet->to], packet->bytes, packet->len) < 0)
		relay->overflowed++;
	free(packet);
}

/* Lets go what is due; returns the nanoseconds until the next, or -1: nothing is held. */
static int64_t let_go(struct relay *relay)
{
	uint64_t now = now_ns();

	for (int i = 0; relay->n_held && i < 2 * TAKEN_MAX; i++) {
		if (relay->held[0].due_ns > now)
			return (int64_t)(relay->held[0].due_ns - now);
		let_go_first(relay);
	}
	return relay->n_held ? 0 : -1;
}

/* Datagrams in progress arrive before the network ends. */
static void let_go_all(struct relay *relay)
{
	for (int from = 0; from < 2; from++)
		take_in(relay, from, HELD_MAX);
	while (relay->n_held)
		let_go_first(relay);
}

static void loop(struct relay *relay)
{
	struct pollfd fds[3] = {{relay->tun[0], POLLIN, 0}, {relay->tun[1], POLLIN, 0},
		{STDIN_FILENO, POLLIN, 0}};

	while (!fds[2].revents) {
		int64_t wait_ns = let_go(relay);
		struct timespec wait = {wait_ns / 1000000000, wait_ns % 1000000000};

		if (ppoll(fds, 3, wait_ns < 0 ? NULL : &wait, NULL) < 0 && errno != EINTR)
			return;
		for (int i = 0; i < 2; i++) {
			if (fds[i].revents & POLLIN)
				take_in(relay, i, TAKEN_MAX);
		}
	}
}

/* A network does not wait for a processor that others use. Else timers are late by 50 us. */
static void be_prompt(void)
{
	struct sched_param first = {.sched_priority = 1};

	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		perror("relay: no precedence");
}

static void report(const struct relay *relay)
{
	printf("{\"passed\":%llu,\"bytes\":%llu,\"reordered\":%llu,\"duplicated\":%llu,"
		"\"altered\":%llu,\"dropped\":%llu,\"overflowed\":%llu,\"replayed\":%llu,"
		"\"forged\":%llu,\"sealed\":%llu,\"open\":%llu",
		(unsigned long long)relay->passed, (unsigned long long)relay->bytes,
		(unsigned long long)relay->reordered, (unsigned long long)relay->duplicated,
		(unsigned long long)relay->altered, (unsigned long long)relay->dropped,
		(unsigned long long)relay->overflowed, (unsigned long long)relay->replayed,
		(unsigned long long)relay->forged, (unsigned long long)relay->sealed,
		(unsigned long long)relay->open);
	for (int to = 0; relay->rate_mbit && to < 2; to++) {
		const struct link *link = &relay->links[to];

		printf(",\"to_%c\":{\"queue_drops\":%llu,\"wait_median_us\":%llu,"
			"\"wait_p99_us\":%llu,\"wait_longest_us\":%llu}", 'a' + to,
			(unsigned long long)link->queue_drops,
			(unsigned long long)wait_of(link, 50),
			(unsigned long long)wait_of(link, 99),
			(unsigned long long)link->longest_us);
	}
	printf("}\n");
}

static void options(struct relay *relay, int argc, char **argv)
{
	static const char *const names[] = {"seed", "delay-us", "jitter-us", "reorder-ppm",
		"duplicate-ppm", "alter-ppm", "drop-ppm", "cut-bytes", "rate-mbit",
		"queue-packets", "replay-ppm", "forge-ppm"};
	uint64_t *values[] = {&relay->random, &relay->delay_us, &relay->jitter_us,
		&relay->reorder_ppm, &relay->duplicate_ppm, &relay->alter_ppm, &relay->drop_ppm,
		&relay->cut_bytes, &relay->rate_mbit, &relay->queue_packets, &relay->replay_ppm,
		&relay->forge_ppm};
	struct option table[13] = {0};
	int index = 0, got;

	for (int i = 0; i < 12; i++)
		table[i] = (struct option){names[i], required_argument, NULL, 1};
	while ((got = getopt_long(argc, argv, "", table, &index)) == 1)
		*values[index] = strtoull(optarg, NULL, 0);
	if (got != -1 || argc - optind != 2) {
		fprintf(stderr, "usage: relay NETNS-A NETNS-B [options]\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	static struct relay relay = {.random = 1, .queue_packets = 1000};

	options(&relay, argc, argv);
	relay.tun[0] = tun_open(argv[optind]);
	relay.tun[1] = tun_open(argv[optind + 1]);
	be_prompt();
	printf("ready\n");
	fflush(stdout);
	loop(&relay);
	let_go_all(&relay);
	report(&relay);
	return 0;
}
