/* How much a box holds, measured from inside: in its own file systems only, whatever the payload
 * puts in the way. Needs root for its mounts. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/boot/boot.h"
#include "init/file/file_job.h"
#include "protocol/storage_parts.h"
#include "tests/unit/lib/test.h"

#define CACHE "/home/box/.cache"

static struct box_boot boot;
static char top[64];
static struct box_init_file_measured got;

const struct box_boot *box_boot_facts(void)
{
	return &boot;
}

static void sh(const char *command)
{
	char text[1024];
	(void)snprintf(text, sizeof(text), "set -e; cd %s; %s", top, command);
	ASSERT_INT(system(text), 0); /* NOLINT(cert-env33-c) */
}

static void start(const char *workspace, bool outside)
{
	if (geteuid() != 0) {
		SKIP("needs root");
	}
	/* In a mount namespace of its own, so that a failure leaves no mount on this host. */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		SKIP("no mount namespace: %s", strerror(errno));
	}
	ASSERT_INT(mount("none", "/mnt", "tmpfs", 0, "size=64m"), 0);
	(void)snprintf(top, sizeof(top), "/mnt");
	sh("mkdir -p tmp ws home/box; for d in tmp ws home/box; do mount -t tmpfs -o size=8m none $d; done");
	boot.facts.workspace = outside;
	(void)snprintf(
		boot.facts.workspace_path, sizeof(boot.facts.workspace_path), "%s", workspace);
}

/* Returns the errno. */
static int measure(void)
{
	int out[2];
	int err[2];
	struct box_init_file_answer answer;
	ASSERT_INT(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
	ASSERT_INT(pipe2(err, O_CLOEXEC | O_NONBLOCK), 0);
	struct box_file_job job = {
		.request = {.kind = BOX_INIT_FILE_MEASURE},
		.texts = {CACHE, "", "", ""},
		.root = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC),
		.in = -1,
		.out = out[1],
	};
	box_file_job_serve(&job, err[1]);
	ASSERT_INT(read(err[0], &answer, sizeof(answer)), sizeof(answer));
	char bytes[sizeof(got) + 1];
	ssize_t size = read(out[0], bytes, sizeof(bytes));
	size = size < 0 ? 0 : size;
	struct box_str said = {(const char *)&answer, sizeof(answer)};
	ASSERT_INT(box_init_file_read_answer(&job.request, said, (size_t)size, &answer), 0);
	if (answer.errnum == 0) {
		ASSERT_INT(box_init_file_read_measured((struct box_str){bytes, (size_t)size}, &got),
			0);
	}
	return answer.errnum;
}

TEST(what_is_there)
{
	start("/ws", false);
	sh("head -c 8192 /dev/zero >tmp/a; mkdir tmp/d; head -c 4096 /dev/zero >tmp/d/b; "
	   "mkdir -p home/box/.cache/x; head -c 4096 /dev/zero >home/box/.cache/x/c; echo x >ws/f");
	ASSERT_INT(measure(), 0);
	ASSERT(got.temp.exists && got.cache.exists && got.workspace.exists);
	ASSERT_INT(got.temp.size_bytes, 12288);
	ASSERT_INT(got.temp.file_count, 2);
	ASSERT_INT(got.cache.size_bytes, 4096);
	ASSERT_INT(got.cache.file_count, 1);
	ASSERT_INT(got.workspace.size_bytes, 4096);
	ASSERT_INT(got.workspace.file_count, 1);
}

TEST(no_cache_yet)
{
	start("/ws", false);
	ASSERT_INT(measure(), 0);
	ASSERT(!got.cache.exists && got.workspace.exists);
	ASSERT_INT(got.temp.size_bytes, 0);
}

