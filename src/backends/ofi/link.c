/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partners: each has an entry of libfabric's address vector, shared by all routes that lead to
 * it. An entry stays for a while when the last route is closed, because answers to strangers
 * would make and remove one each time; and at least until its operations have completed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "ripc/ripc.h"
#include "util/hash/siphash.h"

/* ---- entry ------------------------------------------------------------------------------- */

/*
 * Entries of libfabric's address vector: one for each link, as long as libfabric must know where
 * it leads. No two entries have one address: not every provider tells them apart.
 *
 * Places. A partner that is started again may get the queue pair of EFA that a dead one had:
 * then a place has several entries, some of which libfabric may have made by itself, for
 * senders. The provider (1.17) takes one of them for the newest, and finds senders at the place
 * only while there is a newest one. Removing any other entry would also unlink the newest, and
 * leave freed memory behind. Before an entry is removed, its place is therefore levelled: an
 * entry without a partner is made there, which is the newest then, and is removed. After that
 * there is no newest one, and the others can be removed in any order. Another entry without a
 * partner, the guard, is then made, behind which the remaining ones are found. The guard is
 * removed when nothing has happened at the place while others were guarded.
 *
 * Removal. Over EFA both ends count messages: the entry of a live partner must stay, because a
 * partner that began to count anew would not be heard any more. An entry is removed when a
 * message of ours has failed, which nobody can repeat, and libfabric has no other operation of
 * that entry, even where core has yet to close its routes: those have failed, too. If another
 * partner comes to the place, the former one is queried.
 */

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

/* Makes an entry without a partner; an existing one is found. */
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

/* Forgets the place: its guard is useless without entries. */
static void forget_place(struct ofi_port *port, const struct ripc__addr *place)
{
	if (has_entry_at(&port->links, place) || has_entry_at(&port->links_unused, place) ||
			nobody_pass(port, place, OFI_KEY_LEVEL))
		return;
	(void)nobody_pass(port, place, OFI_KEY_GUARD);
}

/* Notes the place as the last of the guarded ones. */
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
	/* Made anew: an existing guard was not the newest. */
	(void)nobody_pass(port, &link->addr, OFI_KEY_GUARD);
	(void)nobody_put(port, &link->addr, OFI_KEY_GUARD, &guard);
	note_place(port, &link->addr);
	return true;
}

/* ---- entries ----------------------------------------------------------------------------- */

/* Has libfabric no operation of the link? */
static bool ofi_entry_is_quiet(const struct ofi_link *link)
{
	return !link->n_posted && !link->n_waiting && !link->n_reads && list_empty(&link->reads);
}

/* Only for a quiet link. False: libfabric has no room, and the entry stays. */
static bool ofi_entry_remove(struct ofi_port *port, struct ofi_link *link)
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

/* Does the entry lead to a partner of EFA that may live? */
static bool ofi_entry_is_needed(const struct ofi_port *port, const struct ofi_link *link)
{
	return is_efa(port) && link->has_entry && !link->gone;
}

void ripc__ofi_entry_lost(const struct ofi_port *port, struct ofi_link *link)
{
	link->gone = is_efa(port);
}

void ripc__ofi_entry_ended(struct ofi_port *port, struct ofi_link *link)
{
	if (link->gone && ofi_entry_is_quiet(link))
		(void)ofi_entry_remove(port, link);
}

/* Logged once: the same failure will come again. */
static void explain(struct ofi_port *port)
{
	if (is_efa(port) && !port->told_full)
		port->dev.host.log(port->dev.host.arg, RIPC_LOG_WARN,
			"ofi: libfabric cannot add a partner's address: the EFA provider of 1.17 "
			"takes at most 128 addresses of its own host, ever; use shm on one host");
	port->told_full = true;
}

/*
 * Makes the link's entry. 0: there is one. 1: there is a new one of EFA, and partners at its
 * place may have gone. -EHOSTUNREACH: libfabric has no room.
 */
static int ofi_entry_make(struct ofi_port *port, struct ofi_link *link)
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

/* ---- link -------------------------------------------------------------------------------- */

#define TRIM_LOOKS 4u

static uint64_t key_of(const struct ofi_port *port, const struct ripc__addr *addr)
{
	return ripc__siphash(port->secret, addr->blob, addr->len);
}

static bool is_at(const struct ofi_link *link, const struct ripc__addr *addr)
{
	return link->addr.len == addr->len &&
		memcmp(link->addr.blob, addr->blob, addr->len) == 0;
}

