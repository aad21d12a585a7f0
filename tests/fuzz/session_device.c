/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The direct transfers of a fuzzed session's device, if the input gives it capabilities: reads,
 * writes, memory that partners can reach, and mapped memory of partners. The device has a list of
 * transfers in progress; the input decides when each ends, and how, or time does. Partners have
 * zeros, so that faults leave other bytes.
 *
 * Invariants: all memory passed to the device is the application's or a live block of the pool,
 * from beginning to end; each cookie is used for one thing at a time; registered memory is given
 * back before the device is closed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/pool.h"
#include "core/net/backend.h"
#include "session.h"
#include "util/list.h"

#define GARBAGE       0xa5
#define USES_MAX      4096u
#define POOL_BYTES    (24u << 20) /* room for long messages of all lengths */
#define SEGMENT_BYTES ((size_t)256 << 10)

static bool is_move(const struct use *use)
{
	return use->kind == USE_READ || use->kind == USE_WRITE;
}

static bool is_closing(const struct use *use)
{
	return use->kind == USE_CLOSING || use->kind == USE_HANDED;
}

/* The memory is valid, all of it. */
static void check_memory(struct session *session, const void *mem, size_t len)
{
	CLAIM(len > 0);
	CLAIM(session_app_owns(mem, len) || ripc__pool_owns(session->ctx->pool, mem, len));
}

static struct use *use_add(struct session *session, struct use like)
{
	struct use *use = malloc(sizeof(*use));

	CLAIM(use && session->mover.n_uses < USES_MAX);
	*use = like;
	list_append(&session->mover.uses, &use->node);
	session->mover.n_uses++;
	return use;
}

static void use_free(struct session *session, struct use *use)
{
	list_remove(&use->node);
	session->mover.n_uses--;
	free(use);
}

static struct use *use_choose(struct session *session, uint32_t at)
{
	uint32_t left = session->mover.n_uses ? at % session->mover.n_uses : 0;

	list_for_each(node, &session->mover.uses) {
		if (left-- == 0)
			return list_entry(node, struct use, node);
	}
	return NULL;
}

/* A call that the device does not take, as the input had said. */
static int refused(struct session *session)
{
	if (session->mover.n_refusals == 0)
		return 0;
	session->mover.n_refusals--;
	return session->mover.refusal;
}

static uint64_t due(struct session *session)
{
	uint8_t how = input8(&session->input);

	return session->now_us + (how < 224 ? how * 100u : 300000u);
}

/* ---- what ends ----------------------------------------------------------------------------- */

/* Says so at the next poll. Waits if there are too many events. */
static void tell(struct session *session, enum ripc__event_kind kind, const struct use *use,
		int status)
{
	struct fuzz_mover *mover = &session->mover;
	struct ripc__addr *from = &mover->froms[mover->n_events];

	*from = (struct ripc__addr){.len = 1, .blob = {use->host}};
	from->host[15] = use->host;
	mover->events[mover->n_events++] = (struct ripc__event){.kind = kind,
		.cookie = use->cookie, .status = status};
}

/* Until now it could have changed at any time. */
static void move_ends(struct session *session, const struct use *use, int *status)
{
	bool is_certain = (session->mover.caps & (RIPC_CAP_INTACT | RIPC_CAP_DUBIOUS)) ==
		RIPC_CAP_INTACT;

	check_memory(session, use->mem, use->len);
	if (use->kind == USE_READ)
		memset(use->mem, *status ? GARBAGE : 0, use->len);
	else
		session->read ^= use->mem[0] ^ use->mem[use->len - 1];
	if (*status > 0) /* moved half of it, and does not know */
		*status = is_certain ? -EIO : 0;
}

/* All routes there are the same way. */
static void routes_end(struct session *session, uint8_t host, int status)
{
	const struct use told = {.host = host};

	if (session->mover.n_events == RIPC_EVENTS_MAX)
		return;
	tell(session, RIPC_EV_PEER, &told, status);
	for (uint32_t i = 0; i < session->mover.n_uses;) {
		struct use *use = use_choose(session, i);

		if (use->kind == USE_ROUTE && use->host == host)
			use_free(session, use);
		else
			i++;
	}
}

