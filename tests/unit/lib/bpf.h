/* Runs a seccomp program on made-up calls, without a kernel.
 *
 * It knows only the instructions that our filters use. Any other one, a jump out of the program, a
 * load outside the fields or a program without end is an error, never a verdict. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool bpf_load(const struct seccomp_data *call, uint32_t offset, uint32_t *ret_word)
{
	if (offset % sizeof(uint32_t) != 0 || offset > sizeof(*call) - sizeof(uint32_t)) {
		return false;
	}
	memcpy(ret_word, (const char *)call + offset, sizeof(*ret_word));
	return true;
}

static inline bool bpf_jumps(const struct sock_filter *at, uint32_t word, bool *ret_taken)
{
	switch (at->code) {
	case BPF_JMP | BPF_JEQ | BPF_K:
		*ret_taken = word == at->k;
		return true;
	case BPF_JMP | BPF_JGT | BPF_K:
		*ret_taken = word > at->k;
		return true;
	case BPF_JMP | BPF_JGE | BPF_K:
		*ret_taken = word >= at->k;
		return true;
	case BPF_JMP | BPF_JSET | BPF_K:
		*ret_taken = (word & at->k) != 0;
		return true;
	default:
		return false;
	}
}

/* False when the program is not one. Jumps only go forward, so it ends. */
static inline bool bpf_run(const struct sock_filter *program, size_t count,
	const struct seccomp_data *call, uint32_t *ret_action)
{
	uint32_t word = 0;
	for (size_t i = 0; i < count; i++) {
		const struct sock_filter *at = &program[i];
		bool taken = false;
		if (at->code == (BPF_LD | BPF_W | BPF_ABS)) {
			if (!bpf_load(call, at->k, &word)) {
				return false;
			}
		} else if (at->code == (BPF_ALU | BPF_AND | BPF_K)) {
			word &= at->k;
		} else if (at->code == (BPF_JMP | BPF_JA)) {
			i += at->k;
		} else if (at->code == (BPF_RET | BPF_K)) {
			*ret_action = at->k;
			return true;
		} else if (bpf_jumps(at, word, &taken)) {
			i += taken ? at->jt : at->jf;
		} else {
			return false;
		}
	}
	return false;
}
