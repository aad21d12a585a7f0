/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kill -9 of a partner at each named step of the protocol and at random moments, and stopping
 * and continuing it. The survivor's calls end within their deadlines with a documented code: none
 * hangs, and of those that last until their deadline half are hardly late, as the machine may be
 * busy with other things; afterwards it works with the restarted partner, under the same service
 * ID; and nothing is left behind. A point that is never reached fails the test.
 *
 * usage: faults-kill client|server [--reads] [--full]    what the survivor is; --reads: letters are
 *                                               read, not pulled; RIPC_TEST_SEED repeats a run
 *        faults-kill cycles [--full]           a partner starts and is killed, again and again
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault.h"
#include "kill.h"

/* A call to a partner that lives, as far as the survivor knows. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DEADLINE_MS 3000u
#else
#define DEADLINE_MS 1000u
#endif
#define DEAD_MS     300u   /* of a call to one that is dead */
#define SLACK_MS    12000u /* a call that takes so much longer than its deadline hangs */
#define PATIENCE_MS 15000u
#define LATE_MS     (DEADLINE_MS / 5) /* half of the calls that time out are not later */
#define EARLY_MS    (DEADLINE_MS / 20) /* and a quarter of them not later than this */
#define LATE_LEAST  5u     /* of so many, at least, it can be said */
#define LATE_MAX    4096u  /* that are counted */

/* How much later than their deadlines the calls ended that did not end before. */
struct lateness {
	const char *call;
	uint32_t n, ms[LATE_MAX];
};

static struct lateness sends_late = {.call = "sends"}, receives_late = {.call = "receives"};

enum role { ROLE_CLIENT, ROLE_SERVER }; /* of the survivor */

struct driver {
	struct ripc_context *ctx;
	struct ripc_service *svc, *probe;
	struct ripc__env env;
	char *bytes;
	struct tally tally;
	uint32_t number, life; /* of the next letter, and of the victim */
	int victim, ready;
	bool victim_died;
	int victim_status;
	const char *what; /* the case, in words */
	uint32_t deadline_ms;
	int error; /* how the last exchange that failed has ended; -ENOMSG: no answer */
	uint32_t retries; /* exchanges after a restart that had to be tried again */
	uint32_t answered; /* letters of this conversation */
	bool was_again;    /* the last exchange had to be tried again */
};

/* Totals: exchanges, and those with living partners that should not have needed a retry. */
static uint32_t n_exchanges, n_again;

static const struct point {
	const char *name;
	uint32_t most; /* passings in one conversation, at least */
	bool of_pulling; /* not passed where letters are read */
} points[] = {
	{"announced", 10, false}, {"first_grant", 10, true}, {"mid_data", 10, true},
	{"last_data", 10, true}, {"before_checksum", 10, false}, {"before_done", 10, false},
	{"after_done", 10, false}, {"in_hello", 1, false}, {"in_resolve", 1, false},
	{"in_close", 2, false},
};

#define N_POINTS (sizeof(points) / sizeof(points[0]))

/* ---- the victim's life ------------------------------------------------------------------- */

static void victim_start(struct driver *driver, const char *role, const char *point, uint32_t n)
{
	char passings[16], letters[16], life[16];
	const char *argv[] = {"faults-kill", "--victim", role, point, passings, letters, life,
		NULL};
	struct pollfd poller = {.events = POLLIN};

	snprintf(passings, sizeof(passings), "%u", n);
	snprintf(letters, sizeof(letters), "%u", strcmp(point, "random") ? LETTERS : NUMBERS - 1);
	snprintf(life, sizeof(life), "%u", ++driver->life);
	driver->victim_died = false;
	driver->victim = fault_spawn(argv, &driver->ready);
	poller.fd = driver->ready;
	/* Ready, or dead already. */
	if (poll(&poller, 1, (int)PATIENCE_MS) != 1)
		fault_fail("%s: the victim does not start", driver->what);
}

