/* The state that the next box-rpc needs, in a memory file that boxd holds.
 *
 * The file is a sequence of msgpack maps, one for each change: appended to as changes happen, rewritten
 * when it has grown. boxd never reads it. The next box-rpc treats it as untrusted: the one that wrote it
 * may have been hijacked.
 */
#pragma once

struct box_boxd_client;
struct box_runtime;
struct box_saved_state;
struct box_value;

/* Replays the file of the previous box-rpc (fd, or -1) and closes it. */
void box_saved_state_replay(struct box_runtime *runtime, int fd);

/* Starts a new file with the whole state of the runtime, and hands it to boxd. */
struct box_saved_state *box_saved_state_open(
	struct box_runtime *runtime, struct box_boxd_client *boxd);

void box_saved_state_append(struct box_saved_state *state, const struct box_value *change);
