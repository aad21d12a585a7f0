/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of libfabric's providers, and of its devices, is used; what it needs from us, and which
 * datagrams suit it.
 */
#include "ofi.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ripc/ripc.h"

#define DATAGRAM_MIN 1536u /* with our head */
#define MESSAGE_ANY  16384u /* where there is no reason for another length */
/*
 * What the EFA provider puts before a message that goes as one packet (libfabric 1.17: 8,744 bytes
 * go as one where packets have 8,760, 8,750 as two). Until it has heard of the other end it puts
 * its address there, too, and splits the longest.
 */
#define EFA_HEADER   16u
#define EFA_MTU      8760u

int ripc__ofi_wish_read(const struct ripc__host *host, struct ofi_wish *wish)
{
	*wish = (struct ofi_wish){
		.receives = OFI_RECEIVES,
		.checksum = true,
		.reads = OFI_READS_RULE,
	};
	return ripc__options_read(host, ripc__ofi_options, wish);
}

static const char *provider_of(const struct ofi_wish *wish)
{
	return wish->provider && wish->provider[0] ? wish->provider : "efa";
}

static bool wants_efa(const struct ofi_wish *wish)
{
	return strcmp(provider_of(wish), "efa") == 0;
}

/*
 * What we ask for: nothing but messages, perhaps reads, and that memory is registered by us. Of EFA
 * also that the device reaches partners on this host, too: libfabric's shm, which the provider else
 * takes for them, may end a process when its partner ends.
 */
static struct fi_info *hints_new(const struct ofi_wish *wish, bool reads)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->caps = FI_MSG | (reads ? FI_RMA | FI_READ | FI_REMOTE_READ : 0) |
		(wants_efa(wish) ? FI_REMOTE_COMM : 0);
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
		FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(provider_of(wish));
	if (!hints->fabric_attr->prov_name) {
		fi_freeinfo(hints);
		return NULL;
	}
	return hints;
}

static void say_missing(const struct ofi_wish *wish, int error, char why[256], char remedy[256])
{
	uint32_t version = fi_version();

	snprintf(why, 256, "libfabric %u.%u has no endpoint of provider \"%.60s\": %.80s",
		FI_MAJOR(version), FI_MINOR(version), provider_of(wish), fi_strerror(-error));
	if (wants_efa(wish))
		snprintf(remedy, 256, "an EFA interface, the efa driver, libfabric's provider "
			"(fi_info -p efa) and locked memory (ulimit -l) are needed: docs/efa.md");
	else
		snprintf(remedy, 256, "fi_info -l lists the installed providers; FI_LOG_LEVEL=warn "
			"makes libfabric log more");
}

/*
 * libfabric 2.x also offers EFA's packets as they are: they keep no order, and nothing is sent
 * again to who has no buffer for it.
 */
static bool is_raw(const struct fi_info *info)
{
	return info->fabric_attr->name && strcmp(info->fabric_attr->name, "efa-direct") == 0;
}

static bool fits(const struct fi_info *info, const struct ofi_wish *wish)
{
	if (info->ep_attr->msg_prefix_size || info->ep_attr->max_msg_size < DATAGRAM_MIN ||
			is_raw(info))
		return false;
	return !wish->domain || strcmp(info->domain_attr->name, wish->domain) == 0;
}

/* One at a time: with the EFA provider (1.17) threads that ask at once end by SIGSEGV. */
static int ask(const struct ofi_wish *wish, bool reads, struct fi_info **all)
{
	static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
	struct fi_info *hints = hints_new(wish, reads);
	int error = -ENOMEM;

	pthread_mutex_lock(&asking);
	if (hints)
		error = fi_getinfo(OFI_API, NULL, NULL, 0, hints, all);
	pthread_mutex_unlock(&asking);
	fi_freeinfo(hints);
	return error;
}

/* Elsewhere than on EFA a provider that can read may be another one than it would be else. */
static bool may_read(const struct ofi_wish *wish)
{
	return wish->reads == 1 || (wish->reads == OFI_READS_RULE && wants_efa(wish));
}