static void use_ends(struct session *session, struct use *use, uint8_t how)
{
	static const int statuses[] = {0, 0, 0, 0, -EIO, -EACCES, -ETIMEDOUT, 1};
	int status = statuses[how % 8];

	if (session->mover.n_events == RIPC_EVENTS_MAX)
		return;
	if (use->kind == USE_ROUTE) {
		routes_end(session, use->host, status > 0 ? 0 : status);
		return;
	}
	if (is_move(use)) {
		move_ends(session, use, &status);
		tell(session, use->kind == USE_READ ? RIPC_EV_READ : RIPC_EV_WRITE, use, status);
	} else if (is_closing(use)) {
		check_memory(session, use->mem, use->len);
		tell(session, RIPC_EV_FENCED, use, 0);
	} else {
		return;
	}
	use_free(session, use);
}

/* Memory mapped by a partner comes back when the partner has fallen silent. */
static bool is_left(const struct session *session, const struct use *use)
{
	return use->kind == USE_HANDED && session->mover.silent;
}

static void end_what_is_due(struct session *session)
{
	for (uint32_t i = 0; i < session->mover.n_uses; i++) {
		struct use *use = use_choose(session, i);

		if (use->due_us <= session->now_us || is_left(session, use))
			use_ends(session, use, input8(&session->input));
	}
}

uint64_t session_device_next_us(const struct session *session)
{
	uint64_t next_us = session->mover.n_events ? session->now_us : UINT64_MAX;

	list_for_each(node, &session->mover.uses) {
		const struct use *use = list_entry(node, struct use, node);

		if (use->due_us < next_us)
			next_us = use->due_us;
		if (is_left(session, use))
			next_us = session->now_us;
	}
	return next_us;
}

int session_device_poll(struct session *session, struct ripc__event *events, uint32_t n)
{
	struct fuzz_mover *mover = &session->mover;
	uint32_t filled;

	end_what_is_due(session);
	filled = mover->n_events < n ? mover->n_events : n;
	for (uint32_t i = 0; i < filled; i++) {
		events[i] = mover->events[i];
		mover->told[i] = mover->froms[i];
		events[i].from = &mover->told[i];
	}
	mover->n_events -= filled;
	memmove(mover->events, mover->events + filled, mover->n_events * sizeof(*events));
	memmove(mover->froms, mover->froms + filled, mover->n_events * sizeof(mover->froms[0]));
	return (int)filled;
}

/* ---- what the input does with it ----------------------------------------------------------- */

/* A partner reaches what it can reach. */
static void reach(struct session *session, struct use *use, uint8_t how)
{
	if (use->kind != USE_OPEN && !is_closing(use))
		return;
	check_memory(session, use->mem, use->len);
	if (use->writable)
		memset(use->mem, how & 8 ? GARBAGE : 0, use->len);
	for (size_t at = 0; at < use->len; at += 64)
		session->read ^= use->mem[at];
}

void session_device_step(struct session *session)
{
	static const int refusals[] = {-EAGAIN, -ENOMEM, -EACCES, -ECONNRESET};
	struct fuzz_mover *mover = &session->mover;
	uint8_t how = input8(&session->input), at = input8(&session->input);
	struct use *use = use_choose(session, at);

	switch (how >> 4) {
	case 0:
		mover->n_refusals = at % 8;
		mover->refusal = refusals[how % 4];
		break;
	case 1:
		routes_end(session, (uint8_t)(1 + at % HOSTS), how & 1 ? -ENETUNREACH : 0);
		break;
	case 2:
		mover->fences = how & 1;
		mover->opens_slowly = how & 2;
		break;
	case 3:
	case 4:
	case 5:
	case 6:
		if (use)
			reach(session, use, how);
		break;
	default:
		if (use)
			use_ends(session, use, how);
		break;
	}
	session_work(session);
}

/* ---- its beginning and its end ------------------------------------------------------------- */

void session_device_choose(struct session *session)
{
	static const uint32_t reads[] = {0, 0, 1000, 4096, 10000, 65536, 65537, 4095};
	static const uint32_t caps[] = {RIPC_CAP_READ, RIPC_CAP_WRITE, RIPC_CAP_REGISTERED,
		RIPC_CAP_INTACT, RIPC_CAP_MAP, RIPC_CAP_DUBIOUS, RIPC_CAP_RELIABLE, RIPC_CAP_SIZED};
	uint8_t which = input8(&session->input), how = input8(&session->input);
	struct fuzz_mover *mover = &session->mover;

	for (uint32_t i = 0; i < 8; i++)
		mover->caps |= which >> i & 1 ? caps[i] : 0;
	if (mover->caps & (RIPC_CAP_WRITE | RIPC_CAP_MAP))
		mover->caps |= RIPC_CAP_READ;
	mover->read_max = reads[how % 8];
	mover->fences = how & 8;
	mover->opens_slowly = how & 16;
	session->pool_bytes = how & 32 ? session->pool_bytes : POOL_BYTES;
}

