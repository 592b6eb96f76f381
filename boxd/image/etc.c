/* Copies by opened folders and never follows a link; links are copied as links. Leaves out files that
 * not everyone may read, and files that are too large. */
#include "boxd/image/etc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fsmount.h"
#include "base/limits.h"
#include "base/macros.h"
#include "boxd/net/router.h"

#define ENTRIES_MAX 16384
#define FILE_BYTES_MAX (4 * BOX_MIB)
#define DEPTH_MAX 8
#define SEEN_MAX (4 * ENTRIES_MAX) /* copied or not */

/* Which entries of the host's /etc are copied, besides our own files. */
static const char *const wanted[] = {"alternatives", "bash.bashrc", "ca-certificates",
	"crypto-policies", "fonts", "gai.conf", "inputrc", "java", "java-*", "ld.so.cache",
	"ld.so.conf", "ld.so.conf.d", "locale.alias", "localtime", "magic", "mime.types",
	"os-release", "perl", "pki", "protocols", "python3*", "services", "ssl", "terminfo",
	"timezone", "xattr.conf"};

/* And which of those never, at any depth. */
static const char *const unwanted[] = {"private", "*.key", "*.p12", "*-key.pem", "privkey*"};

/* A login shell reads the profile: it must not start processes, and the environment is set already. */
static const struct {
	const char *name;
	const char *text;
} own[] = {
	{"passwd",
		"root:x:0:0:root:/root:/usr/sbin/nologin\n"
		"box:x:1000:1000:box:/home/box:/bin/sh\n"
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
	{"group", "root:x:0:\nbox:x:1000:\nnogroup:x:65534:\n"},
	{"hosts", "127.0.0.1 localhost box\n::1 localhost\n"},
	{"hostname", "box\n"},
	{"resolv.conf", "nameserver " BOX_ROUTER_DNS "\noptions timeout:2 attempts:2\n"},
	{"nsswitch.conf",
		"passwd: files\ngroup: files\nhosts: files dns\nservices: files\n"
		"protocols: files\n"},
	{"profile", "# Made for boxes: the environment is set already.\n"},
	{"shells", "/bin/sh\n/bin/bash\n"},
};

struct copy {
	unsigned entries;
	unsigned seen;
	enum box_etc_kind whose;
};

static bool matches(const char *name, const char *const *patterns, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (fnmatch(patterns[i], name, 0) == 0) {
			return true;
		}
	}
	return false;
}

static bool is_own(const char *name)
{
	for (size_t i = 0; i < BOX_COUNT_OF(own); i++) {
		if (strcmp(own[i].name, name) == 0) {
			return true;
		}
	}
	return false;
}

static bool is_taken(const struct copy *copy, const char *name, unsigned depth)
{
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
		matches(name, unwanted, BOX_COUNT_OF(unwanted))) {
		return false;
	}
	if (depth > 0) {
		return true;
	}
	return !is_own(name) && strcmp(name, "mtab") != 0 &&
		(copy->whose != BOX_ETC_HOST || matches(name, wanted, BOX_COUNT_OF(wanted)));
}

static int copy_file(int from, int to, const char *name, const struct stat *status)
{
	/* The entry may have been replaced, by a FIFO for example: do not block. */
	_cleanup_(box_close_p) int source = openat(
		from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	_cleanup_(box_close_p) int target = -1;
	struct stat opened;
	if (source < 0) {
		return errno == EACCES || errno == EPERM || errno == ELOOP || errno == ENOENT
			? 0
			: -errno;
	}
	if (fstat(source, &opened) < 0 || opened.st_ino != status->st_ino ||
		opened.st_dev != status->st_dev) {
		return 0;
	}
	target = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		status->st_mode & 0111 ? 0755 : 0644);
	if (target < 0) {
		return -errno;
	}
	for (size_t left = (size_t)status->st_size; left > 0;) {
		ssize_t sent = sendfile(target, source, NULL, left);
		if (sent <= 0) {
			return sent < 0 ? -errno : 0;
		}
		left -= (size_t)sent;
	}
	return 0;
}

static int copy_link(int from, int to, const char *name)
{
	char text[PATH_MAX];
	ssize_t len = readlinkat(from, name, text, sizeof(text) - 1);
	if (len < 0) {
		return errno == ENOENT || errno == EINVAL ? 0
							  : -errno; /* it was replaced meanwhile */
	}
	text[len] = '\0';
	return symlinkat(text, to, name) < 0 ? -errno : 0;
}

static int copy_folder(struct copy *copy, int from, int to, unsigned depth);