static bool victim_is_dead(struct driver *driver, uint64_t patience_ms)
{
	uint64_t until_ms = fault_now_ms() + patience_ms;
	siginfo_t info;

	do {
		info.si_pid = 0;
		if (waitid(P_PID, (id_t)driver->victim, &info, WEXITED | WNOHANG | WNOWAIT))
			fault_fail("waitid: %s", strerror(errno));
		if (info.si_pid == 0 && patience_ms)
			usleep(1000);
	} while (info.si_pid == 0 && fault_now_ms() < until_ms);
	return info.si_pid != 0;
}

static void victim_reap(struct driver *driver)
{
	driver->victim_status = fault_await(driver->victim, PATIENCE_MS);
	close(driver->ready);
}

/* ---- the survivor's calls ---------------------------------------------------------------- */

/* A call has ended. */
static void check_in_time(const struct driver *driver, uint64_t began_ms, uint32_t deadline_ms,
		struct lateness *lateness)
{
	uint64_t took_ms = fault_now_ms() - began_ms;

	if (took_ms > deadline_ms + SLACK_MS)
		fault_fail("%s: one of the %s took %llu ms, its deadline was %u", driver->what,
			lateness->call, (unsigned long long)took_ms, deadline_ms);
	if (took_ms >= deadline_ms && lateness->n < LATE_MAX)
		lateness->ms[lateness->n++] = (uint32_t)(took_ms - deadline_ms);
}

static int by_number(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return a < b ? -1 : a > b;
}

static void check_lateness(struct lateness *lateness)
{
	uint32_t quarter, median, n = lateness->n;

	if (n == 0)
		return;
	qsort(lateness->ms, n, sizeof(lateness->ms[0]), by_number);
	quarter = lateness->ms[n / 4];
	median = lateness->ms[n / 2];
	printf("%u %s lasted until their deadlines: ended %u ms after them (median), %u at most\n",
		n, lateness->call, median, lateness->ms[n - 1]);
	if (n >= LATE_LEAST && quarter > EARLY_MS)
		fault_fail("three in four %s are more than %u ms late", lateness->call, EARLY_MS);
	if (n >= LATE_LEAST && median > LATE_MS)
		fault_fail("half of the %s are more than %u ms late", lateness->call, LATE_MS);
}

static int send_letter(struct driver *driver, uint64_t to, struct letter letter)
{
	enum ripc_outcome outcome = 0;
	struct iovec items[2];
	struct ripc_send send = {.size = sizeof(send), .to = to, .items = items, .n_items = 2,
		.flags = RIPC_SEND_LONG, .timeout_ms = (int32_t)driver->deadline_ms,
		.cookie = letter.number};
	uint64_t began_ms = fault_now_ms();
	int error;

	letter_pack(items, &letter, driver->bytes);
	error = ripc_sendmsg(driver->svc, &send, &outcome);
	check_in_time(driver, began_ms, driver->deadline_ms, &sends_late);
	if (!fault_documented(error, outcome))
		fault_fail("%s: a send ended with %d (%s), outcome %d", driver->what, error,
			ripc_strerror(error), outcome);
	return error;
}

/* The next long message; notices are checked and passed over. False: none came. */
static bool receive_letter(struct driver *driver, int timeout_ms, struct letter *letter,
		uint64_t *from)
{
	bool got = false;
	int error = 0;

	while (!got && !error) {
		uint64_t began_ms = fault_now_ms();
		struct ripc_msg *msg;

		error = ripc_receive(driver->svc, timeout_ms, &msg);
		check_in_time(driver, began_ms, (uint32_t)timeout_ms, &receives_late);
		if (error)
			break;
		got = msg->kind == RIPC_LONG;
		if (got && letter_read(msg, &driver->tally, letter))
			fault_fail("%s: got a letter that is broken, or twice", driver->what);
		if (msg->kind == RIPC_NOTICE && msg->status)
			fault_fail("%s: a notice says %d", driver->what, msg->status);
		*from = msg->from;
		ripc_msg_free(msg);
	}
	if (!got && error != -ETIMEDOUT)
		fault_fail("%s: a receive ended with %d", driver->what, error);
	return got;
}

