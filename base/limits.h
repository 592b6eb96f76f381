/* Every size, count and time that a client, a guest or a configuration file can influence, in one
 * place.
 *
 * The limits that box-init needs too are in protocol/init*.h. Limits marked (wire) are part of the
 * protocol: clients rely on them.
 */
#pragma once

#define BOX_KIB 1024UL
#define BOX_MIB (1024UL * BOX_KIB)

/* Messages. */
#define BOX_MESSAGE_BYTES_MAX (16 * BOX_MIB) /* (wire) one message, either direction */
#define BOX_MESSAGE_DEPTH_MAX 32             /* nesting of lists and maps */
#define BOX_MESSAGE_VALUES_MAX 262144        /* values in one message, keys not counted */
#define BOX_PINNED_BYTES_MAX (256 * BOX_MIB) /* incomplete incoming messages, all connections */

/* stdio lines. */
#define BOX_STDIO_CHUNK_BYTES (16 * BOX_KIB) /* (wire) above this a message goes in chunks */
#define BOX_STDIO_LINE_OUT_MAX 65535         /* (wire) longest line we write, newline included */

/* Streamed answers. */
#define BOX_STREAM_PART_BYTES_MAX (1 * BOX_MIB) /* (wire) one part, as it is sent */

/* Connections. */
#define BOX_REQUESTS_MAX 128              /* (wire) requests under way on one connection */
#define BOX_CANCELS_MAX 4                 /* (wire) __cancel_action beside those */
#define BOX_ACKS_MAX 128                  /* (wire) __stream_ack beside those */
#define BOX_CONNECTIONS_MAX 1024          /* authenticated WebSocket connections */
#define BOX_PENDING_MAX 1024              /* connections not yet authenticated, in all */
#define BOX_PENDING_PER_PEER_MAX 256      /* and from one address */
#define BOX_HANDSHAKE_MS 5000             /* a head must be complete by then */
#define BOX_LINGER_MS 1000                /* for the peer to take an answer and close */
#define BOX_PING_INTERVAL_SEC 30          /* (wire) WebSocket ping when idle */
#define BOX_PING_HANGUP_SEC 60            /* no valid traffic for this long: gone */
#define BOX_OUT_PAUSE_BYTES (1 * BOX_MIB) /* queued output above which we stop reading a peer */
#define BOX_OUT_RESUME_BYTES (256 * BOX_KIB)
#define BOX_OUT_BYTES_MAX (256 * BOX_MIB)  /* queued output above which the connection is closed */
#define BOX_WS_FRAME_BYTES (256 * BOX_KIB) /* we send and receive frames in pieces of this size */

/* HTTP heads. */
#define BOX_HTTP_HEAD_BYTES_MAX 8192
#define BOX_HTTP_HEAD_LINES_MAX 64

/* Names. */
#define BOX_INSTANCE_ID_MAX 128  /* (wire) */
#define BOX_WORKSPACE_ID_MAX 256 /* (wire, relay) */
#define BOX_TENANT_SIZE 28       /* "ws-", 24 hex digits of a workspace, NUL */
#define BOX_TOKEN_MIN 32         /* (wire) */
#define BOX_TOKEN_MAX 4096
#define BOX_TOKENS_MAX 2 /* valid at the same time, so that a token can be replaced */
#define BOX_TOKENS_TEXT_MAX (4 * BOX_KIB + BOX_TOKENS_MAX * BOX_TOKEN_MAX) /* of their file */
#define BOX_SESSION_ID_MAX 512 /* logical session id, bytes */
#define BOX_FILE_KEY_MAX 255   /* (wire) */
#define BOX_PATH_MAX 4096
#define BOX_IMAGES_MAX 32                             /* named by the operator */
#define BOX_IMAGE_NAME_MAX 127                        /* bytes */
#define BOX_VOLUMES_MAX 64                            /* (wire) of a session */
#define BOX_TIMEOUT_NONE_SEC (10LL * 365 * 24 * 3600) /* a timeout_sec that means no timeout */
#define BOX_SESSION_TIME_SEC_MAX INT32_MAX /* (wire) of idle_timeout_sec and max_duration_sec */
#define BOX_SESSIONS_STOPPED_MAX 256       /* remembered by name; the oldest is forgotten first */
#define BOX_EXEC_GRACE_MS 2000             /* (wire) of keep_on_timeout: SIGTERM, then SIGKILL */
#define BOX_SESSION_STOPPED_SEC 86400      /* (wire) how long they are remembered */

/* Texts. */
#define BOX_ERROR_TEXT_MAX 4096 /* (wire) */

