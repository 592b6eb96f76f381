/* Reads and checks the start-up settings. Every error says where the wrong value came from. */
#include "worker/settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/macros.h"
#include "codec/json.h"
#include "protocol/boxd_client_check.h"
#include "runtime/config/admission_policy.h"
#include "runtime/config/config_members.h"
#include "runtime/config/policy.h"
#include "runtime/runtime.h"
#include "transport/gate.h"
#include "worker/config_report.h"
#include "worker/config_text.h"

#define TOKEN_VARIABLE "LANGBOT_BOX_CONTROL_TOKEN"
#define TOKEN_FILE "the token file"
#define INSTANCE_VARIABLE "LANGBOT_BOX_TRUSTED_INSTANCE_UUID"

static struct box_str field_text(const char *field, size_t size)
{
	return box_str_strip((struct box_str){field, strnlen(field, size)});
}

/* Strips the field in place and returns it, NULL when nothing is left. */
static const char *strip_field(char *field, size_t size)
{
	struct box_str text = field_text(field, size);
	memmove(field, text.bytes, text.len);
	field[text.len] = '\0';
	return text.len > 0 ? field : NULL;
}

/* A token travels in an HTTP header: visible ASCII only. Its value is never shown. */
static int add_token(struct box_settings_tokens *tokens, struct box_str token, const char *from,
	struct box_err *err)
{
	for (size_t i = 0; i < token.len; i++) {
		if (token.bytes[i] <= ' ' || token.bytes[i] > '~') {
			return box_err_set(err, BOX_ERR_VALUE, EINVAL,
				"%s: must be a secret without white space, in ASCII", from);
		}
	}
	if (token.len < BOX_TOKEN_MIN || token.len > BOX_TOKEN_MAX) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"%s: must be a non-whitespace secret of at least %d and at most "
			"%d characters",
			from, BOX_TOKEN_MIN, BOX_TOKEN_MAX);
	}
	if (tokens->count == BOX_TOKENS_MAX) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"%s: more than %d tokens: one per line, and two at most", from,
			BOX_TOKENS_MAX);
	}
	char *text = tokens->texts[tokens->count++];
	memcpy(text, token.bytes, token.len);
	text[token.len] = '\0';
	return 0;
}

int box_settings_read_tokens(
	struct box_str text, struct box_settings_tokens *ret_tokens, struct box_err *err)
{
	struct box_settings_tokens tokens = {0};
	int r = 0;
	while (text.len > 0 && r == 0) {
		const char *end = memchr(text.bytes, '\n', text.len);
		size_t len = end ? (size_t)(end - text.bytes) : text.len;
		struct box_str line = box_str_strip((struct box_str){text.bytes, len});
		if (line.len > 0) {
			r = add_token(&tokens, line, TOKEN_FILE, err);
		}
		len += end ? 1 : 0;
		text = (struct box_str){text.bytes + len, text.len - len};
	}
	if (r == 0 && tokens.count == 0) {
		r = box_err_set(err, BOX_ERR_VALUE, EINVAL, TOKEN_FILE ": contains no token");
	}
	if (r == 0) {
		*ret_tokens = tokens;
	}
	explicit_bzero(&tokens, sizeof(tokens));
	return r;
}

static int read_tokens(
	struct box_boxd_start *start, struct box_settings_tokens *ret_tokens, struct box_err *err)
{
	struct box_str text = field_text(start->token, sizeof(start->token));
	int r = 0;
	if (start->flags & BOX_BOXD_START_TOKEN_FILE) {
		r = box_settings_read_tokens(text, ret_tokens, err);
	} else if (text.len > 0) {
		r = add_token(ret_tokens, text, TOKEN_VARIABLE, err);
	}
	explicit_bzero(start->token, sizeof(start->token));
	return r;
}

static int check_instance(const struct box_settings *settings, struct box_err *err)
{
	if (!settings->instance) {
		return 0;
	}
	if (!box_tenant_instance_id_valid(box_str(settings->instance))) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			INSTANCE_VARIABLE ": must be 1 to %d letters, digits or . _ : - and begin "
					  "with a letter or digit",
			BOX_INSTANCE_ID_MAX);
	}
	return 0;
}

static int take_fd(struct box_packet *packet, size_t *at, unsigned flag)
{
	if (!(packet->start.flags & flag) || *at >= packet->fd_count) {
		return -1;
	}
	return TAKE_FD(packet->fds[(*at)++]);
}

