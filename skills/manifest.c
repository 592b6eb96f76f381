/* Parses an artifact's manifest strictly, and hashes its canonical form: keys in order, no white space,
 * characters unescaped. */
#include "skills/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/limits.h"
#include "codec/json.h"

#define ALGORITHM "sha256-tree-v1"

static int refuse(struct box_err *err, const char *why)
{
	return box_err_set(err, BOX_ERR_BOX, EINVAL, "%s", why);
}

static int mismatch(struct box_err *err)
{
	return refuse(err, "Artifact manifest does not match content_digest");
}

/* One part of a path, between slashes. */
static bool part_is_good(const char *part, size_t len)
{
	bool dots = (len == 1 && part[0] == '.') || (len == 2 && memcmp(part, "..", 2) == 0);
	return len > 0 && len <= 255 && !dots;
}

bool box_manifest_path_is_good(struct box_str path)
{
	if (path.len == 0 || path.len >= BOX_PATH_MAX || box_str_has_nul(path) ||
		memchr(path.bytes, '\\', path.len)) {
		return false;
	}
	for (size_t at = 0; at <= path.len;) {
		const char *slash = memchr(path.bytes + at, '/', path.len - at);
		size_t len = slash ? (size_t)(slash - path.bytes) - at : path.len - at;
		if (!part_is_good(path.bytes + at, len)) {
			return false;
		}
		at += len + 1;
	}
	return true;
}

static bool is_digest(struct box_str text)
{
	if (text.len != 2 * BOX_HASH_SHA256_BYTES) {
		return false;
	}
	for (size_t i = 0; i < text.len; i++) {
		if (!strchr("0123456789abcdef", text.bytes[i]) || text.bytes[i] == '\0') {
			return false;
		}
	}
	return true;
}

static const struct box_value *member(
	const struct box_value *map, const char *key, enum box_type type)
{
	const struct box_value *value = box_map_get(map, key);
	return value && value->type == type ? value : NULL;
}

static bool read_file(
	struct box_arena *arena, const struct box_value *entry, struct box_manifest_file *ret_file)
{
	const struct box_value *path = member(entry, "path", BOX_STR);
	const struct box_value *size = member(entry, "size", BOX_INT);
	const struct box_value *sha256 = member(entry, "sha256", BOX_STR);
	const struct box_value *executable = member(entry, "executable", BOX_BOOL);
	if (entry->type != BOX_MAP || entry->count != 4 || !path || !size || !sha256 ||
		!executable || size->integer < 0 || !is_digest(sha256->str) ||
		!box_manifest_path_is_good(path->str)) {
		return false;
	}
	*ret_file = (struct box_manifest_file){
		.path = box_arena_strndup(arena, path->str.bytes, path->str.len),
		.size = (uint64_t)size->integer,
		.sha256 = box_arena_strndup(arena, sha256->str.bytes, sha256->str.len),
		.executable = executable->boolean,
	};
	return true;
}

static int by_path(const void *a, const void *b)
{
	const struct box_manifest_file *const *first = a;
	const struct box_manifest_file *const *second = b;
	return strcmp((*first)->path, (*second)->path);
}

/* No path may occur twice or be a folder of another. Every path that sorts between the two begins with the
 * shorter one too, so each is compared with the last one that was not below it. */
static bool paths_agree(struct box_arena *arena, const struct box_manifest *manifest)
{
	const struct box_manifest_file **sorted = box_arena_alloc(
		arena, (manifest->count + 1) * sizeof(struct box_manifest_file *));
	for (size_t i = 0; i < manifest->count; i++) {
		sorted[i] = &manifest->files[i];
	}
	qsort(sorted, manifest->count, sizeof(struct box_manifest_file *), by_path);
	for (size_t i = 0; i < manifest->count; i++) {
		size_t len = strlen(sorted[i]->path);
		for (size_t next = i + 1; next < manifest->count; next++) {
			const char *other = sorted[next]->path;
			if (strncmp(other, sorted[i]->path, len) != 0) {
				break;
			}
			if (other[len] == '\0' || other[len] == '/') {
				return false;
			}
		}
	}
	return true;
}

static int read_files(struct box_arena *arena, const struct box_value *files,
	struct box_manifest *manifest, struct box_err *err)
{
	uint64_t total = 0;
	if (files->count > BOX_ARTIFACT_FILES_MAX) {
		return refuse(err, "Artifact manifest has too many files");
	}
	manifest->files = box_arena_alloc(arena, (files->count + 1) * sizeof(*manifest->files));
	manifest->count = files->count;
	for (uint32_t i = 0; i < files->count; i++) {
		if (!read_file(arena, &files->items[i], &manifest->files[i])) {
			return refuse(err, "Artifact manifest is malformed");
		}
		if (manifest->files[i].size > BOX_ARTIFACT_BYTES_MAX - total) {
			return refuse(err, "Artifact is larger than 256 MiB");
		}
		total += manifest->files[i].size;
	}
	if (total != manifest->total_bytes || !paths_agree(arena, manifest)) {
		return refuse(err, "Artifact manifest is malformed");
	}
	return 0;
}

/* --- the digest --- */

static void write_file(struct box_buf *out, const struct box_manifest_file *file)
{
	(void)box_buf_printf(
		out, "{\"executable\":%s,\"path\":", file->executable ? "true" : "false");
	(void)box_json_encode_str(out, box_str(file->path));
	(void)box_buf_printf(out, ",\"sha256\":\"%s\",\"size\":%llu}", file->sha256,
		(unsigned long long)file->size);
}

static bool digest_is(const struct box_manifest *manifest, const char *digest)
{
	struct box_buf out = box_buf(16 * BOX_ARTIFACT_MANIFEST_BYTES_MAX);
	unsigned char hash[BOX_HASH_SHA256_BYTES];
	char hex[2 * BOX_HASH_SHA256_BYTES + 1];
	(void)box_buf_append_str(&out, "{\"algorithm\":\"" ALGORITHM "\",\"files\":[");
	for (size_t i = 0; i < manifest->count; i++) {
		(void)box_buf_append(&out, ",", i > 0 ? 1 : 0);
		write_file(&out, &manifest->files[i]);
	}
	(void)box_buf_printf(
		&out, "],\"total_bytes\":%llu}", (unsigned long long)manifest->total_bytes);
	box_hash_sha256(out.bytes, out.len, hash);
	box_hash_hex(hash, sizeof(hash), hex);
	bool same = !out.overflowed && strcmp(hex, digest) == 0;
	box_buf_free(&out);
	return same;
}

int box_manifest_read(struct box_arena *arena, const struct box_value *tree, const char *digest,
	struct box_manifest *ret_manifest, struct box_err *err)
{
	const struct box_value *algorithm = member(tree, "algorithm", BOX_STR);
	const struct box_value *files = member(tree, "files", BOX_LIST);
	const struct box_value *total = member(tree, "total_bytes", BOX_INT);
	if (tree->type != BOX_MAP || tree->count != 3 || !algorithm || !files || !total ||
		!box_str_eq(algorithm->str, ALGORITHM) || total->integer < 0) {
		return refuse(err, "Artifact manifest is malformed");
	}
	struct box_manifest manifest = {.total_bytes = (uint64_t)total->integer};
	int r = read_files(arena, files, &manifest, err);
	if (r < 0) {
		return r;
	}
	if (!digest_is(&manifest, digest)) {
		return mismatch(err);
	}
	*ret_manifest = manifest;
	return 0;
}
