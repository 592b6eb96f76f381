/* Turns of reads, first come, first served. */
#include "handlers/read_queue.h"

#include "base/limits.h"

void box_read_queue_init(struct box_read_queue *reads, bool (*is_clogged)(const void *connection),
	const void *connection)
{
	*reads = (struct box_read_queue){.is_clogged = is_clogged, .connection = connection};
	box_list_init(&reads->waiting);
}

/* One alone may always begin, once the connection takes answers. */
static bool may_begin(const struct box_read_queue *reads, const struct box_read_queue_entry *turn)
{
	return !(reads->is_clogged && reads->is_clogged(reads->connection)) &&
		(reads->bytes == 0 || reads->bytes + turn->bytes <= BOX_FILE_OP_READS_BYTES_MAX);
}

void box_read_queue_resume(struct box_read_queue *reads)
{
	/* One that fails at once is answered at once, and that may call us from inside. */
	if (reads->going_on) {
		return;
	}
	reads->going_on = true;
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
	reads->going_on = false;
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
