/* What box-rpc and box-init say to each other.
 *
 * Packets over a SEQPACKET socketpair (to a microVM they go by a stream, framed by their size): a
 * header, then bytes whose meaning the kind tells. Nothing is longer than BOX_INIT_PACKET_MAX.
 * Whatever comes out of a box is taken for hostile: box_init_check_* decide over each packet
 * before anyone looks at it. Numbers are native: both ends run on one machine.
 *
 * A command is one RUN, preceded by one MOUNT for each mount of its own and followed by as many
 * MORE as its body needs, all with the same id; it is answered by OUTPUTs and exactly one EXIT. An
 * id is the caller's choice and free again after its EXIT. Output flows as far as there is credit:
 * RUN gives the first, CREDIT more; without credit box-init stops reading, and the command
 * blocks.
 *
 * Or the caller has the pipes of a command itself: it sends the command's ends of them before the
 * RUN, one PIPE for each, and its bytes pass box-init by. Then there is no INPUT, no output and no
 * credit; what is in the pipes after the EXIT is the caller's to read.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define BOX_INIT_CONTROL_FD 3   /* of box-init */
#define BOX_INIT_REPORT_FD 4    /* it says READY or what went wrong, then closes it */
#define BOX_INIT_BOOT_FD 5      /* struct box_init_boot, then what it announces */
#define BOX_INIT_ROOT_FD 6      /* the root, writable, for mount points of single commands */
#define BOX_INIT_ORDER_FD 7     /* one byte comes when the box is wanted, with its workspace */
#define BOX_INIT_WORKSPACE_FD 8 /* where the workspace goes, if a folder of the host is to be one */

/* As large as fits into a socket that nobody has widened: fewer packets, fewer turns. */
#define BOX_INIT_BYTES_MAX (128U * 1024)
#define BOX_INIT_PACKET_MAX ((uint32_t)sizeof(struct box_init_header) + BOX_INIT_BYTES_MAX)
#define BOX_INIT_BOX_ENDS_MAX 1024U           /* of LAST */
#define BOX_INIT_BODY_MAX (20U * 1024 * 1024) /* env, workdir and command of one RUN */
#define BOX_INIT_RUNS_MAX 512U                /* at once in one box */
#define BOX_INIT_GRACE_MS_MAX 60000U          /* between SIGTERM and SIGKILL */
#define BOX_INIT_MOUNTS_MAX 256U              /* of one command */
#define BOX_INIT_ENV_MAX 4096U
#define BOX_INIT_ARGS_MAX 4096U                 /* with BOX_INIT_RUN_ARGV */
#define BOX_INIT_PATH_MAX 4096U                 /* a workdir or target, with its NUL */
#define BOX_INIT_GATHER_MAX (64U * 1024 * 1024) /* bodies of all RUNs that are not whole yet */
#define BOX_INIT_INPUT_MAX (1024U * 1024)       /* INPUT of one command that is not TAKEN yet */

enum box_init_kind {
	/* to box-init */
	BOX_INIT_RESET =
		1,       /* end every command; answered by RESET_DONE. The first of a connection */
	BOX_INIT_MOUNT,  /* bytes: the target's path with its NUL; one fd: a detached mount */
	BOX_INIT_RUN,    /* bytes: struct box_init_run, then the beginning of the body */
	BOX_INIT_MORE,   /* bytes: the next piece of the body */
	BOX_INIT_INPUT,  /* bytes for its stdin, none: end of it. Too much ends the command */
	BOX_INIT_CREDIT, /* bytes: one uint64_t, how much more output may come */
	BOX_INIT_SIGNAL, /* bytes: one uint32_t, a signal for its process group */
	BOX_INIT_RESIZE, /* bytes: struct box_init_size, of its terminal */
	BOX_INIT_KILL,   /* ends its process group, its output is void; its EXIT still comes */
	BOX_INIT_PIPE,   /* bytes: one uint32_t, 0 to 2; one fd: what is to be that fd of it */
	BOX_INIT_DRAIN, /* one fd: a pipe that others may write to after its EXIT. It is read to nowhere */

