/* Variables and files are passed on as bytes. box-rpc parses them: boxd is privileged and parses no
 * text. */
#include "boxd/rpc/start_data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/write.h"
#include "boxd/identity.h"

#define TOKEN_VARIABLE "LANGBOT_BOX_CONTROL_TOKEN"
#define OVERFLOW_UID 65534 /* kernel.overflowuid */
#define LAST_UID 0xfffffffeUL

/* A sealed memfd, with its offset at the start. */
static int seal(int fd)
{
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0 ||
		lseek(fd, 0, SEEK_SET) < 0) {
		return -errno;
	}
	return 0;
}

static int load_variable(const char *name, int *ret_fd, struct box_err *err)
{
	const char *value = getenv(name);
	if (!value) {
		*ret_fd = -1;
		return 0;
	}
	size_t len = strlen(value);
	if (len > BOX_CONFIG_BYTES_MAX) {
		return box_err_set(err, BOX_ERR_VALUE, E2BIG, "%s: longer than %lu bytes", name,
			BOX_CONFIG_BYTES_MAX);
	}
	_cleanup_(box_close_p) int fd = memfd_create("box-config", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : box_write_all(fd, value, len);
	if (r == 0) {
		r = seal(fd);
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "%s: %s", name, box_err_strerror(-r));
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int load_roots(const struct box_options *options, int *ret_fd, struct box_err *err)
{
	if (options->mount_root_count == 0) {
		return 0;
	}
	_cleanup_(box_close_p) int fd = memfd_create("box-roots", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : 0;
	for (size_t i = 0; r == 0 && i < options->mount_root_count; i++) {
		const char *root = options->mount_roots[i];
		r = box_write_all(fd, root, strlen(root) + 1);
	}
	if (r == 0) {
		r = seal(fd);
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "--mount-root: %s", box_err_strerror(-r));
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* A longer value is cut: a full field tells box-rpc that it was too long. */
static void load_field(const char *name, char *field, size_t room)
{
	const char *value = getenv(name);
	if (value) {
		size_t len = strnlen(value, room - 1);
		memcpy(field, value, len);
		field[len] = '\0';
	}
}

static void wipe_variable(const char *name)
{
	char *value = getenv(name);
	if (value) {
		/* In place, because /proc/PID/environ shows this memory. */
		explicit_bzero(value, strlen(value));
		(void)unsetenv(name);
	}
}

/* START has one bit for such a variable, so boxd interprets the values that mean true. */
static bool is_set(const char *name)
{
	static const char *const words[] = {"1", "true", "yes", "on"};
	const char *value = getenv(name);
	if (!value) {
		return false;
	}
	struct box_str word = box_str_strip(box_str(value));
	for (size_t i = 0; i < BOX_COUNT_OF(words); i++) {
		if (word.len == strlen(words[i]) &&
			strncasecmp(word.bytes, words[i], word.len) == 0) {
			return true;
		}
	}
	return false;
}

/* --- the token --- */

static int token_error(struct box_err *err, const char *path, int errnum, const char *why)
{
	return box_err_set(err, BOX_ERR_OS, errnum, "token file %.1000s: %s", path, why);
}

/* Links are followed: Kubernetes and systemd use them. A file that others may write is refused, because
 * they could choose the token. A file that others may read is only warned about: they know the token,
 * but container engines make secrets readable for all users inside. */
static int check_token_file(const char *path, const struct stat *status, struct box_err *err)
{
	if (!S_ISREG(status->st_mode)) {
		return token_error(err, path, EINVAL, "not a regular file");
	}
	if (status->st_uid != 0 && status->st_uid != geteuid()) {
		return token_error(err, path, EPERM, "belongs neither to root nor to this user");
	}
	if (status->st_mode & S_IWOTH) {
		return token_error(err, path, EPERM, "can be written by everyone: chmod 0600 it");
	}
	if (status->st_mode & S_IROTH) {
		BOX_LOG(BOX_LOG_WARNING, "token.readable", box_log_str("path", path),
			box_log_str(
				"why", "every user of this machine can read it: chmod 0600 it"));
	}
	return 0;
}

static int read_token_file(
	const char *path, char ret_text[BOX_TOKENS_TEXT_MAX], struct box_err *err)
{
	struct stat status;
	_cleanup_(box_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &status) < 0) {
		return token_error(err, path, errno, box_err_strerror(errno));
	}
	int r = check_token_file(path, &status, err);
	if (r < 0) {
		return r;
	}
	size_t len = 0;
	ssize_t got;
	while ((got = read(fd, ret_text + len, BOX_TOKENS_TEXT_MAX - len)) > 0) {
		len += (size_t)got;
	}
	if (got < 0) {
		return token_error(err, path, errno, box_err_strerror(errno));
	}
	if (len == BOX_TOKENS_TEXT_MAX || memchr(ret_text, '\0', len)) {
		return token_error(err, path, EINVAL, "too long, or holds a NUL");
	}
	memset(ret_text + len, 0, BOX_TOKENS_TEXT_MAX - len);
	return 0;
}

/* --token-file, or the credential of systemd when there is no other token. */
static void find_token_file(const struct box_options *options, struct box_start_data *start_data)
{
	const char *folder = getenv("CREDENTIALS_DIRECTORY");
	size_t room = sizeof(start_data->token_path);
	if (options->token_path) {
		(void)snprintf(start_data->token_path, room, "%s", options->token_path);
	} else if (folder && folder[0] == '/' && start_data->start.token[0] == '\0') {
		int len = snprintf(start_data->token_path, room, "%s/box-token", folder);
		if ((size_t)len >= room || access(start_data->token_path, F_OK) < 0) {
			start_data->token_path[0] = '\0';
		}
	}
}

static int load_tokens(
	const struct box_options *options, struct box_start_data *start_data, struct box_err *err)
{
	struct box_boxd_start *start = &start_data->start;
	load_field(TOKEN_VARIABLE, start->token, BOX_TOKEN_MAX + 2);
	wipe_variable(TOKEN_VARIABLE);
	if (options->token_path && box_str_strip(box_str(start->token)).len > 0) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"--token-file: not together with " TOKEN_VARIABLE
			": leave out one of them");
	}
	find_token_file(options, start_data);
	if (start_data->token_path[0] == '\0') {
		return 0;
	}
	start->flags |= BOX_BOXD_START_TOKEN_FILE;
	return read_token_file(start_data->token_path, start->token, err);
}

int box_start_data_reread_tokens(struct box_start_data *start_data, struct box_err *err)
{
	/* A file that cannot be read is not offered to box-rpc. */
	char text[BOX_TOKENS_TEXT_MAX];
	int r = read_token_file(start_data->token_path, text, err);
	if (r == 0) {
		start_data->offered_tokens.kind = BOX_BOXD_TOKENS;
		memcpy(start_data->offered_tokens.text, text, sizeof(text));
	}
	explicit_bzero(text, sizeof(text));
	return r;
}

void box_start_data_tokens_accepted(struct box_start_data *start_data)
{
	if (start_data->offered_tokens.kind == BOX_BOXD_TOKENS) {
		memcpy(start_data->start.token, start_data->offered_tokens.text,
			sizeof(start_data->start.token));
		explicit_bzero(&start_data->offered_tokens, sizeof(start_data->offered_tokens));
	}
}

/* --- the configuration --- */

static int file_error(struct box_err *err, const char *path, int errnum)
{
	return box_err_set(
		err, BOX_ERR_OS, errnum, "--config: %.1000s: %s", path, box_err_strerror(errnum));
}

/* Reads all of `from` into a sealed memfd. */
static int copy_text(int from, int *ret_fd)
{
	_cleanup_(box_close_p) int copy = memfd_create(
		"box-config", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (copy < 0) {
		return -errno;
	}
	char chunk[4096];
	size_t total = 0;
	int r = 0;
	for (;;) {
		ssize_t got = read(from, chunk, sizeof(chunk));
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got < 0) {
			return -errno;
		}
		if (got == 0) {
			break;
		}
		total += (size_t)got;
		r = total > BOX_CONFIG_BYTES_MAX ? -EFBIG : box_write_all(copy, chunk, (size_t)got);
		if (r < 0) {
			return r;
		}
	}
	r = seal(copy);
	if (r == 0) {
		*ret_fd = TAKE_FD(copy);
	}
	return r;
}

/* Opening a pipe waits for its writer, if pipes are allowed; nothing else may block. */
static int open_config(const char *path, bool pipes, int *ret_fd, struct box_err *err)
{
	struct stat status;
	if (stat(path, &status) < 0) {
		return file_error(err, path, errno);
	}
	bool is_pipe = pipes && S_ISFIFO(status.st_mode);
	_cleanup_(box_close_p) int fd = open(
		path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (is_pipe ? 0 : O_NONBLOCK));
	if (fd < 0 || fstat(fd, &status) < 0) {
		return file_error(err, path, errno);
	}
	if (!pipes && S_ISFIFO(status.st_mode)) {
		return box_err_set(err, BOX_ERR_OS, EINVAL,
			"--config: %.1000s: a pipe cannot be read again", path);
	}
	if (!is_pipe && !S_ISREG(status.st_mode)) {
		return box_err_set(err, BOX_ERR_OS, EINVAL,
			"--config: %.1000s: neither a regular file nor a pipe", path);
	}
	if (!is_pipe && status.st_mode & S_IWOTH) {
		return box_err_set(err, BOX_ERR_OS, EPERM,
			"--config: %.1000s: can be written by everyone, who would be the operator: "
			"chmod o-w it",
			path);
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int read_config(const char *path, bool pipes, int *ret_fd, struct box_err *err)
{
	_cleanup_(box_close_p) int fd = -1;
	int r = open_config(path, pipes, &fd, err);
	if (r < 0) {
		return r;
	}
	r = copy_text(fd, ret_fd);
	return r < 0 ? file_error(err, path, -r) : 0;
}

int box_start_data_reread_config(
	struct box_start_data *start_data, int *ret_fd, struct box_err *err)
{
	_cleanup_(box_close_p) int fresh = -1;
	if (!start_data->config_path) {
		return box_err_set(err, BOX_ERR_OS, ENOENT, "no --config was given");
	}
	int r = read_config(start_data->config_path, false, &fresh, err);
	if (r < 0) {
		return r;
	}
	box_close_p(&start_data->offered);
	start_data->offered = TAKE_FD(fresh);
	*ret_fd = start_data->offered;
	return 0;
}

void box_start_data_config_accepted(struct box_start_data *start_data)
{
	if (start_data->offered >= 0) {
		if (start_data->first < 0) {
			start_data->first = TAKE_FD(start_data->accepted);
		}
		box_close_p(&start_data->accepted);
		start_data->accepted = TAKE_FD(start_data->offered);
	}
}

/* In a user namespace whose map has gaps the kernel shows every unmapped user as "nobody", so a boxd that
 * runs as nobody there cannot be told apart from them. */
static uint32_t own_uid(void)
{
	uid_t uid = geteuid();
	bool shared = uid == OVERFLOW_UID &&
		!box_identity_is_mapped("/proc/self/uid_map", LAST_UID);
	return shared ? BOX_BOXD_NO_UID : uid;
}

struct box_start_data *box_start_data_new(void)
{
	struct box_start_data *start_data = mmap(NULL, sizeof(*start_data), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (start_data == MAP_FAILED) {
		return NULL;
	}
	return madvise(start_data, sizeof(*start_data), MADV_WIPEONFORK) < 0 ? NULL : start_data;
}

int box_start_data_load(const struct box_options *options, struct box_start_data *ret_start_data,
	struct box_err *err)
{
	struct box_start_data *start_data = ret_start_data;
	struct box_boxd_start *start = &start_data->start;
	memset(start_data, 0, sizeof(*start_data));
	start_data->accepted = start_data->offered = start_data->variable = start_data->first = -1;
	start_data->roots = -1;
	start_data->config_path = options->config_path;

	start->kind = BOX_BOXD_START;
	start->log_level = (int32_t)options->log_level;
	start->log_format = (int32_t)options->log_format;
	start->flags |= options->stdio ? BOX_BOXD_START_STDIO : 0;
	start->flags |= options->check_config ? BOX_BOXD_START_CHECK_CONFIG : 0;
	start->flags |= options->host ? BOX_BOXD_START_EXPLICIT_HOST : 0;
	start->flags |= options->socket_group ? BOX_BOXD_START_SOCKET_GROUP : 0;
	start->flags |= is_set("LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS")
		? BOX_BOXD_START_SOFT_STORAGE
		: 0;
	start->flags |= options->unauthenticated || is_set("LANGBOT_BOX_UNAUTHENTICATED")
		? BOX_BOXD_START_UNAUTHENTICATED
		: 0;
	start->uid = own_uid();
	if (options->config_path) {
		memcpy(start->config_path, options->config_path, strlen(options->config_path));
	}
	if (!getcwd(start->working_folder, sizeof(start->working_folder))) {
		return box_err_set(
			err, BOX_ERR_OS, errno, "the working folder: %s", box_err_strerror(errno));
	}
	load_field("LANGBOT_BOX_TRUSTED_INSTANCE_UUID", start->instance, sizeof(start->instance));
	int r = load_tokens(options, start_data, err);
	if (r < 0) {
		return r;
	}
	r = load_variable("LANGBOT_BOX_CONFIG", &start_data->variable, err);
	if (r < 0) {
		return r;
	}
	r = load_roots(options, &start_data->roots, err);
	if (r < 0 || !start_data->config_path) {
		return r;
	}
	return read_config(start_data->config_path, true, &start_data->accepted, err);
}

size_t box_start_data_fill(
	struct box_start_data *start_data, int state_fd, int ret_fds[BOX_START_DATA_FDS_MAX])
{
	const struct {
		uint32_t flag;
		int fd;
	} texts[BOX_START_DATA_FDS_MAX] = {
		{BOX_BOXD_START_HAS_FILE, start_data->accepted},
		{BOX_BOXD_START_HAS_VARIABLE, start_data->variable},
		{BOX_BOXD_START_HAS_STATE, state_fd},
		{BOX_BOXD_START_HAS_FIRST, start_data->first},
		{BOX_BOXD_START_HAS_ROOTS, start_data->roots},
	};
	size_t count = 0;
	start_data->start.operator_uid = own_uid();
	for (size_t i = 0; i < BOX_START_DATA_FDS_MAX; i++) {
		start_data->start.flags &= ~texts[i].flag;
		if (texts[i].fd >= 0) {
			start_data->start.flags |= texts[i].flag;
			/* The offset is shared with the previous box-rpc, which had this fd before. */
			(void)lseek(texts[i].fd, 0, SEEK_SET);
			ret_fds[count++] = texts[i].fd;
		}
	}
	return count;
}
