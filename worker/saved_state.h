/* What a successor of this process must know, kept in a memory file that boxd holds.
 *
 * The file is a run of msgpack maps, one per change; appended to as changes happen, written anew
 * when it has grown. boxd never reads it. A successor reads it as it would read a stranger's bytes:
 * a predecessor that was taken over may have written anything.
 */
#pragma once

struct box_boxd_client;
struct box_runtime;
struct box_saved_state;
struct box_value;

/* Takes in what the predecessor left (fd, or -1) and closes it. */
void box_saved_state_replay(struct box_runtime *runtime, int fd);

/* Starts a file of our own with all that the runtime is now, and gives it to boxd. */
struct box_saved_state *box_saved_state_open(
	struct box_runtime *runtime, struct box_boxd_client *link);

void box_saved_state_append(struct box_saved_state *state, const struct box_value *change);
