/* box-rpc's end of the socketpair to boxd, on the event loop: requests and reports. The packets are in
 * protocol/boxd.h. */
#pragma once

#include <stddef.h>
#include <uv.h>

#include "protocol/packet.h"
#include "runtime/backend/local.h"
#include "runtime/runtime.h"

struct box_boxd_client;

struct box_boxd_client_events {
	/* A box of the previous box-rpc, with its fds (memory and rest: -1 if absent). All of them
	 * come before `listen`. */
	void (*inherited)(
		void *arg, uint64_t box, int control, int memory, int rest, uint32_t host_address);
	/* A box has ended, whether that was requested or not. */
	void (*gone)(void *arg, uint64_t box);
	/* How much memory artifacts use now. */
	void (*artifact_bytes)(void *arg, uint64_t artifact_bytes);
	void (*ending)(void *arg, uint64_t box, uint32_t why); /* boxd ends it; `gone` follows */
	void (*listen)(void *arg, int *fds, size_t count);     /* the callee owns the fds */
	void (*reload)(void *arg, int fd);                     /* likewise */
	void (*tokens)(
		void *arg, const char *text, size_t size); /* of the token file, as it is now */
	/* What boxes would get on this host now; the first report comes before `listen`. */
	void (*host)(void *arg, const struct box_boxd_host *host);
	void (*stop)(void *arg);
	void (*lost)(void *arg); /* boxd is gone */
};

/* Waits for START, the first packet. 0 or -errno. */
int box_boxd_client_receive_start(struct box_packet *ret_packet);

/* 0 or negative errno. */
int box_boxd_client_open(uv_loop_t *loop, const struct box_boxd_client_events *events, void *arg,
	struct box_boxd_client **ret_client);

/* Tells boxd that box-rpc is configured and confined. */
int box_boxd_client_send_ready(struct box_boxd_client *client);

/* Makes boxd examine the host again; `host` is called with the result. */
int box_boxd_client_refresh_host(struct box_boxd_client *client);

/* Tells boxd that the configuration of the last RELOAD is in force. */
int box_boxd_client_confirm_reload(struct box_boxd_client *client);

/* Tells boxd that the tokens of the last TOKENS are in force. */
int box_boxd_client_confirm_tokens(struct box_boxd_client *client);

/* Gives boxd a memfd to keep for our successor; the caller keeps the fd. */
int box_boxd_client_keep_state(struct box_boxd_client *client, int fd);

/* As struct box_runtime_host.folder. */
void box_boxd_client_prepare_folder(struct box_boxd_client *client, const char *path,
	enum box_runtime_folder_mode wish, box_runtime_folder_done *done, void *arg);

/* As struct box_runtime_host.measure. */
void box_boxd_client_measure(struct box_boxd_client *client, const struct box_storage_measure *what,
	box_storage_measure_done *done, void *arg);

/* Makes boxd start box-skills in the folder of the skill store. `done` is called once, later: with a
 * socket that the callee owns and the resolved path of the folder, or with an error. */
typedef void box_boxd_client_skills_started(
	void *arg, int socket, const char *path, const struct box_err *err);
void box_boxd_client_start_skills(struct box_boxd_client *client, const char *path,
	box_boxd_client_skills_started *done, void *arg);

/* The requests of the local backend; the first argument is a struct box_boxd_client. */
extern const struct box_local_boxd box_boxd_client_local_ops;

/* Sends the operator's policy; before box_boxd_client_send_ready. */
struct box_policy;
int box_boxd_client_send_policy(struct box_boxd_client *client, const struct box_policy *policy);
