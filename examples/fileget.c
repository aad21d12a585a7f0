/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fileget: fetches files from a fileserver, by service ID. This file owns the command line: what
 * is to be fetched, where it goes, and listings. See fileget.h for the parts that do the work.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "command_line.h"
#include "fileget.h"

#define DEPTH_MAX  1024
#define STREAM_MAX 16 /* of DEPTH_MAX, towards a stream */
#define LEVELS_MAX 64 /* of directories below each other */

struct options {
	uint64_t id, depth, piece_bytes, timeout_ms;
	const char *path, *output, *files_from;
	int list, recursive, discard, stats, quiet;
};

static volatile int stopped; /* set by a signal handler */

static const char usage_text[] =
	"usage: fileget --id N | --name S PATH [-o FILE | -o -]\n"
	"       fileget --id N | --name S --list [PATH]\n"
	"       fileget --id N | --name S --recursive [PATH] [-o DIR]\n"
	"       fileget --id N | --name S --files-from LIST [-o DIR]\n"
	"\n"
	"Fetches files from the fileserver that is registered under an ID or a name.\n"
	"\n"
	"  --id N             the server's service ID, decimal or 0x...\n"
	"  --name S           the same by its name\n"
	"  -o, --output FILE  where it goes: a file, a directory, a pipe or device, or - for\n"
	"                     standard output\n"
	"  -l, --list         list a directory instead\n"
	"  -r, --recursive    fetch a directory with all that is below it\n"
	"  --files-from LIST  fetch the files named in LIST, one a line\n"
	"  --depth N          requests under way at a time (default 4; at most 16 towards a pipe,\n"
	"                     where replies are kept until it is their turn)\n"
	"  --piece BYTES      most bytes requested at once; it may be sent less (default 64M)\n"
	"  --discard          read and sum up the bytes, write nothing\n"
	"  --stats            say on standard error how fast it was and by which path\n"
	"  --timeout MS       give up when the server is silent for so long (default 10000)\n"
	"  -q, --quiet        no progress bar, no summary\n"
	"  --help             this text\n"
	"\n"
	"Exit status: 0 all fetched, 1 something failed, 2 usage.\n";

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static int usage_error(const char *what)
{
	fprintf(stderr, "fileget: %s\n%s", what, usage_text);
	return 2;
}

static int failed(const char *what, int err)
{
	if (err == -EINTR)
		fprintf(stderr, "fileget: interrupted\n");
	else
		fprintf(stderr, "fileget: %s: %s\n", what, ripc_strerror(err));
	return 1;
}

/* ---- listings ---- */

/* Lists path and calls handle for each entry, until it fails. 1: the server refused, and said. */
static int list(struct fileget_client *client, const char *path,
	int (*handle)(void *arg, const struct file_entry *entry), void *arg)
{
	struct fileget_piece request = {.len = FILE_PIECE_MAX}, *answered;
	const uint8_t *at, *end;
	struct file_entry entry;
	int err = fileget_ask(client, FILE_LIST, path, &request);

	if (err == 0)
		err = fileget_wait(client, &answered);
	if (err < 0)
		return failed(path[0] ? path : ".", err);
	if (request.answer.status != FILE_OK) {
		fprintf(stderr, "fileget: %s: %s\n", path[0] ? path : ".",
			file_status_text(request.answer.status));
		fileget_release(client, &request);
		return 1;
	}
	at = request.data;
	end = at + request.answer.len;
	while (err == 0 && request.data && (err = file_entry_decode(&at, end, &entry)) > 0)
		err = handle(arg, &entry);
	fileget_release(client, &request);
	return err < 0 ? failed(path[0] ? path : ".", err) : err;
}

/* Names come from elsewhere: control characters in them must not reach a terminal. */
static int print_entry(void *arg, const struct file_entry *entry)
{
	unsigned int i;

	(void)arg;
	if (entry->type == 'd')
		printf("%15s  ", "directory");
	else
		printf("%15llu  ", (unsigned long long)entry->size);
	for (i = 0; i < entry->name_len; i++) {
		unsigned char byte = (unsigned char)entry->name[i];

		putchar(byte < 0x20 || byte == 0x7f ? '?' : byte);
	}
	puts(entry->type == 'd' ? "/" : "");
	return 0;
}

/* ---- what to fetch ---- */

