/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kill -9 and SIGSTOP of a partner at each named point of the shm backend and of the protocol over
 * it, while messages of all kinds go both ways; now and then a child of the dead one lives on with
 * its descriptors. The survivor's calls end within their deadlines
 * with a documented code; it goes on with a third partner, which has been there all the time, and
 * with the restarted or continued one; descriptors, names, mappings and memory are as before. A
 * point that is not reached fails the test.
 *
 * usage: faults-points client|server [--full]   what the survivor is; RIPC_TEST_SEED repeats a run
 *        faults-points client|server --count    how often a conversation passes each point
 *        faults-points client|server --only POINT N    at one point, so often
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault.h"
#include "points.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DEADLINE_MS 1500u
#else
#define DEADLINE_MS 300u
#endif
#define DEAD_MS     100u /* of a call to one that is dead */
#define STOPPED_MS  350u /* for so long: more than the partner's time-out */
#define WORKERS     7u   /* workers mostly wait */
#define LIVES_MAX   5    /* of victims, until one gets to the point */

enum role { ROLE_CLIENT, ROLE_SERVER }; /* of the survivor */
enum state { LIVES, STOPPED, ENDED };   /* of the victim */

/* Points, and how often a conversation passes each at least, in either role. */
static const struct point {
	const char *name;
	uint32_t most;
} points[] = {
	/* of the protocol */
	{"announced", 10}, {"first_grant", 2}, {"mid_data", 3}, {"last_data", 2},
	{"before_checksum", 8}, {"before_done", 8}, {"after_done", 8}, {"in_hello", 1},
	{"in_resolve", 3}, {"in_close", 1},
	/* a port, and its links to others */
	{"pages_made", 1}, {"port_opened", 1}, {"socket_made", 2}, {"connected", 2},
	{"hello_sent", 2}, {"link_begun", 2}, {"early_sent", 2},
	{"offer_taken", 2}, {"offer_half_mapped", 2}, {"linked", 2},
	/* links from others */
	{"accepted", 2}, {"admitted", 2}, {"greeted", 2}, {"ring_made", 2}, {"offer_sent", 2},
	{"ring_entered", 2}, {"socket_taken", 8}, {"sockets_ready", 8},
	/* rings */
	{"slot_filled", 8}, {"area_filled", 200}, {"ring_published", 200}, {"ring_refreshed", 6},
	{"ring_found", 200}, {"slot_copied", 8}, {"area_copied", 200}, {"ring_told", 200},
	/* waking and sleeping */
	{"wake_due", 2}, {"wake_sent", 2}, {"futex_due", 2}, {"futex_counted", 2},
	{"futex_woken", 2}, {"sleep_told", 20}, {"armed", 20}, {"futex_sleeps", 4}, {"slept", 4},
	/* our memory for others, and what they hold of it */
	{"page_made", 2}, {"table_sent", 1}, {"claims_sent", 1}, {"slab_sent", 5},
	{"key_entered", 5}, {"key_opened", 5}, {"key_closed", 3}, {"hand_closed", 3},
	{"handed", 2}, {"came_home", 1}, {"home_settled", 1}, {"slab_trimmed", 2},
	{"keys_ended", 1},
	/* their memory for us */
	{"table_mapped", 1}, {"claims_mapped", 1}, {"claims_pledged", 1}, {"slab_dropped", 4},
	{"slab_mapped", 4},
	{"read_posted", 3}, {"read_copied", 3}, {"read_ended", 3},
	{"map_located", 3}, {"map_claimed", 3}, {"map_confirmed", 3}, {"mapped", 3},
	{"unmap_begun", 2}, {"unclaimed", 2}, {"unmapped", 2},
	/* ends */
	{"in_ended", 1}, {"reap_due", 1}, {"ring_closed", 1}, {"imports_ended", 1},
	{"out_closed", 1}, {"out_cut", 1},
	{"port_closing", 1}, {"handed_freed", 1}, {"links_closed", 1}, {"sockets_closed", 1},
	{"pages_closed", 1},
};

#define N_POINTS (sizeof(points) / sizeof(points[0]))

struct driver {
	struct talker talker;
	struct left before;
	uint32_t lives, tried_again;
	enum role role;
	int companion, companion_ready;
	struct victim {
		int pid, ready;
		bool was_ready;
		int status;    /* as of waitpid() */
		char name[64]; /* of its port */
	} victim;
	char what[96]; /* the case, in words */
};