/* ---- coming and going -------------------------------------------------------------------- */

static int link_new(struct ofi_port *port, const struct ripc__addr *addr, struct ofi_link **link)
{
	struct ofi_link *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	made->key = key_of(port, addr);
	made->addr = *addr;
	list_init(&made->node);
	list_init(&made->waiting);
	list_init(&made->stuck);
	list_init(&made->told);
	list_init(&made->posting);
	list_init(&made->reads);
	list_init(&made->reading);
	if (ripc__map_put(&port->links_by_name, made->key, made)) {
		free(made);
		return -ENOMEM;
	}
	list_append(&port->links_unused, &made->node);
	port->n_unused++;
	made->is_new = true;
	*link = made;
	return 0;
}

/* Is the link unused, without operations in libfabric? */
static bool may_go(const struct ofi_link *link)
{
	return !link->n_routes && ofi_entry_is_quiet(link);
}

/* Frees a link that may go. The link stays if libfabric has no room to remove it. */
static bool link_free(struct ofi_port *port, struct ofi_link *link)
{
	if (!ofi_entry_remove(port, link))
		return false;
	ripc__map_remove(&port->links_by_name, link->key);
	list_remove(&link->node);
	list_remove(&link->told);
	free(link);
	port->n_unused--;
	return true;
}

/*
 * The link that was left first is freed first; a few at a time, because one more is left at a
 * time. A partner that may live and must stay is queried, and freed later if it is gone.
 */
void ripc__ofi_links_trim(struct ofi_port *port, uint32_t n_kept)
{
	for (uint32_t i = 0; i < TRIM_LOOKS && port->n_unused > n_kept; i++) {
		struct ofi_link *link = list_entry(port->links_unused.next, struct ofi_link, node);

		list_remove(&link->node);
		list_append(&port->links_unused, &link->node);
		if (may_go(link) && ofi_entry_is_needed(port, link))
			(void)ripc__ofi_knock(port, link);
		else if (may_go(link))
			(void)link_free(port, link);
	}
}

/* The entry of a failed link may not hold for the partner that is there now. */
static int link_find(struct ofi_port *port, const struct ripc__addr *addr, struct ofi_link **found)
{
	struct ofi_link *link = ripc__map_get(&port->links_by_name, key_of(port, addr));

	if (link && !is_at(link, addr))
		return -EADDRINUSE;
	if (link && link->failed && may_go(link) && !ofi_entry_is_needed(port, link) &&
			link_free(port, link))
		link = NULL;
	if (!link)
		return link_new(port, addr, found);
	*found = link;
	return 0;
}

/*
 * A link that needs a connection waits for it: otherwise datagrams would pile up meanwhile, and
 * arrive together with core's repetitions. A connection that failed may have stood before.
 */
static int link_begin(struct ofi_port *port, struct ofi_link *link)
{
	int error = 0;

	if (ripc__ofi_connects(port->net->info) && (link->failed || link->is_new))
		error = ripc__ofi_knock(port, link);
	link->failed = error && error != -EAGAIN;
	link->opening |= error == -EAGAIN;
	link->is_new = false;
	return link->failed ? error : 0;
}

/* Waiting datagrams are still sent: an answer to a stranger, whose route core closes at once. */
static void link_put(struct ofi_port *port, struct ofi_link *link)
{
	if (--link->n_routes)
		return;
	link->missed = false;
	list_remove(&link->node);
	list_append(&port->links_unused, &link->node);
	port->n_unused++;
	if (link->failed && may_go(link) && !ofi_entry_is_needed(port, link))
		(void)link_free(port, link);
	else
		ripc__ofi_links_trim(port, OFI_LINKS_KEPT);
}

/* Queries the links at the same place: the partner of a link that fails is gone. */
static void ask_others(struct ofi_port *port, const struct ofi_link *link)
{
	list_for_each_safe(node, &port->links) {
		struct ofi_link *other = list_entry(node, struct ofi_link, node);

		if (other != link && other->has_entry && !other->gone &&
				ofi_entry_is_quiet(other) &&
				ripc__ofi_addr_same_place(&other->addr, &link->addr))
			(void)ripc__ofi_knock(port, other);
	}
}

/* Makes the entry; errors are those of ofi_entry_make(). */
static int enter(struct ofi_port *port, struct ofi_link *link)
{
	int made = ofi_entry_make(port, link);

	if (made > 0)
		ask_others(port, link);
	return made < 0 ? made : 0;
}

