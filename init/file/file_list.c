/* The names in a folder, sorted, a page at a time (file_page.c). Only what is on the page is looked
 * at. */
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

static int gather(struct box_file_page *page, int fd, const char *after)
{
	static BOX_DIR_ENTRIES_ALIGNED char bytes[ENTRIES_BYTES];
	struct box_dir_entries folder = {.fd = fd, .bytes = bytes, .room = sizeof(bytes)};
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

/* One entry, unless it has gone meanwhile. 1: it does not fit any more. */
static int tell(struct box_file_job *job, int fd, const char *name)
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
	if (size > job->ask.size - job->answer.data_size - out_size) {
		return 1;
	}
	int r = put(job, &entry, sizeof(entry));
	r = r < 0 ? r : put(job, name, entry.name_size);
	return r < 0 ? r : put(job, target, entry.facts.target_size);
}

static int tell_page(struct box_file_job *job, struct box_file_page *page, int fd)
{
	int r = 0;
	box_file_page_sort(page);
	for (uint32_t i = 0; r == 0 && i < page->count; i++) {
		r = tell(job, fd, box_file_page_name(page, i));
	}
	job->answer.more = page->more || r == 1;
	return r < 0 ? r : 0;
}

/* Who asks for more does so by the last name of a page, so a page that has more behind it must have
 * one: if all of its files have gone meanwhile, the next one is told in its place. */
static int tell_some(struct box_file_job *job, struct box_file_page *page, int fd)
{
	box_file_name after;
	const char *behind = job->texts[3];
	for (;;) {
		page->count = 0;
		page->more = false;
		int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : gather(page, fd, behind);
		r = r < 0 ? r : tell_page(job, page, fd);
		bool some = out_size + job->answer.data_size > 0;
		if (r < 0 || some || page->count == 0 || !job->answer.more) {
			return r < 0 ? r : flush(job);
		}
		box_path_walk_copy(after, box_file_page_name(page, page->count - 1));
		behind = after;
	}
}

static void *map(size_t size)
{
	void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return bytes == MAP_FAILED ? NULL : bytes;
}

int box_file_job_list(struct box_file_job *job)
{
	struct box_file_page page = {.limit = job->ask.limit};
	int r = box_file_job_walk(job, 0);
	int fd = r < 0 ? r : box_path_walk_open_folder(&job->walk);
	if (fd < 0) {
		return fd;
	}
	size_t names_size = ((size_t)page.limit + 1) * sizeof(box_file_name);
	size_t heap_size = ((size_t)page.limit + 1) * sizeof(uint32_t);
	page.names = map(names_size);
	page.heap = map(heap_size);
	r = page.names && page.heap ? tell_some(job, &page, fd) : -ENOMEM;
	(void)close(fd);
	if (page.names) {
		(void)munmap(page.names, names_size);
	}
	if (page.heap) {
		(void)munmap(page.heap, heap_size);
	}
	return r;
}