/* ---- the other processes ----------------------------------------------------------------- */

static int start(struct driver *driver, const char *role, const char *point, uint32_t n,
		const char *signal, uint32_t service, int *ready)
{
	char passings[16], number[16], life[16];
	const char *argv[] = {"faults-points", "--victim", role, point, passings, signal, number,
		life, NULL};

	snprintf(passings, sizeof(passings), "%u", n);
	snprintf(number, sizeof(number), "%u", service);
	snprintf(life, sizeof(life), "%u", ++driver->lives);
	return fault_spawn(argv, ready);
}

static enum state state_of(const struct driver *driver)
{
	siginfo_t info = {.si_pid = 0};

	if (waitid(P_PID, (id_t)driver->victim.pid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT))
		fault_fail("%s: waitid: %s", driver->what, strerror(errno));
	if (info.si_pid == 0)
		return LIVES;
	return info.si_code == CLD_STOPPED ? STOPPED : ENDED;
}

static void victim_start(struct driver *driver, const char *point, uint32_t n, const char *signal)
{
	const char *role = driver->role == ROLE_CLIENT ? "serve" : "call";

	talk_tidy(&driver->talker);
	driver->victim = (struct victim){.was_ready = false};
	driver->victim.pid = start(driver, role, point, n, signal, SERVICE_VICTIM,
		&driver->victim.ready);
}

/* False: it has died or stopped before. */
static bool victim_is_ready(struct driver *driver)
{
	struct victim *victim = &driver->victim;
	struct pollfd poller = {.fd = victim->ready, .events = POLLIN};
	uint64_t until_ms = fault_now_ms() + PATIENCE_MS;
	char byte;

	while (!victim->was_ready && state_of(driver) == LIVES) {
		if (poll(&poller, 1, 5) == 1 && read(victim->ready, &byte, 1) == 1) {
			victim->was_ready = true;
			left_port_name(victim->pid, victim->name);
		}
		if (fault_now_ms() > until_ms)
			fault_fail("%s: the victim does not start", driver->what);
	}
	return victim->was_ready;
}

/* The victim is dead; its child, if it has left one, ends with this. */
static void victim_forget(const struct driver *driver, const struct victim *victim)
{
	uint64_t until_ms = fault_now_ms() + PATIENCE_MS;

	close(victim->ready);
	while (victim->name[0] && left_name_exists(victim->name)) {
		if (fault_now_ms() > until_ms)
			fault_fail("%s: the name %s is still there", driver->what, victim->name);
		usleep(1000);
	}
}

static void victim_reap(struct driver *driver)
{
	driver->victim.status = fault_await(driver->victim.pid, PATIENCE_MS);
}

/* The process has ended by itself. */
static void victim_end(struct driver *driver)
{
	victim_reap(driver);
	if (!WIFEXITED(driver->victim.status) || WEXITSTATUS(driver->victim.status))
		fault_fail("%s: the victim ended with %#x", driver->what, driver->victim.status);
	victim_forget(driver, &driver->victim);
}

/* ---- conversations ----------------------------------------------------------------------- */

/* Until it is answered; each time that it is not, there is more time for the next answer. */
static int ask(struct driver *driver, uint32_t service, enum kind kind)
{
	struct talker *talker = &driver->talker;
	uint64_t until_ms = fault_now_ms() + PATIENCE_MS;
	int error = -ENOMSG;

	while (error && (service != SERVICE_VICTIM || state_of(driver) == LIVES)) {
		error = talk_ask(talker, fault_id(service), kind);
		driver->tried_again += error != 0;
		if (error == -ENOENT)
			talk_serve(talker, 5);
		if (error && talker->deadline_ms < PATIENCE_MS / 8)
			talker->deadline_ms *= 2;
		if (error && fault_now_ms() > until_ms)
			fault_fail("%s: service %u does not answer question %u: %s", driver->what,
				service, (uint32_t)kind, ripc_strerror(error));
	}
	talker->deadline_ms = DEADLINE_MS;
	return error;
}

/* Asks a partner in all ways. False: the victim has died or stopped; a companion does neither. */
static bool ask_all(struct driver *driver, uint32_t service)
{
	for (uint32_t kind = 0; kind < KINDS; kind++) {
		if (ask(driver, service, kind))
			return false;
	}
	return true;
}

