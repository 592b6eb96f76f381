/* libkrun and its kernel, opened at run time: one box-vmm serves hosts with and without them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"

#define BOX_LIBKRUN_LIBRARY "libkrun.so.1"
#define BOX_LIBKRUN_FIRMWARE "libkrunfw.so.5"
#define BOX_LIBKRUN_OLDEST "1.19" /* that has every call used here */

#define BOX_LIBKRUN_VERSION_SIZE 32
#define BOX_LIBKRUN_MAC_SIZE 6

/* Where one of the two was found. */
struct box_libkrun_file {
	char path[BOX_PATH_MAX];                /* without links; empty: not found */
	char version[BOX_LIBKRUN_VERSION_SIZE]; /* by its file's name, else empty */
};

struct box_libkrun;

/* Looks for both in each of the folders (NULL ends them), then where the loader looks. 0, or -ENOENT
 * when there is none, -ENOTSUP when it is too old, -ELIBBAD when it cannot be loaded, all with err.
 * What was found is told in any case; `files` may be NULL. */
int box_libkrun_open(const char *const *folders, struct box_libkrun **ret_krun,
	struct box_libkrun_file files[2], struct box_err *err);
void box_libkrun_close(struct box_libkrun *krun);

/* A guest: its root has two files. */
struct box_libkrun_guest {
	uint32_t cpus;
	uint32_t memory_mib;
	const void *init; /* these must outlive the machine */
	size_t init_size;
	const void *boot;
	size_t boot_size;
	const char *share;        /* the folder that it gets; NULL: an empty one */
	const char *socket_path;  /* where its one port leads */
	const char *console_path; /* opened for what its console says */
	int log_fd;               /* for what libkrun has to say, of its own: it is taken; or -1 */
	int net_fd;               /* to passt, or -1: no card */
	uint8_t mac[BOX_LIBKRUN_MAC_SIZE];
};

/* Becomes the machine. Returns only when libkrun does not want to: -errno, with err. */
int box_libkrun_enter(
	struct box_libkrun *krun, const struct box_libkrun_guest *machine, struct box_err *err);
