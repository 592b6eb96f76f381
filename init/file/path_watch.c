/* Reports what happens to a file or in a folder as it happens, for file_job.c. Folders are found by
 * walking down from the first one without following links, and each is given to inotify as the working
 * folder, because a path would be resolved again.
 *
 * A slow reader makes us wait, and then the kernel's queue may overflow. In that case all folders are
 * watched again before OVERFLOW is reported, so that a client that looks then has missed nothing. A
 * single file is watched by its name in its folder, because editors replace files by new ones. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/write.h"
#include "init/file/dir_entries.h"
#include "init/file/file_job.h"
#include "init/file/path_walk.h"

#define OUT_BYTES 65536
#define PAIR_MS 20 /* how late the second half of a move may be */
#define ENTRIES_BYTES 4096
#define DEPTH_MAX 128 /* of folders that are found at once */
#define EVENTS (IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)
#define OWN_EVENTS (IN_DELETE_SELF | IN_MOVE_SELF)
#define BUCKETS 4096U
#define NO_NODE UINT32_MAX

/* A watched folder. Node 0 is the folder that was asked for. */
struct node {
	int wd;          /* inotify's number for it; -1: the node is free */
	uint32_t parent; /* the node of the folder that it is in */
	uint32_t next;   /* in its bucket, or the next free node */
	char name[BOX_INIT_FILE_NAME_MAX + 1];
};

/* The first half of a move. */
struct half {
	bool is_folder;
	uint32_t cookie; /* 0: none waits */
	uint32_t node;
	char name[BOX_INIT_FILE_NAME_MAX + 1];
};

static struct {
	int base;             /* O_PATH, the first folder */
	int above;            /* O_PATH, the folder that contains it, or -1 */
	int above_wd;         /* of that folder, watched for the end of ours only; or -1 */
	const char *own_name; /* the name of the first folder there */
	const char *file;     /* the name of a single file in the first folder; NULL: a folder */
	int inotify;
	bool recursive;
	bool over;          /* what is watched is gone */
	bool reports_found; /* report what is found in folders: not while the watch starts */
	struct node *nodes;
	uint32_t used;             /* nodes from here on were never used */
	uint32_t free;             /* the first free node before that, or NO_NODE */
	uint32_t buckets[BUCKETS]; /* nodes by wd */
	struct half half;
} watch;

static int out_fd;
static char out[OUT_BYTES];
static size_t out_size;

/* --- nodes --- */

static uint32_t *bucket_of(int wd)
{
	return &watch.buckets[(uint32_t)wd % BUCKETS];
}

/* The node of a wd, or NO_NODE. */
static uint32_t find_node(int wd)
{
	uint32_t at = watch.buckets[(uint32_t)wd % BUCKETS];
	while (at != NO_NODE && watch.nodes[at].wd != wd) {
		at = watch.nodes[at].next;
	}
	return at;
}

/* The node of a name in a folder, or NO_NODE. */
static uint32_t find_child(uint32_t parent, const char *name)
{
	for (uint32_t i = 1; i < watch.used; i++) {
		const struct node *node = &watch.nodes[i];
		if (node->wd >= 0 && node->parent == parent && strcmp(node->name, name) == 0) {
			return i;
		}
	}
	return NO_NODE;
}

/* The path of `name` ("": none) in a folder, relative to the first folder. 0 or -ENAMETOOLONG. */
static int make_path(uint32_t node, const char *name, char path[BOX_INIT_FILE_TEXT_MAX])
{
	size_t at = BOX_INIT_FILE_TEXT_MAX - 1;
	path[at] = '\0';
	for (;;) {
		size_t len = strlen(name);
		bool between = len > 0 && path[at] != '\0';
		if (len + between > at) {
			return -ENAMETOOLONG;
		}
		if (between) {
			path[--at] = '/';
		}
		at -= len;
		memcpy(path + at, name, len);
		if (node == 0) {
			memmove(path, path + at, BOX_INIT_FILE_TEXT_MAX - at);
			return 0;
		}
		name = watch.nodes[node].name;
		node = watch.nodes[node].parent;
	}
}

static uint32_t new_node(int wd)
{
	uint32_t index = watch.free;
	if (index != NO_NODE) {
		watch.free = watch.nodes[index].next;
	} else if (watch.used < BOX_INIT_FILE_FOLDERS_MAX) {
		index = watch.used++;
	} else {
		return NO_NODE;
	}
	uint32_t *bucket = bucket_of(wd);
	watch.nodes[index] = (struct node){.wd = wd, .next = *bucket};
	*bucket = index;
	return index;
}

