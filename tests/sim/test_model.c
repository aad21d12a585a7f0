/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of the judge: histories made by hand, good ones that the model must accept and one for each
 * kind of violation, which it must name.
 */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "history.h"
#include "util/bytes.h"

/* ---- what is good ------------------------------------------------------------------------ */

START_TEST(model__accepts_a_good_history)
{
	static const uint64_t lens[] = {0, 1, 7, 8, 9, 100, 4096, 100003};

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		uint64_t number = sent(RIPC_LONG, lens[i]);

		received(number, RIPC_LONG, lens[i]);
		completed(number, RIPC_DELIVERED, 0);
	}
	for (size_t i = 1; i < 6; i++)
		received(sent(RIPC_SHORT, lens[i]), RIPC_SHORT, lens[i]);
	sent(RIPC_SHORT, 100); /* lost, as shorts may be */
	completed(sent(RIPC_LONG, 100), RIPC_NOT_DELIVERED, -ETIMEDOUT);
	finish(MODEL_OK);
}
END_TEST

START_TEST(model__excuses_unknown_after_a_failure)
{
	uint64_t number = sent(RIPC_LONG, 100);

	model_cut(model, now_us, 0, 1, true);
	completed(number, RIPC_UNKNOWN, -ECONNRESET);
	model_cut(model, now_us, 0, 1, false);
	received(number, RIPC_LONG, 100);
	number = sent(RIPC_LONG, 200);
	model_service_end(model, now_us, B);
	completed(number, RIPC_UNKNOWN, -ECONNRESET);
	finish(MODEL_OK);
}
END_TEST

START_TEST(model__excuses_unknown_after_loss_and_silence)
{
	uint64_t number;

	model_lossy(model, now_us, true);
	number = sent(RIPC_LONG, 100);
	now_us += 500000;
	completed(number, RIPC_UNKNOWN, -ECONNRESET);
	finish(MODEL_OK);
}
END_TEST

/* The send ends at its deadline; a partner that is followed in time would have had it. */
START_TEST(model__excuses_unknown_of_a_quick_one_after_a_move)
{
	struct model_send send = {.from = A, .to = B_ID, .len = 100, .kind = RIPC_LONG,
		.timeout_ms = _i ? 1000 : 999};
	uint64_t number = model_plan(model, now_us, &send);

	model_sent(model, number, 0);
	model_moved(model, 1);
	now_us += 1000ull * (uint64_t)send.timeout_ms;
	completed(number, RIPC_UNKNOWN, -ECONNRESET);
	finish(_i ? MODEL_UNKNOWN : MODEL_OK);
}
END_TEST

START_TEST(model__excuses_unknown_of_a_partner_that_stood_still)
{
	uint64_t number = sent(RIPC_LONG, 100);

	model_blocked(model, now_us, 1, true);
	now_us += 500000;
	completed(number, RIPC_UNKNOWN, -ECONNRESET);
	finish(MODEL_OK);
}
END_TEST

START_TEST(model__counts_what_looks_the_same)
{
	for (int i = 0; i < 3; i++)
		sent(RIPC_LONG, 0);
	received(1, RIPC_LONG, 0);
	completed(2, RIPC_NOT_DELIVERED, -ETIMEDOUT);
	received(3, RIPC_LONG, 0);
	completed(1, RIPC_DELIVERED, 0);
	completed(3, RIPC_DELIVERED, 0);
	finish(MODEL_OK);
}
END_TEST

/* ---- what is not ------------------------------------------------------------------------- */

START_TEST(model__sees_what_was_never_sent)
{
	struct message m;

	make(&m, sent(RIPC_LONG, 100), RIPC_LONG, 100);
	m.items[0].iov_base = m.bytes;
	m.items[0].iov_len = 100;
	m.msg.n_items = 1;
	m.bytes[0] = 99;
	take(&m, B);
	expect(MODEL_NEVER_SENT);
}
END_TEST

START_TEST(model__sees_a_small_one_that_was_never_sent)
{
	struct message m;

	make(&m, sent(RIPC_SHORT, 1), RIPC_SHORT, 1);
	m.bytes[0]++;
	take(&m, B);
	expect(MODEL_NEVER_SENT);
}
END_TEST

START_TEST(model__sees_another_receiver)
{
	struct message m;

	make(&m, sent(RIPC_SHORT, 100), RIPC_SHORT, 100);
	take(&m, A);
	expect(MODEL_MISDIRECTED);
}
END_TEST

