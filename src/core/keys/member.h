/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members: the contexts with keys that we know, by static key and incarnation, and their sessions.
 * A member lives while a route leads to it, and for a while after that.
 *
 * A member's session current seals. The session next was made by a handshake that the member began.
 * It becomes current when the first datagram sealed with it comes: the datagram proves that the
 * member has the keys. The session previous still unseals datagrams that are on their way.
 */
#ifndef RIPC_MEMBER_H
#define RIPC_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/budget.h"
#include "core/net/backend.h"
#include "dir.h"
#include "session.h"
#include "util/list.h"
#include "util/map.h"
#include "util/timers.h"

struct handshake;
struct ripc_context;
struct sealed_port;

#define SEALED_NETS 8u /* networks of one context, at most */

/* A network whose datagrams are sealed, and what is around it (sealed.c). */
struct sealed_net {
	struct seal *seal;
	const struct ripc__backend *inner;
	struct ripc__backend ops;   /* the table of the sealed network */
	struct sealed_port *port;   /* the port, while it is open; else NULL */
	void *inner_port;           /* the port of the inner network, then */
};

#define MEMBERS_IDLE 4096u /* members to which no route leads */
#define REKEY_MS     120000u     /* age of a session at which new keys are made */
#define REJECT_MS    240000u     /* age of a session at which it is of no use any more */
#define REKEY_COUNT  (1u << 24)  /* the first of the two limits in datagrams */
#define REFUSED_MS   5000u       /* a member that was refused is not tried again before */
#define INITS_SEEN   16384u /* INITs of one period that are remembered; inits allows fewer */
#define PROOFS       256u        /* address proofs that are kept; they are good for seconds */

#define SAID_US      5000000u    /* a member that lacks a right is not spoken of again before */
#define SAID         16u         /* members that were spoken of, which are kept */
#define ROUTES_MAX   ((1u << 16) - 1)

/* Small, as there is one for each partner. */
struct member {
	struct list node;       /* seal->idle, or seal->used: least recently used first */
	struct member *opened;  /* due: the next one of seal->opened, or NULL */
	uint64_t name;          /* in seal->members, and in addresses: a hash of key and context */
	uint64_t context;
	uint8_t key[32];
	struct session *current;
	struct rights *rights;  /* the rights that it has shown; NULL: none */
	uint64_t stamp;         /* of its last handshake */
	uint32_t previous, next; /* sessions, by their index; 0: none */
	uint32_t handshake;     /* ours, on its way, by its index; 0: none */
	uint32_t routes : 16;
	uint32_t net : 3;       /* of seal->nets: by which it was last met */
	bool is_refused : 1;    /* lately */
	bool is_elsewhere : 1;  /* is_refused: because another context lives at its address */
	bool is_stale : 1;      /* our keys, or what we know of others', have changed since */
	bool is_admitted : 1;   /* a handshake with it has ended well, and it has some right */
	uint32_t due : 8;       /* a bit for each network by which core must be told of error */
	bool lacks : 1;         /* since its session came into use, a send lacked a right */
	bool is_unanswered : 1; /* lately one of our handshakes was, though there is a session */
	uint16_t refused_ms;    /* when a handshake was refused, by us or by it, or not answered */
	uint8_t errors[];       /* 0, or a positive errno; of each network of the context */
};

/* The keys that follow from a secret of the deployment. */
struct secret_keys {
	uint8_t psk[32], handshake_key[32], record_key[32];
};

