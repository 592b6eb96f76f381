/* libkrun and its kernel, libkrunfw, loaded at run time so that one box-vmm works on hosts with and without
 * them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"

#define BOX_LIBKRUN_LIBRARY "libkrun.so.1"
#define BOX_LIBKRUN_FIRMWARE "libkrunfw.so.5"
#define BOX_LIBKRUN_OLDEST "1.19" /* the first version with every call used here */

#define BOX_LIBKRUN_VERSION_SIZE 32
#define BOX_LIBKRUN_MAC_SIZE 6

/* Where one of the two libraries was found. */
struct box_libkrun_file {
	char path[BOX_PATH_MAX];                /* with links resolved; empty: not found */
	char version[BOX_LIBKRUN_VERSION_SIZE]; /* according to its file name, else empty */
};

/* The folders where box-vmm looks for its libraries. */
#define BOX_LIBKRUN_FOLDERS 4
struct box_libkrun_folders {
	char paths[BOX_LIBKRUN_FOLDERS][BOX_PATH_MAX];
	const char *list[BOX_LIBKRUN_FOLDERS + 1]; /* terminated by NULL */
};

/* For a program with this path; `libdir` was configured for the build. Pure. */
void box_libkrun_folders_of(
	const char *program, const char *libdir, struct box_libkrun_folders *ret_folders);
/* For this program, independently of the environment. */
void box_libkrun_find_folders(struct box_libkrun_folders *ret_folders);

struct box_libkrun;

/* Looks for both in each of the folders (terminated by NULL), then where the loader looks. 0; or with err
 * -ENOENT if there is none, -ENOTSUP if it is too old, -ELIBBAD if it cannot be loaded. `files` is filled
 * in any case; it may be NULL. */
int box_libkrun_open(const char *const *folders, struct box_libkrun **ret_krun,
	struct box_libkrun_file files[2], struct box_err *err);
void box_libkrun_close(struct box_libkrun *krun);

/* A guest, whose root has two files: init and boot. */
struct box_libkrun_guest {
	uint32_t cpus;
	uint32_t memory_mib;
	const void *init; /* must stay valid while the guest runs, like boot */
	size_t init_size;
	const void *boot;
	size_t boot_size;
	const char *share;        /* the folder that is shared; NULL: an empty one */
	const char *socket_path;  /* the Unix socket that its vsock port connects to */
	const char *console_path; /* opened for writing, for the console's output */
	int log_fd;               /* for libkrun's error messages, taken; or -1 */
	int net_fd;               /* to passt; -1: no network card */
	uint8_t mac[BOX_LIBKRUN_MAC_SIZE];
};

/* Runs the guest in this process. Returns only if libkrun refuses: -errno with err. */
int box_libkrun_enter(
	struct box_libkrun *krun, const struct box_libkrun_guest *guest, struct box_err *err);
