/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters, and their one line at the program's end, if the settings name a place for it.
 * A program that ends by a signal or _exit() leaves none.
 */
#include "softefa.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct softefa_counters softefa_counters;

#define COUNTER(name) {#name, offsetof(struct softefa_counters, name)}

static const struct {
	const char *name;
	size_t offset;
} table[] = {
	COUNTER(sent), COUNTER(sent_bytes), COUNTER(received), COUNTER(received_bytes),
	COUNTER(reordered), COUNTER(held), COUNTER(overtaken), COUNTER(reads),
	COUNTER(read_bytes), COUNTER(reads_served), COUNTER(rnr_sent), COUNTER(rnr_received),
	COUNTER(rnr_exhausted), COUNTER(refused_full), COUNTER(refused_injected), COUNTER(busy),
	COUNTER(errors), COUNTER(unresponsive), COUNTER(ud_lost), COUNTER(dropped_bad),
	COUNTER(dropped_unknown), COUNTER(cq_overruns),
};

static size_t line_of_counters(char *line, size_t room)
{
	size_t len = (size_t)snprintf(line, room, "softefa pid=%d", (int)getpid());

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const char *field = (const char *)&softefa_counters + table[i].offset;

		len += (size_t)snprintf(line + len, room - len, " %s=%llu", table[i].name,
			(unsigned long long)*(const uint64_t *)field);
	}
	line[len++] = '\n';
	return len;
}

/* One write, so that the lines of several processes do not mix. */
void softefa_counters_print(void)
{
	const char *place = softefa_settings()->counters;
	bool to_stderr = strcmp(place, "stderr") == 0;
	char line[2048];
	bool locked;
	size_t len;
	int fd;

	if (!*place)
		return;
	/* exit() may have been called by a signal's handler, in the midst of our own work. */
	locked = pthread_mutex_trylock(&softefa_lock) == 0;
	len = line_of_counters(line, sizeof(line));
	if (locked)
		pthread_mutex_unlock(&softefa_lock);
	fd = STDERR_FILENO;
	if (!to_stderr)
		fd = open(place, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, line, len) != (ssize_t)len)
		fprintf(stderr, "softefa: cannot write to %s: %s\n", place, strerror(errno));
	if (fd >= 0 && !to_stderr)
		close(fd);
}

/* A fork's child has counted nothing of its own, unless it opened the device anew. */
static __attribute__((destructor)) void print_at_exit(void)
{
	if (softefa_counters.sent || softefa_counters.received || softefa_counters.errors)
		softefa_counters_print();
}