/* Links, other mounts, devices, a folder that is a file. */
TEST(nothing_leads_elsewhere)
{
	start("/ws", false);
	sh("mkdir big; head -c 65536 /dev/zero >big/f; ln -s ../../big home/box/.cache; "
	   "ln -s ../big tmp/l; mkdir tmp/m; mount --bind big tmp/m; mkfifo tmp/fifo; "
	   "mknod tmp/null c 1 3; : >tmp/file; mount --bind big/f tmp/file");
	ASSERT_INT(measure(), 0);
	ASSERT(!got.cache.exists);
	ASSERT_INT(got.cache.size_bytes, 0);
	ASSERT_INT(got.temp.file_count, 0);
	ASSERT_INT(got.temp.size_bytes, 0);
	sh("rm home/box/.cache; mkdir home/box/.cache; mount --bind big home/box/.cache");
	ASSERT_INT(measure(), 0);
	sh("umount home/box/.cache; rmdir home/box/.cache; echo x >home/box/.cache");
	ASSERT_INT(measure(), 0);
	ASSERT(!got.cache.exists);
}

/* Hard links count once. */
TEST(the_file_system_has_the_last_word)
{
	start("/ws", false);
	sh("mkdir home/box/.cache; cd home/box/.cache; head -c 65536 /dev/zero >f; "
	   "for i in 1 2 3 4; do ln f f$i; done");
	ASSERT_INT(measure(), 0);
	ASSERT_INT(got.cache.size_bytes, 65536);
	ASSERT_INT(got.cache.file_count, 5);
}

TEST(very_deep)
{
	start("/ws", false);
	sh("cd tmp; i=0; while [ $i -lt 400 ]; do mkdir d; cd -P d; i=$((i+1)); done; echo x >f");
	ASSERT_INT(measure(), 0);
	ASSERT_INT(got.temp.file_count, 0); /* too deep to be visited */
	ASSERT_INT(got.temp.size_bytes, 4096);
}

TEST(a_workspace_of_the_host_is_not_measured)
{
	start("/ws", true);
	sh("echo x >ws/f; echo x >tmp/f");
	ASSERT_INT(measure(), 0);
	ASSERT(!got.workspace.exists);
	ASSERT_INT(got.temp.file_count, 1);
	/* It hides what is below its mount point. */
	(void)snprintf(boot.facts.workspace_path, sizeof(boot.facts.workspace_path), "/tmp");
	ASSERT_INT(measure(), 0);
	ASSERT(!got.temp.exists && !got.workspace.exists);
	(void)snprintf(boot.facts.workspace_path, sizeof(boot.facts.workspace_path), "/home/box");
	sh("mkdir home/box/.cache");
	ASSERT_INT(measure(), 0);
	ASSERT(!got.cache.exists && got.temp.exists);
}

TEST(a_workspace_that_is_tmp)
{
	start("/tmp", false);
	sh("echo x >tmp/f");
	ASSERT_INT(measure(), 0);
	ASSERT(got.workspace.exists && !got.temp.exists);
	ASSERT_INT(got.workspace.file_count, 1);
}

TEST(what_is_no_file_system_of_the_box)
{
	start("/ws", false);
	sh("umount tmp; mount -t ramfs none tmp");
	ASSERT_INT(measure(), EXDEV);
}

TEST(places_together)
{
	struct box_storage_part workspace = {true, 7, 1000, 900, 10};
	struct box_storage_part cache = {true, 7, 1000, 300, 4};
	struct box_storage_part temp = {true, 8, 50, 20, 2};
	box_storage_parts_settle(&workspace, &cache, &temp);
	ASSERT_INT(workspace.size_bytes, 700);
	ASSERT_INT(workspace.file_count, 6);
	ASSERT_INT(cache.size_bytes, 300);
	ASSERT_INT(temp.size_bytes, 50);
	/* A sum larger than its file system. */
	cache = (struct box_storage_part){true, 9, 100, 500, 5};
	workspace = (struct box_storage_part){true, 7, 60, 900, 10};
	temp = (struct box_storage_part){true, 7, 60, 900, 10};
	box_storage_parts_settle(&workspace, &cache, &temp);
	ASSERT_INT(cache.size_bytes, 100);
	ASSERT_INT(workspace.size_bytes, 60);
	ASSERT(!temp.is_there);
	/* More than the size. */
	workspace = (struct box_storage_part){true, 9, 60, 60, 1};
	cache = (struct box_storage_part){true, 9, 80, 70, 2};
	box_storage_parts_settle(&workspace, &cache, &temp);
	ASSERT_INT(workspace.size_bytes, 0);
	ASSERT_INT(workspace.file_count, 0);
}
