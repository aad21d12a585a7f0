/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the judge of calls: histories made by hand, good ones and one for each violation. */
#include <check.h>
#include <errno.h>

#include "history.h"

#define LEN        100u
#define TIMEOUT_US 500000u

static uint64_t asked(bool idempotent)
{
	struct model_send send = {.from = A, .to = B_ID, .len = LEN, .kind = RIPC_REQUEST,
		.timeout_ms = TIMEOUT_US / 1000, .idempotent = idempotent};
	uint64_t number;

	now_us += 10;
	number = model_plan(model, now_us, &send);
	model_sent(model, number, 0);
	return number;
}

static void taken(uint64_t number, uint64_t by, uint32_t flags)
{
	struct message m;

	make(&m, number, RIPC_REQUEST, LEN);
	m.msg.flags = flags;
	take(&m, by);
}

/* The number of an answer of so many bytes, or of an error (not 0), which the call returned. */
static uint64_t tried(uint64_t number, uint64_t by, uint64_t len, int error, int status)
{
	struct model_send send = {.from = by, .to = A_ID, .to_incarnation = A, .len = len,
		.kind = RIPC_REPLY, .answers = number, .error = error};

	number = model_plan(model, now_us, &send);
	model_sent(model, number, status);
	return number;
}

static uint64_t replied(uint64_t number, uint64_t by, uint64_t len, int error)
{
	return tried(number, by, len, error, 0);
}

/* The call ends with that message. */
static void hand_out(struct message *m, uint64_t number)
{
	m->msg.from = B_ID;
	m->msg.from_incarnation = B;
	m->msg.request_cookie = number;
	m->msg.outcome = RIPC_DELIVERED;
	now_us += 100;
	model_answered(model, now_us, A, &m->msg);
	free(m->bytes);
}

static void answered(uint64_t number, uint64_t answer, uint64_t len)
{
	struct message m;

	make(&m, answer, RIPC_REPLY, len);
	hand_out(&m, number);
}

static void failed(uint64_t number, enum ripc_outcome outcome, int status)
{
	struct ripc_msg msg = {.kind = RIPC_REPLY, .request_cookie = number, .outcome = outcome,
		.status = status, .from = B_ID};

	model_answered(model, now_us, A, &msg);
}

/* ---- what is good ------------------------------------------------------------------------ */

START_TEST(calls__good)
{
	uint64_t number = asked(false);

	taken(number, B, 0);
	answered(number, replied(number, B, 40, 0), 40);
	number = asked(true);
	taken(number, B, RIPC_IDEMPOTENT);
	taken(number, B, RIPC_IDEMPOTENT);
	answered(number, replied(number, B, 0, 0), 0); /* an empty answer */
	number = asked(false);
	taken(number, B, 0);
	replied(number, B, 0, MODEL_ERROR + 5);
	failed(number, RIPC_DELIVERED, -MODEL_ERROR - 5);
	number = asked(false);
	taken(number, B, 0);
	now_us += TIMEOUT_US;
	failed(number, RIPC_DELIVERED, -ETIMEDOUT);
	finish(MODEL_OK);
}
END_TEST

START_TEST(calls__the_server_ended)
{
	uint64_t number = asked(false), other = asked(true);

	taken(number, B, 0);
	taken(other, B, RIPC_IDEMPOTENT);
	model_service_end(model, now_us, B);
	failed(number, RIPC_DELIVERED, -ECONNRESET);
	model_service(model, now_us, 1, B_ID, B_NEW);
	taken(other, B_NEW, RIPC_IDEMPOTENT);
	now_us += TIMEOUT_US;
	failed(other, RIPC_DELIVERED, -ETIMEDOUT);
	finish(MODEL_OK);
}
END_TEST

/* ---- what is not ------------------------------------------------------------------------- */

START_TEST(calls__carried_out_twice)
{
	uint64_t number = asked(false);

	taken(number, B, 0);
	taken(number, B, 0);
	expect(MODEL_TWICE);
}
END_TEST

