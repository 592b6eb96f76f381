/* Writes the files of a checked archive.
 *
 * All entries are first inflated into memory of their declared sizes, whose sum zip.c has limited. Nothing
 * is written if one entry does not match its headers or contains archives that are too large. Others who can
 * write to the folder cannot redirect a file. Large archives are shared among a few threads, entry by
 * entry.
 */
#include "skills/archive/archive_write.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/macros.h"
#include "base/write.h"
#include "skills/archive/inflater.h"
#include "skills/archive/zip.h"
#include "skills/archive/zip_nested.h"

#define LARGE_PAGE (2 * BOX_MIB)
#define THREADS_MAX 4
#define THREADS_BYTES (1 * BOX_MIB) /* smaller archives are done before threads have started */
#define STACK_BYTES (256 * BOX_KIB)
#define SMALL_BYTES (256 * BOX_KIB) /* the average size of a file */

/* What all threads share. */
struct share {
	const struct box_zip *zip;
	int out_fd;
	uint64_t total;  /* bytes of all entries */
	uint8_t *memory; /* for all deflated entries */
	size_t memory_size;
	size_t *places; /* of each deflated entry in `memory` */
	atomic_size_t next;
	atomic_bool has_failed;
};

struct unpacker {
	struct share *share;
	struct box_inflater *inflater;
	int (*step)(struct unpacker *unpacker, size_t i, struct box_err *err);
	pthread_t thread;
	int result;
	size_t failed; /* the index of the entry */
	struct box_err err;
};

static size_t whole_pages(size_t size)
{
	return (size + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
}

void *box_archive_write_alloc(size_t size)
{
	size = whole_pages(size);
	/* One more page, so that the start can be aligned to a large page; the rest is unmapped. */
	uint8_t *memory = mmap(NULL, size + LARGE_PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		return NULL;
	}
	size_t before = whole_pages((uintptr_t)memory) - (uintptr_t)memory;
	if (before > 0) {
		(void)munmap(memory, before);
	}
	(void)munmap(memory + before + size, LARGE_PAGE - before);
	(void)madvise(memory + before, size, MADV_HUGEPAGE);
	return memory + before;
}

void box_archive_write_free(void *memory, size_t size)
{
	if (memory) {
		(void)munmap(memory, whole_pages(size));
	}
}

static int open_beneath(int folder_fd, const char *path, uint64_t flags, mode_t mode)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC | O_NOFOLLOW,
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, folder_fd, path, &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

static int fail(struct box_err *err, int errnum, const char *name)
{
	if (errnum == EEXIST) {
		return box_err_set(err, BOX_ERR_VALIDATION, EEXIST,
			"Archive contains a duplicate path: %s", name);
	}
	return box_err_set(err, BOX_ERR_OS, errnum, "%s: %s", name, box_err_strerror(errnum));
}

static int make_folder(int out_fd, const char *path, struct box_err *err)
{
	char parent[BOX_PATH_MAX];
	const char *slash = strrchr(path, '/');
	if (!slash) {
		return mkdirat(out_fd, path, 0755) < 0 ? fail(err, errno, path) : 0;
	}
	/* mkdirat follows links in the path, so it only gets the last component. */
	memcpy(parent, path, (size_t)(slash - path));
	parent[slash - path] = '\0';
	_cleanup_(box_close_p) int fd = open_beneath(out_fd, parent, O_PATH | O_DIRECTORY, 0);
	if (fd < 0) {
		return fail(err, -fd, path);
	}
	return mkdirat(fd, slash + 1, 0755) < 0 ? fail(err, errno, path) : 0;
}

static int refuse(struct box_err *err, const char *what, const struct box_zip_entry *entry)
{
	return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "%s: %s", what, entry->name);
}

/* A stored entry's content is in the archive itself. */
static const uint8_t *content_of(const struct share *share, size_t i)
{
	const struct box_zip_entry *entry = &share->zip->entries[i];
	return entry->is_deflated ? share->memory + share->places[i] : entry->packed;
}

/* The first pass over an entry: inflates and checks its content. */
static int unpack(struct unpacker *unpacker, size_t i, struct box_err *err)
{
	const struct box_zip_entry *entry = &unpacker->share->zip->entries[i];
	const uint8_t *content = content_of(unpacker->share, i);
	if (entry->is_deflated) {
		const struct share *share = unpacker->share;
		int r = box_inflater_inflate(unpacker->inflater, entry->packed, entry->packed_size,
			share->memory + share->places[i], entry->size);
		if (r < 0) {
			return refuse(err,
				r == -EMSGSIZE
					? "Archive entry size changed while extracting"
					: "Uploaded file must be a valid .zip archive: broken data",
				entry);
		}
	}
	if (box_inflater_crc(content, entry->size) != entry->crc) {
		return refuse(
			err, "Uploaded file must be a valid .zip archive: wrong checksum", entry);
	}
	return 0;
}

/* The second pass: writes its file. */
static int write_file(struct unpacker *unpacker, size_t i, struct box_err *err)
{
	const struct box_zip_entry *entry = &unpacker->share->zip->entries[i];
	const uint8_t *content = content_of(unpacker->share, i);
	if (entry->is_folder) {
		return 0;
	}
	_cleanup_(box_close_p) int fd = open_beneath(unpacker->share->out_fd, entry->path,
		O_WRONLY | O_CREAT | O_EXCL, entry->is_executable ? 0755 : 0644);
	if (fd < 0) {
		return fail(err, -fd, entry->name);
	}
	int r = box_write_all(fd, content, entry->size);
	if (r < 0) {
		return fail(err, -r, entry->name);
	}
	return 0;
}

