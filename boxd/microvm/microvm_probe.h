/* Finds out whether this host can run microVMs. When the first one is requested, box-vmm boots a guest
 * as a test (`box-vmm --probe=boot`); requests for microVMs wait for that in a queue, other requests do
 * not. Called by making.c. */
#pragma once

#include "boxd/host_state.h"
#include "boxd/making.h"

struct box_jobs;
struct box_microvm_facts;
struct box_microvm_probe;

/* The answer to box_microvm_probe_ask: err NULL: microVMs work here. */
typedef void box_microvm_probe_answered(void *arg, uint32_t request, const struct box_err *err);

struct box_microvm_probe *box_microvm_probe_new(struct box_host_state *host_state,
	struct box_jobs *jobs, const struct box_identity *ids, box_making_done *done,
	box_microvm_probe_answered *answered, void *arg);
void box_microvm_probe_free(struct box_microvm_probe *probe);

/* The stage MICROVM of a request for a box: `done` is called once, now or later. A native box passes at
 * once. */
void box_microvm_probe_request(struct box_microvm_probe *probe, struct box_making *making);
/* A query without a box: `answered` is called once, now or later. */
void box_microvm_probe_ask(struct box_microvm_probe *probe, uint32_t request);
/* Drops all waiting requests without an answer. */
void box_microvm_probe_drop_requests(struct box_microvm_probe *probe);

/* --- for tests --- */

/* The ids that box-vmm is probed with: those that may use /dev/kvm, with no more rights than needed. */
struct box_identity box_microvm_probe_identity(
	const struct box_microvm_facts *facts, const struct box_identity *ids);

/* The result, stored until the host reboots: in /run/box, or for a user (`root` false) in the folder of
 * the user's session. Reads what box-vmm printed, if it was this box-vmm since this boot: the length,
 * or negative. */
int box_microvm_probe_cache_read(bool root, const char *vmm_path, char *text, size_t size);
/* A failure is not reported: the next boxd probes again. */
void box_microvm_probe_cache_write(bool root, const char *vmm_path, const char *text, size_t len);
