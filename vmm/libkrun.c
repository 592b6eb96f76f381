/* Owns all that is known about libkrun: where it is found, the names and types of its functions, and the order in
 * which they are called. Called by vmm_run.c, vmm_probe.c and microvm_process.c. */
#include "vmm/libkrun.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/macros.h"
#include "protocol/microvm.h"

#define ROOT_TAG "/dev/root"
#define LOG_ERRORS 1
#define LOG_STYLE_NEVER 2
#define LOG_NO_ENVIRONMENT 1
#define NO_TSI 0
/* No DAX window: libkrun 1.19.7 checks offsets in it by a sum that a guest can make overflow, and could then
 * map files over the memory of the microVM process. */
#define NO_DAX 0
/* Checksums and large segments, which passt understands; libkrun's own choice for it. */
#define NET_FEATURES (1U << 0 | 1U << 1 | 1U << 7 | 1U << 10 | 1U << 11 | 1U << 14)

/* In the order of `symbols`. */
struct calls {
	int32_t (*init_log)(int fd, uint32_t level, uint32_t style, uint32_t options);
	int32_t (*create_ctx)(void);
	int32_t (*set_vm_config)(uint32_t ctx, uint8_t cpus, uint32_t memory_mib);
	int32_t (*disable_implicit_init)(uint32_t ctx);
	int32_t (*set_console_output)(uint32_t ctx, const char *path);
	int32_t (*disable_implicit_vsock)(uint32_t ctx);
	int32_t (*add_vsock)(uint32_t ctx, uint32_t tsi);
	int32_t (*add_vsock_port2)(uint32_t ctx, uint32_t port, const char *path, bool listen);
	int32_t (*add_virtiofs3)(
		uint32_t ctx, const char *tag, const char *path, uint64_t dax, bool read_only);
	int32_t (*fs_add_overlay_file)(uint32_t ctx, const char *tag, const char *path,
		const void *bytes, size_t size, uint32_t mode, bool one_shot);
	int32_t (*start_enter)(uint32_t ctx);
	/* missing in a build without network */
	int32_t (*add_net_unixstream)(uint32_t ctx, const char *path, int fd, const uint8_t *mac,
		uint32_t features, uint32_t flags);
};

static const char *const symbols[] = {
	"krun_init_log",
	"krun_create_ctx",
	"krun_set_vm_config",
	"krun_disable_implicit_init",
	"krun_set_console_output",
	"krun_disable_implicit_vsock",
	"krun_add_vsock",
	"krun_add_vsock_port2",
	"krun_add_virtiofs3",
	"krun_fs_add_overlay_file",
	"krun_start_enter",
	"krun_add_net_unixstream",
};
#define SYMBOL_COUNT (BOX_COUNT_OF(symbols))
#define NEEDED_COUNT (SYMBOL_COUNT - 1)
_Static_assert(sizeof(struct calls) == SYMBOL_COUNT * sizeof(void *), "a name for each call");

struct box_libkrun {
	void *firmware;
	void *library;
	struct calls calls;
};

void box_libkrun_close(struct box_libkrun *krun)
{
	if (!krun) {
		return;
	}
	if (krun->library) {
		(void)dlclose(krun->library);
	}
	if (krun->firmware) {
		(void)dlclose(krun->firmware);
	}
	free(krun);
}

static void close_p(struct box_libkrun **krun)
{
	box_libkrun_close(*krun);
}

/* --- finding the libraries --- */

