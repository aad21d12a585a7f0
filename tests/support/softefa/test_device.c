/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device as verbs and efadv show it: what it says of itself, what it takes and refuses, and
 * what becomes of requests that fail. Each case has a process of its own, with its own settings.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../unit/suite.h"
#include "side.h"

#define NOBODY_QPN 0xfffff0 /* more than there can be (SOFTEFA_MAX_QP) */

static const struct side_options plain = {.rnr_retry = -1};

START_TEST(ibv_get_device_list__as_many_as_set)
{
	struct ibv_device **devices;
	int n;

	side_set("DEVICES", "3");
	devices = ibv_get_device_list(&n);
	ck_assert_int_eq(n, 3);
	ck_assert_str_eq(ibv_get_device_name(devices[2]), "softefa_2");
	ck_assert_ptr_null(devices[3]);
	ibv_free_device_list(devices);
}
END_TEST

static struct efadv_device_attr ask_device(void)
{
	struct side_options options = {.rnr_retry = -1, .without_read = true};
	struct efadv_device_attr attr;
	struct side side;

	side_open(&side, &options);
	ck_assert_int_eq(efadv_query_device(side.context, &attr, sizeof(attr)), 0);
	side_close(&side);
	return attr;
}

START_TEST(efadv_query_device__with_read)
{
	struct efadv_device_attr attr = ask_device();

	ck_assert_uint_ne(attr.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ, 0);
	ck_assert_uint_gt(attr.max_rdma_size, 0);
	ck_assert_uint_eq(attr.inline_buf_size, 32);
}
END_TEST

START_TEST(efadv_query_device__without_read)
{
	struct efadv_device_attr attr;

	side_set("RDMA_READ", "0");
	attr = ask_device();
	ck_assert_uint_eq(attr.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ, 0);
	ck_assert_uint_eq(attr.max_rdma_size, 0);
}
END_TEST

START_TEST(ibv_query_port__tells_the_longest_datagram)
{
	struct ibv_port_attr attr;
	struct side side;

	side_open(&side, &plain);
	ck_assert_int_eq(ibv_query_port(side.context, 1, &attr), 0);
	ck_assert_uint_eq(attr.max_msg_sz, 8760);
	ck_assert_int_eq(attr.state, IBV_PORT_ACTIVE);
	ck_assert_int_ne(ibv_query_port(side.context, 2, &attr), 0);
	side_close(&side);
}
END_TEST

