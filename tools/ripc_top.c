/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "ripc top": what the contexts of this user do, again and again, until somebody presses q.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include "look/top.h"
#include "ripc_tool.h"

#define ANSWER_MS 300 /* as long a context may take to write its page */
#define INTERVAL_MS 1000

static const char usage_text[] =
	"usage: ripc top [--json] [--once] [--interval MS]\n"
	"\n"
	"Shows all contexts of this user on this host (root: of all users): rates, memory,\n"
	"drops by cause, services, and partners with path, round trip and window. Press q to\n"
	"quit.\n"
	"\n"
	"  --once          print one sample, without rates, and exit; with --interval, print a\n"
	"                  second sample after that time instead, with rates\n"
	"  --interval MS   time between samples (default 1000)\n"
	"  --json          one JSON object per context and sample\n";

struct top {
	struct look look;
	int interval_ms, json, once;
	int has_rates;            /* of once: a look goes before, for the rates */
	int on_terminal;          /* of the output */
	int has_keys;             /* the input is a terminal, too */
	struct termios before;
};

static volatile sig_atomic_t is_ending; /* a signal has come that would end the program */

static void end(int number)
{
	(void)number;
	is_ending = 1;
}

/* Keys count at once, and are not shown. */
static void keys_open(struct top *top)
{
	struct termios raw;

	top->has_keys = top->on_terminal && tcgetattr(STDIN_FILENO, &top->before) == 0;
	if (!top->has_keys)
		return;
	/* The terminal is to be as before, however this ends. */
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = end}, NULL);
	sigaction(SIGHUP, &(struct sigaction){.sa_handler = end}, NULL);
	raw = top->before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG); /* Ctrl-C is a key, too */
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	fputs("\033[?1049h\033[?25l", stdout); /* a screen of our own, without a cursor */
}

static void keys_close(struct top *top)
{
	if (!top->has_keys)
		return;
	fputs("\033[?25h\033[?1049l", stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &top->before);
}

static void show(struct top *top)
{
	struct winsize size = {0};

	if (top->json) {
		top_json(stdout, &top->look);
		return;
	}
	if (!top->on_terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		size = (struct winsize){.ws_row = 0, .ws_col = 400};
	if (top->has_keys)
		fputs("\033[H\033[J", stdout); /* from the upper left, on an empty screen */
	top_screen(stdout, &top->look, top->once ? 0 : size.ws_row, size.ws_col);
}

/* Waits for the next look. False: the user wants no more. */
static bool pause_for_keys(struct top *top)
{
	struct pollfd input = {.fd = top->has_keys ? STDIN_FILENO : -1, .events = POLLIN};
	uint64_t until_ns = tool_now_ns() + (uint64_t)top->interval_ms * 1000000u, now_ns;
	char key;

	while (!is_ending && (now_ns = tool_now_ns()) < until_ns) {
		if (poll(&input, 1, (int)((until_ns - now_ns) / 1000000u) + 1) <= 0)
			continue;
		if (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 3)
			return false;
	}
	return !is_ending;
}

static int run(struct top *top)
{
	int error;

	top->on_terminal = isatty(STDOUT_FILENO) && !top->json && !top->once;
	keys_open(top);
	do {
		error = look_update(&top->look, ANSWER_MS);
		if (!error && top->has_rates && pause_for_keys(top))
			error = look_update(&top->look, ANSWER_MS);
		if (!error)
			show(top);
		if (!error && fflush(stdout))
			error = -errno;
	} while (!error && !top->once && pause_for_keys(top));
	keys_close(top);
	look_end(&top->look);
	return error ? tool_failed(PROGRAM, "cannot read contexts", error) : TOOL_OK;
}

int ripc_top_main(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"once", no_argument, NULL, 'o'},
		{"interval", required_argument, NULL, 'i'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	static struct top top;
	uint64_t interval_ms = 0;
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
		if (option == 'h') {
			fputs(usage_text, stdout);
			return TOOL_OK;
		}
		if (option == 'j') {
			top.json = 1;
		} else if (option == 'o') {
			top.once = 1;
		} else if (option != 'i' ||
				tool_parse_number(optarg, 50, 3600000, &interval_ms) < 0) {
			tool_bad_value(PROGRAM, optarg);
			return usage_error(usage_text, "invalid option");
		}
	}
	if (optind < argc)
		return usage_error(usage_text, "no argument is allowed");
	top.has_rates = top.once && interval_ms;
	top.interval_ms = interval_ms ? (int)interval_ms : INTERVAL_MS;
	return run(&top);
}
