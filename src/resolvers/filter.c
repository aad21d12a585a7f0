/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A filter (classic BPF) for the socket on which questions come in. The filter sees the datagram
 * from the UDP header on; the type lies where docs/protocol.md says, as do the ID and the bits of a
 * digest. A hash of the ID chooses one of 512 bits, which are constants of the program.
 */
#include "resolvers/filter.h"

#include <linux/filter.h>
#include <string.h>
#include <sys/socket.h>

#include "core/wire/record.h"

#define UDP_HEADER  8u
#define TYPE_AT     (UDP_HEADER + 1u)
#define ASKER_AT    (UDP_HEADER + 16u) /* its lowest byte */
#define ID_AT       (UDP_HEADER + 48u) /* there a digest has its bits */
#define TO_AT       ((uint32_t)SKF_NET_OFF + 24u) /* in the IPv6 header; 16 bytes */
#define TO_AT_FOUR  ((uint32_t)SKF_NET_OFF + 16u) /* in the IPv4 header */
#define PROGRAM_MAX 128u

struct program {
	struct sock_filter at[PROGRAM_MAX];
	uint16_t n;
};

static bool passes(const struct filter *filter, uint64_t id)
{
	return filter->bits[wire_hash(id) / 32] >> wire_hash(id) % 32 & 1;
}

/*
 * To attach a filter takes the kernel milliseconds where many processes do so at once: a process
 * that only looks for others, under a private ID, keeps its first filter.
 */
static bool drops_notices(const struct filter *filter)
{
	return filter->serves && !filter->knows;
}

bool ripc__filter_add(struct filter *filter, uint64_t id, bool private_id)
{
	bool dropped = drops_notices(filter), passed = passes(filter, id);

	filter->bits[wire_hash(id) / 32] |= 1u << wire_hash(id) % 32;
	filter->serves |= !private_id;
	return !passed || drops_notices(filter) != dropped;
}

bool ripc__filter_know(struct filter *filter)
{
	bool dropped = drops_notices(filter);

	filter->knows = true;
	return dropped;
}

static void add(struct program *program, uint16_t code, uint32_t k)
{
	program->at[program->n++] = (struct sock_filter)BPF_STMT(code, k);
}

static void branch(struct program *program, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
	program->at[program->n++] = (struct sock_filter)BPF_JUMP(code, k, yes, no);
}

/*
 * A digest has the same bits, of all IDs that it names; its first byte has the lowest ones. Those
 * of our kin pass: their number says how many contexts there are (core/resolve/digest.c).
 */
static void look_at_digest(struct program *program, const struct filter *filter)
{
	uint8_t after = 1; /* instructions up to the last one */

	for (uint32_t word = 0; word < FILTER_WORDS; word++)
		after += filter->bits[word] ? 2 : 0;
	branch(program, BPF_JMP | BPF_JEQ | BPF_K, WIRE_DIGEST, 0, after + 4);
	add(program, BPF_LD | BPF_B | BPF_ABS, ASKER_AT);
	add(program, BPF_ALU | BPF_AND | BPF_K, WIRE_DIGEST_KIN - 1);
	branch(program, BPF_JMP | BPF_JEQ | BPF_K, filter->kin, after, 0);
	for (uint32_t word = 0; word < FILTER_WORDS; word++) {
		if (!filter->bits[word])
			continue;
		after -= 2;
		add(program, BPF_LD | BPF_W | BPF_ABS, ID_AT + 4 * word);
		branch(program, BPF_JMP | BPF_JSET | BPF_K,
			__builtin_bswap32(filter->bits[word]), after, 0);
	}
	add(program, BPF_RET | BPF_K, 0);
	add(program, BPF_RET | BPF_K, UINT32_MAX);
}

/* Lets pass what was sent to another address than the group's. Of a v4-mapped one a word counts. */
static void pass_unicast(struct program *program, const struct in6_addr *group)
{
	bool four = IN6_IS_ADDR_V4MAPPED(group);

	for (uint32_t i = four ? 3 : 0; i < 4; i++) {
		add(program, BPF_LD | BPF_W | BPF_ABS, four ? TO_AT_FOUR : TO_AT + 4 * i);
		branch(program, BPF_JMP | BPF_JEQ | BPF_K, ntohl(group->s6_addr32[i]), 1, 0);
		add(program, BPF_RET | BPF_K, UINT32_MAX);
	}
}

/* Lets pass what is no multicast question or notice. */
static void pass_others(struct program *program, const struct filter *filter,
		const struct in6_addr *group)
{
	uint32_t last_filtered = drops_notices(filter) ? WIRE_WITHDRAWN : WIRE_QUESTION;

	pass_unicast(program, group);
	add(program, BPF_LD | BPF_B | BPF_ABS, TYPE_AT);
	if (drops_notices(filter))
		look_at_digest(program, filter);
	branch(program, BPF_JMP | BPF_JGE | BPF_K, WIRE_QUESTION, 0, 1);
	branch(program, BPF_JMP | BPF_JGT | BPF_K, last_filtered, 0, 1);
	add(program, BPF_RET | BPF_K, UINT32_MAX);
}

/* Leaves the hash of the ID in M[0]; 0, which asks for all, and what looks like it, passes. */
static void hash_id(struct program *program)
{
	add(program, BPF_LD | BPF_W | BPF_ABS, ID_AT);
	add(program, BPF_MISC | BPF_TAX, 0);
	add(program, BPF_LD | BPF_W | BPF_ABS, ID_AT + 4);
	add(program, BPF_ALU | BPF_XOR | BPF_X, 0);
	branch(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
	add(program, BPF_RET | BPF_K, UINT32_MAX);
	add(program, BPF_ALU | BPF_MUL | BPF_K, WIRE_HASH);
	add(program, BPF_ALU | BPF_RSH | BPF_K, WIRE_HASH_SHIFT);
	add(program, BPF_ST, 0);
}

/* Chooses the word, then looks at its bit. */
static void look_up(struct program *program, const struct filter *filter)
{
	add(program, BPF_ALU | BPF_AND | BPF_K, 31);
	add(program, BPF_MISC | BPF_TAX, 0);
	add(program, BPF_LD | BPF_MEM, 0);
	add(program, BPF_ALU | BPF_RSH | BPF_K, 5);
	for (uint32_t word = 0; word < FILTER_WORDS; word++) {
		branch(program, BPF_JMP | BPF_JEQ | BPF_K, word, 0, 2);
		add(program, BPF_LD | BPF_IMM, filter->bits[word]);
		add(program, BPF_JMP | BPF_JA, 3 * (FILTER_WORDS - 1 - word));
	}
	add(program, BPF_ALU | BPF_RSH | BPF_X, 0);
	branch(program, BPF_JMP | BPF_JSET | BPF_K, 1, 1, 0);
	add(program, BPF_RET | BPF_K, 0);
	add(program, BPF_RET | BPF_K, UINT32_MAX);
}

void ripc__filter_attach(const struct filter *filter, int fd, const struct in6_addr *group)
{
	struct program program = {.n = 0};
	struct sock_fprog call = {.filter = program.at};
	int unused = 0; /* which the kernel wants all the same */

	pass_others(&program, filter, group);
	hash_id(&program);
	look_up(&program, filter);
	call.len = program.n;
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &call, sizeof(call)))
		setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused));
}