/* File transfers by __file_chunk. */
#define BOX_FILE_CHUNK_BYTES (16 * BOX_KIB)       /* (wire) */
#define BOX_FILES_MAX 128                         /* (wire) at once on a connection */
#define BOX_FILES_TOTAL_BYTES_MAX (256 * BOX_MIB) /* held by all connections together */

/* Files in boxes. */
#define BOX_FILE_OP_READ_BYTES_MAX (8 * BOX_MIB) /* (wire) one read: its base64 fits in a message */
#define BOX_FILE_OP_READS_BYTES_MAX \
	(64 * BOX_MIB) /* (wire) reads in progress on one connection; further ones wait */
#define BOX_FILE_OP_LIST_MAX 10000               /* (wire) entries of one page */
#define BOX_FILE_OP_LIST_DEFAULT 1000            /* (wire) */
#define BOX_FILE_OP_LIST_BYTES_MAX (1 * BOX_MIB) /* names and targets of one page */
#define BOX_FILE_OPS_MAX 64                      /* (wire) in progress in one session, including: */
#define BOX_FILE_OP_WATCHES_MAX 16               /* (wire) */
#define BOX_FILE_OP_MS 60000                     /* (wire) for an operation other than a watch */
#define BOX_FILE_OP_EVENTS_BYTES (64 * BOX_KIB)  /* of one watch, not yet taken by the client */

/* Configuration. */
#define BOX_CONFIG_BYTES_MAX (1 * BOX_MIB) /* --config file, LANGBOT_BOX_CONFIG */
#define BOX_CONFIG_FINDINGS_MAX 32         /* errors and warnings reported for one file */
#define BOX_CONFIG_REPORT_ENTRIES_MAX 48   /* reported about a file and the paths in it */
#define BOX_MOUNT_ROOTS_MAX 64
#define BOX_PATH_CHECK_MS 10000 /* --check-config: per path */
#define BOX_HOST_STATE_TICKS 3  /* seconds between boxd's checks of what boxes would get */

/* If the operator has set no limit, one spec may ask for this much even on a smaller host. */
#define BOX_CEILING_MEMORY_MB_MIN 2048
#define BOX_CEILING_CPUS_MIN 2

/* What box-rpc saves for its successor. */
#define BOX_SAVED_STATE_BYTES_MAX (256 * BOX_MIB)

/* Output of commands held in box-rpc; what exceeds the limits is dropped and counted. The first limit
 * is guaranteed to each stream; what a stream holds above it counts towards the second. */
#define BOX_OUTPUT_BYTES_MIN (256 * BOX_KIB)
#define BOX_OUTPUTS_BYTES_MAX (512 * BOX_MIB) /* all together */

/* Input that managed processes have not read. The first limit is guaranteed to each process; what it
 * holds above that counts towards the last. */
#define BOX_PROCESS_INPUT_BYTES_MIN (512 * BOX_KIB)
#define BOX_PROCESS_INPUT_PAUSE_BYTES (16 * BOX_MIB) /* above this the sender is no longer read */
#define BOX_PROCESS_INPUT_BYTES_MAX (33 * BOX_MIB)   /* one more message and its line end */
#define BOX_INPUTS_PAUSE_BYTES (256 * BOX_MIB) /* all together: above this nobody may send ahead */
#define BOX_INPUTS_BYTES_MAX (512 * BOX_MIB)
#define BOX_WS_RELAY_EARLY_BYTES_MAX (1 * BOX_MIB) /* of a relay that waits for its turn */

/* After a restart: how long boxes may take to report what became of their processes; then all clients
 * are served. */
#define BOX_INHERIT_MS 1000

/* Reading the output of a managed process. */
#define BOX_PROCESS_LOG_BYTES_MIN \
	(64 * 1024) /* (wire) of recent output, for a process with a log */
#define BOX_PROCESS_LOG_BYTES_MAX (16 * 1024 * 1024) /* (wire) */
#define BOX_PROCESS_PEEKS_MAX 16                     /* that wait */
#define BOX_PROCESS_PEEK_BYTES_MAX (60 * BOX_KIB)    /* (wire) in one answer */
#define BOX_PROCESS_PEEK_MS_MAX 60000                /* (wire) */

/* Messages that wait for one box. */
#define BOX_INIT_SOCKET_BYTES (512 * 1024)            /* socket buffer, each direction */
#define BOX_INIT_QUEUE_RUNS_BYTES_MAX (128 * BOX_MIB) /* above this it gets no new commands */
#define BOX_INIT_QUEUE_BYTES_MAX (256 * BOX_MIB)      /* above this the connection is closed */

