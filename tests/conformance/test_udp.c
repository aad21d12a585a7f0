/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The udp backend against the contract: with and without offload, over IPv4 and IPv6, and (as
 * root) on hosts that have only one of them, which are network namespaces.
 *
 * usage: test_udp v4|other|v6|only-v4|only-v6
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../support/util/kernel.h"
#include "suite.h"

#define SKIPPED 77

/* A network namespace of our own, with lo up. */
static int enter_namespace(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd, rc;

	if (unshare(CLONE_NEWNET))
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	rc = ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
	return rc;
}

static int remove_v6(void)
{
	int fd = open("/proc/sys/net/ipv6/conf/all/disable_ipv6", O_WRONLY | O_CLOEXEC);
	ssize_t written;

	if (fd < 0)
		return -1;
	written = write(fd, "1", 1);
	close(fd);
	return written == 1 ? 0 : -1;
}

static int remove_v4(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_addr.sa_family = AF_INET};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -1;
	rc = ioctl(fd, SIOCSIFADDR, &request);
	close(fd);
	return rc;
}

static int has_v6(void)
{
	struct sockaddr_in6 self = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return 0;
	rc = bind(fd, (struct sockaddr *)&self, sizeof(self));
	close(fd);
	return rc == 0;
}

static int prepare(const char *how)
{
	if (strncmp(how, "only-", 5) == 0 && enter_namespace())
		return -1;
	if (strcmp(how, "only-v4") == 0)
		return remove_v6();
	if (strcmp(how, "only-v6") == 0 && remove_v4())
		return -1;
	return strstr(how, "v6") && !has_v6() ? -1 : 0;
}

int main(int argc, char **argv)
{
	static const char *const no_gso[] = {"udp.gso", "off", NULL};
	static const char *const no_gro[] = {"udp.gro", "off", NULL};
	static const char *const neither[] = {"udp.gso", "off", "udp.gro", "off", NULL};
	static const char *const small[] = {"udp.rcvbuf", "32768", NULL};
	static const conformance_options variants[] = {NULL, no_gso, no_gro, neither};
	struct conformance udp = {
		.backend = &ripc__udp_backend,
		.variants = variants,
		.n_variants = 4,
		.small_buffer = small,
	};
	const char *how = argc > 1 ? argv[1] : "v4";

	if (!strstr(how, "v6"))
		udp.lacks_mtu = kernel_lacks_mtu();
	udp.lacks_overflows = kernel_lacks_overflows();
	if (prepare(how)) {
		printf("skipped: %s needs IPv6, or root for a network namespace\n", how);
		return SKIPPED;
	}
	inet_pton(AF_INET6, strstr(how, "v6") ? "::1" : strcmp(how, "other") == 0 ?
		"::ffff:127.0.0.2" : "::ffff:127.0.0.1", udp.host);
	return conformance_run(&udp);
}
