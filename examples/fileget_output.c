/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing to files under a temporary name, which becomes the final one when all is there; see
 * fileget.h. Only a regular file may be replaced so: a symbolic link stays, and what it leads to is
 * replaced; a pipe or a device is written to as it is, and whatever else is there is left alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "fileget.h"

static int is_stream(const struct stat *st)
{
	return S_ISFIFO(st->st_mode) || S_ISCHR(st->st_mode);
}

int fileget_output_is_stream(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && is_stream(&st);
}

int fileget_stream_open(const char *path)
{
	int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	/* Something else may have got that name since it was looked at. */
	if (fstat(fd, &st) == 0 && is_stream(&st))
		return fd;
	close(fd);
	return -EEXIST;
}

/*
 * Fills final, of PATH_MAX bytes, with the name that the file is to have in the end: path, or what
 * that leads to. -EEXIST: something is there that must not be replaced.
 */
static int find_final(const char *path, char *final)
{
	struct stat st;
	int len;

	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
		/* A link that leads to nothing fails here, as it does with cp(1). */
		if (!realpath(path, final))
			return -errno;
	} else {
		len = snprintf(final, PATH_MAX, "%s", path);
		if (len < 0 || len >= PATH_MAX)
			return -ENAMETOOLONG;
	}
	if (lstat(final, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return S_ISREG(st.st_mode) ? 0 : -EEXIST;
}

int fileget_output_open(struct fileget_output *output, const char *path)
{
	static unsigned int n_exposed;
	int err = find_final(path, output->final), dir_len, len;
	const char *slash;

	if (err < 0)
		return err;
	slash = strrchr(output->final, '/');
	dir_len = slash ? (int)(slash - output->final) + 1 : 0;
	len = snprintf(output->temporary, sizeof(output->temporary), "%.*s.fileget-%ld-%u", dir_len,
		output->final, (long)getpid(), n_exposed++);
	if (len < 0 || (size_t)len >= sizeof(output->temporary))
		return -ENAMETOOLONG;
	output->fd =
		open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	return output->fd < 0 ? -errno : 0;
}

int fileget_output_write(int fd, const uint8_t *data, size_t len, uint64_t offset)
{
	ssize_t written;

	while (len > 0) {
		written = pwrite(fd, data, len, (off_t)offset);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		data += written;
		len -= (size_t)written;
		offset += (uint64_t)written;
	}
	return 0;
}

int fileget_write_stream(int fd, const uint8_t *data, size_t len)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
	ssize_t written;

	while (len > 0) {
		written = write(fd, data, len);
		if (written < 0 && errno == EAGAIN)
			poll(&poll_fd, 1, -1);
		else if (written < 0 && errno != EINTR)
			return -errno;
		if (written > 0) {
			data += written;
			len -= (size_t)written;
		}
	}
	return 0;
}

int fileget_output_finish(struct fileget_output *output)
{
	int err = 0;

	/* Some file systems tell only here that there was no room. */
	if (close(output->fd) < 0)
		err = -errno;
	output->fd = -1;
	if (err == 0 && rename(output->temporary, output->final) < 0)
		err = -errno;
	if (err < 0)
		unlink(output->temporary);
	return err;
}

void fileget_output_abort(struct fileget_output *output)
{
	if (output->fd < 0)
		return;
	close(output->fd);
	output->fd = -1;
	unlink(output->temporary);
}
