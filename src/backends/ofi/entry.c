/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Entries of libfabric's address vector: one for each link, as long as libfabric must know where it
 * leads. There are never two of one address: not every provider tells them apart.
 *
 * Places. A partner that is started again may get the queue pair of EFA that a dead one had: then a
 * place has several entries, some of which libfabric may have made by itself, for senders. The
 * provider (1.17) takes one of them for the newest, and finds senders at the place only while there
 * is a newest one. Removing any other would remove it from there, too, and leave behind what is
 * freed. So before an entry is removed its place is levelled: an entry of nobody is made there,
 * which is the newest then, and removed. After that there is none, the others can be removed in any
 * order, and another entry of nobody, the guard, is made, behind which those that are left are
 * found. It goes when nothing has happened at the place while others were guarded.
 *
 * Who is gone. Over EFA both ends count messages: an entry of somebody who lives must stay, as who
 * began to count anew would not be heard any more. It goes when a message of ours has failed, which
 * nobody can repeat, and libfabric has nothing else of it, even where core has yet to close its
 * routes: those have failed, too. Where another one comes to the place, he who was there is asked.
 */
#include "ofi.h"

#include <errno.h>
#include <string.h>

#include "ripc/ripc.h"

static bool is_efa(const struct ofi_port *port)
{
	return port->net->info->ep_attr->protocol == FI_PROTO_EFA;
}

static int insert(struct ofi_port *port, const struct ripc__addr *addr, fi_addr_t *to)
{
	int n = fi_av_insert(port->net->av, addr->blob + OFI_ADDR_HEAD, 1, to, 0, NULL);

	return n == 1 ? 0 : -EHOSTUNREACH;
}

/* ---- places ------------------------------------------------------------------------------ */

/* An entry of nobody; one that is there already is found. */
static int nobody_put(struct ofi_port *port, const struct ripc__addr *place, uint32_t key,
		fi_addr_t *to)
{
	struct ripc__addr nobody;

	ripc__ofi_addr_nobody(place, key, &nobody);
	return insert(port, &nobody, to);
}

static int nobody_pass(struct ofi_port *port, const struct ripc__addr *place, uint32_t key)
{
	fi_addr_t to;
	int error = nobody_put(port, place, key, &to);

	return error ? error : fi_av_remove(port->net->av, &to, 1, 0);
}

static bool has_entry_at(const struct list *links, const struct ripc__addr *place)
{
	for (const struct list *node = links->next; node != links; node = node->next) {
		const struct ofi_link *link = list_entry(node, struct ofi_link, node);

		if (link->has_entry && ripc__ofi_addr_same_place(&link->addr, place))
			return true;
	}
	return false;
}

/* Its guard is of no use any more, unless there are entries. */
static void forget_place(struct ofi_port *port, const struct ripc__addr *place)
{
	if (has_entry_at(&port->links, place) || has_entry_at(&port->links_unused, place) ||
			nobody_pass(port, place, OFI_KEY_LEVEL))
		return;
	(void)nobody_pass(port, place, OFI_KEY_GUARD);
}

/* The place is the last one of those that are guarded. */
static void note_place(struct ofi_port *port, const struct ripc__addr *place)
{
	uint32_t at = 0;

	while (at < port->n_guarded && !ripc__ofi_addr_same_place(&port->guarded[at], place))
		at++;
	if (at == OFI_PLACES) {
		at = 0;
		forget_place(port, &port->guarded[0]);
	}
	if (at < port->n_guarded)
		memmove(&port->guarded[at], &port->guarded[at + 1],
			(--port->n_guarded - at) * sizeof(port->guarded[0]));
	port->guarded[port->n_guarded++] = *place;
}

static bool remove_at_place(struct ofi_port *port, struct ofi_link *link)
{
	fi_addr_t guard;

	if (nobody_pass(port, &link->addr, OFI_KEY_LEVEL))
		return false;
	(void)fi_av_remove(port->net->av, &link->to, 1, 0);
	link->has_entry = link->greeted = false;
	/* Anew: if it was there, it was not the newest. */
	(void)nobody_pass(port, &link->addr, OFI_KEY_GUARD);
	(void)nobody_put(port, &link->addr, OFI_KEY_GUARD, &guard);
	note_place(port, &link->addr);
	return true;
}

/* ---- entries ----------------------------------------------------------------------------- */

bool ripc__ofi_entry_is_quiet(const struct ofi_link *link)
{
	return !link->n_posted && !link->n_waiting && !link->n_reads && list_empty(&link->reads);
}

bool ripc__ofi_entry_remove(struct ofi_port *port, struct ofi_link *link)
{
	if (!link->has_entry)
		return true;
	if (is_efa(port) && !remove_at_place(port, link))
		return false;
	if (link->has_entry)
		(void)fi_av_remove(port->net->av, &link->to, 1, 0);
	link->has_entry = link->gone = link->greeted = false;
	return true;
}

bool ripc__ofi_entry_is_needed(const struct ofi_port *port, const struct ofi_link *link)
{
	return is_efa(port) && link->has_entry && !link->gone;
}

void ripc__ofi_entry_lost(const struct ofi_port *port, struct ofi_link *link)
{
	link->gone = is_efa(port);
}

void ripc__ofi_entry_ended(struct ofi_port *port, struct ofi_link *link)
{
	if (link->gone && ripc__ofi_entry_is_quiet(link))
		(void)ripc__ofi_entry_remove(port, link);
}

/* Told once: the same failure will come again. */
static void explain(struct ofi_port *port)
{
	if (is_efa(port) && !port->told_full)
		port->dev.host.log(port->dev.host.arg, RIPC_LOG_WARN,
			"ofi: libfabric cannot add a partner's address: the EFA provider of 1.17 "
			"takes at most 128 addresses of its own host, ever; use shm on one host");
	port->told_full = true;
}

int ripc__ofi_entry_make(struct ofi_port *port, struct ofi_link *link)
{
	if (link->has_entry)
		return 0;
	if (insert(port, &link->addr, &link->to)) {
		explain(port);
		return -EHOSTUNREACH;
	}
	link->has_entry = true;
	return is_efa(port);
}