/* A letter there and its answer back. A delivered letter is answered within patience_ms. */
static bool exchange(struct driver *driver, uint64_t patience_ms)
{
	const struct letter letter = {.number = ++driver->number, .life = driver->life};
	struct letter answer = {0};
	uint64_t from, until_ms;

	driver->error = send_letter(driver, fault_id(SERVICE_VICTIM), letter);
	if (driver->error)
		return false;
	driver->error = -ENOMSG;
	until_ms = fault_now_ms() + patience_ms;
	while (answer.number != letter.number || answer.life != letter.life) {
		if (!receive_letter(driver, (int)driver->deadline_ms, &answer, &from) &&
				(victim_is_dead(driver, 0) || fault_now_ms() >= until_ms))
			return false;
	}
	driver->answered++;
	driver->was_again = false;
	n_exchanges++;
	return true;
}

/* An exchange with who lives has failed: it will be tried again, which counts where it should not
 * happen unless the machine stops one of us. */
static void exchange_again(struct driver *driver, bool counts)
{
	if (driver->error == -ENOMSG)
		fault_fail("%s: a living victim does not answer what it was given", driver->what);
	printf("%s: tried again: %s\n", driver->what, ripc_strerror(driver->error));
	n_again += counts && !driver->was_again;
	driver->was_again |= counts;
	usleep(10000);
}

/*
 * An exchange with a victim that may be killed in it. If it lives, the machine may have stopped
 * one of us for so long that the letter was not delivered, and that seldom.
 */
static void exchange_or_die(struct driver *driver)
{
	if (exchange(driver, PATIENCE_MS) || victim_is_dead(driver, DEADLINE_MS))
		return;
	if (driver->error == -EHOSTUNREACH || driver->error == -ENETDOWN)
		fault_fail("%s: a living victim does not answer: %s", driver->what,
			ripc_strerror(driver->error));
	exchange_again(driver, true);
}

/* With a partner that has begun, or goes on, and lives; that it is here must be known. */
static void exchange_surely(struct driver *driver)
{
	uint64_t until_ms = fault_now_ms() + PATIENCE_MS;

	while (!exchange(driver, PATIENCE_MS)) {
		exchange_again(driver, driver->error == -ENOENT);
		if (fault_now_ms() > until_ms || victim_is_dead(driver, 0))
			fault_fail("%s: a living partner cannot be reached", driver->what);
		driver->retries++;
	}
}

/* Takes what comes and answers it: again, if the machine has stopped one of us for a while. */
static bool serve(struct driver *driver, int timeout_ms)
{
	uint64_t until_ms, from;
	struct letter letter;
	uint32_t tries = 0;
	int error;

	if (!receive_letter(driver, timeout_ms, &letter, &from))
		return false;
	until_ms = fault_now_ms() + PATIENCE_MS;
	letter.is_answer = ANSWER;
	while ((error = send_letter(driver, from, letter)) && !victim_is_dead(driver, 100)) {
		if (fault_now_ms() > until_ms)
			fault_fail("%s: a living victim cannot be answered: %s", driver->what,
				ripc_strerror(error));
		if (error == -ECONNRESET)
			letter.is_answer = ANSWER_AGAIN;
		n_again += tries++ == 0;
	}
	n_exchanges += !error;
	return true;
}

static void say_stop(struct driver *driver)
{
	const struct stop stop = {{'s', 't', 'o', 'p'}, driver->life};
	const struct iovec item = {(void *)(uintptr_t)&stop, sizeof(stop)};
	int error = ripc_send_short(driver->svc, fault_id(SERVICE_VICTIM), &item, 1);

	if (error && error != -EAGAIN && error != -ENOENT)
		fault_fail("%s: a short ended with %d", driver->what, error);
}

