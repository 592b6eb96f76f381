/* The adapter of libkrun, against a fake: which calls it makes, and its errors for a library that
 * is missing, too old, or fails. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/unit/lib/test.h"
#include "vmm/libkrun.h"

static char folder[] = "/tmp/test_krun_XXXXXX";
static const char *const folders[] = {"/nonexistent", folder, NULL};
static struct box_libkrun_file files[2];
static struct box_err err;

static void remove_folder(void)
{
	char command[64];
	(void)snprintf(command, sizeof(command), "rm -rf %s", folder);
	if (system(command) != 0) {
		_exit(1);
	}
}

static void put(const char *variable, const char *name)
{
	char path[256];
	const char *from = getenv(variable);
	if (!from) {
		TEST_FAIL("%s names no library", variable);
	}
	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	ASSERT_INT(symlink(from, path), 0);
}

static void begin(void)
{
	ASSERT(mkdtemp(folder));
	ASSERT_INT(atexit(remove_folder), 0);
}

static void refused(int errnum, const char *words)
{
	struct box_libkrun *krun = NULL;
	ASSERT_INT(box_libkrun_open(folders, &krun, files, &err), -errnum);
	ASSERT(!krun);
	if (!strstr(err.text, words)) {
		TEST_FAIL("\"%s\" is not in \"%s\"", words, err.text);
	}
}

TEST(no_library)
{
	begin();
	refused(ENOENT, "no libkrun.so.1: ");
	ASSERT_STR(files[0].path, "");
}

TEST(no_kernel)
{
	begin();
	put("FAKE_KRUN", "libkrun.so.1");
	refused(ENOENT, "no libkrunfw.so.5: ");
	ASSERT(strstr(files[0].path, "fake_krun"));
	ASSERT_STR(files[1].path, "");
}

TEST(an_old_library)
{
	begin();
	put("FAKE_KRUN_OLD", "libkrun.so.1");
	put("FAKE_KRUN", "libkrunfw.so.5");
	refused(ENOTSUP, "is older than 1.19: it has no krun_fs_add_overlay_file");
}

TEST(a_file_that_is_no_library)
{
	begin();
	char path[256];
	(void)snprintf(path, sizeof(path), "%s/libkrun.so.1", folder);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	ASSERT(fd >= 0 && write(fd, "text", 4) == 4 && close(fd) == 0);
	refused(ELIBBAD, "libkrun.so.1 cannot be loaded: ");
}

TEST(a_kernel_that_is_none)
{
	begin();
	put("FAKE_KRUN", "libkrun.so.1");
	put("FAKE_EMPTY", "libkrunfw.so.5");
	refused(ENOTSUP, "has no kernel in it");
}

/* --- what it does with one --- */

static char said[8192];

static int enter(const struct box_libkrun_guest *machine)
{
	struct box_libkrun *krun = NULL;
	if (box_libkrun_open(folders, &krun, files, &err) < 0) {
		TEST_FAIL("%s", err.text);
	}
	int fd = memfd_create("said", MFD_CLOEXEC);
	char number[16];
	(void)snprintf(number, sizeof(number), "%d", fd);
	ASSERT_INT(setenv("FAKE_KRUN_FD", number, 1), 0);
	int r = box_libkrun_enter(krun, machine, &err);
	ssize_t got = pread(fd, said, sizeof(said) - 1, 0);
	said[got > 0 ? got : 0] = '\0';
	(void)close(fd);
	box_libkrun_close(krun);
	return r;
}

static struct box_libkrun_guest machine = {
	.cpus = 2,
	.memory_mib = 512,
	.init = "INIT",
	.init_size = 4,
	.boot = "BOOT",
	.boot_size = 4,
	.share = "/share",
	.socket_path = "/run/s",
	.console_path = "/c",
	.log_fd = 2,
	.net_fd = -1,
	.mac = {2, 0, 0, 0, 0, 9},
};

static void begin_whole(const char *library)
{
	begin();
	put(library, "libkrun.so.1");
	put("FAKE_KRUN", "libkrunfw.so.5");
}

