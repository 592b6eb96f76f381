/* One page of names: of all that are offered the smallest ones behind a given one. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/init_file.h"

typedef char box_file_name[BOX_INIT_FILE_NAME_MAX + 1];

struct box_file_page {
	box_file_name *names; /* room for `limit` of them */
	uint32_t *heap;       /* as many indexes of names, the greatest first; sorted in the end */
	uint32_t count;
	uint32_t limit;
	bool more; /* something was left out */
};

/* Another name, which may come twice. */
void box_file_page_offer(struct box_file_page *page, const char *name);
/* No more come: puts them in order, each once. */
void box_file_page_sort(struct box_file_page *page);
/* The name at a place of the sorted page. */
const char *box_file_page_name(const struct box_file_page *page, uint32_t at);