bool session_device_uses(const struct session *session, const void *mem, size_t len)
{
	const uint8_t *start = mem;

	list_for_each(node, &session->mover.uses) {
		const struct use *use = list_entry(node, struct use, node);

		if (use->mem && use->kind != USE_MAPPED && start < use->mem + use->len &&
				use->mem < start + len)
			return true;
	}
	return false;
}

void session_port_closes(struct session *session)
{
	list_for_each_safe(node, &session->mover.uses) {
		struct use *use = list_entry(node, struct use, node);

		CLAIM(use->kind != USE_MAPPED);
		if (is_move(use))
			check_memory(session, use->mem, use->len);
		if (use->kind == USE_REGION || use->kind == USE_SOURCE)
			check_memory(session, use->mem, use->len);
		else
			CLAIM(is_move(use) || use->kind == USE_ROUTE || is_closing(use));
		use_free(session, use);
	}
}

/* ---- slots: routes ------------------------------------------------------------------------- */

/* The route knows by a number whether it is being made. */
static void put_opening(uint8_t *peer, uint32_t number)
{
	memcpy(peer + 4, &number, sizeof(number));
}

int session_route_open(struct session *session, uint8_t *peer)
{
	struct fuzz_mover *mover = &session->mover;

	put_opening(peer, 0);
	if (!mover->opens_slowly || (input8(&session->input) & 3) == 3)
		return 0;
	put_opening(peer, (uint32_t)++mover->drawn);
	use_add(session, (struct use){.kind = USE_ROUTE, .host = peer[0], .cookie = mover->drawn,
		.due_us = due(session)});
	return -EINPROGRESS;
}

/* Nothing goes by a route that is being made. */
static void check_route(const struct session *session, const uint8_t *peer)
{
	uint32_t number;

	memcpy(&number, peer + 4, sizeof(number));
	CLAIM(peer[0] > 0 && peer[0] <= HOSTS);
	list_for_each(node, &session->mover.uses) {
		const struct use *use = list_entry(node, struct use, node);

		CLAIM(use->kind != USE_ROUTE || use->cookie != number);
	}
}

/* ---- slots: memory ------------------------------------------------------------------------- */

int session_mem_reg(void *port, void *peer, void *mem, size_t len, bool source, void **region)
{
	struct session *session = ((struct port *)port)->session;
	int error = refused(session);

	CLAIM(session->mover.caps & RIPC_CAP_REGISTERED && peer);
	check_memory(session, mem, len);
	if (error)
		return error;
	*region = use_add(session, (struct use){.kind = source ? USE_SOURCE : USE_REGION,
		.mem = mem, .len = len, .due_us = UINT64_MAX});
	return 0;
}

/* Nothing is moved there any more, and it is still there; the port may be closed. */
void session_mem_dereg(void *port, void *region)
{
	struct session *session = ((struct port *)port)->session;
	struct use *use = region;

	CLAIM(use->kind == USE_REGION || use->kind == USE_SOURCE);
	check_memory(session, use->mem, use->len);
	list_for_each(node, &session->mover.uses)
		CLAIM(list_entry(node, struct use, node)->key != (uintptr_t)region);
	use_free(session, use);
}

int session_mem_open(void *port, void *peer, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	struct session *session = ((struct port *)port)->session;
	int error = refused(session);

	CLAIM(session->mover.caps & (writable ? RIPC_CAP_WRITE : RIPC_CAP_READ));
	CLAIM(!writable || session_app_owns(mem, len));
	check_route(session, peer);
	check_memory(session, mem, len);
	if (error)
		return error;
	*key = (struct ripc__key){(uintptr_t)mem, ++session->mover.drawn};
	use_add(session, (struct use){.kind = USE_OPEN, .writable = writable, .mem = mem,
		.len = len, .key = key->key, .due_us = UINT64_MAX});
	return 0;
}

static struct use *opened(struct session *session, const struct ripc__key *key)
{
	list_for_each(node, &session->mover.uses) {
		struct use *use = list_entry(node, struct use, node);

		if (use->kind == USE_OPEN && use->key == key->key) {
			CLAIM(key->address == (uintptr_t)use->mem);
			return use;
		}
	}
	CLAIM(false);
	return NULL;
}

