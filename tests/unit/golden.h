/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Golden packets: one or more of each type in hex, field by field as docs/protocol.md lays them
 * out, made from that text and not by the encoder. Blanks between fields mean nothing. All
 * packets (not resolver packets) have src 0x1122334455667788 and dst 0x99aabbccddeeff00.
 */
#ifndef GOLDEN_H
#define GOLDEN_H

/* Short, one item */
#define GOLDEN_SHORT_ONE \
	"01 01 0001 9e372672" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"68656c6c6f2c20776f726c64" /* payload */

/* Short, one empty item */
#define GOLDEN_SHORT_EMPTY \
	"01 01 0001 6054c240" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */

/* Short, three items, all extensions */
#define GOLDEN_SHORT_THREE \
	"01 01 0f03 a1ef3bf7" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"11100f0e0d0c0b0a 3412000000000000" /* hello: token, service */ \
	"5151515151515151 2143000000000000" /* context, to_service */ \
	"6666666677777777 00000100 00000000" /* proof, unasked, zero */ \
	"2900000000000000 69000000 0500000000000080" /* ack: number, status ENOBUFS, also */ \
	"efbe000000000000" /* lends */ \
	"edfe000000000000" /* replies */ \
	"0500 0000 0200" /* lengths */ \
	"61626364656667" /* payload */

/* Short, offers the second return buffer */
#define GOLDEN_SHORT_RETURNS \
	"01 01 2401 6679416b" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"efbe000000000000" /* lends */ \
	"02000000 00000000" /* returns: n, zero */ \
	"0000000000000000 0000000000000000 0000000000000000" /* the first is not offered */ \
	"0000100000000000 00006000007f0000 cdab341200000000" /* length, address, key */ \
	"676574206974" /* payload */

/* Announce, written */
#define GOLDEN_ANNOUNCE_WRITTEN \
	"01 02 1800 0b0ae645" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"efbe000000000000" /* replies */ \
	"0c00100000000000 2a00000000000000" /* total, oldest */ \
	"02000000 0c000000 135bd03a 03000000" /* n_items, unasked, sum, keys */ \
	"0c00000000000000 0000100000000000" /* lengths */ \
	"686572652069742069733a20" /* payload */

/* Announce, alone */
#define GOLDEN_ANNOUNCE \
	"01 02 0000 a49f4064" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0000000000000000 2a00000000000000" /* token, number */ \
	"9a78563412000000 2800000000000000" /* total, oldest */ \
	"02000000 00000100 00000000 00000000" /* n_items, unasked, sum, keys */ \
	"9078563412000000 0a00000000000000" /* lengths */

/* Announce, whole message, first contact */
#define GOLDEN_ANNOUNCE_WHOLE \
	"01 02 1500 76459ae2" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0000000000000000 2a00000000000000" /* token, number */ \
	"11100f0e0d0c0b0a 3412000000000000" /* hello: token, service */ \
	"5151515151515151 2143000000000000" /* context, to_service */ \
	"6666666677777777 00000100 00000000" /* proof, unasked, zero */ \
	"efbe000000000000" /* lends */ \
	"0900000000000000 2a00000000000000" /* total, oldest */ \
	"03000000 09000000 2e5aec44 00000000" /* n_items, unasked, sum, keys */ \
	"0400000000000000 0000000000000000" /* lengths */ \
	"0500000000000000" \
	"6c6f6e672074657874" /* payload */

/* Announce with keys */
#define GOLDEN_ANNOUNCE_KEYS \
	"01 02 0800 dcf7f0da" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"edfe000000000000" /* replies */ \
	"0000030000000000 2a00000000000000" /* total, oldest */ \
	"02000000 00000000 00000000 01000000" /* n_items, unasked, sum, keys */ \
	"0000010000000000 0000020000000000" /* lengths */ \
	"00002000007f0000 cdab000000000000" /* address, key */ \
	"00004000007f0000 01ef000000000000" /* address, key */

/* Data */
#define GOLDEN_DATA \
	"01 03 0000 3fa63dba" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"0000000001000000 00000000" /* offset, sum */ \
	"736f6d6520627974657320696e207468" /* payload */ \
	"65206d6964646c65"

/* Data, last */
#define GOLDEN_DATA_LAST \
	"01 03 1000 372585ca" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"0010000000000000 bebafeca" /* offset, sum */ \
	"74686520656e64" /* payload */

/* Pull, no holes */
#define GOLDEN_PULL \
	"01 04 0000 ff4782d0" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"0000010000000000 0000030000000000" /* have, limit */ \
	"00000000 00000000" /* n_holes, busy */

/* Pull, two holes, ack */
#define GOLDEN_PULL_HOLES \
	"01 04 0200 27c1743e" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"2900000000000000 69000000 0500000000000080" /* ack: number, status ENOBUFS, also */ \
	"0010000000000000 0000030000000000" /* have, limit */ \
	"02000000 00000000" /* n_holes, busy */ \
	"0010000000000000 7815000000000000" /* hole */ \
	"0020000000000000 0120000000000000" /* hole */