int ripc__ofi_info_get(const struct ofi_wish *wish, struct fi_info **info, char why[256],
		char remedy[256])
{
	struct fi_info *all = NULL, *found;
	int error = may_read(wish) ? ask(wish, true, &all) : -ENODEV;

	if (error)
		error = ask(wish, false, &all);
	if (error) {
		say_missing(wish, error, why, remedy);
		return -ENODEV;
	}
	for (found = all; found && !fits(found, wish); )
		found = found->next;
	found = found ? fi_dupinfo(found) : NULL;
	fi_freeinfo(all);
	if (!found) {
		snprintf(why, 256, "provider \"%.60s\" has no device named by ofi.domain",
			provider_of(wish));
		snprintf(remedy, 256, "fi_info -p \"%.60s\" -t FI_EP_RDM lists its domains",
			provider_of(wish));
		return -ENODEV;
	}
	*info = found;
	return 0;
}

static uint32_t packet_max(const struct fi_info *info)
{
	size_t mtu = info->nic && info->nic->link_attr ? info->nic->link_attr->mtu : 0;

	return mtu >= DATAGRAM_MIN && mtu <= RIPC_DATAGRAM_MAX ? (uint32_t)mtu : EFA_MTU;
}

uint32_t ripc__ofi_message_max(const struct fi_info *info)
{
	uint64_t most = info->ep_attr->max_msg_size;
	uint32_t len = MESSAGE_ANY;

	if (info->ep_attr->protocol == FI_PROTO_EFA)
		len = packet_max(info) - EFA_HEADER;
	return most < len ? (uint32_t)most : len;
}

bool ripc__ofi_connects(const struct fi_info *info)
{
	uint32_t protocol = info->ep_attr->protocol;

	return protocol == FI_PROTO_RXM || protocol == FI_PROTO_RXM_TCP ||
		protocol == FI_PROTO_XNET;
}

/* Within a host's memory; what EFA's own network checks from end to end nobody says for sure. */
bool ripc__ofi_is_intact(const struct ofi_wish *wish, const struct fi_info *info)
{
	return !wish->checksum || info->ep_attr->protocol == FI_PROTO_SHM;
}

/* ---- reads ------------------------------------------------------------------------------- */

static bool is_kind(const struct fi_info *info, const char *kind)
{
	return strcasecmp(info->nic->device_attr->device_id, kind) == 0;
}

static bool has_kind(const struct fi_info *info)
{
	return info->nic && info->nic->device_attr && info->nic->device_attr->device_id;
}

/* The provider (1.17) lets all but the first two kinds of device read, unless told not to. */
static bool reads_unasked(const struct fi_info *info)
{
	return has_kind(info) && !is_kind(info, "0xefa0") && !is_kind(info, "0xefa1");
}

bool ripc__ofi_may_be_told(const struct fi_info *info)
{
	return has_kind(info) && is_kind(info, "0xefa1") && !getenv("FI_EFA_USE_DEVICE_RDMA");
}

/*
 * Does the device read by itself? The provider does not tell; else it would do the same in
 * datagrams, by the processor of whoever holds the memory, and take an outdated key for an error of
 * that one's endpoint. If it was told to let a device read that cannot, it has ended the process.
 */
static bool device_reads(const struct fi_info *info)
{
	const char *told = getenv("FI_EFA_USE_DEVICE_RDMA");

	if (!told || !told[0])
		return reads_unasked(info);
	return strtol(told, NULL, 0) != 0 || strcasecmp(told, "true") == 0 ||
		strcasecmp(told, "yes") == 0 || strcasecmp(told, "on") == 0;
}

bool ripc__ofi_has_reads(const struct ofi_wish *wish, const struct fi_info *info)
{
	if (!(info->caps & FI_RMA) || !wish->reads)
		return false;
	return info->ep_attr->protocol == FI_PROTO_EFA ? device_reads(info) : wish->reads == 1;
}
