/* What box-vmm and a box-init that is PID 1 of a microVM agree on.
 *
 * The guest's root file system is empty but for two files that box-vmm lays over it: box-init itself
 * and the boot file, which boxd wrote. box-init builds its root of the boot file's furniture, takes
 * what comes from outside out of one virtio-fs share, connects to the host and goes on as in any other
 * box. The connection carries the packets of wire.h one after the other, by their size. Before them
 * comes one struct box_guest_report, as it would go to boxd.
 *
 * A packet that goes with an fd elsewhere has a number in its place (`reserved` of its header): of a
 * MOUNT it is the name of the folder in BOX_MACHINE_MOUNTS.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "runtime/guest/wire.h"

#define BOX_MACHINE_INIT "/init.krun" /* where libkrun's kernel looks for PID 1 */
#define BOX_MACHINE_BOOT "/boot.box"  /* the boot file, and a struct box_machine_order behind it */
#define BOX_MACHINE_PORT 1024         /* of the host, by vsock */
#define BOX_MACHINE_SHARE "share"     /* the tag of the share. In it: */
#define BOX_MACHINE_TREES "trees"     /* one folder for each tree that furniture names */
#define BOX_MACHINE_WORKSPACE "workspace"
#define BOX_MACHINE_MOUNTS "mounts" /* one folder or file, named by its number, for each MOUNT */

/* fds of box-vmm besides those of wire.h, which it gets as box-init would; its root is still the
 * host's. */
#define BOX_MACHINE_INIT_FD 9  /* box-init */
#define BOX_MACHINE_JAIL_FD 10 /* the root that was assembled: it goes there */

/* Kinds besides those of wire.h, between box-vmm and the guest only. */
enum box_machine_kind {
	BOX_MACHINE_CLOCK = 48, /* to the guest. bytes: struct box_machine_clock */
	BOX_MACHINE_TIME =
		112, /* from it, to a CLOCK with a token. bytes: struct box_machine_time */
};

/* A step for the guest's clock; without one, a question for its time. */
struct box_machine_clock {
	uint64_t token; /* of a question, else 0 */
	int64_t step_ns;
};

struct box_machine_time {
	uint64_t token;
	uint64_t realtime_ns;
};

enum box_furniture_kind {
	BOX_FURNITURE_TMPFS,  /* size_bytes, inodes, mode, owner */
	BOX_FURNITURE_TREE,   /* source: its folder in BOX_MACHINE_TREES */
	BOX_FURNITURE_FOLDER, /* made with its parents: mode, owner */
	BOX_FURNITURE_LINK,   /* source: what it links to */
	BOX_FURNITURE_DEVICES, /* a /dev with the few nodes that every box has; pts and shm are folders */
	BOX_FURNITURE_PROC,
	BOX_FURNITURE_PTS,
	BOX_FURNITURE_FREEZE, /* read-only from now on */
};

enum box_furniture_flag {
	BOX_FURNITURE_READ_ONLY = 1 << 0,
	BOX_FURNITURE_NO_EXEC = 1 << 1,
	BOX_FURNITURE_OF_PAYLOAD = 1 << 2, /* belongs to the ids of commands, else to root */
};

/* What the guest's root is made of, in this order; absolute paths in it. */
struct box_furniture {
	uint32_t kind;
	uint32_t flags;
	uint32_t mode;
	uint32_t reserved;
	uint64_t size_bytes;
	uint64_t inodes;
	char target[BOX_GUEST_PATH_MAX];
	char source[256];
};

/* Behind the filter in the boot file of a microVM, then furniture_count pieces of furniture. With
 * none of them the guest reports that it is there, and ends: so one is tried. */
struct box_machine_boot {
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
struct box_machine_order {
	uint32_t order; /* enum box_guest_order */
	uint32_t reserved;
	uint64_t realtime_ns;
};

/* Where the parts of a boot file are. Nothing in it is aligned. */
struct box_machine_parts {
	struct box_machine_boot boot;
	const char *furniture;
	struct box_machine_order order;
};

/* Finds the parts of a boot file with its order: 0 or -EBADMSG. Pure. */
int box_machine_find_parts(const char *bytes, size_t size, struct box_machine_parts *ret_parts);

#define BOX_FURNITURE_MAX 256U

/* What box-init does in a guest before what it does in every box, in this order; numbers for struct
 * box_guest_report. From FURNITURE on it is the piece that could not be made. */
enum box_machine_step {
	BOX_MACHINE_STEP_READ = 3000,
	BOX_MACHINE_STEP_CONNECT, /* from here on the host hears what is wrong */
	BOX_MACHINE_STEP_CLOCK,
	BOX_MACHINE_STEP_LIMITS,
	BOX_MACHINE_STEP_STEWARD, /* the process that has the share, and what is in it */
	BOX_MACHINE_STEP_GROUPS,
	BOX_MACHINE_STEP_ROOT,
	BOX_MACHINE_STEP_MOVE,
	BOX_MACHINE_STEP_NAME,
	BOX_MACHINE_STEP_NETWORK,
	BOX_MACHINE_STEP_HAND_OVER,
	BOX_MACHINE_STEP_END_,
	BOX_MACHINE_STEP_FURNITURE = 3100,
	BOX_MACHINE_STEP_FURNITURE_END_ = BOX_MACHINE_STEP_FURNITURE + (int)BOX_FURNITURE_MAX,
};

/* In words, for errors; NULL for a number that is none of these. */
const char *box_machine_step_name(uint32_t step);

/* What box-vmm writes to boxd's report fd, once: the guest's report or a step of its own, and what a
 * person should read beside it: the last lines of the guest's console. */
#define BOX_MACHINE_TEXT_MAX 1024
struct box_machine_report {
	struct box_guest_report report;
	char text[BOX_MACHINE_TEXT_MAX]; /* printable ASCII and line feeds, with its NUL */
};

/* What box-vmm does before the guest's report, in this order; numbers for struct box_guest_report. */
enum box_vmm_step {
	BOX_VMM_READ = 2000, /* far from the steps of boxd's child and of box-init */
	BOX_VMM_LIBRARY, /* libkrun and libkrunfw are loaded, while the host's files are in sight */
	BOX_VMM_ORDER,
	BOX_VMM_WORKSPACE,
	BOX_VMM_NETWORK, /* passt runs */
	BOX_VMM_ROOT,    /* the host's files are gone */
	BOX_VMM_HELPERS, /* the process that mounts, and the one that is the machine */
	BOX_VMM_FENCE,
	BOX_VMM_START,    /* the machine ended, or libkrun refused it, before its report */
	BOX_VMM_DEADLINE, /* the guest did not report in time */
	BOX_VMM_ANSWER,   /* what came was no report */
	BOX_VMM_END_
};
