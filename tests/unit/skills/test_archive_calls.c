/* box_archive_calls is complete: a caller that may use only these calls can unpack. */
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/log.h"
#include "skills/archive/archive.h"
#include "tests/unit/lib/zip_maker.h"

static int add_call(scmp_filter_ctx filter, const char *name)
{
	int number = seccomp_syscall_resolve_name(name);
	ASSERT(number != __NR_SCMP_ERROR);
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
}

/* As our filters do: a call that is not on the list fails. */
static void keep_calls(void)
{
	/* Calls that the test needs to report its result. */
	static const char *const own[] = {"unlinkat", "sigaltstack"};
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	ASSERT(filter);
	for (const char *const *name = box_archive_calls; *name; name++) {
		ASSERT_INT(add_call(filter, *name), 0);
	}
	for (size_t i = 0; i < COUNT(own); i++) {
		ASSERT_INT(add_call(filter, own[i]), 0);
	}
	ASSERT_INT(seccomp_load(filter), 0);
	seccomp_release(filter);
}

TEST(they_are_enough)
{
	static char content[5 * BOX_MIB];
	const struct zip_item items[] = {
		{.name = "a/b/c", .content = "hello hello hello", .method = 8},
		{.name = "large", .content = content, .content_len = sizeof(content)},
	};
	static struct box_err err;
	char folder[] = "/tmp/box-archive-XXXXXX";
	box_log_setup("test", BOX_LOG_ERROR, BOX_LOG_TEXT);
	struct box_buf buf = zip_make(items, COUNT(items), NULL);
	int archive = memfd_create("zip", MFD_CLOEXEC);
	ASSERT(mkdtemp(folder) && archive >= 0);
	ASSERT_INT(write(archive, buf.bytes, buf.len), buf.len);
	int out = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int parent = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	keep_calls();
	int unpacked = box_archive_unpack(archive, out, &err);
	int removed = unlinkat(out, "a/b/c", 0) | unlinkat(out, "large", 0) |
		unlinkat(out, "a/b", AT_REMOVEDIR) | unlinkat(out, "a", AT_REMOVEDIR) |
		unlinkat(parent, folder + strlen("/tmp/"), AT_REMOVEDIR);
	if (unpacked < 0) {
		(void)!write(STDERR_FILENO, err.text, strlen(err.text));
	}
	/* The leak checker at the end of a test needs more calls. */
	_exit(unpacked < 0 || removed < 0);
}