#define BEFORE                                                          \
	"krun_init_log(1,1,2,1)\n"                                      \
	"krun_create_ctx()\n"                                           \
	"krun_set_vm_config(3,2,512)\n"                                 \
	"krun_disable_implicit_init(3)\n"                               \
	"krun_add_virtiofs3(3,/dev/root,-,0,1)\n"                       \
	"krun_fs_add_overlay_file(3,/dev/root,/init.krun,INIT,755,0)\n" \
	"krun_fs_add_overlay_file(3,/dev/root,/boot.box,BOOT,400,0)\n"
#define LINES                              \
	"krun_set_console_output(3,/c)\n"  \
	"krun_disable_implicit_vsock(3)\n" \
	"krun_add_vsock(3,0)\n"            \
	"krun_add_vsock_port2(3,1024,/run/s,0)\n"

TEST(a_machine_without_a_network)
{
	begin_whole("FAKE_KRUN");
	ASSERT_INT(enter(&machine), -EINVAL);
	ASSERT_STR(err.text, "libkrun: krun_start_enter: Invalid argument");
	ASSERT_STR(said,
		BEFORE "krun_add_virtiofs3(3,share,/share,0,0)\n" LINES "krun_start_enter(3)\n");
}

TEST(a_machine_with_a_network_and_no_share)
{
	begin_whole("FAKE_KRUN");
	machine.net_fd = 7;
	machine.share = NULL;
	ASSERT_INT(enter(&machine), -EINVAL);
	ASSERT_STR(said,
		BEFORE "krun_add_virtiofs3(3,share,-,0,1)\n" LINES
		       "krun_add_net_unixstream(3,-,7,02:09,1,0)\nkrun_start_enter(3)\n");
}

TEST(a_library_without_a_network)
{
	begin_whole("FAKE_KRUN_WITHOUT_NET");
	ASSERT_INT(enter(&machine), -EINVAL);
	machine.net_fd = 7;
	ASSERT_INT(enter(&machine), -ENOTSUP);
	ASSERT(strstr(err.text, "without a network"));
	ASSERT(!strstr(said, "krun_start_enter"));
}

/* Whichever call it refuses, nothing is started. */
TEST(calls_that_are_refused)
{
	static const char *const calls[] = {"krun_init_log", "krun_create_ctx",
		"krun_set_vm_config", "krun_disable_implicit_init", "krun_add_virtiofs3",
		"krun_fs_add_overlay_file", "krun_set_console_output",
		"krun_disable_implicit_vsock", "krun_add_vsock", "krun_add_vsock_port2",
		"krun_add_net_unixstream"};
	begin_whole("FAKE_KRUN");
	machine.net_fd = 7;
	for (size_t i = 0; i < COUNT(calls); i++) {
		char words[128];
		ASSERT_INT(setenv("FAKE_KRUN_REFUSES", calls[i], 1), 0);
		ASSERT_INT(enter(&machine), -EBUSY);
		(void)snprintf(
			words, sizeof(words), "libkrun: %s: Device or resource busy", calls[i]);
		ASSERT_STR(err.text, words);
		ASSERT(!strstr(said, "krun_start_enter"));
	}
}

TEST(versions_by_the_names_of_files)
{
	char from[256];
	char to[256];
	begin();
	put("FAKE_KRUN", "whole");
	(void)snprintf(from, sizeof(from), "cp -L %s/whole %s/libkrun.so.1.19.7", folder, folder);
	ASSERT_INT(system(from), 0);
	(void)snprintf(to, sizeof(to), "%s/libkrun.so.1", folder);
	ASSERT_INT(symlink("libkrun.so.1.19.7", to), 0);
	put("FAKE_KRUN", "libkrunfw.so.5");
	struct box_libkrun *krun = NULL;
	ASSERT_INT(box_libkrun_open(folders, &krun, files, &err), 0);
	ASSERT_STR(files[0].version, "1.19.7");
	ASSERT_STR(files[1].version, "");
	box_libkrun_close(krun);
}
