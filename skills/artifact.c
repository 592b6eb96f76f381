/* Works with fds and follows no link. A file is hashed as it was copied: changes in the source meanwhile do
 * not reach what is mounted. */
#include "skills/artifact.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/limits.h"
#include "codec/json.h"
#include "skills/manifest.h"

#define COPY_BYTES (1 * BOX_MIB)

static int changed(struct box_err *err, const char *path)
{
	return box_err_set(err, BOX_ERR_BOX, ESTALE, "Artifact source changed: %s", path);
}

static int fail(struct box_err *err, const char *path, int r)
{
	return box_err_set(err, BOX_ERR_BOX, -r, "%s: %s", path, box_err_strerror(-r));
}

/* --- reading --- */

static int read_manifest(
	int fd, struct box_arena *arena, struct box_value *ret_tree, struct box_err *err)
{
	struct stat status;
	if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) {
		return box_err_set(
			err, BOX_ERR_BOX, EINVAL, "Artifact manifest must be a regular file");
	}
	if ((uint64_t)status.st_size > BOX_ARTIFACT_MANIFEST_BYTES_MAX) {
		return box_err_set(
			err, BOX_ERR_BOX, EFBIG, "Artifact manifest is larger than 4 MiB");
	}
	size_t size = (size_t)status.st_size;
	char *text = box_arena_alloc(arena, size + 1);
	size_t have = 0;
	ssize_t got = 1;
	while (have < size && got > 0) {
		got = pread(fd, text + have, size - have, (off_t)have);
		have += got > 0 ? (size_t)got : 0;
	}
	const char *why = "";
	if (got < 0 || box_json_decode(arena, text, have, ret_tree, &why) < 0) {
		return box_err_set(err, BOX_ERR_BOX, EINVAL, "Artifact manifest is malformed");
	}
	return 0;
}

static int open_source(
	int source, const struct box_manifest_file *file, int *ret_fd, struct box_err *err)
{
	struct open_how how = {
		.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	_cleanup_(box_close_p) int fd = (int)syscall(
		SYS_openat2, source, file->path, &how, sizeof(how));
	struct stat status;
	if (fd < 0 && errno == ENOENT) {
		return changed(err, file->path);
	}
	if (fd < 0 && errno != ELOOP && errno != ENXIO) {
		return fail(err, file->path, -errno);
	}
	if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) {
		return box_err_set(
			err, BOX_ERR_BOX, EINVAL, "Artifact source must be a regular file");
	}
	if ((uint64_t)status.st_size != file->size) {
		return changed(err, file->path);
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* --- writing --- */

/* Opens the parent folder of a path, created if it is missing; *ret_name is the last component. */
static int open_folder(int target, const char *path, int *ret_fd, const char **ret_name)
{
	_cleanup_(box_close_p) int folder = fcntl(target, F_DUPFD_CLOEXEC, 3);
	for (const char *slash; folder >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
		char name[NAME_MAX + 1];
		size_t len = (size_t)(slash - path);
		memcpy(name, path, len);
		name[len] = '\0';
		if (mkdirat(folder, name, 0755) < 0 && errno != EEXIST) {
			return -errno;
		}
		int next = openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		box_close_p(&folder);
		folder = next;
	}
	if (folder < 0) {
		return -errno;
	}
	*ret_name = path;
	*ret_fd = TAKE_FD(folder);
	return 0;
}

static int copy_bytes(int from, int to, uint64_t size)
{
	static char bytes[COPY_BYTES];
	uint64_t done = 0;
	while (done <= size) {
		ssize_t got = read(from, bytes, sizeof(bytes));
		if (got <= 0) {
			break;
		}
		if (write(to, bytes, (size_t)got) != got) {
			return errno ? -errno : -ENOSPC;
		}
		done += (uint64_t)got;
	}
	return done == size ? 0 : -ESTALE;
}

static bool hash_is(int fd, uint64_t size, const char *sha256)
{
	unsigned char hash[BOX_HASH_SHA256_BYTES];
	char hex[2 * BOX_HASH_SHA256_BYTES + 1];
	void *bytes = size == 0 ? NULL : mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED) {
		return false;
	}
	box_hash_sha256(bytes, size, hash);
	if (bytes) {
		(void)munmap(bytes, size);
	}
	box_hash_hex(hash, sizeof(hash), hex);
	return strcmp(hex, sha256) == 0;
}

static int copy_file(
	int source, int target, const struct box_manifest_file *file, struct box_err *err)
{
	_cleanup_(box_close_p) int from = -1;
	_cleanup_(box_close_p) int folder = -1;
	const char *name = "";
	int r = open_source(source, file, &from, err);
	if (r < 0) {
		return r;
	}
	r = open_folder(target, file->path, &folder, &name);
	_cleanup_(box_close_p) int to = r < 0
		? -1
		: openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (r == 0 && to < 0) {
		r = -errno;
	}
	if (r == 0) {
		r = copy_bytes(from, to, file->size);
	}
	if (r == -ESTALE || (r == 0 && !hash_is(to, file->size, file->sha256))) {
		return changed(err, file->path);
	}
	if (r == 0 && fchmod(to, file->executable ? 0555 : 0444) < 0) {
		r = -errno;
	}
	return r < 0 ? fail(err, file->path, r) : 0;
}

int box_artifact_copy(int source, int manifest, int target, const char *digest, struct box_err *err)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value tree;
	struct box_manifest files;
	int r = read_manifest(manifest, arena, &tree, err);
	if (r < 0) {
		return r;
	}
	r = box_manifest_read(arena, &tree, digest, &files, err);
	for (size_t i = 0; r == 0 && i < files.count; i++) {
		r = copy_file(source, target, &files.files[i], err);
	}
	return r;
}
