/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups in a fuzzed session, on a device by which one datagram reaches many: partners that send to
 * groups in datagrams to many and in copies, each of them in any order, late and more than once;
 * and the context that does so itself. Partners number their shorts as they must: so whatever the
 * network does, none comes twice to one service. A short's length tells which one it is.
 */
#include <errno.h>
#include <string.h>

#include "core/wire/record.h"
#include "ripc/group.h"
#include "session.h"
#include "util/hash/crc32c.h"

#define GROUPS       2u
#define GROUP        0xff00000000000001u
#define TO_MANY      (HOSTS + 1) /* in place of a host: a route to many */
#define HEARD_MOST   1u          /* of the two numbers the device hears one at a time */
#define FIRST_NUMBER ((1ull << 32) - 20)

static uint64_t group_of(uint8_t how)
{
	return GROUP + how % GROUPS;
}

/* ---- the device -------------------------------------------------------------------------- */

int session_many_open(void *port, void *route, const void *partner, uint64_t number)
{
	struct session *session = ((struct port *)port)->session;

	(void)number;
	CLAIM(*(const uint8_t *)partner > 0 && *(const uint8_t *)partner <= HOSTS);
	if (session->refuses)
		return -EHOSTUNREACH;
	*(uint8_t *)route = TO_MANY;
	session->peers_open++;
	return 0;
}

int session_many_hear(void *port, const void *partner, uint64_t number)
{
	struct many *many = &((struct port *)port)->session->many;

	CLAIM(*(const uint8_t *)partner > 0 && *(const uint8_t *)partner <= HOSTS);
	if (many->heard && many->heard != number)
		return -ENOBUFS;
	many->heard = number;
	return 0;
}

void session_many_ignore(void *port, uint64_t number)
{
	struct many *many = &((struct port *)port)->session->many;

	many->heard = many->heard == number ? 0 : many->heard;
}

/* ---- what partners say ------------------------------------------------------------------- */

/* The stream of a partner to a group; of another incarnation it is another one. */
static struct said_stream *stream_of(struct session *session, struct person *person, uint8_t how)
{
	struct many *many = &session->many;
	struct said_stream *stream =
		&many->streams[person - session->persons][group_of(how) - GROUP];

	if (stream->incarnation != person->incarnation)
		*stream = (struct said_stream){.incarnation = person->incarnation,
			.token = ++many->drawn, .number = FIRST_NUMBER, .told = FIRST_NUMBER + 1,
			.told_us = session->now_us};
	return stream;
}

/* The packet comes with the next poll, in the partner's name. */
static void say(struct session *session, const struct person *person, struct wire_packet *packet,
		uint8_t host)
{
	packet->h.src = person->incarnation;
	if (!packet->h.dst) {
		packet->h.dst = person->to;
		packet->h.token = person->token_out;
	}
	session_hand_over(session, packet, host);
}

static void say_stream(struct session *session, struct person *person, uint8_t how)
{
	struct said_stream *stream = stream_of(session, person, how >> 2);
	struct wire_packet packet = {.h.type = WIRE_STREAM};

	/*
	 * The partner repeats earlier statements, or that is on its way; but for so long nothing
	 * is.
	 */
	if (!(how & 128) || session->now_us - stream->told_us >= PARTNER_IDLE_US) {
		stream->told = stream->number + 1;
		stream->told_us = session->now_us;
	}
	packet.stream = (struct wire_stream){group_of(how >> 2), stream->token, stream->told};
	if (person->to && person->token_out)
		say(session, person, &packet, person->host);
}

/* Many shorts have got lost; after a silence any number of them, and nothing of before comes. */
static void numbers_jump(struct session *session, struct person *person, uint8_t how)
{
	struct said_stream *stream = stream_of(session, person, how >> 2);

	stream->number += 1u << 21;
	if (!(how & 128))
		return;
	stream->number += 1ull << 31;
	session_pass(session, PARTNER_IDLE_US + 1);
}

static void short_make(struct session *session, struct person *person, uint8_t how)
{
	struct many *many = &session->many;
	struct said_stream *stream = stream_of(session, person, how >> 2);

	if (many->n_shorts == SHORTS || !person->to || !person->token_out)
		return;
	stream->number += how & 64 ? how >> 3 & 7 : 0; /* some datagrams have got lost */
	stream->number += (uint32_t)(stream->number + 1) ? 1 : 2;
	many->shorts[many->n_shorts++] = (struct said_short){.person = person, .to = person->to,
		.token_out = person->token_out, .incarnation = person->incarnation,
		.group = group_of(how >> 2), .token = stream->token, .number = stream->number,
		.copy_number = person->next_short++, .made_us = session->now_us};
}

