/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of cases; each adds its own. */
#ifndef CONFORMANCE_CASES_H
#define CONFORMANCE_CASES_H

#include <check.h>

/* Adds a list that ends with NULL, each once per variant. */
void cases_add(TCase *tcase, const TTest *const *cases);

void conformance_setup_cases(TCase *tcase);
void conformance_datagram_cases(TCase *tcase);
void conformance_buffer_cases(TCase *tcase);
void conformance_waiting_cases(TCase *tcase);
void conformance_read_cases(TCase *tcase);    /* needs read */
void conformance_write_cases(TCase *tcase);   /* needs read and write */
void conformance_map_cases(TCase *tcase);     /* needs map */

#endif
