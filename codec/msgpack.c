/* msgpack bytes <-> value tree, with msgpack-c (4.0.0 to 6.0.1). The library allocates what a header
 * declares, so it only gets bytes that have passed the bounded scan. Its result is copied into the
 * arena; only strings stay in the caller's bytes.
 */
#include "codec/msgpack.h"

#include <errno.h>
#include <msgpack.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "codec/keys.h"
#include "codec/msgpack_scan.h"

static int refuse(const char **ret_why, int code, const char *why)
{
	*ret_why = why;
	return code;
}

static int scan_whole(const char *bytes, size_t len, const char **ret_why)
{
	struct box_msgpack_scan scan;
	size_t used;
	box_msgpack_scan_start(&scan);
	int r = box_msgpack_scan_feed(&scan, bytes, len, &used, ret_why);
	if (r == -EMSGSIZE) {
		return -EBADMSG;
	}
	if (r < 0) {
		return r;
	}
	if (r == 0) {
		return refuse(ret_why, -EBADMSG, "unexpected end of data");
	}
	return used == len ? 0 : refuse(ret_why, -EBADMSG, "data after the value");
}

static int convert(struct box_arena *arena, const msgpack_object *object,
	struct box_value *ret_value, const char **ret_why);

static int convert_text(const msgpack_object *object, struct box_str *ret_str, const char **ret_why)
{
	if (object->type != MSGPACK_OBJECT_STR) {
		return refuse(ret_why, -EBADMSG, "a map key is not a string");
	}
	struct box_str str = {object->via.str.ptr, object->via.str.size};
	if (str.len > 0 && !box_utf8_valid(str.bytes, str.len)) {
		return refuse(ret_why, -EILSEQ, "a string is not valid UTF-8");
	}
	*ret_str = str;
	return 0;
}

static int convert_list(struct box_arena *arena, const msgpack_object_array *array,
	struct box_value *ret_value, const char **ret_why)
{
	struct box_value list = box_list_value();
	if (array->size > 0) {
		list.items = box_arena_alloc(arena, array->size * sizeof(*list.items));
		list.items_room = array->size;
	}
	for (; list.count < array->size; list.count++) {
		int r = convert(arena, &array->ptr[list.count], &list.items[list.count], ret_why);
		if (r < 0) {
			return r;
		}
	}
	*ret_value = list;
	return 0;
}

static int convert_map(struct box_arena *arena, const msgpack_object_map *object,
	struct box_value *ret_value, const char **ret_why)
{
	struct box_value map = box_map_value();
	if (object->size > 0) {
		map.pairs = box_arena_alloc(arena, object->size * sizeof(*map.pairs));
		map.pairs_room = object->size;
	}
	for (; map.count < object->size; map.count++) {
		struct box_pair *pair = &map.pairs[map.count];
		int r = convert_text(&object->ptr[map.count].key, &pair->key, ret_why);
		if (r == 0) {
			r = convert(arena, &object->ptr[map.count].val, &pair->value, ret_why);
		}
		if (r < 0) {
			return r;
		}
	}
	if (!box_keys_unique(arena, map.pairs, map.count)) {
		return refuse(ret_why, -EBADMSG, "duplicate map key");
	}
	*ret_value = map;
	return 0;
}

/* The scan has limited the depth. */
static int convert(struct box_arena *arena, const msgpack_object *object,
	struct box_value *ret_value, const char **ret_why)
{
	switch (object->type) {
	case MSGPACK_OBJECT_NIL:
		*ret_value = box_null();
		return 0;
	case MSGPACK_OBJECT_BOOLEAN:
		*ret_value = box_bool(object->via.boolean);
		return 0;
	case MSGPACK_OBJECT_POSITIVE_INTEGER:
		*ret_value = object->via.u64 <= INT64_MAX ? box_int((int64_t)object->via.u64)
							  : box_real((double)object->via.u64);
		return 0;
	case MSGPACK_OBJECT_NEGATIVE_INTEGER:
		*ret_value = box_int(object->via.i64);
		return 0;
	case MSGPACK_OBJECT_FLOAT32:
	case MSGPACK_OBJECT_FLOAT64:
		*ret_value = box_real(object->via.f64);
		return 0;
	case MSGPACK_OBJECT_STR: {
		struct box_str str;
		int r = convert_text(object, &str, ret_why);
		if (r < 0) {
			return r;
		}
		*ret_value = box_text(str);
		return 0;
	}
	case MSGPACK_OBJECT_BIN:
		*ret_value = (struct box_value){
			.type = BOX_BIN, .str = {object->via.bin.ptr, object->via.bin.size}};
		return 0;
	case MSGPACK_OBJECT_ARRAY:
		return convert_list(arena, &object->via.array, ret_value, ret_why);
	case MSGPACK_OBJECT_MAP:
		return convert_map(arena, &object->via.map, ret_value, ret_why);
	case MSGPACK_OBJECT_EXT:
		break;
	}
	return refuse(ret_why, -EBADMSG, "ext or unknown type");
}