static int key_close(struct session *session, struct use *use, uint64_t cookie)
{
	check_memory(session, use->mem, use->len);
	if (!session->mover.fences || (input8(&session->input) & 3) == 3) {
		use_free(session, use);
		return 0;
	}
	use->kind = USE_CLOSING;
	use->cookie = cookie;
	use->due_us = due(session);
	return -EINPROGRESS;
}

static int key_hand(struct session *session, struct use *use, uint64_t cookie)
{
	CLAIM(session->mover.caps & RIPC_CAP_MAP && !use->writable);
	check_memory(session, use->mem, use->len);
	if (session->mover.silent || !(input8(&session->input) & 1)) {
		use_free(session, use);
		return 0;
	}
	use->kind = USE_HANDED;
	use->cookie = cookie;
	return -EINPROGRESS;
}

int session_mem_close(void *port, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie)
{
	struct session *session = ((struct port *)port)->session;
	struct use *use = opened(session, key);

	return how == RIPC_CLOSE_HAND ? key_hand(session, use, cookie) :
		key_close(session, use, cookie);
}

/* ---- slots: moving ------------------------------------------------------------------------- */

/* The registered memory in which that lies; 0: none need be. */
static uint64_t region_of(const struct session *session, const struct ripc__move *move)
{
	const struct use *use = move->region;
	const uint8_t *mem = move->mem;

	CLAIM(!use == !(session->mover.caps & RIPC_CAP_REGISTERED));
	CLAIM(!use || (use->kind == (move->writes ? USE_SOURCE : USE_REGION) &&
		use->mem <= mem && mem + move->len <= use->mem + use->len));
	return (uintptr_t)use;
}

static int move(struct session *session, struct use like)
{
	const struct fuzz_mover *mover = &session->mover;
	int error = refused(session);

	check_memory(session, like.mem, like.len);
	CLAIM(!mover->read_max || like.len <= mover->read_max);
	list_for_each(node, &mover->uses) {
		const struct use *use = list_entry(node, struct use, node);

		CLAIM(!is_move(use) || use->cookie != like.cookie);
		/* Into one place nobody else writes, nor can. */
		if (like.kind == USE_READ && (use->kind == USE_READ || use->writable))
			CLAIM(like.mem + like.len <= use->mem || use->mem + use->len <= like.mem);
	}
	if (error)
		return error;
	like.due_us = due(session);
	use_add(session, like);
	return 0;
}

int session_move(void *port, void *peer, const struct ripc__move *wish)
{
	struct session *session = ((struct port *)port)->session;
	int error;

	session->read ^= (uint8_t)(wish->key.address + wish->offset) ^ (uint8_t)wish->key.key;
	CLAIM(session->mover.caps & (wish->writes ? RIPC_CAP_WRITE : RIPC_CAP_READ));
	check_route(session, peer);
	error = move(session, (struct use){.kind = wish->writes ? USE_WRITE : USE_READ,
		.mem = wish->mem, .len = wish->len, .cookie = wish->cookie,
		.key = region_of(session, wish)});
	if (!error && !wish->writes)
		*(uint8_t *)wish->mem = ((uint8_t *)wish->mem)[wish->len - 1] = GARBAGE;
	return error;
}

/* ---- slots: mapping ------------------------------------------------------------------------ */

/* A partner's address tells the segment, and where in it. */
int session_map(void *port, void *peer, const struct ripc__key *key, size_t len,
		struct ripc__mapping *mapping)
{
	struct session *session = ((struct port *)port)->session;
	struct fuzz_mover *mover = &session->mover;
	uint32_t i = key->address >> 32 & (SEGMENTS - 1), offset = (uint32_t)key->address;
	int error = refused(session);

	CLAIM(mover->caps & RIPC_CAP_MAP && len > 0);
	check_route(session, peer);
	if (error || len > SEGMENT_BYTES || offset > SEGMENT_BYTES - len)
		return error ? error : -EINVAL;
	if (mover->n_mapped[i]++ == 0)
		mover->segments[i] = calloc(1, SEGMENT_BYTES);
	CLAIM(mover->segments[i]);
	*mapping = (struct ripc__mapping){mover->segments[i] + offset, mover->segments[i],
		SEGMENT_BYTES, use_add(session, (struct use){.kind = USE_MAPPED, .cookie = i,
			.due_us = UINT64_MAX})};
	return 0;
}

void session_unmap(void *port, void *handle)
{
	struct session *session = ((struct port *)port)->session;
	struct use *use = handle;

	CLAIM(use->kind == USE_MAPPED);
	if (--session->mover.n_mapped[use->cookie] == 0)
		free(session->mover.segments[use->cookie]);
	use_free(session, use);
}