START_TEST(model__sees_another_sender)
{
	struct message m;

	make(&m, sent(RIPC_SHORT, 100), RIPC_SHORT, 100);
	m.msg.from = B_ID;
	take(&m, B);
	expect(MODEL_WRONG_SENDER);
}
END_TEST

START_TEST(model__sees_a_forged_sender)
{
	uint64_t word = 1;
	struct iovec item = {&word, sizeof(word)};
	struct ripc_msg msg = {.kind = RIPC_SHORT, .from = A_ID, .from_incarnation = A,
		.items = &item, .n_items = 1, .sender = RIPC_SENDER_CLAIMED};

	ck_assert(!model_forged(model, &msg));
	put64((uint8_t *)&word, MODEL_FORGED);
	ck_assert(model_forged(model, &msg));
	expect(MODEL_OK);
	msg.sender = RIPC_SENDER_RESOLVED;
	ck_assert(model_forged(model, &msg));
	expect(MODEL_WRONG_SENDER);
}
END_TEST

START_TEST(model__sees_an_altered_byte)
{
	struct message m;

	make(&m, sent(RIPC_LONG, 70000), RIPC_LONG, 70000);
	m.bytes[69999] ^= 1;
	take(&m, B);
	expect(MODEL_ALTERED);
}
END_TEST

START_TEST(model__sees_a_missing_byte)
{
	struct message m;

	make(&m, sent(RIPC_LONG, 100), RIPC_LONG, 100);
	m.items[0] = (struct iovec){m.bytes, 99};
	m.msg.n_items = 1;
	take(&m, B);
	expect(MODEL_ALTERED);
}
END_TEST

START_TEST(model__sees_other_items)
{
	struct message m;
	uint64_t number;

	do { /* until one has several items */
		number = sent(RIPC_LONG, 100);
		make(&m, number, RIPC_LONG, 100);
		if (m.msg.n_items == 1)
			free(m.bytes);
	} while (m.msg.n_items == 1);
	m.items[0] = (struct iovec){m.bytes, 100};
	m.msg.n_items = 1;
	take(&m, B);
	expect(MODEL_ALTERED);
}
END_TEST

START_TEST(model__sees_the_wrong_kind)
{
	struct message m;

	make(&m, sent(RIPC_SHORT, 100), RIPC_SHORT, 100);
	m.msg.kind = RIPC_LONG;
	take(&m, B);
	expect(MODEL_ALTERED);
}
END_TEST

START_TEST(model__sees_a_long_twice)
{
	uint64_t number = sent(RIPC_LONG, 100);

	received(number, RIPC_LONG, 100);
	completed(number, RIPC_DELIVERED, 0);
	expect(MODEL_OK);
	received(number, RIPC_LONG, 100);
	expect(MODEL_TWICE);
}
END_TEST

START_TEST(model__sees_a_short_twice)
{
	uint64_t number = sent(RIPC_SHORT, 3);

	received(number, RIPC_SHORT, 3);
	expect(MODEL_OK);
	received(number, RIPC_SHORT, 3);
	expect(MODEL_TWICE);
}
END_TEST

START_TEST(model__sees_twice_after_restart)
{
	uint64_t number = sent(RIPC_LONG, 100);
	struct message m;

	received(number, RIPC_LONG, 100);
	model_service_end(model, now_us, B);
	model_service(model, now_us, 1, B_ID, B_NEW);
	make(&m, number, RIPC_LONG, 100);
	take(&m, B_NEW);
	expect(MODEL_TWICE);
}
END_TEST

START_TEST(model__sees_not_delivered_then_received)
{
	uint64_t number = sent(RIPC_LONG, 100);

	completed(number, RIPC_NOT_DELIVERED, -ETIMEDOUT);
	expect(MODEL_OK);
	received(number, RIPC_LONG, 100);
	expect(MODEL_NOT_DELIVERED);
}
END_TEST

START_TEST(model__sees_received_then_not_delivered)
{
	uint64_t number = sent(RIPC_LONG, 100);

	received(number, RIPC_LONG, 100);
	model_cancelled(model, number);
	completed(number, RIPC_NOT_DELIVERED, -ECANCELED);
	expect(MODEL_NOT_DELIVERED);
}
END_TEST

