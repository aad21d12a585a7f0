/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The common part of the resolver sources for networks, with a kernel that returns anything:
 * senders that cannot be, no packet info or a strange one, and sending that fails; over IPv4 and
 * IPv6.
 */
#include <limits.h>
#include <stddef.h>

#include "core/wire/record.h"
#include "resolvers/internal.h"
#include "sources.h"

#define ANYWHERE 7 /* a descriptor that the wrapped calls do not look at */

/* The results of the wrapped calls (see meson.build). */
static struct {
	struct sockaddr_in from;
	struct sockaddr_in6 from6; /* instead, where it has a family */
	socklen_t from_len;
	size_t len;
	int n;               /* number of datagrams, then none */
	int errors;          /* of the receives before them */
	int error;
	uint32_t sent_to;    /* 0: without packet info */
	struct in6_addr sent_to6;
	int level, type;     /* of the control message */
	int setsockopt_error, sendmsg_error;
	struct sockaddr_in to;
	struct sockaddr_in6 to6;
	struct in_addr answered_from;
	struct in6_addr answered_from6;
} kernel;

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);

static size_t control_put(struct msghdr *message, const void *info, size_t len)
{
	struct cmsghdr cmsg = {.cmsg_len = CMSG_LEN(len), .cmsg_level = kernel.level,
		.cmsg_type = kernel.type};
	uint8_t *bytes = message->msg_control;

	ck_assert_uint_le(CMSG_SPACE(len), message->msg_controllen);
	memcpy(bytes, &cmsg, sizeof(cmsg));
	memcpy(bytes + CMSG_LEN(0), info, len);
	return CMSG_SPACE(len);
}

/* The sender's name, and the packet info of its family. */
static size_t arrival_put(struct msghdr *message)
{
	const struct in_pktinfo info = {.ipi_addr.s_addr = htonl(kernel.sent_to),
		.ipi_spec_dst.s_addr = htonl(0x0a000009)};
	const struct in6_pktinfo info6 = {.ipi6_addr = kernel.sent_to6, .ipi6_ifindex = 3};

	if (kernel.from6.sin6_family) {
		memcpy(message->msg_name, &kernel.from6, sizeof(kernel.from6));
		return control_put(message, &info6, sizeof(info6));
	}
	memcpy(message->msg_name, &kernel.from, sizeof(kernel.from));
	return kernel.sent_to ? control_put(message, &info, sizeof(info)) : 0;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	(void)fd;
	(void)flags;
	if (kernel.errors-- > 0) {
		errno = kernel.error;
		return -1;
	}
	if (kernel.n-- <= 0) {
		errno = EAGAIN;
		return -1;
	}
	message->msg_controllen = arrival_put(message);
	message->msg_namelen = kernel.from_len;
	memset(message->msg_iov->iov_base, 'k', kernel.len);
	return (ssize_t)kernel.len;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	const uint8_t *control = CMSG_DATA(CMSG_FIRSTHDR(message));
	struct in6_pktinfo info6;
	struct in_pktinfo info;

	(void)fd;
	(void)flags;
	if (kernel.sendmsg_error) {
		errno = kernel.sendmsg_error;
		return -1;
	}
	if (CMSG_FIRSTHDR(message)->cmsg_level == IPPROTO_IPV6) {
		ck_assert_uint_eq(message->msg_namelen, sizeof(kernel.to6));
		memcpy(&kernel.to6, message->msg_name, sizeof(kernel.to6));
		memcpy(&info6, control, sizeof(info6));
		kernel.answered_from6 = info6.ipi6_addr;
		ck_assert_uint_eq(info6.ipi6_ifindex, 0);
	} else {
		ck_assert_uint_eq(message->msg_namelen, sizeof(kernel.to));
		memcpy(&kernel.to, message->msg_name, sizeof(kernel.to));
		memcpy(&info, control, sizeof(info));
		kernel.answered_from = info.ipi_spec_dst;
	}
	return (ssize_t)message->msg_iov->iov_len;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	if (!kernel.setsockopt_error)
		return __real_setsockopt(fd, level, name, value, len);
	errno = kernel.setsockopt_error;
	return -1;
}

