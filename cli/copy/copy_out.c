/* box cp from a box to the host. The data is untrusted: see unpack.h. A single file needs no tar in the box, and
 * can become nothing but one file here. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/macros.h"
#include "base/write.h"
#include "cli/cli_output.h"
#include "cli/copy/copy.h"
#include "cli/copy/unpack.h"

struct sink {
	struct box_copy *copy;
	struct box_unpack_file file;
	struct box_unpack *unpack;
	struct box_cli_output output;
};

/* --- one file --- */

static int take_file(void *arg, struct box_str bytes, struct box_err *err)
{
	struct sink *sink = arg;
	int r = box_write_all(sink->file.fd, bytes.bytes, bytes.len);
	if (r < 0) {
		return box_err_set(
			err, BOX_ERR_OS, -r, "%s: %s", sink->copy->host.path, box_err_strerror(-r));
	}
	sink->copy->done += bytes.len;
	return 0;
}

static int copy_file(struct box_copy *copy, int folder, const char *name)
{
	struct sink sink = {.copy = copy, .file = {.fd = -1}};
	const char *const words[] = {"sh", "-c", "exec cat <\"$1\"", "box-cp", copy->box.path};
	struct box_transfer transfer = {
		.input_fd = -1, .output_fd = -1, .take = take_file, .arg = &sink};
	struct box_value spec;
	struct box_err err;
	int r = box_copy_command(copy, words, BOX_COUNT_OF(words), &spec, &err);
	if (r == 0 && (r = box_unpack_file_begin(&sink.file, folder)) < 0) {
		(void)box_err_set(
			&err, BOX_ERR_OS, -r, "%s: %s", copy->host.path, box_err_strerror(-r));
	}
	if (r < 0) {
		return box_cli_fail(&err);
	}
	transfer.spec = &spec;
	copy->total = copy->size;
	int code = box_copy_run(copy, &transfer);
	if (code == 0) {
		r = box_unpack_file_finish(&sink.file, name, copy->mode, copy->mtime, 0);
	}
	box_unpack_file_drop(&sink.file);
	if (r < 0) {
		(void)box_err_set(
			&err, BOX_ERR_OS, -r, "%s: %s", copy->host.path, box_err_strerror(-r));
		return box_cli_fail(&err);
	}
	return code;
}

/* --- trees, links and archives --- */

static int take_archive(void *arg, struct box_str bytes, struct box_err *err)
{
	struct sink *sink = arg;
	int r = box_unpack_feed(sink->unpack, bytes, err);
	sink->copy->done = box_unpack_bytes(sink->unpack);
	return r;
}

static int take_stdout(void *arg, struct box_str bytes, struct box_err *err)
{
	struct sink *sink = arg;
	(void)err;
	box_cli_output_add(&sink->output, bytes);
	sink->copy->done += bytes.len;
	return 0;
}

static bool stdout_pending(void *arg)
{
	struct sink *sink = arg;
	return box_cli_output_pending(&sink->output);
}

static bool stdout_flush(void *arg)
{
	struct sink *sink = arg;
	box_cli_output_write(&sink->output);
	return !sink->output.broken;
}

/* Whether the archive has the contents of the folder, with names relative to it. A slash at the end of the path
 * means a folder, even where it is a link to one. */
static bool is_inside(const struct box_copy *copy)
{
	const char *base = box_copy_rules_base(copy->cli->arena, copy->box.path);
	return base[0] == '\0' || strcmp(base, ".") == 0 || strcmp(base, "..") == 0 ||
		box_copy_rules_ends_with_slash(copy->box.path);
}

