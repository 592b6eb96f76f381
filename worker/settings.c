/* Start-up settings. Every refusal says where the wrong value came from. */
#include "worker/settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "runtime/runtime.h"
#include "transport/gate.h"
#include "transport/json.h"
#include "worker/config_text.h"

#define TOKEN_VARIABLE "LANGBOT_BOX_CONTROL_TOKEN"
#define INSTANCE_VARIABLE "LANGBOT_BOX_TRUSTED_INSTANCE_UUID"
#define CONFIG_VARIABLE "LANGBOT_BOX_CONFIG"

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
static int check_token(const char *token, struct box_err *err)
{
	size_t len = strlen(token);
	for (size_t i = 0; i < len; i++) {
		if (token[i] <= ' ' || token[i] > '~') {
			return box_err_set(err, BOX_ERR_VALUE, EINVAL,
				TOKEN_VARIABLE ": must be a secret without white space, in ASCII");
		}
	}
	if (len < BOX_TOKEN_MIN || len > BOX_TOKEN_MAX) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			TOKEN_VARIABLE
			": must be a non-whitespace secret of at least %d and at most "
			"%d characters",
			BOX_TOKEN_MIN, BOX_TOKEN_MAX);
	}
	return 0;
}

static int check_instance(const struct box_settings *settings, struct box_err *err)
{
	if (!settings->instance) {
		return settings->flags & BOX_START_STDIO
			? box_err_set(err, BOX_ERR_VALUE, EINVAL,
				  INSTANCE_VARIABLE " is required for stdio control (-s)")
			: 0;
	}
	if (!box_instance_id_valid(box_str(settings->instance))) {
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

int box_settings_read(
	struct box_packet *start, struct box_settings *ret_settings, struct box_err *err)
{
	struct box_keeper_start *body = &start->start;
	struct box_settings settings = {.flags = body->flags, .restarts = body->restarts};
	size_t at = 0;
	settings.config_fd = take_fd(start, &at, BOX_START_HAS_FILE);
	settings.variable_fd = take_fd(start, &at, BOX_START_HAS_VARIABLE);
	settings.state_fd = take_fd(start, &at, BOX_START_HAS_STATE);
	settings.config_path = body->config_path;
	settings.working_folder = body->working_folder;
	settings.token = strip_field(body->token, sizeof(body->token) - 1);
	settings.instance = strip_field(body->instance, sizeof(body->instance) - 1);
	int r = settings.token ? check_token(settings.token, err) : 0;
	if (r == 0) {
		r = check_instance(&settings, err);
	}
	if (r == 0) {
		*ret_settings = settings;
	}
	return r;
}

/* --- configuration texts --- */

static int read_all(int fd, struct box_buf *buf, const char *from, struct box_err *err)
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
			return box_err_set(err, BOX_ERR_VALUE, errno, "%s: cannot be read: %s",
				from, strerrordesc_np(errno));
		}
		if (box_buf_append(buf, piece, (size_t)got) < 0) {
			return box_err_set(err, BOX_ERR_VALUE, EFBIG,
				"%s: is longer than %lu bytes", from, BOX_CONFIG_BYTES_MAX);
		}
	}
}

/* The key that an error text names, without its "box." ("box.limits.max_sessions must be ..."). */
static size_t line_of(const struct box_buf *text, const char *why)
{
	const char *key = strstr(why, "box.");
	char dotted[256];
	if (!key) {
		return 0;
	}
	key += strlen("box.");
	size_t len = strcspn(key, " :,\n");
	(void)snprintf(dotted, sizeof(dotted), "%.*s", (int)len, key);
	return box_config_text_line(text->bytes, text->len, dotted);
}

/* A file may hold the map itself or, as LangBot's own configuration does among much else, under
 * `box`. */
static const struct box_value *section(const struct box_value *map)
{
	const struct box_value *box = box_map_get(map, "box");
	return box ? box : map;
}

/* Applies a parsed map; `text` is where a refused key is looked up, NULL when it has no lines. */
static int apply_map(struct box_runtime *runtime, enum box_config_layer layer,
	const struct box_value *map, const struct box_buf *text, const char *from,
	struct box_err *err)
{
	struct box_err why;
	int r = box_runtime_configure(runtime, layer, map, &why);
	if (r < 0) {
		size_t line = text ? line_of(text, why.text) : 0;
		return line > 0 ? box_err_set(err, BOX_ERR_VALUE, -r, "%s, line %zu: %s", from,
					  line, why.text)
				: box_err_set(err, BOX_ERR_VALUE, -r, "%s: %s", from, why.text);
	}
	return 0;
}

int box_settings_apply_file(
	struct box_runtime *runtime, const char *path, int fd, struct box_err *err)
{
	_cleanup_(box_close_p) int owned = fd;
	_cleanup_(box_buf_free) struct box_buf text = box_buf(BOX_CONFIG_BYTES_MAX);
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value map;
	struct box_err why;
	int r = read_all(owned, &text, path, err);
	if (r < 0) {
		return r;
	}
	r = box_config_text_parse(arena, text.bytes ? text.bytes : "", text.len, &map, &why);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "%s: %s", path, why.text);
	}
	return apply_map(runtime, BOX_LAYER_FILE, section(&map), &text, path, err);
}

/* JSON by the message codec: libyaml does not take the escapes that JSON writers use for emoji. */
int box_settings_apply_variable(struct box_runtime *runtime, int fd, struct box_err *err)
{
	_cleanup_(box_close_p) int owned = fd;
	_cleanup_(box_buf_free) struct box_buf text = box_buf(BOX_CONFIG_BYTES_MAX);
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value map;
	const char *why = NULL;
	int r = read_all(owned, &text, CONFIG_VARIABLE, err);
	if (r < 0) {
		return r;
	}
	r = box_json_decode(arena, text.bytes, text.len, &map, &why);
	if (r < 0 || map.type != BOX_MAP) {
		BOX_LOG(BOX_LOG_WARNING, "config.variable_ignored",
			box_kv_str("variable", CONFIG_VARIABLE),
			box_kv_str("why", r < 0 ? why : "it is no map"));
		return 0;
	}
	return apply_map(runtime, BOX_LAYER_VARIABLE, &map, NULL, CONFIG_VARIABLE, err);
}