START_TEST(calls__not_said_to_be_idempotent)
{
	taken(asked(true), B, 0);
	expect(MODEL_ALTERED);
}
END_TEST

START_TEST(calls__answer_of_another_call)
{
	uint64_t number = asked(false), other = asked(false);

	taken(number, B, 0);
	taken(other, B, 0);
	answered(number, replied(other, B, 40, 0), 40);
	expect(MODEL_ANSWER);
}
END_TEST

START_TEST(calls__answer_of_another_service)
{
	uint64_t number = asked(false);

	model_service(model, now_us, 2, 3, 0xc1);
	taken(number, B, 0);
	answered(number, replied(number, 0xc1, 40, 0), 40);
	expect(MODEL_ANSWER);
}
END_TEST

START_TEST(calls__error_of_nobody)
{
	uint64_t number = asked(false);

	taken(number, B, 0);
	replied(number, B, 0, MODEL_ERROR + 5);
	failed(number, RIPC_DELIVERED, -MODEL_ERROR - 6);
	expect(MODEL_ANSWER);
}
END_TEST

START_TEST(calls__answer_that_was_refused)
{
	uint64_t number = asked(false);

	taken(number, B, 0);
	answered(number, tried(number, B, 40, 0, -ENOENT), 40);
	expect(MODEL_ANSWER);
}
END_TEST

START_TEST(calls__answered_twice)
{
	uint64_t number = asked(false), answer;

	taken(number, B, 0);
	answer = replied(number, B, 40, 0);
	answered(number, answer, 40);
	answered(number, answer, 40);
	expect(MODEL_COMPLETION);
}
END_TEST

START_TEST(calls__answer_of_nothing)
{
	failed(77, RIPC_DELIVERED, -ETIMEDOUT);
	expect(MODEL_COMPLETION);
}
END_TEST

START_TEST(calls__not_delivered_and_received)
{
	uint64_t number = asked(true);

	if (_i)
		taken(number, B, RIPC_IDEMPOTENT);
	now_us += TIMEOUT_US;
	failed(number, RIPC_NOT_DELIVERED, -ETIMEDOUT);
	if (!_i)
		taken(number, B, RIPC_IDEMPOTENT);
	expect(MODEL_NOT_DELIVERED);
}
END_TEST

START_TEST(calls__delivered_and_not_received)
{
	uint64_t number = asked(false);

	now_us += TIMEOUT_US;
	failed(number, RIPC_DELIVERED, -ETIMEDOUT);
	finish(MODEL_LOST);
}
END_TEST

START_TEST(calls__server_said_to_be_gone)
{
	uint64_t number = asked(_i);

	taken(number, B, _i ? RIPC_IDEMPOTENT : 0);
	failed(number, RIPC_DELIVERED, -ECONNRESET);
	expect(MODEL_UNKNOWN);
}
END_TEST

START_TEST(calls__wrong_status)
{
	static const struct {
		enum ripc_outcome outcome;
		int status;
	} wrong[] = {{RIPC_UNKNOWN, -ENOENT}, {RIPC_DELIVERED, -ENOENT}, {0, -ETIMEDOUT},
		{RIPC_NOT_DELIVERED, -ECONNRESET}, {RIPC_NOT_DELIVERED, -ECANCELED},
		{RIPC_NOT_DELIVERED, -EPROTO}, {RIPC_NOT_DELIVERED, -EACCES}};
	uint64_t number = asked(false);

	now_us += TIMEOUT_US;
	failed(number, wrong[_i].outcome, wrong[_i].status);
	expect(MODEL_STATUS);
}
END_TEST

START_TEST(calls__given_up_early)
{
	uint64_t number = asked(false);

	now_us += TIMEOUT_US / 2;
	failed(number, RIPC_NOT_DELIVERED, _i ? -ENOENT : -ETIMEDOUT);
	expect(MODEL_EARLY);
}
END_TEST

