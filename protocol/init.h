/* The protocol between box-rpc and box-init: commands and their input and output.
 *
 * Packets travel over a SEQPACKET socketpair (to a microVM over a stream, framed by their size).
 * Each packet is a header and bytes whose meaning depends on the kind. No packet is longer than
 * BOX_INIT_PACKET_MAX. Everything that comes out of a box is untrusted: box_init_check_* validate
 * each packet before any other code reads it. Numbers have native byte order, since both ends run
 * on the same machine.
 *
 * To start a command, the caller sends one MOUNT for each of the command's own mounts, then one
 * RUN, then as many MORE as the body needs, all with the same id. Box-init answers with STDOUT and
 * STDERR packets and exactly one EXIT. The caller chooses the id; it can be reused after the EXIT.
 * Output is limited by credit: RUN grants the first, CREDIT adds more. Without credit box-init
 * stops reading the pipes, and the command blocks.
 *
 * Alternatively the caller keeps the command's pipes: it sends the command's ends before the RUN,
 * one PIPE for each, and the bytes do not pass through box-init. There is then no INPUT, no output
 * and no credit; the caller reads what is left in the pipes after the EXIT.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define BOX_INIT_CONTROL_FD 3   /* the socket of this protocol, in box-init */
#define BOX_INIT_REPORT_FD 4    /* takes one struct box_init_report, then is closed */
#define BOX_INIT_BOOT_FD 5      /* struct box_init_boot, its rules and filters */
#define BOX_INIT_ROOT_FD 6      /* the root, writable: mount points of single commands */
#define BOX_INIT_ORDER_FD 7     /* one byte arrives when the box is assigned, and its workspace */
#define BOX_INIT_WORKSPACE_FD 8 /* mount point of the workspace, if it is a folder of the host */

/* The largest packet that fits into a socket buffer of the default size. */
#define BOX_INIT_BYTES_MAX (128U * 1024)
#define BOX_INIT_PACKET_MAX ((uint32_t)sizeof(struct box_init_header) + BOX_INIT_BYTES_MAX)
#define BOX_INIT_BOX_ENDS_MAX 1024U           /* text of BOX_ENDS */
#define BOX_INIT_BODY_MAX (20U * 1024 * 1024) /* environment, workdir and command of one RUN */
#define BOX_INIT_RUNS_MAX 512U                /* commands at the same time in one box */
#define BOX_INIT_GRACE_MS_MAX 60000U          /* between SIGTERM and SIGKILL */
#define BOX_INIT_MOUNTS_MAX 256U              /* of one command */
#define BOX_INIT_ENV_MAX 4096U
#define BOX_INIT_ARGS_MAX 4096U                 /* with BOX_INIT_RUN_ARGV */
#define BOX_INIT_PATH_MAX 4096U                 /* a workdir or mount target, with its NUL */
#define BOX_INIT_GATHER_MAX (64U * 1024 * 1024) /* bodies of all incomplete RUNs together */
#define BOX_INIT_INPUT_MAX (1024U * 1024) /* INPUT of one command not yet answered by INPUT_TAKEN */

enum box_init_kind {
	/* to box-init */
	BOX_INIT_RESET = 1, /* ends every command; answered by RESET_DONE. Sent first */
	BOX_INIT_MOUNT,     /* bytes: the target's path with its NUL; one fd: a detached mount */
	BOX_INIT_RUN,       /* bytes: struct box_init_run, then the beginning of the body */
	BOX_INIT_MORE,      /* bytes: the next part of the body */
	BOX_INIT_INPUT,     /* bytes for stdin; none: end of input. Too many kill the command */
	BOX_INIT_CREDIT,    /* bytes: one uint64_t, how much more output may be sent */
	BOX_INIT_SIGNAL,    /* bytes: one uint32_t, a signal for the process group */
	BOX_INIT_RESIZE,    /* bytes: struct box_init_size, the new size of the terminal */
	BOX_INIT_KILL,      /* kills the process group and discards output; EXIT is still sent */
	BOX_INIT_PIPE, /* bytes: one uint32_t, 0 to 2; one fd: becomes that fd of the command */
	BOX_INIT_DRAIN, /* one fd: a pipe that may still be written to after EXIT; box-init empties it */

