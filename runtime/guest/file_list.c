/* The names in a folder, sorted, a page at a time: of all names the smallest ones behind a given
 * one are kept in a heap, so that a page takes one pass and bounded memory however many there are.
 * Only what is on the page is looked at. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/guest/file.h"

#define ENTRIES_BYTES 32768
#define OUT_BYTES 65536

typedef char file_name[BOX_GUEST_FILE_NAME_MAX + 1];

struct entry {
	uint64_t ino;
	int64_t off;
	unsigned short size;
	unsigned char type;
	char name[];
};

struct page {
	file_name *names;
	uint32_t *heap; /* indexes of names, the greatest first */
	uint32_t count;
	uint32_t limit;
	uint32_t more;
};

static char out[OUT_BYTES];
static size_t out_size;

/* --- the heap --- */

static bool greater(const struct page *page, uint32_t a, uint32_t b)
{
	return strcmp(page->names[page->heap[a]], page->names[page->heap[b]]) > 0;
}

static void swap(struct page *page, uint32_t a, uint32_t b)
{
	uint32_t kept = page->heap[a];
	page->heap[a] = page->heap[b];
	page->heap[b] = kept;
}

static void sift_down(struct page *page, uint32_t at, uint32_t count)
{
	for (;;) {
		uint32_t child = 2 * at + 1;
		if (child >= count) {
			return;
		}
		if (child + 1 < count && greater(page, child + 1, child)) {
			child++;
		}
		if (!greater(page, child, at)) {
			return;
		}
		swap(page, at, child);
		at = child;
	}
}

static void sift_up(struct page *page, uint32_t at)
{
	while (at > 0 && greater(page, at, (at - 1) / 2)) {
		swap(page, at, (at - 1) / 2);
		at = (at - 1) / 2;
	}
}

static void offer(struct page *page, const char *name)
{
	if (page->count < page->limit) {
		page->heap[page->count] = page->count;
		box_walk_copy(page->names[page->count], name);
		sift_up(page, page->count++);
		return;
	}
	page->more = 1;
	if (page->limit > 0 && strcmp(name, page->names[page->heap[0]]) < 0) {
		box_walk_copy(page->names[page->heap[0]], name);
		sift_down(page, 0, page->count);
	}
}

static void sort(struct page *page)
{
	for (uint32_t left = page->count; left > 1; left--) {
		swap(page, 0, left - 1);
		sift_down(page, 0, left - 1);
	}
}

/* --- the folder --- */

static int gather(struct page *page, int fd, const char *after)
{
	static _Alignas(struct entry) char bytes[ENTRIES_BYTES];
	for (;;) {
		long size = syscall(SYS_getdents64, fd, bytes, sizeof(bytes));
		if (size <= 0) {
			return size < 0 ? -errno : 0;
		}
		for (long at = 0; at < size;) {
			const struct entry *entry = (const struct entry *)(void *)(bytes + at);
			at += entry->size;
			if (strcmp(entry->name, ".") != 0 && strcmp(entry->name, "..") != 0 &&
				strcmp(entry->name, after) > 0 &&
				strlen(entry->name) <= BOX_GUEST_FILE_NAME_MAX) {
				offer(page, entry->name);
			}
		}
	}
}

static int flush(struct box_file_job *job)
{
	int r = box_file_put(job, out, out_size);
	out_size = 0;
	return r;
}

static int put(struct box_file_job *job, const void *bytes, size_t size)
{
	int r = size > sizeof(out) - out_size ? flush(job) : 0;
	memcpy(out + out_size, bytes, size);
	out_size += size;
	return r;
}

/* One entry. 1: it does not fit any more. */
static int tell(struct box_file_job *job, int fd, const char *name)
{
	char target[BOX_GUEST_FILE_TEXT_MAX];
	struct stat st;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		return errno == ENOENT ? 0 : -errno;
	}
	struct box_guest_file_entry entry = {
		.facts = box_file_facts(&st),
		.name_size = (uint32_t)strlen(name),
	};
	if (S_ISLNK(st.st_mode)) {
		ssize_t size = readlinkat(fd, name, target, sizeof(target) - 1);
		entry.facts.target_size = size < 0 ? 0 : (uint32_t)size;
	}
	uint64_t size = sizeof(entry) + entry.name_size + entry.facts.target_size;
	if (size > job->ask.size - job->answer.data_size - out_size) {
		return 1;
	}
	int r = put(job, &entry, sizeof(entry));
	r = r < 0 ? r : put(job, name, entry.name_size);
	return r < 0 ? r : put(job, target, entry.facts.target_size);
}

static int tell_page(struct box_file_job *job, struct page *page, int fd)
{
	int r = 0;
	sort(page);
	for (uint32_t i = 0; r == 0 && i < page->count; i++) {
		r = tell(job, fd, page->names[page->heap[i]]);
	}
	job->answer.more = page->more || r == 1;
	return r < 0 ? r : flush(job);
}

static void *map(size_t size)
{
	void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return bytes == MAP_FAILED ? NULL : bytes;
}

int box_file_list(struct box_file_job *job)
{
	struct page page = {.limit = job->ask.limit};
	int r = box_file_walk(job, 0);
	int fd = r < 0 ? r : box_walk_open_folder(&job->walk);
	if (fd < 0) {
		return fd;
	}
	size_t names_size = ((size_t)page.limit + 1) * sizeof(file_name);
	size_t heap_size = ((size_t)page.limit + 1) * sizeof(uint32_t);
	page.names = map(names_size);
	page.heap = map(heap_size);
	r = page.names && page.heap ? gather(&page, fd, job->texts[3]) : -ENOMEM;
	r = r < 0 ? r : tell_page(job, &page, fd);
	(void)close(fd);
	if (page.names) {
		(void)munmap(page.names, names_size);
	}
	if (page.heap) {
		(void)munmap(page.heap, heap_size);
	}
	return r;
}
