/* The pure parts of box-vmm: the tail of the console, the boot file, numbers of mounts, search
 * paths of libraries. */
#include <errno.h>
#include <sys/mman.h>

#include "tests/unit/lib/test.h"
#include "vmm/boot_image.h"
#include "vmm/bridge/console.h"
#include "vmm/bridge/mount_helper.h"
#include "vmm/libkrun.h"

/* --- the console --- */

static struct box_console console;
static char text[BOX_MICROVM_TEXT_MAX];

static const char *shown(size_t size)
{
	box_console_text(&console, text, size);
	return text;
}

static void say(const char *words)
{
	box_console_add(&console, words, strlen(words));
}

TEST(an_empty_console)
{
	ASSERT_STR(shown(sizeof(text)), "");
	say("\n\n");
	ASSERT_STR(shown(sizeof(text)), "");
}

TEST(console_lines_as_they_came)
{
	say("one\r\ntw");
	say("o\n");
	ASSERT_STR(shown(sizeof(text)), "one\ntwo");
}

TEST(nothing_but_text_comes_out_of_a_console)
{
	char all[256];
	for (size_t i = 0; i < sizeof(all); i++) {
		all[i] = (char)i;
	}
	box_console_add(&console, all, sizeof(all));
	say("\x1b[31mred\x1b]0;title\x07 end");
	for (const char *c = shown(sizeof(text)); *c; c++) {
		ASSERT(*c == '\n' || (*c >= ' ' && *c <= '~'));
	}
	ASSERT(strstr(text, "?[31mred?]0;title? end"));
}

TEST(the_last_whole_lines_of_a_console)
{
	say("aaaa\nbbbb\ncccc\n");
	ASSERT_STR(shown(15), "aaaa\nbbbb\ncccc");
	ASSERT_STR(shown(14), "bbbb\ncccc");
	ASSERT_STR(shown(10), "bbbb\ncccc");
	ASSERT_STR(shown(9), "cccc");
	ASSERT_STR(shown(5), "cccc");
	ASSERT_STR(shown(4), "ccc");
	ASSERT_STR(shown(1), "");
}

/* However the output is split, its tail is kept. */
TEST(a_console_that_never_ends)
{
	static char line[64];
	static char much[3 * BOX_VMM_CONSOLE_BYTES];
	for (int i = 0; i < 10000; i++) {
		(void)snprintf(line, sizeof(line), "line %d of a guest that talks\n", i);
		say(line);
	}
	(void)shown(sizeof(text));
	ASSERT(strncmp(text, "line ", 5) == 0);
	ASSERT_STR(strrchr(text, '\n'), "\nline 9999 of a guest that talks");
	ASSERT(strlen(text) > sizeof(text) - sizeof(line));
	memset(much, 'x', sizeof(much));
	/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): no text, but bytes */
	memcpy(much + sizeof(much) - 5, "\nlast", 5);
	box_console_add(&console, much, sizeof(much));
	ASSERT_STR(shown(sizeof(text)), "last");
	memset(much, 'x', sizeof(much));
	box_console_add(&console, much, sizeof(much));
	ASSERT_INT(strlen(shown(sizeof(text))), sizeof(text) - 1);
}

/* --- the boot file --- */

static struct {
	struct box_init_boot guest;
	struct box_init_path_rule rule;
	struct box_microvm_boot machine;
	struct box_root_step root_steps;
} __attribute__((packed)) file;

static void fill(void)
{
	file.guest = (struct box_init_boot){
		.size = sizeof(file.guest), .rule_count = 1, .payload_uid = 7};
	file.machine = (struct box_microvm_boot){.size = sizeof(file.machine),
		.root_step_count = 1,
		.memory_mib = 128,
		.cpus = 2,
		.deadline_ms = 1000};
	file.root_steps = (struct box_root_step){.kind = BOX_ROOT_STEP_TMPFS, .target = "/"};
}