/* Returns path without leading "./" and slashes at its end, in memory for free(). */
static char *clean_path(const char *path)
{
	char *clean;
	size_t len;

	while (path[0] == '.' && path[1] == '/')
		for (path += 2; *path == '/'; path++)
			;
	if (strcmp(path, ".") == 0)
		path = "";
	clean = strdup(path);
	if (!clean)
		return NULL;
	len = strlen(clean);
	while (len > 1 && clean[len - 1] == '/')
		clean[--len] = '\0';
	return clean;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Returns dir/name, or name alone when dir is empty, in memory for free(). */
static char *join(const char *dir, const char *name, size_t name_len)
{
	size_t dir_len = strlen(dir);
	char *path = malloc(dir_len + 1 + name_len + 1);

	if (!path)
		return NULL;
	memcpy(path, dir, dir_len);
	if (dir_len > 0 && dir[dir_len - 1] != '/')
		path[dir_len++] = '/';
	memcpy(path + dir_len, name, name_len);
	path[dir_len + name_len] = '\0';
	return path;
}

static int make_directory(const char *path)
{
	struct stat st;

	if (mkdir(path, 0777) == 0)
		return 0;
	if (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	return errno == EEXIST ? -ENOTDIR : -errno;
}

/* A directory of the server that is walked, and where it goes (NULL: nowhere). */
struct walk {
	struct fileget_client *client;
	struct fileget_fetch *fetch;
	const char *remote, *local;
	struct subdirectory *subdirectories;
	int level;
};

struct subdirectory {
	struct subdirectory *next;
	char *remote, *local;
};

static void free_subdirectory(struct subdirectory *sub)
{
	free(sub->remote);
	free(sub->local);
	free(sub);
}

/* Remembers a directory: it is listed once this listing, which is in use now, was released. */
static int remember_directory(struct walk *walk, char *remote, char *local)
{
	struct subdirectory *sub = malloc(sizeof(*sub));

	if (!sub)
		return -ENOMEM;
	sub->remote = remote;
	sub->local = local;
	sub->next = walk->subdirectories;
	walk->subdirectories = sub;
	return 0;
}

static int add_entry(void *arg, const struct file_entry *entry)
{
	struct walk *walk = arg;
	char *remote = join(walk->remote, entry->name, entry->name_len);
	char *local = walk->local ? join(walk->local, entry->name, entry->name_len) : NULL;
	int err = -ENOMEM;

	if (remote && (local || !walk->local)) {
		if (entry->type == 'd')
			err = remember_directory(walk, remote, local);
		else
			err = fileget_fetch_add(walk->fetch, remote, local, 1, entry->size);
	}
	if (err == 0 && entry->type == 'd')
		return 0;
	free(remote);
	free(local);
	return err;
}

/* Adds all files below a directory. 0, or 1 when something failed, which was said. */
static int walk_directory(struct walk *walk)
{
	struct walk below = {
		.client = walk->client, .fetch = walk->fetch, .level = walk->level + 1};
	struct subdirectory *sub;
	int err, status;

	if (walk->level > LEVELS_MAX)
		return failed(walk->remote, -ELOOP);
	err = walk->local ? make_directory(walk->local) : 0;
	if (err < 0)
		return failed(walk->local, err);
	status = list(walk->client, walk->remote, add_entry, walk);
	while ((sub = walk->subdirectories)) {
		walk->subdirectories = sub->next;
		below.remote = sub->remote;
		below.local = sub->local;
		if (!stopped)
			status |= walk_directory(&below);
		free_subdirectory(sub);
	}
	return status;
}

static int add_recursive(struct fileget_client *client, struct fileget_fetch *fetch,
	const struct options *options, const char *remote)
{
	struct walk walk = {.client = client, .fetch = fetch, .remote = remote};

	if (!options->discard) {
		walk.local = options->output ? options->output : base_name(remote);
		if (walk.local[0] == '\0')
			walk.local = ".";
	}
	return walk_directory(&walk);
}

/* Where one file goes: below an existing directory under its own name, else as it was said. */
static char *local_name(const struct options *options, const char *remote)
{
	const char *name = base_name(remote);
	struct stat st;

	if (!options->output)
		return strdup(name);
	if (stat(options->output, &st) == 0 && S_ISDIR(st.st_mode))
		return join(options->output, name, strlen(name));
	return strdup(options->output);
}

static int add_one(struct fileget_fetch *fetch, const struct options *options, const char *remote)
{
	char *local = NULL;
	int err;

	if (!options->discard && fetch->stream_fd < 0) {
		local = local_name(options, remote);
		if (!local)
			return failed("no memory", -ENOMEM);
	}
	err = fileget_fetch_add(fetch, remote, local, 0, 0);
	free(local);
	return err < 0 ? failed(remote, err) : 0;
}

/* Adds the files named in a list, one a line; each goes under its own name into one directory. */
static int add_from_list(struct fileget_fetch *fetch, const struct options *options)
{
	struct options into = *options;
	FILE *stream = fopen(options->files_from, "re");
	char *line = NULL;
	size_t capacity = 0;
	ssize_t len;
	int status = 0;

	if (!stream)
		return failed(options->files_from, -errno);
	if (!into.output)
		into.output = ".";
	while (status == 0 && (len = getline(&line, &capacity, stream)) > 0) {
		if (line[len - 1] == '\n')
			line[--len] = '\0';
		if (len > 0)
			status = add_one(fetch, &into, line);
	}
	free(line);
	fclose(stream);
	return status;
}

/* ---- all together ---- */

static void print_stats(const struct fileget_fetch *fetch)
{
	double seconds = fetch->end_seconds - fetch->begin_seconds + 1e-9;
	char path[64];

	fileget_path_text(fetch->client, path, sizeof(path));
	fprintf(stderr,
		"stats: files=%llu failed=%llu bytes=%llu seconds=%.6f files_per_s=%.1f "
		"mb_per_s=%.2f path=%s",
		(unsigned long long)fetch->n_done, (unsigned long long)fetch->n_failed,
		(unsigned long long)fetch->bytes, seconds, (double)fetch->n_done / seconds,
		(double)fetch->bytes / 1e6 / seconds, path);
	if (fetch->discard)
		fprintf(stderr, " sum=%llu", (unsigned long long)fetch->sum);
	fputc('\n', stderr);
}

static void print_summary(const struct fileget_fetch *fetch)
{
	char path[64];

	fileget_path_text(fetch->client, path, sizeof(path));
	path[strcspn(path, "/")] = '\0';
	fprintf(stderr, "fileget: %llu %s, %.1f MB in %.3f s over %s\n",
		(unsigned long long)fetch->n_done, fetch->n_done == 1 ? "file" : "files",
		(double)fetch->bytes / 1e6, fetch->end_seconds - fetch->begin_seconds, path);
}

/* Sets *fd to the pipe or device that one file is to go to, or -1. 0 or a negative errno. */
static int open_stream(const struct options *options, int *fd)
{
	int stream = -1;

	if (options->output && strcmp(options->output, "-") == 0)
		stream = STDOUT_FILENO;
	else if (options->output && !options->discard && !options->recursive &&
		 !options->files_from && fileget_output_is_stream(options->output))
		stream = fileget_stream_open(options->output);
	else {
		*fd = -1;
		return 0;
	}
	if (stream < 0)
		return stream;
	*fd = stream;
	return 0;
}

/* Closing tells of what some devices could not keep. 0, or 1, having said so. */
static int close_stream(const struct options *options, int fd)
{
	if (fd < 0 || fd == STDOUT_FILENO || close(fd) == 0)
		return 0;
	return failed(options->output, -errno);
}

static int fetch_all(
	struct fileget_client *client, const struct options *options, const char *remote)
{
	struct fileget_fetch fetch;
	int status, err;

	fileget_fetch_init(&fetch, client);
	fetch.depth = (unsigned int)options->depth;
	fetch.piece_bytes = options->piece_bytes;
	fetch.discard = options->discard;
	fetch.show = !options->quiet && isatty(STDERR_FILENO);
	fetch.stop = &stopped;
	err = open_stream(options, &fetch.stream_fd);
	if (err < 0)
		return failed(options->output, err);
	/* The server gives no more to a client that keeps too much. */
	if (fetch.stream_fd >= 0 && fetch.depth > STREAM_MAX)
		fetch.depth = STREAM_MAX;
	if (options->files_from)
		status = add_from_list(&fetch, options);
	else if (options->recursive)
		status = add_recursive(client, &fetch, options, remote);
	else
		status = add_one(&fetch, options, remote);
	/* The listed files are fetched even if other files could not be listed. */
	err = fileget_fetch_run(&fetch);
	if (err < 0)
		status = failed("fetching ended", err);
	status |= close_stream(options, fetch.stream_fd);
	if (options->stats)
		print_stats(&fetch);
	else if (!options->quiet)
		print_summary(&fetch);
	return status || fetch.n_failed > 0;
}

static int run(const struct options *options)
{
	struct sigaction action = {.sa_handler = stop};
	char *remote = clean_path(options->path ? options->path : "");
	struct fileget_client *client;
	int err, status;

	if (!remote)
		return failed("no memory", -ENOMEM);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	err = fileget_client_open(options->id, (unsigned int)options->depth,
		(int)options->timeout_ms, &stopped, &client);
	if (err < 0) {
		free(remote);
		return failed("cannot reach the server", err);
	}
	if (options->list)
		status = list(client, remote, print_entry, NULL);
	else
		status = fetch_all(client, options, remote);
	fileget_client_close(client);
	free(remote);
	if (fflush(stdout) != 0)
		status = failed("standard output", -errno);
	return status;
}

static int parse_limited(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
	uint64_t number;

	if (parse_bytes(text, &number) < 0 || number < least || number > most)
		return -EINVAL;
	*value = number;
	return 0;
}

static int parse_option(int option, const char *arg, struct options *options)
{
	switch (option) {
	case 'i':
		return parse_service_id(arg, &options->id);
	case 'n':
		return parse_service_name(arg, &options->id);
	case 'o':
		options->output = arg;
		return arg[0] ? 0 : -EINVAL;
	case 'F':
		options->files_from = arg;
		return 0;
	case 'd':
		return parse_limited(arg, 1, DEPTH_MAX, &options->depth);
	case 'p':
		return parse_limited(arg, 4096, FILE_PIECE_MAX, &options->piece_bytes);
	case 't':
		return parse_limited(arg, 1, 1000000000, &options->timeout_ms);
	case 'l':
		options->list = 1;
		return 0;
	case 'r':
		options->recursive = 1;
		return 0;
	case 'D':
		options->discard = 1;
		return 0;
	case 's':
		options->stats = 1;
		return 0;
	case 'q':
		options->quiet = 1;
		return 0;
	default:
		return -EINVAL;
	}
}

/* Returns what is wrong with the options together, or NULL. */
static const char *check_options(const struct options *options)
{
	int to_stdout = options->output && strcmp(options->output, "-") == 0;

	if (options->id == 0)
		return "--id or --name is needed";
	if (options->list + options->recursive + (options->files_from != NULL) > 1)
		return "--list, --recursive and --files-from exclude each other";
	if (options->files_from && options->path)
		return "--files-from and a path exclude each other";
	if (!options->list && !options->recursive && !options->files_from && !options->path)
		return "which file?";
	if (to_stdout && (options->recursive || options->files_from))
		return "only one file can go to standard output";
	if (options->path && strlen(options->path) > FILE_PATH_MAX)
		return "the path is too long";
	if (!options->list && !options->recursive && !options->output && !options->files_from &&
		!options->discard && base_name(options->path)[0] == '\0')
		return "which file? (--recursive fetches a directory)";
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"id", required_argument, NULL, 'i'},
		{"name", required_argument, NULL, 'n'},
		{"output", required_argument, NULL, 'o'},
		{"list", no_argument, NULL, 'l'},
		{"recursive", no_argument, NULL, 'r'},
		{"files-from", required_argument, NULL, 'F'},
		{"depth", required_argument, NULL, 'd'},
		{"piece", required_argument, NULL, 'p'},
		{"discard", no_argument, NULL, 'D'},
		{"stats", no_argument, NULL, 's'},
		{"timeout", required_argument, NULL, 't'},
		{"quiet", no_argument, NULL, 'q'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct options options = {.depth = 4, .piece_bytes = FILE_PIECE_MAX, .timeout_ms = 10000};
	char what[OPTION_WRONG_MAX];
	const char *wrong;
	int option;

	while ((option = getopt_long(argc, argv, "o:lrqh", long_options, NULL)) >= 0) {
		if (option == 'h') {
			fputs(usage_text, stdout);
			return 0;
		}
		if (parse_option(option, optarg, &options) < 0)
			return usage_error(option_wrong(optarg, what));
	}
	if (optind < argc)
		options.path = argv[optind++];
	if (optind < argc)
		return usage_error("one path only");
	wrong = check_options(&options);
	return wrong ? usage_error(wrong) : run(&options);
}
