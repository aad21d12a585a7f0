/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Costs of a run, from the kernel's accounts: wait4(2) for the two processes, from their beginning
 * to their end, /proc/stat for the machine (proc(5), in ticks of 10 ms: only long runs tell),
 * /proc/net/dev for bytes. A kernel may charge the work of receiving to whoever runs, as softirq:
 * so the machine's share is there, too. All that cannot be read counts as 0.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
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

static double us_of(const struct timeval *time)
{
	return (double)time->tv_sec * 1e6 + (double)time->tv_usec;
}

int bench_cost_wait(int pid, int *status, double *user, double *system)
{
	struct rusage used;

	while (wait4(pid, status, 0, &used) < 0)
		if (errno != EINTR)
			return -errno;
	*user = us_of(&used.ru_utime);
	*system = us_of(&used.ru_stime);
	return 0;
}
