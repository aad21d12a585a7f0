/* SPDX-License-Identifier: BSD-3-Clause */
/* The backend over Unix seqpacket sockets, for tests and as an example. */
#ifndef SEQPACKET_H
#define SEQPACKET_H

#include "core/net/backend.h"

extern const struct ripc__backend seqpacket_backend;

#endif
