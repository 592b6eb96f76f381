/* ZIPs for tests, written by hand so that each field can be wrong. */
#pragma once

#include <libdeflate.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "tests/unit/lib/test.h"

/* One entry as the test wants it. Members that are 0 or NULL are as an honest packer would write
 * them. */
struct zip_item {
	const char *name;
	size_t name_len;   /* 0: that of the text */
	const char *local; /* the name in the local header */
	const char *content;
	size_t content_len;
	const void *extra; /* in the central header, and in the local one if is_extra_local */
	size_t extra_len;
	size_t gap;        /* unused bytes before it */
	uint32_t mode;     /* of unix */
	uint32_t dos;      /* attributes */
	uint32_t crc_off;  /* added to the right one, in both headers */
	int32_t size_off;  /* likewise */
	int32_t local_off; /* added to the size in the local header only */
	uint32_t descriptor_off;
	uint16_t flags;
	uint16_t method;
	uint16_t disk;
	bool is_extra_local;
	bool has_descriptor; /* with sizes 0 in the local header */
};

#define _zip_ _cleanup_(box_buf_free) struct box_buf

/* Values for the end record. */
struct zip_end {
	uint16_t disk;
	int count_off;
	int size_off;
	int offset_off;
	const char *comment;
	uint16_t comment_len; /* 0: that of the text */
};

/* A number of up to 8 bytes, or zeros. */
static inline void zip_put(struct box_buf *buf, uint64_t value, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t byte = (uint8_t)(i < 8 ? value >> (8 * i) : 0);
		ASSERT_INT(box_buf_append(buf, &byte, 1), 0);
	}
}

static inline void zip_put_bytes(struct box_buf *buf, const void *bytes, size_t len)
{
	if (len > 0) {
		ASSERT_INT(box_buf_append(buf, bytes, len), 0);
	}
}

struct zip_packed {
	uint32_t crc;
	uint32_t packed;
	uint32_t size;
	uint32_t offset;
	const char *bytes;
	char *memory;
};

static inline struct zip_packed zip_pack(const struct zip_item *item)
{
	const char *content = item->content ? item->content : "";
	size_t len = item->content_len ? item->content_len : strlen(content);
	struct zip_packed packed = {.bytes = content, .packed = (uint32_t)len};
	packed.crc = libdeflate_crc32(0, content, len) + item->crc_off;
	packed.size = (uint32_t)((int64_t)len + item->size_off);
	if (item->method == 8) {
		struct libdeflate_compressor *deflater = libdeflate_alloc_compressor(9);
		size_t room = libdeflate_deflate_compress_bound(deflater, len);
		packed.memory = malloc(room);
		packed.packed = (uint32_t)libdeflate_deflate_compress(
			deflater, content, len, packed.memory, room);
		packed.bytes = packed.memory;
		libdeflate_free_compressor(deflater);
	}
	return packed;
}

static inline size_t zip_name_len(const struct zip_item *item)
{
	return item->name_len ? item->name_len : strlen(item->name);
}

static inline uint16_t zip_flags(const struct zip_item *item)
{
	return item->flags | (item->has_descriptor ? 8 : 0);
}

static inline void zip_put_local(
	struct box_buf *buf, const struct zip_item *item, struct zip_packed *packed)
{
	const char *name = item->local ? item->local : item->name;
	size_t name_len = item->local ? strlen(item->local) : zip_name_len(item);
	bool hidden = item->has_descriptor;
	for (size_t i = 0; i < item->gap; i++) {
		zip_put(buf, 'g', 1);
	}
	packed->offset = (uint32_t)buf->len;
	zip_put(buf, 0x04034b50, 4);
	zip_put(buf, 20, 2);
	zip_put(buf, zip_flags(item), 2);
	zip_put(buf, item->method, 2);
	zip_put(buf, 0, 4);
	zip_put(buf, hidden ? 0 : packed->crc, 4);
	zip_put(buf, hidden ? 0 : packed->packed, 4);
	zip_put(buf, hidden ? 0 : (uint32_t)((int64_t)packed->size + item->local_off), 4);
	zip_put(buf, name_len, 2);
	zip_put(buf, item->is_extra_local ? item->extra_len : 0, 2);
	zip_put_bytes(buf, name, name_len);
	zip_put_bytes(buf, item->extra, item->is_extra_local ? item->extra_len : 0);
	zip_put_bytes(buf, packed->bytes, packed->packed);
	if (item->has_descriptor) {
		zip_put(buf, 0x08074b50, 4);
		zip_put(buf, packed->crc, 4);
		zip_put(buf, packed->packed, 4);
		zip_put(buf, packed->size + item->descriptor_off, 4);
	}
}

static inline void zip_put_central(
	struct box_buf *buf, const struct zip_item *item, const struct zip_packed *packed)
{
	zip_put(buf, 0x02014b50, 4);
	zip_put(buf, 0x0314, 2);
	zip_put(buf, 20, 2);
	zip_put(buf, zip_flags(item), 2);
	zip_put(buf, item->method, 2);
	zip_put(buf, 0, 4);
	zip_put(buf, packed->crc, 4);
	zip_put(buf, packed->packed, 4);
	zip_put(buf, packed->size, 4);
	zip_put(buf, zip_name_len(item), 2);
	zip_put(buf, item->extra_len, 2);
	zip_put(buf, 0, 2);
	zip_put(buf, item->disk, 2);
	zip_put(buf, 0, 2);
	zip_put(buf, (uint64_t)item->mode << 16 | item->dos, 4);
	zip_put(buf, packed->offset, 4);
	zip_put_bytes(buf, item->name, zip_name_len(item));
	zip_put_bytes(buf, item->extra, item->extra_len);
}

static inline struct box_buf zip_make(
	const struct zip_item *items, size_t count, const struct zip_end *lies)
{
	static const struct zip_end honest;
	const struct zip_end *end = lies ? lies : &honest;
	struct box_buf buf = box_buf(256 * BOX_MIB);
	struct zip_packed *packed = calloc(count + 1, sizeof(*packed));
	for (size_t i = 0; i < count; i++) {
		packed[i] = zip_pack(&items[i]);
		zip_put_local(&buf, &items[i], &packed[i]);
	}
	size_t directory = buf.len;
	for (size_t i = 0; i < count; i++) {
		zip_put_central(&buf, &items[i], &packed[i]);
		free(packed[i].memory);
	}
	free(packed);
	size_t size = buf.len - directory;
	size_t comment_len = end->comment ? strlen(end->comment) : 0;
	zip_put(&buf, 0x06054b50, 4);
	zip_put(&buf, end->disk, 2);
	zip_put(&buf, 0, 2);
	zip_put(&buf, count + (uint64_t)end->count_off, 2);
	zip_put(&buf, count + (uint64_t)end->count_off, 2);
	zip_put(&buf, size + (uint64_t)end->size_off, 4);
	zip_put(&buf, directory + (uint64_t)end->offset_off, 4);
	zip_put(&buf, end->comment_len ? end->comment_len : comment_len, 2);
	zip_put_bytes(&buf, end->comment, comment_len);
	return buf;
}
