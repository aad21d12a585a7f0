/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to and from a partner. Whatever is posted may find that the connection has failed: then
 * conn->failed is set, and the caller breaks it.
 */
#ifndef RIPC_RDMACM_SEND_H
#define RIPC_RDMACM_SEND_H

#include "conn.h"

void ripc__rdmacm_list_init(struct rdmacm_list *list);
int ripc__rdmacm_sends_open(struct rdmacm_conn *conn);
void ripc__rdmacm_sends_close(struct rdmacm_conn *conn);
/* How many messages may be sent, of which so many are kept back. */
uint32_t ripc__rdmacm_credit(const struct rdmacm_conn *conn, uint32_t reserve);
/* As many datagrams as there is room and credit for; returns how many. */
int ripc__rdmacm_send_by(struct rdmacm_conn *conn, const struct ripc__tx *tx, uint32_t n);
/* A message without a datagram. False: there is no room or credit for it. */
bool ripc__rdmacm_say(struct rdmacm_conn *conn, enum rdmacm_message type);
/* A send has completed. */
void ripc__rdmacm_sent(struct rdmacm_conn *conn, uint64_t wr_id);
/*
 * Takes note of a message's preamble. 1: a datagram follows; 0: it is all; a negative errno: the
 * other end does not keep to what was agreed.
 */
int ripc__rdmacm_came(struct rdmacm_conn *conn, const uint8_t *bytes, uint32_t len);
/* Sets receive buffers aside for a connection. */
void ripc__rdmacm_window_take(struct rdmacm_conn *conn);
void ripc__rdmacm_window_give(struct rdmacm_conn *conn);

#endif
