/* SPDX-License-Identifier: BSD-3-Clause */
/* The remedies of what the operating system may lack; see remedy.h. */
#include "remedy.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

static const struct {
	int code;
	const char *text;
} remedies[] = {
	{EMFILE, "raise the limit of open files: RLIMIT_NOFILE (ulimit -n)"},
	{ENFILE, "raise the limit of open files of this host: fs.file-max (sysctl)"},
	{ENOMEM, "free memory, or raise the limit of the control group (memory.max) or of "
		"addresses: RLIMIT_AS (ulimit -v)"},
	{ENOBUFS, "free memory of the kernel, or raise net.core.wmem_max (sysctl)"},
	{EAGAIN, "raise the limit of threads: RLIMIT_NPROC (ulimit -u), or pids.max of the "
		"control group"},
	{EFBIG, "raise the limit of file lengths: RLIMIT_FSIZE (ulimit -f), or LimitFSIZE= in "
		"systemd"},
};

void ripc__remedy(int error, const char *otherwise, char remedy[256])
{
	for (size_t i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++) {
		if (remedies[i].code == -error)
			otherwise = remedies[i].text;
	}
	snprintf(remedy, 256, "%s", otherwise);
}