	/* from box-init */
	BOX_INIT_RESET_DONE = 64,
	BOX_INIT_STARTED, /* no bytes; only with BOX_INIT_RUN_STDIN or _PIPES: others wait for EXIT
			    * alone. With mounts of its own a command may have written before */
	BOX_INIT_STDOUT,  /* bytes as the command wrote them, never none */
	BOX_INIT_STDERR,
	BOX_INIT_INPUT_TAKEN, /* bytes: one uint64_t, how much of all its INPUT has gone in or is void */
	BOX_INIT_EXIT,        /* bytes: struct box_init_exit */
	BOX_INIT_BOX_ENDS, /* of box-vmm, not of box-init: why the box ends, in a line of printable ASCII.
			  * Nothing comes after it */
};

struct box_init_header {
	uint32_t size; /* of the packet, header included */
	uint32_t kind;
	uint32_t id; /* of the command; 0 for RESET, RESET_DONE and LAST */
	uint32_t reserved;
};

enum box_init_run_flag {
	BOX_INIT_RUN_STDIN = 1 << 0, /* a pipe for INPUT instead of /dev/null */
	BOX_INIT_RUN_ARGV = 1 << 1,  /* the command is NUL-ended arguments, not text for sh -lc */
	BOX_INIT_RUN_TTY = 1 << 2,   /* a terminal is its stdin, stdout and stderr; with STDIN */
	BOX_INIT_RUN_FILE = 1 << 3, /* no command but work on files, see init_file.h; alone, or with
				       * STDIN */
	BOX_INIT_RUN_PIPES = 1 << 4, /* three PIPEs came before; alone, or with ARGV */
};

/* Of a terminal; neither is 0. */
struct box_init_size {
	uint16_t rows;
	uint16_t columns;
};

/* The body: env_count strings NAME=VALUE, each with its NUL; the workdir with its NUL; the command,
 * which as text may leave its NUL out. Sizes include the NULs. */
struct box_init_run {
	uint32_t flags;
	uint32_t env_count;
	uint32_t env_size;
	uint32_t workdir_size;
	uint32_t command_size;
	uint32_t mount_count;      /* MOUNTs that came before with this id */
	struct box_init_size size; /* with TTY, else zeros */
	/* At the end of its time: not 0: SIGTERM, and after these SIGKILL; what is left of its group
	 * when it has ended by then is killed too. 0: SIGKILL at once. */
	uint32_t grace_ms;
	uint64_t timeout_ms;   /* 0: none */
	uint64_t output_limit; /* of stdout and of stderr, what is beyond is read and dropped */
	uint64_t credit;       /* bytes of output that may come before the first CREDIT */
};

enum box_init_end {
	BOX_INIT_END_EXIT,    /* value: the exit code */
	BOX_INIT_END_SIGNAL,  /* value: the signal */
	BOX_INIT_END_TIMEOUT, /* killed by us; value: 0 */
	BOX_INIT_END_FAILED,  /* never started; value: errno, step says where */
	BOX_INIT_END_MEMORY,  /* it, or a process of it, was killed for lack of memory; value: the
				* exit code, 137 where it was killed itself. Of microVMs alone: in
				* other boxes box-init cannot see it, and box-rpc does */
};

enum box_init_step {
	BOX_INIT_STEP_NONE,
	BOX_INIT_STEP_REQUEST, /* a malformed or too big request, or one too many */
	BOX_INIT_STEP_MEMORY,
	BOX_INIT_STEP_PIPES,
	BOX_INIT_STEP_CLONE,
	BOX_INIT_STEP_MOUNT,
	BOX_INIT_STEP_MOUNTER, /* is gone: this box can mount nothing more */
	BOX_INIT_STEP_IDS,
	BOX_INIT_STEP_WORKDIR, /* could not be made or entered */
	BOX_INIT_STEP_CONFINE,
	BOX_INIT_STEP_EXEC,
	BOX_INIT_STEP_CGROUP, /* the cgroup of its own could not be entered */
	BOX_INIT_STEPS_
};