static void driver_open(struct driver *driver, const char *what)
{
	struct ripc_config cfg = fault_config();

	memset(driver, 0, sizeof(*driver));
	driver->what = what;
	driver->deadline_ms = DEADLINE_MS;
	driver->bytes = malloc(LETTER_LEN);
	ripc__env_init(&driver->env);
	fault_open(&driver->env, &cfg, &driver->ctx);
	if (ripc_service_open(driver->ctx, fault_id(SERVICE_DRIVER), 0, &driver->svc) ||
			ripc_service_open(driver->ctx, fault_id(SERVICE_PROBE), 0, &driver->probe))
		fault_fail("%s: the survivor has no service", what);
}

static void driver_close(struct driver *driver)
{
	int error = ripc_close(driver->ctx, (int)DEADLINE_MS);

	if (error && error != -ETIMEDOUT)
		fault_fail("%s: the survivor cannot close: %d", driver->what, error);
	free(driver->bytes);
}

/* ---- conversations ----------------------------------------------------------------------- */

/* Until the victim is dead or, having been told to, has ended. */
static void converse(struct driver *driver, enum role role)
{
	const struct iovec hello = {"hello", 5};
	uint64_t until_ms = fault_now_ms() + 4 * PATIENCE_MS;

	ripc_send_short(driver->probe, fault_id(SERVICE_VICTIM), &hello, 1);
	while (!victim_is_dead(driver, 0)) {
		if (fault_now_ms() > until_ms)
			fault_fail("%s: the conversation has no end: %s", driver->what,
				ripc_strerror(driver->error));
		if (role == ROLE_SERVER)
			serve(driver, 20);
		else if (driver->answered < LETTERS)
			exchange_or_die(driver);
		else
			say_stop(driver);
	}
	victim_reap(driver);
}

/* The survivor's actions after the victim died: one more call to the dead, then the restart. */
static void after_death(struct driver *driver, enum role role)
{
	const struct letter letter = {.number = NUMBERS - 1, .life = driver->life};

	driver->deadline_ms = DEAD_MS;
	if (send_letter(driver, fault_id(SERVICE_VICTIM), letter) == 0)
		fault_fail("%s: delivered to the dead", driver->what);
	driver->deadline_ms = DEADLINE_MS;
	if (role == ROLE_CLIENT) {
		victim_start(driver, "serve", "none", 0);
		exchange_surely(driver);
		driver->answered = LETTERS; /* no more letters, only the stop */
	} else {
		victim_start(driver, "call", "none", 0);
	}
	converse(driver, role);
	if (!WIFEXITED(driver->victim_status) || WEXITSTATUS(driver->victim_status))
		fault_fail("%s: the restarted partner ended with %#x", driver->what,
			driver->victim_status);
}

static void check_killed(const struct driver *driver)
{
	if (WIFSIGNALED(driver->victim_status) && WTERMSIG(driver->victim_status) == SIGKILL)
		return;
	fault_fail("%s: the victim was not killed (status %#x): the point was not reached",
		driver->what, driver->victim_status);
}

static uint32_t kill_at_point(enum role role, const struct point *point, uint32_t n)
{
	static struct driver driver;
	struct fault_left before = fault_left_now();
	char what[64];

	snprintf(what, sizeof(what), "kill at %s, passing %u, survivor is %s", point->name, n,
		role == ROLE_CLIENT ? "client" : "server");
	driver_open(&driver, what);
	victim_start(&driver, role == ROLE_CLIENT ? "serve" : "call", point->name, n);
	converse(&driver, role);
	check_killed(&driver);
	after_death(&driver, role);
	driver_close(&driver);
	fault_left_check(&before, what);
	return driver.retries;
}

struct killer {
	pthread_t thread;
	int pid;
	uint32_t delay_us;
};