/* One datagram of three bytes waits, from 10.0.0.1:5000 to 10.0.0.9. */
static void set_up(void)
{
	memset(&kernel, 0, sizeof(kernel));
	kernel.from = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(5000),
		.sin_addr.s_addr = htonl(0x0a000001)};
	kernel.from_len = sizeof(kernel.from);
	kernel.len = 3;
	kernel.n = 1;
	kernel.sent_to = 0x0a000009;
	kernel.level = IPPROTO_IP;
	kernel.type = IP_PKTINFO;
}

/* The same from fd00::1 to fd00::9. */
static void set_up_six(void)
{
	set_up();
	kernel.from6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(5000),
		.sin6_addr.s6_addr = {0xfd, [15] = 1}};
	kernel.from_len = sizeof(kernel.from6);
	kernel.sent_to6 = (struct in6_addr){.s6_addr = {0xfd, [15] = 9}};
	kernel.level = IPPROTO_IPV6;
	kernel.type = IPV6_PKTINFO;
}

static uint8_t buffer[WIRE_RESOLVE_MAX + 1];

static struct ripc__source_event received(void)
{
	struct ripc__source_event event = {0};

	ck_assert_int_eq(ripc__inet_receive(ANYWHERE, buffer, &event), 1);
	ck_assert_uint_eq(event.len, kernel.len);
	return event;
}

static void nothing_received(void)
{
	struct ripc__source_event event = {.len = 77};

	ck_assert_int_eq(ripc__inet_receive(ANYWHERE, buffer, &event), 0);
	ck_assert_uint_eq(event.len, 77);
}

/* ---- receiving ---------------------------------------------------------------------------- */

START_TEST(receive__says_who_and_where_to)
{
	static const uint8_t host[16] = {[10] = 0xff, 0xff, 10, 0, 0, 1};
	static const uint8_t blob[] = {10, 0, 0, 1, 5000 >> 8, 5000 & 0xff, 10, 0, 0, 9};
	struct ripc__source_event event = received();

	ck_assert_mem_eq(event.host, host, sizeof(host));
	ck_assert_mem_eq(event.reply.host, host, sizeof(host));
	ck_assert_uint_eq(event.reply.len, sizeof(blob));
	ck_assert_mem_eq(event.reply.blob, blob, sizeof(blob));
	ck_assert(!event.group && !event.local);
}
END_TEST

START_TEST(receive__multicast_and_broadcast_are_to_a_group)
{
	static const struct {
		uint32_t to;
		bool group;
	} cases[] = {{0xe0000001, true}, {0xefffffff, true}, {0xffffffff, true},
		{0xf0000000, false}, {0xdfffffff, false}, {0x7f000001, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_up();
		kernel.sent_to = cases[i].to;
		ck_assert_int_eq(received().group, cases[i].group);
	}
}
END_TEST

START_TEST(receive__sender_on_loopback_is_local)
{
	kernel.from.sin_addr.s_addr = htonl(0x7fffff01);
	ck_assert(received().local);
}
END_TEST

/* Nobody can be there, so nothing is sent there: a liar could aim us at a whole network. */
START_TEST(receive__impossible_senders_are_passed_over)
{
	static const uint32_t addresses[] = {0, 0xffffffff, 0xe0000001, 0xefffffff};

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		set_up();
		kernel.from.sin_addr.s_addr = htonl(addresses[i]);
		nothing_received();
		ck_assert_int_lt(kernel.n, 0);
	}
	set_up();
	kernel.from.sin_port = 0;
	nothing_received();
	set_up();
	kernel.from.sin_family = AF_INET6;
	nothing_received();
	for (socklen_t len = 0; len < sizeof(kernel.from); len++) {
		set_up();
		kernel.from_len = len;
		nothing_received();
	}
}
END_TEST

START_TEST(receive__without_packet_info_the_kernel_chooses)
{
	static const uint8_t nowhere[4];
	struct ripc__source_event event;

	kernel.sent_to = 0;
	event = received();
	ck_assert(!event.group);
	ck_assert_mem_eq(event.reply.blob + 6, nowhere, 4);
	set_up();
	kernel.sent_to = 0xe0000001;
	kernel.level = SOL_SOCKET;
	ck_assert(!received().group);
	set_up();
	kernel.sent_to = 0xe0000001;
	kernel.type = IP_TTL;
	ck_assert(!received().group);
}
END_TEST