struct box_init_exit {
	uint32_t end;
	uint32_t step;
	int32_t value;
	uint32_t mount; /* which one, when step is MOUNT */
	uint64_t stdout_dropped;
	uint64_t stderr_dropped;
	uint64_t duration_us;
	/* Of the workspace, when the order was BOX_INIT_ORDER_QUOTA and it could be had; else 0. */
	uint64_t room_bytes; /* that it has in all */
	uint64_t used_bytes; /* at the command's end; no more than that */
	uint32_t full;       /* 0 or 1: there is no room for anything more */
	uint32_t reserved;
};

/* What box-init does before it is ready, in this order. */
enum box_init_boot_step {
	BOX_INIT_BOOT_READ = 1000, /* far from the steps of boxd's child */
	BOX_INIT_BOOT_STDIO,
	BOX_INIT_BOOT_OOM,
	BOX_INIT_BOOT_HIDE,
	BOX_INIT_BOOT_SIGNALS,
	BOX_INIT_BOOT_LOOP,
	BOX_INIT_BOOT_BOUNDING,
	BOX_INIT_BOOT_SECUREBITS,
	BOX_INIT_BOOT_PRIVILEGES,
	BOX_INIT_BOOT_MOUNTER,
	BOX_INIT_BOOT_ORDER, /* up to here it is the same box for many: here it waits for one */
	BOX_INIT_BOOT_WORKSPACE,
	BOX_INIT_BOOT_LANDLOCK,
	BOX_INIT_BOOT_CAPABILITIES,
	BOX_INIT_BOOT_FILTER,
	BOX_INIT_BOOT_END_
};

/* The byte of the order. */
enum box_init_order {
	BOX_INIT_ORDER_PLAIN,
	BOX_INIT_ORDER_QUOTA, /* the workspace has a quota: every EXIT tells its room */
};

/* What box-init writes to its report fd, once. */
struct box_init_report {
	uint32_t step; /* 0: ready. Else a step of boxd's child or of box-init, see boxd */
	int32_t errnum;
};

/* Landlock: what may be done below a path. */
enum box_init_path_right {
	BOX_INIT_MAY_READ,  /* read and execute */
	BOX_INIT_MAY_WRITE, /* everything but devices */
	BOX_INIT_MAY_USE,   /* read and write what is there: /dev, /proc */
};

struct box_init_path_rule {
	uint32_t right;
	char path[4096];
};

/* The boot fd: this, then rule_count rules, then the two filters, of struct sock_filter. box-init
 * trusts it: it comes from boxd, sealed. */
struct box_init_boot {
	uint32_t size; /* of this struct */
	uint32_t payload_uid;
	uint32_t payload_gid;
	uint32_t same_uid;     /* not 0: only one id is mapped, nothing can be changed */
	uint32_t landlock_abi; /* 0: no Landlock */
	uint32_t workspace;    /* not 0: a detached mount comes with the order */
	uint32_t rule_count;
	uint32_t filter_count;                  /* of commands and of PID 1 */
	uint32_t mounter_filter_count;          /* of the mounter */
	char workspace_path[BOX_INIT_PATH_MAX]; /* where it is, inside */
};

/* In words, for errors; NULL for a number that is no step of box-init. */
const char *box_init_boot_step_name(uint32_t step);

/* Whether a packet that came from box-init is well-formed: 0, or -EBADMSG. `size` is what recvmsg
 * gave. Sizes, kinds, ids and every number in the bytes are in their range; whether the id means a
 * command, and whether it is its turn, the caller must know. Pure. */
int box_init_check_answer(const void *packet, size_t size);
/* The same for what comes to box-init. The body is not looked at: it may be in several packets. */
int box_init_check_request(const void *packet, size_t size);

/* Of a stream: how many bytes of the packet that begins there are still to be read, with `have` of
 * them read; of one whose size is not known yet, how many of its header. 0: it is whole. -EBADMSG:
 * nothing that could be a packet. */
int box_init_frame_missing(const void *packet, size_t have);
