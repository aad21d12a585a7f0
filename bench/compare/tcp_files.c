/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_files: what fileserver and fileget are compared with for many small files. One thread at
 * either end, one connection that is kept, TCP_NODELAY, several requests under way. The server
 * makes at most five system calls per file (recv, openat, read, close, send), and fewer when
 * several requests come with one recv. Nothing is looked up, cached or opened ahead. For large
 * files there is --sendfile: no byte of a file passes through the server.
 *
 *   request: 2 bytes length, path        answer: 8 bytes length or all ones, the file's bytes
 *
 * Not meant to be exposed: it serves one client at a time and trusts the tree that it serves.
 */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../examples/sum.h"

#define PATH_LEN_MAX 1024
#define FILE_HEADER  8
#define FILE_MAX     (128u << 20)
#define BUFFER_BYTES (1u << 20)
#define DEPTH_MAX    256
#define NO_SUCH_FILE UINT64_MAX

static const char usage_text[] =
	"usage: tcp_files --serve DIR --port P [--sendfile]\n"
	"       tcp_files --get HOST:PORT --list FILE | --dir DIR [--depth N]\n"
	"\n"
	"Serves small files over one TCP connection; fetches all that are named in FILE, one a\n"
	"line, or found in the local directory DIR, and prints how fast that was.\n";

static int usage_error(const char *what)
{
	fprintf(stderr, "tcp_files: %s\n%s", what, usage_text);
	return 2;
}

static int failed(const char *what, int error)
{
	fprintf(stderr, "tcp_files: %s: %s\n", what, strerror(error));
	return 1;
}

static int send_all(int fd, const uint8_t *bytes, size_t len)
{
	ssize_t sent;

	for (; len > 0; bytes += sent, len -= (size_t)sent) {
		sent = send(fd, bytes, len, MSG_NOSIGNAL);
		if (sent < 0)
			return -errno;
	}
	return 0;
}

/* ---- the server ---- */

struct server {
	int dir_fd, fd;
	int use_sendfile;
	uint8_t *file; /* FILE_HEADER bytes and a file behind them */
	uint8_t in[65536];
	size_t in_len;
};

/* Reads a file behind the header. Returns its length or NO_SUCH_FILE. */
static uint64_t read_file(struct server *server, const char *path)
{
	int fd = openat(server->dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	uint64_t len = 0;
	ssize_t got;

	if (fd < 0)
		return NO_SUCH_FILE;
	do {
		got = read(fd, server->file + FILE_HEADER + len, FILE_MAX - len);
		if (got > 0)
			len += (uint64_t)got;
		/* A small file comes at once: less than there was room for means the end. */
	} while (got >= (ssize_t)BUFFER_BYTES && len < FILE_MAX);
	close(fd);
	return got < 0 ? NO_SUCH_FILE : len;
}

static int send_by_kernel(struct server *server, int fd, uint64_t len)
{
	uint64_t left = len, header = htole64(len);
	ssize_t sent = send(server->fd, &header, FILE_HEADER, MSG_NOSIGNAL | MSG_MORE);

	if (sent != FILE_HEADER)
		return sent < 0 ? -errno : -EIO;
	for (; left > 0; left -= (uint64_t)sent) {
		sent = sendfile(server->fd, fd, NULL, left);
		if (sent <= 0)
			return sent < 0 ? -errno : -EIO;
	}
	return 0;
}

static int answer_by_kernel(struct server *server, const char *path)
{
	int fd = openat(server->dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), err;
	uint64_t none = NO_SUCH_FILE;
	struct stat status;

	if (fd < 0)
		return send_all(server->fd, (const uint8_t *)&none, FILE_HEADER);
	err = fstat(fd, &status) < 0 ? -errno :
		send_by_kernel(server, fd, (uint64_t)status.st_size);
	close(fd);
	return err;
}

static int answer(struct server *server, const uint8_t *path_bytes, size_t path_len)
{
	char path[PATH_LEN_MAX + 1];
	uint64_t len = NO_SUCH_FILE, header;

	memcpy(path, path_bytes, path_len);
	path[path_len] = '\0';
	if (path[0] != '/' && !strstr(path, "..")) {
		if (server->use_sendfile)
			return answer_by_kernel(server, path);
		len = read_file(server, path);
	}
	header = htole64(len);
	memcpy(server->file, &header, FILE_HEADER);
	return send_all(server->fd, server->file, FILE_HEADER + (len == NO_SUCH_FILE ? 0 : len));
}

/* Answers all complete requests that were received. */
static int answer_received(struct server *server)
{
	size_t at = 0, path_len;
	int err = 0;

	while (err == 0 && server->in_len - at >= 2) {
		path_len = server->in[at] | (size_t)server->in[at + 1] << 8;
		if (path_len > PATH_LEN_MAX)
			return -EBADMSG;
		if (server->in_len - at < 2 + path_len)
			break;
		err = answer(server, server->in + at + 2, path_len);
		at += 2 + path_len;
	}
	memmove(server->in, server->in + at, server->in_len - at);
	server->in_len -= at;
	return err;
}

static void serve_connection(struct server *server)
{
	ssize_t got;
	int err = 0;

	server->in_len = 0;
	while (err == 0) {
		got = recv(server->fd, server->in + server->in_len,
			sizeof(server->in) - server->in_len, 0);
		if (got <= 0)
			return;
		server->in_len += (size_t)got;
		err = answer_received(server);
	}
}

static int listen_at(uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 1) < 0 ||
		getsockname(fd, (struct sockaddr *)&address, &len) < 0)
		return -errno;
	printf("tcp_files: serving at port %u\n", ntohs(address.sin_port));
	fflush(stdout);
	return fd;
}

