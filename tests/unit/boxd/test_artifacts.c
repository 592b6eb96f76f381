/* Which artifact trees count for which tenant when there are more than boxd keeps. The mounts are
 * real, in a mount namespace of the test's own; the sources and the process that copies are fakes.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "boxd/files/artifacts.h"
#include "boxd/files/host_mount.h"
#include "boxd/jobs.h"
#include "boxd/program.h"
#include "tests/unit/lib/test.h"

/* --- fakes --- */

static struct {
	box_jobs_ended *ended; /* of the tree that is being copied */
	void *arg;
	int result; /* of the last one that was asked for */
	int report; /* of box-skills, for the next fill */
	unsigned fills;
	size_t bytes;   /* that the next copy writes */
	int answers[8]; /* by the id of the request */
} play;

int box_jobs_start(struct box_jobs *jobs, const struct box_program *wanted, uint64_t limit_ms,
	box_jobs_ended *ended, void *arg, struct box_err *err)
{
	struct box_artifact_report report = {.result = play.report};
	(void)jobs;
	(void)limit_ms;
	(void)err;
	ASSERT_INT(write(wanted->fds[0], &report, sizeof(report)), sizeof(report));
	play.ended = ended;
	play.arg = arg;
	play.fills++;
	if (play.bytes > 0) {
		_cleanup_(box_close_p) int fd = openat(
			wanted->fds[3], "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		ASSERT(fd >= 0);
		ASSERT_INT(posix_fallocate(fd, 0, (off_t)play.bytes), 0);
	}
	return 0;
}

int box_host_mount_open(const struct box_host_mount_request *ask, struct box_mount_roots *roots,
	int *ret_fd, struct box_err *err)
{
	(void)ask;
	(void)roots;
	(void)err;
	*ret_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ASSERT(*ret_fd >= 0);
	return 0;
}

int box_identity_of_owner(const struct box_identity *ids, int fd, struct box_identity *ret_ids)
{
	(void)fd;
	*ret_ids = *ids;
	return 0;
}

static void done(void *arg, uint32_t id, int mount, const struct box_err *err)
{
	(void)arg;
	ASSERT((mount >= 0) == (err == NULL));
	play.result = err ? -err->errnum : 0;
	play.answers[id % 8] = play.result;
	box_close_p(&mount);
}

/* --- a cache --- */

static const struct box_identity ids;

static struct box_policy policy;

static struct box_artifacts *begin(void)
{
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("tmpfs", "/tmp", "tmpfs", 0, NULL) < 0) {
		SKIP("mounting needs root");
	}
	/* Each tree is an open file. */
	struct rlimit files;
	ASSERT(getrlimit(RLIMIT_NOFILE, &files) == 0);
	files.rlim_cur = files.rlim_max;
	if (files.rlim_max < 2UL * BOX_ARTIFACTS_MAX || setrlimit(RLIMIT_NOFILE, &files) < 0) {
		SKIP("too few files may be open here");
	}
	struct box_artifacts *artifacts = box_artifacts_new(
		NULL, "box-skills", &ids, &policy, NULL, done, NULL);
	int folder = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ASSERT(folder >= 0);
	box_artifacts_set_folder(artifacts, folder);
	return artifacts;
}

/* The box of this tenant requests the tree of this number, from this source. */
static void want_from(struct box_artifacts *artifacts, const char *tenant, uint64_t box,
	unsigned number, uint32_t id, const char *path)
{
	struct box_boxd_open_artifact wanted = {.id = id, .box = box};
	(void)snprintf(wanted.path, sizeof(wanted.path), "%s", path);
	(void)snprintf(wanted.digest, sizeof(wanted.digest), "%064x", number);
	play.ended = NULL;
	play.result = 1;
	play.answers[id % 8] = 1;
	box_artifacts_open(artifacts, tenant, &wanted);
}

static void want(struct box_artifacts *artifacts, uint64_t box, unsigned number)
{
	want_from(artifacts, "ws-a", box, number, 1, "/here");
}

/* The same, with the expected answer. */
static int ask(struct box_artifacts *artifacts, uint64_t box, unsigned number)
{
	want(artifacts, box, number);
	if (play.ended) {
		play.ended(play.arg);
	}
	return play.result;
}