static void exchange(const struct side_options *options, uint32_t len)
{
	uint32_t shift = options->is_ud ? 40 : 0;
	struct side_completion sent, received;
	struct side sides[2];

	side_pair(sides, options);
	for (uint32_t i = 0; i < len; i++)
		sides[0].bytes[i] = (uint8_t)(i * 7 + 1);
	side_receive(&sides[1], 5);
	ck_assert_int_eq(side_send(&sides[0], sides[1].qp->qp_num, len, 99), 0);
	side_wait(&sides[1], &received);
	side_wait(&sides[0], &sent);
	ck_assert_int_eq(received.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(received.opcode, IBV_WC_RECV);
	ck_assert_uint_eq(received.wr_id, 5);
	ck_assert_uint_eq(received.byte_len, len + shift);
	ck_assert_uint_eq(received.src_qp, sides[0].qp->qp_num);
	ck_assert(received.has_imm && received.imm == 99);
	ck_assert_mem_eq(side_slot(&sides[1], 5) + shift, sides[0].bytes, len);
	ck_assert_int_eq(sent.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(sent.wr_id, 99);
	side_pair_close(sides);
}

START_TEST(send__longest_arrives)
{
	exchange(&plain, 8760);
}
END_TEST

START_TEST(send__empty_arrives)
{
	exchange(&plain, 0);
}
END_TEST

START_TEST(send__ud_leaves_room_for_a_header)
{
	struct side_options options = {.is_ud = true, .rnr_retry = -1};

	exchange(&options, 4096);
}
END_TEST

/* Sends once, without a receive posted, and returns how it went. */
static struct side_completion send_alone(const struct side_options *options, uint32_t len,
	uint32_t qpn)
{
	struct side_completion completion;
	struct side sides[2];

	side_pair(sides, options);
	if (!qpn)
		qpn = sides[1].qp->qp_num;
	ck_assert_int_eq(side_send(&sides[0], qpn, len, 1), 0);
	side_wait(&sides[0], &completion);
	side_pair_close(sides);
	return completion;
}

START_TEST(send__too_long_fails)
{
	struct side_completion completion = send_alone(&plain, 8761, 0);

	ck_assert_int_eq(completion.status, IBV_WC_LOC_LEN_ERR);
	ck_assert_uint_eq(completion.vendor_err, 6);
}
END_TEST

START_TEST(send__ud_limit_can_be_set)
{
	struct side_options options = {.is_ud = true, .rnr_retry = -1};

	side_set("UD_MTU", "4096");
	ck_assert_int_eq(send_alone(&options, 4096, 0).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(send_alone(&options, 4097, 0).status, IBV_WC_LOC_LEN_ERR);
}
END_TEST

START_TEST(send__ud_to_nobody_is_lost)
{
	struct side_options options = {.is_ud = true, .rnr_retry = -1};

	ck_assert_int_eq(send_alone(&options, 100, 0).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(send_alone(&options, 100, NOBODY_QPN).status, IBV_WC_SUCCESS);
}
END_TEST

START_TEST(send__not_ready_receiver_in_the_end_fails)
{
	struct side_options options = {.rnr_retry = 3};
	struct side_completion completion = send_alone(&options, 10, 0);

	ck_assert_int_eq(completion.status, IBV_WC_RNR_RETRY_EXC_ERR);
	ck_assert_uint_eq(completion.vendor_err, 10);
}
END_TEST

START_TEST(send__not_ready_receiver_gets_it_later)
{
	struct side_completion completion;
	struct side sides[2];

	side_pair(sides, &plain);
	ck_assert_int_eq(side_send(&sides[0], sides[1].qp->qp_num, 10, 1), 0);
	for (int i = 0; i < 1000; i++)
		ck_assert(!side_poll(&sides[0], &completion));
	side_receive(&sides[1], 0);
	side_wait(&sides[1], &completion);
	ck_assert_int_eq(completion.status, IBV_WC_SUCCESS);
	side_wait(&sides[0], &completion);
	ck_assert_int_eq(completion.status, IBV_WC_SUCCESS);
	side_pair_close(sides);
}
END_TEST

START_TEST(send__to_nobody_fails)
{
	struct side_completion completion;

	side_set("UNRESPONSIVE_MS", "20");
	completion = send_alone(&plain, 10, NOBODY_QPN);
	ck_assert_int_eq(completion.status, IBV_WC_REM_INV_RD_REQ_ERR);
	ck_assert_uint_eq(completion.vendor_err, 9);
}
END_TEST

START_TEST(send__death_can_be_told_otherwise)
{
	side_set("UNRESPONSIVE_MS", "20");
	side_set("DEAD_STATUS", "13");
	ck_assert_uint_eq(send_alone(&plain, 10, NOBODY_QPN).vendor_err, 13);
}
END_TEST

START_TEST(send__wrong_qkey_fails)
{
	struct ibv_qp_attr attr = {.qkey = SIDE_QKEY + 1};
	struct side_completion completion;
	struct side sides[2];

	side_pair(sides, &plain);
	ck_assert_int_eq(ibv_modify_qp(sides[1].qp, &attr, IBV_QP_QKEY), 0);
	side_receive(&sides[1], 0);
	completion = side_pair_send(sides, 10);
	ck_assert_uint_eq(completion.vendor_err, 9);
	ck_assert(!side_poll(&sides[1], &completion));
	side_pair_close(sides);
}
END_TEST

START_TEST(send__receive_too_short_fails_for_both)
{
	struct side_completion completion;
	struct ibv_recv_wr wr = {.num_sge = 1}, *bad_wr;
	struct ibv_sge sge;
	struct side sides[2];

	side_pair(sides, &plain);
	sge = (struct ibv_sge){(uintptr_t)sides[1].bytes, 9, sides[1].mr->lkey};
	wr.sg_list = &sge;
	ck_assert_int_eq(ibv_post_recv(sides[1].qp, &wr, &bad_wr), 0);
	completion = side_pair_send(sides, 10);
	ck_assert_uint_eq(completion.vendor_err, 11);
	side_wait(&sides[1], &completion);
	ck_assert_int_eq(completion.status, IBV_WC_LOC_LEN_ERR);
	side_pair_close(sides);
}
END_TEST

START_TEST(send__closed_memory_fails)
{
	struct side_completion completion;
	struct side sides[2];

	side_pair(sides, &plain);
	side_register_again(&sides[0], IBV_ACCESS_LOCAL_WRITE);
	ck_assert_uint_ne(sides[0].mr->lkey, sides[0].key);
	completion = side_pair_send(sides, 10);
	ck_assert_int_eq(completion.status, IBV_WC_LOC_PROT_ERR);
	ck_assert_uint_eq(completion.vendor_err, 5);
	side_pair_close(sides);
}
END_TEST

START_TEST(wr_set_inline_data__up_to_32)
{
	struct side_completion completion;
	uint8_t text[33] = "thirty-two bytes, no more of it";
	struct side sides[2];

	side_pair(sides, &plain);
	side_receive(&sides[1], 0);
	for (size_t len = 32; len <= 33; len++) {
		ibv_wr_start(sides[0].ex);
		ibv_wr_send(sides[0].ex);
		ibv_wr_set_inline_data(sides[0].ex, text, len);
		ibv_wr_set_ud_addr(sides[0].ex, sides[0].ah, sides[1].qp->qp_num, SIDE_QKEY);
		ck_assert_int_eq(ibv_wr_complete(sides[0].ex), len == 32 ? 0 : EINVAL);
	}
	side_wait(&sides[1], &completion);
	ck_assert_mem_eq(side_slot(&sides[1], 0), text, 32);
	side_pair_close(sides);
}
END_TEST

START_TEST(wr_abort__sends_nothing)
{
	struct side_options options = {.n_send = 1, .rnr_retry = 0};
	struct side_completion completion;
	struct side sides[2];

	side_pair(sides, &options);
	for (int i = 0; i < 10; i++) {
		ibv_wr_start(sides[0].ex);
		ibv_wr_send(sides[0].ex);
		ibv_wr_abort(sides[0].ex);
	}
	ck_assert(!side_poll(&sides[0], &completion));
	ck_assert_int_eq(side_send(&sides[0], sides[1].qp->qp_num, 1, 1), 0);
	side_pair_close(sides);
}
END_TEST

START_TEST(send__full_queue_is_refused)
{
	struct side_options options = {.n_send = 4, .rnr_retry = -1};
	struct side sides[2];

	side_pair(sides, &options);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(side_send(&sides[0], sides[1].qp->qp_num, 10, 1), 0);
	ck_assert_int_eq(side_send(&sides[0], sides[1].qp->qp_num, 10, 1), ENOMEM);
	side_pair_close(sides);
}
END_TEST

START_TEST(send__refusals_can_be_set)
{
	struct side sides[2];
	int n_refused = 0;

	side_set("ENOMEM", "50");
	side_pair(sides, &plain);
	for (int i = 0; i < 60; i++)
		n_refused += side_send(&sides[0], sides[1].qp->qp_num, 10, 1) == ENOMEM;
	ck_assert_int_gt(n_refused, 10);
	ck_assert_int_lt(n_refused, 50);
	side_pair_close(sides);
}
END_TEST

START_TEST(post_recv__full_queue_is_refused)
{
	struct side_options options = {.n_recv = 4, .rnr_retry = -1};
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad_wr = NULL;
	struct side side;

	side_open(&side, &options);
	for (uint32_t i = 0; i < 4; i++)
		side_receive(&side, i);
	ck_assert_int_eq(ibv_post_recv(side.qp, &wr, &bad_wr), ENOMEM);
	ck_assert_ptr_eq(bad_wr, &wr);
	side_close(&side);
}
END_TEST

START_TEST(ibv_modify_qp__error_flushes)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct side_completion completion;
	struct side side;

	side_open(&side, &plain);
	side_receive(&side, 3);
	ck_assert_int_eq(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE), 0);
	side_wait(&side, &completion);
	ck_assert_int_eq(completion.status, IBV_WC_WR_FLUSH_ERR);
	ck_assert_uint_eq(completion.wr_id, 3);
	side_close(&side);
}
END_TEST

START_TEST(ibv_create_qp__other_types_are_refused)
{
	struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct side side;

	side_open(&side, &plain);
	attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(side.cq);
	ck_assert_ptr_null(ibv_create_qp(side.pd, &attr));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	side_close(&side);
}
END_TEST

START_TEST(ibv_destroy_cq__in_use_is_refused)
{
	struct side side;

	side_open(&side, &plain);
	ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(side.cq)), EBUSY);
	side_close(&side);
}
END_TEST