static int serve(const char *dir, uint16_t port, int use_sendfile)
{
	static struct server server;
	int listener;

	server.use_sendfile = use_sendfile;
	server.file = malloc(FILE_HEADER + FILE_MAX);
	server.dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!server.file)
		return failed("no memory", ENOMEM);
	if (server.dir_fd < 0)
		return failed(dir, errno);
	listener = listen_at(port);
	if (listener < 0)
		return failed("cannot listen", -listener);
	for (;;) {
		server.fd = accept(listener, NULL, NULL);
		if (server.fd < 0)
			return failed("cannot accept", errno);
		serve_connection(&server);
		close(server.fd);
	}
}

/* ---- the client ---- */

struct names {
	char **list;
	size_t n, capacity;
};

struct client {
	int fd;
	struct names names;
	size_t n_asked, n_answered, n_missing;
	uint64_t bytes, sum;
	int in_file; /* in the middle of a file's bytes, left of which are to come: */
	uint64_t left;
	uint8_t in[BUFFER_BYTES], out[65536];
	size_t in_len;
};

static int add_name(struct names *names, const char *name)
{
	size_t capacity = names->capacity ? names->capacity * 2 : 1024;
	char **list;

	if (strlen(name) > PATH_LEN_MAX)
		return -ENAMETOOLONG;
	if (names->n == names->capacity) {
		list = realloc(names->list, capacity * sizeof(*list));
		if (!list)
			return -ENOMEM;
		names->list = list;
		names->capacity = capacity;
	}
	names->list[names->n] = strdup(name);
	return names->list[names->n++] ? 0 : -ENOMEM;
}

static int read_list(const char *path, struct names *names)
{
	FILE *stream = fopen(path, "re");
	char *line = NULL;
	size_t capacity = 0;
	ssize_t len;
	int err = 0;

	if (!stream)
		return -errno;
	while (err == 0 && (len = getline(&line, &capacity, stream)) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0])
			err = add_name(names, line);
	}
	free(line);
	fclose(stream);
	return err;
}

static int read_directory(const char *path, struct names *names)
{
	DIR *stream = opendir(path);
	struct dirent *dirent;
	int err = 0;

	if (!stream)
		return -errno;
	while (err == 0 && (dirent = readdir(stream)))
		if (dirent->d_type == DT_REG)
			err = add_name(names, dirent->d_name);
	closedir(stream);
	return err;
}

/* Asks until depth requests are under way, with one send. */
static int ask(struct client *client, size_t depth)
{
	size_t len = 0, name_len;

	while (client->n_asked < client->names.n && client->n_asked - client->n_answered < depth) {
		name_len = strlen(client->names.list[client->n_asked]);
		if (len + 2 + name_len > sizeof(client->out))
			break;
		client->out[len++] = (uint8_t)name_len;
		client->out[len++] = (uint8_t)(name_len >> 8);
		memcpy(client->out + len, client->names.list[client->n_asked], name_len);
		len += name_len;
		client->n_asked++;
	}
	return len > 0 ? send_all(client->fd, client->out, len) : 0;
}

