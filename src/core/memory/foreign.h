/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the application that was registered: pieces that do not overlap, by address. */
#ifndef RIPC_FOREIGN_H
#define RIPC_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: none. */
struct ripc__foreign {
	struct ripc__piece *pieces; /* sorted by address */
	uint32_t n, capacity;
};

bool ripc__foreign_overlap(const void *a, size_t a_len, const void *b, size_t b_len);
/* buf + len does not wrap. -EEXIST: overlaps another piece. -ENOMEM. */
int ripc__foreign_add(struct ripc__foreign *foreign, void *buf, size_t len);
/* -ENOENT: no piece begins there. */
int ripc__foreign_remove(struct ripc__foreign *foreign, const void *buf);
/* Does all of [buf, buf + len) lie in one piece? */
bool ripc__foreign_contains(const struct ripc__foreign *foreign, const void *buf, size_t len);
void ripc__foreign_free(struct ripc__foreign *foreign);

#endif
