/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_stream: what libfabric by itself makes of long messages, so that libripc over the same
 * provider can stand beside it (bench/compare/efa_compare). Two processes of one host, each with
 * one reliable endpoint (FI_EP_RDM) that learns the other's address by a pipe; both poll.
 *
 *   send  fi_send to buffers that the other end has posted, so many under way; counted there
 *   read  fi_read of memory that the other end has registered, so many under way
 *
 * The sender uses one buffer again and again. Each message in progress arrives at a place of its
 * own, as in any program that reads its messages. (With --one-place all arrive at one place, which
 * then stays in the processor's cache, as fabtests has it unless told otherwise.) Memory of large
 * pages is asked for where the library's pool does so. The last message is compared; with --verify
 * each message is compared as it arrives: its bytes are read once, the least that any check takes.
 */
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define NAME_MAX_BYTES 512
#define DEPTH_MAX      64
#define COUNT_MAX      1000000
#define SIZE_MAX_BYTES ((uint64_t)1 << 30)
#define RUN_S	       300 /* no process lives longer */
#define STALL_S	       30
#define LARGE_PAGE     ((uint64_t)2 << 20)
#define PATTERN	       0x5a
#define BLOCK	       4096 /* bytes that are compared at once */

struct job {
	const char *provider;
	bool reads, one_place, verify;
	uint64_t size, count, warm_up, depth;
};

/* Data that the ends exchange. */
struct word {
	uint64_t address, key; /* of what may be read */
	uint64_t name_len;
	uint8_t name[NAME_MAX_BYTES];
};

struct end {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	fi_addr_t partner;
	struct word theirs;
	struct fi_context2 contexts[DEPTH_MAX]; /* of messages under way, each with its place */
	uint64_t idle[DEPTH_MAX];		/* a ring of those that are free, so */
	uint64_t idle_at, n_idle;		/* for all threads to take turns */
	uint64_t n_places, len;			/* of buffer; bytes */
	uint8_t *buffer;
	bool is_wrong; /* a message that came was */
};

static const char usage_text[] =
	"usage: ofi_stream send|read --provider NAME [--size N] [--count N] [--depth N]\n"
	"\n"
	"Measures libfabric's own long messages over a provider; prints one JSON object.\n"
	"\n"
	"  --provider NAME  as FI_PROVIDER has it, efa or tcp;ofi_rxm for instance\n"
	"  --size N         bytes of a message (default 1048576)\n"
	"  --count N        messages that are measured (default 100)\n"
	"  --depth N        messages under way (default 8)\n"
	"  --one-place      all come into the same memory\n"
	"  --verify         each message is compared as it comes\n"
	"  --help           this text\n";

static void check(ssize_t result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "ofi_stream: %s: %s\n", what, fi_strerror((int)-result));
	exit(1);
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- an endpoint ------------------------------------------------------------------------- */

static void find_provider(struct end *end, const struct job *job)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		check(-FI_ENOMEM, "taking memory");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | (job->reads ? FI_RMA | FI_READ | FI_REMOTE_READ : 0);
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(job->provider);
	check(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &end->info), job->provider);
	fi_freeinfo(hints);
}

/* As the library's pool: large pages for what holds whole ones. */
static void take_memory(struct end *end, const struct job *job, uint64_t n_places)
{
	end->n_places = n_places;
	end->len = (job->size * n_places + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
	end->buffer = aligned_alloc(LARGE_PAGE, end->len);
	if (!end->buffer)
		check(-FI_ENOMEM, "taking memory");
	if (job->size >= LARGE_PAGE)
		madvise(end->buffer, end->len, MADV_HUGEPAGE);
	memset(end->buffer, 0, end->len);
}

static void open_end(struct end *end, const struct job *job, uint64_t n_places)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .size = 2 * DEPTH_MAX};

	find_provider(end, job);
	check(fi_fabric(end->info->fabric_attr, &end->fabric, NULL), "fi_fabric");
	check(fi_domain(end->fabric, end->info, &end->domain, NULL), "fi_domain");
	check(fi_av_open(end->domain, &av, &end->av, NULL), "fi_av_open");
	check(fi_cq_open(end->domain, &cq, &end->cq, NULL), "fi_cq_open");
	check(fi_endpoint(end->domain, end->info, &end->ep, NULL), "fi_endpoint");
	check(fi_ep_bind(end->ep, &end->av->fid, 0), "fi_ep_bind");
	check(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	check(fi_enable(end->ep), "fi_enable");
	take_memory(end, job, n_places);
	for (; end->n_idle < job->depth; end->n_idle++)
		end->idle[end->n_idle] = end->n_idle;
	check(fi_mr_reg(end->domain, end->buffer, end->len,
		      FI_SEND | FI_RECV | (job->reads ? FI_READ | FI_REMOTE_READ : 0), 0,
		      (uint64_t)getpid(), 0, &end->mr, NULL),
		"fi_mr_reg");
}

