/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that is shared by descriptor: made by its owner, checked and mapped by others. */
#ifndef RIPC_SHM_SEGMENT_H
#define RIPC_SHM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Makes len bytes (whole pages) of zeros that have memory behind them and can neither shrink nor
 * grow; read_only: for all who map it after us. *memory is our mapping, *fd is for the others.
 * -ENOMEM, -EMFILE, -EFBIG (ripc__memfd_size()) and what memfd_create(2) may say.
 */
int ripc__shm_segment_make(size_t len, bool read_only, void **memory, int *fd);
/*
 * Maps len bytes of somebody's descriptor, which stays the caller's. -EBADMSG: it is no such
 * memory, it has holes, or it could be taken away under us.
 */
int ripc__shm_segment_map(int fd, size_t len, bool writable, void **memory);
/*
 * The same, read only, of a file of *len bytes that need not be filled: as far as there is memory,
 * which is then *len. -ENODATA: there is none.
 */
int ripc__shm_segment_map_filled(int fd, size_t *len, void **memory);
void ripc__shm_segment_unmap(void *memory, size_t len);

#endif
