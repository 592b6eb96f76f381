/* One page of sorted names: the smallest of all names that are offered. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/init_file.h"

typedef char box_file_name[BOX_INIT_FILE_NAME_MAX + 1];

struct box_file_page {
	box_file_name *names; /* `limit` of them */
	/* `limit` indexes of names: a heap, the greatest first; sorted at the end. */
	uint32_t *heap;
	uint32_t count;
	uint32_t limit;
	bool more; /* names were left out */
};

/* Offers a name; names may be offered twice. */
void box_file_page_offer(struct box_file_page *page, const char *name);
/* After the last name: sorts them and removes duplicates. */
void box_file_page_sort(struct box_file_page *page);
/* The name at an index of the sorted page. */
const char *box_file_page_name(const struct box_file_page *page, uint32_t at);
