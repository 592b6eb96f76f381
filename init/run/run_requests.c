/* What each request does to the command that it names. One that names none is passed over: it may
 * have ended while the request was on its way. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "init/control.h"
#include "init/run/run.h"
#include "init/run/run_internal.h"
#include "init/run/terminal.h"

static bool reset_due;

/* Where a RUN goes, or NULL: there is no place, and it was told so. */
static struct box_run *place_of(struct box_run *run, uint32_t id)
{
	static const struct box_init_exit no_place = {
		.end = BOX_INIT_END_FAILED,
		.step = BOX_INIT_STEP_REQUEST,
		.value = EAGAIN,
	};
	if (run && (run->state != BOX_RUN_GATHERING || run->asked)) {
		return NULL; /* an EXIT with this id would be taken for the other one's */
	}
	run = run ? run : box_run_new(id);
	if (!run) {
		/* There is room for the answer, or its packet was not read. */
		box_control_send(BOX_INIT_EXIT, id, &no_place, sizeof(no_place));
	}
	return run;
}

static void on_mount(struct box_run *run, struct box_control_request *request)
{
	uint32_t id = request->header.id;
	run = run ? run : box_run_new(id);
	if (!run || run->state != BOX_RUN_GATHERING || run->asked) {
		(void)close(request->fd);
		return;
	}
	/* What is missing then is noticed by its RUN, which tells their number. */
	(void)box_gather_mount(&run->gather, request->bytes, (uint32_t)request->size, request->fd);
}

static void on_pipe(struct box_run *run, const struct box_control_request *request)
{
	uint32_t which;
	memcpy(&which, request->bytes, sizeof(which));
	run = run ? run : box_run_new(request->header.id);
	if (!run || run->state != BOX_RUN_GATHERING || run->asked || run->child_fds[which] >= 0) {
		(void)close(request->fd);
		return;
	}
	run->child_fds[which] = request->fd;
}

/* All that were announced are here, and no other. */
static bool has_its_pipes(const struct box_run *run)
{
	int count = 0;
	for (size_t i = 0; i < 3; i++) {
		count += run->child_fds[i] >= 0;
	}
	return count == (run->ask.flags & BOX_INIT_RUN_PIPES ? 3 : 0);
}

static void on_run(struct box_run *run, struct box_control_request *request)
{
	run = place_of(run, request->header.id);
	if (!run) {
		return;
	}
	memcpy(&run->ask, request->bytes, sizeof(run->ask));
	run->asked = true;
	run->credit = run->ask.credit;
	char *bytes = request->bytes + sizeof(run->ask);
	uint32_t have = (uint32_t)(request->size - sizeof(run->ask));
	uint32_t size = run->ask.env_size + run->ask.workdir_size + run->ask.command_size;
	if (run->ask.mount_count != run->gather.mount_count || !has_its_pipes(run)) {
		box_run_fail(run, BOX_INIT_STEP_REQUEST, EINVAL, 0);
		return;
	}
	if (have == size && run->ask.mount_count == 0) {
		box_run_start(run, bytes);
		return;
	}
	int r = box_gather_begin(&run->gather, size);
	r = r < 0 ? r : box_gather_add(&run->gather, bytes, have);
	if (r < 0) {
		box_run_fail(run, BOX_INIT_STEP_MEMORY, -r, 0);
	} else if (have == size) {
		box_run_start_gathered(run);
	}
}

static void on_more(struct box_run *run, const struct box_control_request *request)
{
	if (run->state != BOX_RUN_GATHERING || !run->asked) {
		return;
	}
	int r = box_gather_add(&run->gather, request->bytes, (uint32_t)request->size);
	if (r < 0) {
		uint32_t step = r == -EMSGSIZE ? BOX_INIT_STEP_REQUEST : BOX_INIT_STEP_MEMORY;
		box_run_fail(run, step, -r, 0);
	} else if (run->gather.body_have == run->gather.body_size) {
		box_run_start_gathered(run);
	}
}