/* Another context, which soon is gone again, with what it was given. */
static void visit(struct driver *driver)
{
	static struct talker visitor;

	memset(&visitor, 0, sizeof(visitor));
	ripc__env_init(&visitor.env);
	visitor.is_host = true;
	talk_open(&visitor, 0, ++driver->lives, DEADLINE_MS);
	talk_ask(&visitor, fault_id(SERVICE_VICTIM), KIND_SHORT);
	talk_ask(&visitor, fault_id(SERVICE_VICTIM), KIND_GIVEN);
	talk_close(&visitor);
}

static void serve_all(struct driver *driver)
{
	uint64_t until_ms = fault_now_ms() + 3 * PATIENCE_MS; /* one wait for each process */
	bool visited = false;

	while (state_of(driver) == LIVES) {
		talk_serve(&driver->talker, visited ? (int)SLICE_MS : 20);
		if (!visited && driver->talker.kept)
			visit(driver);
		visited |= driver->talker.kept != NULL;
		if (fault_now_ms() > until_ms)
			fault_fail("%s: the conversation has no end", driver->what);
	}
}

static void call_all(struct driver *driver)
{
	uint64_t until_ms;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		if (!ask_all(driver, SERVICE_VICTIM))
			return;
		if (i == 0)
			visit(driver);
	}
	until_ms = fault_now_ms() + PATIENCE_MS;
	while (state_of(driver) == LIVES) {
		talk_stop(&driver->talker, fault_id(SERVICE_VICTIM), driver->victim.pid);
		for (int i = 0; i < 20 && state_of(driver) == LIVES; i++)
			talk_serve(&driver->talker, 5);
		if (fault_now_ms() > until_ms)
			fault_fail("%s: the victim does not end", driver->what);
	}
}

/* Until the victim has ended, or stopped. */
static enum state converse(struct driver *driver)
{
	if (!victim_is_ready(driver))
		return state_of(driver);
	if (driver->role == ROLE_CLIENT)
		call_all(driver);
	else
		serve_all(driver);
	return state_of(driver);
}

/* The remains of the victim are gone; all: not only the memory of ours that it held. */
static void settle(struct driver *driver, bool all)
{
	uint64_t until_ms = fault_now_ms() + PATIENCE_MS;
	struct left now, *before = &driver->before;

	talk_drop_kept(&driver->talker);
	talk_tidy(&driver->talker);
	now = left_now(&driver->talker);
	while (!left_is_less(&now, before, all)) {
		if (fault_now_ms() > until_ms)
			fault_fail("%s: descriptors %d, were %d; names %d, were %d; mappings %d, "
				"were %d; pool %llu, was %llu; given %llu; mapped %llu",
				driver->what, now.descriptors, before->descriptors, now.names,
				before->names, now.mappings, before->mappings,
				(unsigned long long)now.pool_bytes,
				(unsigned long long)before->pool_bytes,
				(unsigned long long)now.given_bytes,
				(unsigned long long)now.mapped_bytes);
		talk_serve(&driver->talker, 5);
		talk_tidy(&driver->talker);
		now = left_now(&driver->talker);
	}
}

/* A victim that nothing happens to. */
static void whole_life(struct driver *driver, const char *point)
{
	victim_start(driver, point, 0, "kill");
	if (converse(driver) != ENDED)
		fault_fail("%s: the victim has stopped by itself", driver->what);
	victim_end(driver);
	talk_drop_kept(&driver->talker);
}

/* ---- cases ------------------------------------------------------------------------------- */

static void describe(struct driver *driver, const char *signal, const struct point *point,
		uint32_t n)
{
	snprintf(driver->what, sizeof(driver->what), "%s at %s, passing %u, survivor is %s", signal,
		point->name, n, driver->role == ROLE_CLIENT ? "client" : "server");
}

static bool victim_was_killed(struct driver *driver)
{
	siginfo_t info = {.si_pid = 0};

	if (waitid(P_PID, (id_t)driver->victim.pid, &info, WEXITED | WNOWAIT))
		fault_fail("%s: waitid: %s", driver->what, strerror(errno));
	if (info.si_code != CLD_KILLED || info.si_status != SIGKILL)
		return false;
	victim_reap(driver);
	return true;
}

/*
 * Lets the victim live until it gets to the point; true: there it stopped. How often some points
 * are passed (who sleeps, who is woken) is not quite certain: it may need another life for that.
 */
