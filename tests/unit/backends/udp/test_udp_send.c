/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending over UDP while the kernel refuses: what is taken, tried again, and never lost. */
#include <errno.h>
#include <netinet/udp.h>

#include "../../../support/util/kernel.h"
#include "udp_pair.h"

/* Which calls fail, and how: sendmsg and sendto are wrapped (see meson.build). */
static struct {
	int offload_error; /* for sends with UDP_SEGMENT */
	int error;         /* for the others, once skip of them have passed, n_errors times */
	int skip, n_errors;
	int n_offloads;    /* sends with UDP_SEGMENT, failed or not */
	int n_sources;     /* sends that name a source address */
} kernel;

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_sendto(int fd, const void *data, size_t len, int flags,
		const struct sockaddr *to, socklen_t to_len);
ssize_t __wrap_sendto(int fd, const void *data, size_t len, int flags,
		const struct sockaddr *to, socklen_t to_len);

static bool has_control(const struct msghdr *message, int level, int type)
{
	struct msghdr *m = (struct msghdr *)message;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == level && c->cmsg_type == type)
			return true;
	}
	return false;
}

/* Does the plan say that this plain send fails? */
static bool fails(void)
{
	if (!kernel.n_errors || kernel.skip-- > 0)
		return false;
	kernel.n_errors--;
	errno = kernel.error;
	return true;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	kernel.n_sources += has_control(message, IPPROTO_IPV6, IPV6_PKTINFO) ||
		has_control(message, IPPROTO_IP, IP_PKTINFO);
	if (!has_control(message, SOL_UDP, UDP_SEGMENT))
		return fails() ? -1 : __real_sendmsg(fd, message, flags);
	kernel.n_offloads++;
	if (!kernel.offload_error)
		return __real_sendmsg(fd, message, flags);
	errno = kernel.offload_error;
	return -1;
}

ssize_t __wrap_sendto(int fd, const void *data, size_t len, int flags,
		const struct sockaddr *to, socklen_t to_len)
{
	return fails() ? -1 : __real_sendto(fd, data, len, flags, to, to_len);
}

static void set_up(void)
{
	memset(&kernel, 0, sizeof(kernel));
}

START_TEST(send__offload_is_used)
{
	struct udp_side left, right;

	udp_pair_open(&left, &right, NULL);
	ck_assert_int_eq(udp_post(&left, 1000, 64), 64);
	ck_assert_int_eq(kernel.n_offloads, 1);
	udp_expect(&right, 1000, 64);
	ck_assert_int_eq(udp_post(&left, 1420, 64), 64);
	ck_assert_int_eq(kernel.n_offloads, 3);
	udp_expect(&right, 1420, 64);
	ck_assert_uint_eq(udp_stats(&left).fallbacks, 0);
	udp_pair_close(&left, &right);
}
END_TEST

START_TEST(send__option_forbids_offload)
{
	static const char *const options[] = {"udp.gso", "off", NULL};
	struct udp_side left, right;

	udp_pair_open(&left, &right, options);
	ck_assert_int_eq(udp_post(&left, 1000, 64), 64);
	udp_expect(&right, 1000, 64);
	ck_assert_int_eq(kernel.n_offloads, 0);
	udp_pair_close(&left, &right);
}
END_TEST

/* After any error, the same datagrams go one by one, and so do those after them. */
START_TEST(send__offload_fails)
{
	static const int errors[] = {EIO, EINVAL, EMSGSIZE, EOPNOTSUPP};
	struct udp_side left, right;

	udp_pair_open(&left, &right, NULL);
	kernel.offload_error = errors[_i];
	ck_assert_int_eq(udp_post(&left, 1000, 64), 64);
	udp_expect(&right, 1000, 64);
	ck_assert_int_eq(kernel.n_offloads, 1);
	ck_assert_uint_eq(udp_stats(&left).fallbacks, 1);
	ck_assert_uint_eq(udp_stats(&left).fallbacks, 0);
	ck_assert_int_eq(udp_post(&left, 5000, 30), 30);
	udp_expect(&right, 5000, 30);
	ck_assert_int_eq(kernel.n_offloads, 1);
	ck_assert_uint_ge(UDP->route.mtu(&left.port, &left.peer), 65000);
	udp_pair_close(&left, &right);
}
END_TEST

START_TEST(send__offload_fails_after_it_worked)
{
	struct udp_side left, right;

	udp_pair_open(&left, &right, NULL);
	ck_assert_int_eq(udp_post(&left, 1200, 50), 50);
	udp_expect(&right, 1200, 50);
	kernel.offload_error = EIO;
	ck_assert_int_eq(udp_post(&left, 1200, 50), 50);
	udp_expect(&right, 1200, 50);
	ck_assert_uint_eq(udp_stats(&left).fallbacks, 1);
	udp_pair_close(&left, &right);
}
END_TEST

/* One by one, the network may take only some: the rest is the caller's to send again. */
START_TEST(send__offload_fails_and_the_network_fills)
{
	struct udp_side left, right;

	udp_pair_open(&left, &right, NULL);
	kernel.offload_error = EIO;
	kernel.error = EAGAIN;
	kernel.skip = 10;
	kernel.n_errors = 1;
	ck_assert_int_eq(udp_post(&left, 1000, 64), 10);
	udp_expect(&right, 1000, 10);
	ck_assert_int_eq(udp_post(&left, 1000, 54), 54);
	udp_expect(&right, 1000, 54);
	udp_pair_close(&left, &right);
}
END_TEST

