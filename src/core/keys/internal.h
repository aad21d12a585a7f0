/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the files of core/keys share. No other room includes them. */
#ifndef RIPC_KEYS_INTERNAL_H
#define RIPC_KEYS_INTERNAL_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/base/budget.h"
#include "core/memory/secret.h"
#include "core/net/backend.h"
#include "core/net/crypto.h"
#include "dir.h"
#include "util/bytes.h"
#include "util/list.h"
#include "util/map.h"
#include "util/timers.h"

struct member;
struct ripc_context;
struct sealed_port;

/* ---- session ----------------------------------------------------------------------------- */

/*
 * Sessions: the keys of one handshake seal the datagrams of two contexts. Each datagram carries a
 * counter, which is its nonce. The receiver takes each counter once, and no counter that is 1,024
 * or more behind the highest.
 *
 * A context has one or two sessions for each partner, therefore sessions are small. The replay
 * window is one word as long as no counter is missing below it. The first missing one turns the
 * window into a ring of 1,024 bits.
 */

#define REJECT_COUNT   (1u << 25) /* datagrams that one session seals at most */

#define SEALED_HEADER  16u /* kind, the receiver's index, the counter */
#define SEALED_EXTRA   (SEALED_HEADER + RIPC_TAG_LEN) /* SEALED_BYTES of sealed.h */
#define REPLAY_WINDOW  1024u
#define REPLAY_WORDS   (REPLAY_WINDOW / 64 + 1)
#define SESSION_SLOTS  32u /* keyed ciphers that are kept, for each direction */

struct session {
	struct member *member;
	union {
		uint64_t missing; /* bit i: the counter i + 1 below next has not come */
		uint64_t *ring;   /* is_ring: bit counter % 64 of word counter / 64: has come */
	};
	uint32_t sent;       /* the next datagram's counter */
	uint32_t next;       /* one above the highest counter that came */
	uint32_t born_ms, used_ms; /* when the session was made; when we began to seal with it */
	uint32_t index, their_index;
	uint32_t their_reset; /* first bytes of the number in an UNKNOWN about this session */
	uint8_t cipher;      /* enum ripc__cipher */
	uint8_t slots[2];    /* slots that the session's ciphers last had: sealing, unsealing */
	bool is_initiator : 1, is_ring : 1;
	bool is_lost : 1;    /* an UNKNOWN has proven that the other end lost the session */
	uint8_t doubts : 3;  /* UNKNOWNs without proof since the last hint to core */
	uint8_t keys[];      /* to seal, then to unseal: ripc__cipher_key_len() bytes each */
};

static inline uint32_t ripc__cipher_key_len(uint8_t cipher)
{
	return cipher == RIPC_AES_128_GCM ? 16 : 32;
}

/* The ciphers of recent sessions, with their keys. Other sessions get a cipher when needed. */
struct ciphers {
	struct cipher_box *box;
	struct secret_memory memory; /* of sessions and handshakes */
	struct cipher_slot {
		const struct session *session; /* aead has its key; NULL: none */
		void *aead;
		uint8_t cipher;
	} slots[2][SESSION_SLOTS];
	uint32_t next[2];
};

/*
 * Makes a session of this cipher; its other fields are zero. The first bytes of the keys are the
 * session's. NULL: no memory.
 */
struct session *ripc__session_alloc(struct ciphers *ciphers, uint8_t cipher,
		const uint8_t send_key[32], const uint8_t receive_key[32]);
/* Wipes and frees a session. */
void ripc__session_free(struct ciphers *ciphers, struct session *session);

/* May a datagram with this counter still come? Changes nothing. */
bool ripc__replay_allows(const struct session *session, uint64_t counter);
/*
 * A datagram with this counter has come, and was authentic. Without memory for a ring the counters
 * that have left the word count as come.
 */
void ripc__replay_note(struct session *session, uint64_t counter);

/*
 * Seals one datagram into out: header, ciphertext, tag. out has room for SEALED_EXTRA bytes more
 * than in. Uses up a counter. -ENOMEM; -EKEYEXPIRED: the session has sealed REJECT_COUNT datagrams.
 */