/* As many trees as are allowed. */
static void fill(struct box_artifacts *artifacts, uint64_t box, unsigned from)
{
	for (unsigned i = 0; i < BOX_ARTIFACTS_PER_BOX_MAX; i++) {
		ASSERT_INT(ask(artifacts, box, from + i), 0);
	}
	ASSERT_INT(ask(artifacts, box, from + BOX_ARTIFACTS_PER_BOX_MAX), -ENOSPC);
}

TEST(what_a_box_has_counts_until_it_ends)
{
	struct box_artifacts *artifacts = begin();
	unsigned number = 0;
	fill(artifacts, 1, number);
	/* A tree that the box already has is returned again. */
	ASSERT_INT(ask(artifacts, 1, number), 0);
	/* Others need the room: box 1 has the trees, but boxd keeps none of them any more. */
	for (uint64_t box = 2; box < 3 + BOX_ARTIFACTS_MAX / BOX_ARTIFACTS_PER_BOX_MAX; box++) {
		number += BOX_ARTIFACTS_PER_BOX_MAX + 1;
		fill(artifacts, box, number);
	}
	number += BOX_ARTIFACTS_PER_BOX_MAX + 1;
	ASSERT_INT(ask(artifacts, 1, number), -ENOSPC);
	/* A tree that was dropped is a new one when it is requested again. */
	ASSERT_INT(ask(artifacts, 1, 0), -ENOSPC);
	ASSERT_INT(ask(artifacts, 100, number), 0);
	box_artifacts_release_box(artifacts, 1);
	ASSERT_INT(ask(artifacts, 1, number), 0);
	box_artifacts_free(artifacts);
}

/* Box numbers are never reused: the second box 1 here stands for what the first has left. */
TEST(a_box_that_ends_while_it_waits_has_nothing)
{
	struct box_artifacts *artifacts = begin();
	for (unsigned i = 0; i < BOX_ARTIFACTS_PER_BOX_MAX; i++) {
		want(artifacts, 1, i);
		box_artifacts_release_box(artifacts, 1);
		play.ended(play.arg);
		ASSERT_INT(play.result, -ESRCH);
	}
	ASSERT_INT(ask(artifacts, 1, BOX_ARTIFACTS_PER_BOX_MAX), 0);
	box_artifacts_free(artifacts);
}

static void end_fill(int report)
{
	play.report = report;
	play.ended(play.arg);
}

TEST(a_digest_alone_is_no_right)
{
	struct box_artifacts *artifacts = begin();
	ASSERT_INT(ask(artifacts, 1, 7), 0);
	ASSERT_INT(play.fills, 1);
	/* The same digest from another workspace is copied from its own source, or not at all. */
	play.report = -EINVAL;
	want_from(artifacts, "ws-b", 2, 7, 2, "/empty");
	ASSERT_INT(play.fills, 2);
	ASSERT_INT(play.answers[2], 1);
	play.ended(play.arg);
	ASSERT_INT(play.answers[2], -EINVAL);
	/* Within one workspace it is shared. */
	want_from(artifacts, "ws-a", 3, 7, 3, "/elsewhere");
	ASSERT_INT(play.fills, 2);
	ASSERT_INT(play.answers[3], 0);
	box_artifacts_free(artifacts);
}

TEST(a_false_source_fails_for_who_sent_it)
{
	struct box_artifacts *artifacts = begin();
	play.report = -EINVAL;
	want_from(artifacts, "ws-a", 1, 7, 1, "/false");
	void *first = play.arg;
	box_jobs_ended *ended = play.ended;
	want_from(artifacts, "ws-a", 2, 7, 2, "/right");
	want_from(artifacts, "ws-a", 3, 7, 3, "/false");
	want_from(artifacts, "ws-a", 4, 7, 4, "/right too");
	ASSERT_INT(play.fills, 1);
	play.report = 0;
	ended(first);
	ASSERT_INT(play.answers[1], -EINVAL);
	ASSERT_INT(play.answers[3], -EINVAL);
	ASSERT_INT(play.answers[2], 1);
	ASSERT_INT(play.fills, 2); /* the next one's own source */
	play.ended(play.arg);
	ASSERT_INT(play.answers[2], 0);
	ASSERT_INT(play.answers[4], 0);
	box_artifacts_free(artifacts);
}

