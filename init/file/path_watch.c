/* What happens to a file or in a folder, as it happens. A reader that is slow makes us wait, and then
 * the kernel's queue may run over: that is told, after all folders are watched anew, so that who
 * looks then has missed nothing. A single file is watched by its name in its folder: editors put a
 * new file in the place of the old one. */
#include "init/file/path_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/write.h"
#include "init/file/file_job.h"

#define OUT_BYTES 65536
#define PAIR_MS 20 /* how long the second half of a move may be late */

/* The first half of a move. */
struct half {
	bool is_folder;
	uint32_t cookie; /* 0: there is none */
	uint32_t node;
	char name[BOX_INIT_FILE_NAME_MAX + 1];
};

static struct box_watch_tree tree;
static struct half half;
static const char *only; /* of a single file: its name */
static int out_fd;
static char out[OUT_BYTES];
static size_t out_size;
static bool over; /* what is watched is gone */

/* --- out --- */

static int flush(void)
{
	int r = box_write_all(out_fd, out, out_size);
	out_size = r < 0 ? out_size : 0;
	return r;
}

static int tell(uint32_t change, bool is_folder, const char *path, const char *from)
{
	struct box_init_file_event event = {
		.change = change,
		.is_folder = is_folder,
		.path_size = (uint32_t)strlen(path),
		.from_size = (uint32_t)strlen(from),
	};
	size_t size = sizeof(event) + event.path_size + event.from_size;
	int r = size > sizeof(out) - out_size ? flush() : 0;
	memcpy(out + out_size, &event, sizeof(event));
	memcpy(out + out_size + sizeof(event), path, event.path_size);
	memcpy(out + out_size + sizeof(event) + event.path_size, from, event.from_size);
	out_size += size;
	return r;
}

static int tell_at(uint32_t change, bool is_folder, uint32_t node, const char *name)
{
	char path[BOX_INIT_FILE_TEXT_MAX];
	int r = box_watch_tree_path(&tree, node, only ? "" : name, path);
	return r < 0 ? r : tell(change, is_folder, path, "");
}

static int found(void *arg, const char *path, bool is_folder)
{
	(void)arg;
	return tell(BOX_INIT_FILE_CREATED, is_folder, path, "");
}

static int tell_end(void)
{
	over = true;
	return tell(BOX_INIT_FILE_REMOVED, !only, "", "");
}

/* --- moves --- */

/* Its second half did not come: it went somewhere that is not watched. */
static int settle_half(void)
{
	if (half.cookie == 0) {
		return 0;
	}
	half.cookie = 0;
	int r = tell_at(BOX_INIT_FILE_REMOVED, half.is_folder, half.node, half.name);
	uint32_t gone = half.is_folder ? box_watch_tree_child(&tree, half.node, half.name)
				       : BOX_WATCH_TREE_NONE;
	if (gone != BOX_WATCH_TREE_NONE) {
		box_watch_tree_drop(&tree, gone);
	}
	return r;
}

static int came(uint32_t node, const char *name, bool is_folder)
{
	int r = tell_at(BOX_INIT_FILE_CREATED, is_folder, node, name);
	return r == 0 && is_folder ? box_watch_tree_add(&tree, node, name) : r;
}

static int moved_to(const struct inotify_event *event, uint32_t node, bool is_folder)
{
	char path[BOX_INIT_FILE_TEXT_MAX];
	char from[BOX_INIT_FILE_TEXT_MAX];
	if (half.cookie == 0) {
		return came(node, event->name, is_folder);
	}
	half.cookie = 0;
	int r = box_watch_tree_path(&tree, half.node, half.name, from);
	r = r < 0 ? r : box_watch_tree_path(&tree, node, event->name, path);
	if (r < 0) {
		return r;
	}
	r = tell(BOX_INIT_FILE_MOVED, is_folder, path, from);
	uint32_t moved = is_folder ? box_watch_tree_child(&tree, half.node, half.name)
				   : BOX_WATCH_TREE_NONE;
	if (moved != BOX_WATCH_TREE_NONE) {
		box_watch_tree_move(&tree, moved, node, event->name);
	} else if (r == 0 && is_folder) {
		r = box_watch_tree_add(&tree, node, event->name);
	}
	return r;
}

/* --- events --- */

/* In the folder of a single file. */
static int take_single(const struct inotify_event *event)
{
	if (event->len == 0 || strcmp(event->name, only) != 0) {
		return 0;
	}
	if (event->mask & (IN_DELETE | IN_MOVED_FROM)) {
		return tell_end();
	}
	return tell(BOX_INIT_FILE_CHANGED, false, "", "");
}

