/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The objects of the store source, which its files share:
 *
 *   store.c    the slots: open, close, poll; the UDP socket; options; changes of addresses
 *   session.c  the ZooKeeper session: connecting, processing, expiry
 *   registrations.c   IDs of this context's services, as nodes in the store
 *   known.c    IDs that are looked up, their owners, and the list of all
 *   members.c  members of groups: those of this context, as nodes, and those that it sends to
 *   value.c    the contents of nodes, paths, and sending queries
 *
 * The store only names the owner: a query is sent to the owner's UDP socket, whose answer
 * counts.
 *
 *   /ripc/<cluster>/s/<2 hex>/<ID, 16 hex>                  a container; its data names the owner
 *   /ripc/<cluster>/s/<2 hex>/<ID, 16 hex>/<incarnation>    ephemeral: the owner lives
 *   /ripc/<cluster>/p/<2 hex>/<ID, 16 hex>                  a private ID: ephemeral, and its data
 *   /ripc/<cluster>/g/<2 hex>/<group, 16 hex>               a container
 *   /ripc/<cluster>/g/<2 hex>/<group, 16 hex>/<incarnation> a member: ephemeral, and its data
 *
 * An ID is claimed by writing to its container, at the version that was read with no child, and
 * creating the child in the same transaction. One of two claims therefore fails, and a deletion
 * surely hits the node that was meant.
 */
#ifndef RIPC_STORE_INTERNAL_H
#define RIPC_STORE_INTERNAL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <zookeeper/zookeeper.h>

#include "core/net/backend.h"
#include "core/wire/record.h"
#include "util/list.h"
#include "util/map.h"

#define STORE_ADDRS    4
#define STORE_VALUE    (28 + 4 * STORE_ADDRS)
#define STORE_PATH     320
#define STORE_CLUSTER  64
#define STORE_SHARDS   256u
#define STORE_RETRY_US 50000u
#define STORE_GRACE_US 1000000u /* a store that is away for less is only awaited */

enum shelf { SHELF_PUBLIC = 's', SHELF_PRIVATE = 'p', SHELF_GROUP = 'g' };

static inline enum shelf ripc__shelf(bool is_private)
{
	return is_private ? SHELF_PRIVATE : SHELF_PUBLIC;
}

/* The contents of a node: the owner of an ID. */
struct value {
	uint64_t incarnation, context, life; /* life: as of ripc__source */
	in_port_t port;                      /* of the UDP socket that answers, network order */
	uint8_t n_addrs;
	struct in_addr addrs[STORE_ADDRS];
};

/* An event that core has to learn of, at most one of each kind per object. */
struct news {
	struct list node; /* store->news; unlinked: nothing */
	struct ripc__source_event event;
};

enum registration_state {
	REGISTRATION_WANTED,   /* will be made when there is a session */
	REGISTRATION_MAKING,   /* a request is under way */
	REGISTRATION_MADE,
	REGISTRATION_REFUSED,  /* core knows; it withdraws the claim, or has it tried again */
	REGISTRATION_LEAVING,  /* withdrawn; the node may still be there */
};

struct registration {
	struct news news;
	struct list node;        /* store->registering, store->leaving */
	uint64_t id, incarnation;
	uint64_t serial;         /* of its requests: those of earlier ones do not count */
	int64_t session;         /* the node's session, if the node is made */
	int version;             /* of the container when it was free; -1: it must be made */
	uint64_t rival;          /* to be displaced, at that version; 0: none */
	uint64_t moves;          /* store->moves, when its node was written */
	uint32_t tries;
	uint8_t state;
	bool private_id, told;   /* told: published, and core hears it */
	bool alone;              /* a transaction of its own shows the fault */
};

struct known {
	struct news told, hint;
	struct list node;        /* store->known_order */
	uint64_t id;
	struct value value;      /* of the last known owner; n_addrs 0: none */
	uint8_t *query;       /* to be sent to the owner; NULL: none */
	uint32_t query_len;
	bool reading, again;     /* again: queried again since the request under way was made */
	bool confirming;         /* is there certainly no owner? */
};