/* Opens or creates the folder of that name; never through a link, and never "." or "..". */
static int open_folder(int folder, const char *name)
{
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		return -EINVAL;
	}
	if (mkdirat(folder, name, 0777) < 0 && errno != EEXIST) {
		return -errno;
	}
	int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int archive_spec(struct box_copy *copy, struct box_value *ret_spec)
{
	const char *base = box_copy_rules_base(copy->cli->arena, copy->box.path);
	bool inside = is_inside(copy);
	const char *const words[] = {"sh", "-c", "cd -- \"$1\"&&exec tar -c $3 -f - -- \"$2\"",
		"box-cp",
		inside ? copy->box.path : box_copy_rules_parent(copy->cli->arena, copy->box.path),
		inside ? "." : base,
		copy->has_gnu_tar && copy->host.kind != BOX_COPY_STREAM ? "-b 512" : ""};
	struct box_err err;
	if (!copy->has_tar) {
		(void)box_err_set(&err, BOX_ERR_VALUE, ENOENT,
			"the box has no tar: only single files can be copied");
		return box_cli_fail(&err);
	}
	int r = box_copy_command(copy, words, BOX_COUNT_OF(words), ret_spec, &err);
	return r < 0 ? box_cli_fail(&err) : 0;
}

static int copy_to_stdout(struct box_copy *copy)
{
	struct sink sink = {.copy = copy};
	struct box_value spec;
	int code = archive_spec(copy, &spec);
	if (code != 0) {
		return code;
	}
	struct box_transfer transfer = {
		.spec = &spec,
		.input_fd = -1,
		.take = take_stdout,
		.pending = stdout_pending,
		.flush = stdout_flush,
		.arg = &sink,
	};
	box_cli_output_open(&sink.output, STDOUT_FILENO);
	transfer.output_fd = sink.output.fd;
	code = box_copy_run(copy, &transfer);
	if (transfer.given_up) {
		code = box_cli_output_lost(&sink.output);
	}
	box_cli_output_close(&sink.output);
	return code;
}

static int copy_tree(struct box_copy *copy, int folder, const char *name)
{
	struct sink sink = {.copy = copy};
	struct box_value spec;
	struct box_err err;
	int code = archive_spec(copy, &spec);
	if (code != 0) {
		return code;
	}
	struct box_transfer transfer = {
		.spec = &spec, .input_fd = -1, .output_fd = -1, .take = take_archive, .arg = &sink};
	bool apart = is_inside(copy) && name;
	int own = apart ? open_folder(folder, name) : -1;
	if (apart && own < 0) {
		(void)box_err_set(&err, BOX_ERR_OS, -own, "%s: %s", name, box_err_strerror(-own));
		return box_cli_fail(&err);
	}
	sink.unpack = box_unpack_new(
		apart ? own : folder, apart ? NULL : name, box_copy_report, NULL);
	code = box_copy_run(copy, &transfer);
	if (code == 0 && box_unpack_end(sink.unpack, &err) < 0) {
		code = box_cli_fail(&err);
	}
	if (code == 0 && box_unpack_refused(sink.unpack) > 0) {
		code = BOX_CLI_EXIT_FAILED;
	}
	box_unpack_free(sink.unpack);
	box_close_p(&own);
	return code;
}

int box_copy_out(struct box_copy *copy)
{
	struct box_copy_rules_target way;
	struct box_err err;
	bool follows = copy->box_link && box_copy_rules_ends_with_slash(copy->box.path);
	if (copy->box_link && !follows) {
		copy->box.kind = BOX_COPY_FILE; /* the link itself */
	}
	if (copy->box.kind != BOX_COPY_NOTHING && copy->host.kind == BOX_COPY_STREAM) {
		return copy_to_stdout(copy);
	}
	if (box_copy_rules_resolve(copy->cli->arena, &copy->box, &copy->host, &way, &err) < 0) {
		return box_cli_fail(&err);
	}
	int folder = open(way.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0) {
		(void)box_err_set(
			&err, BOX_ERR_OS, errno, "%s: %s", way.folder, box_err_strerror(errno));
		return box_cli_fail(&err);
	}
	int code = copy->box.kind == BOX_COPY_FILE && copy->has_stat
		? copy_file(copy, folder, way.name)
		: copy_tree(copy, folder, way.name);
	(void)close(folder);
	return code;
}