/* Beside the program first: what was installed or built with it. */
void box_libkrun_folders_of(
	const char *program, const char *libdir, struct box_libkrun_folders *ret_folders)
{
	/* PREFIX/bin, PREFIX/libexec/box, a build folder. */
	static const char *const beside[] = {"/../lib/box", "/../../lib/box", "/libkrun"};
	size_t count = 0;
	const char *slash = strrchr(program, '/');
	for (size_t i = 0; slash && i < BOX_COUNT_OF(beside); i++) {
		char *path = ret_folders->paths[count];
		int len = snprintf(
			path, BOX_PATH_MAX, "%.*s%s", (int)(slash - program), program, beside[i]);
		if (len > 0 && (size_t)len < BOX_PATH_MAX) {
			ret_folders->list[count++] = path;
		}
	}
	if (libdir[0] == '/') {
		(void)snprintf(ret_folders->paths[count], BOX_PATH_MAX, "%s", libdir);
		ret_folders->list[count] = ret_folders->paths[count];
		count++;
	}
	ret_folders->list[count] = NULL;
}

void box_libkrun_find_folders(struct box_libkrun_folders *ret_folders)
{
	char program[BOX_PATH_MAX] = "";
	ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
	program[len > 0 ? len : 0] = '\0';
	box_libkrun_folders_of(program, BOX_LIBDIR, ret_folders);
}

/* libkrun.so.1.19.7 is version 1.19.7; a single number is not a version. */
static void read_version(const char *path, char *version, size_t size)
{
	const char *dot = strstr(path, ".so.");
	const char *number = dot ? dot + strlen(".so.") : "";
	version[0] = '\0';
	size_t len = strlen(number);
	if (strchr(number, '.') && strspn(number, "0123456789.") == len && len < size) {
		memcpy(version, number, len + 1);
	}
}

static void describe_file(void *handle, struct box_libkrun_file *file)
{
	struct link_map *map = NULL;
	if (!file || dlinfo(handle, RTLD_DI_LINKMAP, &map) < 0 || !map->l_name) {
		return;
	}
	_cleanup_(box_free_p) char *real = realpath(map->l_name, NULL);
	(void)snprintf(file->path, sizeof(file->path), "%s", real ? real : map->l_name);
	read_version(file->path, file->version, sizeof(file->version));
}

/* A library that exists but cannot be loaded is an error: it was installed to be used. */
static int open_file(const char *const *folders, const char *name, void **ret_handle,
	struct box_libkrun_file *file, struct box_err *err)
{
	char path[BOX_PATH_MAX];
	void *handle = NULL;
	for (; !handle && *folders; folders++) {
		int len = snprintf(path, sizeof(path), "%s/%s", *folders, name);
		if (len < 0 || (size_t)len >= sizeof(path) || access(path, F_OK) < 0) {
			continue;
		}
		handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!handle) {
			return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, ELIBBAD,
				"%s cannot be loaded: %s", path, dlerror());
		}
	}
	if (!handle) {
		handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	}
	if (!handle) {
		return box_err_set(
			err, BOX_ERR_BACKEND_UNAVAILABLE, ENOENT, "no %s: %s", name, dlerror());
	}
	describe_file(handle, file);
	*ret_handle = handle;
	return 0;
}

static int find_calls(
	struct box_libkrun *krun, const struct box_libkrun_file *file, struct box_err *err)
{
	for (size_t i = 0; i < SYMBOL_COUNT; i++) {
		void *found = dlsym(krun->library, symbols[i]);
		if (!found && i < NEEDED_COUNT) {
			return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP,
				"%s is older than " BOX_LIBKRUN_OLDEST ": it has no %s",
				file && file->path[0] != '\0' ? file->path : BOX_LIBKRUN_LIBRARY,
				symbols[i]);
		}
		/* A function's address, which C has no cast for. */
		memcpy((char *)&krun->calls + i * sizeof(found), &found, sizeof(found));
	}
	return 0;
}