int box_msgpack_decode(struct box_arena *arena, const char *bytes, size_t len,
	struct box_value *ret_value, const char **ret_why)
{
	int r = scan_whole(bytes, len, ret_why);
	if (r < 0) {
		return r;
	}
	msgpack_unpacked unpacked;
	msgpack_unpacked_init(&unpacked);
	size_t used = 0;
	msgpack_unpack_return result = msgpack_unpack_next(&unpacked, bytes, len, &used);
	if (result == MSGPACK_UNPACK_SUCCESS && used == len) {
		r = convert(arena, &unpacked.data, ret_value, ret_why);
	} else {
		r = refuse(ret_why, -EBADMSG, "rejected by msgpack-c");
	}
	msgpack_unpacked_destroy(&unpacked);
	return r;
}

struct output {
	struct box_buf *buf;
	struct box_str apart; /* the bytes that are left out, once */
	size_t apart_at;      /* their offset in the output */
};

static int write_out(void *arg, const char *bytes, size_t len)
{
	struct output *output = arg;
	if (bytes == output->apart.bytes && len == output->apart.len) {
		output->apart_at = output->buf->len;
		output->apart = (struct box_str){0};
		return 0;
	}
	return box_buf_append(output->buf, bytes, len);
}

static int encode_str(msgpack_packer *packer, struct box_str str)
{
	if (str.len > UINT32_MAX) {
		return -EMSGSIZE;
	}
	int r = msgpack_pack_str(packer, str.len);
	return r != 0 || str.len == 0 ? r : msgpack_pack_str_body(packer, str.bytes, str.len);
}

static int encode_bin(msgpack_packer *packer, struct box_str bin)
{
	if (bin.len > UINT32_MAX) {
		return -EMSGSIZE;
	}
	int r = msgpack_pack_bin(packer, bin.len);
	return r != 0 || bin.len == 0 ? r : msgpack_pack_bin_body(packer, bin.bytes, bin.len);
}

static int encode(msgpack_packer *packer, const struct box_value *value)
{
	int r;
	switch (value->type) {
	case BOX_NULL:
		return msgpack_pack_nil(packer);
	case BOX_BOOL:
		return value->boolean ? msgpack_pack_true(packer) : msgpack_pack_false(packer);
	case BOX_INT:
		return msgpack_pack_int64(packer, value->integer);
	case BOX_REAL:
		return msgpack_pack_double(packer, value->real);
	case BOX_STR:
		return encode_str(packer, value->str);
	case BOX_BIN:
		return encode_bin(packer, value->str);
	case BOX_LIST:
		r = msgpack_pack_array(packer, value->count);
		for (uint32_t i = 0; r == 0 && i < value->count; i++) {
			r = encode(packer, &value->items[i]);
		}
		return r;
	case BOX_MAP:
		r = msgpack_pack_map(packer, value->count);
		for (uint32_t i = 0; r == 0 && i < value->count; i++) {
			r = encode_str(packer, value->pairs[i].key);
			if (r == 0) {
				r = encode(packer, &value->pairs[i].value);
			}
		}
		return r;
	}
	return -EMSGSIZE;
}

static int encode_to(struct output *output, const struct box_value *value)
{
	msgpack_packer packer;
	size_t before = output->buf->len;
	msgpack_packer_init(&packer, output, write_out);
	if (encode(&packer, value) != 0) {
		output->buf->len = before;
		return -EMSGSIZE;
	}
	return 0;
}

int box_msgpack_encode(struct box_buf *out, const struct box_value *value)
{
	struct output output = {.buf = out};
	return encode_to(&output, value);
}

int box_msgpack_encode_around(
	struct box_buf *out, const struct box_value *value, struct box_str apart, size_t *ret_at)
{
	struct output output = {.buf = out, .apart = apart};
	int r = encode_to(&output, value);
	if (r == 0) {
		*ret_at = output.apart_at;
	}
	return r;
}
