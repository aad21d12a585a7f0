/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets of the partners of a fuzzed session: nearly right, with choices of the input where a
 * partner could go wrong, and the knowledge that partners gain from the context's packets. The
 * contents of all messages are zeros, so that checksums can be right.
 */
#include <string.h>

#include "core/net/backend.h"
#include "core/wire/record.h"
#include "core/wire/wire.h"
#include "session.h"
#include "util/bytes.h"
#include "util/hash/blocksum.h"
#include "util/hash/crc32c.h"

#define PAYLOAD_MAX 1200u
#define KEYED_MAX   64u
#define SUMMED_MAX  (256u << 10) /* longer messages have a wrong checksum */

static const uint8_t zeros[4096];

static uint32_t sum_of_zeros(uint64_t len)
{
	uint32_t sum = 0;

	for (uint64_t at = 0; len <= SUMMED_MAX && at < len; at += sizeof(zeros))
		sum = ripc__crc32c(sum, zeros, len - at < sizeof(zeros) ? len - at : sizeof(zeros));
	return sum;
}

static struct person *person_of(struct session *session, uint64_t incarnation)
{
	for (uint32_t i = 0; i < PERSONS; i++) {
		if (session->persons[i].incarnation == incarnation)
			return &session->persons[i];
	}
	return NULL;
}

void session_heard(struct session *session, uint8_t host, const uint8_t *data, size_t len)
{
	struct wire_packet packet;
	struct person *person;

	(void)host;
	CLAIM(wire_decode(data, len, &packet) == 0);
	packet.intact = session->mover.caps & RIPC_CAP_INTACT;
	CLAIM(wire_verify(&packet, ripc__crc32c(0, packet.payload, packet.payload_len)));
	person = person_of(session, packet.h.dst);
	if (!person)
		return;
	person->to = packet.h.src;
	if (packet.h.flags & WIRE_F_HELLO)
		person->token_out = packet.hello.token;
	if (packet.lends)
		person->heard_lent = packet.lends;
	if (packet.h.type == WIRE_RETRY)
		person->proof = packet.value;
	if (packet.h.type == WIRE_ECHO) {
		person->echo = packet.value;
		person->echo_stamp = packet.stamp;
	}
	if (packet.h.type == WIRE_STREAM)
		person->heard_stream = packet.stream;
	if (packet.h.type == WIRE_ANNOUNCE) {
		person->heard_long = packet.h.number;
		person->heard_total = packet.announce.total;
	}
}

/* ---- the fields -------------------------------------------------------------------------- */

static uint64_t token(struct session *session, const struct person *person, uint8_t how)
{
	if ((how & 3) < 3)
		return person->token_out;
	switch (input8(&session->input) % 4) {
	case 0:
		return 0;
	case 1:
		return person->token_out ^ 1;
	case 2:
		return person->token_out + ((uint64_t)1 << 48);
	default:
		return session->persons[how % PERSONS].token_out;
	}
}

/* Usually the next one; or one of before, or a jump, which are not counted. */
static uint64_t number(struct session *session, uint64_t *next)
{
	uint8_t how = input8(&session->input);

	if (how < 160)
		return (*next)++;
	if (how < 224)
		return *next - (how & 63);
	if (how < 240)
		*next += how & 15;
	return how < 240 ? *next : input_number(&session->input);
}

/* The number of the context's last long message, usually. */
static uint64_t heard_number(struct session *session, const struct person *person)
{
	uint8_t how = input8(&session->input);

	if (how < 128)
		return person->heard_long;
	return how < 250 ? person->heard_long - (how & 15) : input_number(&session->input);
}

static void say_short(struct session *session, struct wire_packet *packet, struct person *person,
		uint64_t *lens)
{
	packet->h.number = number(session, &person->next_short);
	packet->n_items = 1 + input8(&session->input) % 4;
	for (uint32_t i = 0; i < packet->n_items; i++) {
		lens[i] = input8(&session->input);
		packet->payload_len += (uint32_t)lens[i];
	}
}