static int copy_subfolder(struct copy *copy, int from, int to, const char *name, unsigned depth)
{
	if (depth >= DEPTH_MAX) {
		return 0;
	}
	int source = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (source < 0) {
		return errno == EACCES || errno == EPERM || errno == ENOENT || errno == ENOTDIR
			? 0
			: -errno;
	}
	if (mkdirat(to, name, 0755) < 0) {
		int r = -errno;
		(void)close(source);
		return r;
	}
	_cleanup_(box_close_p) int target = openat(
		to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (target < 0) {
		int r = -errno;
		(void)close(source);
		return r;
	}
	return copy_folder(copy, source, target, depth + 1);
}

static int copy_entry(
	struct copy *copy, int from, int to, const struct dirent *entry, unsigned depth)
{
	const char *name = entry->d_name;
	struct stat status;
	if (!is_taken(copy, name, depth)) {
		return 0;
	}
	/* Half an /etc of a caller's would make a box that fails later; the other ones are the
	 * operator's. */
	if (copy->whose == BOX_ETC_CALLER && copy->entries >= BOX_CALLERS_ETC_ENTRIES_MAX) {
		return -ENOSPC;
	}
	if (copy->entries++ >= ENTRIES_MAX) {
		return 0;
	}
	/* Certificates and alternatives are hundreds of links, and boxes wait for us. */
	if (entry->d_type == DT_LNK) {
		return copy_link(from, to, name);
	}
	if (fstatat(from, name, &status, AT_SYMLINK_NOFOLLOW) < 0) {
		return 0;
	}
	if (S_ISLNK(status.st_mode)) {
		return copy_link(from, to, name);
	}
	if (S_ISDIR(status.st_mode)) {
		return status.st_mode & S_IXOTH ? copy_subfolder(copy, from, to, name, depth) : 0;
	}
	if (S_ISREG(status.st_mode) && (status.st_mode & S_IROTH) &&
		(unsigned long)status.st_size <= FILE_BYTES_MAX) {
		return copy_file(from, to, name, &status);
	}
	return 0;
}

/* Takes ownership of `from`. */
static int copy_folder(struct copy *copy, int from, int to, unsigned depth)
{
	DIR *folder = fdopendir(from);
	if (!folder) {
		int r = -errno;
		(void)close(from);
		return r;
	}
	int r = 0;
	for (const struct dirent *at;
		r == 0 && copy->seen++ < SEEN_MAX && (at = readdir(folder));) {
		r = copy_entry(copy, from, to, at, depth);
	}
	(void)closedir(folder);
	return r;
}

static int write_own(int folder)
{
	for (size_t i = 0; i < BOX_COUNT_OF(own); i++) {
		_cleanup_(box_close_p) int fd = openat(
			folder, own[i].name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		size_t len = strlen(own[i].text);
		if (fd < 0 || write(fd, own[i].text, len) != (ssize_t)len) {
			return errno ? -errno : -EIO;
		}
	}
	return symlinkat("/proc/self/mounts", folder, "mtab") < 0 ? -errno : 0;
}

int box_etc_open(enum box_etc_kind whose, int *ret_fd)
{
	bool callers = whose == BOX_ETC_CALLER;
	const struct box_fsmount_options options = {
		.size_bytes = callers ? BOX_CALLERS_ETC_BYTES_MAX : 32 * BOX_MIB,
		.inodes = 2 * (callers ? BOX_CALLERS_ETC_ENTRIES_MAX : ENTRIES_MAX),
		.mode = 0755,
		.attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
	return box_fsmount_make("tmpfs", &options, ret_fd);
}

int box_etc_fill(int root, enum box_etc_kind whose, int etc)
{
	struct copy copy = {.whose = whose};
	/* A link would lead out of the root. */
	int from = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0 && errno != ENOENT) {
		return -errno;
	}
	int r = from < 0 ? 0 : copy_folder(&copy, from, etc, 0);
	return r < 0 ? r : write_own(etc);
}

int box_etc_make(int root, enum box_etc_kind whose, int parent, const char *name, int *ret_fd)
{
	_cleanup_(box_close_p) int mount = -1;
	_cleanup_(box_close_p) int etc = -1;
	int r = box_etc_open(whose, &mount);
	if (r == 0 && mkdirat(parent, name, 0755) < 0) {
		r = -errno;
	}
	if (r < 0) {
		return r;
	}
	r = box_fsmount_attach(mount, parent, name, &etc);
	if (r < 0) {
		return r;
	}
	r = box_etc_fill(root, whose, etc);
	if (r < 0) {
		return r;
	}
	r = box_fsmount_make_read_only(etc);
	if (r == 0) {
		*ret_fd = TAKE_FD(etc);
	}
	return r;
}
