/* Owns how paths in the box become opened files, for file operations. The kernel resolves only one name at
 * a time and never a link, so that the walk stays below its base even if names are replaced by links
 * meanwhile: each step down starts at an opened folder, and `..` goes back by the names that were walked.
 * openat2 would do all this, but the seccomp filter of commands refuses it because the filter cannot see
 * the mode in its struct. */
#include "init/file/path_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/macros.h"

#define LINKS_MAX 40
#define TRIES_MAX 8
#define FOLDER_MODE 0755
#define LOOK (O_PATH | O_NOFOLLOW)

/* --- file systems that are refused --- */

static const unsigned long magic_kinds[] = {
	0x9fa0,     /* proc */
	0x62656572, /* sysfs */
	0x1cd1,     /* devpts */
	0x1373,     /* devfs */
	0x27e0eb,   /* cgroup */
	0x63677270, /* cgroup2 */
	0x64626720, /* debugfs */
	0x74726163, /* tracefs */
	0x73636673, /* securityfs */
	0x62656570, /* configfs */
	0xcafe4a11, /* bpf */
	0x42494e4d, /* binfmt_misc */
	0x6e736673, /* nsfs */
	0x19800202, /* mqueue */
	0x6165676c, /* pstore */
	0xde5e81e4, /* efivarfs */
	0xf97cff8c, /* selinux */
	0x65735543, /* fusectl */
};

int box_path_walk_check_file_system(int fd)
{
	struct statfs fs;
	if (fstatfs(fd, &fs) < 0) {
		return -errno;
	}
	for (size_t i = 0; i < BOX_COUNT_OF(magic_kinds); i++) {
		if ((unsigned long)fs.f_type == magic_kinds[i]) {
			return -EACCES;
		}
	}
	return 0;
}

/* By name too: /dev has the type of an ordinary file system. */
static bool is_magic_name(const struct box_path_walk *walk, const char *name)
{
	return walk->is_root && walk->trail[0] == '\0' &&
		(strcmp(name, "proc") == 0 || strcmp(name, "sys") == 0 || strcmp(name, "dev") == 0);
}

static int refuse(struct box_path_walk *walk, uint32_t why, int errnum)
{
	walk->why = why;
	return -errnum;
}

uint32_t box_path_walk_file_type(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return BOX_INIT_FILE_TYPE_FILE;
	case S_IFDIR:
		return BOX_INIT_FILE_TYPE_FOLDER;
	case S_IFLNK:
		return BOX_INIT_FILE_TYPE_LINK;
	case S_IFIFO:
		return BOX_INIT_FILE_TYPE_FIFO;
	case S_IFSOCK:
		return BOX_INIT_FILE_TYPE_SOCKET;
	default:
		return BOX_INIT_FILE_TYPE_DEVICE;
	}
}

/* --- steps --- */

/* Removes the next name from the front of `text`; "" at its end. 0 or -ENAMETOOLONG. */
static int next_name(const char **text, char name[BOX_INIT_FILE_NAME_MAX + 1])
{
	*text += strspn(*text, "/");
	size_t len = strcspn(*text, "/");
	if (len > BOX_INIT_FILE_NAME_MAX) {
		return -ENAMETOOLONG;
	}
	memcpy(name, *text, len);
	name[len] = '\0';
	*text += len;
	return 0;
}

int box_path_walk_descend(int base, const char *trail)
{
	char name[BOX_INIT_FILE_NAME_MAX + 1];
	int fd = openat(base, ".", LOOK | O_DIRECTORY | O_CLOEXEC);
	while (fd >= 0) {
		if (next_name(&trail, name) < 0) {
			(void)close(fd);
			return -ENAMETOOLONG;
		}
		if (name[0] == '\0') {
			return fd;
		}
		int next = openat(fd, name, LOOK | O_DIRECTORY | O_CLOEXEC);
		int errnum = errno;
		(void)close(fd);
		errno = errnum;
		fd = next;
	}
	return -errno;
}

static void move_to(struct box_path_walk *walk, int folder)
{
	if (walk->folder >= 0) {
		(void)close(walk->folder);
	}
	walk->folder = folder;
}

/* Goes to the folder that the trail names. */
static int go_back(struct box_path_walk *walk)
{
	int fd = box_path_walk_descend(walk->base, walk->trail);
	if (fd < 0) {
		return fd;
	}
	move_to(walk, fd);
	return 0;
}