	/* from box-init */
	BOX_INIT_RESET_DONE = 64,
	BOX_INIT_STARTED, /* no bytes; only with BOX_INIT_RUN_STDIN or _PIPES. A command with mounts of
			    * its own may have written output before */
	BOX_INIT_STDOUT, /* bytes as the command wrote them, at least one */
	BOX_INIT_STDERR,
	BOX_INIT_INPUT_TAKEN, /* bytes: one uint64_t, total INPUT written to stdin or discarded */
	BOX_INIT_EXIT,        /* bytes: struct box_init_exit */
	BOX_INIT_BOX_ENDS, /* sent by box-vmm, not box-init: why the box ends, one line of printable
			  * ASCII. The last packet */
};

struct box_init_header {
	uint32_t size; /* of the packet, including the header */
	uint32_t kind;
	uint32_t id; /* of the command; 0 for RESET, RESET_DONE and BOX_ENDS */
	uint32_t reserved;
};

enum box_init_run_flag {
	BOX_INIT_RUN_STDIN = 1 << 0, /* a pipe for INPUT instead of /dev/null */
	BOX_INIT_RUN_ARGV = 1 << 1,  /* NUL-terminated arguments instead of text for sh -lc */
	BOX_INIT_RUN_TTY = 1 << 2,   /* stdin, stdout and stderr are a terminal; requires STDIN */
	BOX_INIT_RUN_FILE = 1 << 3,  /* a file operation, see init_file.h; alone, or with STDIN */
	BOX_INIT_RUN_PIPES = 1 << 4, /* three PIPEs were sent before; alone, or with ARGV */
};

/* The size of a terminal; neither number is 0. */
struct box_init_size {
	uint16_t rows;
	uint16_t columns;
};

/* Followed by the body: env_count strings NAME=VALUE, each with its NUL; the workdir with its NUL;
 * the command, whose NUL is optional when it is text. Sizes include the NULs. */
struct box_init_run {
	uint32_t flags;
	uint32_t env_count;
	uint32_t env_size;
	uint32_t workdir_size;
	uint32_t command_size;
	uint32_t mount_count;      /* MOUNTs sent before with this id */
	struct box_init_size size; /* with TTY, else zeros */
	/* On timeout, 0: SIGKILL at once. Else SIGTERM, and SIGKILL after this time; processes left in
	 * the group are killed as soon as the command has ended. */
	uint32_t grace_ms;
	uint64_t timeout_ms;   /* 0: none */
	uint64_t output_limit; /* of stdout and stderr each; what exceeds it is read and dropped */
	uint64_t credit;       /* bytes of output that may be sent before the first CREDIT */
};

enum box_init_end {
	BOX_INIT_END_EXIT,    /* value: the exit code */
	BOX_INIT_END_SIGNAL,  /* value: the signal */
	BOX_INIT_END_TIMEOUT, /* killed by box-init; value: 0 */
	BOX_INIT_END_FAILED,  /* did not start; value: errno, step says where it failed */
	BOX_INIT_END_MEMORY,  /* the kernel's OOM killer killed the command or a child of it; value:
				* the exit code, 137 if the command itself was killed. Only in
				* microVMs: in other boxes box-init cannot see it, but box-rpc can */
};

enum box_init_step {
	BOX_INIT_STEP_NONE,
	BOX_INIT_STEP_REQUEST, /* a malformed or too large request, or too many of them */
	BOX_INIT_STEP_MEMORY,
	BOX_INIT_STEP_PIPES,
	BOX_INIT_STEP_CLONE,
	BOX_INIT_STEP_MOUNT,
	BOX_INIT_STEP_MOUNTER, /* the mounter has died: no mounts are possible in this box */
	BOX_INIT_STEP_IDS,
	BOX_INIT_STEP_WORKDIR, /* could not be created or entered */
	BOX_INIT_STEP_CONFINE,
	BOX_INIT_STEP_EXEC,
	BOX_INIT_STEP_CGROUP, /* the process's own cgroup could not be entered */
	BOX_INIT_STEPS_
};