/* May free it. */
static void on_kill(struct box_run *run)
{
	/* Who does not want it gives no credit, and its EXIT must not wait for that. */
	box_stream_discard(&run->out);
	box_stream_discard(&run->err);
	switch (run->state) {
	case BOX_RUN_GATHERING:
	case BOX_RUN_QUEUED:
		box_run_fail(run, BOX_INIT_STEP_REQUEST, ECANCELED, 0);
		break;
	case BOX_RUN_MOUNTING:
		run->kill_wanted = true;
		break;
	case BOX_RUN_RUNNING:
		box_run_kill(run);
		break;
	case BOX_RUN_ENDED:
		box_run_finish(run);
		break;
	case BOX_RUN_FREE:
		break;
	}
}

static void on_input(struct box_run *run, const struct box_control_request *request)
{
	int r = box_input_put(&run->input, request->bytes, (uint32_t)request->size);
	if (r < 0) {
		/* A gap in its input would be worse than its end. */
		on_kill(run);
		return;
	}
	box_run_tell_taken(run);
}

static void on_credit(struct box_run *run, const struct box_control_request *request)
{
	uint64_t more;
	memcpy(&more, request->bytes, sizeof(more));
	run->credit = more > UINT64_MAX - run->credit ? UINT64_MAX : run->credit + more;
	if (run->state == BOX_RUN_ENDED) {
		box_run_finish(run);
	} else {
		box_stream_pump(&run->out, box_run_id(run), &run->credit);
		box_stream_pump(&run->err, box_run_id(run), &run->credit);
	}
}

static void on_resize(const struct box_run *run, const struct box_control_request *request)
{
	struct box_init_size size;
	memcpy(&size, request->bytes, sizeof(size));
	if ((run->ask.flags & BOX_INIT_RUN_TTY) && run->out.fd >= 0) {
		(void)box_terminal_resize(run->out.fd, size);
	}
}

static void on_signal(const struct box_run *run, const struct box_control_request *request)
{
	uint32_t number;
	memcpy(&number, request->bytes, sizeof(number));
	if (run->state == BOX_RUN_RUNNING) {
		(void)kill(-run->pid, (int)number);
	}
}

void box_run_resume_reset(void)
{
	if (reset_due && !box_control_blocked()) {
		reset_due = false;
		box_control_send(BOX_INIT_RESET_DONE, 0, NULL, 0);
	}
}

static void on_reset(void)
{
	for (struct box_run *run = box_run_next(NULL); run; run = box_run_next(run)) {
		if (run->kept) {
			continue; /* managed processes stay */
		}
		if (run->state == BOX_RUN_RUNNING) {
			box_run_kill(run);
		}
		box_run_free(run);
	}
	box_control_drop();
	reset_due = true;
	box_run_resume_reset();
}

void box_run_request(struct box_control_request *request, int verdict)
{
	uint32_t id = request->header.id;
	struct box_run *run = id ? box_run_find(id) : NULL;
	uint32_t kind = request->header.kind;
	if (run && run->kept) {
		return; /* nobody's but mproc.c's */
	}
	if (verdict < 0) {
		/* It waits for its EXIT. */
		run = kind == BOX_INIT_RUN && id != 0 ? place_of(run, id) : NULL;
		if (run) {
			box_run_fail(run, BOX_INIT_STEP_REQUEST, EBADMSG, 0);
		}
		return;
	}
	if (kind == BOX_INIT_RESET) {
		on_reset();
	} else if (kind == BOX_INIT_MOUNT) {
		on_mount(run, request);
	} else if (kind == BOX_INIT_PIPE) {
		on_pipe(run, request);
	} else if (kind == BOX_INIT_DRAIN) {
		box_stream_adopt_orphan(request->fd);
	} else if (kind == BOX_INIT_RUN) {
		on_run(run, request);
	} else if (!run) {
		return; /* it may have ended while this was on its way */
	} else if (kind == BOX_INIT_MORE) {
		on_more(run, request);
	} else if (kind == BOX_INIT_INPUT) {
		on_input(run, request);
	} else if (kind == BOX_INIT_CREDIT) {
		on_credit(run, request);
	} else if (kind == BOX_INIT_SIGNAL) {
		on_signal(run, request);
	} else if (kind == BOX_INIT_RESIZE) {
		on_resize(run, request);
	} else if (kind == BOX_INIT_KILL) {
		on_kill(run);
	}
}