/* Limits of one box beside memory, processes and processors. The SHARED ones apply if all boxes run as
 * one user: the kernel then counts them for that user too, who usually has 128 inotify instances. */
#define BOX_OPEN_FILES_MAX 4096 /* per process */
#define BOX_OPEN_FILES_MIN 1024 /* the minimum that programs rely on everywhere */
#define BOX_OPEN_FILES_SHARE 16 /* one box may have 1/16 of fs.file-max, but at least the minimum */
#define BOX_INOTIFY_INSTANCES 128
#define BOX_INOTIFY_INSTANCES_SHARED 24 /* more than BOX_FILE_OP_WATCHES_MAX */
#define BOX_INOTIFY_WATCHES 65536
#define BOX_INOTIFY_WATCHES_SHARED 8192
#define BOX_SIGNALS_PENDING 4096 /* queued signals and timers */
#define BOX_SIGNALS_PENDING_SHARED 1024
#define BOX_NETLINK_SOCKETS_MAX 256 /* with more the box is ended, as above its memory limit */
#define BOX_SOCKETS_CHECK_MS 200
#define BOX_LOCKED_BYTES_MAX (8 * BOX_MIB) /* by mlock; the kernel's default */

/* Boxes of one boxd, including those that are ending: more than max_sessions can be. */
#define BOX_BOXES_MAX 5120
/* Process cgroups of one box, including those that cannot be removed yet. */
#define BOX_PROCESS_CGROUPS_MAX 1024

/* MicroVMs. */
#define BOX_MICROVM_MEMORY_BYTES_MIN (128 * BOX_MIB) /* less does not hold a kernel and a command */
#define BOX_MICROVM_OVERHEAD_BYTES (128 * BOX_MIB)   /* for box-vmm, beside guest memory */
#define BOX_MICROVM_TASKS_MAX 64        /* processes and threads of box-vmm, beside one per cpu */
#define BOX_MICROVM_CPUS_MAX 64         /* of one microVM */
#define BOX_MICROVM_OPEN_FILES 65536    /* of box-vmm, if the host allows as many */
#define BOX_MICROVM_START_MS 10000      /* deadline for a microVM to be up */
#define BOX_MICROVM_START_SLOW_MS 60000 /* where the host's KVM was found to be slow */
#define BOX_MICROVM_REPORT_MS 5000      /* additional time for box-vmm to report a failure */
#define BOX_MICROVM_PROBE_MS 120000     /* for the guest that the probe boots */
#define BOX_MICROVMS_WAITING_MAX 1024   /* requests that wait for the probe */
#define BOX_MICROVM_RESERVE_BYTES_MIN (256 * BOX_MIB) /* host memory that microVMs never get, */
#define BOX_MICROVM_RESERVE_DIVISOR 16                /* and at least this part of the total */

/* A managed process with a memory limit of its own: less does not hold a program. */
#define BOX_PROCESS_MEMORY_MB_MIN 4

/* What box-vmm takes from boxd, and keeps of a guest. */
#define BOX_VMM_BOOT_BYTES_MAX (8 * BOX_MIB)  /* the boot file */
#define BOX_VMM_INIT_BYTES_MAX (16 * BOX_MIB) /* box-init */
#define BOX_VMM_MEMORY_MIB_MIN 32             /* of a guest; less does not boot a kernel */
#define BOX_VMM_MEMORY_MIB_MAX (1024 * 1024)
#define BOX_VMM_CPUS_MAX 64
#define BOX_VMM_DEADLINE_MS_MAX 600000 /* for the guest's first message */
#define BOX_VMM_CONSOLE_BYTES 4096     /* kept of the end of its console */
#define BOX_VMM_MOUNTS_MAX 4096        /* of all commands of one box together */
#define BOX_VMM_CLOCK_SEC 30           /* interval at which the guest is told the time */

/* Terminals in one box, including those that commands open themselves. */
#define BOX_TERMINALS_MAX 64

/* What boxes with an allowlist may reach. */
#define BOX_EGRESS_ALLOW_MAX 64     /* (wire) entries; each is compared with every packet */
#define BOX_EGRESS_HOST_PORTS_MAX 8 /* (wire) ports of the host; each needs a socket */
#define BOX_HOST_ADDRESSES_MAX \
	16384 /* on the host's loopback, shared by all runtimes of the host */
#define BOX_HOST_CONNECTIONS_MAX 256        /* of one box to ports of the host, at once */
#define BOX_PORT_PROXY_BYTES (16 * BOX_KIB) /* buffered per connection and direction */

