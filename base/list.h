/* An intrusive doubly linked list: the listed struct has a member `struct box_list links`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h" /* BOX_CONTAINER_OF */

struct box_list {
	struct box_list *next;
	struct box_list *prev;
};

static inline void box_list_init(struct box_list *list)
{
	list->next = list;
	list->prev = list;
}
static inline bool box_list_empty(const struct box_list *list)
{
	return list->next == list;
}
/* Appends at the tail of `list`. */
static inline void box_list_push(struct box_list *list, struct box_list *item)
{
	item->prev = list->prev;
	item->next = list;
	list->prev->next = item;
	list->prev = item;
}
/* Removes the item; does nothing when an initialised item is in no list. */
static inline void box_list_drop(struct box_list *item)
{
	item->prev->next = item->next;
	item->next->prev = item->prev;
	box_list_init(item);
}
/* Takes and returns the first item, or NULL. */
static inline struct box_list *box_list_pop(struct box_list *list)
{
	struct box_list *item = list->next;
	if (item == list) {
		return NULL;
	}
	/* The analyzer loses track of which items a list still holds.
	 * NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
	box_list_drop(item);
	return item;
}
/* Moves all items of `from` to the tail of `list`. */
static inline void box_list_splice(struct box_list *list, struct box_list *from)
{
	struct box_list *item;
	while ((item = box_list_pop(from))) {
		box_list_push(list, item);
	}
}
