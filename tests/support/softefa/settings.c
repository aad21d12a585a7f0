/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings, read from the environment at first use and never again, and the random numbers
 * that follow from the seed. A value that is no number in its range ends in its default, with a
 * word about it on standard error: a test that runs with other settings than it says is worse.
 */
#include "softefa.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct softefa_settings settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint64_t number(const char *name, uint64_t otherwise, uint64_t lowest, uint64_t highest)
{
	const char *text = getenv(name);
	char *end;
	uint64_t value;

	if (!text || !*text)
		return otherwise;
	errno = 0;
	value = strtoull(text, &end, 0);
	if (!errno && !*end && text[0] != '-' && value >= lowest && value <= highest)
		return value;
	fprintf(stderr, "softefa: %s=%s is not a number from %llu to %llu; taking %llu\n", name,
		text, (unsigned long long)lowest, (unsigned long long)highest,
		(unsigned long long)otherwise);
	return otherwise;
}

static uint32_t number32(const char *name, uint32_t otherwise, uint32_t lowest, uint32_t highest)
{
	return (uint32_t)number(name, otherwise, lowest, highest);
}

static void text(const char *name, const char *otherwise, char *value, size_t room)
{
	const char *given = getenv(name);

	if (given && strlen(given) >= room) {
		fprintf(stderr, "softefa: %s is too long; taking \"%s\"\n", name, otherwise);
		given = NULL;
	}
	snprintf(value, room, "%s", given && *given ? given : otherwise);
}

static void read_environment(void)
{
	struct softefa_settings *s = &settings;

	s->seed = number("SOFTEFA_SEED", 1, 0, UINT64_MAX);
	s->n_devices = number32("SOFTEFA_DEVICES", 1, 0, 8);
	s->host = number32("SOFTEFA_HOST", 1, 0, 65535);
	s->first_qpn = number32("SOFTEFA_FIRST_QPN", 0, 0, 65535);
	s->shuffle_percent = number32("SOFTEFA_SHUFFLE", 25, 0, 100);
	s->shuffle_span = number32("SOFTEFA_SHUFFLE_SPAN", 8, 1, 1000);
	s->hold_us = number32("SOFTEFA_HOLD_US", 20, 0, 10000000);
	s->delay_us = number32("SOFTEFA_DELAY_US", 0, 0, 10000000);
	s->srd_mtu = number32("SOFTEFA_MTU", 8760, 256, SOFTEFA_CHUNK);
	s->ud_mtu = number32("SOFTEFA_UD_MTU", s->srd_mtu, 256, SOFTEFA_CHUNK);
	s->max_send_wr = number32("SOFTEFA_SQ_WR", 512, 1, 32768);
	s->max_recv_wr = number32("SOFTEFA_RQ_WR", 1024, 1, 32768);
	s->max_qp = number32("SOFTEFA_MAX_QP", 1024, 2, 65536);
	s->rnr_us = number32("SOFTEFA_RNR_US", 100, 1, 10000000);
	s->unresponsive_ms = number32("SOFTEFA_UNRESPONSIVE_MS", 250, 0, 600000);
	s->enomem_percent = number32("SOFTEFA_ENOMEM", 0, 0, 99);
	s->ud_loss_percent = number32("SOFTEFA_UD_LOSS", 0, 0, 100);
	s->dead_status = number32("SOFTEFA_DEAD_STATUS", SOFTEFA_REMOTE_BAD_DEST_QPN, 7, 13);
	s->idle_polls = number32("SOFTEFA_IDLE_POLLS", 50, 0, 1000000000);
	s->has_rdma_read = number32("SOFTEFA_RDMA_READ", 1, 0, 1);
	s->has_rnr_retry = number32("SOFTEFA_RNR_RETRY", 1, 0, 1);
	text("SOFTEFA_FABRIC", "0", s->fabric, sizeof(s->fabric));
	text("SOFTEFA_SYSFS", "/sys", s->sysfs, sizeof(s->sysfs));
	text("SOFTEFA_COUNTERS", "", s->counters, sizeof(s->counters));
}

const struct softefa_settings *softefa_settings(void)
{
	pthread_once(&once, read_environment);
	return &settings;
}

/* splitmix64, Steele et al. 2014. */
uint64_t softefa_draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

bool softefa_happens(uint64_t *state, uint32_t percent)
{
	return percent && softefa_draw(state) % 100 < percent;
}
