/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator: for each seed a world with faults in which services talk (nothing may go
 * wrong), then one without (everything has to arrive). A seed replays exactly.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app.h"

#define LATE_US 10000u /* sends wait 40 ms at least */

#define STEP_US   50000
#define SETTLE_US 1500000
#define LIMIT_US  150000000 /* two announcements of a registration are 60 s apart */

struct options {
	uint64_t seed, n_seeds;
	uint32_t shorts, longs, calls;
	bool native, store, keys, rights, groups, addresses, handles, trace, verbose, keep_going;
	const char *without; /* names of faults that are left out, to narrow a failure down */
};

struct summary {
	struct model_totals totals;
	struct sim_counts counts;
	struct sha256 trace;
	uint64_t virtual_us, failed;
};

/* Lets the world go on, looking again and again for sends that are overdue. */
static void go_on(struct sim_world *world, uint64_t until_us)
{
	while (world->now_us < until_us && !sim_failed(world)) {
		uint64_t next = world->now_us + STEP_US;

		sim_run(world, next < until_us ? next : until_us);
		model_overdue(world->model, world->now_us);
	}
}

static void with_faults(struct sim_world *world, struct sim_app *app,
		const struct options *options)
{
	uint64_t start = world->now_us;

	world->faults = true;
	if (world->plan.pause_us)
		world->paused_until_us = start + world->plan.span_us / 2 + world->plan.pause_us;
	/* A packet late by a quarter of the shortest timeout may be too late, as if lost. */
	model_lossy(world->model, world->now_us, world->plan.loss || world->plan.corrupt ||
			world->plan.send_full || world->plan.receive_buffer ||
			world->plan.hole_bytes || world->plan.n_flows || world->plan.far ||
			(world->plan.reorder && world->plan.reorder_us >= LATE_US));
	sim_app_open(app, world);
	sim_app_plan(app, start);
	sim_groups_plan(app, start);
	sim_claimant_begin(app);
	for (uint32_t i = 0; i < options->shorts; i++)
		sim_at(world, sim_draw_moment(world, start),
				sim_act_short, app, 0);
	for (uint32_t i = 0; i < options->longs; i++)
		sim_at(world, sim_draw_moment(world, start),
				sim_act_long, app, 0);
	for (uint32_t i = 0; i < options->calls; i++)
		sim_at(world, sim_draw_moment(world, start), sim_act_call, app, 0);
	go_on(world, start + world->plan.span_us + world->plan.pause_us);
}

/* Operations that began have to end, well or not. */
static void to_the_end(struct sim_app *app)
{
	struct sim_world *world = app->world;
	uint64_t limit = world->now_us + LIMIT_US;

	sim_app_calm(app);
	if (world->has_authority)
		sim_rights_calm(world);
	while (!sim_failed(world) && (!sim_app_settled(app) || sim_groups_busy(app) ||
			model_open_sends(world->model) > 0)) {
		go_on(world, world->now_us + STEP_US);
		if (world->now_us > limit)
			model_fail(world->model, "a service does not come up again, or two "
					"with one ID do not learn of each other");
	}
	go_on(world, world->now_us + SETTLE_US);
}

static void send_fresh(struct sim_app *app, enum ripc_kind kind, uint64_t len_max,
		bool must_deliver)
{
	struct sim_world *world = app->world;
	uint32_t n = world->plan.n_services;

	for (uint32_t i = 0; i < n * n && !sim_failed(world); i++) {
		struct sim_wish wish = {.kind = kind, .to = app->services[i % n].id,
			.len = sim_log(&world->random, 8, len_max),
			.timeout_ms = 5000, .must_deliver = must_deliver, .patient = true};

		sim_send(app, &app->services[i / n], &wish);
		go_on(world, world->now_us + sim_below(&world->random, 5000));
	}
}

/* Every query is answered, as every server does now. */
static void call_all(struct sim_app *app)
{
	struct sim_world *world = app->world;
	uint32_t n = world->plan.n_services;

	for (uint32_t i = 0; i < n * n && !sim_failed(world); i++) {
		struct sim_wish wish = {.kind = RIPC_REQUEST, .to = app->services[i % n].id,
			.len = sim_log(&world->random, 8, 4096), .timeout_ms = 5000,
			.must_deliver = true, .patient = true,
			.idempotent = sim_chance(&world->random, 500000)};

		sim_call(app, &app->services[i / n], &wish, false);
		go_on(world, world->now_us + sim_below(&world->random, 5000));
	}
}

static void await_sends(struct sim_world *world)
{
	while (!sim_failed(world) && model_open_sends(world->model) > 0)
		go_on(world, world->now_us + STEP_US);
}

/*
 * All send much to one at once. Credit is for that: the receive buffer must not overflow, and
 * the time must suffice.
 */