int ripc__session_seal(struct ciphers *ciphers, struct session *session, const struct iovec *in,
		uint32_t n, uint8_t *out);
/*
 * Unseals a datagram in place: the plaintext begins SEALED_HEADER bytes after the datagram's start,
 * and is SEALED_EXTRA bytes shorter. -EALREADY: the datagram came before, or comes too late;
 * -EKEYREJECTED: it is forged.
 */
int ripc__session_unseal(struct ciphers *ciphers, struct session *session, uint8_t *bytes,
		uint32_t len);
void ripc__ciphers_free(struct ciphers *ciphers);

/* ---- member ------------------------------------------------------------------------------ */

/*
 * Members: the contexts with keys that we know, by static key and incarnation, and their sessions.
 * The struct of a member lives while a route leads to the member, and for a while after that.
 *
 * A member's session current seals. The session next was made by a handshake that the member began.
 * It becomes current when the first datagram sealed with it comes: the datagram proves that the
 * member has the keys. The session previous still unseals datagrams that are in flight.
 */

#define SEALED_NETS 8u /* networks of one context, at most */

/* A network whose datagrams are sealed, and its sealed network (sealed.c). */
struct sealed_net {
	struct seal *seal;
	const struct ripc__backend *inner;
	struct ripc__backend ops;   /* the table of the sealed network */
	struct sealed_port *port;   /* the port, while it is open; else NULL */
	void *inner_port;           /* the port of the inner network, while port is open */
};

#define MEMBERS_IDLE 4096u /* members to which no route leads */
#define REKEY_MS     120000u     /* age of a session at which new keys are made */
#define REJECT_MS    240000u     /* age at which a session is not used any more */
#define REKEY_COUNT  (1u << 24)  /* the first of the two limits in datagrams */
#define REFUSED_MS   5000u       /* until a refused member is tried again */
#define INITS_SEEN   16384u /* INITs of one period that are remembered; inits allows fewer */
#define PROOFS       256u        /* address tokens that are kept; they are valid for seconds */

#define SAID_US      5000000u    /* until the log mentions the same missing right again */
#define SAID         16u         /* members with such a log line that are remembered */
#define ROUTES_MAX   ((1u << 16) - 1)

/* A member. The struct is small, because there is one for each partner. */
struct member {
	struct list node;       /* seal->idle, or seal->used: least recently used first */
	struct member *opened;  /* due: the next member in seal->opened, or NULL */
	uint64_t name;          /* in seal->members, and in addresses: a hash of key and context */
	uint64_t context;
	uint8_t key[32];
	struct session *current;
	struct rights *rights;  /* the rights that the member has shown; NULL: none */
	uint64_t stamp;         /* of its last handshake */
	uint32_t previous, next; /* sessions, by their index; 0: none */
	uint32_t handshake;     /* our handshake in progress, by its index; 0: none */
	uint32_t routes : 16;
	uint32_t net : 3;       /* in seal->nets: the network of the last contact */
	bool is_refused : 1;    /* a handshake was refused lately */
	bool is_elsewhere : 1;  /* is_refused: because another context has the member's address */
	bool is_stale : 1;      /* our directory of keys has changed since the last handshake */
	bool is_admitted : 1;   /* a handshake has succeeded, and the member has some right */
	uint32_t due : 8;       /* a bit for each network whose error core has yet to get */
	bool lacks : 1;         /* since its session came into use, a send lacked a right */
	bool is_unanswered : 1; /* a handshake of ours was not answered lately, despite a session */
	uint16_t refused_ms;    /* when a handshake was refused by either end, or not answered */
	uint8_t errors[];       /* 0, or a positive errno; of each network of the context */
};