START_TEST(ibv_get_cq_event__wakes)
{
	struct side_options options = {.rnr_retry = 0, .without_read = true};
	struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_DRIVER};
	struct ibv_comp_channel *channel;
	struct ibv_qp *qp, *own_qp;
	struct ibv_cq *cq, *told;
	struct side side;
	struct ibv_wc wc;
	union ibv_gid gid;
	void *context;

	side_open(&side, &options);
	side_gid(&side, &gid);
	side_aim(&side, &gid);
	channel = ibv_create_comp_channel(side.context);
	cq = ibv_create_cq(side.context, 16, &side, channel, 0);
	ck_assert_int_eq(ibv_req_notify_cq(cq, 0), 0);
	attr.send_cq = attr.recv_cq = cq;
	qp = efadv_create_driver_qp(side.pd, &attr, EFADV_QP_DRIVER_TYPE_SRD);
	ck_assert_ptr_nonnull(qp);
	own_qp = side.qp;
	struct ibv_qp_attr modify = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = SIDE_QKEY};
	ck_assert_int_eq(ibv_modify_qp(qp, &modify, IBV_QP_STATE | IBV_QP_QKEY), 0);
	modify.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(ibv_modify_qp(qp, &modify, IBV_QP_STATE), 0);
	side.qp = qp;
	side_receive(&side, 1);
	side.qp = own_qp;
	ck_assert_int_eq(side_send(&side, qp->qp_num, 10, 1), 0);
	ck_assert_int_eq(ibv_get_cq_event(channel, &told, &context), 0);
	ck_assert(told == cq && context == &side);
	ibv_ack_cq_events(cq, 1);
	ck_assert_int_eq(ibv_poll_cq(cq, 1, &wc), 1);
	ck_assert_uint_eq(wc.wr_id, 1);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(channel), 0);
	side_close(&side);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		ibv_get_device_list__as_many_as_set,
		efadv_query_device__with_read,
		efadv_query_device__without_read,
		ibv_query_port__tells_the_longest_datagram,
		send__longest_arrives,
		send__empty_arrives,
		send__ud_leaves_room_for_a_header,
		send__too_long_fails,
		send__ud_limit_can_be_set,
		send__ud_to_nobody_is_lost,
		send__not_ready_receiver_in_the_end_fails,
		send__not_ready_receiver_gets_it_later,
		send__to_nobody_fails,
		send__death_can_be_told_otherwise,
		send__wrong_qkey_fails,
		send__receive_too_short_fails_for_both,
		send__closed_memory_fails,
		send__full_queue_is_refused,
		send__refusals_can_be_set,
		wr_set_inline_data__up_to_32,
		wr_abort__sends_nothing,
		post_recv__full_queue_is_refused,
		ibv_modify_qp__error_flushes,
		ibv_create_qp__other_types_are_refused,
		ibv_destroy_cq__in_use_is_refused,
		ibv_get_cq_event__wakes,
		NULL,
	};

	return suite_run("softefa device", tests);
}