static uint64_t total_of(struct session *session)
{
	static const uint64_t totals[] = {0, 1, 1000, 1200, 1201, 5000, 65536, 65537, 200000,
		1 << 20, 3 << 20, 12 << 20, 1ull << 32};
	uint8_t how = input8(&session->input);

	if (how < 240)
		return totals[how % (sizeof(totals) / sizeof(totals[0]))];
	return input_number(&session->input);
}

/* The sum of what does not come along. */
static uint32_t moved_sum(const struct wire_packet *packet, const uint64_t *lens)
{
	static const uint8_t many[SUMMED_MAX];
	uint64_t sum = 0, start = 0;

	if (packet->announce.total > SUMMED_MAX)
		return 1;
	for (uint32_t i = 0; i < packet->n_items; start += lens[i++]) {
		uint64_t carried = packet->payload_len;
		uint64_t skip = carried > start ? carried - start : 0;

		if (skip < lens[i])
			sum += ripc__blocksum(many, lens[i] - skip, start + skip);
	}
	return ripc__blocksum_told(sum);
}

/* Items of an announcement that others move: short ones first, or all alike. */
static void items_split(struct wire_packet *packet, uint64_t *lens, uint8_t shape)
{
	static const uint8_t counts[] = {1, 2, 3, 4, 5, 8, 30, 50};
	uint64_t left = packet->announce.total, each;

	packet->n_items = counts[shape & 7];
	each = shape & 8 ? 100 : left / packet->n_items;
	for (uint32_t i = 0; i + 1 < packet->n_items; i++) {
		lens[i] = each < left ? each : left;
		left -= lens[i];
	}
	lens[packet->n_items - 1] = left;
}

/* The same, or another, message: with keys, or written already. They lie in segments. */
static void announce_moved(struct session *session, struct wire_packet *packet,
		struct person *person, uint64_t *lens)
{
	static uint64_t keys[2 * KEYED_MAX];
	uint8_t how = input8(&session->input), shape = input8(&session->input);
	struct wire_announce *announce = &packet->announce;

	if (how & 4)
		announce->total = person->said_total = person->said_before;
	person->said_before = announce->total;
	items_split(packet, lens, shape);
	announce->keys = how & 3;
	announce->unasked = how & 8 ? 65536 : 512;
	packet->payload_len = shape & 16 ? 300 : 0;
	if (packet->payload_len > announce->total)
		packet->payload_len = (uint32_t)announce->total;
	if (announce->keys == WIRE_KEYS_WRITTEN && !(packet->h.flags & WIRE_F_REPLIES))
		announce->keys = 0;
	if (how & 16 && announce->keys == WIRE_KEYS_READ && !(packet->h.flags & WIRE_F_LAST))
		announce->keys = WIRE_KEYS_SUMMING;
	announce->sum = (announce->keys ? moved_sum(packet, lens) :
		sum_of_zeros(announce->total)) ^ (how >= 240);
	for (uint32_t i = 0; i < packet->n_items; i++) {
		keys[2 * i] = (uint64_t)(shape >> 6) << 32 | (shape & 32 ? 4096u * i : 0);
		keys[2 * i + 1] = 1 + i;
	}
	session->keys = wire_has_keys(announce->keys) ? keys : NULL;
}

static void say_announce(struct session *session, struct wire_packet *packet,
		struct person *person, uint64_t *lens)
{
	struct wire_announce *announce = &packet->announce;
	uint8_t how = input8(&session->input);
	uint64_t left;