static void send_at_once(struct sim_app *app)
{
	struct sim_world *world = app->world;
	uint64_t overflowed = world->counts.overflowed;

	for (uint32_t i = 1; i < world->plan.n_services && !sim_failed(world); i++) {
		struct sim_wish wish = {.kind = RIPC_LONG, .to = app->services[0].id,
			.timeout_ms = 2500, .must_deliver = true, .patient = true};

		/* A small receive buffer makes it slow. */
		wish.len = world->plan.receive_buffer && world->plan.receive_buffer < 400000 ?
			20000 : 200000;

		sim_send(app, &app->services[i], &wish);
	}
	await_sends(world);
	if (world->counts.overflowed > overflowed)
		model_fail(world->model, "more was asked for than the receive buffer holds");
}

/*
 * Now every service must reach every service. The first sends only remind them of each other:
 * who does not know yet that a partner has restarted learns it by sending to the old one, which
 * may end UNKNOWN.
 */
static void without_faults(struct sim_app *app)
{
	struct sim_world *world = app->world;

	model_lossy(world->model, world->now_us, false);
	send_fresh(app, RIPC_LONG, 64, false);
	await_sends(world);
	send_fresh(app, RIPC_LONG, 16384, true);
	await_sends(world);
	call_all(app);
	await_sends(world);
	if (world->plan.incast)
		send_at_once(app);
	world->plan.receive_buffer = 0;
	send_fresh(app, RIPC_SHORT, 600, true);
	sim_groups_calm(app, go_on);
	go_on(world, world->now_us + SETTLE_US);
}

static void add_up(struct summary *summary, const struct sim_world *world)
{
	struct model_totals totals;
	uint64_t *to = (uint64_t *)&summary->totals;
	const uint64_t *from = (const uint64_t *)&totals;

	model_totals(world->model, &totals);
	for (size_t i = 0; i < sizeof(totals) / sizeof(*from); i++)
		to[i] += from[i];
	to = (uint64_t *)&summary->counts;
	from = (const uint64_t *)&world->counts;
	for (size_t i = 0; i < sizeof(world->counts) / sizeof(*from); i++)
		to[i] += from[i];
	summary->virtual_us += world->now_us;
}

static void report_failure(const struct options *options, uint64_t seed,
		const struct sim_world *world)
{
	const char *text;
	enum model_fault fault = model_verdict(world->model, &text);

	printf("seed %llu FAILED at %llu us (%d): %s\n"
			"replay: sim --seed %llu --seeds 1 --shorts %u --longs %u --calls %u"
			"%s%s%s%s%s%s --verbose\n",
			(unsigned long long)seed, (unsigned long long)world->now_us, (int)fault,
			text, (unsigned long long)seed, options->shorts, options->longs,
			options->calls,
			options->native ? " --native" : options->store ? " --store" : "",
			options->rights ? " --rights" : options->keys ? " --keys" : "",
			options->groups ? " --groups" : options->addresses ? " --addresses" : "",
			options->handles ? " --handles" : "",
			options->without ? " --without " : "",
			options->without ? options->without : "");
}

static void leave_out(struct sim_plan *p, const char *names)
{
	const struct {
		const char *name;
		uint32_t *value;
	} faults[] = {{"loss", &p->loss}, {"reorder", &p->reorder}, {"duplicate", &p->duplicate},
		{"corrupt", &p->corrupt}, {"forge", &p->forge}, {"late", &p->late},
		{"data", &p->data_loss}, {"uncancelled", &p->cancel_loss}, {"flow", &p->n_flows},
		{"full", &p->send_full}, {"hole", &p->hole_bytes}, {"buffer", &p->receive_buffer},
		{"partition", &p->n_partitions}, {"crash", &p->n_crashes}, {"move", &p->n_moves},
		{"reopen", &p->n_reopens}, {"rival", &p->n_rivals}, {"burst", &p->burst},
		{"address", &p->n_addresses}, {"jump", &p->n_jumps}, {"stall", &p->n_stalls},
		{"rehome", &p->n_rehomes}, {"strand", &p->n_strands},
		{"window", &p->window}, {"lend", &p->lend}, {"give", &p->give},
		{"ordered", &p->ordered}, {"claim", &p->claims},
		{"cancel", &p->cancel}, {"hold", &p->hold}, {"deaf", &p->many_loss},
		{"unheard", &p->many_fails}};

	if (names && strstr(names, "pause"))
		p->pause_us = 0;
	if (names && strstr(names, "outage"))
		p->many_on_us = 0;
	for (size_t i = 0; names && i < sizeof(faults) / sizeof(faults[0]); i++)
		if (strstr(names, faults[i].name))
			*faults[i].value = 0;
}