START_TEST(send__full_network_takes_none)
{
	static const int errors[] = {EAGAIN, ENOBUFS, ENOMEM};
	struct udp_side left, right;

	udp_pair_open(&left, &right, NULL);
	kernel.error = kernel.offload_error = errors[_i];
	kernel.n_errors = 2;
	ck_assert_int_eq(udp_post(&left, 1000, 1), 0);
	ck_assert_int_eq(udp_post(&left, 5000, 1), 0);
	ck_assert_int_eq(udp_post(&left, 1000, 64), 0);
	kernel.offload_error = 0;
	ck_assert_int_eq(udp_post(&left, 1000, 64), 64);
	ck_assert_int_eq(kernel.n_offloads, 2);
	ck_assert_uint_eq(udp_stats(&left).fallbacks, 0);
	udp_expect(&right, 1000, 64);
	udp_pair_close(&left, &right);
}
END_TEST

START_TEST(send__earlier_refusal_is_read)
{
	struct udp_side left, right;

	udp_pair_open(&left, &right, NULL);
	kernel.error = ECONNREFUSED;
	kernel.n_errors = 1;
	ck_assert_int_eq(udp_post(&left, 100, 1), 1);
	udp_expect(&right, 100, 1);
	udp_pair_close(&left, &right);
}
END_TEST

START_TEST(send__other_errors_are_told)
{
	struct udp_side left, right;

	udp_pair_open(&left, &right, NULL);
	kernel.error = kernel.offload_error = EPERM;
	kernel.n_errors = 2;
	ck_assert_int_eq(udp_post(&left, 100, 1), -EPERM);
	ck_assert_int_eq(udp_post(&left, 1000, 64), -EPERM);
	ck_assert_uint_eq(udp_stats(&left).fallbacks, 0);
	udp_pair_close(&left, &right);
}
END_TEST

/* A route that answers: from an address that the kernel would not have chosen. */
static void answer_route(struct udp_side *left, struct udp_side *right)
{
	static const uint8_t other[16] = {[10] = 0xff, 0xff, 127, 0, 0, 2};
	struct ripc__event event;
	struct ripc__addr addr;

	udp_side_addr(right, other, &addr);
	ck_assert_int_eq(UDP->route.open(&left->port, &left->peer, &addr), 0);
	ck_assert_int_eq(udp_post(left, 100, 1), 1);
	ck_assert_int_eq(UDP->datagrams.poll(&right->port, &event, 1, false), 1);
	ck_assert_int_eq(UDP->route.open(&right->port, &right->peer, event.from), 0);
	UDP->datagrams.release(&right->port, event.handle);
}

START_TEST(send__source_is_named_only_where_it_matters)
{
	struct udp_side left, right;

	udp_pair_open(&left, &right, NULL);
	ck_assert_int_eq(udp_post(&right, 100, 1), 1);
	udp_expect(&left, 100, 1);
	ck_assert_int_eq(kernel.n_sources, 0);
	answer_route(&left, &right);
	ck_assert_int_eq(udp_post(&right, 100, 1), 1);
	ck_assert_int_eq(kernel.n_sources, 1);
	udp_expect(&left, 100, 1);
	ck_assert_int_eq(udp_post(&right, 1000, 20), 20);
	ck_assert_int_eq(kernel.n_sources, 2);
	ck_assert_int_eq(kernel.n_offloads, 1);
	udp_expect(&left, 1000, 20);
	udp_pair_close(&left, &right);
}
END_TEST

/* The address that was asked is not ours any more: the kernel's choice, and offload stays. */
START_TEST(send__source_is_gone)
{
	struct udp_side left, right;

	udp_pair_open(&left, &right, NULL);
	answer_route(&left, &right);
	/* Nobody has this address (RFC 5737). */
	memcpy(&right.peer.local.s6_addr[12], (uint8_t[]){192, 0, 2, 1}, 4);
	ck_assert_int_eq(udp_post(&right, 1000, 20), 20);
	udp_expect(&left, 1000, 20);
	ck_assert_int_eq(udp_post(&right, 1000, 20), 20);
	udp_expect(&left, 1000, 20);
	ck_assert_uint_eq(udp_stats(&right).fallbacks, 0);
	ck_assert_int_eq(kernel.n_offloads, 2);
	udp_pair_close(&left, &right);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("udp_send");
	const char *lack = kernel_lacks_overflows();

	tcase_add_checked_fixture(tcase, set_up, NULL);
	tcase_add_test(tcase, send__option_forbids_offload);
	tcase_add_test(tcase, send__earlier_refusal_is_read);
	tcase_add_test(tcase, send__other_errors_are_told);
	if (kernel_runs(lack ? lack : kernel_lacks_mtu(), "offload and sources", 1)) {
		tcase_add_test(tcase, send__offload_is_used);
		tcase_add_loop_test(tcase, send__offload_fails, 0, 4);
		tcase_add_test(tcase, send__offload_fails_after_it_worked);
		tcase_add_test(tcase, send__offload_fails_and_the_network_fills);
		tcase_add_loop_test(tcase, send__full_network_takes_none, 0, 3);
		tcase_add_test(tcase, send__source_is_named_only_where_it_matters);
		tcase_add_test(tcase, send__source_is_gone);
	}
	return suite_finish("udp_send", tcase);
}