	packet->h.number = number(session, &person->next_long);
	announce->total = left = person->said_total = total_of(session);
	announce->oldest = packet->h.number - (how >> 6);
	if ((how & 63) == 63)
		announce->oldest = input_number(&session->input);
	packet->n_items = 1 + how % 4;
	for (uint32_t i = 0; i + 1 < packet->n_items; i++) {
		lens[i] = left / 2;
		left -= lens[i];
	}
	lens[packet->n_items - 1] = left;
	announce->unasked = how & 16 ? 65536 : input16(&session->input);
	packet->payload_len = how & 32 ? 0 : PAYLOAD_MAX;
	if (packet->payload_len > announce->total)
		packet->payload_len = (uint32_t)announce->total;
	if (packet->payload_len > announce->unasked)
		packet->payload_len = announce->unasked;
	announce->sum = sum_of_zeros(announce->total);
	if (session->mover.caps)
		announce_moved(session, packet, person, lens);
}

static void say_data(struct session *session, struct wire_packet *packet, struct person *person)
{
	uint8_t how = input8(&session->input);

	packet->h.number = person->next_long - 1 - (how >> 6);
	packet->payload_len = PAYLOAD_MAX;
	if ((how & 63) < 56)
		packet->offset = (how & 63) * (uint64_t)PAYLOAD_MAX;
	else
		packet->offset = input_number(&session->input);
	if (how % 8 == 7)
		packet->payload_len = input16(&session->input) % PAYLOAD_MAX;
	if (how % 8 != 6 && packet->offset < person->said_total &&
			packet->payload_len > person->said_total - packet->offset)
		packet->payload_len = (uint32_t)(person->said_total - packet->offset);
	packet->sum = sum_of_zeros(person->said_total);
}

static void say_pull(struct session *session, struct wire_packet *packet, struct person *person)
{
	struct wire_pull *pull = &packet->pull;
	uint8_t how = input8(&session->input);
	uint64_t at = 0;

	packet->h.number = heard_number(session, person);
	pull->have = how & 1 ? input_number(&session->input) : 0;
	pull->limit = how & 2 ? input_number(&session->input) : person->heard_total;
	pull->busy = how >> 2 & 1;
	pull->n_holes = how >> 3 & 7;
	if (pull->n_holes == 7)
		pull->n_holes = WIRE_HOLES_MAX;
	for (uint32_t i = 0; i < pull->n_holes; i++) {
		uint64_t start = at + 1 + (how & 64 ? input_number(&session->input) % 100000 : 0);

		at = start + 1 + input8(&session->input);
		pull->holes[i] = (struct wire_range){start, at};
	}
}

static void say_ack(struct session *session, struct wire_packet *packet, struct person *person)
{
	uint8_t how = input8(&session->input);

	packet->ack.number = heard_number(session, person);
	packet->ack.status = how < 160 ? 0 : how & 127;
	packet->ack.also = how & 1 ? (uint64_t)input16(&session->input) << 48 : 0;
}

static void say_body(struct session *session, struct wire_packet *packet, struct person *person,
		uint64_t *lens)
{
	switch (packet->h.type) {
	case WIRE_SHORT:
		say_short(session, packet, person, lens);
		break;
	case WIRE_ANNOUNCE:
		say_announce(session, packet, person, lens);
		break;
	case WIRE_DATA:
		say_data(session, packet, person);
		break;
	case WIRE_PULL:
		say_pull(session, packet, person);
		break;
	case WIRE_ANSWER:
		packet->h.number = heard_number(session, person);
		say_ack(session, packet, person);
		break;
	case WIRE_CANCEL:
		packet->h.number = person->next_long - 1 - input8(&session->input) % 8;
		packet->announce.oldest = packet->h.number - input8(&session->input) % 4;
		break;
	case WIRE_ECHO:
	case WIRE_ECHO_REPLY:
		packet->value = person->echo;
		packet->stamp = person->echo_stamp;
		break;
	case WIRE_RETRY:
	case WIRE_GONE:
		packet->h.number = person->token_in;
		packet->value = input_number(&session->input);
		if (packet->h.flags & WIRE_F_ACK)
			say_ack(session, packet, person);
		break;
	default:
		break;
	}
}

