/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing to files under a temporary name, which becomes the final one when all is there; see
 * fileget.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "fileget.h"

int fileget_output_open(struct fileget_output *output, const char *path)
{
	static unsigned int n_opened;
	const char *slash = strrchr(path, '/');
	int dir_len = slash ? (int)(slash - path) + 1 : 0, len;

	len = snprintf(output->final, sizeof(output->final), "%s", path);
	if (len < 0 || (size_t)len >= sizeof(output->final))
		return -ENAMETOOLONG;
	len = snprintf(output->temporary, sizeof(output->temporary), "%.*s.fileget-%ld-%u", dir_len,
		path, (long)getpid(), n_opened++);
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