/* The keys that are derived from a secret of the deployment. */
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
	struct rights rights;       /* our own rights */
	uint32_t n_faulty;          /* capabilities of ours that do not count */
	struct ripc__map sessions, handshakes; /* by index */
	struct ripc__map members;              /* by name */
	struct list idle, used;                /* members */
	struct list under_way;                 /* our handshakes */
	struct member *opened, **exposed_end; /* a queue; the place of the next member */
	struct {
		uint64_t name, proof;
	} proofs[PROOFS];           /* the latest address tokens that members gave us */
	uint32_t n_proofs;          /* tokens kept so far, including forgotten ones */
	uint32_t n_idle;
	uint32_t secret;            /* in secrets: the secret of the datagram at hand */
	uint64_t last_stamp;
	struct budget inits;        /* limits the handshakes of others that we compute */
	struct {
		uint64_t period;    /* of address tokens */
		struct ripc__map macs;
	} inits_seen[2];            /* INITs that were computed, by the first bytes of their MACs */
	struct budget unknowns;     /* limits searches for sessions because of UNKNOWNs */
	struct bucket quotes;       /* the same because of quotes by the network */
	struct {
		uint64_t name, us;  /* of a member; time of the log line about its missing right */
	} said[SAID];               /* by name */
	struct ripc__timer sweep, look; /* look: reads the directory of keys again */
	struct ripc__timer rights_end;  /* when the next right ends, if that is before look */
};

/* The member with this key and context, which is made if needed. NULL: no memory. */
struct member *ripc__member_get(struct seal *seal, const uint8_t key[32], uint64_t context);
/* The member to which an address or a route of the sealed network (sealed.c) leads; NULL: none. */
struct member *ripc__sealed_member(const struct seal *seal, const struct ripc__addr *addr);
struct member *ripc__sealed_member_of(const void *route);
/* The last address token that the member gave us; 0: none is known. */
uint64_t ripc__member_proof(const struct seal *seal, const struct member *member);
void ripc__member_proof_keep(struct seal *seal, const struct member *member, uint64_t proof);
/* Records that a handshake with the member was refused; checks whether that was lately. */
void ripc__member_refuse(struct seal *seal, struct member *member, bool is_elsewhere);
bool ripc__member_is_refused(const struct seal *seal, const struct member *member);
/* The same for a handshake that was not answered, though there is a session. */
void ripc__member_unanswered(struct seal *seal, struct member *member);
bool ripc__member_is_unanswered(const struct seal *seal, const struct member *member);
/* A route leads to the member; a route does not lead there any more. */
void ripc__member_hold(struct seal *seal, struct member *member);
void ripc__member_drop(struct seal *seal, struct member *member);
/* Does the member have a session that can seal now? */
bool ripc__member_is_ready(const struct seal *seal, const struct member *member);
/* Draws an index that no session and no handshake has. */
uint32_t ripc__index_draw(struct seal *seal);
uint32_t ripc__session_age_ms(const struct seal *seal, const struct session *session);
/* The time for which we have sealed with the session. */
uint32_t ripc__session_used_ms(const struct seal *seal, const struct session *session);
/* Makes a session; both ends have its keys. NULL: no memory. */
struct session *ripc__session_make(struct seal *seal, struct member *member, uint32_t index,
		uint8_t cipher, const struct noise_keys *keys, bool is_initiator);
struct session *ripc__session_by(const struct seal *seal, uint32_t index);
/* Ends a session; NULL: does nothing. */
void ripc__session_end(struct seal *seal, struct session *session);
void ripc__sessions_end(struct seal *seal, struct member *member);
/* The session becomes the current one. The one that was current before still unseals. */
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
/* Reports the end of a handshake to core, for all networks that have a bit in nets. */
void ripc__member_tell_all(struct seal *seal, struct member *member, uint8_t nets, int status);
/* Core has got all reports about the member at *at: the member leaves seal->opened. */
void ripc__exposed_remove(struct seal *seal, struct member **at);
void ripc__members_open(struct seal *seal);
void ripc__members_close(struct seal *seal);

/* ---- grants ------------------------------------------------------------------------------ */

/* The rights that a member has shown, and whether they are enough for a message. */

/*
 * The n capabilities that a member shows in a handshake become its rights from now on. 0; -EACCES:
 * none of them counts, and the member keeps its old rights; -ENOMEM.
 */
int ripc__grants_take(struct sealed_net *net, struct member *member, const uint8_t *capabilities,
		uint32_t n, const struct ripc__addr *from);