struct store {
	struct ripc__host host;
	void (*began)(struct store *store); /* a session has begun: missing nodes are made */
	char *servers;           /* in the client's form: host:port,... */
	char *auth;              /* "user:password" or NULL */
	struct ACL owned[2], top;
	struct ACL_vector acl, acl_top; /* of the nodes that we make; of that above all clusters */
	char cluster[STORE_CLUSTER];
	uint32_t session_ms;
	zhandle_t *zh;           /* NULL: none; the next one is made at retry_us */
	int64_t session;         /* 0: not connected */
	bool renew;              /* the handle is useless now */
	bool busy;               /* more may have arrived */
	bool sent;               /* requests, which the kernel holds back until the next step */
	bool tops_made[2];
	uint8_t made[2][STORE_SHARDS / 8]; /* shelves for IDs, private ones: already made */
	bool refused_logged, away_logged;
	bool shelves_refused;    /* the credential does not allow making the upper nodes */
	int epoll_fd, udp, watched_fd;
	in_port_t port;          /* of udp, network order */
	struct value addresses;  /* of this host, as of scanned_us */
	uint64_t scanned_us;
	uint64_t moves;          /* changes of these addresses */
	int changes;             /* of the kernel's reports of them; -1: none */
	uint32_t watched_events;
	uint64_t due_us, retry_us, retry_after_us, away_us; /* away_us: since then; 0: connected */
	uint64_t serial;
	struct ripc__map registrations, known; /* by ID */
	struct ripc__map joined, groups; /* members here, by group ^ incarnation; groups by ID */
	struct list registering, leaving, known_order, groups_order;
	struct list news;
	void (*found)(void *arg, uint64_t id, bool is_private); /* NULL: no list is wanted */
	void *found_arg;
	uint64_t listing;        /* number of the list under way */
	uint8_t buffer[WIRE_RESOLVE_MAX + 1];
};

/* A request of the store. */
struct request {
	struct store *store;
	uint64_t id, serial, name;
};

/* value.c */
/* Are all of these servers ("host:port,...") at loopback addresses of this host, and named so? */
bool ripc__servers_are_here(const char *servers);
size_t ripc__value_encode(const struct value *value, uint8_t bytes[STORE_VALUE]);
/* -EBADMSG: these bytes are no value. */
int ripc__value_decode(const void *bytes, int len, struct value *value);
/* The node of an ID or a group; incarnation not 0: of its child. */
void ripc__path_make(const struct store *store, char path[STORE_PATH], enum shelf shelf,
		uint64_t id, uint64_t incarnation);
/* The ID that a path ends with; 0: none. */
uint64_t ripc__path_id(const char *path);
/* The contents of a node of ours. Returns their length. */
int ripc__value_make(struct store *store, uint64_t incarnation, uint8_t bytes[STORE_VALUE]);
/* Reads the addresses of this host. Have they changed? */
bool ripc__addresses_look(struct store *store);
/* Sends a query to the owner. */
void ripc__value_send(const struct store *store, const struct value *value, const void *data,
		size_t len);

/* session.c */
/* Does the work that is due or has arrived; notifies claims and known. */
void ripc__session_step(struct store *store);
void ripc__session_close(struct store *store);
/* Requests follow: the client sends them at once, and the kernel together, after this step. */
void ripc__session_sends(struct store *store);
/* Translates an error of the client. -EHOSTUNREACH: the outcome is unknown. */
int ripc__session_error(int rc);
/* For requests whose result the next request sees. */
void ripc__result_ignore(int rc, const char *value, const void *data);
/* For a completion; NULL: no memory. */
struct request *ripc__request_make(struct store *store, uint64_t id, uint64_t serial);
/* Reports to core; a later event takes the place of an earlier one. */
void ripc__news(struct store *store, struct news *news, const struct ripc__source_event *event);
/* Makes the nodes above those of IDs; the request that needs them tries again. */
void ripc__parents_make(struct store *store, uint64_t id, bool is_private);
/* Once store->auth is known. */
void ripc__acl_init(struct store *store);

/* registrations.c */
/* Slots of struct ripc__source. */
int ripc__registration_publish(void *source, uint64_t id, uint64_t incarnation,
		enum ripc__naming naming);
void ripc__registration_withdraw(void *source, uint64_t id);
/* A session has begun: missing nodes are made. */
void ripc__registrations_renew(struct store *store);
/* At the end of a step. */
void ripc__registrations_send(struct store *store);
/* Reports to waiting claims that nothing can be done for a while. */
void ripc__registrations_delayed(struct store *store);
void ripc__registrations_free(struct store *store);

/* Writes the node of a claim again if it has other addresses than this host. */
void ripc__registration_rewrite(struct store *store, struct registration *registration);

/* members.c */
/* Slots of struct ripc__source. */
int ripc__joined_join(void *source, uint64_t group, uint64_t incarnation);
void ripc__joined_leave(void *source, uint64_t group, uint64_t incarnation);
int ripc__members_list(void *source, uint64_t id, void (*found)(void *arg, uint64_t name),
		void *arg);
int ripc__members_ask(void *source, uint64_t id, uint64_t name, const void *data, size_t len);
/* A session has begun, as above, or the addresses have changed. */
void ripc__joined_renew(struct store *store);
void ripc__joined_free(struct store *store);
/* A session has begun: reads what could not be read before. */
void ripc__members_renew(struct store *store);
void ripc__members_free(struct store *store);

/* known.c */
/* Slots of struct ripc__source. */
int ripc__known_ask(void *source, uint64_t id, const void *data, size_t len);
int ripc__known_list(void *source, void (*found)(void *arg, uint64_t id, bool is_private),
		void *arg);
void ripc__known_free(struct store *store);

#endif
