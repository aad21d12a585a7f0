/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of the resolver that a member has forged: nothing goes to that member which was meant for
 * a service that it may not be, also where there is a session with it already.
 */
#include "core/engine/internal.h"
#include "core/keys/internal.h"
#include "core/keys/sealed.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/partner/roam.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "key_dirs.h"
#include "util/map.h"

static void open_with(struct side *side, int keys)
{
	struct ripc_config cfg = api_config(0);

	cfg.keys = key_dirs[keys];
	side_open_as(side, &cfg, 0);
}

static struct ripc__answer answer_of(const struct side *side, uint64_t id)
{
	const struct ripc__answer *answer = ripc__resolver_recall(side->ctx->resolver, id);

	ck_assert_ptr_nonnull(answer);
	return *answer;
}

/* The route of a partner has failed, and a record says that it lives where another member does. */
START_TEST(route__leads_to_no_other_member)
{
	struct iovec one = {"x", 1};
	struct side a, b, thief;
	struct ripc__answer forged, truly;
	struct partner *partner;
	const void *member;

	key_dirs_make(RIPC_KEYS_AUTHORITY);
	key_grant(0, RIPC_MAY_BE | RIPC_MAY_SEND, 0, 100);
	key_grant(1, RIPC_MAY_BE | RIPC_MAY_SEND, 0, 100);
	key_grant(2, RIPC_MAY_SEND, 0, 100);
	open_with(&a, 0);
	open_with(&b, 1);
	open_with(&thief, 2);
	/* Its own private ID it may be: so there is a session. */
	ck_assert_int_eq(ripc_send_long(a.svc, thief.id, &one, 1, 5000), 0);
	ck_assert_int_eq(ripc_send_long(a.svc, b.id, &one, 1, 5000), 0);
	ripc__lock_timely(a.ctx);
	partner = ripc__map_get(&a.svc->partners, b.id);
	ck_assert(partner && partner->peer && !partner->peer->opening);
	member = ripc__sealed_member_of(partner->peer->route);
	truly = forged = answer_of(&a, b.id);
	forged.record.n_addrs = answer_of(&a, thief.id).record.n_addrs;
	memcpy(forged.record.addrs, answer_of(&a, thief.id).record.addrs,
		sizeof(forged.record.addrs));
	partner->peer->broken = true;
	ripc__route_answered(partner, &forged);
	ck_assert_ptr_eq(ripc__sealed_member_of(partner->peer->route), member);
	ripc__route_answered(partner, &truly);
	ck_assert(!partner->peer->broken);
	ripc__unlock(a.ctx);
	ck_assert_int_eq(ripc_send_long(a.svc, b.id, &one, 1, 5000), 0);
	side_close(&thief);
	side_close(&b);
	side_close(&a);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("forged_records");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, NULL, key_dirs_remove);
	tcase_add_test(tcase, route__leads_to_no_other_member);
	return suite_finish("forged_records", tcase);
}
