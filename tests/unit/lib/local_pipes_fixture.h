/* A live command of a native box whose pipes belong to box-rpc, from both sides: what its caller
 * receives, and the ends that box-init was given. */
#pragma once

#include <signal.h>

#include "tests/unit/lib/local_fixture.h"

#define PIPE_BYTES (64 * 1024)

/* A box with one live command, number 1, from both sides. */
struct scene {
	struct played played;
	struct box_spec spec;
	struct ran ran;
	int fds[3];       /* the command's */
	uint64_t give;    /* credit, given whenever output arrives */
	bool cancel;      /* as soon as output arrives */
	size_t out_bytes; /* that arrived */
	size_t largest;   /* of them at once */
};

static inline void on_started(void *arg)
{
	struct ran *ran = arg;
	ran->started++;
}

static inline void on_output(void *arg, bool is_stderr, struct box_str bytes)
{
	struct scene *scene = (struct scene *)(void *)((char *)arg - offsetof(struct scene, ran));
	struct ran *ran = arg;
	size_t len = strlen(ran->live);
	ASSERT_INT(ran->started, 1);
	if (len + bytes.len + 4 < sizeof(ran->live)) {
		(void)snprintf(ran->live + len, sizeof(ran->live) - len, "%c:%.*s;",
			is_stderr ? 'e' : 'o', (int)bytes.len, bytes.bytes);
	}
	scene->out_bytes += bytes.len;
	scene->largest = bytes.len > scene->largest ? bytes.len : scene->largest;
	if (scene->give > 0) {
		backend->ops->credit(ran->op, scene->give);
	}
	if (scene->cancel) {
		backend->ops->cancel(ran->op);
	}
}

static const struct box_backend_stream_events events = {.started = on_started, .output = on_output};

static inline void expect_run(struct scene *scene, uint32_t id)
{
	struct heard heard;
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t which;
		expect(&scene->played, BOX_INIT_PIPE, id, &heard);
		memcpy(&which, heard.bytes, sizeof(which));
		ASSERT_INT(which, i);
		ASSERT(heard.fd >= 0);
		scene->fds[i] = heard.fd;
	}
	expect(&scene->played, BOX_INIT_RUN, id, &heard);
	struct box_init_run run;
	memcpy(&run, heard.bytes, sizeof(run));
	ASSERT_INT(run.flags, BOX_INIT_RUN_PIPES);
}

static inline void scene_begin(struct scene *scene, bool has_stdin, uint64_t credit)
{
	const struct box_backend_stream live = {
		.events = &events, .has_stdin = has_stdin, .credit = credit};
	(void)signal(SIGPIPE, SIG_IGN); /* as box-rpc does */
	start();
	make_played(&scene->played, 3);
	scene->spec = spec_of("cat");
	scene->ran.op = backend->ops->exec(
		scene->played.box, &scene->spec, 1000, &live, on_ran, &scene->ran);
	expect_run(scene, 1);
}

/* As box-init and the command do at the end. */
static inline void close_pipes(struct scene *scene)
{
	for (int i = 0; i < 3; i++) {
		if (scene->fds[i] >= 0) {
			ASSERT_INT(close(scene->fds[i]), 0);
			scene->fds[i] = -1;
		}
	}
}

static inline void scene_end(struct scene *scene)
{
	close_pipes(scene);
	end_played(&scene->played, 3);
	finish();
}

static inline void command_writes(struct scene *scene, int fd, const char *text)
{
	ASSERT_INT(write(scene->fds[fd], text, strlen(text)), strlen(text));
	turn();
}

static inline void command_fills(struct scene *scene, size_t size)
{
	static char bytes[PIPE_BYTES];
	ASSERT(size <= sizeof(bytes));
	memset(bytes, 'x', sizeof(bytes));
	ASSERT_INT(write(scene->fds[STDOUT_FILENO], bytes, size), size);
}