START_TEST(model__sees_a_refused_send_received)
{
	uint64_t number = planned(RIPC_SHORT, 100);

	model_sent(model, number, -EAGAIN);
	received(number, RIPC_SHORT, 100);
	expect(MODEL_NOT_DELIVERED);
}
END_TEST

START_TEST(model__sees_delivered_never_received)
{
	completed(sent(RIPC_LONG, 100), RIPC_DELIVERED, 0);
	expect(MODEL_OK);
	finish(MODEL_LOST);
}
END_TEST

START_TEST(model__sees_empty_ones_lost)
{
	uint64_t first = sent(RIPC_LONG, 0), second = sent(RIPC_LONG, 0);

	received(first, RIPC_LONG, 0);
	completed(first, RIPC_DELIVERED, 0);
	completed(second, RIPC_DELIVERED, 0);
	finish(MODEL_LOST);
}
END_TEST

START_TEST(model__sees_the_wrong_incarnation)
{
	struct model_send send = {.from = A, .to = B_ID, .to_incarnation = B, .len = 100,
		.kind = RIPC_LONG, .timeout_ms = 500};
	uint64_t number = model_plan(model, now_us, &send);
	struct message m;

	model_sent(model, number, 0);
	model_service_end(model, now_us, B);
	model_service(model, now_us, 1, B_ID, B_NEW);
	make(&m, number, RIPC_LONG, 100);
	take(&m, B_NEW);
	expect(MODEL_INCARNATION);
}
END_TEST

START_TEST(model__sees_a_late_packet_reach_the_successor)
{
	uint64_t number = sent(RIPC_LONG, 100);
	struct message m;

	model_service_end(model, now_us, B);
	completed(number, RIPC_UNKNOWN, -ECONNRESET);
	now_us += 10;
	model_service(model, now_us, 1, B_ID, B_NEW);
	make(&m, number, RIPC_LONG, 100);
	take(&m, B_NEW);
	expect(MODEL_INCARNATION);
}
END_TEST

START_TEST(model__sees_receipt_by_the_dead)
{
	uint64_t number = sent(RIPC_SHORT, 100);

	model_service_end(model, now_us, B);
	received(number, RIPC_SHORT, 100);
	expect(MODEL_NO_SERVICE);
}
END_TEST

START_TEST(model__sees_unknown_without_cause)
{
	completed(sent(RIPC_LONG, 100), RIPC_UNKNOWN, -ECONNRESET);
	expect(MODEL_UNKNOWN);
}
END_TEST

START_TEST(model__sees_unknown_too_early)
{
	uint64_t number;

	model_lossy(model, now_us, true);
	number = sent(RIPC_LONG, 100);
	now_us += 400000;
	completed(number, RIPC_UNKNOWN, -ECONNRESET);
	expect(MODEL_UNKNOWN);
}
END_TEST

START_TEST(model__sees_unknown_long_after_a_failure)
{
	model_cut(model, now_us, 0, 1, true);
	model_cut(model, now_us, 0, 1, false);
	now_us += 1000;
	completed(sent(RIPC_LONG, 100), RIPC_UNKNOWN, -ECONNRESET);
	expect(MODEL_UNKNOWN);
}
END_TEST

START_TEST(model__sees_what_had_to_arrive)
{
	struct model_send send = {.from = A, .to = B_ID, .len = 100, .kind = RIPC_LONG,
		.timeout_ms = 500, .must_deliver = true};
	uint64_t number = model_plan(model, now_us, &send);

	model_sent(model, number, 0);
	completed(number, RIPC_NOT_DELIVERED, -ETIMEDOUT);
	expect(MODEL_UNDELIVERED);
}
END_TEST

START_TEST(model__sees_a_lost_short_that_had_to_arrive)
{
	struct model_send send = {.from = A, .to = B_ID, .len = 100, .kind = RIPC_SHORT,
		.must_deliver = true};

	model_sent(model, model_plan(model, now_us, &send), 0);
	finish(MODEL_UNDELIVERED);
}
END_TEST

START_TEST(model__sees_a_wrong_status)
{
	static const struct {
		enum ripc_outcome outcome;
		int status;
	} cases[] = {{RIPC_DELIVERED, -ETIMEDOUT}, {RIPC_NOT_DELIVERED, 0},
		{RIPC_NOT_DELIVERED, -ECONNRESET}, {RIPC_NOT_DELIVERED, -EIO},
		{RIPC_NOT_DELIVERED, -ECANCELED}, {0, 0}};

	completed(sent(RIPC_LONG, 100), cases[_i].outcome, cases[_i].status);
	expect(MODEL_STATUS);
}
END_TEST