/* The texts stay allocated until the process ends. */
static int read_mount_roots(int fd, struct box_settings *settings, struct box_err *err)
{
	_cleanup_(box_close_p) int owned = fd;
	struct box_arena *arena = box_arena_new();
	size_t count = 0;
	off_t size = lseek(owned, 0, SEEK_END);
	size_t len = size > 0 && (size_t)size < BOX_CONFIG_BYTES_MAX ? (size_t)size : 0;
	char *text = box_arena_alloc(arena, len + 1);
	/* A memory file from boxd, so one read gets all of it. */
	ssize_t got = pread(owned, text, len, 0);
	int r = got < 0
		? box_err_set(err, BOX_ERR_OS, errno, "--mount-root: %s", box_err_strerror(errno))
		: 0;
	len = got > 0 ? (size_t)got : 0;
	settings->mount_roots = box_arena_alloc(
		arena, (BOX_MOUNT_ROOTS_MAX + 1) * sizeof(*settings->mount_roots));
	for (size_t at = 0; r == 0 && at < len && count < BOX_MOUNT_ROOTS_MAX; count++) {
		struct box_str root = {text + at, strnlen(text + at, len - at)};
		const char *path = box_config_resolve_path(arena, settings->working_folder, root);
		if (!path) {
			return box_err_set(
				err, BOX_ERR_VALUE, ENAMETOOLONG, "--mount-root: path is too long");
		}
		settings->mount_roots[count] = path;
		at += root.len + 1;
	}
	return r;
}

int box_settings_read(
	struct box_packet *start, struct box_settings *ret_settings, struct box_err *err)
{
	struct box_boxd_start *body = &start->start;
	struct box_settings settings = {.flags = body->flags, .restarts = body->restarts};
	size_t at = 0;
	settings.config_fd = take_fd(start, &at, BOX_BOXD_START_HAS_FILE);
	settings.variable_fd = take_fd(start, &at, BOX_BOXD_START_HAS_VARIABLE);
	settings.state_fd = take_fd(start, &at, BOX_BOXD_START_HAS_STATE);
	settings.first_fd = take_fd(start, &at, BOX_BOXD_START_HAS_FIRST);
	settings.config_path = body->config_path;
	settings.working_folder = body->working_folder;
	settings.instance = strip_field(body->instance, sizeof(body->instance) - 1);
	int roots_fd = take_fd(start, &at, BOX_BOXD_START_HAS_ROOTS);
	int r = roots_fd < 0 ? 0 : read_mount_roots(roots_fd, &settings, err);
	if (r == 0) {
		r = read_tokens(body, &settings.tokens, err);
	}
	if (r == 0) {
		r = check_instance(&settings, err);
	}
	if (r == 0) {
		*ret_settings = settings;
	}
	return r;
}

/* --- configuration texts --- */

/* A configuration text that is being checked. */
struct source {
	const char *from;           /* its name in remarks */
	const struct box_buf *text; /* for the lines of members; NULL if it has none */
	bool own;                   /* a file for boxd only, not LangBot's */
	bool prefixed;              /* members are below `box` */
	const struct box_value *map;
	struct box_config_report *verdict;
};

static int read_all(
	int fd, struct box_buf *buf, const char *from, struct box_config_report *verdict)
{
	for (;;) {
		char piece[4096];
		ssize_t got = read(fd, piece, sizeof(piece));
		if (got == 0) {
			return 0;
		}
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got < 0) {
			box_config_report_add(verdict, true, "%s: cannot be read: %s", from,
				box_err_strerror(errno));
			return -EINVAL;
		}
		if (box_buf_append(buf, piece, (size_t)got) < 0) {
			box_config_report_add(verdict, true, "%s: is longer than %lu bytes", from,
				BOX_CONFIG_BYTES_MAX);
			return -EINVAL;
		}
	}
}

/* Adds one remark with its position. `path` begins with "box.", as in texts of the configuration reader. */
static void remark(const struct source *source, bool wrong, const char *path, const char *text)
{
	const char *shown = path + (source->prefixed ? 0 : strlen("box."));
	size_t line = source->text
		? box_config_text_line(source->text->bytes, source->text->len, shown)
		: 0;
	if (line > 0) {
		box_config_report_add(
			source->verdict, wrong, "%s:%zu: %s%s", source->from, line, shown, text);
	} else {
		box_config_report_add(
			source->verdict, wrong, "%s: %s%s", source->from, shown, text);
	}
}

/* The length of the member's name that a text begins with. The name of an image may have colons. */
static size_t member_len(const char *text)
{
	size_t len = strncmp(text, "box.", strlen("box.")) == 0 ? strcspn(text, " ,\n") : 0;
	return len > 0 && text[len - 1] == ':' ? len - 1 : len;
}

/* Converts an error of the runtime's reader: "box.limits.max_sessions must be an integer". */
static void remark_refusal(const struct source *source, const char *why)
{
	char path[512];
	size_t len = member_len(why);
	if (len > 0) {
		(void)snprintf(path, sizeof(path), "%.*s", (int)len, why);
		remark(source, true, path, why + len);
	} else if (strncmp(why, "host backend", strlen("host backend")) == 0) {
		char text[256];
		(void)snprintf(text, sizeof(text), ": %.200s", why);
		remark(source, true, "box.backend", text);
	} else {
		box_config_report_add(source->verdict, true, "%s: %s", source->from, why);
	}
}