static void *killer_main(void *arg)
{
	const struct killer *killer = arg;

	usleep(killer->delay_us);
	kill(killer->pid, SIGKILL);
	return NULL;
}

static uint32_t kill_at_random(enum role role, uint32_t delay_us)
{
	static struct driver driver;
	struct fault_left before = fault_left_now();
	struct killer killer = {.delay_us = delay_us};
	char what[64];

	snprintf(what, sizeof(what), "kill after %u us, survivor is %s", delay_us,
		role == ROLE_CLIENT ? "client" : "server");
	driver_open(&driver, what);
	victim_start(&driver, role == ROLE_CLIENT ? "serve" : "call", "random", 0);
	killer.pid = driver.victim;
	if (pthread_create(&killer.thread, NULL, killer_main, &killer))
		fault_fail("no thread");
	/* As long as it lives, so that it is not told to end before it is killed. */
	while (role == ROLE_CLIENT && !victim_is_dead(&driver, 0))
		exchange_or_die(&driver);
	converse(&driver, role);
	pthread_join(killer.thread, NULL);
	check_killed(&driver);
	driver.number = 0;
	after_death(&driver, role);
	driver_close(&driver);
	fault_left_check(&before, what);
	return driver.retries;
}

/* ---- stop and continue ------------------------------------------------------------------- */

static void stop_and_continue(uint32_t delay_us)
{
	static struct driver driver;
	struct fault_left before = fault_left_now();
	char what[64];

	snprintf(what, sizeof(what), "stop after %u us", delay_us);
	driver_open(&driver, what);
	victim_start(&driver, "serve", "none", 0);
	exchange_surely(&driver);
	/* In the midst of a letter, or between two. */
	usleep(delay_us);
	kill(driver.victim, SIGSTOP);
	driver.deadline_ms = DEAD_MS;
	if (exchange(&driver, DEAD_MS))
		fault_fail("%s: a stopped partner answered", what);
	driver.deadline_ms = DEADLINE_MS;
	kill(driver.victim, SIGCONT);
	exchange_surely(&driver);
	driver.answered = LETTERS;
	converse(&driver, ROLE_CLIENT);
	if (!WIFEXITED(driver.victim_status) || WEXITSTATUS(driver.victim_status))
		fault_fail("%s: the continued partner ended with %#x", what, driver.victim_status);
	driver_close(&driver);
	fault_left_check(&before, what);
}

/* ---- restart cycles ---------------------------------------------------------------------- */

/* Names of memory that is, or was, shared. */
static uint32_t mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];
	uint32_t n = 0;

	while (file && fgets(line, sizeof(line), file))
		n += strstr(line, "memfd:libripc") || strstr(line, "/dev/zero");
	if (file)
		fclose(file);
	return n;
}

/* A partner that talks, and then is gone; every other one has no time to say so. */
static void cycle(struct driver *driver, uint32_t i)
{
	victim_start(driver, "serve", "none", 0);
	exchange_surely(driver);
	/* Not more often than needed: a stop that is held would be for the next one. */
	if (i % 2)
		say_stop(driver);
	if (i % 2 == 0 || !victim_is_dead(driver, DEADLINE_MS))
		kill(driver->victim, SIGKILL);
	victim_reap(driver);
	if (WIFEXITED(driver->victim_status) && WEXITSTATUS(driver->victim_status))
		fault_fail("%s: partner %u ended with %#x", driver->what, i, driver->victim_status);
}

