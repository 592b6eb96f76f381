/* The table of boxes, for the files that own it: boxes.c has what moves, boxes_query.c what is
 * asked. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/table.h"
#include "boxd/box/boxes.h"
#include "boxd/box/resources.h"

enum box_boxes_state {
	BOX_BOXES_MAKING,
	BOX_BOXES_LIVE,
	BOX_BOXES_ENDING,
};

/* Needed until it is made. */
struct box_boxes_making {
	uint32_t request;
	uint64_t limit_ms; /* in which it must be there */
	struct box_plan_request ask;
	struct box_plan_host host; /* with the root of its image */
	struct box_plan plan;
};

struct box_boxes_entry {
	struct box_list links; /* in `live`, or in `restless` */
	uint64_t number;
	enum box_boxes_state state;
	bool told;            /* box-rpc knows of it, and must hear of its end */
	uint64_t deadline_ms; /* MAKING: given up then; ENDING: the next try to bury */
	uint64_t pause_ms;    /* ENDING: after which it was tried last */
	struct box_boxes_making *making;
	struct box_resources living;
	uint64_t promised_bytes; /* to a microVM and what runs it; 0: it is none */
	uint64_t memory_bytes;   /* that it may have */
	uint64_t looked_ms;      /* LIVE: at what no cgroup counts, the last time */
	uint8_t suspect_looks;   /* LIVE: so many looks in a row it may have held too much */
	struct box_process_cgroups *groups; /* LIVE: NULL when there was never one */
	char tenant[BOX_TENANT_SIZE];
	char *workspace;     /* where it is, inside */
	bool own_workspace;  /* no folder of the host */
	dev_t source_device; /* else which */
	ino_t source_inode;
};

struct box_boxes {
	struct box_host_state *ground;
	const struct box_boxes_events *events;
	void *arg;
	int epoll;
	uint64_t next_number;
	struct box_warm_pool *ahead;
	struct box_table by_number;
	struct box_list live;     /* who was looked at longest ago is the first */
	struct box_list restless; /* MAKING and ENDING */
	struct box_list groups;   /* that were closed and are to be removed */
	uint64_t look_ms;         /* when boxes are looked at next; UINT64_MAX: there is none */
};

static inline struct box_str box_boxes_key(const uint64_t *number)
{
	return (struct box_str){(const char *)number, sizeof(*number)};
}

static inline struct box_boxes_entry *box_boxes_entry_of(struct box_list *at)
{
	return BOX_CONTAINER_OF(at, struct box_boxes_entry, links);
}

/* The living box of a number, or NULL. */
struct box_boxes_entry *box_boxes_find(struct box_boxes *boxes, uint64_t box);
/* Whether there is memory for the box of this plan beside the others: 0, or negative with err. */
int box_boxes_check_memory(
	struct box_boxes *boxes, const struct box_plan *plan, struct box_err *err);
bool box_boxes_has_socket_check(const struct box_boxes_entry *entry);
/* Looks at what the sockets of boxes hold that no cgroup counts, when it is time, and gives the first
 * that holds too much, or NULL. One look for each box in BOX_SOCKETS_CHECK_MS, fewer when looks take
 * long. */
struct box_boxes_entry *box_boxes_find_over_socket_memory(struct box_boxes *boxes);
/* Whether its first process has. */
bool box_boxes_has_ended(const struct box_boxes_entry *entry);