static void check_names(const struct source *source, bool operators)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_config_findings *found = box_arena_alloc(arena, sizeof(*found));
	box_config_members_check(arena, source->map,
		source->own ? BOX_CONFIG_MEMBERS_OWN : BOX_CONFIG_MEMBERS_LANGBOT, operators,
		found);
	for (size_t i = 0; i < found->count; i++) {
		const struct box_config_finding *finding = &found->items[i];
		remark(source, finding->wrong, box_arena_printf(arena, "box.%s", finding->path),
			box_arena_printf(arena, ": %s", finding->text));
	}
	/* Findings that had no room there count too. */
	size_t told = 0;
	for (size_t i = 0; i < found->count; i++) {
		told += found->items[i].wrong;
	}
	source->verdict->errors += found->errors - told;
}

/* Checks names first, then values; applies nothing unless everything is valid. */
static int check(
	struct box_runtime *runtime, enum box_runtime_layer_kind layer, const struct source *source)
{
	struct box_err why;
	size_t before = source->verdict->errors;
	bool operators = layer == BOX_RUNTIME_LAYER_FILE;
	check_names(source, operators);
	if (box_runtime_check(runtime, layer, source->map, &why) < 0) {
		remark_refusal(source, why.text);
	}
	/* A client's malformed section means that admission is required. The operator gets an error. */
	bool names_good = source->verdict->errors == before;
	if (names_good && operators &&
		box_admission_policy_check(box_map_get(source->map, "admission"), &why) < 0) {
		remark_refusal(source, why.text);
	}
	if (source->verdict->errors > before) {
		return -EINVAL;
	}
	if (box_runtime_configure(runtime, layer, source->map, &why) < 0) {
		remark_refusal(source, why.text);
		return -EINVAL;
	}
	return 0;
}

/* Members beside `box` are not ours; but if one has the name of a member of ours, it is misplaced. */
static void check_beside(const struct source *source, const struct box_value *whole)
{
	static const char *const sections[] = {"", "local", "limits"};
	for (uint32_t i = 0; i < whole->count; i++) {
		const struct box_config_member *member = NULL;
		for (size_t j = 0; j < BOX_COUNT_OF(sections) && !member; j++) {
			member = box_config_members_find(sections[j], whole->pairs[i].key);
		}
		if (!member || member->flags & BOX_CONFIG_MEMBER_LANGBOT) {
			continue;
		}
		const char *dot = strchr(member->path, '.');
		const char *name = dot ? dot + 1 : member->path;
		size_t line = box_config_text_line(source->text->bytes, source->text->len, name);
		box_config_report_add(source->verdict, false,
			"%s:%zu: %s: not read beside box; it belongs under box%s%.*s", source->from,
			line, name, dot ? "." : "", dot ? (int)(dot - member->path) : 0,
			member->path);
	}
}

/* --- checks for --check-config only: after a start, readiness reports these --- */

static void check_path(const struct source *source, bool wrong, enum box_boxd_check_kind what,
	const char *member, const char *path)
{
	struct box_err why;
	if (box_boxd_client_check_path(what, path, &why) < 0) {
		char text[sizeof(why.text) + 16];
		(void)snprintf(text, sizeof(text), ": %s", why.text);
		remark(source, wrong, member, text);
	}
}

static void check_backend(const struct source *source, const char *name)
{
	if (!box_runtime_knows_backend(name)) {
		char text[256];
		(void)snprintf(text, sizeof(text), ": no backend %.64s: it is one of %s", name,
			box_runtime_backend_names());
		remark(source, true, "box.backend", text);
	}
}

/* Host folders for mounts may be created later, so a missing one is only a warning. */
static void check_folders(const struct source *source, const struct box_config *config)
{
	const struct box_value *local = box_map_get(source->map, "local");
	bool rooted = local && box_map_get(local, "host_root") && config->host_root;
	const struct box_value *listed = local ? box_map_get(local, "allowed_mount_roots") : NULL;
	if (rooted) {
		check_path(source, false, BOX_BOXD_CHECK_FOLDER, "box.local.host_root",
			config->host_root);
	}
	for (size_t i = 0; listed && config->allowed_mount_roots[i]; i++) {
		if (!rooted || strcmp(config->allowed_mount_roots[i], config->host_root) != 0) {
			check_path(source, false, BOX_BOXD_CHECK_FOLDER,
				"box.local.allowed_mount_roots", config->allowed_mount_roots[i]);
		}
	}
}