static int make_folders(const struct share *share, struct box_err *err)
{
	for (size_t i = 0; i < share->zip->folder_count; i++) {
		int r = make_folder(share->out_fd, share->zip->folders[i], err);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

/* --- threads --- */

/* Takes entries until there are no more, or until any thread refuses one. */
static void *run(void *data)
{
	struct unpacker *unpacker = data;
	struct share *share = unpacker->share;
	while (!atomic_load(&share->has_failed)) {
		size_t i = atomic_fetch_add(&share->next, 1);
		if (i >= share->zip->count) {
			break;
		}
		int r = unpacker->step(unpacker, i, &unpacker->err);
		if (r < 0) {
			unpacker->result = r;
			unpacker->failed = i;
			atomic_store(&share->has_failed, true);
		}
	}
	return NULL;
}

/* One for each processor, for archives that are worth it. */
static size_t count_threads(uint64_t total)
{
	cpu_set_t processors;
	if (total < THREADS_BYTES || sched_getaffinity(0, sizeof(processors), &processors) < 0) {
		return 1;
	}
	size_t count = (size_t)CPU_COUNT(&processors);
	return BOX_MIN(count, THREADS_MAX);
}

/* Starts all threads; works without those that cannot be started. */
static void start_all(struct unpacker *unpackers, size_t count)
{
	pthread_attr_t attributes;
	size_t started = 1;
	(void)pthread_attr_init(&attributes);
	(void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
	while (started < count &&
		pthread_create(&unpackers[started].thread, &attributes, run, &unpackers[started]) ==
			0) {
		started++;
	}
	(void)pthread_attr_destroy(&attributes);
	(void)run(&unpackers[0]);
	for (size_t i = 1; i < started; i++) {
		(void)pthread_join(unpackers[i].thread, NULL);
	}
}

/* Runs one pass over all entries. */
static int run_all(struct unpacker *unpackers, size_t count,
	int (*step)(struct unpacker *unpacker, size_t i, struct box_err *err), struct box_err *err)
{
	atomic_store(&unpackers[0].share->next, 0);
	for (size_t i = 0; i < count; i++) {
		unpackers[i].step = step;
	}
	start_all(unpackers, count);
	/* Of several faults, reports the one that is first in the archive. */
	size_t first = SIZE_MAX;
	int r = 0;
	for (size_t i = 0; i < count; i++) {
		if (unpackers[i].result < 0 && unpackers[i].failed < first) {
			first = unpackers[i].failed;
			r = unpackers[i].result;
			*err = unpackers[i].err;
		}
	}
	return r;
}

/* --- the whole archive --- */

/* Gives each deflated entry its place in memory. */
static int add_places(struct share *share)
{
	const struct box_zip *zip = share->zip;
	share->places = box_alloc((zip->count + 1) * sizeof(share->places[0]));
	for (size_t i = 0; i < zip->count; i++) {
		const struct box_zip_entry *entry = &zip->entries[i];
		share->places[i] = share->memory_size;
		share->memory_size += entry->is_deflated ? entry->size : 0;
		share->total += entry->size;
	}
	share->memory_size += 1; /* mmap refuses a size of 0 */
	share->memory = box_archive_write_alloc(share->memory_size);
	return share->memory ? 0 : -ENOMEM;
}

/* Counts what the archives among the entries would unpack to. */
static int look_into_archives(const struct unpacker *unpacker, struct box_err *err)
{
	const struct share *share = unpacker->share;
	struct box_zip_nested nested = {.inflater = unpacker->inflater, .bytes = share->total};
	for (size_t i = 0; i < share->zip->count; i++) {
		int r = box_zip_nested_add(
			&nested, &share->zip->entries[i], content_of(share, i), err);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

/* The kernel creates one file at a time in a folder: with small files, threads would only wait for each
 * other. */
static size_t count_writers(const struct share *share, size_t count)
{
	return share->total / SMALL_BYTES < share->zip->count ? 1 : count;
}

/* Checks everything before the first file is created. */
static int work(struct unpacker *unpackers, size_t count, struct box_err *err)
{
	int r = run_all(unpackers, count, unpack, err);
	if (r == 0) {
		r = look_into_archives(&unpackers[0], err);
	}
	if (r == 0) {
		r = make_folders(unpackers[0].share, err);
	}
	return r < 0
		? r
		: run_all(unpackers, count_writers(unpackers[0].share, count), write_file, err);
}

int box_archive_write(const struct box_zip *zip, int out_fd, struct box_err *err)
{
	struct share share = {.zip = zip, .out_fd = out_fd};
	int r = add_places(&share);
	size_t count = count_threads(share.total);
	struct unpacker *unpackers = box_alloc(count * sizeof(*unpackers));
	memset(unpackers, 0, count * sizeof(*unpackers));
	for (size_t i = 0; i < count; i++) {
		unpackers[i].share = &share;
		unpackers[i].inflater = box_inflater_new();
		r = unpackers[i].inflater ? r : -ENOMEM;
	}
	r = r < 0 ? fail(err, ENOMEM, "memory") : work(unpackers, count, err);
	for (size_t i = 0; i < count; i++) {
		box_inflater_free(unpackers[i].inflater);
	}
	free(unpackers);
	free(share.places);
	box_archive_write_free(share.memory, share.memory_size);
	return r;
}