START_TEST(receive__too_long_is_passed_over)
{
	kernel.len = WIRE_RESOLVE_MAX;
	received();
	set_up();
	kernel.len = WIRE_RESOLVE_MAX + 1;
	nothing_received();
}
END_TEST

/* An answer that nobody took comes back as an error of the next receive. */
START_TEST(receive__errors_do_not_hide_what_is_behind_them)
{
	kernel.errors = 15;
	kernel.error = ECONNREFUSED;
	received();
	set_up();
	kernel.errors = 16;
	kernel.error = ECONNREFUSED;
	nothing_received();
	ck_assert_int_eq(kernel.n, 1);
	received();
}
END_TEST

START_TEST(receive__a_flood_of_junk_ends_the_turn)
{
	kernel.n = 20;
	kernel.from.sin_port = 0;
	nothing_received();
	ck_assert_int_eq(kernel.n, 4);
}
END_TEST

START_TEST(receive__says_who_and_where_to_over_ipv6)
{
	struct ripc__source_event event;

	set_up_six();
	event = received();
	ck_assert_mem_eq(event.host, &kernel.from6.sin6_addr, 16);
	ck_assert_mem_eq(event.reply.host, event.host, 16);
	ck_assert(ripc__inet_is_six(&event.reply));
	ck_assert_uint_eq(ripc__inet_interface(&event.reply), 3);
	ck_assert(!event.group && !event.local);
	set_up();
	event = received();
	ck_assert(!ripc__inet_is_six(&event.reply));
	ck_assert_uint_eq(ripc__inet_interface(&event.reply), 0);
	set_up_six();
	kernel.sent_to6.s6_addr[0] = 0xff;
	ck_assert(received().group);
	set_up_six();
	kernel.from6.sin6_addr = in6addr_loopback;
	ck_assert(received().local);
}
END_TEST

/* Link-local ones say nothing without an interface; v4-mapped ones come over IPv4. */
START_TEST(receive__impossible_senders_over_ipv6)
{
	static const char *const addresses[] = {"::", "ff02::1", "ff15::f269:7063", "fe80::1",
		"febf::1", "::ffff:10.0.0.1"};

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		set_up_six();
		ck_assert_int_eq(inet_pton(AF_INET6, addresses[i], &kernel.from6.sin6_addr), 1);
		nothing_received();
	}
	set_up_six();
	kernel.from6.sin6_port = 0;
	nothing_received();
	for (socklen_t len = 0; len < sizeof(kernel.from6); len++) {
		set_up_six();
		kernel.from_len = len;
		nothing_received();
	}
}
END_TEST

/* ---- answering ---------------------------------------------------------------------------- */

START_TEST(reply__goes_back_from_where_it_was_sent_to)
{
	struct ripc__source_event event = received();

	ck_assert_int_eq(ripc__inet_reply(ANYWHERE, &event.reply, "me", 2), 0);
	ck_assert_mem_eq(&kernel.to, &kernel.from, offsetof(struct sockaddr_in, sin_zero));
	ck_assert_uint_eq(ntohl(kernel.answered_from.s_addr), 0x0a000009);
}
END_TEST

START_TEST(reply__other_addresses_are_refused)
{
	struct ripc__source_event event = received();

	for (int len = 0; len <= RIPC_ADDR_MAX; len++) {
		event.reply.len = (uint8_t)len;
		ck_assert_int_eq(ripc__inet_reply(ANYWHERE, &event.reply, "me", 2),
			len == 10 || len == 38 ? 0 : -EINVAL);
	}
}
END_TEST