static void say_hello(struct session *session, struct wire_packet *packet,
		const struct person *person, uint8_t odd)
{
	struct ripc_service *service = session->services[0];

	for (uint32_t i = 1; i < SERVICES; i++) {
		if (session->services[i] &&
				ripc_service_incarnation(session->services[i]) == packet->h.dst)
			service = session->services[i];
	}
	packet->hello = (struct wire_hello){.token = person->token_in, .service = person->service,
		.context = person->context, .proof = person->proof, .unasked = 65536,
		.to_service = service ? ripc_service_id(service) : 1};
	if (odd & 4)
		packet->hello.unasked = input16(&session->input);
	if (odd & 8)
		packet->hello.context ^= 1;
	if (odd & 16)
		packet->hello.token ^= 1;
}

/* ---- sending ----------------------------------------------------------------------------- */

static void arrive_from(struct session *session, uint8_t host)
{
	session->from = (struct ripc__addr){.len = 1, .blob = {host}};
	session->from.host[15] = host;
	session->in_is_question = false;
}

/* Makes the checksum right, if the bytes make a packet at all. */
static void seal_again(struct session *session)
{
	struct wire_packet packet;

	if (wire_decode(session->in, session->in_len, &packet) == 0)
		wire_checksum(session->in, packet.prefix_len,
			ripc__crc32c(0, packet.payload, packet.payload_len));
}

static void alter(struct session *session, bool seals)
{
	uint32_t at = input8(&session->input);

	session->in[at % session->in_len] ^= input8(&session->input);
	session->altered = true;
	if (seals)
		seal_again(session);
}

static void hand_over(struct session *session, const struct wire_packet *packet,
		const uint64_t *lens)
{
	uint8_t prefix[WIRE_PREFIX_MAX];
	size_t len = wire_encode(prefix, packet, lens, session->keys);

	session->keys = NULL;
	if (len + packet->payload_len > MTU)
		return;
	memcpy(session->in, prefix, len);
	wire_checksum(session->in, len, ripc__crc32c(0, zeros, packet->payload_len));
	memset(session->in + len, 0, packet->payload_len);
	session->in_len = len + packet->payload_len;
}

void session_hand_over(struct session *session, const struct wire_packet *packet, uint8_t host)
{
	arrive_from(session, host);
	hand_over(session, packet, NULL);
}

/* To whom: who talked to it last, or any service there is. */
static uint64_t destination(struct session *session, const struct person *person, uint8_t odd)
{
	const struct ripc_service *service = session->services[odd % SERVICES];

	if (!(odd & 32) && person->to)
		return person->to;
	return service ? ripc_service_incarnation(service) : 0x9999;
}

/* Memory that a partner lets the context write into. */
static void offer(struct session *session, struct wire_packet *packet)
{
	static struct wire_return offers[WIRE_RETURNS_MAX];
	uint8_t how = input8(&session->input);

	packet->n_returns = 1 + how % WIRE_RETURNS_MAX;
	packet->offers = offers;
	for (uint32_t i = 0; i < packet->n_returns; i++)
		offers[i] = (struct wire_return){how & 8 ? 300000 : 70000, 1 + i, how};
	if (how & 16)
		offers[how >> 5] = (struct wire_return){0};
}

