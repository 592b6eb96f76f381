/* Reads the configuration for verbs that need the operator's settings: the file of --config, in the format of
 * boxd's, else the variable that boxd reads too. */
#include "cli/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "worker/config_text.h"

#define VARIABLE "LANGBOT_BOX_CONFIG"

static int read_file(const char *path, struct box_buf *text, struct box_err *err)
{
	_cleanup_(box_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "%s: %s", path, box_err_strerror(errno));
	}
	for (;;) {
		char piece[16 * BOX_KIB];
		ssize_t len = read(fd, piece, sizeof(piece));
		if (len < 0) {
			return box_err_set(
				err, BOX_ERR_OS, errno, "%s: %s", path, box_err_strerror(errno));
		}
		if (len == 0) {
			return 0;
		}
		if (box_buf_append(text, piece, (size_t)len) < 0) {
			return box_err_set(err, BOX_ERR_VALUE, EFBIG, "%s: larger than %lu bytes",
				path, BOX_CONFIG_BYTES_MAX);
		}
	}
}

static int parse(struct box_arena *arena, const char *name, struct box_str text,
	struct box_value *ret_map, struct box_err *err)
{
	struct box_err why;
	struct box_value map;
	int r = box_config_text_parse(arena, text.bytes, text.len, &map, &why);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_VALUE, -r, "%s:%s", name, why.text);
	}
	/* LangBot's file has it in a section. */
	const struct box_value *section = box_map_get(&map, "box");
	*ret_map = section && section->type == BOX_MAP ? *section : map;
	return 0;
}

int box_config_file_read(const struct cli *cli, struct box_value *ret_map, struct box_err *err)
{
	const char *variable = getenv(VARIABLE);
	*ret_map = box_map_value();
	if (!cli->options.config) {
		return variable && variable[0] != '\0'
			? parse(cli->arena, VARIABLE, box_str(variable), ret_map, err)
			: 0;
	}
	struct box_buf text = box_buf(BOX_CONFIG_BYTES_MAX);
	int r = read_file(cli->options.config, &text, err);
	if (r == 0) {
		/* The tree points into the text. */
		struct box_str copy = {
			box_arena_strndup(cli->arena, text.len ? text.bytes : "", text.len),
			text.len};
		r = parse(cli->arena, cli->options.config, copy, ret_map, err);
	}
	box_buf_free(&text);
	return r;
}
