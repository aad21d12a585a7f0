/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the version of the library. */
#include <ripc/ripc.h>
#include <stdio.h>

int main(void)
{
	uint32_t version = ripc_version();

	printf("libripc %u.%u.%u\n", version >> 16, version >> 8 & 255,
			version & 255);
	return 0;
}