struct box_init_exit {
	uint32_t end;
	uint32_t step;
	int32_t value;
	uint32_t mount; /* index of the mount, when step is MOUNT */
	uint64_t stdout_dropped;
	uint64_t stderr_dropped;
	uint64_t duration_us;
	/* Usage of the workspace if the order was BOX_INIT_ORDER_QUOTA and statfs worked; else 0. */
	uint64_t room_bytes; /* capacity */
	uint64_t used_bytes; /* when the command ended; at most room_bytes */
	uint32_t full;       /* 0 or 1: no space is left */
	uint32_t reserved;
};

/* The boot steps of box-init, in this order. */
enum box_init_boot_step {
	BOX_INIT_BOOT_READ = 1000, /* distinct from the steps of boxd's child */
	BOX_INIT_BOOT_STDIO,
	BOX_INIT_BOOT_OOM,
	BOX_INIT_BOOT_HIDE,
	BOX_INIT_BOOT_SIGNALS,
	BOX_INIT_BOOT_LOOP,
	BOX_INIT_BOOT_BOUNDING,
	BOX_INIT_BOOT_SECUREBITS,
	BOX_INIT_BOOT_PRIVILEGES,
	BOX_INIT_BOOT_MOUNTER,
	BOX_INIT_BOOT_ORDER, /* warm until here: waits until the box is assigned */
	BOX_INIT_BOOT_WORKSPACE,
	BOX_INIT_BOOT_LANDLOCK,
	BOX_INIT_BOOT_CAPABILITIES,
	BOX_INIT_BOOT_FILTER,
	BOX_INIT_BOOT_END_
};

/* The byte that assigns a warm box to a session. */
enum box_init_order {
	BOX_INIT_ORDER_PLAIN,
	BOX_INIT_ORDER_QUOTA, /* the workspace has a quota: every EXIT reports its usage */
};

/* What box-init writes to its report fd, once. */
struct box_init_report {
	uint32_t step; /* 0: ready. Else the failed step of boxd's child or of box-init */
	int32_t errnum;
};

/* Landlock: what is allowed below a path. */
enum box_init_path_right {
	BOX_INIT_MAY_READ,  /* read and execute */
	BOX_INIT_MAY_WRITE, /* everything but devices */
	BOX_INIT_MAY_USE,   /* read and write existing files: /dev, /proc */
};

struct box_init_path_rule {
	uint32_t right;
	char path[4096];
};

/* The boot file: this struct, then rule_count rules, then the two filters as struct sock_filter.
 * box-init trusts it: it comes from boxd and is sealed. */
struct box_init_boot {
	uint32_t size; /* of this struct */
	uint32_t payload_uid;
	uint32_t payload_gid;
	uint32_t same_uid;     /* not 0: only one id is mapped, ids cannot be changed */
	uint32_t landlock_abi; /* 0: no Landlock */
	uint32_t workspace;    /* not 0: a detached mount arrives with the order */
	uint32_t rule_count;
	uint32_t filter_count;                  /* of commands and of PID 1 */
	uint32_t mounter_filter_count;          /* of the mounter */
	char workspace_path[BOX_INIT_PATH_MAX]; /* path of the workspace inside the box */
};

/* The name of a step for error messages; NULL if it is not a boot step of box-init. */
const char *box_init_boot_step_name(uint32_t step);

/* Whether a packet from box-init is well-formed: 0 or -EBADMSG. `size` is the result of recvmsg.
 * Checks sizes, kinds, ids and the range of every number. The caller must check that the id
 * belongs to a command and that the packet is allowed in its state. Pure. */
int box_init_check_answer(const void *packet, size_t size);
/* The same for a packet to box-init. The body is not checked: it may span several packets. */
int box_init_check_request(const void *packet, size_t size);

/* For a stream: how many bytes of the packet at `packet` are missing when `have` bytes were read.
 * While its size is unknown: how many bytes of the header are missing. 0: the packet is complete.
 * -EBADMSG: not a packet. */
int box_init_frame_missing(const void *packet, size_t have);