static int take_in_folder(const struct inotify_event *event, uint32_t node)
{
	bool is_folder = event->mask & IN_ISDIR;
	const char *name = event->len > 0 ? event->name : "";
	if (event->mask & IN_MOVED_TO) {
		return moved_to(event, node, is_folder);
	}
	if (event->mask & IN_MOVED_FROM) {
		half = (struct half){.is_folder = is_folder, .cookie = event->cookie, .node = node};
		(void)strncpy(half.name, name, sizeof(half.name) - 1);
		return 0;
	}
	if (event->mask & IN_CREATE) {
		return came(node, name, is_folder);
	}
	if (event->mask & IN_DELETE) {
		/* Whoever is still in it keeps its own watch from ending. */
		uint32_t gone = is_folder ? box_watch_tree_child(&tree, node, name)
					  : BOX_WATCH_TREE_NONE;
		if (gone != BOX_WATCH_TREE_NONE) {
			box_watch_tree_drop(&tree, gone);
		}
		return tell_at(BOX_INIT_FILE_REMOVED, is_folder, node, name);
	}
	/* Of a folder below the one above it says the same. */
	if (event->mask & (IN_MODIFY | IN_ATTRIB) && (name[0] || node == 0)) {
		return tell_at(BOX_INIT_FILE_CHANGED, is_folder, node, name);
	}
	return 0;
}

static int begin_anew(void)
{
	half.cookie = 0;
	box_watch_tree_end(&tree);
	int r = box_watch_tree_begin(&tree);
	return r < 0 ? r : tell(BOX_INIT_FILE_OVERFLOW, false, "", "");
}

static int take(const struct inotify_event *event)
{
	bool is_second = (event->mask & IN_MOVED_TO) && event->cookie == half.cookie;
	int r = half.cookie != 0 && !is_second ? settle_half() : 0;
	if (r < 0) {
		return r;
	}
	/* The kernel tells the end of a folder itself only when nobody has it open, as we do. */
	if (tree.above_wd >= 0 && event->wd == tree.above_wd) {
		bool is_own = event->len > 0 && strcmp(event->name, tree.own_name) == 0;
		return is_own ? tell_end() : 0;
	}
	uint32_t node = event->wd >= 0 ? box_watch_tree_find(&tree, event->wd)
				       : BOX_WATCH_TREE_NONE;
	if (node == BOX_WATCH_TREE_NONE) {
		return 0; /* of one that was dropped */
	}
	if (event->mask & IN_IGNORED) {
		if (node == 0) {
			return tell_end();
		}
		box_watch_tree_forget(&tree, node);
		return 0;
	}
	if (node == 0 && (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT))) {
		return tell_end();
	}
	return only ? take_single(event) : take_in_folder(event, node);
}

/* All that the kernel has now. */
static int take_some(void)
{
	static _Alignas(struct inotify_event) char bytes[OUT_BYTES];
	struct pollfd fd = {.fd = tree.inotify, .events = POLLIN};
	int ready = poll(&fd, 1, half.cookie ? PAIR_MS : -1);
	if (ready <= 0) {
		return ready == 0 ? settle_half() : errno == EINTR ? 0 : -errno;
	}
	ssize_t size = read(tree.inotify, bytes, sizeof(bytes));
	if (size < 0) {
		return errno == EINTR ? 0 : -errno;
	}
	for (ssize_t at = 0; at < size && !over;) {
		const struct inotify_event *event = (const void *)(bytes + at);
		at += (ssize_t)sizeof(*event) + event->len;
		/* What is behind it belongs to folders that are watched anew. A path too long to be
		 * told, or a folder too many, is something that was missed too. */
		int r = event->mask & IN_Q_OVERFLOW ? -EOVERFLOW : take(event);
		if (r == -EOVERFLOW || r == -ENAMETOOLONG || r == -E2BIG) {
			return begin_anew();
		}
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

/* What is there decides what is watched. */
static int choose(struct box_file_job *job)
{
	struct box_path_walk *walk = &job->walk;
	struct stat st;
	int fd = box_path_walk_open_path(walk, &st);
	if (fd < 0) {
		return fd;
	}
	if (S_ISDIR(st.st_mode)) {
		tree.base = fd;
		tree.above = walk->name[0] ? walk->folder : -1;
		tree.own_name = walk->name;
		tree.recursive = job->ask.flags & BOX_INIT_FILE_RECURSIVE;
		return 0;
	}
	(void)close(fd);
	only = walk->name;
	tree.base = fcntl(walk->folder, F_DUPFD_CLOEXEC, 3);
	return tree.base < 0 ? -errno : 0;
}

int box_file_job_watch(struct box_file_job *job)
{
	tree.inotify = -1;
	tree.above = -1;
	tree.found = found;
	out_fd = job->out;
	int r = box_file_job_walk(job, BOX_PATH_WALK_FOLLOW);
	r = r < 0 ? r : choose(job);
	r = r < 0 ? r : box_watch_tree_begin(&tree);
	r = r < 0 ? r : tell(BOX_INIT_FILE_STARTED, false, "", "");
	r = r < 0 ? r : flush();
	while (r == 0 && !over) {
		r = take_some();
		if (out_size > 0) {
			int sent = flush();
			r = r < 0 ? r : sent;
		}
	}
	if (r == -ENOSYS) {
		job->answer.why = BOX_INIT_FILE_WHY_INOTIFY;
	} else if (r == -E2BIG) {
		job->answer.why = BOX_INIT_FILE_WHY_FOLDERS;
	}
	return r;
}
