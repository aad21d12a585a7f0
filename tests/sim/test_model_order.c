/* SPDX-License-Identifier: BSD-3-Clause */
/* The model's judgement of histories of ordered sends. */
#include <errno.h>

#include "history.h"

static uint64_t planned_ordered(void)
{
	struct model_send send = {.from = A, .to = B_ID, .len = 100, .kind = RIPC_LONG,
		.timeout_ms = 500, .ordered = true};

	now_us += 10;
	return model_plan(model, now_us, &send);
}

static uint64_t sent_ordered(void)
{
	uint64_t number = planned_ordered();

	model_sent(model, number, 0);
	return number;
}

START_TEST(model__accepts_order)
{
	uint64_t first = sent_ordered(), passes = sent(RIPC_LONG, 100), second = sent_ordered();

	received(passes, RIPC_LONG, 100);
	received(first, RIPC_LONG, 100);
	received(second, RIPC_LONG, 100);
	completed(second, RIPC_DELIVERED, 0);
	completed(first, RIPC_DELIVERED, 0);
	completed(passes, RIPC_DELIVERED, 0);
	finish(MODEL_OK);
}
END_TEST

START_TEST(model__sees_what_is_out_of_order)
{
	uint64_t first = sent_ordered(), second = sent_ordered();

	/* Another incarnation has the same ID: a gap alone would be no fault. */
	model_service_end(model, now_us, B);
	model_service(model, now_us + 1, 1, B_ID, B_NEW);
	for (int i = 0; i < 2; i++) {
		struct message m;

		make(&m, i ? first : second, RIPC_LONG, 100);
		take(&m, B_NEW);
	}
	expect(MODEL_ORDER);
}
END_TEST

/* The one before is under way, or has failed and was told too late. */
START_TEST(model__sees_a_silent_gap)
{
	uint64_t first = sent_ordered(), second = sent_ordered();

	if (_i)
		completed(first, RIPC_NOT_DELIVERED, -ETIMEDOUT);
	received(second, RIPC_LONG, 100);
	expect(MODEL_GAP);
}
END_TEST

/* The application knew of it before it went on; or the call had said no. */
START_TEST(model__accepts_a_gap_that_was_told)
{
	uint64_t first = planned_ordered(), second;

	model_sent(model, first, _i ? 0 : -ECANCELED);
	if (_i)
		completed(first, RIPC_NOT_DELIVERED, -ETIMEDOUT);
	second = sent_ordered();
	received(second, RIPC_LONG, 100);
	completed(second, RIPC_DELIVERED, 0);
	finish(MODEL_OK);
}
END_TEST

/* -ECANCELED without a cancel: only behind one that failed. */
START_TEST(model__sees_a_cut_without_cause)
{
	uint64_t first = sent_ordered(), second = sent_ordered();

	if (_i) {
		received(first, RIPC_LONG, 100);
		completed(first, RIPC_DELIVERED, 0);
	}
	completed(second, RIPC_NOT_DELIVERED, -ECANCELED);
	expect(_i ? MODEL_STATUS : MODEL_OK);
}
END_TEST

/* No packet of the second one is lost: it arrives soon after the first one has ended. */
START_TEST(model__sees_a_stall)
{
	uint64_t first = sent_ordered(), second;
	struct model_send send = {.from = A, .to = B_ID, .len = 100, .kind = RIPC_LONG,
		.timeout_ms = 5000, .ordered = true, .swift = true};

	second = model_plan(model, now_us, &send);
	model_sent(model, second, 0);
	now_us += 490000;
	model_overdue(model, now_us);
	received(first, RIPC_LONG, 100);
	completed(first, RIPC_DELIVERED, 0);
	if (_i == 1)
		received(second, RIPC_LONG, 100);
	else if (_i == 2)
		model_blocked(model, now_us, 1, true);
	now_us += 600000;
	model_overdue(model, now_us);
	expect(_i == 0 ? MODEL_STALL : MODEL_OK);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("model_order");
	TCase *tc = tcase_create("order");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, model__accepts_order);
	tcase_add_test(tc, model__sees_what_is_out_of_order);
	tcase_add_loop_test(tc, model__sees_a_silent_gap, 0, 2);
	tcase_add_loop_test(tc, model__accepts_a_gap_that_was_told, 0, 2);
	tcase_add_loop_test(tc, model__sees_a_cut_without_cause, 0, 2);
	tcase_add_loop_test(tc, model__sees_a_stall, 0, 3);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed > 0;
}