START_TEST(model__sees_an_undocumented_return)
{
	model_sent(model, planned(RIPC_LONG, 100), -EIO);
	expect(MODEL_STATUS);
}
END_TEST

START_TEST(model__sees_two_completions)
{
	uint64_t number = sent(RIPC_LONG, 100);

	received(number, RIPC_LONG, 100);
	completed(number, RIPC_DELIVERED, 0);
	completed(number, RIPC_DELIVERED, 0);
	expect(MODEL_COMPLETION);
}
END_TEST

START_TEST(model__sees_a_completion_of_nothing)
{
	completed(_i ? 7 : 0, RIPC_DELIVERED, 0);
	expect(MODEL_COMPLETION);
}
END_TEST

START_TEST(model__sees_a_completion_at_another_service)
{
	struct ripc_msg msg = {.kind = RIPC_COMPLETION, .outcome = RIPC_DELIVERED};

	msg.cookie = sent(RIPC_LONG, 100);
	model_completed(model, now_us, B, &msg);
	expect(MODEL_COMPLETION);
}
END_TEST

START_TEST(model__sees_lateness)
{
	uint64_t number = sent(RIPC_LONG, 100);

	now_us += 500000 + 10001;
	completed(number, RIPC_NOT_DELIVERED, -ETIMEDOUT);
	expect(MODEL_LATE);
}
END_TEST

START_TEST(model__excuses_lateness_of_who_was_blocked)
{
	uint64_t number = sent(RIPC_LONG, 100);

	model_blocked(model, now_us, 0, true);
	now_us += 600000;
	model_overdue(model, now_us);
	if (_i == 0)
		model_blocked(model, now_us, 0, false);
	completed(number, RIPC_NOT_DELIVERED, -ETIMEDOUT);
	finish(MODEL_OK);
}
END_TEST

START_TEST(model__sees_a_hang)
{
	sent(RIPC_LONG, 100);
	model_overdue(model, now_us + 510000);
	expect(MODEL_OK);
	model_overdue(model, now_us + 510001);
	expect(MODEL_HUNG);
}
END_TEST

START_TEST(model__sees_a_hang_at_the_end)
{
	sent(RIPC_LONG, 100);
	finish(MODEL_HUNG);
}
END_TEST

START_TEST(model__sees_a_missing_notice)
{
	struct ripc_msg notice = {.kind = RIPC_NOTICE};

	model_sent(model, planned(RIPC_LONG, 100), -EAGAIN);
	if (_i == 0)
		model_noticed(model, A, &notice);
	finish(_i == 0 ? MODEL_OK : MODEL_NOTICE);
}
END_TEST

START_TEST(model__sees_a_conflict_without_rival)
{
	struct ripc_msg notice = {.kind = RIPC_NOTICE, .status = -EADDRINUSE};

	model_noticed(model, A, &notice);
	expect(MODEL_NOTICE);
}
END_TEST

START_TEST(model__accepts_that_the_younger_is_told)
{
	struct ripc_msg notice = {.kind = RIPC_NOTICE, .status = -EADDRINUSE};

	model_cut(model, now_us, 0, 1, true);
	model_service(model, now_us + 10, 0, B_ID, B_NEW);
	model_noticed(model, B_NEW, &notice);
	finish(MODEL_OK);
}
END_TEST

START_TEST(model__sees_the_older_told)
{
	struct ripc_msg notice = {.kind = RIPC_NOTICE, .status = -EADDRINUSE};

	model_cut(model, now_us, 0, 1, true);
	model_service(model, now_us + 10, 0, B_ID, B_NEW);
	model_noticed(model, B, &notice);
	expect(MODEL_NOTICE);
}
END_TEST

START_TEST(model__sees_a_second_registration)
{
	model_service(model, now_us + 2000000, 0, B_ID, B_NEW);
	expect(MODEL_DUPLICATE);
}
END_TEST

START_TEST(model__sees_a_registration_refused_for_nothing)
{
	model_service_refused(model, now_us, B_ID);
	expect(MODEL_OK);
	model_service_end(model, now_us, B);
	model_service_refused(model, now_us + 2000000, B_ID);
	expect(MODEL_DUPLICATE);
}
END_TEST

