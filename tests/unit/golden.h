/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Golden packets: one or more of each type in hex, field by field as docs/protocol.md lays them
 * out, made from that text and not by the encoder; golden_seal.py computes the checksums. Blanks
 * between fields mean nothing. All packets (not resolver packets) have src 0x1122334455667788 and
 * dst 0x99aabbccddeeff00.
 */
#ifndef GOLDEN_H
#define GOLDEN_H

/* Short, one item */
#define GOLDEN_SHORT_ONE \
	"02 01 0001 127e8a11" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"68656c6c6f2c20776f726c64" /* payload */

/* Short, one empty item */
#define GOLDEN_SHORT_EMPTY \
	"02 01 0001 ec1d6e23" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */

/* Short, three items, all extensions */
#define GOLDEN_SHORT_THREE \
	"02 01 0f03 15ce8ed0" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"11100f0e0d0c0b0a 3412000000000000" /* hello: token, service */ \
	"5151515151515151 2143000000000000" /* context, to_service */ \
	"6666666677777777 00000100 00000000" /* proof, unasked, zero */ \
	"2900000000000000 69000000 0500000000000080" /* ack: number, status ENOBUFS, also */ \
	"0b0c0d0e" /* echo */ \
	"efbe000000000000" /* lends */ \
	"edfe000000000000" /* replies */ \
	"0500 0000 0200" /* lengths */ \
	"61626364656667" /* payload */

/* Short, offers the second return buffer */
#define GOLDEN_SHORT_RETURNS \
	"02 01 2401 5ffc2da3" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"efbe000000000000" /* lends */ \
	"02000000 00000000" /* returns: n, zero */ \
	"0000000000000000 0000000000000000 0000000000000000" /* the first item is not offered */ \
	"0000100000000000 00006000007f0000 cdab341200000000" /* length, address, key */ \
	"676574206974" /* payload */

/* Short, to a group */
#define GOLDEN_SHORT_GROUP \
	"02 01 8401 c1ecad7d" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"efbe0000000000ff" /* lends: the group */ \
	"04000000 00000000" /* call: kind, value */ \
	"6e657773" /* payload */

/* Announce, written */
#define GOLDEN_ANNOUNCE_WRITTEN \
	"02 02 1800 f82173fd" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"efbe000000000000" /* replies */ \
	"0c00100000000000 2a00000000000000" /* total, oldest */ \
	"02000000 0c000000 135bd03a 03000000" /* n_items, unasked, sum, keys */ \
	"44332211 88776655" /* stamp, echo */ \
	"0c00000000000000 0000100000000000" /* lengths */ \
	"686572652069742069733a20" /* payload */

/* Announce, the reply to a request: whole message */
#define GOLDEN_ANNOUNCE_REPLY \
	"02 02 9800 3bd8e326" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000080" /* token, number */ \
	"efbe000000000000" /* replies */ \
	"02000000 00000000" /* call: kind, value */ \
	"0400000000000000 2800000000000080" /* total, oldest */ \
	"01000000 04000000 cb203605 00000000" /* n_items, unasked, sum, keys */ \
	"44332211 88776655" /* stamp, echo */ \
	"0400000000000000" /* lengths */ \
	"646f6e65" /* payload */

/* Announce, alone */
#define GOLDEN_ANNOUNCE \
	"02 02 0000 6c47aaf1" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0000000000000000 2a00000000000000" /* token, number */ \
	"9a78563412000000 2800000000000000" /* total, oldest */ \
	"02000000 00000100 00000000 00000000" /* n_items, unasked, sum, keys */ \
	"44332211 88776655" /* stamp, echo */ \
	"9078563412000000 0a00000000000000" /* lengths */

/* Announce, ordered */
#define GOLDEN_ANNOUNCE_ORDERED \
	"02 02 4000 d85b5bef" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"2800000000000000" /* previous */ \
	"9a78563412000000 2700000000000000" /* total, oldest */ \
	"02000000 00000100 00000000 00000000" /* n_items, unasked, sum, keys */ \
	"44332211 88776655" /* stamp, echo */ \
	"9078563412000000 0a00000000000000" /* lengths */

/* Announce, whole message, first contact */
#define GOLDEN_ANNOUNCE_WHOLE \
	"02 02 1500 7964f32e" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0000000000000000 2a00000000000000" /* token, number */ \
	"11100f0e0d0c0b0a 3412000000000000" /* hello: token, service */ \
	"5151515151515151 2143000000000000" /* context, to_service */ \
	"6666666677777777 00000100 00000000" /* proof, unasked, zero */ \
	"efbe000000000000" /* lends */ \
	"0900000000000000 2a00000000000000" /* total, oldest */ \
	"03000000 09000000 2e5aec44 00000000" /* n_items, unasked, sum, keys */ \
	"44332211 88776655" /* stamp, echo */ \
	"0400000000000000 0000000000000000" /* lengths */ \
	"0500000000000000" \
	"6c6f6e672074657874" /* payload */