static void show_plan(const struct sim_plan *p)
{
	printf("plan: %u nodes, %u services, loss %u reorder %u duplicate %u corrupt %u forge %u "
			"late %u send_full %u per million\n", p->n_nodes, p->n_services, p->loss,
			p->reorder, p->duplicate, p->corrupt, p->forge, p->late, p->send_full);
	printf("plan: mtu %u hole %u receive_buffer %u jitter %u poll_delay %u peer_timeout %u ms "
			"span %llu us\n", p->mtu, p->hole_bytes, p->receive_buffer, p->jitter_us,
			p->poll_delay_us, p->peer_timeout_ms, (unsigned long long)p->span_us);
	printf("plan: partitions %u crashes %u moves %u reopens %u jumps %u stalls %u rivals %u "
			"burst %u pause %llu us%s%s\n", p->n_partitions, p->n_crashes, p->n_moves,
			p->n_reopens, p->n_jumps, p->n_stalls, p->n_rivals, p->burst,
			(unsigned long long)p->pause_us,
			p->n_rehomes ? " rehomed" : p->mild ? " mild" :
			p->long_cut ? " long cut" : "",
			p->incast ? " incast" : p->claims ? " claims" : "");
	printf("plan: flows %u data_loss %u cancel_loss %u per million\n", p->n_flows,
			p->data_loss, p->cancel_loss);
	printf("plan: window %u lend %u give %u cancel %u hold %u narrow %u ordered %u per "
			"million\n",
			p->window, p->lend, p->give, p->cancel, p->hold, p->narrow, p->ordered);
}

/* Returns whether nothing was wrong. */
static bool run_seed(const struct options *options, uint64_t seed, struct summary *summary)
{
	struct sim_world world;
	struct sim_app app;
	struct model_config cfg = {.slack_us = SIM_SLACK_US};
	uint8_t digest[32];
	bool good;

	sim_world_open(&world, seed);
	world.verbose = options->verbose;
	world.groups = options->groups;
	world.addresses = options->addresses;
	world.handles = options->handles;
	world.keys = options->keys ? sim_keys_dir : NULL;
	if (world.keys)
		sim_keys_begin(&world);
	sim_plan_draw(&world, options->native, options->store);
	if (options->rights) {
		world.has_authority = true;
		world.plan.claims = 0;
		if (world.plan.n_services > SIM_RIGHTS)
			world.plan.n_services = SIM_RIGHTS;
	}
	leave_out(&world.plan, options->without);
	if (options->verbose)
		show_plan(&world.plan);
	cfg.peer_timeout_ms = world.plan.peer_timeout_ms;
	cfg.slack_us += world.plan.poll_delay_us;
	cfg.held = world.plan.store;
	cfg.keys = world.keys != NULL;
	cfg.rights = options->rights;
	cfg.write_us = world.plan.native ? SIM_FAILED_US : 0;
	world.model = model_open(&cfg);
	if (options->rights)
		sim_rights_begin(&world);
	with_faults(&world, &app, options);
	to_the_end(&app);
	without_faults(&app);
	sim_app_close(&app);
	if (!sim_failed(&world))
		model_finish(world.model, world.now_us);
	good = !sim_failed(&world);
	if (!good)
		report_failure(options, seed, &world);
	add_up(summary, &world);
	sha256_final(&world.trace, digest);
	sha256_update(&summary->trace, digest, sizeof(digest));
	if (options->trace) {
		char text[65];

		sha256_hex(digest, text);
		printf("seed %llu trace %s\n", (unsigned long long)seed, text);
	}
	sim_world_close(&world);
	if (world.keys)
		sim_keys_end();
	model_close(world.model);
	return good;
}