static void begin_file(struct client *client, const uint8_t *header)
{
	uint64_t len;

	memcpy(&len, header, sizeof(len));
	len = le64toh(len);
	client->in_file = 1;
	client->left = len == NO_SUCH_FILE ? 0 : len;
	client->n_missing += len == NO_SUCH_FILE;
}

/* The payload is touched, as fileget --discard does. */
static void take_bytes(struct client *client, const uint8_t *bytes, size_t len)
{
	client->sum += sum_bytes(bytes, len);
	client->bytes += len;
	client->left -= len;
}

static void take_received(struct client *client)
{
	size_t at = 0, len;

	for (;;) {
		if (!client->in_file) {
			if (client->in_len - at < FILE_HEADER)
				break;
			begin_file(client, client->in + at);
			at += FILE_HEADER;
		}
		len = client->in_len - at;
		if (len > client->left)
			len = client->left;
		take_bytes(client, client->in + at, len);
		at += len;
		if (client->left > 0)
			break;
		client->in_file = 0;
		client->n_answered++;
	}
	memmove(client->in, client->in + at, client->in_len - at);
	client->in_len -= at;
}

static int connect_to(const char *address)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	const char *colon = strrchr(address, ':');
	char host[64];
	int fd, one = 1;

	if (!colon)
		return -EINVAL;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
	to.sin_port = htons((uint16_t)atoi(colon + 1));
	if (inet_pton(AF_INET, host, &to.sin_addr) != 1)
		return -EINVAL;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ? -errno : fd;
}

static int fetch(struct client *client, size_t depth)
{
	ssize_t got;
	int err = 0;

	while (err == 0 && client->n_answered < client->names.n) {
		err = ask(client, depth);
		if (err < 0)
			break;
		got = recv(client->fd, client->in + client->in_len,
			sizeof(client->in) - client->in_len, 0);
		if (got <= 0)
			return got < 0 ? -errno : -ECONNRESET;
		client->in_len += (size_t)got;
		take_received(client);
	}
	return err;
}

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int get(const char *address, const char *list, const char *dir, size_t depth)
{
	static struct client client;
	int err = list ? read_list(list, &client.names) : read_directory(dir, &client.names);
	double seconds;

	if (err < 0)
		return failed(list ? list : dir, -err);
	client.fd = connect_to(address);
	if (client.fd < 0)
		return failed(address, -client.fd);
	seconds = now_seconds();
	err = fetch(&client, depth);
	seconds = now_seconds() - seconds + 1e-9;
	if (err < 0)
		return failed("fetching ended", -err);
	printf("stats: files=%zu failed=%zu bytes=%llu seconds=%.6f files_per_s=%.1f mb_per_s=%.2f "
	       "path=tcp sum=%llu\n",
		client.n_answered - client.n_missing, client.n_missing,
		(unsigned long long)client.bytes, seconds, (double)client.n_answered / seconds,
		(double)client.bytes / 1e6 / seconds, (unsigned long long)client.sum);
	return client.n_missing > 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"serve", required_argument, NULL, 's'},
		{"port", required_argument, NULL, 'p'},
		{"sendfile", no_argument, NULL, 'f'},
		{"get", required_argument, NULL, 'g'},
		{"list", required_argument, NULL, 'l'},
		{"dir", required_argument, NULL, 'd'},
		{"depth", required_argument, NULL, 'n'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	const char *values[128] = {NULL};
	int option, depth;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
		if (option == 'h') {
			fputs(usage_text, stdout);
			return 0;
		}
		if (option == '?')
			return usage_error("invalid option");
		values[option] = optarg ? optarg : "";
	}
	depth = values['n'] ? atoi(values['n']) : 1;
	if (optind < argc || depth < 1 || depth > DEPTH_MAX)
		return usage_error("arguments make no sense");
	if (values['s'] && values['p'])
		return serve(values['s'], (uint16_t)atoi(values['p']), values['f'] != NULL);
	if (values['g'] && !values['l'] != !values['d'])
		return get(values['g'], values['l'], values['d'], (size_t)depth);
	return usage_error("what is to be done?");
}
