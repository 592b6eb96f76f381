/* Any bytes as a client's WebSocket stream: the verdict is the same wherever they are split, and
 * only valid frames are passed on. */
#include "tests/fuzz/common.h"
#include "transport/ws.h"
#include "transport/ws_frames.h"

struct verdict {
	struct box_ws_frames frames;
	const char *why;
	int code;
	size_t good;
};

/* In pieces of `piece` bytes, as they may come from a socket. */
static struct verdict scan(const uint8_t *data, size_t size, size_t piece)
{
	struct verdict verdict = {0};
	for (size_t at = 0; at < size && !verdict.why; at += piece) {
		size_t len = size - at < piece ? size - at : piece;
		size_t good = box_ws_frames_scan(
			&verdict.frames, data + at, len, &verdict.why, &verdict.code);
		MUST(good <= len);
		MUST((good == len) || verdict.why);
		verdict.good += good;
	}
	return verdict;
}

static void check_same(const struct verdict *whole, const struct verdict *cut)
{
	MUST(whole->why == cut->why && (!whole->why || whole->code == cut->code));
	MUST(whole->frames.passed == cut->frames.passed);
	/* With pieces, the start of a frame was passed on before its fault was seen. */
	MUST(cut->good >= whole->good);
}

static const size_t pieces[] = {1, 3, 8, 131};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct verdict whole = scan(data, size, size ? size : 1);
	MUST(!whole.why || whole.code == BOX_WS_PROTOCOL || whole.code == BOX_WS_BAD_TEXT);
	MUST(whole.frames.passed <= size);
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		struct verdict cut = scan(data, size, pieces[i]);
		check_same(&whole, &cut);
	}
	struct verdict again = scan(data, whole.good, whole.good ? whole.good : 1);
	MUST(!again.why && again.frames.passed == whole.frames.passed);
	return 0;
}