static void exchange(int fd, const void *ours, void *theirs, size_t len)
{
	if (write(fd, ours, len) != (ssize_t)len || read(fd, theirs, len) != (ssize_t)len)
		check(-FI_ECONNRESET, "talking to the other process");
}

static void introduce(struct end *end, int fd)
{
	struct word ours = {.name_len = sizeof(ours.name), .key = fi_mr_key(end->mr)};
	size_t len = sizeof(ours.name);

	check(fi_getname(&end->ep->fid, ours.name, &len), "fi_getname");
	if (end->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
		ours.address = (uintptr_t)end->buffer;
	exchange(fd, &ours, &end->theirs, sizeof(ours));
	if (fi_av_insert(end->av, end->theirs.name, 1, &end->partner, 0, NULL) != 1)
		check(-FI_EADDRNOTAVAIL, "fi_av_insert");
}

static void close_end(struct end *end)
{
	fi_close(&end->ep->fid);
	fi_close(&end->mr->fid);
	fi_close(&end->cq->fid);
	fi_close(&end->av->fid);
	fi_close(&end->domain->fid);
	fi_close(&end->fabric->fid);
	fi_freeinfo(end->info);
	free(end->buffer);
}

/* ---- moving ------------------------------------------------------------------------------ */

enum action { SEND, RECV, READ };

static uint8_t *place_of(const struct end *end, const struct job *job, uint64_t slot)
{
	return end->buffer + slot % end->n_places * job->size;
}

/* One more, where one is idle. -FI_EAGAIN: not now. */
static ssize_t begin(struct end *end, const struct job *job, enum action action)
{
	uint64_t slot = end->idle[end->idle_at];
	void *place = place_of(end, job, slot), *desc = fi_mr_desc(end->mr);
	void *context = &end->contexts[slot];
	ssize_t result;

	if (action == SEND)
		result = fi_send(end->ep, place, job->size, desc, end->partner, context);
	else if (action == RECV)
		result = fi_recv(end->ep, place, job->size, desc, end->partner, context);
	else
		result = fi_read(end->ep, place, job->size, desc, end->partner,
			end->theirs.address, end->theirs.key, context);
	if (!result) {
		end->idle_at = (end->idle_at + 1) % job->depth;
		end->n_idle--;
	}
	return result;
}

/* Is it what is sent? */
static bool is_right(const uint8_t *message, uint64_t size)
{
	uint8_t block[BLOCK];
	bool right = true;

	memset(block, PATTERN, sizeof(block));
	for (uint64_t at = 0; right && at < size; at += BLOCK)
		right = memcmp(message + at, block, size - at < BLOCK ? size - at : BLOCK) == 0;
	return right;
}

/* A transfer has ended: its place may be used again. */
static void end_one(struct end *end, const struct job *job, const void *context, bool verify)
{
	uint64_t slot = (uint64_t)((const struct fi_context2 *)context - end->contexts);

	if (verify && !is_right(place_of(end, job, slot), job->size))
		end->is_wrong = true;
	end->idle[(end->idle_at + end->n_idle++) % job->depth] = slot;
}

/* Drives the provider; returns how many have ended. */
static uint64_t ended(struct end *end, const struct job *job, bool verify)
{
	struct fi_cq_entry entries[DEPTH_MAX];
	struct fi_cq_err_entry error = {0};
	ssize_t n = fi_cq_read(end->cq, entries, DEPTH_MAX);

	if (n == -FI_EAVAIL && fi_cq_readerr(end->cq, &error, 0) == 1)
		check(-error.err, "a transfer");
	if (n == -FI_EAGAIN)
		return 0;
	check(n, "fi_cq_read");
	for (ssize_t i = 0; i < n; i++)
		end_one(end, job, entries[i].op_context, verify);
	return (uint64_t)n;
}

/* Sends n messages, some at a time; returns the seconds from the end of the warm-up on. */
static double move(struct end *end, const struct job *job, enum action action)
{
	uint64_t all = job->warm_up + job->count, begun = 0, done = 0, now_done;
	double began = now_s(), progress = began;

	while (done < all) {
		while (begun < all && end->n_idle) {
			ssize_t result = begin(end, job, action);

			if (result == -FI_EAGAIN)
				break;
			check(result, action == READ ? "fi_read" : "fi_send or fi_recv");
			begun++;
		}
		now_done = ended(end, job, job->verify && action != SEND);
		if (now_done)
			progress = now_s();
		else if (now_s() - progress > STALL_S)
			check(-FI_ETIMEDOUT, "waiting for the other end");
		if (done < job->warm_up && done + now_done >= job->warm_up)
			began = now_s();
		done += now_done;
	}
	return now_s() - began;
}

/* Works for the other end, whose transfers may need it, until that says that it has all. */
static void attend(struct end *end, const struct job *job, int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};

	while (poll(&one, 1, 0) == 0)
		ended(end, job, false);
}