/* The state of a context with keys: one per context, made before the devices. */
struct seal {
	struct ripc_context *ctx;
	struct sealed_net nets[SEALED_NETS];
	uint32_t n_nets;
	struct cipher_box box;
	struct key_dir dir;
	struct ciphers ciphers;
	struct secret_keys secrets[SECRETS]; /* of each secret of dir; dir.n_secrets */
	uint64_t private_bits;
	struct rights rights;       /* our own */
	uint32_t n_faulty;          /* capabilities of ours that do not count */
	struct ripc__map sessions, handshakes; /* by index */
	struct ripc__map members;              /* by name */
	struct list idle, used;                /* members */
	struct list under_way;                 /* our handshakes */
	struct member *opened, **opened_end; /* first come first; where the next one goes */
	struct {
		uint64_t name, proof;
	} proofs[PROOFS];           /* the last ones of members */
	uint32_t n_proofs;          /* that were kept, the forgotten ones among them */
	uint32_t n_idle;
	uint32_t secret;            /* of secrets: with which the handshake at hand is made */
	uint64_t last_stamp;
	struct budget inits;        /* limits the handshakes of others that we compute */
	struct {
		uint64_t period;    /* of address proofs */
		struct ripc__map macs;
	} inits_seen[2];            /* INITs that were computed, by the first bytes of their MACs */
	struct budget unknowns;     /* limits the sessions that we look for */
	struct bucket quotes;       /* the same for what the network quotes */
	struct {
		uint64_t name, us;  /* of a member; when a log line spoke of a right it lacks */
	} said[SAID];               /* by name */
	struct ripc__timer sweep, look; /* look: at the directory of keys */
	struct ripc__timer rights_end;  /* when the next right ends, if that is before the look */
};

/* The member with this key and context; a new one is made. NULL: no memory. */
struct member *ripc__member_get(struct seal *seal, const uint8_t key[32], uint64_t context);
struct member *ripc__member_by_name(const struct seal *seal, uint64_t name);
/* The member to which an address or a route of the sealed network (sealed.c) leads; NULL: none. */
struct member *ripc__sealed_member(const struct seal *seal, const struct ripc__addr *addr);
struct member *ripc__sealed_member_of(const void *route);
/* The last address proof that the member gave us; 0: none is known. */
uint64_t ripc__member_proof(const struct seal *seal, const struct member *member);
void ripc__member_proof_keep(struct seal *seal, const struct member *member, uint64_t proof);
/* A handshake with the member was refused. Was it lately? */
void ripc__member_refuse(struct seal *seal, struct member *member, bool is_elsewhere);
bool ripc__member_is_refused(const struct seal *seal, const struct member *member);
/* A handshake with the member was not answered, though there is a session. Was it lately? */
void ripc__member_unanswered(struct seal *seal, struct member *member);
bool ripc__member_is_unanswered(const struct seal *seal, const struct member *member);
/* A route leads to the member; a route leads there no more. */
void ripc__member_hold(struct seal *seal, struct member *member);
void ripc__member_drop(struct seal *seal, struct member *member);
/* Does the member have a session that can seal now? */
bool ripc__member_is_ready(const struct seal *seal, const struct member *member);
/* Draws an index that no session and no handshake has. */
uint32_t ripc__index_draw(struct seal *seal);
uint32_t ripc__session_age_ms(const struct seal *seal, const struct session *session);
/* For how long we have sealed with the session. */
uint32_t ripc__session_used_ms(const struct seal *seal, const struct session *session);
/* Makes a session; both ends have its keys. NULL: no memory. */
struct session *ripc__session_make(struct seal *seal, struct member *member, uint32_t index,
		uint8_t cipher, const struct noise_keys *keys, bool is_initiator);
struct session *ripc__session_by(const struct seal *seal, uint32_t index);
/* Ends a session of its member; NULL: nothing. */
void ripc__session_end(struct seal *seal, struct session *session);
void ripc__sessions_end(struct seal *seal, struct member *member);
/* The session takes the place of the current one, which still unseals. */
void ripc__session_use(struct seal *seal, struct session *session);
/* A datagram came that this session sealed: if the session is next, it becomes current. */
void ripc__session_confirm(struct sealed_net *net, struct session *session);
static inline uint32_t sealed_net_nth(const struct sealed_net *net)
{
	return (uint32_t)(net - net->seal->nets);
}
static inline uint8_t sealed_net_bit(const struct sealed_net *net)
{
	return (uint8_t)(1u << sealed_net_nth(net));
}
/* A handshake with the member has ended well (status 0), or failed: core must be told. */
void ripc__member_tell(struct sealed_net *net, struct member *member, int status);
/* The same of all networks that have a bit in nets. */
void ripc__member_tell_all(struct seal *seal, struct member *member, uint8_t nets, int status);
/* Core has been told all of the member at *at: it leaves seal->opened. */
void ripc__opened_remove(struct seal *seal, struct member **at);
void ripc__members_open(struct seal *seal);
void ripc__members_close(struct seal *seal);

#endif