/* Removes the last name from the trail and copies it to `name`, if that is not NULL. */
static void cut_trail(struct box_path_walk *walk, char *name)
{
	char *slash = strrchr(walk->trail, '/');
	char *last = slash ? slash + 1 : walk->trail;
	if (name) {
		box_path_walk_copy(name, last);
	}
	*(slash ? slash : last) = '\0';
}

static int step_up(struct box_path_walk *walk)
{
	if (walk->trail[0] == '\0') {
		return walk->is_root ? 0 : refuse(walk, BOX_INIT_FILE_WHY_OUTSIDE, EXDEV);
	}
	cut_trail(walk, NULL);
	return go_back(walk);
}

static int step_down(struct box_path_walk *walk, const char *name, int fd)
{
	size_t len = strlen(walk->trail);
	size_t more = strlen(name) + (len > 0);
	if (len + more >= sizeof(walk->trail)) {
		(void)close(fd);
		return -ENAMETOOLONG;
	}
	if (len > 0) {
		walk->trail[len++] = '/';
	}
	box_path_walk_copy(walk->trail + len, name);
	move_to(walk, fd);
	return 0;
}

/* --- links --- */

/* The part of an absolute target after the base, or NULL if it does not start with the base. */
static const char *below_base(const struct box_path_walk *walk, const char *target)
{
	char wanted[BOX_INIT_FILE_NAME_MAX + 1];
	char name[BOX_INIT_FILE_NAME_MAX + 1];
	const char *base = walk->base_path;
	for (;;) {
		if (next_name(&base, wanted) < 0) {
			return NULL;
		}
		if (wanted[0] == '\0') {
			return target;
		}
		do {
			if (next_name(&target, name) < 0) {
				return NULL;
			}
		} while (strcmp(name, ".") == 0);
		if (strcmp(name, wanted) != 0) {
			return NULL;
		}
	}
}

/* Replaces a link in the rest of the path by its target. */
static int expand(struct box_path_walk *walk, int link, const char *left)
{
	char target[BOX_INIT_FILE_TEXT_MAX];
	char rest[BOX_PATH_WALK_LEFT_MAX];
	ssize_t size = readlinkat(link, "", target, sizeof(target));
	if (size < 0) {
		return -errno;
	}
	if (++walk->links > LINKS_MAX) {
		return -ELOOP;
	}
	if ((size_t)size == sizeof(target)) {
		return -ENAMETOOLONG;
	}
	target[size] = '\0';
	const char *from = target;
	if (target[0] == '/') {
		from = below_base(walk, target);
		if (!from) {
			return refuse(walk, BOX_INIT_FILE_WHY_OUTSIDE, EXDEV);
		}
		walk->trail[0] = '\0';
		int r = go_back(walk);
		if (r < 0) {
			return r;
		}
	}
	size_t from_len = strlen(from);
	if (from_len + 1 + strlen(left) >= sizeof(rest)) {
		return -ENAMETOOLONG;
	}
	box_path_walk_copy(rest, from);
	box_path_walk_copy(rest + from_len, left); /* it starts with a slash or is empty */
	box_path_walk_copy(walk->left, rest);
	return 0;
}

/* --- the walk --- */

static int open_step(struct box_path_walk *walk, const char *name, bool make)
{
	int fd = openat(walk->folder, name, LOOK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && make &&
		(mkdirat(walk->folder, name, FOLDER_MODE) == 0 || errno == EEXIST)) {
		fd = openat(walk->folder, name, LOOK | O_CLOEXEC);
	}
	return fd < 0 ? -errno : fd;
}

/* Walks one name. 1 if it was the last. */
static int step(struct box_path_walk *walk, const char *name, const char *left, unsigned flags)
{
	size_t slashes = strspn(left, "/");
	bool last = left[slashes] == '\0';
	bool slash = last && slashes > 0;
	struct stat st;
	if (is_magic_name(walk, name)) {
		return refuse(walk, BOX_INIT_FILE_WHY_MAGIC, EACCES);
	}
	int fd = open_step(walk, name, !last && (flags & BOX_PATH_WALK_PARENTS));
	if (fd == -ENOENT && last) {
		walk->slash = slash;
		box_path_walk_copy(walk->name, name);
		return 1;
	}
	if (fd < 0) {
		return fd;
	}
	int r = fstat(fd, &st) < 0 ? -errno : 0;
	if (r == 0 && box_path_walk_check_file_system(fd) < 0) {
		r = refuse(walk, BOX_INIT_FILE_WHY_MAGIC, EACCES);
	}
	if (r == 0 && S_ISLNK(st.st_mode) && (!last || slash || (flags & BOX_PATH_WALK_FOLLOW))) {
		r = expand(walk, fd, left);
	} else if (r == 0 && last) {
		walk->slash = slash;
		box_path_walk_copy(walk->name, name);
		r = slash && !S_ISDIR(st.st_mode) ? -ENOTDIR : 1;
	} else if (r == 0 && !S_ISDIR(st.st_mode)) {
		r = -ENOTDIR;
	} else if (r == 0) {
		(void)memmove(walk->left, left, strlen(left) + 1);
		return step_down(walk, name, fd);
	}
	(void)close(fd);
	return r;
}

