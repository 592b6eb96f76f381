/* LIST: the sorted names in a folder, one page at a time (file_page.c), with facts about the entries of the
 * page. Called by file_job.c. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "init/file/dir_entries.h"
#include "init/file/file_job.h"
#include "init/file/file_page.h"

#define ENTRIES_BYTES 32768
#define OUT_BYTES 65536

static char out[OUT_BYTES];
static size_t out_size;

/* --- the folder --- */

static int read_names(struct box_file_page *page, int fd, const char *after)
{
	static BOX_DIR_ENTRIES_ALIGNED char bytes[ENTRIES_BYTES];
	struct box_dir_entries folder = {.fd = fd, .bytes = bytes, .capacity = sizeof(bytes)};
	const char *name;
	while ((name = box_dir_entries_next(&folder))) {
		if (strcmp(name, after) > 0 && strlen(name) <= BOX_INIT_FILE_NAME_MAX) {
			box_file_page_offer(page, name);
		}
	}
	return folder.failed;
}

static int flush(struct box_file_job *job)
{
	int r = box_file_job_put_data(job, out, out_size);
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

/* Writes one entry, unless it is gone. 1: the answer is full. */
static int put_entry(struct box_file_job *job, int fd, const char *name)
{
	char target[BOX_INIT_FILE_TEXT_MAX];
	struct stat st;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		return errno == ENOENT ? 0 : -errno;
	}
	struct box_init_file_entry entry = {
		.facts = box_file_job_facts(&st),
		.name_size = (uint32_t)strlen(name),
	};
	if (S_ISLNK(st.st_mode)) {
		ssize_t size = readlinkat(fd, name, target, sizeof(target) - 1);
		entry.facts.target_size = size < 0 ? 0 : (uint32_t)size;
	}
	uint64_t size = sizeof(entry) + entry.name_size + entry.facts.target_size;
	if (size > job->request.size - job->answer.data_size - out_size) {
		return 1;
	}
	int r = put(job, &entry, sizeof(entry));
	if (r < 0) {
		return r;
	}
	r = put(job, name, entry.name_size);
	if (r < 0) {
		return r;
	}
	return put(job, target, entry.facts.target_size);
}

static int put_page(struct box_file_job *job, struct box_file_page *page, int fd)
{
	int r = 0;
	box_file_page_sort(page);
	for (uint32_t i = 0; r == 0 && i < page->count; i++) {
		r = put_entry(job, fd, box_file_page_name(page, i));
	}
	job->answer.more = page->more || r == 1;
	return r < 0 ? r : 0;
}

/* The next page is requested by the last name of this one, so a page with more names after it must not be
 * empty: if all its files are gone, the page after it is returned instead. */
static int put_nonempty_page(struct box_file_job *job, struct box_file_page *page, int fd)
{
	box_file_name after;
	const char *last = job->texts[3];
	for (;;) {
		page->count = 0;
		page->more = false;
		int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : read_names(page, fd, last);
		if (r < 0) {
			return r;
		}
		r = put_page(job, page, fd);
		if (r < 0) {
			return r;
		}
		bool is_empty = out_size + job->answer.data_size == 0;
		if (!is_empty || page->count == 0 || !job->answer.more) {
			return flush(job);
		}
		box_path_walk_copy(after, box_file_page_name(page, page->count - 1));
		last = after;
	}
}

static void *map(size_t size)
{
	void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return bytes == MAP_FAILED ? NULL : bytes;
}

int box_file_job_list(struct box_file_job *job)
{
	struct box_file_page page = {.limit = job->request.limit};
	int r = box_file_job_walk(job, 0);
	if (r < 0) {
		return r;
	}
	int fd = box_path_walk_open_folder(&job->walk);
	if (fd < 0) {
		return fd;
	}
	size_t names_size = ((size_t)page.limit + 1) * sizeof(box_file_name);
	size_t heap_size = ((size_t)page.limit + 1) * sizeof(uint32_t);
	page.names = map(names_size);
	page.heap = map(heap_size);
	r = page.names && page.heap ? put_nonempty_page(job, &page, fd) : -ENOMEM;
	(void)close(fd);
	if (page.names) {
		(void)munmap(page.names, names_size);
	}
	if (page.heap) {
		(void)munmap(page.heap, heap_size);
	}
	return r;
}