/*
 * Our own rights by this directory, as others see them. Logs once which of our capabilities do not
 * count. -ENOMEM: the rights are as before.
 */
int ripc__grants_own(struct seal *seal, const struct key_dir *dir);
/* Is the key of the member revoked? If it is, logs a sentence. */
bool ripc__grants_are_revoked(struct sealed_net *net, const struct member *member,
		const struct ripc__addr *at);
/* We refused the member, or the member refused us: ends its sessions, and reports to core. */
void ripc__grants_lose(struct sealed_net *net, struct member *member);
/*
 * Has the member shown its rights since we have an authority? A member that was admitted before
 * will show them in its next handshake.
 */
bool ripc__grants_are_known(const struct seal *seal, const struct member *member);
/* Sets the timer for the end of a right, unless it is set for an earlier time. */
void ripc__grants_await_end(struct seal *seal, uint64_t end_s);
/* The time at which the next right ends, of ours or of a member; UINT64_MAX: never. Seconds. */
uint64_t ripc__grants_end_s(const struct seal *seal);
/* May the member be that service? */
bool ripc__grants_let_be(const struct seal *seal, const struct member *member, uint64_t id);
/* May the member be service from, and send to our service to? */
bool ripc__grants_let_in(const struct seal *seal, const struct member *member, uint64_t from,
		uint64_t to);
/*
 * NULL: the member may be service to, and we may be service from and send to it. Else a text that
 * names the missing right.
 */
const char *ripc__grants_lack(const struct seal *seal, const struct member *member, uint64_t from,
		uint64_t to);

/* ---- handshake --------------------------------------------------------------------------- */

/*
 * Handshakes: beginning, answering, and giving up (docs/protocol.md, Handshake). The result of a
 * handshake is a session of a member.
 */

/* A handshake that we have begun. */
struct handshake {
	struct ripc__timer timer;
	struct list node;          /* of seal->under_way */
	struct member *member;
	struct noise noise;
	struct sealed_net *net;    /* the network that the handshake uses now */
	uint8_t nets;              /* a bit for each network whose routes wait for the handshake */
	struct ripc__addr at;      /* the address of the member in the inner network */
	uint64_t began_us, wait_us, proof_us;
	uint64_t proof;            /* the address token that INIT shows; 0: none */
	uint8_t mac[16];           /* of the last INIT: a PROOF must show it */
	uint64_t hinted_us;        /* when a hint came that nobody listens; 0: no hint */
	uint32_t index;
	int thrown;                /* the result of sending the last datagram */
};

/* Begins a handshake, or joins one in progress. -ENOMEM; -EACCES: refused a moment ago. */
int ripc__handshake_begin(struct sealed_net *net, struct member *member,
		const struct ripc__addr *at);
/* Our capabilities have changed: each handshake in progress sends a new INIT with them. */
void ripc__handshakes_renew(struct seal *seal);
/* For handshakes with this address: the inner network has found a way (status 0), or none. */
void ripc__handshakes_way(struct sealed_net *net, const struct ripc__addr *at, int status);
/* The member gives us an address token, for the handshake in progress and later ones. */
void ripc__handshake_proof(struct seal *seal, struct member *member, uint64_t proof);
void ripc__handshake_end(struct seal *seal, struct member *member);
/*
 * A datagram of a handshake came; bytes may be overwritten. Returns a member that seems to have
 * lost our session: core should probe it. Else NULL.
 */
const struct member *ripc__handshake_input(struct sealed_net *net, uint8_t *bytes, uint32_t len,
		const struct ripc__addr *from);
/* A DATA datagram came whose index has no session: answers with UNKNOWN. */
void ripc__unknown_answer(struct sealed_net *net, const uint8_t *bytes,
		const struct ripc__addr *from);
/* The member that a datagram was sent to lately, which an ICMP message quotes; or NULL. */
struct member *ripc__handshake_quoted(struct seal *seal, const uint8_t *quote, uint32_t len);
/* Sends one datagram to an address. 0, or a negative errno. */
int ripc__sealed_throw(struct sealed_net *net, const struct ripc__addr *to, const uint8_t *bytes,
		uint32_t len);