static bool reach(struct driver *driver, const char *signal, const struct point *point, uint32_t n)
{
	describe(driver, signal, point, n);
	for (int lives = 0; lives < LIVES_MAX; lives++) {
		victim_start(driver, point->name, lives ? 1 : n, signal);
		if (converse(driver) == STOPPED)
			return true;
		if (victim_was_killed(driver))
			return false;
		victim_end(driver);
	}
	fault_fail("%s: the point was not reached", driver->what);
}

/*
 * how: "kill"; "learn": and the survivor is told that nobody is there before there is another one;
 * "fork": the dead one leaves a child.
 */
static void kill_case(struct driver *driver, const char *how, const struct point *point, uint32_t n)
{
	struct victim dead;

	if (reach(driver, how, point, n))
		fault_fail("%s: the victim has stopped", driver->what);
	dead = driver->victim;
	driver->talker.deadline_ms = DEAD_MS;
	if (talk_ask(&driver->talker, fault_id(SERVICE_VICTIM), KIND_READ) == 0)
		fault_fail("%s: the dead answers", driver->what);
	driver->talker.deadline_ms = DEADLINE_MS;
	ask_all(driver, SERVICE_COMPANION);
	if (strcmp(how, "learn") == 0 && talk_until_nobody(&driver->talker,
			fault_id(SERVICE_VICTIM)) != -ENOENT)
		fault_fail("%s: shorts to the dead do not end", driver->what);
	whole_life(driver, "none");
	/* Its child may still have sockets of it, but what it held is back. */
	settle(driver, false);
	victim_forget(driver, &dead);
	settle(driver, true);
}

static void stop_case(struct driver *driver, const struct point *point, uint32_t n)
{
	uint64_t until_ms;

	if (!reach(driver, "stop", point, n))
		fault_fail("%s: the victim was killed", driver->what);
	until_ms = fault_now_ms() + STOPPED_MS;
	do
		ask_all(driver, SERVICE_COMPANION);
	while (fault_now_ms() < until_ms);
	waitid(P_PID, (id_t)driver->victim.pid, &(siginfo_t){.si_pid = 0}, WSTOPPED | WNOHANG);
	kill(driver->victim.pid, SIGCONT);
	if (converse(driver) != ENDED)
		fault_fail("%s: the victim has stopped again", driver->what);
	victim_end(driver);
	settle(driver, true);
}

static void driver_open(struct driver *driver)
{
	snprintf(driver->what, sizeof(driver->what), "the beginning");
	ripc__env_init(&driver->talker.env);
	driver->talker.is_host = true;
	talk_open(&driver->talker, fault_id(SERVICE_DRIVER), ++driver->lives, DEADLINE_MS);
	driver->companion = start(driver, "serve", "none", 0, "kill", SERVICE_COMPANION,
		&driver->companion_ready);
	ask_all(driver, SERVICE_COMPANION);
	/* By then the pool has what it keeps. */
	for (int i = 0; i < 3; i++)
		whole_life(driver, "none");
	ask_all(driver, SERVICE_COMPANION);
	talk_drop_kept(&driver->talker);
	talk_tidy(&driver->talker);
	driver->before = left_now(&driver->talker);
}