/* Pull, busy */
#define GOLDEN_PULL_BUSY \
	"01 04 0100 597d2737" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"11100f0e0d0c0b0a 3412000000000000" /* hello: token, service */ \
	"5151515151515151 2143000000000000" /* context, to_service */ \
	"6666666677777777 00000100 00000000" /* proof, unasked, zero */ \
	"0000000000000000 0000000000000000" /* have, limit */ \
	"00000000 01000000" /* n_holes, busy */

/* Answer, delivered */
#define GOLDEN_ANSWER \
	"01 05 0000 7bc6da2a" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"2900000000000000 00000000 ff00000000000000" /* number, status, also */

/* Answer, refused */
#define GOLDEN_ANSWER_REFUSED \
	"01 05 0000 9031c0a4" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"2900000000000000 5a000000 0000000000000000" /* number, status EMSGSIZE, also */

/* Cancel */
#define GOLDEN_CANCEL \
	"01 06 0000 3524e857" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"2700000000000000" /* oldest */

/* Hello only */
#define GOLDEN_HELLO_ONLY \
	"01 07 0100 8d70c49b" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 0000000000000000" /* token, number */ \
	"11100f0e0d0c0b0a 3412000000000000" /* hello: token, service */ \
	"5151515151515151 2143000000000000" /* context, to_service */ \
	"6666666677777777 00000100 00000000" /* proof, unasked, zero */

/* Retry */
#define GOLDEN_RETRY \
	"01 08 0000 0a57a037" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0000000000000000 0000000000000000" /* token, number */ \
	"1032547698badcfe" /* proof */

/* Echo */
#define GOLDEN_ECHO \
	"01 09 0000 0a9ee38f" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"efcdab8967452301 00000000e1f50500" /* nonce, stamp */

/* Echo reply */
#define GOLDEN_ECHO_REPLY \
	"01 0a 0000 9f6c1be5" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"efcdab8967452301 00000000e1f50500" /* nonce, stamp */

/* Gone */
#define GOLDEN_GONE \
	"01 0b 0000 9c7dbe61" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0000000000000000 0000000000000000" /* token, number */ \
	"0807060504030201" /* token */

/* Abort */
#define GOLDEN_ABORT \
	"01 0c 0000 6d143fd9" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0000000000000000 11100f0e0d0c0b0a" /* token, number */ \
	"0200000000000000" /* versions */

/* ---- resolver ------------------------------------------------------------------------- */

/* Question: 1,044 zero bytes follow, up to 1,100 */
#define GOLDEN_QUESTION \
	"01 20 00 00 1b51545b" /* version, type, hops, zero, crc */ \
	"4444333322221111 8888777766665555" /* nonce, asker */ \
	"0000000000000000" /* proof */ \
	"00000000000000000000000000000000" /* host */ \
	"3412000000000000" /* id */

/* Question, relayed, about everybody: zeros follow as above */
#define GOLDEN_QUESTION_RELAYED \
	"01 20 01 00 d032c148" /* version, type, hops, zero, crc */ \
	"4444333322221111 8888777766665555" /* nonce, asker */ \
	"0000000000000000" /* proof */ \
	"00000000000000000000ffff0a010203" /* host */ \
	"0000000000000000" /* id */

/* Record */
#define GOLDEN_RECORD \
	"01 21 00 00 77395fd6" /* version, type, hops, zero, crc */ \
	"4444333322221111 0000000000000000" /* nonce, asker */ \
	"efcdab8967452301" /* proof */ \
	"00000000000000000000000000000000" /* host */ \
	"3412000000000000 8877665544332211" /* id, incarnation */ \
	"000000000000a017 0000999900009999" /* stamp, host identity */ \
	"5151515151515151 02" /* context, n_addrs */ \
	"02 06 0a010203 3b97" /* backend, len, blob */ \
	"01 00" /* backend, len */

/* Record without addresses, for a relay */
#define GOLDEN_RECORD_BARE \
	"01 21 00 00 3855dc5a" /* version, type, hops, zero, crc */ \
	"4444333322221111 8888777766665555" /* nonce, asker */ \
	"0000000000000000" /* proof */ \
	"00000000000000000000ffff0a010203" /* host */ \
	"3412000000000000 8877665544332211" /* id, incarnation */ \
	"000000000000a017 0000999900009999" /* stamp, host identity */ \
	"5151515151515151 00" /* context, n_addrs */

/* Withdrawn */
#define GOLDEN_WITHDRAWN \
	"01 22 00 00 2c3b70cd" /* version, type, hops, zero, crc */ \
	"0000000000000000 0000000000000000" /* nonce, asker */ \
	"0000000000000000" /* proof */ \
	"00000000000000000000000000000000" /* host */ \
	"3412000000000000 8877665544332211" /* id, incarnation */

#endif