/* Announce with keys */
#define GOLDEN_ANNOUNCE_KEYS \
	"02 02 0800 c2412649" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"edfe000000000000" /* replies */ \
	"0000030000000000 2a00000000000000" /* total, oldest */ \
	"02000000 00000000 00000000 01000000" /* n_items, unasked, sum, keys */ \
	"44332211 88776655" /* stamp, echo */ \
	"0000010000000000 0000020000000000" /* lengths */ \
	"00002000007f0000 cdab000000000000" /* address, key */ \
	"00004000007f0000 01ef000000000000" /* address, key */

/* Data */
#define GOLDEN_DATA \
	"02 03 0000 3cbf7258" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"0000000001000000 88776655" /* offset, echo */ \
	"736f6d6520627974657320696e207468" /* payload */ \
	"65206d6964646c65"

/* Data, last */
#define GOLDEN_DATA_LAST \
	"02 03 1000 384eda23" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"0010000000000000 bebafeca" /* offset, sum */ \
	"74686520656e64" /* payload */

/* Pull, no holes */
#define GOLDEN_PULL \
	"02 04 0000 73a40d6f" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"0000010000000000 0000030000000000" /* have, limit */ \
	"00000000 00000000" /* n_holes, busy */ \
	"44332211 88776655" /* stamp, echo */

/* Pull, two holes, ack */
#define GOLDEN_PULL_HOLES \
	"02 04 0200 04018c28" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"2900000000000000 69000000 0500000000000080" /* ack: number, status ENOBUFS, also */ \
	"0b0c0d0e" /* echo */ \
	"0010000000000000 0000030000000000" /* have, limit */ \
	"02000000 00000000" /* n_holes, busy */ \
	"44332211 88776655" /* stamp, echo */ \
	"0010000000000000 7815000000000000" /* hole */ \
	"0020000000000000 0120000000000000" /* hole */

/* Pull, busy */
#define GOLDEN_PULL_BUSY \
	"02 04 0100 ad7d6fa9" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"11100f0e0d0c0b0a 3412000000000000" /* hello: token, service */ \
	"5151515151515151 2143000000000000" /* context, to_service */ \
	"6666666677777777 00000100 00000000" /* proof, unasked, zero */ \
	"0000000000000000 0000000000000000" /* have, limit */ \
	"00000000 01000000" /* n_holes, busy */ \
	"44332211 88776655" /* stamp, echo */

/* Answer, delivered */
#define GOLDEN_ANSWER \
	"02 05 0000 59378817" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"2a00000000000000 00000000 ff00000000000000 0b0c0d0e" /* number, status, also, echo */

/* Answer, refused */
#define GOLDEN_ANSWER_REFUSED \
	"02 05 0000 04392ef1" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"2a00000000000000 5a000000 0000000000000000" /* number, status EMSGSIZE, also */ \
	"00000000" /* echo */

/* Cancel */
#define GOLDEN_CANCEL \
	"02 06 0000 39039373" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 2a00000000000000" /* token, number */ \
	"2700000000000000" /* oldest */

/* Hello only */
#define GOLDEN_HELLO_ONLY \
	"02 07 0100 7822fa92" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 0000000000000000" /* token, number */ \
	"11100f0e0d0c0b0a 3412000000000000" /* hello: token, service */ \
	"5151515151515151 2143000000000000" /* context, to_service */ \
	"6666666677777777 00000100 00000000" /* proof, unasked, zero */

/* Retry */
#define GOLDEN_RETRY \
	"02 08 0000 0670db13" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0000000000000000 0000000000000000" /* token, number */ \
	"1032547698badcfe" /* proof */

/* Echo */
#define GOLDEN_ECHO \
	"02 09 0000 5cba3a97" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 0000000000000000" /* token, number */ \
	"efcdab8967452301 00000000e1f50500" /* nonce, stamp */

/* Echo reply */
#define GOLDEN_ECHO_REPLY \
	"02 0a 0000 c948c2fd" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 0000000000000000" /* token, number */ \
	"efcdab8967452301 00000000e1f50500" /* nonce, stamp */

/* Stream */
#define GOLDEN_STREAM \
	"02 0d 0000 12994b18" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 0000000000000000" /* token, number */ \
	"efbe0000000000ff 11100f0e0d0c0b0a" /* group, the stream's token */ \
	"2a00000010000000" /* number */

/* Heard */
#define GOLDEN_HEARD \
	"02 0e 0000 2c098c90" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0807060504030201 0000000000000000" /* token, number */ \
	"efbe0000000000ff 11100f0e0d0c0b0a" /* group, the stream's token */ \
	"2a00000010000000" /* number */

/* Gone */
#define GOLDEN_GONE \
	"02 0b 0000 905ac545" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0000000000000000 0000000000000000" /* token, number */ \
	"0807060504030201" /* token */