/* A call is refused at once where 256 messages wait for the server already, and not before. */
START_TEST(calls__refused_in_a_crowd)
{
	uint64_t number;

	for (uint32_t i = 0; i < 255 + (uint32_t)_i; i++)
		(void)asked(false);
	number = asked(false);
	failed(number, RIPC_NOT_DELIVERED, -EAGAIN);
	expect(_i ? MODEL_OK : MODEL_EARLY);
}
END_TEST

START_TEST(calls__late)
{
	uint64_t number = asked(false);

	now_us += TIMEOUT_US + 10001;
	if (_i)
		model_overdue(model, now_us);
	else
		failed(number, RIPC_NOT_DELIVERED, -ETIMEDOUT);
	expect(_i ? MODEL_HUNG : MODEL_LATE);
}
END_TEST

START_TEST(calls__never_ended)
{
	asked(false);
	finish(MODEL_HUNG);
}
END_TEST

START_TEST(calls__waits_for_the_dead)
{
	struct model_send send = {.from = A, .to = B_ID, .len = LEN, .kind = RIPC_REQUEST,
		.timeout_ms = 60000, .idempotent = _i};
	uint64_t number = model_plan(model, now_us, &send);

	model_sent(model, number, 0);
	taken(number, B, _i ? RIPC_IDEMPOTENT : 0);
	model_service_end(model, now_us, B);
	model_overdue(model, now_us + 3500000);
	expect(MODEL_OK);
	model_overdue(model, now_us + 3600000);
	expect(_i ? MODEL_OK : MODEL_NOT_GIVEN_UP); /* a successor may still come */
}
END_TEST

START_TEST(calls__had_to_be_answered)
{
	struct model_send send = {.from = A, .to = B_ID, .len = LEN, .kind = RIPC_REQUEST,
		.timeout_ms = 500, .must_deliver = true};
	uint64_t number = model_plan(model, now_us, &send);

	model_sent(model, number, 0);
	taken(number, B, 0);
	now_us += TIMEOUT_US;
	failed(number, RIPC_DELIVERED, -ETIMEDOUT);
	expect(MODEL_UNDELIVERED);
}
END_TEST

START_TEST(calls__answer_in_a_buffer)
{
	uint64_t number = asked(false), other = asked(false), answer;
	uint8_t bytes[LEN];
	struct iovec mem = {bytes, LEN};
	struct message m;

	taken(number, B, 0);
	answer = replied(number, B, LEN, 0);
	make(&m, answer, RIPC_REPLY, LEN);
	memcpy(bytes, m.items[0].iov_base, m.items[0].iov_len);
	m.items[0].iov_base = bytes;
	m.places[0] = (struct ripc_buffer){.mem = mem, .place = RIPC_IN_RETURN,
		.cookie = model_lend(model, A, _i ? number : other, &mem)};
	m.msg.places = m.places;
	hand_out(&m, number);
	expect(_i ? MODEL_OK : MODEL_BUFFER); /* the buffer was posted for another answer */
}
END_TEST

int main(void)
{
	const struct {
		const TTest *test;
		int n;
	} tests[] = {
		{calls__good, 1}, {calls__the_server_ended, 1}, {calls__carried_out_twice, 1},
		{calls__not_said_to_be_idempotent, 1}, {calls__answer_of_another_call, 1},
		{calls__answer_of_another_service, 1}, {calls__error_of_nobody, 1},
		{calls__answer_that_was_refused, 1}, {calls__answered_twice, 1},
		{calls__answer_of_nothing, 1}, {calls__not_delivered_and_received, 2},
		{calls__delivered_and_not_received, 1}, {calls__server_said_to_be_gone, 2},
		{calls__wrong_status, 7}, {calls__given_up_early, 2},
		{calls__refused_in_a_crowd, 2}, {calls__late, 2},
		{calls__never_ended, 1}, {calls__waits_for_the_dead, 2},
		{calls__had_to_be_answered, 1}, {calls__answer_in_a_buffer, 2},
	};
	Suite *suite = suite_create("model_calls");
	TCase *tc = tcase_create("calls");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_loop_test(tc, tests[i].test, 0, tests[i].n);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed > 0;
}