/* The kernel no longer watches it. */
static void free_node(uint32_t node)
{
	uint32_t *at = bucket_of(watch.nodes[node].wd);
	while (*at != node) {
		at = &watch.nodes[*at].next;
	}
	*at = watch.nodes[node].next;
	watch.nodes[node].wd = -1;
	watch.nodes[node].next = watch.free;
	watch.free = node;
}

/* It has left the tree with all folders below it: their events are no longer reported. */
static void drop_tree(uint32_t node)
{
	(void)inotify_rm_watch(watch.inotify, watch.nodes[node].wd);
	free_node(node);
	for (uint32_t i = 1; i < watch.used; i++) {
		if (watch.nodes[i].wd >= 0 && watch.nodes[i].parent == node) {
			drop_tree(i);
		}
	}
}

/* It has a new name or parent. */
static void move_node(uint32_t node, uint32_t parent, const char *name)
{
	watch.nodes[node].parent = parent;
	(void)snprintf(watch.nodes[node].name, sizeof(watch.nodes[node].name), "%s", name);
}

/* --- out --- */

static int flush(void)
{
	int r = box_write_all(out_fd, out, out_size);
	out_size = r < 0 ? out_size : 0;
	return r;
}

static int report(uint32_t change, bool is_folder, const char *path, const char *from)
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

/* `name` in the folder of `node`. */
static int report_at(uint32_t change, bool is_folder, uint32_t node, const char *name)
{
	char path[BOX_INIT_FILE_TEXT_MAX];
	int r = make_path(node, watch.file ? "" : name, path);
	return r < 0 ? r : report(change, is_folder, path, "");
}

static int report_end(void)
{
	watch.over = true;
	return report(BOX_INIT_FILE_REMOVED, !watch.file, "", "");
}

/* --- folders --- */

/* Gone again, replaced by something else or not readable: ignored. */
static bool is_gone(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EACCES;
}

/* Adds an inotify watch for a folder. Its wd, or -errno. */
static int watch_folder(int fd, uint32_t events)
{
	if (fchdir(fd) < 0) {
		return -errno;
	}
	int wd = inotify_add_watch(watch.inotify, ".", events | IN_ONLYDIR);
	int r = wd < 0 ? -errno : wd;
	int ignored = chdir("/");
	(void)ignored;
	return r == -ENOSPC ? -E2BIG : r;
}

/* Watches an opened folder. Its node, or -errno. */
static int add_watch(int fd, uint32_t parent, const char *name)
{
	int wd = watch_folder(fd, EVENTS | (name[0] ? 0 : OWN_EVENTS));
	if (wd < 0) {
		return wd;
	}
	uint32_t node = find_node(wd);
	node = node != NO_NODE ? node : new_node(wd);
	if (node == NO_NODE) {
		(void)inotify_rm_watch(watch.inotify, wd);
		return -E2BIG;
	}
	move_node(node, parent, name);
	return (int)node;
}

static int add_contents(int fd, uint32_t node, int depth);

static int add_subfolder(int folder, uint32_t parent, const char *name, int depth)
{
	int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return is_gone(-errno) ? 0 : -errno;
	}
	if (box_path_walk_check_file_system(fd) < 0) {
		(void)close(fd);
		return 0;
	}
	int r = add_watch(fd, parent, name);
	if (r >= 0) {
		r = depth < DEPTH_MAX ? add_contents(fd, (uint32_t)r, depth + 1) : -E2BIG;
	}
	(void)close(fd);
	return is_gone(r) ? 0 : r;
}

static int report_found(uint32_t node, const char *name, bool is_folder)
{
	return watch.reports_found ? report_at(BOX_INIT_FILE_CREATED, is_folder, node, name) : 0;
}

