/* What box-vmm and a box-init that is PID 1 of a microVM agree on.
 *
 * The guest's root file system is empty but for two files that box-vmm lays over it: box-init itself
 * and the boot file, which boxd wrote. box-init builds its root of the boot file's furniture, takes
 * what comes from outside out of one virtio-fs share, connects to the host and goes on as in any other
 * box. The connection carries the packets of init.h one after the other, by their size. Before them
 * comes one struct box_init_report, as it would go to boxd.
 *
 * A packet that goes with an fd elsewhere has a number in its place (`reserved` of its header): of a
 * MOUNT it is the name of the folder in BOX_MICROVM_MOUNTS.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "protocol/init.h"

#define BOX_MICROVM_INIT "/init.krun" /* where libkrun's kernel looks for PID 1 */
#define BOX_MICROVM_BOOT "/boot.box"  /* the boot file, and a struct box_microvm_order behind it */
#define BOX_MICROVM_PORT 1024         /* of the host, by vsock */
#define BOX_MICROVM_SHARE "share"     /* the tag of the share. In it: */
#define BOX_MICROVM_TREES "trees"     /* one folder for each tree that furniture names */
#define BOX_MICROVM_WORKSPACE "workspace"
#define BOX_MICROVM_MOUNTS "mounts" /* one folder or file, named by its number, for each MOUNT */

/* fds of box-vmm besides those of init.h, which it gets as box-init would; its root is still the
 * host's. */
#define BOX_MICROVM_INIT_FD 9  /* box-init */
#define BOX_MICROVM_JAIL_FD 10 /* the root that was assembled: it goes there */

/* Kinds besides those of init.h, between box-vmm and the guest only. */
enum box_microvm_kind {
	BOX_MICROVM_CLOCK = 48, /* to the guest. bytes: struct box_microvm_clock */
	BOX_MICROVM_TIME =
		112, /* from it, to a CLOCK with a token. bytes: struct box_microvm_time */
};

/* A step for the guest's clock; without one, a question for its time. */
struct box_microvm_clock {
	uint64_t token; /* of a question, else 0 */
	int64_t step_ns;
};

struct box_microvm_time {
	uint64_t token;
	uint64_t realtime_ns;
};

enum box_root_step_kind {
	BOX_ROOT_STEP_TMPFS,  /* size_bytes, inodes, mode, owner */
	BOX_ROOT_STEP_TREE,   /* source: its folder in BOX_MICROVM_TREES */
	BOX_ROOT_STEP_FOLDER, /* made with its parents: mode, owner */
	BOX_ROOT_STEP_LINK,   /* source: what it links to */
	BOX_ROOT_STEP_DEVICES, /* a /dev with the few nodes that every box has; pts and shm are folders */
	BOX_ROOT_STEP_PROC,
	BOX_ROOT_STEP_PTS,
	BOX_ROOT_STEP_FREEZE, /* read-only from now on */
};

enum box_root_step_flag {
	BOX_ROOT_STEP_READ_ONLY = 1 << 0,
	BOX_ROOT_STEP_NO_EXEC = 1 << 1,
	BOX_ROOT_STEP_OF_PAYLOAD = 1 << 2, /* belongs to the ids of commands, else to root */
};

/* What the guest's root is made of, in this order; absolute paths in it. */
struct box_root_step {
	uint32_t kind;
	uint32_t flags;
	uint32_t mode;
	uint32_t reserved;
	uint64_t size_bytes;
	uint64_t inodes;
	char target[BOX_INIT_PATH_MAX];
	char source[256];
};

/* Behind the filter in the boot file of a microVM, then furniture_count pieces of furniture. With
 * none of them the guest reports that it is there, and ends: so one is tried. */
struct box_microvm_boot {
	uint32_t size; /* of this struct */
	uint32_t furniture_count;
	uint32_t memory_mib; /* of the guest */
	uint32_t cpus;       /* of the guest, 1 or more */
	uint32_t network;    /* not 0: there is a card; what follows is for it */
	uint32_t address;    /* IPv4, in network order */
	uint32_t prefix;     /* its bits */
	uint32_t gateway;
	uint32_t deadline_ms; /* for the guest's report */
	uint32_t pids;        /* of the box, in all; 0: no limit of its own */
	uint32_t open_files;  /* of one process; 0: what the kernel gives */
	uint32_t reserved;
	char hostname[64];
};

/* The last of the file, added by box-vmm when the order has come. Its time is from before the guest
 * was there: it is the least that the guest's may show. CLOCKs after the report make it right. */
struct box_microvm_order {
	uint32_t order; /* enum box_init_order */
	uint32_t reserved;
	uint64_t realtime_ns;
};

/* Where the parts of a boot file are. Nothing in it is aligned. */
struct box_microvm_parts {
	struct box_microvm_boot boot;
	const char *furniture;
	struct box_microvm_order order;
};

/* Finds the parts of a boot file with its order: 0 or -EBADMSG. Pure. */
int box_microvm_find_parts(const char *bytes, size_t size, struct box_microvm_parts *ret_parts);

#define BOX_ROOT_STEPS_MAX 256U

/* What box-init does in a guest before what it does in every box, in this order; numbers for struct
 * box_init_report. From FURNITURE on it is the piece that could not be made. */
enum box_microvm_step {
	BOX_MICROVM_STEP_READ = 3000,
	BOX_MICROVM_STEP_CONNECT, /* from here on the host hears what is wrong */
	BOX_MICROVM_STEP_CLOCK,
	BOX_MICROVM_STEP_LIMITS,
	BOX_MICROVM_STEP_PRIV_HELPER, /* the process that has the share, and what is in it */
	BOX_MICROVM_STEP_CGROUPS,
	BOX_MICROVM_STEP_ROOT,
	BOX_MICROVM_STEP_PIVOT,
	BOX_MICROVM_STEP_HOSTNAME,
	BOX_MICROVM_STEP_NETWORK,
	BOX_MICROVM_STEP_HAND_OVER,
	BOX_MICROVM_STEP_END_,
	BOX_MICROVM_STEP_ROOT_STEP = 3100,
	BOX_MICROVM_STEP_ROOT_STEP_END_ = BOX_MICROVM_STEP_ROOT_STEP + (int)BOX_ROOT_STEPS_MAX,
};

/* In words, for errors; NULL for a number that is none of these. */
const char *box_microvm_step_name(uint32_t step);

/* What box-vmm writes to boxd's report fd, once: the guest's report or a step of its own, and what a
 * person should read beside it: the last lines of the guest's console. */
#define BOX_MICROVM_TEXT_MAX 1024
struct box_microvm_report {
	struct box_init_report report;
	char text[BOX_MICROVM_TEXT_MAX]; /* printable ASCII and line feeds, with its NUL */
};

/* What box-vmm does before the guest's report, in this order; numbers for struct box_init_report. */
enum box_vmm_step {
	BOX_VMM_READ = 2000, /* far from the steps of boxd's child and of box-init */
	BOX_VMM_LIBRARY, /* libkrun and libkrunfw are loaded, while the host's files are in sight */
	BOX_VMM_ORDER,
	BOX_VMM_WORKSPACE,
	BOX_VMM_NETWORK, /* passt runs */
	BOX_VMM_ROOT,    /* the host's files are gone */
	BOX_VMM_HELPERS, /* the process that mounts, and the one that is the machine */
	BOX_VMM_CONFINE,
	BOX_VMM_START,    /* the machine ended, or libkrun refused it, before its report */
	BOX_VMM_DEADLINE, /* the guest did not report in time */
	BOX_VMM_ANSWER,   /* what came was no report */
	BOX_VMM_END_
};