/* Again, or for the first time: to many, or as a copy to the one service that it is for. */
static void short_comes(struct session *session, uint8_t which, uint8_t how)
{
	struct many *many = &session->many;
	const struct said_short *said;
	struct wire_packet packet = {.h = {.type = WIRE_SHORT,
		.flags = WIRE_F_LENDS | WIRE_F_CALL}, .call.kind = WIRE_CALL_GROUP, .n_items = 1};
	uint32_t back = which % 64;

	if (back >= many->n_shorts)
		return;
	said = &many->shorts[many->n_shorts - 1 - back];
	packet.lends = said->group;
	packet.payload_len = (uint32_t)(said - many->shorts) + 1;
	/* Nothing is on its way for so long. */
	if (said->person->incarnation != said->incarnation ||
			session->now_us - said->made_us >= PARTNER_IDLE_US)
		return;
	if (how & 1) {
		packet.h.dst = said->to;
		packet.h.token = said->token_out;
		packet.h.number = said->copy_number;
		packet.call.value = (uint32_t)said->number;
		say(session, said->person, &packet, said->person->host);
		return;
	}
	packet.h.dst = said->group;
	packet.h.token = said->token ^ (how >> 1 & (how >> 2 & 1));
	packet.h.number = said->number;
	many->comes_by_multicast = true;
	say(session, said->person, &packet, how & 8 ? 1 + how % HOSTS : said->person->host);
}

/* The partner reports the numbers of the context's stream that it has heard; or more. */
static void say_heard(struct session *session, struct person *person, uint8_t how)
{
	struct wire_packet packet = {.h.type = WIRE_HEARD, .stream = person->heard_stream};

	if (!packet.stream.token || !person->token_out)
		return;
	packet.stream.number += how & 64 ? input_number(&session->input) : how >> 4 & 3;
	packet.stream.token += how >> 7;
	say(session, person, &packet, person->host);
}

/* The resolver says that the partner is in the group. */
static void say_member(struct session *session, const struct person *person, uint8_t how)
{
	struct wire_resolve answer = {.type = WIRE_RECORD, .proof = person->proof,
		.nonce = session->many.question[(how >> 2) % GROUPS]};

	answer.record = (struct wire_record){.id = group_of(how >> 2),
		.incarnation = person->incarnation, .stamp = person->service, .host = 9,
		.context = person->context, .n_addrs = 1};
	answer.record.addrs[0] = (struct wire_record_addr){.backend = 99, .len = 1,
		.blob = {person->host}};
	session_answer_with(session, &answer, person->host);
	session_pass(session, 1100);
}

/* ---- the application --------------------------------------------------------------------- */

static void join(struct ripc_service *service, uint8_t how)
{
	if (how & 128)
		ripc_leave(service, group_of(how >> 2));
	else
		ripc_join(service, group_of(how >> 2));
}

static void send_to_group(struct session *session, struct ripc_service *service, uint8_t how)
{
	static uint8_t bytes[2][200];
	const struct iovec items[] = {{bytes[0], how}, {bytes[1], how >> 4}};

	if (how & 64)
		session_pass(session, (uint64_t)(how & 63) * 100000);
	ripc_send_short(service, group_of(how >> 2), items, 1 + (how >> 3 & 1));
}

void session_many_step(struct session *session)
{
	uint8_t what = input8(&session->input), how = input8(&session->input);
	struct person *person = &session->persons[how % PERSONS];
	struct ripc_service *service = session->services[how % SERVICES];

	switch (what % 12) {
	case 0:
	case 1:
		if (service)
			join(service, how);
		break;
	case 2:
		say_stream(session, person, how);
		break;
	case 3:
		numbers_jump(session, person, how);
		break;
	case 4:
	case 5:
		short_make(session, person, how);
		short_comes(session, 0, what >> 4);
		break;
	case 6:
	case 7:
	case 8:
		short_comes(session, how, what >> 4);
		break;
	case 9:
		say_heard(session, person, how);
		break;
	case 10:
		say_member(session, person, how);
		break;
	default:
		if (service)
			send_to_group(session, service, how);
		break;
	}
	session_work(session);
	session->many.comes_by_multicast = false;
}

/* ---- what must hold ---------------------------------------------------------------------- */

void session_many_asked(struct session *session, uint64_t id, uint64_t nonce)
{
	if (id - GROUP < GROUPS)
		session->many.question[id - GROUP] = nonce;
}

void session_many_took(struct session *session, struct ripc_service *service,
		const struct ripc_msg *msg)
{
	uint64_t incarnation = ripc_service_incarnation(service);
	struct said_short *said;

	if (!msg->group || msg->kind != RIPC_SHORT || session->altered)
		return;
	CLAIM(msg->n_items == 1);
	CLAIM(msg->items[0].iov_len > 0 && msg->items[0].iov_len <= session->many.n_shorts);
	said = &session->many.shorts[msg->items[0].iov_len - 1];
	CLAIM(said->group == msg->group && said->incarnation == msg->from_incarnation);
	for (uint32_t i = 0; i < said->n_took; i++)
		CLAIM(said->took[i] != incarnation);
	CLAIM(said->n_took < SHORT_TAKERS);
	said->took[said->n_took++] = incarnation;
}