static void driver_close(struct driver *driver, const struct fault_left *before)
{
	uint64_t until_ms = fault_now_ms() + PATIENCE_MS;
	siginfo_t info = {.si_pid = 0};
	int error;

	snprintf(driver->what, sizeof(driver->what), "the end");
	/* A short may get lost. */
	do {
		talk_stop(&driver->talker, fault_id(SERVICE_COMPANION), driver->companion);
		talk_serve(&driver->talker, 50);
	} while (waitid(P_PID, (id_t)driver->companion, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		info.si_pid == 0 && fault_now_ms() < until_ms);
	if (fault_await(driver->companion, PATIENCE_MS))
		fault_fail("the third partner has not ended well");
	close(driver->companion_ready);
	error = talk_close(&driver->talker);
	if (error && error != -ETIMEDOUT)
		fault_fail("the survivor cannot close: %s", ripc_strerror(error));
	fault_left_check(before, driver->what);
}

/* ---- workers ----------------------------------------------------------------------------- */

static uint32_t passing(const struct point *point, uint64_t *random)
{
	return 1 + (uint32_t)(fault_random(random) % point->most);
}

/* Every so many of the points, from one on. */
static void work(enum role role, uint32_t worker, bool full)
{
	static struct driver driver;
	struct fault_left before = fault_left_now();
	uint64_t random = fault_seed();
	uint32_t each = full ? 5 : 1, kills = 0, stops = 0;

	driver.role = role;
	driver_open(&driver);
	for (uint32_t p = worker; p < N_POINTS; p += WORKERS) {
		for (uint32_t i = 0; i < each; i++, kills++)
			kill_case(&driver, "kill", &points[p], passing(&points[p], &random));
		/* Some points take their time: each run has others of them. */
		for (uint32_t i = 0; i < each; i++) {
			if (!full && fault_random(&random) % (5 * FAULT_FEWER))
				continue;
			kill_case(&driver, "fork", &points[p], passing(&points[p], &random));
			kill_case(&driver, "learn", &points[p], passing(&points[p], &random));
			stop_case(&driver, &points[p], passing(&points[p], &random));
			stops++;
		}
	}
	driver_close(&driver, &before);
	printf("%u kills, %u with a child that lives on, and %u stops; %u questions were asked "
		"again\n", kills + 2 * stops, stops, stops, driver.tried_again);
}

/* As often as wanted at one point, each in all ways. */
static int only(enum role role, const char *name, uint32_t n)
{
	static struct driver driver;
	struct fault_left before = fault_left_now();
	uint64_t random = fault_seed();
	uint32_t at = 0;

	while (at < N_POINTS && strcmp(points[at].name, name))
		at++;
	if (at == N_POINTS)
		fault_fail("there is no point %s", name);
	driver.role = role;
	driver_open(&driver);
	for (uint32_t i = 0; i < n; i++) {
		kill_case(&driver, "kill", &points[at], passing(&points[at], &random));
		kill_case(&driver, "fork", &points[at], passing(&points[at], &random));
		kill_case(&driver, "learn", &points[at], passing(&points[at], &random));
		stop_case(&driver, &points[at], passing(&points[at], &random));
	}
	driver_close(&driver, &before);
	return 0;
}

/* A process of its own, with service IDs of its own. */
static pid_t worker_start(const char *role, uint32_t worker, bool full)
{
	char number[16];
	pid_t pid;

	snprintf(number, sizeof(number), "%u", worker);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		fault_fail("fork: %s", strerror(errno));
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	unsetenv("RIPC_TEST_RUN");
	execl("/proc/self/exe", "faults-points", role, "--worker", number, full ? "--full" : NULL,
		NULL);
	_exit(127);
}

static int all_workers(const char *role, bool full)
{
	pid_t pids[WORKERS];
	int status, failed = 0;

	for (uint32_t i = 0; i < WORKERS; i++)
		pids[i] = worker_start(role, i, full);
	for (uint32_t i = 0; i < WORKERS; i++) {
		if (waitpid(pids[i], &status, 0) != pids[i] || status)
			failed++;
	}
	printf("%zu named points, %u of %u workers have failed\n", N_POINTS, (unsigned int)failed,
		WORKERS);
	return failed ? 1 : 0;
}

static int count(enum role role)
{
	static struct driver driver;
	struct fault_left before = fault_left_now();

	driver.role = role;
	driver_open(&driver);
	whole_life(&driver, "count");
	driver_close(&driver, &before);
	return 0;
}

int main(int argc, char **argv)
{
	bool full = fault_full(argc, argv);
	enum role role;

	if (argc == 8 && strcmp(argv[1], "--victim") == 0)
		return victim_main(argv);
	if (argc < 2 || (strcmp(argv[1], "client") && strcmp(argv[1], "server"))) {
		fprintf(stderr, "usage: %s client|server [--full | --count | --only POINT N]\n",
			argv[0]);
		return 2;
	}
	setenv("RIPC_BACKENDS", "shm", 0);
	role = strcmp(argv[1], "client") == 0 ? ROLE_CLIENT : ROLE_SERVER;
	if (argc == 3 && strcmp(argv[2], "--count") == 0)
		return count(role);
	if (argc == 5 && strcmp(argv[2], "--only") == 0)
		return only(role, argv[3], (uint32_t)atoi(argv[4]));
	if (argc < 4 || strcmp(argv[2], "--worker"))
		return all_workers(argv[1], full);
	work(role, (uint32_t)atoi(argv[3]), full);
	return 0;
}