/* The path ended with . or .., but the folder that it means has a name, unless it is the base. */
static int name_folder(struct box_path_walk *walk)
{
	if (walk->trail[0] == '\0') {
		return 0;
	}
	cut_trail(walk, walk->name);
	return go_back(walk);
}

int box_path_walk(
	struct box_path_walk *walk, int root, const char *base, const char *path, unsigned flags)
{
	char name[BOX_INIT_FILE_NAME_MAX + 1];
	memset(walk, 0, sizeof(*walk));
	walk->folder = -1;
	walk->is_root = base[1] == '\0';
	walk->base_path = base;
	walk->base = box_path_walk_descend(root, base);
	if (walk->base < 0) {
		return walk->base;
	}
	int r = go_back(walk);
	box_path_walk_copy(walk->left, path);
	while (r == 0) {
		const char *left = walk->left;
		r = next_name(&left, name);
		if (r < 0) {
			return r;
		}
		if (name[0] == '\0') {
			return name_folder(walk);
		}
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
			r = name[1] == '\0' ? 0 : step_up(walk);
			(void)memmove(walk->left, left, strlen(left) + 1);
		} else {
			r = step(walk, name, left, flags);
		}
	}
	return r < 0 ? r : 0;
}

void box_path_walk_close(struct box_path_walk *walk)
{
	if (walk->base >= 0) {
		(void)close(walk->base);
	}
	if (walk->folder >= 0) {
		(void)close(walk->folder);
	}
	walk->base = -1;
	walk->folder = -1;
}

/* --- the result --- */

int box_path_walk_open_path(struct box_path_walk *walk, struct stat *ret_stat)
{
	int fd = openat(walk->folder, walk->name[0] ? walk->name : ".", LOOK | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	int r = fstat(fd, ret_stat) < 0 ? -errno : 0;
	if (r == 0 && box_path_walk_check_file_system(fd) < 0) {
		r = refuse(walk, BOX_INIT_FILE_WHY_MAGIC, EACCES);
	}
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	return fd;
}

static int check_regular(struct box_path_walk *walk, mode_t mode)
{
	if (S_ISREG(mode)) {
		return 0;
	}
	walk->type = box_path_walk_file_type(mode);
	return refuse(walk, BOX_INIT_FILE_WHY_TYPE, S_ISDIR(mode) ? EISDIR : EINVAL);
}

int box_path_walk_check_regular(struct box_path_walk *walk, struct stat *ret_stat)
{
	int fd = box_path_walk_open_path(walk, ret_stat);
	if (fd < 0) {
		return fd;
	}
	(void)close(fd);
	return check_regular(walk, ret_stat->st_mode);
}

/* Only a regular file is opened. If it is replaced meanwhile, the open does not block, and the change is
 * noticed. */
int box_path_walk_open(struct box_path_walk *walk, int flags, struct stat *ret_stat)
{
	struct stat seen = {0};
	for (int i = 0; i < TRIES_MAX; i++) {
		int r = box_path_walk_check_regular(walk, &seen);
		if (r < 0) {
			return r;
		}
		int fd = openat(walk->folder, walk->name,
			flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd < 0 && errno != ELOOP && errno != ENXIO) {
			return -errno;
		}
		if (fd >= 0 && fstat(fd, ret_stat) == 0 && ret_stat->st_dev == seen.st_dev &&
			ret_stat->st_ino == seen.st_ino) {
			return fd;
		}
		if (fd >= 0) {
			(void)close(fd);
		}
	}
	return -EAGAIN;
}

int box_path_walk_open_folder(struct box_path_walk *walk)
{
	int fd = openat(walk->folder, walk->name[0] ? walk->name : ".",
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return errno == ELOOP ? -ENOTDIR : -errno;
	}
	return fd;
}
