/* The protocol between box-vmm on the host and box-init as PID 1 of a microVM's guest.
 *
 * The guest's root file system contains only two files, which box-vmm overlays: box-init itself and
 * the boot file, which boxd wrote. box-init builds its root from the root steps in the boot file,
 * mounts everything from the host out of one virtio-fs share, connects to the host, and continues as
 * in any other box. The connection carries the packets of init.h one after the other, framed by their
 * size. Before them the guest sends one struct box_init_report, as box-init sends to boxd elsewhere.
 *
 * Where a packet would carry an fd, it carries a number instead (`reserved` of its header): for a
 * MOUNT, the name of the entry in BOX_MICROVM_MOUNTS; for a START_PROCESS_IN, the memory limit of the
 * process's cgroup in MiB.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "protocol/init.h"

#define BOX_MICROVM_INIT "/init.krun" /* where libkrunfw's kernel looks for PID 1 */
#define BOX_MICROVM_BOOT "/boot.box"  /* the boot file, then a struct box_microvm_order */
#define BOX_MICROVM_PORT 1024         /* vsock port that leads to the host */
#define BOX_MICROVM_SHARE "share"     /* virtio-fs tag of the share. It contains: */
#define BOX_MICROVM_TREES "trees"     /* one folder for each root step of kind TREE */
#define BOX_MICROVM_WORKSPACE "workspace"
#define BOX_MICROVM_MOUNTS "mounts" /* one folder or file for each MOUNT, named by its number */

/* fds of box-vmm in addition to those of init.h, which it gets as box-init would. Its root is still
 * the host's. */
#define BOX_MICROVM_INIT_FD 9  /* the program box-init */
#define BOX_MICROVM_JAIL_FD 10 /* the root that boxd prepared: box-vmm pivots into it */

/* Packets between box-vmm and the guest only, in addition to init.h. */
enum box_microvm_kind {
	BOX_MICROVM_CLOCK = 48, /* to the guest. bytes: struct box_microvm_clock */
	BOX_MICROVM_TIME = 112, /* answers a CLOCK with a token. bytes: struct box_microvm_time */
};

/* Steps the guest's clock; with a step of 0, asks for the guest's time. */
struct box_microvm_clock {
	uint64_t token; /* identifies a request for the time, else 0 */
	int64_t step_ns;
};

struct box_microvm_time {
	uint64_t token;
	uint64_t realtime_ns;
};

enum box_root_step_kind {
	BOX_ROOT_STEP_TMPFS,  /* size_bytes, inodes, mode, owner */
	BOX_ROOT_STEP_TREE,   /* source: a folder in BOX_MICROVM_TREES */
	BOX_ROOT_STEP_FOLDER, /* created with its parents: mode, owner */
	BOX_ROOT_STEP_LINK,   /* source: the target of the link */
	BOX_ROOT_STEP_DEVICES, /* a /dev with the nodes that every box has; pts and shm are folders */
	BOX_ROOT_STEP_PROC,
	BOX_ROOT_STEP_PTS,
	BOX_ROOT_STEP_FREEZE, /* read-only from now on */
};

enum box_root_step_flag {
	BOX_ROOT_STEP_READ_ONLY = 1 << 0,
	BOX_ROOT_STEP_NO_EXEC = 1 << 1,
	BOX_ROOT_STEP_OF_PAYLOAD = 1 << 2, /* owned by the ids of commands, else by root */
};

/* One step in building the guest's root. Paths are absolute in that root. */
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

/* Follows the filters in the boot file of a microVM, and is followed by root_step_count struct
 * box_root_step. Without root steps the guest reports and ends: used to test whether guests boot. */
struct box_microvm_boot {
	uint32_t size; /* of this struct */
	uint32_t root_step_count;
	uint32_t memory_mib; /* of the guest */
	uint32_t cpus;       /* of the guest, 1 or more */
	uint32_t network;    /* not 0: there is a network card, configured as follows */
	uint32_t address;    /* IPv4, in network byte order */
	uint32_t prefix;     /* number of bits of the netmask */
	uint32_t gateway;
	uint32_t deadline_ms; /* for the guest's report */
	uint32_t pids;        /* limit of processes in the guest; 0: none */
	uint32_t open_files;  /* limit of one process; 0: the kernel's default */
	uint32_t reserved;
	char hostname[64];
};

/* The end of the boot file, added by box-vmm when the box is assigned. The guest's clock starts at
 * this time, which is slightly late; CLOCK packets after the report correct it. */
struct box_microvm_order {
	uint32_t order; /* enum box_init_order */
	uint32_t reserved;
	uint64_t realtime_ns;
};

/* The parts of a boot file. Pointers into it are not aligned. */
struct box_microvm_parts {
	struct box_microvm_boot boot;
	const char *root_steps; /* boot.root_step_count struct box_root_step */
	struct box_microvm_order order;
};

/* Finds the parts of a complete boot file: 0 or -EBADMSG. Pure. */
int box_microvm_find_parts(const char *bytes, size_t size, struct box_microvm_parts *ret_parts);

#define BOX_ROOT_STEPS_MAX 256U

/* The boot steps of box-init in a guest, before those of every box, in this order; numbers for struct
 * box_init_report. ROOT_STEP + n means that root step n failed. */
enum box_microvm_step {
	BOX_MICROVM_STEP_READ = 3000,
	BOX_MICROVM_STEP_CONNECT, /* later failures are reported to the host */
	BOX_MICROVM_STEP_CLOCK,
	BOX_MICROVM_STEP_LIMITS,
	BOX_MICROVM_STEP_PRIV_HELPER, /* start the process that mounts the share */
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

/* The name of a step for error messages; NULL for any other number. */
const char *box_microvm_step_name(uint32_t step);

/* What box-vmm writes once to boxd's report fd: the guest's report or a failed step of its own, and
 * text for people: the last lines of the guest's console or an error. */
#define BOX_MICROVM_TEXT_MAX 1024
struct box_microvm_report {
	struct box_init_report report;
	char text[BOX_MICROVM_TEXT_MAX]; /* printable ASCII and line feeds, with its NUL */
};

/* The steps of box-vmm before the guest's report, in this order; numbers for struct box_init_report. */
enum box_vmm_step {
	BOX_VMM_READ = 2000, /* distinct from the steps of boxd's child and of box-init */
	BOX_VMM_LIBRARY,     /* load libkrun and libkrunfw while the host's files are accessible */
	BOX_VMM_ORDER,
	BOX_VMM_WORKSPACE,
	BOX_VMM_NETWORK, /* start passt */
	BOX_VMM_ROOT,    /* pivot into the prepared root */
	BOX_VMM_HELPERS, /* start the mount helper and the microVM process */
	BOX_VMM_CONFINE,
	BOX_VMM_START,    /* the microVM ended, or libkrun refused it, before the report */
	BOX_VMM_DEADLINE, /* the guest did not report in time */
	BOX_VMM_ANSWER,   /* the guest sent an invalid report */
	BOX_VMM_END_
};
