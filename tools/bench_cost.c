/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a run costs, from the kernel's own accounts: /proc/PID/stat for the two processes (in ticks
 * of 10 ms: only long runs tell), /proc/stat for the machine (proc(5)), /proc/net/dev for bytes.
 * A kernel may charge the work of receiving to whoever runs, as softirq: so the machine's share is
 * there, too. All that cannot be read counts as 0.
 */
#include <string.h>
#include <unistd.h>
#include "bench.h"

static double tick_us(void)
{
	return 1e6 / (double)sysconf(_SC_CLK_TCK);
}

static void read_processors(struct bench_cost *cost)
{
	unsigned long long user, nice, system, idle, iowait, irq, softirq, steal;
	FILE *stream = fopen("/proc/stat", "r");

	if (!stream)
		return;
	if (fscanf(stream, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system,
		    &idle, &iowait, &irq, &softirq, &steal) == 8) {
		cost->softirq = (double)softirq * tick_us();
		cost->steal = (double)steal * tick_us();
		cost->idle = (double)(idle + iowait) * tick_us();
	}
	fclose(stream);
}

/* "eth0: bytes packets errs drop fifo frame compressed multicast" received, then bytes sent. */
static void read_interfaces(struct bench_cost *cost)
{
	FILE *stream = fopen("/proc/net/dev", "r");
	unsigned long long sent;
	char line[512], *numbers;

	while (stream && fgets(line, sizeof(line), stream)) {
		numbers = strchr(line, ':');
		if (numbers && sscanf(numbers + 1, "%*u %*u %*u %*u %*u %*u %*u %*u %llu",
				       &sent) == 1)
			cost->wire_bytes += (double)sent;
	}
	if (stream)
		fclose(stream);
}

void bench_cost_now(struct bench_cost *cost)
{
	memset(cost, 0, sizeof(*cost));
	read_processors(cost);
	read_interfaces(cost);
}

void bench_cost_since(struct bench_cost *cost)
{
	struct bench_cost now;

	bench_cost_now(&now);
	cost->softirq = now.softirq - cost->softirq;
	cost->steal = now.steal - cost->steal;
	cost->idle = now.idle - cost->idle;
	cost->wire_bytes = now.wire_bytes - cost->wire_bytes;
}

void bench_cost_of(int pid, double *user, double *system)
{
	unsigned long long user_ticks, system_ticks;
	char path[64], line[1024], *after_name;
	FILE *stream;

	*user = *system = 0;
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	stream = fopen(path, "r");
	if (!stream)
		return;
	/* The second field is a name in parentheses, which may hold anything; utime is the 14th. */
	after_name = fgets(line, sizeof(line), stream) ? strrchr(line, ')') : NULL;
	if (after_name && sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u "
				 "%llu %llu", &user_ticks, &system_ticks) == 2) {
		*user = (double)user_ticks * tick_us();
		*system = (double)system_ticks * tick_us();
	}
	fclose(stream);
}
