/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors by name, and in words: the meaning of a code that this library returns, and the remedy.
 * The text of a code with several causes names all of them. Code that knows the cause has texts of
 * its own (api/info.c, for paths).
 */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ripc/ripc.h"

#define SYSTEM_MAX 133 /* the highest error that Linux has */

static const struct sentence {
	int code;
	const char *text;
} sentences[] = {
	{0, "success"},
	{ENOENT, "not found: no service has that ID (start it, or see \"ripc ls\"), or the group "
		"has no member, or the partner has ended, or no such watch, cookie, memory or "
		"directory of keys exists"},
	{EADDRINUSE, "this service ID is in use: end the service that has it (see \"ripc ls\"), or "
		"use another ID"},
	{EMSGSIZE, "the message is too long for the path or the receiver: send a long message, or "
		"parts, or raise the limit of the receiver (message_max_bytes)"},
	{ENOBUFS, "the receiver has no memory for the message: it must free received messages, or "
		"have a larger pool (pool_bytes)"},
	{EAGAIN, "not now: no message is queued, or too many operations are in progress: receive, "
		"or wait for operations to end, and try again"},
	{ETIMEDOUT, "timeout: the partner is slow or does not respond, or has no room until it "
		"frees received messages, or a firewall drops packets to or from it, or the "
		"timeout is too short: see \"ripc ping\", or use a longer timeout"},
	{ENOMEM, "out of memory: the pool is full (free messages, or raise pool_bytes), or the "
		"system has no more memory, or no more threads (ulimit -u)"},
	{E2BIG, "a struct has fields set that this libripc does not know: install the libripc "
		"that the program was compiled with, or a newer one"},
	{EBUSY, "in use: another thread or program uses it"},
	{EMFILE, "too many open files in this process: raise the limit (ulimit -n)"},
	{ENFILE, "too many open files on this host: raise fs.file-max (sysctl)"},
	{ECONNRESET, "the partner or the network failed after the message was sent, or a firewall "
		"drops packets (see \"ripc ping\"): if the outcome is unknown, query the partner, "
		"or send again if a duplicate does no harm"},
	{EHOSTUNREACH, "the partner does not respond, or no network leads to it: see \"ripc ping\" "
		"and \"ripc doctor\""},
	{ECANCELED, "cancelled by ripc_cancel(), by the end of the service or of a window, or "
		"because an earlier ordered message failed: send the message again if it is still "
		"needed"},
	{ESHUTDOWN, "the service is drained or closing: open another service"},
	{EOWNERDEAD, "this context belongs to the parent process: open a context after fork()"},
	{ENODEV, "no backend can run on this host: see \"ripc doctor\""},
	{EBADMSG, "the message was altered in transit"},
	{EPROTONOSUPPORT, "the partner speaks another version of the protocol: "
		"install the same libripc on both hosts"},
	{EINVAL, "an argument, an option or an environment variable is invalid (a group has no "
		"single owner to call, ping, find or watch): for ripc_open(), the log names it "
		"(RIPC_LOG=error)"},
	{EEXIST, "already exists, or overlaps registered memory or the pool: end the existing one "
		"first, or use it"},
	{EALREADY, "already done: no further call is needed"},
	{EOVERFLOW, "too many references to one buffer"},
	{EINTR, "interrupted by ripc_wake() or by a signal: call again to continue"},
	{EINPROGRESS, "not finished yet"},
	{EACCES, "access refused: the service belongs to another user or has other keys "
		"(RIPC_KEYS), or a key lacks a capability (ripc key grant) or is revoked, or a "
		"sandbox or firewall of this host interferes"},
	{ENOKEY, "one of the two programs has keys, the other has none: configure keys of one "
		"deployment for both (RIPC_KEYS)"},
	{EPERM, "not permitted: a sandbox or firewall of this host interferes"},
	{ENETDOWN, "the network interface that leads to the partner is down: see \"ip link\""},
	{ENETUNREACH, "this host has no route to the partner: see \"ip route\""},
	{EADDRNOTAVAIL, "this host has no such address"},
	{EAFNOSUPPORT, "no address family in common with the partner"},
	{ECONNREFUSED, "no process listens at that address: the partner has ended, or does not "
		"admit this user"},
	{EFBIG, "a file or shared memory would be longer than RLIMIT_FSIZE allows: raise the limit "
		"(ulimit -f unlimited, or LimitFSIZE=infinity in systemd)"},
	{EPROTO, "the partner violates the protocol"},
	{EUSERS, "too many processes of one user are connected"},
	{ENOSPC, "no space: the system has no memory left for shared files, or a limit is reached: "
		"see \"df\" of /dev/shm"},
	{ENODATA, "no data available"},
	{ENAMETOOLONG, "the name is too long"},
	{ENOTSUP, "this system or device cannot do that"},
	{ENOSYS, "this kernel cannot do that: a newer one can"},
	{EFAULT, "a page of the memory cannot be read: pass memory that is mapped and readable"},
	{EIO, "the system failed to read or write (input/output error)"},
};