/* Unlike folders for mounts, roots of boxes must exist: rootfs and every image. */
static void check_roots(const struct source *source, const struct box_runtime *runtime)
{
	_cleanup_(box_free_p) struct box_policy *policy = box_alloc(sizeof(*policy));
	struct box_err why;
	if (box_policy_read(runtime, runtime->config, policy, &why) < 0) {
		remark_refusal(source, why.text);
		return;
	}
	if (policy->rootfs[0]) {
		check_path(source, true, BOX_BOXD_CHECK_ROOT, "box.local.rootfs", policy->rootfs);
	}
	for (uint32_t i = 0; i < policy->image_count; i++) {
		char member[BOX_IMAGE_NAME_MAX + 32];
		(void)snprintf(member, sizeof(member), "box.images.%s", policy->images[i].name);
		check_path(source, true, BOX_BOXD_CHECK_ROOT, member, policy->images[i].path);
	}
	if (box_boxd_client_check_layout(policy, &why) < 0) {
		remark_refusal(source, why.text);
	}
}

int box_settings_apply_file(struct box_runtime *runtime, const char *path, int fd, bool look,
	struct box_config_report *verdict)
{
	_cleanup_(box_close_p) int owned = fd;
	_cleanup_(box_buf_free) struct box_buf text = box_buf(BOX_CONFIG_BYTES_MAX);
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value map;
	struct box_err why;
	int r = read_all(owned, &text, path, verdict);
	if (r < 0) {
		return r;
	}
	r = box_config_text_parse(arena, text.bytes ? text.bytes : "", text.len, &map, &why);
	if (r < 0) {
		box_config_report_add(verdict, true, "%s:%s", path, why.text);
		return -EINVAL;
	}
	/* A file may contain the map itself or, like LangBot's own configuration, have it under `box`. */
	const struct box_value *section = box_map_get(&map, "box");
	const struct source source = {
		.from = path,
		.text = &text,
		.own = section == NULL,
		.prefixed = section != NULL,
		.map = section ? section : &map,
		.verdict = verdict,
	};
	if (section && section->type != BOX_MAP) {
		box_config_report_add(verdict, true, "%s:%zu: box: must be a map of members", path,
			box_config_text_line(text.bytes, text.len, "box"));
		return -EINVAL;
	}
	if (section) {
		check_beside(&source, &map);
	}
	r = check(runtime, BOX_RUNTIME_LAYER_FILE, &source);
	if (r == 0 && look) {
		check_backend(&source, runtime->config->backend);
		check_roots(&source, runtime);
		check_folders(&source, runtime->config);
	}
	return verdict->errors > 0 ? -EINVAL : r;
}

/* JSON by the message codec: libyaml does not accept the escapes that JSON writers use for emoji. */
int box_settings_apply_variable(
	struct box_runtime *runtime, int fd, bool look, struct box_config_report *verdict)
{
	_cleanup_(box_close_p) int owned = fd;
	_cleanup_(box_buf_free) struct box_buf text = box_buf(BOX_CONFIG_BYTES_MAX);
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value map;
	const char *why = NULL;
	int r = read_all(owned, &text, BOX_SETTINGS_CONFIG_VARIABLE, verdict);
	if (r < 0) {
		return r;
	}
	r = box_json_decode(arena, text.bytes, text.len, &map, &why);
	if (r < 0 || map.type != BOX_MAP) {
		/* Ignored, as by the reference; but for --check-config it is an error. */
		box_config_report_add(verdict, look, "%s: ignored because it is not a JSON map%s%s",
			BOX_SETTINGS_CONFIG_VARIABLE, r < 0 ? ": " : "", r < 0 ? why : "");
		return look ? -EINVAL : 0;
	}
	const struct source source = {
		.from = BOX_SETTINGS_CONFIG_VARIABLE, .map = &map, .verdict = verdict};
	r = check(runtime, BOX_RUNTIME_LAYER_VARIABLE, &source);
	if (r == 0 && look) {
		if (box_map_get(&map, "backend")) {
			check_backend(&source, runtime->config->backend);
		}
		check_folders(&source, runtime->config);
	}
	return verdict->errors > 0 ? -EINVAL : r;
}

int box_settings_read_first(struct box_arena *arena, int fd, struct box_value *ret_map)
{
	_cleanup_(box_close_p) int owned = fd;
	_cleanup_(box_buf_free) struct box_buf text = box_buf(BOX_CONFIG_BYTES_MAX);
	_cleanup_(box_config_report_free_p) struct box_config_report *ignored =
		box_config_report_new();
	struct box_value map;
	struct box_err why;
	int r = read_all(owned, &text, "", ignored);
	if (r < 0) {
		return r;
	}
	r = box_config_text_parse(arena, text.bytes ? text.bytes : "", text.len, &map, &why);
	if (r < 0) {
		return r;
	}
	const struct box_value *section = box_map_get(&map, "box");
	*ret_map = section ? *section : map;
	return 0;
}