int box_libkrun_open(const char *const *folders, struct box_libkrun **ret_krun,
	struct box_libkrun_file files[2], struct box_err *err)
{
	struct box_libkrun_file *library = files ? &files[0] : NULL;
	struct box_libkrun_file *firmware = files ? &files[1] : NULL;
	_cleanup_(close_p) struct box_libkrun *krun = calloc(1, sizeof(*krun));
	if (!krun) {
		return box_err_set(err, BOX_ERR_OS, ENOMEM, "out of memory");
	}
	/* libkrun opens libkrunfw by name later, when no host file is accessible any more: then the
	 * loaded one is found by its name. */
	int r = open_file(folders, BOX_LIBKRUN_LIBRARY, &krun->library, library, err);
	if (r == 0) {
		r = find_calls(krun, library, err);
	}
	if (r == 0) {
		r = open_file(folders, BOX_LIBKRUN_FIRMWARE, &krun->firmware, firmware, err);
	}
	if (r == 0 && !dlsym(krun->firmware, "krunfw_get_kernel")) {
		r = box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP, "%s has no kernel in it",
			firmware ? firmware->path : BOX_LIBKRUN_FIRMWARE);
	}
	if (r < 0) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): close_p frees it */
		return r;
	}
	*ret_krun = TAKE_PTR(krun);
	return 0;
}

/* --- the guest --- */

static int refused(struct box_err *err, const char *call, int32_t r)
{
	int errnum = r < 0 ? -r : EPROTO;
	return box_err_set(err, BOX_ERR_BOX, errnum, "libkrun: %s: %s", call,
		box_err_strerror(errnum) ? box_err_strerror(errnum) : "an unknown error");
}

#define TRY(call, ...)                                          \
	do {                                                    \
		int32_t r_ = krun->calls.call(__VA_ARGS__);     \
		if (r_ < 0) {                                   \
			return refused(err, "krun_" #call, r_); \
		}                                               \
	} while (0)

/* Two files in an empty root, and the share. */
static int add_files(struct box_libkrun *krun, uint32_t ctx, const struct box_libkrun_guest *guest,
	struct box_err *err)
{
	TRY(disable_implicit_init, ctx); /* before there is a root to put it into */
	TRY(add_virtiofs3, ctx, ROOT_TAG, NULL, NO_DAX, true);
	TRY(fs_add_overlay_file, ctx, ROOT_TAG, BOX_MICROVM_INIT, guest->init, guest->init_size,
		0755, false);
	TRY(fs_add_overlay_file, ctx, ROOT_TAG, BOX_MICROVM_BOOT, guest->boot, guest->boot_size,
		0400, false);
	TRY(add_virtiofs3, ctx, BOX_MICROVM_SHARE, guest->share, NO_DAX, guest->share == NULL);
	return 0;
}

/* The console, one socket of the host, and passt as the only network card. */
static int add_devices(struct box_libkrun *krun, uint32_t ctx,
	const struct box_libkrun_guest *guest, struct box_err *err)
{
	TRY(set_console_output, ctx, guest->console_path);
	TRY(disable_implicit_vsock, ctx);
	TRY(add_vsock, ctx, NO_TSI);
	TRY(add_vsock_port2, ctx, BOX_MICROVM_PORT, guest->socket_path, false);
	if (guest->net_fd < 0) {
		return 0;
	}
	if (!krun->calls.add_net_unixstream) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP,
			"this libkrun was built without a network");
	}
	TRY(add_net_unixstream, ctx, NULL, guest->net_fd, guest->mac, NET_FEATURES, 0);
	return 0;
}

int box_libkrun_enter(
	struct box_libkrun *krun, const struct box_libkrun_guest *guest, struct box_err *err)
{
	if (guest->log_fd >= 0) {
		TRY(init_log, guest->log_fd, LOG_ERRORS, LOG_STYLE_NEVER, LOG_NO_ENVIRONMENT);
	}
	int32_t created = krun->calls.create_ctx();
	if (created < 0) {
		return refused(err, "krun_create_ctx", created);
	}
	uint32_t ctx = (uint32_t)created;
	TRY(set_vm_config, ctx, (uint8_t)guest->cpus, guest->memory_mib);
	int r = add_files(krun, ctx, guest, err);
	if (r < 0) {
		return r;
	}
	r = add_devices(krun, ctx, guest, err);
	if (r < 0) {
		return r;
	}
	return refused(err, "krun_start_enter", krun->calls.start_enter(ctx));
}