/* From the group's address, and from a link-local one, no answer can come. */
START_TEST(reply__goes_back_over_ipv6)
{
	static const char *const none[] = {"ff15::f269:7063", "fe80::9"};
	struct ripc__source_event event;

	set_up_six();
	event = received();
	ck_assert_int_eq(ripc__inet_reply(ANYWHERE, &event.reply, "me", 2), 0);
	ck_assert_mem_eq(&kernel.to6, &kernel.from6, sizeof(kernel.to6));
	ck_assert_mem_eq(&kernel.answered_from6, &kernel.sent_to6, 16);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		set_up_six();
		ck_assert_int_eq(inet_pton(AF_INET6, none[i], &kernel.sent_to6), 1);
		event = received();
		ck_assert_int_eq(ripc__inet_reply(ANYWHERE, &event.reply, "me", 2), 0);
		ck_assert_mem_eq(&kernel.answered_from6, &in6addr_any, 16);
	}
}
END_TEST

START_TEST(reply__errors_are_passed_on)
{
	struct ripc__source_event event = received();

	kernel.sendmsg_error = ENETUNREACH;
	ck_assert_int_eq(ripc__inet_reply(ANYWHERE, &event.reply, "me", 2), -ENETUNREACH);
}
END_TEST

/* ---- sockets and options ------------------------------------------------------------------ */

START_TEST(socket__that_cannot_tell_is_none)
{
	int before = descriptors(false);

	kernel.setsockopt_error = ENOPROTOOPT;
	ck_assert_int_eq(ripc__inet_socket(), -ENOPROTOOPT);
	ck_assert_int_lt(ripc__inet6_socket(), 0);
	ck_assert_int_eq(descriptors(false), before);
}
END_TEST

START_TEST(number__what_it_takes)
{
	static const struct {
		const char *text;
		int value;
	} cases[] = {{"1", 1}, {"65535", 65535}, {"007", 7}, {"+7", -EINVAL}, {" 8", -EINVAL},
		{"0", -EINVAL}, {"65536", -EINVAL}, {"", -EINVAL}, {"x", -EINVAL},
		{"80x", -EINVAL}, {"80 ", -EINVAL}, {"-1", -EINVAL}, {"1e3", -EINVAL},
		{"0x10", -EINVAL}, {"99999999999999999999", -EINVAL},
		{"-99999999999999999999", -EINVAL}};
	struct side side;

	side_init(&side, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		side.options[0][1] = cases[i].text;
		side.logged[0] = '\0';
		ck_assert_int_eq(ripc__inet_port(&side.host), cases[i].value);
		if (cases[i].value > 0)
			ck_assert_str_eq(side.logged, "");
		else
			ck_assert_ptr_nonnull(strstr(side.logged, "resolver.port"));
	}
}
END_TEST

START_TEST(number__errno_of_before_does_not_matter)
{
	struct side side;

	side_init(&side, NULL);
	errno = ERANGE;
	ck_assert_int_eq(ripc__inet_port(&side.host), test_port(0));
}
END_TEST

START_TEST(number__not_set)
{
	struct side side;

	side_init(&side, NULL);
	side.options[0][0] = NULL;
	ck_assert_int_eq(ripc__inet_port(&side.host), INET_PORT);
	side.host.option = NULL;
	ck_assert_int_eq(ripc__inet_port(&side.host), INET_PORT);
	ck_assert_int_eq(ripc__inet_number(&side.host, "resolver.ttl", 1), 1);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		receive__says_who_and_where_to,
		receive__multicast_and_broadcast_are_to_a_group,
		receive__sender_on_loopback_is_local,
		receive__impossible_senders_are_passed_over,
		receive__without_packet_info_the_kernel_chooses,
		receive__too_long_is_passed_over,
		receive__errors_do_not_hide_what_is_behind_them,
		receive__a_flood_of_junk_ends_the_turn,
		receive__says_who_and_where_to_over_ipv6,
		receive__impossible_senders_over_ipv6,
		reply__goes_back_from_where_it_was_sent_to,
		reply__other_addresses_are_refused,
		reply__errors_are_passed_on,
		reply__goes_back_over_ipv6,
		socket__that_cannot_tell_is_none,
		number__what_it_takes,
		number__errno_of_before_does_not_matter,
		number__not_set,
	};
	TCase *tcase = tcase_create("inet");

	tcase_add_checked_fixture(tcase, set_up, NULL);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	return suite_finish("inet", tcase);
}
