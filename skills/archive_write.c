/* From packed bytes to files. The adapter of libdeflate.
 *
 * An entry is inflated as a whole into memory of its declared size, which the check has bounded:
 * libdeflate stops at its end, so there is never more than that, and nothing is written of an entry
 * that is not what its headers say. Whoever else has the folder cannot lead a file elsewhere. Large
 * archives are shared among a few threads, entry by entry.
 */
#include "skills/archive_write.h"

#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
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
#include "skills/zip.h"

#define LARGE_PAGE (2 * BOX_MIB)
#define THREADS_MAX 4
#define THREADS_BYTES (4 * BOX_MIB) /* less is done before they have started */
#define STACK_BYTES (256 * BOX_KIB)
#define FLUSH_BYTES (256 * BOX_KIB) /* the disk begins at once with files from this size on */

/* What all threads share. */
struct share {
	const struct box_zip *zip;
	int out_fd;
	bool is_lasting;
	size_t largest; /* entry */
	atomic_size_t next;
	atomic_bool has_failed;
};

struct unpacker {
	struct share *share;
	struct libdeflate_decompressor *inflater;
	uint8_t *memory; /* for the largest entry */
	pthread_t thread;
	int result;
	size_t failed; /* the entry */
	struct box_err err;
};

static size_t whole_pages(size_t size)
{
	return (size + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
}

void *box_archive_memory(size_t size)
{
	size = whole_pages(size);
	/* One more, so that it can begin where a large page does; what is left over goes back. */
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

void box_archive_memory_free(void *memory, size_t size)
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
	return box_err_set(err, BOX_ERR_OS, errnum, "%s: %s", name, strerrordesc_np(errnum));
}

static int make_folder(int out_fd, const char *path, struct box_err *err)
{
	char parent[BOX_PATH_MAX];
	const char *slash = strrchr(path, '/');
	if (!slash) {
		return mkdirat(out_fd, path, 0755) < 0 ? fail(err, errno, path) : 0;
	}
	/* mkdirat follows links on its way, so it gets no way. */
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

/* The content of an entry, in the archive or in our memory. */
static int unpack(struct unpacker *unpacker, const struct box_zip_entry *entry,
	const uint8_t **ret_content, struct box_err *err)
{
	const uint8_t *content = entry->packed;
	if (entry->is_deflated) {
		size_t taken = 0;
		size_t given = 0;
		enum libdeflate_result result = libdeflate_deflate_decompress_ex(unpacker->inflater,
			entry->packed, entry->packed_size, unpacker->memory, entry->size, &taken,
			&given);
		if (result == LIBDEFLATE_INSUFFICIENT_SPACE ||
			(result == LIBDEFLATE_SUCCESS && given != entry->size)) {
			return refuse(err, "Archive entry size changed while extracting", entry);
		}
		if (result != LIBDEFLATE_SUCCESS || taken != entry->packed_size) {
			return refuse(err,
				"Uploaded file must be a valid .zip archive: broken data", entry);
		}
		content = unpacker->memory;
	}
	if (libdeflate_crc32(0, content, entry->size) != entry->crc) {
		return refuse(
			err, "Uploaded file must be a valid .zip archive: wrong checksum", entry);
	}
	*ret_content = content;
	return 0;
}

static int write_file(struct unpacker *unpacker, const struct box_zip_entry *entry,
	const uint8_t *content, struct box_err *err)
{
	_cleanup_(box_close_p) int fd = open_beneath(unpacker->share->out_fd, entry->path,
		O_WRONLY | O_CREAT | O_EXCL, entry->is_executable ? 0755 : 0644);
	if (fd < 0) {
		return fail(err, -fd, entry->name);
	}
	for (size_t done = 0; done < entry->size;) {
		ssize_t wrote = write(fd, content + done, entry->size - done);
		if (wrote < 0 && errno != EINTR) {
			return fail(err, errno, entry->name);
		}
		done += wrote > 0 ? (size_t)wrote : 0;
	}
	if (unpacker->share->is_lasting && entry->size >= FLUSH_BYTES) {
		(void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
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

/* Takes one entry after the other until there are no more, or one of somebody's was refused. */
static void *run(void *data)
{
	struct unpacker *unpacker = data;
	struct share *share = unpacker->share;
	while (!atomic_load(&share->has_failed)) {
		const uint8_t *content = NULL;
		size_t i = atomic_fetch_add(&share->next, 1);
		if (i >= share->zip->count) {
			break;
		}
		const struct box_zip_entry *entry = &share->zip->entries[i];
		int r = unpack(unpacker, entry, &content, &unpacker->err);
		if (r == 0 && !entry->is_folder) {
			r = write_file(unpacker, entry, content, &unpacker->err);
		}
		if (r < 0) {
			unpacker->result = r;
			unpacker->failed = i;
			atomic_store(&share->has_failed, true);
		}
	}
	return NULL;
}

static int open_unpacker(struct unpacker *unpacker, struct share *share)
{
	unpacker->share = share;
	unpacker->memory = box_archive_memory(share->largest);
	unpacker->inflater = libdeflate_alloc_decompressor();
	return unpacker->memory && unpacker->inflater ? 0 : -ENOMEM;
}

static void close_unpacker(struct unpacker *unpacker, size_t largest)
{
	libdeflate_free_decompressor(unpacker->inflater);
	box_archive_memory_free(unpacker->memory, largest);
}

/* As many as there are processors, for archives that are worth it. */
static size_t count_threads(const struct box_zip *zip)
{
	cpu_set_t processors;
	uint64_t total = 0;
	for (size_t i = 0; i < zip->count; i++) {
		total += zip->entries[i].size;
	}
	if (total < THREADS_BYTES || sched_getaffinity(0, sizeof(processors), &processors) < 0) {
		return 1;
	}
	size_t count = (size_t)CPU_COUNT(&processors);
	return count < THREADS_MAX ? count : THREADS_MAX;
}

/* Runs them all; those that cannot be started are done without. */
static void run_all(struct unpacker *unpackers, size_t count)
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

int box_archive_write(const struct box_zip *zip, int out_fd, bool is_lasting, struct box_err *err)
{
	struct share share = {.zip = zip, .out_fd = out_fd, .is_lasting = is_lasting, .largest = 1};
	for (size_t i = 0; i < zip->count; i++) {
		share.largest = zip->entries[i].size > share.largest ? zip->entries[i].size
								     : share.largest;
	}
	size_t count = count_threads(zip);
	struct unpacker *unpackers = box_alloc(count * sizeof(*unpackers));
	memset(unpackers, 0, count * sizeof(*unpackers));
	int r = make_folders(&share, err);
	for (size_t i = 0; r == 0 && i < count; i++) {
		if (open_unpacker(&unpackers[i], &share) < 0) {
			r = fail(err, ENOMEM, "memory");
		}
	}
	if (r == 0) {
		run_all(unpackers, count);
	}
	/* Of several the first in the archive, whoever was faster. */
	size_t first = SIZE_MAX;
	for (size_t i = 0; i < count; i++) {
		if (unpackers[i].result < 0 && unpackers[i].failed < first) {
			first = unpackers[i].failed;
			r = unpackers[i].result;
			*err = unpackers[i].err;
		}
		close_unpacker(&unpackers[i], share.largest);
	}
	free(unpackers);
	return r;
}