/* What other programs do for boxd: the skill store, artifacts, storage analysis. */
#define BOX_JOBS_MAX 16 /* programs started by boxd, beside box-rpc and boxes */
#define BOX_SKILLS_WAITING_BYTES_MAX (64 * BOX_MIB)   /* of requests to the skill store */
#define BOX_SKILLS_REQUEST_MS 15000                   /* for one request to it without an archive */
#define BOX_SKILLS_ARCHIVE_REQUEST_MS 60000           /* for one with an archive, or behind one */
#define BOX_DIGEST_HEX_SIZE 65                        /* SHA-256 with its NUL */
#define BOX_ARTIFACT_MANIFEST_BYTES_MAX (4 * BOX_MIB) /* (wire) */
#define BOX_ARTIFACT_FILES_MAX 2048                   /* (wire) */
#define BOX_ARTIFACT_BYTES_MAX (256 * BOX_MIB)        /* (wire) of one, and of all in one box */
#define BOX_ARTIFACTS_PER_BOX_MAX 256                 /* (wire) in one box */
#define BOX_ARTIFACTS_MAX 1024                        /* cached by boxd */
#define BOX_ARTIFACTS_BYTES_MAX (1024 * BOX_MIB)      /* and in boxes, unless configured */
#define BOX_ARTIFACTS_WAITING_MAX 512   /* requests for an artifact that is being filled */
#define BOX_ARTIFACT_MS 60000           /* to fill one */
#define BOX_MEASURES_MAX 4              /* folders or boxes measured at once */
#define BOX_MEASURES_WAITING_MAX 64     /* requests that wait for that */
#define BOX_MEASURE_MS 30000            /* for one measurement, which is then abandoned */
#define BOX_MEASURE_ENTRIES_MAX 1000000 /* per walk */
#define BOX_MEASURE_DEPTH_MAX 512       /* nested folders */
#define BOX_ANALYSIS_MS 25000           /* after that a request measures nothing more */

/* Folders of callers as the root of a box: boxd copies their /etc. */
#define BOX_CALLERS_ROOTS_MAX 4 /* copied at once */
#define BOX_CALLERS_ROOTS_WAITING_MAX 256
#define BOX_CALLERS_ROOT_MS 10000               /* for one copy */
#define BOX_CALLERS_ETC_ENTRIES_MAX 4096        /* usually there are one or two thousand */
#define BOX_CALLERS_ETC_BYTES_MAX (4 * BOX_MIB) /* this memory is charged to no box */
#define BOX_CALLERS_ROOT_TOP_MAX 512            /* entries at the top of the root, of any type */

/* Workspace quotas of folders of the host. */
#define BOX_QUOTA_BYTES_MAX (4UL * 1024 * 1024 * BOX_MIB) /* one */
#define BOX_QUOTA_BYTES_MIN (1 * BOX_MIB)
#define BOX_QUOTAS_MAX 2            /* images worked on at once */
#define BOX_QUOTAS_WAITING_MAX 1024 /* requests that wait for that */
#define BOX_QUOTA_MS 300000         /* for one, including the copy of the folder's content */

/* Life. */
#define BOX_SHUTDOWN_GRACE_MS 5000 /* after SIGTERM: how long running work may take to finish */
#define BOX_SHUTDOWN_KILL_MS 9000  /* then box-rpc is killed */
#define BOX_EOF_GRACE_MS 1000      /* after EOF on stdin: how long answers may still be written */
#define BOX_RESTART_PAUSE_MAX_MS 500

/* Archives that `box cp` reads. */
#define BOX_TAR_EXTRA_BYTES_MAX (1 * BOX_MIB) /* a pax header or long name */
#define BOX_TAR_SIZE_MAX (1LL << 53)          /* one file */
#define BOX_COPY_DEPTH_MAX 256                /* nested folders, each with an open fd */
#define BOX_COPY_ERRORS_MAX 20                /* further ones are only counted */