/* One more route to it. */
static int link_get(struct ofi_port *port, const struct ripc__addr *addr, struct ofi_link **found)
{
	struct ofi_link *link;
	int error = link_find(port, addr, &link);

	if (error)
		return error;
	if (link->n_routes++ == 0) {
		list_remove(&link->node);
		list_append(&port->links, &link->node);
		port->n_unused--;
	}
	if (link->silent || link->gone || enter(port, link) ||
			link_begin(port, link)) {
		link_put(port, link);
		return -EHOSTUNREACH;
	}
	*found = link;
	return 0;
}

void ripc__ofi_links_open(struct ofi_port *port)
{
	list_init(&port->links);
	list_init(&port->links_unused);
	list_init(&port->stuck);
	list_init(&port->told);
	ripc__map_init(&port->links_by_name, port->dev.host.context);
}

static void free_all(struct list *links)
{
	while (!list_empty(links))
		free(list_entry(list_pop(links), struct ofi_link, node));
}

/* The address vector removes their entries. */
void ripc__ofi_links_close(struct ofi_port *port)
{
	free_all(&port->links);
	free_all(&port->links_unused);
	ripc__map_free(&port->links_by_name);
}

/* ---- reports to core --------------------------------------------------------------------- */

void ripc__ofi_link_tell(struct ofi_port *port, struct ofi_link *link)
{
	link->missed = false;
	list_remove(&link->told);
	list_append(&port->told, &link->told);
}

void ripc__ofi_link_fail(struct ofi_port *port, struct ofi_link *link)
{
	link->resets++;
	link->failed = true;
	link->greeted = false;
	ripc__ofi_sends_drop(port, link);
	ripc__ofi_reads_drop(port, link, -ECONNRESET);
	/* The next packet that core sends is answered by an error. */
	ripc__ofi_link_tell(port, link);
	ripc__ofi_entry_ended(port, link);
}

uint32_t ripc__ofi_links_take(struct ofi_port *port, struct ripc__event *events, uint32_t at,
		uint32_t n)
{
	while (at < n && !list_empty(&port->told)) {
		struct ofi_link *link = list_entry(list_pop(&port->told), struct ofi_link, told);

		port->from[at] = link->addr;
		events[at] = (struct ripc__event){
			.kind = RIPC_EV_PEER,
			.status = link->opening && link->failed ? -EHOSTUNREACH : 0,
			.peer = link->opener,
			.from = &port->from[at],
		};
		link->opening = false;
		at++;
	}
	return at;
}

/* ---- routes ------------------------------------------------------------------------------ */

int ripc__ofi_port_addr(void *state, uint8_t blob[RIPC_ADDR_MAX])
{
	const struct ofi_port *port = state;

	return port->is_lost ? -ENETDOWN : ripc__ofi_name_encode(&port->self, blob);
}

int ripc__ofi_addr_choose(void *state, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	const struct ofi_port *port = state;
	struct ofi_name name;

	(void)host;
	if (ripc__ofi_name_decode(blob, len, &port->self, &name))
		return -EBADMSG;
	ripc__ofi_addr_fill(&name, &port->self, addr);
	return 0;
}

int ripc__ofi_route_open(void *state, void *route_state, const struct ripc__addr *addr)
{
	struct ofi_port *port = state;
	struct ofi_route *route = route_state;
	struct ofi_link *link;
	struct ofi_name name;
	int error;

	if (ripc__ofi_name_decode(addr->blob, addr->len, &port->self, &name))
		return -EINVAL;
	if (port->is_lost)
		return -ENETDOWN;
	error = link_get(port, addr, &link);
	if (error)
		return error;
	*route = (struct ofi_route){.link = link, .resets = link->resets};
	link->opener = route_state;
	return link->opening ? -EINPROGRESS : 0;
}

void ripc__ofi_route_close(void *port, void *route)
{
	link_put(port, ((struct ofi_route *)route)->link);
}

void ripc__ofi_where(void *port, const void *route, struct ripc__where *where)
{
	(void)port;
	where->addr = ((const struct ofi_route *)route)->link->addr;
	where->reader = 0;
}

uint32_t ripc__ofi_route_mtu(void *port, void *route)
{
	(void)route;
	return ((struct ofi_port *)port)->dev.datagram_max;
}

bool ripc__ofi_route_matches(void *port, const void *route, const struct ripc__addr *from)
{
	(void)port;
	return is_at(((const struct ofi_route *)route)->link, from);
}
