/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Local names of our user's services (docs/protocol.md, Local) that another user's process has
 * bound: abstract names belong to whoever binds them first. Only the kernel's list of sockets
 * (sock_diag(7)) says whose a socket is, from Linux 5.3 on.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "ripc_tool.h"

/* As newer headers have it. */
#define SHOW_UID      0x40
#define ATTRIBUTE_UID 7

#define NAME_MAX_LEN  108
#define REPLY_LEN     32768

struct search {
	char prefix[32];
	void (*found)(void *arg, const char *name, unsigned int uid);
	void *arg;
};

/* Others choose the bytes: what the resolver does not use, and a terminal might obey, is none. */
static int is_ours(const struct search *search, const char *name)
{
	size_t len = strlen(search->prefix);

	return strncmp(name, search->prefix, len) == 0 &&
		name[len + strspn(name + len, "0123456789abcdef/")] == 0;
}

static void look_at(const struct search *search, struct nlmsghdr *message)
{
	struct rtattr *attribute = (struct rtattr *)((char *)NLMSG_DATA(message) +
		NLMSG_ALIGN(sizeof(struct unix_diag_msg)));
	const struct unix_diag_msg *of = NLMSG_DATA(message);
	int left = (int)NLMSG_PAYLOAD(message, sizeof(*of));
	size_t len;
	uint32_t uid = 0;
	char name[NAME_MAX_LEN + 1] = "";

	if (of->udiag_type != SOCK_DGRAM && of->udiag_state == TCP_ESTABLISHED)
		return; /* an accepted socket has its listener's name */
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		len = RTA_PAYLOAD(attribute);
		if (attribute->rta_type == ATTRIBUTE_UID && len == sizeof(uid))
			memcpy(&uid, RTA_DATA(attribute), sizeof(uid));
		/* An abstract name begins with a zero byte. */
		if (attribute->rta_type == UNIX_DIAG_NAME && len > 1 && len <= NAME_MAX_LEN &&
				!*(char *)RTA_DATA(attribute)) {
			memcpy(name, (char *)RTA_DATA(attribute) + 1, len - 1);
			name[len - 1] = 0;
		}
	}
	/* Root is believed in any case. */
	if (uid && uid != getuid() && is_ours(search, name))
		search->found(search->arg, name, uid);
}

/* Returns whether there is more to come. */
static int take(const struct search *search, int fd)
{
	static char bytes[REPLY_LEN] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct nlmsghdr *message = (struct nlmsghdr *)bytes;
	ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
	size_t left = (size_t)n;

	if (n <= 0)
		return n < 0 && errno == EINTR;
	for (; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
		if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR)
			return 0;
		if (message->nlmsg_type == SOCK_DIAG_BY_FAMILY)
			look_at(search, message);
	}
	return 1;
}

void tool_names_of_others(
	void (*found)(void *arg, const char *name, unsigned int uid), void *arg)
{
	struct {
		struct nlmsghdr header;
		struct unix_diag_req request;
	} question = {
		.header = {.nlmsg_len = sizeof(question), .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.request = {.sdiag_family = AF_UNIX, .udiag_states = ~0u,
			.udiag_show = UDIAG_SHOW_NAME | SHOW_UID},
	};
	struct search search = {.found = found, .arg = arg};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	if (fd < 0)
		return;
	snprintf(search.prefix, sizeof(search.prefix), "ripc/%x/", (unsigned int)getuid());
	if (send(fd, &question, sizeof(question), 0) == (ssize_t)sizeof(question))
		while (take(&search, fd))
			;
	close(fd);
}