static bool is_folder_at(int fd, const char *name)
{
	struct stat st;
	return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int add_contents(int fd, uint32_t node, int depth)
{
	BOX_DIR_ENTRIES_ALIGNED char bytes[ENTRIES_BYTES];
	struct box_dir_entries folder = {.fd = fd, .bytes = bytes, .capacity = sizeof(bytes)};
	const char *name;
	while ((name = box_dir_entries_next(&folder))) {
		bool is_folder = is_folder_at(fd, name);
		int r = report_found(node, name, is_folder);
		if (r == 0 && is_folder) {
			r = add_subfolder(fd, node, name, depth);
		}
		if (r < 0) {
			return r;
		}
	}
	return folder.failed;
}

/* A folder has appeared: watches it and all folders in it. 0, also if it is gone again, or -errno. */
static int add_folder(uint32_t parent, const char *name)
{
	char path[BOX_INIT_FILE_TEXT_MAX];
	if (!watch.recursive) {
		return 0;
	}
	int r = make_path(parent, "", path);
	if (r < 0) {
		return r;
	}
	int folder = box_path_walk_descend(watch.base, path);
	if (folder < 0) {
		return is_gone(folder) ? 0 : folder;
	}
	r = add_subfolder(folder, parent, name, 0);
	(void)close(folder);
	return r;
}

/* Opens inotify and watches what is there. 0 or -errno; -E2BIG if there are too many folders. */
static int start_watch(void)
{
	size_t size = BOX_INIT_FILE_FOLDERS_MAX * sizeof(struct node);
	void *nodes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (nodes == MAP_FAILED) {
		return -ENOMEM;
	}
	watch.nodes = nodes;
	watch.used = 0;
	watch.free = NO_NODE;
	for (uint32_t i = 0; i < BUCKETS; i++) {
		watch.buckets[i] = NO_NODE;
	}
	watch.reports_found = false;
	watch.inotify = inotify_init1(IN_CLOEXEC);
	if (watch.inotify < 0) {
		return -errno;
	}
	watch.above_wd = -1;
	if (watch.above >= 0) {
		int wd = watch_folder(watch.above, IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO);
		if (wd < 0) {
			return wd;
		}
		watch.above_wd = wd;
	}
	int r = add_watch(watch.base, 0, "");
	if (r >= 0 && watch.recursive) {
		int fd = openat(watch.base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = fd < 0 ? -errno : add_contents(fd, 0, 0);
		if (fd >= 0) {
			(void)close(fd);
		}
	}
	watch.reports_found = true; /* from now on what is found is new */
	return r < 0 ? r : 0;
}

static void stop_watch(void)
{
	if (watch.inotify >= 0) {
		(void)close(watch.inotify);
		watch.inotify = -1;
	}
	if (watch.nodes) {
		(void)munmap(watch.nodes, BOX_INIT_FILE_FOLDERS_MAX * sizeof(struct node));
		watch.nodes = NULL;
	}
}

/* --- moves --- */

/* The second half did not arrive: it was moved to a folder that is not watched. */
static int report_half(void)
{
	if (watch.half.cookie == 0) {
		return 0;
	}
	watch.half.cookie = 0;
	int r = report_at(
		BOX_INIT_FILE_REMOVED, watch.half.is_folder, watch.half.node, watch.half.name);
	uint32_t gone = watch.half.is_folder ? find_child(watch.half.node, watch.half.name)
					     : NO_NODE;
	if (gone != NO_NODE) {
		drop_tree(gone);
	}
	return r;
}

static int on_created(uint32_t node, const char *name, bool is_folder)
{
	int r = report_at(BOX_INIT_FILE_CREATED, is_folder, node, name);
	return r == 0 && is_folder ? add_folder(node, name) : r;
}

static int on_moved_to(const struct inotify_event *event, uint32_t node, bool is_folder)
{
	char path[BOX_INIT_FILE_TEXT_MAX];
	char from[BOX_INIT_FILE_TEXT_MAX];
	if (watch.half.cookie == 0) {
		return on_created(node, event->name, is_folder);
	}
	watch.half.cookie = 0;
	int r = make_path(watch.half.node, watch.half.name, from);
	if (r < 0) {
		return r;
	}
	r = make_path(node, event->name, path);
	if (r < 0) {
		return r;
	}
	r = report(BOX_INIT_FILE_MOVED, is_folder, path, from);
	uint32_t moved = is_folder ? find_child(watch.half.node, watch.half.name) : NO_NODE;
	if (moved != NO_NODE) {
		move_node(moved, node, event->name);
	} else if (r == 0 && is_folder) {
		r = add_folder(node, event->name);
	}
	return r;
}

/* --- events --- */

/* An event in the folder of a single file. */
static int take_file_event(const struct inotify_event *event)
{
	if (event->len == 0 || strcmp(event->name, watch.file) != 0) {
		return 0;
	}
	if (event->mask & (IN_DELETE | IN_MOVED_FROM)) {
		return report_end();
	}
	return report(BOX_INIT_FILE_CHANGED, false, "", "");
}

static int take_folder_event(const struct inotify_event *event, uint32_t node)
{
	bool is_folder = event->mask & IN_ISDIR;
	const char *name = event->len > 0 ? event->name : "";
	if (event->mask & IN_MOVED_TO) {
		return on_moved_to(event, node, is_folder);
	}
	if (event->mask & IN_MOVED_FROM) {
		watch.half = (struct half){
			.is_folder = is_folder, .cookie = event->cookie, .node = node};
		(void)strncpy(watch.half.name, name, sizeof(watch.half.name) - 1);
		return 0;
	}
	if (event->mask & IN_CREATE) {
		return on_created(node, name, is_folder);
	}
	if (event->mask & IN_DELETE) {
		/* A process whose working folder it is would keep its watch alive. */
		uint32_t gone = is_folder ? find_child(node, name) : NO_NODE;
		if (gone != NO_NODE) {
			drop_tree(gone);
		}
		return report_at(BOX_INIT_FILE_REMOVED, is_folder, node, name);
	}
	/* A change of a folder itself is reported by its parent folder, except for the first. */
	if (event->mask & (IN_MODIFY | IN_ATTRIB) && (name[0] || node == 0)) {
		return report_at(BOX_INIT_FILE_CHANGED, is_folder, node, name);
	}
	return 0;
}

static int restart(void)
{
	watch.half.cookie = 0;
	stop_watch();
	int r = start_watch();
	return r < 0 ? r : report(BOX_INIT_FILE_OVERFLOW, false, "", "");
}

static int take_event(const struct inotify_event *event)
{
	bool is_second = (event->mask & IN_MOVED_TO) && event->cookie == watch.half.cookie;
	int r = watch.half.cookie != 0 && !is_second ? report_half() : 0;
	if (r < 0) {
		return r;
	}
	/* The kernel reports the end of a folder only when nobody has it open, but we have. */
	if (watch.above_wd >= 0 && event->wd == watch.above_wd) {
		bool is_own = event->len > 0 && strcmp(event->name, watch.own_name) == 0;
		return is_own ? report_end() : 0;
	}
	uint32_t node = event->wd >= 0 ? find_node(event->wd) : NO_NODE;
	if (node == NO_NODE) {
		return 0; /* an event of a folder that was dropped */
	}
	if (event->mask & IN_IGNORED) {
		if (node == 0) {
			return report_end();
		}
		free_node(node);
		return 0;
	}
	if (node == 0 && (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT))) {
		return report_end();
	}
	return watch.file ? take_file_event(event) : take_folder_event(event, node);
}

/* Reads and reports all events that the kernel has now. */
static int read_events(void)
{
	static _Alignas(struct inotify_event) char bytes[OUT_BYTES];
	struct pollfd fd = {.fd = watch.inotify, .events = POLLIN};
	int ready = poll(&fd, 1, watch.half.cookie ? PAIR_MS : -1);
	if (ready <= 0) {
		return ready == 0 ? report_half() : errno == EINTR ? 0 : -errno;
	}
	ssize_t size = read(watch.inotify, bytes, sizeof(bytes));
	if (size < 0) {
		return errno == EINTR ? 0 : -errno;
	}
	for (ssize_t at = 0; at < size && !watch.over;) {
		const struct inotify_event *event = (const void *)(bytes + at);
		at += (ssize_t)sizeof(*event) + event->len;
		/* Later events belong to folders that are watched again by then. A path that is too
		 * long to be reported, or too many folders, are treated as an overflow too. */
		int r = event->mask & IN_Q_OVERFLOW ? -EOVERFLOW : take_event(event);
		if (r == -EOVERFLOW || r == -ENAMETOOLONG || r == -E2BIG) {
			return restart();
		}
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

/* Decides by what is there what is watched. */
static int set_target(struct box_file_job *job)
{
	struct box_path_walk *walk = &job->walk;
	struct stat st;
	int fd = box_path_walk_open_path(walk, &st);
	if (fd < 0) {
		return fd;
	}
	if (S_ISDIR(st.st_mode)) {
		watch.base = fd;
		watch.above = walk->name[0] ? walk->folder : -1;
		watch.own_name = walk->name;
		watch.recursive = job->request.flags & BOX_INIT_FILE_RECURSIVE;
		return 0;
	}
	(void)close(fd);
	watch.file = walk->name;
	watch.base = fcntl(walk->folder, F_DUPFD_CLOEXEC, 3);
	return watch.base < 0 ? -errno : 0;
}

/* Returns when what is watched is gone: 0, or -errno. */
static int run_watch(struct box_file_job *job)
{
	int r = box_file_job_walk(job, BOX_PATH_WALK_FOLLOW);
	if (r < 0) {
		return r;
	}
	r = set_target(job);
	if (r < 0) {
		return r;
	}
	r = start_watch();
	if (r < 0) {
		return r;
	}
	r = report(BOX_INIT_FILE_STARTED, false, "", "");
	if (r < 0) {
		return r;
	}
	r = flush();
	while (r == 0 && !watch.over) {
		r = read_events();
		if (out_size > 0) {
			int flushed = flush();
			if (r == 0) {
				r = flushed;
			}
		}
	}
	return r;
}

int box_file_job_watch(struct box_file_job *job)
{
	watch.inotify = -1;
	watch.above = -1;
	out_fd = job->out;
	int r = run_watch(job);
	if (r == -ENOSYS) {
		job->answer.why = BOX_INIT_FILE_WHY_INOTIFY;
	} else if (r == -E2BIG) {
		job->answer.why = BOX_INIT_FILE_WHY_FOLDERS;
	}
	return r;
}