START_TEST(model__sees_a_silent_partner_kept)
{
	struct model_send send = {.from = A, .to = B_ID, .len = 100, .kind = RIPC_LONG,
		.timeout_ms = 60000};

	model_sent(model, model_plan(model, now_us, &send), 0);
	if (_i == 0)
		model_cut(model, now_us, 0, 1, true);
	else
		model_service_end(model, now_us, B);
	model_overdue(model, now_us + 3500000);
	expect(MODEL_OK);
	model_overdue(model, now_us + 3600000);
	expect(MODEL_NOT_GIVEN_UP);
}
END_TEST

/* ---- lent memory ------------------------------------------------------------------------- */

/* A message of one item that landed in mem. */
static void landed(uint64_t number, uint64_t len, const struct iovec *mem, uint64_t cookie,
		enum ripc_place place)
{
	struct message m;

	make(&m, number, RIPC_LONG, len);
	ck_assert_uint_eq(m.msg.n_items, 1);
	memcpy(mem->iov_base, m.bytes, len);
	m.items[0].iov_base = mem->iov_base;
	m.places[0] = (struct ripc_buffer){.mem = *mem, .cookie = cookie, .place = place};
	m.msg.places = m.places;
	take(&m, B);
}

/* A long of 100 bytes in one item. */
static uint64_t sent_whole(uint64_t answers)
{
	struct model_send send = {.from = A, .to = B_ID, .len = 100, .kind = RIPC_LONG,
		.timeout_ms = 500, .answers = answers};
	uint64_t number, lens[5];

	do {
		number = model_plan(model, now_us, &send);
		model_sent(model, number, 0);
	} while (model_items(model, number, lens) != 1);
	return number;
}

START_TEST(model__accepts_lent_memory)
{
	uint8_t bytes[128], others[128];
	struct iovec mem = {bytes, sizeof(bytes)}, other = {others, sizeof(others)};
	uint64_t window = model_lend(model, B, 0, &mem), back = model_lend(model, B, 55, &other);

	landed(sent_whole(0), 100, &mem, window, RIPC_IN_WINDOW);
	landed(sent_whole(55), 100, &other, back, RIPC_IN_RETURN);
	ck_assert(!model_lent(model, window));
	model_watch(model, window);
	model_unwatch(model, window);
	expect(MODEL_OK);
}
END_TEST

START_TEST(model__sees_a_window_used_twice)
{
	uint8_t bytes[128];
	struct iovec mem = {bytes, sizeof(bytes)};
	uint64_t window = model_lend(model, B, 0, &mem);

	landed(sent_whole(0), 100, &mem, window, RIPC_IN_WINDOW);
	landed(sent_whole(0), 100, &mem, window, RIPC_IN_WINDOW);
	expect(MODEL_BUFFER);
}
END_TEST

START_TEST(model__sees_a_buffer_that_was_taken_back)
{
	uint8_t bytes[128];
	struct iovec mem = {bytes, sizeof(bytes)};
	uint64_t back = model_lend(model, B, 55, &mem);

	model_taken_back(model, back);
	landed(sent_whole(55), 100, &mem, back, RIPC_IN_RETURN);
	expect(MODEL_BUFFER);
}
END_TEST

START_TEST(model__sees_a_buffer_used_by_another_answer)
{
	uint8_t bytes[128];
	struct iovec mem = {bytes, sizeof(bytes)};
	uint64_t back = model_lend(model, B, 55, &mem);

	landed(sent_whole(56), 100, &mem, back, RIPC_IN_RETURN);
	expect(MODEL_BUFFER);
}
END_TEST

START_TEST(model__sees_a_window_too_small)
{
	uint8_t bytes[128];
	struct iovec mem = {bytes, sizeof(bytes)}, small = {bytes, 99};
	uint64_t window = model_lend(model, B, 0, &small);

	landed(sent_whole(0), 100, &mem, window, RIPC_IN_WINDOW);
	expect(MODEL_BUFFER);
}
END_TEST

START_TEST(model__sees_memory_written_after_its_return)
{
	uint8_t bytes[128];
	struct iovec mem = {bytes, sizeof(bytes)};
	uint64_t window = model_lend(model, B, 0, &mem);

	model_taken_back(model, window);
	model_watch(model, window);
	bytes[127] = 0;
	model_unwatch(model, window);
	expect(MODEL_BUFFER_WRITTEN);
}
END_TEST

