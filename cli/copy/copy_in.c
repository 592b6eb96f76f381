/* box cp from the host into a box. Everything gets a temporary name in the box first, and is moved when it is
 * complete; a single file needs no tar there. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"
#include "cli/copy/copy.h"
#include "cli/copy/pack.h"

/* Folder, temporary name, name, mode, time, size if that is known. */
static const char file_script[] =
	"umask 077;cd -- \"$1\"||exit 1;"
	"if cat >\"$2\"&&{ [ -z \"$6\" ]||"
	"[ \"$(stat -c %s -- \"$2\" 2>/dev/null||echo \"$6\")\" = \"$6\" ];}&&"
	"chmod \"$4\" \"$2\";then touch -d \"@$5\" -- \"$2\" 2>/dev/null;"
	"mv -f -- \"$2\" \"$3\"&&exit 0;fi;"
	"rm -f -- \"$2\";exit 1";

/* Removes a folder that may have read-only folders. The modes of files are not changed, because the files may
 * have been moved already. */
#define REMOVE                                                  \
	"rm -rf -- \"$2\" 2>/dev/null||{ "                      \
	"find \"$2\" -type d -exec chmod 700 {} + 2>/dev/null;" \
	"rm -rf -- \"$2\";}"

/* Folder, temporary name, options of tar. Existing folders are merged, file by file. A read-only folder cannot be
 * moved: it is made writable for that. */
static const char tree_script[] =
	"cd -- \"$1\"&&mkdir -m 700 -- \"$2\"||exit 1;"
	"tar -x -p $3 -f - -C \"$2\";r=$?;"
	"if [ $r = 0 ];then chmod u+rwx \"$2\";cd -- \"$2\";for f in * .[!.]* ..?*;do "
	"if [ ! -e \"../$f\" ]&&[ ! -L \"../$f\" ];then "
	"if [ -e \"$f\" ]||[ -L \"$f\" ];then m=;"
	"if [ -d \"$f\" ]&&[ ! -L \"$f\" ]&&[ ! -w \"$f\" ];then "
	"m=$(stat -c %a -- \"$f\")&&chmod u+w -- \"$f\";fi;"
	"mv -- \"$f\" ../||r=1;[ -z \"$m\" ]||chmod \"$m\" -- \"../$f\";fi;"
	"elif [ -e \"$f\" ]||[ -L \"$f\" ];then "
	"cp -alf -- \"$f\" ../ 2>/dev/null||cp -af -- \"$f\" ../||r=1;fi;done;cd ..;fi;" REMOVE
	";exit $r";

struct source {
	struct box_copy *copy;
	int fd;
	bool sized; /* `left` says how much is still to come of it */
	uint64_t left;
	struct box_pack *pack;
};

static const char *temporary_name(struct box_arena *arena)
{
	uint64_t number;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
		abort();
	}
	return box_arena_printf(arena, ".box-cp.%016" PRIx64, number);
}

/* Runs a script in the box, and removes its temporary files when it did not finish. */
static int run_script(struct box_copy *copy, const char *const *words, size_t count,
	struct box_transfer *transfer)
{
	static const char tidy_script[] = "cd -- \"$1\"||exit 1;" REMOVE;
	struct box_value spec;
	struct box_err err;
	if (box_copy_command(copy, words, count, &spec, &err) < 0) {
		return box_cli_fail(&err);
	}
	transfer->spec = &spec;
	int code = box_copy_run(copy, transfer);
	if (code != 0) {
		const char *const tidy[] = {"sh", "-c", tidy_script, "box-cp", words[4], words[5]};
		box_copy_tidy(copy, tidy, 6);
	}
	return code;
}

/* --- one file --- */

/* If a file grows meanwhile, its first `left` bytes are copied, as with files in a folder. */
static ssize_t give_file(void *arg, char *to, size_t max, struct box_err *err)
{
	struct source *source = arg;
	const char *path = source->copy->host.path;
	ssize_t got;
	if (source->sized && source->left < max) {
		max = (size_t)source->left;
	}
	do {
		got = read(source->fd, to, max);
	} while (got < 0 && errno == EINTR);
	if (got < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "%s: %s", path, box_err_strerror(errno));
	}
	if (got == 0 && source->sized && source->left > 0) {
		return box_err_set(err, BOX_ERR_VALUE, EIO, "%s: shrank while it was read", path);
	}
	source->left -= source->sized ? (uint64_t)got : 0;
	source->copy->done += (uint64_t)got;
	return got;
}

