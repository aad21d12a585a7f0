/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine of a measurement and its disturbances: the longest pauses of a loop that does nothing
 * but read the clock (another process, the host of a virtual machine, interrupts).
 */
#include <string.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include "bench.h"

#define NOISE_NS    50000000u
#define CLOCK_READS 10000u
#define GAPS_MAX    4096u
#define GAP_NS	    1000u /* reading the clock takes less */

static void read_processor(char *name, size_t len)
{
	FILE *stream = fopen("/proc/cpuinfo", "r");
	char line[256], *value;

	snprintf(name, len, "unknown");
	while (stream && fgets(line, sizeof(line), stream)) {
		value = strchr(line, ':');
		if (strncmp(line, "model name", 10) != 0 || !value)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(name, len, "%s", value + 2);
		break;
	}
	if (stream)
		fclose(stream);
}

static void measure_clock(struct bench_machine *machine)
{
	uint64_t begin_ns = tool_now_ns();
	unsigned int i;

	for (i = 0; i < CLOCK_READS; i++)
		tool_now_ns();
	machine->clock_ns = (double)(tool_now_ns() - begin_ns) / CLOCK_READS;
}

static void measure_noise(struct bench_machine *machine)
{
	static double gaps_us[GAPS_MAX];
	uint64_t begin_ns = tool_now_ns(), last_ns = begin_ns, now_ns;
	size_t n = 0;

	do {
		now_ns = tool_now_ns();
		if (now_ns - last_ns > GAP_NS && n < GAPS_MAX)
			gaps_us[n++] = (double)(now_ns - last_ns) / 1e3;
		last_ns = now_ns;
	} while (now_ns - begin_ns < NOISE_NS);
	tool_sort(gaps_us, n);
	machine->gap_p99_us = tool_percentile(gaps_us, n, 0.99);
	machine->gap_us = n ? gaps_us[n - 1] : 0;
}

void bench_machine(struct bench_machine *machine)
{
	time_t now = time(NULL);
	struct utsname names;
	struct tm utc;

	memset(machine, 0, sizeof(*machine));
	read_processor(machine->processor, sizeof(machine->processor));
	if (uname(&names) == 0) {
		snprintf(machine->kernel, sizeof(machine->kernel), "%.20s %.70s", names.sysname,
			names.release);
		snprintf(machine->host, sizeof(machine->host), "%.60s", names.nodename);
	}
	strftime(machine->date, sizeof(machine->date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
	machine->processors = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
	machine->memory_gib = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) /
			      (1u << 30);
	if (getloadavg(&machine->load, 1) != 1)
		machine->load = -1;
	measure_clock(machine);
	measure_noise(machine);
}

void bench_machine_json(FILE *stream, const struct bench_machine *machine)
{
	fputs("{\"machine\":{\"processor\":", stream);
	tool_json_string(stream, machine->processor);
	fputs(",\"kernel\":", stream);
	tool_json_string(stream, machine->kernel);
	fputs(",\"host\":", stream);
	tool_json_string(stream, machine->host);
	fprintf(stream,
		",\"date\":\"%s\",\"processors\":%u,\"memory_gib\":%.1f,\"load\":%.2f,"
		"\"clock_ns\":%.1f,\"noise_p99_us\":%.2f,\"noise_most_us\":%.2f}}\n",
		machine->date, machine->processors, machine->memory_gib, machine->load,
		machine->clock_ns, machine->gap_p99_us, machine->gap_us);
}