/* Skills. */
#define BOX_SKILL_NAME_MAX 64                  /* (wire) characters */
#define BOX_SKILL_TEXT_BYTES_MAX (1 * BOX_MIB) /* (wire) SKILL.md, and any file read or written */
#define BOX_SKILL_LIST_TEXT_BYTES_MAX (16 * BOX_MIB) /* (wire) of all skills of a tenant */
#define BOX_SKILL_LIST_DEPTH 6                       /* (wire) folders below the tenant's root */
#define BOX_SKILL_SCAN_DEPTH 2                  /* (wire) below a scanned folder, in an archive */
#define BOX_SKILL_ENTRIES_MAX 10000             /* (wire) examined to find skills; per folder */
#define BOX_SKILLS_MAX 1000                     /* (wire) of one tenant, of one archive */
#define BOX_SKILL_FILES_MAX 1000                /* (wire) in one answer */
#define BOX_SKILL_FILES_DEFAULT 200             /* (wire) */
#define BOX_SKILL_META_BYTES_MAX (64 * BOX_KIB) /* front matter */
#define BOX_SKILL_META_DEPTH_MAX 32             /* lists and maps in it */
#define BOX_SKILL_META_VALUES_MAX 10000         /* in it; merged ones count each time */
#define BOX_SKILL_META_ANCHORS_MAX 64           /* in it, and aliases: */
#define BOX_SKILL_META_ALIASES_MAX 256
#define BOX_SKILL_META_WORK_MAX 250000               /* values in all skills of a tenant */
#define BOX_SKILL_META_TEXT_MAX (64 * BOX_KIB)       /* one of its fields as text */
#define BOX_SKILL_DESCRIPTION_MAX 1024               /* characters; a longer one gets a warning */
#define BOX_SKILL_COMPATIBILITY_MAX 500              /* the same */
#define BOX_SKILL_WARNINGS_MAX 64                    /* of one skill */
#define BOX_SKILL_LINKS_MAX 40                       /* followed on the way to one file */
#define BOX_SKILL_LOCK_MS 3000                       /* to get the lock on the staging folder */
#define BOX_SKILL_REMOVE_DEPTH 64                    /* folders open at once while removing */
#define BOX_SKILL_TENANTS_CACHED_MAX 64              /* tenants whose lists are cached */
#define BOX_SKILL_CACHED_BYTES_MAX (64 * BOX_MIB)    /* of all tenants together */
#define BOX_SKILLS_MEMORY_BYTES_MAX (1024 * BOX_MIB) /* of box-skills */
#define BOX_SKILL_CACHED_FDS_MAX 32768               /* folders and files kept open by the cache */

/* Skill archives (ZIP). */
#define BOX_ARCHIVE_BYTES_MAX (20 * BOX_MIB)         /* (wire) packed */
#define BOX_ARCHIVE_ENTRIES_MAX 512                  /* (wire) */
#define BOX_ARCHIVE_ENTRY_BYTES_MAX (16 * BOX_MIB)   /* (wire) one entry, unpacked */
#define BOX_ARCHIVE_TOTAL_BYTES_MAX (64 * BOX_MIB)   /* (wire) all entries, unpacked */
#define BOX_ARCHIVE_RATIO_MAX 100                    /* (wire) unpacked to packed */
#define BOX_ARCHIVE_FOLDERS_MAX 1024                 /* with those only implied by names */
#define BOX_ARCHIVE_PART_BYTES_MAX 255               /* one component of a path */
#define BOX_ARCHIVE_DEPTH_MAX 32                     /* components of a path */
#define BOX_ARCHIVE_SHOWN_MAX 255                    /* characters of a name shown in an error */
#define BOX_ARCHIVE_NESTING_MAX 4                    /* nested archives below it */
#define BOX_ARCHIVE_NESTED_ENTRIES_MAX 16384         /* in all those together */
#define BOX_ARCHIVE_MS 30000                         /* to unpack one, onto disk if necessary */
#define BOX_ARCHIVE_CPU_SEC 20                       /* of processor time */
#define BOX_ARCHIVE_MEMORY_BYTES_MAX (512 * BOX_MIB) /* of the process that unpacks */

/* The service of libbox. */
#define BOX_SERVICE_OUTPUT_CHARS 4000 /* of stdout and of stderr, unless configured */
#define BOX_SERVICE_OUTPUT_CHARS_MAX (1 << 24)
#define BOX_SERVICE_ERRORS_KEPT 50          /* the most recent ones */
#define BOX_SERVICE_ERROR_CHARS_MAX 1000    /* of each error's text */
#define BOX_SERVICE_TEMPLATE_BYTES_MAX 1024 /* of session ids */
#define BOX_SERVICE_JOBS_MAX 128 /* runs in progress; more than the runtime takes at once */
#define BOX_PROFILES_MAX 64      /* defined by the operator */
#define BOX_PROFILE_NAME_MAX 64
#define BOX_WORKSPACE_ENTRIES_DEFAULT 100000 /* examined in one walk for the quota */
#define BOX_WORKSPACE_ENTRIES_MAX 1000000
#define BOX_WORKSPACE_DEPTH_MAX 256    /* nested folders, each with an open fd */
#define BOX_WORKSPACE_STEP_ENTRIES 512 /* examined per turn of the event loop */
