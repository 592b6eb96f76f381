/* Owns a heap of names, so that a page takes one pass over the folder and bounded memory. If the folder
 * changes while it is read, a name may be offered twice. Called by file_list.c. */
#include "init/file/file_page.h"

#include <string.h>

#include "init/file/path_walk.h"

const char *box_file_page_name(const struct box_file_page *page, uint32_t at)
{
	return page->names[page->heap[at]];
}

static bool greater(const struct box_file_page *page, uint32_t a, uint32_t b)
{
	return strcmp(box_file_page_name(page, a), box_file_page_name(page, b)) > 0;
}

static void swap(struct box_file_page *page, uint32_t a, uint32_t b)
{
	uint32_t kept = page->heap[a];
	page->heap[a] = page->heap[b];
	page->heap[b] = kept;
}

static void sift_down(struct box_file_page *page, uint32_t at, uint32_t count)
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

static void sift_up(struct box_file_page *page, uint32_t at)
{
	while (at > 0 && greater(page, at, (at - 1) / 2)) {
		swap(page, at, (at - 1) / 2);
		at = (at - 1) / 2;
	}
}

void box_file_page_offer(struct box_file_page *page, const char *name)
{
	if (page->count < page->limit) {
		page->heap[page->count] = page->count;
		box_path_walk_copy(page->names[page->count], name);
		sift_up(page, page->count++);
		return;
	}
	page->more = true;
	if (page->limit > 0 && strcmp(name, page->names[page->heap[0]]) < 0) {
		box_path_walk_copy(page->names[page->heap[0]], name);
		sift_down(page, 0, page->count);
	}
}

void box_file_page_sort(struct box_file_page *page)
{
	uint32_t kept = 0;
	for (uint32_t left = page->count; left > 1; left--) {
		swap(page, 0, left - 1);
		sift_down(page, 0, left - 1);
	}
	for (uint32_t i = 0; i < page->count; i++) {
		if (kept == 0 ||
			strcmp(box_file_page_name(page, kept - 1), box_file_page_name(page, i)) !=
				0) {
			page->heap[kept++] = page->heap[i];
		}
	}
	page->count = kept;
}
