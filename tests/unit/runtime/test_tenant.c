/* Namespaces and physical ids. The expected values were computed with Python's hashlib and with the
 * reference's namespace_session_id (0.7.18). */
#include <errno.h>

#include "base/arena.h"
#include "runtime/tenant.h"
#include "tests/unit/lib/test.h"

#define FIRST "ws-108378aeed2d7cca4480d35e-g1-"
#define SECOND "ws-ca5ff518d65068e1fd523be8-g42-"
#define LAST "ws-108378aeed2d7cca4480d35e-g9223372036854775807-"
#define EMPTY "Box session_id must not be empty"
#define NO_CHARACTER "Box session_id must contain a valid character"

static const struct box_context contexts[] = {
	{{"inst", 4}, {"ws", 2}, 1},
	{{"langbot-1", 9}, {"7f3c", 4}, 42},
	{{"inst", 4}, {"ws", 2}, INT64_MAX},
};

/* clang-format off */
static const struct {
	int context;
	struct box_str logical;
	const char *physical; /* or NULL and the error */
	const char *error;
} id_rows[] = {
	{0, {"global", 6}, FIRST "global", NULL},
	{1, {"s", 1}, SECOND "s", NULL},
	{2, {"person:1/a b", 12}, LAST "person-1-a-b", NULL},
	{0, {"person-1-a-b", 12}, FIRST "person-1-a-b", NULL},
	{1, {"  padded  ", 10}, SECOND "padded", NULL},
	{2, {"\x09\x0a tab \x0d\x0a", 9}, LAST "tab", NULL},
	{0, {"--lead", 6}, FIRST "lead", NULL},
	{1, {"trail--", 7}, SECOND "trail", NULL},
	{2, {"---x---", 7}, LAST "x", NULL},
	{0, {"a--b", 4}, FIRST "a--b", NULL},
	{1, {"a -b", 4}, SECOND "a--b", NULL},
	{2, {"a- b", 4}, LAST "a--b", NULL},
	{0, {"a:::b", 5}, FIRST "a-b", NULL},
	{1, {"a\xc3\xa9" "b", 4}, SECOND "a-b", NULL},
	{2, {"\xe4\xbd\xa0\xe5\xa5\xbd", 6}, NULL, NO_CHARACTER},
	{0, {"x\xe4\xbd\xa0\xe5\xa5\xbdy", 8}, FIRST "x-y", NULL},
	{1, {"\xf0\x9f\x98\x80" "a\xf0\x9f\x98\x80", 9}, SECOND "a", NULL},
	{2, {"A.B_C-9", 7}, LAST "A.B_C-9", NULL},
	{0, {"..", 2}, FIRST "..", NULL},
	{1, {"_", 1}, SECOND "_", NULL},
	{2, {".", 1}, LAST ".", NULL},
	{0, {"a/../b", 6}, FIRST "a-..-b", NULL},
	{1, {"/etc/passwd", 11}, SECOND "etc-passwd", NULL},
	{2, {"a\x00" "b", 3}, LAST "a-b", NULL},
	{0, {"\x00" "a\x00", 3}, FIRST "a", NULL},
	{1, {"a\x09" "b\x0a" "c", 5}, SECOND "a-b-c", NULL},
	{1, {"MiXeD Case", 10}, SECOND "MiXeD-Case", NULL},
	{2, {"\xc2\xa0nbsp\xc2\xa0", 8}, LAST "nbsp", NULL},
	{0, {"\xe3\x80\x80wide\xe3\x80\x80", 10}, FIRST "wide", NULL},
	{1, {"\x1c" "fs\x1f", 4}, SECOND "fs", NULL},
	{2, {"a\x7f" "b", 3}, LAST "a-b", NULL},
	{0, {"a\xe2\x80\x8b" "b", 5}, FIRST "a-b", NULL},
	{1, {"group_123456", 12}, SECOND "group_123456", NULL},
	{2, {"websocket!x", 11}, LAST "websocket-x", NULL},
	{0, {"(((a)))", 7}, FIRST "a", NULL},
	{1, {"-", 1}, NULL, NO_CHARACTER},
	{2, {"a-", 2}, LAST "a", NULL},
	{0, {"\xc3\xa9" "a", 3}, FIRST "a", NULL},
	{1, {"%2F..%2F", 8}, SECOND "2F..-2F", NULL},
	{2, {"a@b.c", 5}, LAST "a-b.c", NULL},
	{0, {"", 0}, NULL, EMPTY},
	{1, {" ", 1}, NULL, EMPTY},
	{2, {" \t\r\n\v\f", 6}, NULL, EMPTY},
	{0, {"---", 3}, NULL, NO_CHARACTER},
	{1, {":/ !", 4}, NULL, NO_CHARACTER},
	{2, {"- : -", 5}, NULL, NO_CHARACTER},
	{0, {"\0", 1}, NULL, NO_CHARACTER},
};
/* clang-format on */