static int read_image(const void *bytes, size_t size, struct box_boot_image *image)
{
	int fd = memfd_create("boot", MFD_CLOEXEC);
	ASSERT(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	int r = box_boot_image_read(fd, image);
	(void)close(fd);
	return r;
}

TEST(a_boot_file_with_its_order)
{
	struct box_boot_image image;
	struct box_microvm_parts parts;
	fill();
	ASSERT_INT(read_image(&file, sizeof(file), &image), 0);
	ASSERT_INT(image.guest.payload_uid, 7);
	ASSERT_INT(image.microvm.memory_mib, 128);
	ASSERT_INT(image.size, sizeof(file) + sizeof(struct box_microvm_order));
	box_boot_image_add_order(&image, BOX_INIT_ORDER_QUOTA, 12345678901234567ULL);
	/* As the guest reads it. */
	ASSERT_INT(box_microvm_find_parts(image.bytes, image.size, &parts), 0);
	ASSERT_INT(parts.order.order, BOX_INIT_ORDER_QUOTA);
	ASSERT_INT(parts.order.realtime_ns, 12345678901234567LL);
	ASSERT_BYTES(image.bytes, sizeof(file), &file, sizeof(file));
	box_boot_image_free(&image);
	box_boot_image_free(&image);
}

TEST(what_is_no_boot_file)
{
	struct box_boot_image image;
	fill();
	for (size_t size = 0; size < sizeof(file); size += 97) {
		ASSERT_INT(read_image(&file, size, &image), -EBADMSG);
	}
#define WITH(member, value)                                                    \
	do {                                                                   \
		fill();                                                        \
		file.member = (value);                                         \
		ASSERT_INT(read_image(&file, sizeof(file), &image), -EBADMSG); \
	} while (0)
	WITH(guest.size, sizeof(file.guest) + 1);
	WITH(guest.rule_count, 2);
	WITH(guest.rule_count, UINT32_MAX);
	WITH(guest.filter_count, UINT32_MAX);
	WITH(guest.mounter_filter_count, UINT32_MAX);
	WITH(machine.size, 0);
	WITH(machine.root_step_count, 0);
	WITH(machine.root_step_count, UINT32_MAX);
	WITH(machine.memory_mib, BOX_VMM_MEMORY_MIB_MIN - 1);
	WITH(machine.memory_mib, BOX_VMM_MEMORY_MIB_MAX + 1);
	WITH(machine.cpus, 0);
	WITH(machine.cpus, BOX_VMM_CPUS_MAX + 1);
	WITH(machine.deadline_ms, 0);
	WITH(machine.deadline_ms, BOX_VMM_DEADLINE_MS_MAX + 1);
	WITH(machine.prefix, 33);
	static char big[BOX_VMM_BOOT_BYTES_MAX + 1];
	ASSERT_INT(read_image(big, sizeof(big), &image), -EBADMSG);
	ASSERT_INT(box_boot_image_read(-1, &image), -EBADF);
}

/* --- numbers of mounts --- */

static struct box_mount_numbers mounts;

TEST(numbers_are_given_once)
{
	ASSERT_INT(box_mount_helper_take_number(&mounts, 5), 1);
	ASSERT_INT(box_mount_helper_take_number(&mounts, 6), 2);
	ASSERT_INT(box_mount_helper_take_number(&mounts, 5), 3);
	ASSERT_INT(box_mount_helper_drop_number(&mounts, 7), 0);
	uint32_t first = box_mount_helper_drop_number(&mounts, 5);
	uint32_t second = box_mount_helper_drop_number(&mounts, 5);
	ASSERT_INT(first + second, 1 + 3);
	ASSERT_INT(box_mount_helper_drop_number(&mounts, 5), 0);
	ASSERT_INT(box_mount_helper_take_number(&mounts, 5), 4);
	ASSERT_INT(box_mount_helper_drop_number_upto(&mounts, 3), 2);
	ASSERT_INT(box_mount_helper_drop_number_upto(&mounts, 3), 0);
	ASSERT_INT(mounts.count, 1);
}

TEST(numbers_end)
{
	for (uint32_t i = 0; i < BOX_VMM_MOUNTS_MAX; i++) {
		ASSERT_INT(box_mount_helper_take_number(&mounts, 1), i + 1);
	}
	ASSERT_INT(box_mount_helper_take_number(&mounts, 1), BOX_MOUNT_NUMBERS_NONE);
	ASSERT(box_mount_helper_drop_number(&mounts, 1) > 0);
	ASSERT_INT(box_mount_helper_take_number(&mounts, 1), BOX_VMM_MOUNTS_MAX + 1);
	while (box_mount_helper_drop_number(&mounts, 1) > 0) {
	}
	mounts.last = BOX_MOUNT_NUMBERS_NONE - 2;
	ASSERT_INT(box_mount_helper_take_number(&mounts, 1), BOX_MOUNT_NUMBERS_NONE - 1);
	ASSERT_INT(box_mount_helper_take_number(&mounts, 1), BOX_MOUNT_NUMBERS_NONE);
	ASSERT_INT(mounts.count, 1);
}

/* --- folders --- */

TEST(folders_of_a_program)
{
	static struct box_libkrun_folders folders;
	box_libkrun_folders_of("/opt/b/libexec/box/box-vmm", "/opt/b/lib/box", &folders);
	ASSERT_STR(folders.list[0], "/opt/b/libexec/box/../lib/box");
	ASSERT_STR(folders.list[1], "/opt/b/libexec/box/../../lib/box");
	ASSERT_STR(folders.list[2], "/opt/b/libexec/box/libkrun");
	ASSERT_STR(folders.list[3], "/opt/b/lib/box");
	ASSERT(!folders.list[4]);
	/* Its own path is unknown; relative paths are not used. */
	box_libkrun_folders_of("", "lib", &folders);
	ASSERT(!folders.list[0]);
}