START_TEST(model__keeps_the_first_violation)
{
	completed(5, RIPC_DELIVERED, 0);
	completed(sent(RIPC_LONG, 100), RIPC_UNKNOWN, -ECONNRESET);
	expect(MODEL_COMPLETION);
}
END_TEST

static void add_receipts(TCase *tc)
{
	tcase_add_test(tc, model__sees_what_was_never_sent);
	tcase_add_test(tc, model__sees_a_small_one_that_was_never_sent);
	tcase_add_test(tc, model__sees_another_receiver);
	tcase_add_test(tc, model__sees_another_sender);
	tcase_add_test(tc, model__sees_a_forged_sender);
	tcase_add_test(tc, model__sees_an_altered_byte);
	tcase_add_test(tc, model__sees_a_missing_byte);
	tcase_add_test(tc, model__sees_other_items);
	tcase_add_test(tc, model__sees_the_wrong_kind);
	tcase_add_test(tc, model__sees_a_long_twice);
	tcase_add_test(tc, model__sees_a_short_twice);
	tcase_add_test(tc, model__sees_twice_after_restart);
	tcase_add_test(tc, model__sees_not_delivered_then_received);
	tcase_add_test(tc, model__sees_received_then_not_delivered);
	tcase_add_test(tc, model__sees_a_refused_send_received);
	tcase_add_test(tc, model__sees_delivered_never_received);
	tcase_add_test(tc, model__sees_empty_ones_lost);
	tcase_add_test(tc, model__sees_the_wrong_incarnation);
	tcase_add_test(tc, model__sees_a_late_packet_reach_the_successor);
	tcase_add_test(tc, model__sees_receipt_by_the_dead);
}

static void add_outcomes(TCase *tc)
{
	tcase_add_test(tc, model__sees_unknown_without_cause);
	tcase_add_test(tc, model__sees_unknown_too_early);
	tcase_add_test(tc, model__sees_unknown_long_after_a_failure);
	tcase_add_test(tc, model__sees_what_had_to_arrive);
	tcase_add_test(tc, model__sees_a_lost_short_that_had_to_arrive);
	tcase_add_loop_test(tc, model__sees_a_wrong_status, 0, 6);
	tcase_add_test(tc, model__sees_an_undocumented_return);
	tcase_add_test(tc, model__sees_two_completions);
	tcase_add_loop_test(tc, model__sees_a_completion_of_nothing, 0, 2);
	tcase_add_test(tc, model__sees_a_completion_at_another_service);
	tcase_add_test(tc, model__sees_lateness);
	tcase_add_loop_test(tc, model__excuses_lateness_of_who_was_blocked, 0, 2);
	tcase_add_test(tc, model__sees_a_hang);
	tcase_add_test(tc, model__sees_a_hang_at_the_end);
	tcase_add_loop_test(tc, model__sees_a_missing_notice, 0, 2);
	tcase_add_test(tc, model__sees_a_conflict_without_rival);
	tcase_add_test(tc, model__accepts_that_the_younger_is_told);
	tcase_add_test(tc, model__sees_the_older_told);
	tcase_add_test(tc, model__sees_a_second_registration);
	tcase_add_test(tc, model__sees_a_registration_refused_for_nothing);
	tcase_add_loop_test(tc, model__sees_a_silent_partner_kept, 0, 2);
}

static void add_memory(TCase *tc)
{
	tcase_add_test(tc, model__accepts_lent_memory);
	tcase_add_test(tc, model__sees_a_window_used_twice);
	tcase_add_test(tc, model__sees_a_buffer_that_was_taken_back);
	tcase_add_test(tc, model__sees_a_buffer_used_by_another_answer);
	tcase_add_test(tc, model__sees_a_window_too_small);
	tcase_add_test(tc, model__sees_memory_written_after_its_return);
	tcase_add_test(tc, model__keeps_the_first_violation);
}

int main(void)
{
	Suite *suite = suite_create("model");
	TCase *tc = tcase_create("model");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, model__accepts_a_good_history);
	tcase_add_test(tc, model__excuses_unknown_after_a_failure);
	tcase_add_test(tc, model__excuses_unknown_after_loss_and_silence);
	tcase_add_loop_test(tc, model__excuses_unknown_of_a_quick_one_after_a_move, 0, 2);
	tcase_add_test(tc, model__excuses_unknown_of_a_partner_that_stood_still);
	tcase_add_test(tc, model__counts_what_looks_the_same);
	add_receipts(tc);
	add_outcomes(tc);
	add_memory(tc);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed > 0;
}
