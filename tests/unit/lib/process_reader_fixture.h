/* Readers of managed processes that record what they receive. */
#pragma once

#include "base/limits.h"
#include "tests/unit/lib/process_fixture.h"

#define KIB 1024U
#define WINDOW (256 * KIB) /* of input in flight */

struct reading {
	struct box_process_reader *reader;
	int attached;
	uint64_t offset;
	uint64_t input;
	char out[128 * KIB];
	uint64_t next;
	uint64_t fed;
	int ended;
	bool with_process;
	void (*then)(struct reading *self);
};

static void on_attached(void *arg, uint64_t offset, uint64_t input)
{
	struct reading *self = arg;
	ASSERT(!self->ended);
	self->attached++;
	self->offset = self->next = offset;
	self->input = input;
	if (self->then) {
		self->then(self);
	}
}

static void on_output(void *arg, uint64_t offset, struct box_str bytes)
{
	struct reading *self = arg;
	ASSERT(self->attached == 1 && !self->ended);
	ASSERT_INT(offset, self->next);
	size_t at = (size_t)(offset - self->offset);
	ASSERT(at + bytes.len < sizeof(self->out));
	memcpy(self->out + at, bytes.bytes, bytes.len);
	self->next += bytes.len;
}

static void on_fed(void *arg, uint64_t taken)
{
	struct reading *self = arg;
	ASSERT(self->attached == 1 && !self->ended);
	self->fed = taken;
}

static void on_ended(void *arg, const struct box_process *process)
{
	struct reading *self = arg;
	self->ended++;
	self->with_process = process != NULL;
}

static const struct box_process_reader_events events = {
	.attached = on_attached,
	.output = on_output,
	.fed = on_fed,
	.ended = on_ended,
};

static inline void attach(struct reading *self, const char *id)
{
	*self = (struct reading){.then = self->then};
	self->reader = box_process_attach(process_of("s", id), &events, self);
	ASSERT_INT(self->attached, 0);
}

static inline void attach_and_read(struct reading *self, uint64_t from)
{
	attach(self, "default");
	box_process_read(self->reader, from);
}

static inline uint32_t started(void)
{
	start_processes();
	make_live("s");
	uint32_t number = begun("s", "default");
	tell_running(number);
	return number;
}

static inline void expect_follow(
	uint32_t number, uint64_t freed, uint64_t from, uint64_t until, uint64_t hold)
{
	const struct box_backend_process_follow *follow = &played_of(number)->follow;
	ASSERT_INT(follow->freed, freed);
	ASSERT_INT(follow->from, from);
	ASSERT_INT(follow->until, until);
	ASSERT_INT(follow->hold, hold);
}