/* Sends an empty sealed datagram, which shows the member that the session works. */
void ripc__sealed_confirm(struct sealed_net *net, struct member *member,
		const struct ripc__addr *to);
/* Logs a sentence for people, at most one a second in the long run. */
void ripc__seal_say(struct sealed_net *net, const struct ripc__addr *from, const char *text);

/* ---- sealed port ------------------------------------------------------------------------- */

/* A port and a route of the sealed network, and those of the inner network behind them. */

/* The struct lies in front of the inner port, which begins at a multiple of 16. */
struct sealed_port {
	_Alignas(16) struct seal *seal;
	struct sealed_net *net;
	uint8_t *room;
	struct ripc__addr from[RIPC_EVENTS_MAX]; /* of the events of one poll */
};

struct sealed_route {
	_Alignas(16) struct member *member;
};

static inline void *inner_port(void *port)
{
	return (struct sealed_port *)port + 1;
}

static inline void *inner_route(void *route)
{
	return (struct sealed_route *)route + 1;
}

static inline struct sealed_net *net_of(const void *port)
{
	return ((const struct sealed_port *)port)->net;
}

static inline const struct ripc__backend *inner_of(const void *port)
{
	return net_of(port)->inner;
}

/* Those capabilities of the inner network that may be used. */
uint32_t ripc__sealed_caps(const struct ripc__host *host, const struct ripc__backend *inner,
		uint32_t caps);

/* ---- datagram ---------------------------------------------------------------------------- */

/*
 * The bytes of sealed datagrams and of handshakes (docs/protocol.md, Sealed datagrams); those of
 * the payloads of handshakes are in handshake.c. All datagrams begin alike:
 *
 *   0 u8 0x92   1 u8 kind   2 u16 zero   4 u32 index
 */

#define SEALED_MAGIC 0x92u
#define SEALED_MAC   16u

enum sealed_kind {
	SEALED_INIT = 1, /* message 1; index: the sender's */
	SEALED_REPLY,    /* message 2; index: the receiver's */
	SEALED_PROOF,    /* requests a new INIT with this address token; index: the receiver's */
	SEALED_DATA,     /* index: the receiver's */
	SEALED_UNKNOWN,  /* the index of a DATA has no session; index: as in that DATA */
};

/*
 * INIT: 8 context   16 to_context   24 proof   32 message 1   then a MAC of all before. INIT has
 * one length, with room for all capabilities, so no answer to it is longer.
 */
#define INIT_HEADER  32u
#define INIT_PAYLOAD 24u
#define INIT_SAID    (INIT_PAYLOAD + CAPABILITIES_MAX * CAPABILITY_LEN)
#define INIT_LEN     (INIT_HEADER + NOISE_FIRST + INIT_SAID + SEALED_MAC)
/* REPLY: 8 u32 the sender's index   12 zero   16 message 2   then a MAC. */
#define REPLY_HEADER  16u
#define REPLY_PAYLOAD 24u
#define REPLY_LEN(n) (REPLY_HEADER + NOISE_SECOND + REPLY_PAYLOAD + (n) * CAPABILITY_LEN + \
		SEALED_MAC)
/*
 * PROOF: 8 context (the initiator's)   16 proof   24 the MAC of that INIT   40 zero   then a MAC.
 * The INIT that follows has at most 1.5 times its bytes.
 */
#define PROOF_HEADER (24u + SEALED_MAC)
#define PROOF_LEN    (2 * INIT_LEN / 3)
_Static_assert(INIT_LEN % 3 == 0, "PROOF_LEN");
_Static_assert(REPLY_LEN(CAPABILITIES_MAX) <= INIT_LEN, "no answer is longer");
/* UNKNOWN: 8 counter of that datagram   16 reset of its session   then a MAC. */
#define UNKNOWN_LEN  (24u + SEALED_MAC)

static inline void ripc__datagram_begin(uint8_t *bytes, enum sealed_kind kind, uint32_t index)
{
	bytes[0] = SEALED_MAGIC;
	bytes[1] = (uint8_t)kind;
	put16(bytes + 2, 0);
	put32(bytes + 4, index);
}

#endif
