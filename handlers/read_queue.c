/* Queues file reads of one connection, and starts them in order. */
#include "handlers/read_queue.h"

#include "base/limits.h"

void box_read_queue_init(struct box_read_queue *reads, bool (*is_congested)(const void *connection),
	const void *connection)
{
	*reads = (struct box_read_queue){.is_congested = is_congested, .connection = connection};
	box_list_init(&reads->waiting);
}

/* A single read may always begin, once the connection accepts answers. */
static bool may_begin(const struct box_read_queue *reads, const struct box_read_queue_entry *turn)
{
	return !(reads->is_congested && reads->is_congested(reads->connection)) &&
		(reads->bytes == 0 || reads->bytes + turn->bytes <= BOX_FILE_OP_READS_BYTES_MAX);
}

void box_read_queue_resume(struct box_read_queue *reads)
{
	/* A read that fails at once is answered at once, which may call this function again. */
	if (reads->resuming) {
		return;
	}
	reads->resuming = true;
	while (!box_list_empty(&reads->waiting)) {
		struct box_read_queue_entry *turn = BOX_CONTAINER_OF(
			reads->waiting.next, struct box_read_queue_entry, links);
		uint64_t bytes = turn->bytes;
		if (!may_begin(reads, turn)) {
			break;
		}
		box_list_drop(&turn->links);
		turn->begun = true;
		reads->bytes += bytes;
		if (turn->begin(turn) < 0) {
			reads->bytes -= bytes;
		}
	}
	reads->resuming = false;
}

void box_read_queue_enter(struct box_read_queue *reads, struct box_read_queue_entry *turn)
{
	turn->begun = false;
	box_list_push(&reads->waiting, &turn->links);
	box_read_queue_resume(reads);
}

void box_read_queue_leave(struct box_read_queue *reads, struct box_read_queue_entry *turn)
{
	if (turn->begun) {
		reads->bytes -= turn->bytes;
	} else {
		box_list_drop(&turn->links);
	}
}
