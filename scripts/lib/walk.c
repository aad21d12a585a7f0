/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints each call of an instrumented function while the program is in measured(), once that has
 * ended: the caller's address and the function's. Linked with bench/micro/shorts and
 * bench/micro/longs by scripts/walk.
 */
#include <stdbool.h>
#include <stdio.h>

#define CALLS_MAX (1u << 22)
#define DEPTH_MAX 256u
#define UNTRACED  __attribute__((no_instrument_function))

void measured(void); /* of the program, whatever its parameters: only its address is used */

static struct {
	void *caller, *callee;
} calls[CALLS_MAX];
static _Thread_local void *stack[DEPTH_MAX];
static _Thread_local unsigned int depth;
static _Thread_local bool traces;
static unsigned int n_calls;

void __cyg_profile_func_enter(void *function, void *site) UNTRACED;
void __cyg_profile_func_exit(void *function, void *site) UNTRACED;

void __cyg_profile_func_enter(void *function, void *site)
{
	(void)site;
	if (depth < DEPTH_MAX)
		stack[depth] = function;
	if (traces && n_calls < CALLS_MAX && depth > 0 && depth < DEPTH_MAX) {
		calls[n_calls].caller = stack[depth - 1];
		calls[n_calls++].callee = function;
	}
	traces |= function == (void *)measured;
	depth++;
}

void __cyg_profile_func_exit(void *function, void *site)
{
	(void)site;
	depth--;
	if (function != (void *)measured)
		return;
	traces = false;
	for (unsigned int i = 0; i < n_calls; i++)
		printf("%p %p\n", calls[i].caller, calls[i].callee);
}