/* Abort */
#define GOLDEN_ABORT \
	"02 0c 0000 424b214e" /* version, type, flags, crc */ \
	"8877665544332211 00ffeeddccbbaa99" /* src, dst */ \
	"0000000000000000 11100f0e0d0c0b0a" /* token, number */ \
	"0400000000000000" /* versions */

/* ---- resolver ---------------------------------------------------------------------------- */

/* Query: 1,044 zero bytes follow, up to 1,100 */
#define GOLDEN_QUERY \
	"02 20 00 00 92459b44" /* version, type, hops, zero, crc */ \
	"4444333322221111 8888777766665555" /* nonce, asker */ \
	"0000000000000000" /* proof */ \
	"00000000000000000000000000000000" /* host */ \
	"3412000000000000" /* id */

/* Query, relayed, about everybody: zeros follow as above */
#define GOLDEN_QUERY_RELAYED \
	"02 20 01 00 59260e57" /* version, type, hops, zero, crc */ \
	"4444333322221111 8888777766665555" /* nonce, asker */ \
	"0000000000000000" /* proof */ \
	"00000000000000000000ffff0a010203" /* host */ \
	"0000000000000000" /* id */

/* Record */
#define GOLDEN_RECORD \
	"02 21 00 00 0a08f8ba" /* version, type, hops, zero, crc */ \
	"4444333322221111 0000000000000000" /* nonce, asker */ \
	"efcdab8967452301" /* proof */ \
	"00000000000000000000000000000000" /* host */ \
	"3412000000000000 8877665544332211" /* id, incarnation */ \
	"000000000000a017 0000999900009999" /* stamp, host identity */ \
	"5151515151515151 02" /* context, n_addrs */ \
	"02 18 0000999900009999" /* shm, len, host identity */ \
	"000102030405060708090a0b0c0d0e0f" /* name */ \
	"01 04 01 00 3b97" /* udp, len, version, zero, port */

/* Record of a member of a group */
#define GOLDEN_RECORD_MEMBER \
	"02 21 00 00 5d4ffcb6" /* version, type, hops, zero, crc */ \
	"4444333322221111 0000000000000000" /* nonce, asker */ \
	"efcdab8967452301" /* proof */ \
	"00000000000000000000000000000000" /* host */ \
	"efbe0000000000ff 8877665544332211" /* id: the group, incarnation */ \
	"3412000000000000 0000999900009999" /* stamp: the member's ID, host identity */ \
	"5151515151515151 01" /* context, n_addrs */ \
	"01 04 01 00 3b97" /* udp, len, version, zero, port */

/* Record, notice of a registration */
#define GOLDEN_RECORD_NOTICE \
	"02 21 00 00 fdedac2c" /* version, type, hops, zero, crc */ \
	"0000000000000000 8888777766665555" /* nonce, asker */ \
	"0000000000000000" /* proof */ \
	"00000000000000000000000000000000" /* host */ \
	"3412000000000000 8877665544332211" /* id, incarnation */ \
	"000000000000a017 0000999900009999" /* stamp, host identity */ \
	"5151515151515151 01" /* context, n_addrs */ \
	"01 04 01 00 3b97" /* udp, len, version, zero, port */

/* Withdrawn */
#define GOLDEN_WITHDRAWN \
	"02 22 00 00 f3d7faf6" /* version, type, hops, zero, crc */ \
	"0000000000000000 8888777766665555" /* nonce, asker */ \
	"0000000000000000" /* proof */ \
	"00000000000000000000000000000000" /* host */ \
	"3412000000000000 8877665544332211" /* id, incarnation */

/* Nobody, certainly */
#define GOLDEN_NOBODY \
	"02 23 01 00 ca86b120" /* version, type, definite, zero, crc */ \
	"4444333322221111 0000000000000000" /* nonce, asker */ \
	"0000000000000000" /* proof */ \
	"00000000000000000000000000000000" /* host */ \
	"3412000000000000" /* id */

/* Nobody that answers */
#define GOLDEN_NOBODY_SILENT \
	"02 23 00 00 63305c2a" /* version, type, definite, zero, crc */ \
	"4444333322221111 0000000000000000" /* nonce, asker */ \
	"0000000000000000" /* proof */ \
	"00000000000000000000000000000000" /* host */ \
	"3412000000000000" /* id */

/* Digest of two registrations: a service, and a member of a group; their bits are 260 and 83 */
#define GOLDEN_DIGEST \
	"02 24 02 00 578e39d1" /* version, type, n, zero, crc */ \
	"0000000000000000 8888777766665555" /* nonce, asker */ \
	"0000000000000000" /* proof */ \
	"00000000000000000000000000000000" /* host */ \
	"00000000000000000000080000000000" /* bits from 0 on */ \
	"00000000000000000000000000000000" /* bits from 128 on */ \
	"10000000000000000000000000000000" /* bits from 256 on */ \
	"00000000000000000000000000000000" /* bits from 384 on */ \
	"3412000000000000 8877665544332211" /* id, incarnation */ \
	"efbe0000000000ff 8977665544332211" /* id, incarnation */

#endif