static void cycles(uint32_t n)
{
	static struct driver driver;
	struct fault_left closed = fault_left_now(), before = closed;
	uint32_t maps = 0;

	driver_open(&driver, "restart cycles");
	for (uint32_t i = 0; i < n; i++) {
		cycle(&driver, i);
		driver.number = 0;
		/* By then the pool has what it keeps. */
		if (i != 20)
			continue;
		maps = mappings();
		before = fault_left_now();
	}
	fault_left_check(&before, "after restart cycles");
	/* The descriptor of a dead link is closed a little before its memory is unmapped. */
	for (int i = 0; i < 1000 && mappings() > maps + maps / 4; i++)
		usleep(10000);
	if (mappings() > maps + maps / 4)
		fault_fail("%u mappings after 20 cycles, %u after %u", maps, mappings(), n);
	driver_close(&driver);
	fault_left_check(&closed, "after restart cycles, closed");
	printf("%u restart cycles, %u exchanges had to be tried again, %u mappings\n", n,
		driver.retries, maps);
}

/* ---- all cases --------------------------------------------------------------------------- */

static bool is_passed(const struct point *point, bool reads)
{
	return !(reads && point->of_pulling);
}

static uint32_t all_points(enum role role, bool reads, uint32_t repetitions, uint64_t *random)
{
	uint32_t retries = 0;

	for (uint32_t i = 0; i < repetitions; i++) {
		for (uint32_t p = 0; p < N_POINTS; p++) {
			uint32_t n = 1 + (uint32_t)(fault_random(random) % points[p].most);

			/* The very first time is the most likely to be different. */
			n = i == 0 && repetitions > 1 ? 1 : n;
			if (is_passed(&points[p], reads))
				retries += kill_at_point(role, &points[p], n);
		}
	}
	return retries;
}

/* A busy machine stops a process now and then; what happens more often has another cause. */
static void check_again(void)
{
	printf("%u exchanges, with the living %u had to be tried again\n", n_exchanges, n_again);
	if (n_again > 3 + n_exchanges / 50)
		fault_fail("too many letters to the living were not delivered at once");
}

/* Descriptors that a library beneath opens once, for the life of the process, are no leak. */
static void open_once(void)
{
	struct ripc_context *ctx;

	if (ripc_open(NULL, &ctx) == 0)
		ripc_close(ctx, 1000);
}

int main(int argc, char **argv)
{
	bool full = fault_full(argc, argv), reads = argc > 2 && strcmp(argv[2], "--reads") == 0;
	uint32_t each = full ? 10 : 1, moments = full ? 100 : reads ? 10 : 5;
	uint32_t stops = full ? 20 : 2, n_points = 0, retries;
	enum role role;
	uint64_t random;

	if (argc == 7 && strcmp(argv[1], "--victim") == 0)
		return victim_main(argv);
	open_once();
	/* A software EFA device of the victims is on another host, as partners over EFA are. */
	setenv("SOFTEFA_HOST", "2", 1);
	if (argc >= 2 && strcmp(argv[1], "cycles") == 0) {
		cycles(full ? 1000 : 60);
		check_again();
		check_lateness(&sends_late);
		check_lateness(&receives_late);
		return 0;
	}
	if (argc < 2 || (strcmp(argv[1], "client") && strcmp(argv[1], "server"))) {
		fprintf(stderr, "usage: %s client|server|cycles [--reads] [--full]\n", argv[0]);
		return 2;
	}
	role = strcmp(argv[1], "client") == 0 ? ROLE_CLIENT : ROLE_SERVER;
	random = fault_seed();
	retries = all_points(role, reads, each, &random);
	for (uint32_t p = 0; p < N_POINTS; p++)
		n_points += is_passed(&points[p], reads);
	for (uint32_t i = 0; i < moments; i++)
		retries += kill_at_random(role, (uint32_t)(fault_random(&random) % 40000));
	for (uint32_t i = 0; role == ROLE_CLIENT && i < stops; i++)
		stop_and_continue((uint32_t)(fault_random(&random) % 2000));
	printf("%u kills at each of %u named points, %u at random moments; "
		"%u exchanges after a restart had to be tried again\n", each, n_points, moments,
		retries);
	check_again();
	check_lateness(&sends_late);
	check_lateness(&receives_late);
	return 0;
}