const char *ripc_strerror(int error)
{
	int positive = error < 0 && error != INT_MIN ? -error : error;
	const char *text;

	for (size_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++) {
		if (sentences[i].code == positive)
			return sentences[i].text;
	}
	/* The text of an error that exists is static in every C library. */
	text = positive > 0 && positive <= SYSTEM_MAX && positive != 41 && positive != 58 ?
		strerror(positive) : NULL;
	return text ? text : "unknown error";
}

#define NAME(code) [code] = #code
static const char *const names[] = {
	[0] = "0",
	NAME(EPERM), NAME(ENOENT), NAME(ESRCH), NAME(EINTR), NAME(EIO), NAME(ENXIO), NAME(E2BIG),
	NAME(ENOEXEC), NAME(EBADF), NAME(ECHILD), NAME(EAGAIN), NAME(ENOMEM), NAME(EACCES),
	NAME(EFAULT), NAME(ENOTBLK), NAME(EBUSY), NAME(EEXIST), NAME(EXDEV), NAME(ENODEV),
	NAME(ENOTDIR), NAME(EISDIR), NAME(EINVAL), NAME(ENFILE), NAME(EMFILE), NAME(ENOTTY),
	NAME(ETXTBSY), NAME(EFBIG), NAME(ENOSPC), NAME(ESPIPE), NAME(EROFS), NAME(EMLINK),
	NAME(EPIPE), NAME(EDOM), NAME(ERANGE), NAME(EDEADLK), NAME(ENAMETOOLONG), NAME(ENOLCK),
	NAME(ENOSYS), NAME(ENOTEMPTY), NAME(ELOOP), NAME(ENOMSG), NAME(EIDRM), NAME(ECHRNG),
	NAME(EL2NSYNC), NAME(EL3HLT), NAME(EL3RST), NAME(ELNRNG), NAME(EUNATCH), NAME(ENOCSI),
	NAME(EL2HLT), NAME(EBADE), NAME(EBADR), NAME(EXFULL), NAME(ENOANO), NAME(EBADRQC),
	NAME(EBADSLT), NAME(EBFONT), NAME(ENOSTR), NAME(ENODATA), NAME(ETIME), NAME(ENOSR),
	NAME(ENONET), NAME(ENOPKG), NAME(EREMOTE), NAME(ENOLINK), NAME(EADV), NAME(ESRMNT),
	NAME(ECOMM), NAME(EPROTO), NAME(EMULTIHOP), NAME(EDOTDOT), NAME(EBADMSG), NAME(EOVERFLOW),
	NAME(ENOTUNIQ), NAME(EBADFD), NAME(EREMCHG), NAME(ELIBACC), NAME(ELIBBAD), NAME(ELIBSCN),
	NAME(ELIBMAX), NAME(ELIBEXEC), NAME(EILSEQ), NAME(ERESTART), NAME(ESTRPIPE), NAME(EUSERS),
	NAME(ENOTSOCK), NAME(EDESTADDRREQ), NAME(EMSGSIZE), NAME(EPROTOTYPE), NAME(ENOPROTOOPT),
	NAME(EPROTONOSUPPORT), NAME(ESOCKTNOSUPPORT), NAME(EOPNOTSUPP), NAME(EPFNOSUPPORT),
	NAME(EAFNOSUPPORT), NAME(EADDRINUSE), NAME(EADDRNOTAVAIL), NAME(ENETDOWN),
	NAME(ENETUNREACH), NAME(ENETRESET), NAME(ECONNABORTED), NAME(ECONNRESET), NAME(ENOBUFS),
	NAME(EISCONN), NAME(ENOTCONN), NAME(ESHUTDOWN), NAME(ETOOMANYREFS), NAME(ETIMEDOUT),
	NAME(ECONNREFUSED), NAME(EHOSTDOWN), NAME(EHOSTUNREACH), NAME(EALREADY), NAME(EINPROGRESS),
	NAME(ESTALE), NAME(EUCLEAN), NAME(ENOTNAM), NAME(ENAVAIL), NAME(EISNAM), NAME(EREMOTEIO),
	NAME(EDQUOT), NAME(ENOMEDIUM), NAME(EMEDIUMTYPE), NAME(ECANCELED), NAME(ENOKEY),
	NAME(EKEYEXPIRED), NAME(EKEYREVOKED), NAME(EKEYREJECTED), NAME(EOWNERDEAD),
	NAME(ENOTRECOVERABLE), NAME(ERFKILL), NAME(EHWPOISON),
};
#undef NAME

const char *ripc_errname(int error)
{
	uint32_t positive = error < 0 ? 0u - (uint32_t)error : (uint32_t)error;

	return positive < sizeof(names) / sizeof(names[0]) ? names[positive] : NULL;
}