static void serve(const struct job *job, int fd)
{
	struct end end = {0};
	char byte = 0;

	alarm(RUN_S);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_end(&end, job, 1);
	memset(end.buffer, PATTERN, job->size);
	introduce(&end, fd);
	if (!job->reads)
		move(&end, job, SEND);
	attend(&end, job, fd);
	exchange(fd, &byte, &byte, 1);
	close_end(&end);
}

static int measure(const struct job *job, int fd)
{
	struct end end = {0};
	char byte = 0;
	double seconds;
	bool right;

	alarm(RUN_S);
	open_end(&end, job, job->one_place ? 1 : job->depth);
	introduce(&end, fd);
	seconds = move(&end, job, job->reads ? READ : RECV);
	exchange(fd, &byte, &byte, 1);
	right = !end.is_wrong && is_right(end.buffer, job->size * end.n_places);
	printf("{\"provider\": \"%s\", \"size\": %" PRIu64 ", \"count\": %" PRIu64
	       ", \"mib_per_s\": %.2f}\n",
		end.info->fabric_attr->prov_name, job->size, job->count,
		(double)(job->size * job->count) / seconds / (1 << 20));
	close_end(&end);
	if (!right)
		fprintf(stderr, "ofi_stream: wrong bytes came\n");
	return right ? 0 : 1;
}

/* ---- the command line -------------------------------------------------------------------- */

static int usage_error(const char *what)
{
	fprintf(stderr, "ofi_stream: %s\n%s", what, usage_text);
	return 2;
}

static bool parse_number(const char *text, uint64_t most, uint64_t *value)
{
	char *end;
	unsigned long long number = strtoull(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || number < 1 || number > most)
		return false;
	*value = number;
	return true;
}

static bool parse_option(int option, const char *value, struct job *job)
{
	if (option == 'p')
		job->provider = value;
	else if (option == 'o' || option == 'v')
		*(option == 'o' ? &job->one_place : &job->verify) = true;
	else if (option == 's')
		return parse_number(value, SIZE_MAX_BYTES, &job->size);
	else if (option == 'c')
		return parse_number(value, COUNT_MAX, &job->count);
	else
		return option == 'd' && parse_number(value, DEPTH_MAX, &job->depth);
	return true;
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"provider", required_argument, NULL, 'p'}, {"size", required_argument, NULL, 's'},
		{"count", required_argument, NULL, 'c'}, {"depth", required_argument, NULL, 'd'},
		{"one-place", no_argument, NULL, 'o'}, {"verify", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'}, {0}};
	struct job job = {.size = 1 << 20, .count = 100, .depth = 8};
	int option, pair[2], status;
	pid_t child;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) >= 0) {
		if (option == 'h')
			return printf("%s", usage_text) < 0;
		if (!parse_option(option, optarg, &job))
			return usage_error("wrong option or value");
	}
	if (optind != argc - 1 || !job.provider ||
		(strcmp(argv[optind], "send") != 0 && strcmp(argv[optind], "read") != 0))
		return usage_error("say send or read, and the provider");
	job.reads = strcmp(argv[optind], "read") == 0;
	job.warm_up = job.depth;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		check(-errno, "socketpair");
	child = fork();
	if (child < 0)
		check(-errno, "fork");
	if (child == 0) {
		serve(&job, pair[1]);
		return 0;
	}
	close(pair[1]);
	status = measure(&job, pair[0]);
	waitpid(child, NULL, 0);
	return status;
}