void session_packet(struct session *session)
{
	uint8_t who = input8(&session->input), how = input8(&session->input);
	uint8_t odd = how & 128 ? input8(&session->input) : 0;
	struct person *person = &session->persons[who % PERSONS];
	struct wire_packet packet = {0};
	uint64_t lens[KEYED_MAX];

	/* "% 12" stays when a type is added: inputs of the corpus keep their meaning. STREAM and
	 * HEARD are said in session_many.c. */
	_Static_assert(WIRE_TYPE_END == 15, "a new type is not said here");
	packet.h.type = (uint8_t)(1 + who / PERSONS % 12);
	packet.h.flags = how >> 2 & (WIRE_F_KNOWN ^ WIRE_F_RETURNS);
	if (session->mover.caps && packet.h.flags & WIRE_F_LENDS && how & 128) {
		packet.h.flags |= WIRE_F_RETURNS;
		offer(session, &packet);
	}
	packet.h.src = person->incarnation;
	packet.h.dst = destination(session, person, odd);
	packet.h.token = token(session, person, how);
	if (!person->token_out && packet.h.type < WIRE_RETRY)
		packet.h.flags |= WIRE_F_HELLO;
	if (packet.h.type != WIRE_ANNOUNCE && packet.h.type != WIRE_DATA)
		packet.h.flags &= (uint16_t)~WIRE_F_LAST;
	say_body(session, &packet, person, lens);
	if (packet.h.flags & WIRE_F_HELLO)
		say_hello(session, &packet, person, odd);
	if (packet.h.flags & WIRE_F_ACK && packet.h.type != WIRE_ANSWER)
		say_ack(session, &packet, person);
	packet.lends = who & 1 ? 7 : input8(&session->input);
	packet.replies = person->heard_lent;
	if (packet.h.type == WIRE_ANNOUNCE && how & 2) {
		packet.h.flags |= WIRE_F_ORDERED;
		packet.previous = packet.h.number - (odd ? odd & 7 : 1);
	}
	arrive_from(session, odd & 64 ? 1 + odd % HOSTS : person->host);
	hand_over(session, &packet, lens);
	if (odd & 128 && session->in_len)
		alter(session, odd & 1);
}

void session_raw(struct session *session)
{
	uint8_t how = input8(&session->input);
	const uint8_t *bytes;
	size_t len = input_bytes(&session->input, input8(&session->input), &bytes);

	memcpy(session->in, bytes, len);
	session->in_len = len;
	session->altered = true;
	arrive_from(session, (uint8_t)(1 + how % HOSTS));
	session->in_is_question = how & 64;
	if (how & 128)
		seal_again(session);
}

void session_greet(struct session *session)
{
	uint8_t who = input8(&session->input);
	struct person *person = &session->persons[who % PERSONS];

	for (int i = 0; i < 3; i++) {
		struct wire_packet packet = {.h.type = WIRE_HELLO_ONLY,
			.h.src = person->incarnation, .h.token = i == 2 ? person->token_out : 0};

		packet.h.dst = destination(session, person, who / PERSONS);
		packet.h.flags = packet.h.token ? 0 : WIRE_F_HELLO;
		say_hello(session, &packet, person, 0);
		arrive_from(session, person->host);
		hand_over(session, &packet, NULL);
		session_work(session);
	}
}

void session_answer(struct session *session)
{
	uint8_t who = input8(&session->input);
	struct person *person = &session->persons[who % PERSONS];
	struct wire_resolve answer = {.type = WIRE_RECORD, .nonce = person->question,
		.proof = person->proof};

	answer.record = (struct wire_record){.id = person->service,
		.incarnation = person->incarnation, .stamp = 5, .host = 9,
		.context = person->context, .n_addrs = 1};
	answer.record.addrs[0] = (struct wire_record_addr){.backend = 99, .len = 1,
		.blob = {person->host}};
	if (who & 4)
		answer.record.incarnation += input8(&session->input) % 4;
	if (who & 8)
		answer.record.addrs[0].blob[0] = input8(&session->input) % (HOSTS + 2);
	if (who & 16)
		answer.type = (uint8_t)(WIRE_QUERY + input8(&session->input) % 3);
	if (who & 32)
		answer.nonce = 0;
	if (who & 64)
		answer.record.id = ripc_id_from_name("none") ^ input8(&session->input);
	if (answer.type == WIRE_QUERY)
		answer.asker = answer.nonce = 1 + who;
	session_answer_with(session, &answer, person->host);
}

void session_answer_with(struct session *session, const struct wire_resolve *answer, uint8_t host)
{
	session->in_len = wire_resolve_encode(session->in, answer);
	arrive_from(session, host);
	session->in_is_question = true;
}