static int copy_file(struct box_copy *copy, int fd, const struct stat *status,
	const struct box_copy_rules_target *way)
{
	struct box_arena *arena = copy->cli->arena;
	/* Files of /proc have no size. */
	bool sized = status->st_size > 0;
	struct source source = {
		.copy = copy, .fd = fd, .sized = sized, .left = (uint64_t)status->st_size};
	const char *const words[] = {"sh", "-c", file_script, "box-cp", way->folder,
		temporary_name(arena), way->name,
		box_arena_printf(arena, "%o", (unsigned)status->st_mode & 0777),
		box_arena_printf(arena, "%lld", (long long)status->st_mtim.tv_sec),
		sized ? box_arena_printf(arena, "%lld", (long long)status->st_size) : ""};
	struct box_transfer transfer = {
		.give = give_file, .input_fd = -1, .output_fd = -1, .arg = &source};
	copy->total = status->st_size;
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return run_script(copy, words, BOX_COUNT_OF(words), &transfer);
}

/* --- trees, links and archives --- */

static ssize_t give_archive(void *arg, char *to, size_t max, struct box_err *err)
{
	struct source *source = arg;
	ssize_t got = box_pack_read(source->pack, to, max, err);
	source->copy->done = box_pack_bytes(source->pack);
	return got;
}

static ssize_t give_stdin(void *arg, char *to, size_t max, struct box_err *err)
{
	struct source *source = arg;
	ssize_t got = read(STDIN_FILENO, to, max);
	if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
		return -EAGAIN;
	}
	if (got < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "stdin: %s", box_err_strerror(errno));
	}
	source->copy->done += (uint64_t)got;
	return got;
}

static int copy_tree(struct box_copy *copy, const struct box_copy_rules_target *way)
{
	struct source source = {.copy = copy};
	struct box_err err;
	bool stream = copy->host.kind == BOX_COPY_STREAM;
	const char *const words[] = {"sh", "-c", tree_script, "box-cp", way->folder,
		temporary_name(copy->cli->arena), copy->has_gnu_tar ? "-b 512" : ""};
	struct box_transfer transfer = {
		.give = stream ? give_stdin : give_archive,
		.input_fd = stream ? STDIN_FILENO : -1,
		.output_fd = -1,
		.arg = &source,
	};
	if (!copy->has_tar) {
		(void)box_err_set(&err, BOX_ERR_VALUE, ENOENT,
			"the box has no tar: only single files can be copied");
		return box_cli_fail(&err);
	}
	if (!stream &&
		box_pack_open(copy->host.path, way->name,
			box_copy_rules_ends_with_slash(copy->host.path), box_copy_report, NULL,
			&source.pack, &err) < 0) {
		return box_cli_fail(&err);
	}
	int code = run_script(copy, words, BOX_COUNT_OF(words), &transfer);
	if (code == 0 && source.pack && box_pack_refused(source.pack) > 0) {
		code = BOX_CLI_EXIT_FAILED;
	}
	box_pack_close(source.pack);
	return code;
}

int box_copy_in(struct box_copy *copy)
{
	struct box_copy_rules_target way;
	struct stat status;
	struct box_err err;
	if (box_copy_rules_resolve(copy->cli->arena, &copy->host, &copy->box, &way, &err) < 0) {
		return box_cli_fail(&err);
	}
	if (copy->host.kind != BOX_COPY_FILE || lstat(copy->host.path, &status) < 0 ||
		!S_ISREG(status.st_mode)) {
		return copy_tree(copy, &way);
	}
	int fd = open(copy->host.path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) < 0) {
		(void)box_err_set(&err, BOX_ERR_OS, errno, "%s: %s", copy->host.path,
			box_err_strerror(errno));
		(void)(fd < 0 ? 0 : close(fd));
		return box_cli_fail(&err);
	}
	int code = copy_file(copy, fd, &status, &way);
	(void)close(fd);
	return code;
}
