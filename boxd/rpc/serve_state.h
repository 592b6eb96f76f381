/* What serve.c has, and serve_requests.c takes packets for. */
#pragma once

#include "base/packet_queue.h"
#include "boxd/rpc/serve.h"
#include "protocol/packet.h"

struct box_artifacts;
struct box_boxes;
struct box_caller_roots;
struct box_jobs;
struct box_microvm_probe;
struct box_measures;
struct box_quota_queue;
struct box_skill_folder;

struct box_serve {
	struct box_start_data *carried;
	const struct box_listeners *listeners;
	struct box_host_state *ground;
	struct box_boxes *boxes;
	struct box_measures *measures;
	struct box_quota_queue *quotas;
	struct box_caller_roots *callers_roots;
	struct box_microvm_probe *machines;
	struct box_jobs *errands;
	struct box_skill_folder *store;
	struct box_artifacts *artifacts;
	int socket; /* -1: there is no box-rpc */
	int state_fd;
	bool ready;
	bool ever_ready;
	bool ever_asked;     /* for a box, or for the skill store */
	bool config_refused; /* boxd ends with BOX_BOXD_EXIT_CONFIG */
	/* Of the policy that --check-config sent. */
	int layout_checked;
	struct box_err layout_why;
	bool reload_wanted;
	uint64_t artifact_bytes; /* as told last */
	int reserve;       /* closed when a packet is taken, so that there is room for its fd */
	const char *wrong; /* why this box-rpc is to be ended */
	struct box_packet_queue outbox;
};

/* NULL, or why box-rpc is refused: `r` is what came of sending an answer. */
const char *box_serve_check_sent(int r);
/* 0, -EPIPE when there is no box-rpc, or why it is not taken. */
int box_serve_send(
	struct box_serve *serve, const void *body, size_t size, const int *fds, size_t fd_count);
/* What is told without being asked for, or late: whoever misses it would wait for ever. */
void box_serve_notify(
	struct box_serve *serve, const void *body, size_t size, const int *fds, size_t fd_count);
void box_serve_fill_failure(struct box_boxd_failure *failure, const struct box_err *err);
/* How much artifacts hold, when that has changed. */
void box_serve_notify_artifact_bytes(struct box_serve *serve);
/* Those of a list that are there; one that is not is the last. */
size_t box_serve_count_fds(const int *fds, size_t most);

/* --- serve_requests.c: each returns NULL, or why box-rpc is refused --- */

const char *box_serve_make_folder(struct box_serve *serve, struct box_packet *packet);
const char *box_serve_make_box(struct box_serve *serve, struct box_packet *packet);
const char *box_serve_end_box(struct box_serve *serve, struct box_packet *packet);
const char *box_serve_open_mount(struct box_serve *serve, struct box_packet *packet);
const char *box_serve_open_artifact(struct box_serve *serve, struct box_packet *packet);
const char *box_serve_open_store(struct box_serve *serve, struct box_packet *packet);
const char *box_serve_open_process_cgroup(struct box_serve *serve, struct box_packet *packet);
const char *box_serve_close_process_cgroup(struct box_serve *serve, struct box_packet *packet);
const char *box_serve_measure_folder(struct box_serve *serve, struct box_packet *packet);
const char *box_serve_measure_box(struct box_serve *serve, struct box_packet *packet);
const char *box_serve_try_microvms(struct box_serve *serve, struct box_packet *packet);
/* An artifact is there, or is not. */
void box_serve_artifact_done(void *arg, uint32_t id, int mount, const struct box_err *err);