TEST(namespaces)
{
	static const struct {
		const char *instance;
		const char *workspace;
		const char *name;
	} rows[] = {
		{"inst", "ws", "ws-108378aeed2d7cca4480d35e"},
		{"langbot-1", "7f3c", "ws-ca5ff518d65068e1fd523be8"},
		{"a", "b", "ws-59b271ae1bbcb1d31d419298"},
		{"inst", "", "ws-636d190b02a2f0e0e1d189ed"},
		{"in", "stws", "ws-5e0d25144761620f70b20bf0"},
		{"\xe5\xae\x9e\xe4\xbe\x8b", "\xe5\xb7\xa5\xe4\xbd\x9c\xe5\x8c\xba",
			"ws-7a7b91fb5326e772cff3a0e7"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		char name[BOX_NAMESPACE_SIZE];
		struct box_context context = {
			box_str(rows[i].instance), box_str(rows[i].workspace), 9};
		box_tenant_namespace(&context, name);
		ASSERT_STR(name, rows[i].name);
	}
	char long_instance[128];
	char long_workspace[256];
	char name[BOX_NAMESPACE_SIZE];
	memset(long_instance, 'i', sizeof(long_instance));
	memset(long_workspace, 'w', sizeof(long_workspace));
	struct box_context context = {{long_instance, 128}, {long_workspace, 256}, 1};
	box_tenant_namespace(&context, name);
	ASSERT_STR(name, "ws-ddaf47d5e953b6c01daa1783");
}

TEST(prefix)
{
	char out[BOX_PHYSICAL_ID_SIZE];
	ASSERT_INT(box_tenant_prefix(&contexts[0], out), strlen(FIRST));
	ASSERT_STR(out, FIRST);
	ASSERT_INT(box_tenant_prefix(&contexts[2], out), strlen(LAST));
	ASSERT_STR(out, LAST);
	struct box_context lowest = {{"inst", 4}, {"ws", 2}, INT64_MIN};
	(void)box_tenant_prefix(&lowest, out);
	ASSERT_STR(out, "ws-108378aeed2d7cca4480d35e-g-9223372036854775808-");
}

TEST(physical_ids)
{
	for (size_t i = 0; i < COUNT(id_rows); i++) {
		char out[BOX_PHYSICAL_ID_SIZE];
		struct box_err err = {0};
		int r = box_tenant_physical_id(
			&contexts[id_rows[i].context], id_rows[i].logical, out, &err);
		if (id_rows[i].physical) {
			ASSERT_INT(r, 0);
			ASSERT_STR(out, id_rows[i].physical);
		} else {
			ASSERT_INT(r, -EINVAL);
			ASSERT_INT(err.code, BOX_ERR_VALUE);
			ASSERT_STR(err.text, id_rows[i].error);
		}
	}
}

/* The longest possible id, in a buffer of exactly its size; white space around it is ignored. */
TEST(lengths)
{
	char *out = malloc(BOX_PHYSICAL_ID_SIZE);
	char logical[BOX_SESSION_ID_MAX + 4];
	struct box_err err = {0};
	struct box_context lowest = {{"inst", 4}, {"ws", 2}, INT64_MIN};
	memset(logical, 'x', sizeof(logical));
	struct box_str most = {logical, BOX_SESSION_ID_MAX};
	ASSERT_INT(box_tenant_physical_id(&lowest, most, out, &err), 0);
	ASSERT_INT(strlen(out), strlen("ws-108378aeed2d7cca4480d35e-g-9223372036854775808-") + 512);

	struct box_str more = {logical, BOX_SESSION_ID_MAX + 1};
	ASSERT_INT(box_tenant_physical_id(&lowest, more, out, &err), -EINVAL);
	ASSERT_INT(err.code, BOX_ERR_VALUE);
	ASSERT_STR(err.text, "Box session_id must be at most 512 bytes");

	logical[0] = ' ';
	logical[BOX_SESSION_ID_MAX + 1] = '\n';
	struct box_str padded = {logical, BOX_SESSION_ID_MAX + 2};
	ASSERT_INT(box_tenant_physical_id(&contexts[0], padded, out, &err), 0);
	ASSERT_INT(strlen(out), strlen(FIRST) + 512);
	free(out);
}

/* Two spellings of one session, and none that reaches another placement. */
TEST(same_and_different)
{
	char a[BOX_PHYSICAL_ID_SIZE];
	char b[BOX_PHYSICAL_ID_SIZE];
	struct box_context first = {box_str("inst"), box_str("ws"), 1};
	struct box_context eleventh = {box_str("inst"), box_str("ws"), 11};
	ASSERT_INT(box_tenant_physical_id(&first, box_str("person:1/a b"), a, NULL), 0);
	ASSERT_INT(box_tenant_physical_id(&first, box_str("person-1-a-b"), b, NULL), 0);
	ASSERT_STR(a, b);
	ASSERT_INT(box_tenant_physical_id(&first, box_str("1-x"), a, NULL), 0);
	ASSERT_INT(box_tenant_physical_id(&eleventh, box_str("x"), b, NULL), 0);
	ASSERT(strcmp(a, b) != 0);
	ASSERT(box_tenant_same_workspace(&first, &eleventh));
	struct box_context other = {box_str("inst"), box_str("ws2"), 1};
	ASSERT(!box_tenant_same_workspace(&first, &other));
}
