/* A decoded message with the arena that holds it. */
#pragma once

#include <stddef.h>

#include "base/arena.h"
#include "base/value.h"

enum box_codec {
	BOX_CODEC_JSON,
	BOX_CODEC_MSGPACK,
	BOX_CODECS_
};

struct box_message {
	struct box_arena *arena; /* owns the value and the bytes that it points into */
	struct box_value value;
	enum box_codec codec;
	size_t wire_bytes;
};