/* A box-rpc that dies leaves unfinished copies to its successor, but not their sources. */
TEST(a_false_source_of_who_is_gone_fails_for_nobody)
{
	struct box_artifacts *artifacts = begin();
	play.report = -EINVAL;
	want_from(artifacts, "ws-a", 1, 7, 1, "/false");
	void *first = play.arg;
	box_jobs_ended *ended = play.ended;
	box_artifacts_drop_requests(artifacts);
	want_from(artifacts, "ws-a", 2, 7, 2, "/right");
	ASSERT_INT(play.fills, 1);
	play.report = 0;
	ended(first);
	ASSERT_INT(play.answers[1], 1);
	ASSERT_INT(play.answers[2], 1);
	ASSERT_INT(play.fills, 2);
	play.ended(play.arg);
	ASSERT_INT(play.answers[2], 0);
	box_artifacts_free(artifacts);
}

/* Copies a tree of so many MiB for the box, and returns the result. */
static int hold(struct box_artifacts *artifacts, const char *tenant, uint64_t box, unsigned number,
	size_t mib)
{
	play.bytes = mib * BOX_MIB;
	want_from(artifacts, tenant, box, number, 1, "/here");
	if (play.ended) {
		play.ended(play.arg);
	}
	play.bytes = 0;
	return play.answers[1];
}

TEST(one_total_and_a_share_of_it)
{
	policy.artifact_bytes = 40 * BOX_MIB;
	policy.artifact_share_bytes = 30 * BOX_MIB;
	struct box_artifacts *artifacts = begin();
	ASSERT_INT(hold(artifacts, "ws-a", 1, 1, 10), 0);
	ASSERT_INT(hold(artifacts, "ws-a", 2, 2, 10), 0);
	ASSERT_INT(hold(artifacts, "ws-a", 3, 3, 9), 0);
	ASSERT(box_artifacts_bytes(artifacts) >= 29 * BOX_MIB);
	/* The share is full: less is left of it than this tree needs. */
	want_from(artifacts, "ws-a", 4, 4, 1, "/here");
	ASSERT(play.ended != NULL);
	ASSERT(box_artifacts_bytes(artifacts) <= 30 * BOX_MIB);
	end_fill(0);
	box_artifacts_release_box(artifacts, 4);
	/* Another workspace gets the rest of the total, and no more. */
	ASSERT_INT(hold(artifacts, "ws-b", 5, 5, 9), 0);
	ASSERT(box_artifacts_bytes(artifacts) <= 40 * BOX_MIB);
	/* Trees that no box uses any more make room. */
	box_artifacts_release_box(artifacts, 1);
	ASSERT_INT(hold(artifacts, "ws-a", 6, 6, 10), 0);
	ASSERT(box_artifacts_bytes(artifacts) <= 40 * BOX_MIB);
	box_artifacts_free(artifacts);
	policy = (struct box_policy){0};
}

TEST(without_room_nothing_is_begun)
{
	policy.artifact_bytes = 4 * BOX_MIB;
	policy.artifact_share_bytes = 4 * BOX_MIB;
	struct box_artifacts *artifacts = begin();
	ASSERT_INT(hold(artifacts, "ws-a", 1, 1, 4), 0);
	unsigned fills = play.fills;
	ASSERT_INT(hold(artifacts, "ws-b", 2, 2, 1), -ENOSPC);
	ASSERT_INT(play.fills, fills);
	/* A tree that boxd has dropped counts as long as a box has it. */
	box_artifacts_release_box(artifacts, 1);
	ASSERT_INT(hold(artifacts, "ws-b", 2, 2, 1), 0);
	box_artifacts_free(artifacts);
	policy = (struct box_policy){0};
}

TEST(one_workspace_fills_one_at_a_time)
{
	struct box_artifacts *artifacts = begin();
	want_from(artifacts, "ws-a", 1, 1, 1, "/here");
	void *first = play.arg;
	box_jobs_ended *ended = play.ended;
	want_from(artifacts, "ws-a", 2, 2, 2, "/here");
	ASSERT_INT(play.fills, 1);
	want_from(artifacts, "ws-b", 3, 3, 3, "/here");
	ASSERT_INT(play.fills, 2);
	end_fill(0);
	ASSERT_INT(play.answers[3], 0);
	ASSERT_INT(play.answers[2], 1);
	ended(first);
	ASSERT_INT(play.answers[1], 0);
	ASSERT_INT(play.fills, 3);
	end_fill(0);
	ASSERT_INT(play.answers[2], 0);
	box_artifacts_free(artifacts);
}
