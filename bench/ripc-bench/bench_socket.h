/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Code shared by the socket peers of ripc-bench: opening sockets, and waiting in the same way as
 * the library was told to. All functions return a negative errno on failure.
 */
#ifndef TOOLS_BENCH_SOCKET_H
#define TOOLS_BENCH_SOCKET_H

#include <sys/types.h>
#include "bench.h"

/* A bound socket of the family that job->host has; tells its port through ready_fd. */
int bench_socket_serve(const struct bench_job *job, int type, int ready_fd);
/* A socket that is connected to the server at job->host and job->where. */
int bench_socket_connect(const struct bench_job *job, int type);
/* recv(2), but polling for spin_us before it blocks. 0 only at the end of a stream. */
ssize_t bench_socket_recv(int fd, void *buffer, size_t len, uint64_t spin_us);
/* Receives exactly len bytes. -ECONNRESET: the stream ended. */
int bench_socket_recv_all(int fd, void *buffer, size_t len, uint64_t spin_us);
int bench_socket_send_all(int fd, const void *buffer, size_t len);

#endif