static void print_summary(const struct options *options, struct summary *summary, double seconds)
{
	const struct model_totals *t = &summary->totals;
	const struct sim_counts *c = &summary->counts;
	uint8_t digest[32];
	char text[65];

	sha256_final(&summary->trace, digest);
	sha256_hex(digest, text);
	printf("%llu seeds from %llu%s, %llu failed; %.1f s virtual in %.1f s\n",
			(unsigned long long)options->n_seeds, (unsigned long long)options->seed,
			options->native ? ", native reads and writes" :
			options->store ? ", with a store" : "",
			(unsigned long long)summary->failed,
			(double)summary->virtual_us / 1e6, seconds);
	printf("shorts: %llu sent, %llu received\n", (unsigned long long)t->shorts,
			(unsigned long long)t->shorts_received);
	printf("longs: %llu sent, %llu received; %llu delivered, %llu not delivered, %llu unknown, "
			"%llu cut off; %llu sends refused\n", (unsigned long long)t->longs,
			(unsigned long long)t->longs_received, (unsigned long long)t->delivered,
			(unsigned long long)t->not_delivered, (unsigned long long)t->unknown,
			(unsigned long long)t->cut_off, (unsigned long long)t->refused);
	printf("calls: %llu made, %llu questions received, %llu answers tried; %llu answered, "
			"%llu failed, %llu of these unknown\n", (unsigned long long)t->calls,
			(unsigned long long)t->questions, (unsigned long long)t->answers,
			(unsigned long long)t->answered, (unsigned long long)t->failed,
			(unsigned long long)t->failed_unknown);
	printf("items: %llu in windows, %llu in return buffers\n",
			(unsigned long long)t->in_window, (unsigned long long)t->in_return);
	printf("packets: %llu (%llu bytes), %llu lost, %llu cut, %llu altered, %llu forged, "
			"%llu doubled, %llu late, %llu overflowed, %llu too large\n",
			(unsigned long long)c->packets, (unsigned long long)c->bytes,
			(unsigned long long)c->lost, (unsigned long long)c->cut,
			(unsigned long long)c->corrupted, (unsigned long long)c->forged,
			(unsigned long long)c->duplicated, (unsigned long long)c->late,
			(unsigned long long)c->overflowed, (unsigned long long)c->holes);
	if (options->groups)
		printf("groups: %llu shorts to many in one datagram, heard %llu times\n",
				(unsigned long long)c->to_many, (unsigned long long)c->heard);
	if (options->native)
		printf("native: %llu writes, and %llu that landed after they had failed\n",
				(unsigned long long)c->writes, (unsigned long long)c->late_writes);
	printf("trace %s\n", text);
}

static const char usage[] =
	"usage: sim [--seed N] [--seeds COUNT] [--shorts N] [--longs N] [--calls N] [--native]\n"
	"           [--store] [--keys] [--rights] [--groups] [--addresses] [--handles]\n"
	"           [--trace] [--keep-going] [--verbose]\n"
	"           [--without FAULT,FAULT...]\n"
	"Simulates libripc over a faulty network; exit status 1 if a guarantee was broken.\n";

static void parse(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {
		{"seed", required_argument, NULL, 's'}, {"seeds", required_argument, NULL, 'n'},
		{"shorts", required_argument, NULL, 'S'}, {"longs", required_argument, NULL, 'L'},
		{"calls", required_argument, NULL, 'C'},
		{"native", no_argument, NULL, 'N'}, {"store", no_argument, NULL, 'Z'},
		{"trace", no_argument, NULL, 't'},
		{"verbose", no_argument, NULL, 'v'}, {"keep-going", no_argument, NULL, 'k'},
		{"groups", no_argument, NULL, 'G'}, {"addresses", no_argument, NULL, 'A'},
		{"rights", no_argument, NULL, 'R'}, {"handles", no_argument, NULL, 'H'},
		{"keys", no_argument, NULL, 'K'}, {"without", required_argument, NULL, 'w'},
		{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 's': options->seed = strtoull(optarg, NULL, 10); break;
		case 'n': options->n_seeds = strtoull(optarg, NULL, 10); break;
		case 'S': options->shorts = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 'L': options->longs = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 'C': options->calls = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 'N': options->native = true; break;
		case 'Z': options->store = true; break;
		case 'K': options->keys = true; break;
		case 'R': options->keys = options->rights = true; break;
		case 'G': options->groups = true; break;
		case 'A': options->addresses = true; break;
		case 'H': options->handles = true; break;
		case 't': options->trace = true; break;
		case 'v': options->verbose = true; break;
		case 'k': options->keep_going = true; break;
		case 'w': options->without = optarg; break;
		case 'h': fputs(usage, stdout); exit(0);
		default: fputs(usage, stderr); exit(2);
		}
	}
	if (optind < argc) {
		fputs(usage, stderr);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	static const char *const variables[] = {"RIPC_BACKENDS", "RIPC_PEERS", "RIPC_INTERFACES",
		"RIPC_OPTIONS", "RIPC_KEYS"};
	struct options options = {.seed = 1, .n_seeds = 100, .shorts = 500, .longs = 50,
		.calls = 540};
	struct summary summary = {0};
	struct timespec start, end;

	parse(argc, argv, &options);
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		unsetenv(variables[i]);
	if (options.keys && (!sim_keys_make() || (options.rights && !sim_rights_make()))) {
		perror(sim_keys_dir);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	sha256_init(&summary.trace);
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (uint64_t i = 0; i < options.n_seeds; i++) {
		if (run_seed(&options, options.seed + i, &summary))
			continue;
		summary.failed++;
		if (!options.keep_going)
			break;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (options.rights)
		sim_rights_remove();
	if (options.keys)
		sim_keys_remove();
	print_summary(&options, &summary, (double)(end.tv_sec - start.tv_sec) +
			(double)(end.tv_nsec - start.tv_nsec) / 1e9);
	return summary.failed > 0;
}
