/* Every size, count and time that someone outside can influence, in one place.
 *
 * A number that bounds what a client, a guest or a config file may ask for stands here, or in
 * runtime/guest/wire*.h where box-init must know it; the code names it. Those marked (wire) are part
 * of the protocol: clients count on them.
 */
#pragma once

#define BOX_KIB 1024UL
#define BOX_MIB (1024UL * BOX_KIB)

/* Messages. */
#define BOX_MESSAGE_BYTES_MAX (16 * BOX_MIB) /* (wire) one message, either direction */
#define BOX_MESSAGE_DEPTH_MAX 32             /* nesting of lists and maps */
#define BOX_MESSAGE_VALUES_MAX 262144        /* values in one message, keys not counted */
#define BOX_PINNED_BYTES_MAX (256 * BOX_MIB) /* unfinished incoming messages, all connections */

/* stdio lines. */
#define BOX_STDIO_CHUNK_BYTES (16 * BOX_KIB) /* (wire) above this a message goes in chunks */
#define BOX_STDIO_LINE_OUT_MAX 65535         /* (wire) longest line we write, newline included */

/* Streamed answers. */
#define BOX_STREAM_PART_BYTES_MAX (1 * BOX_MIB) /* (wire) one part, as it is sent */

/* Connections. */
#define BOX_REQUESTS_MAX 128              /* (wire) requests under way on one connection */
#define BOX_CANCELS_MAX 4                 /* (wire) __cancel_action beside them */
#define BOX_ACKS_MAX 128                  /* (wire) __stream_ack beside them */
#define BOX_CONNECTIONS_MAX 1024          /* authenticated WebSocket connections */
#define BOX_PENDING_MAX 1024              /* connections not yet authenticated, in all */
#define BOX_PENDING_PER_PEER_MAX 256      /* and from one address */
#define BOX_HANDSHAKE_MS 5000             /* a head must be complete by then */
#define BOX_LINGER_MS 1000                /* wait for the peer to take an answer and go */
#define BOX_PING_INTERVAL_SEC 30          /* (wire) WebSocket ping when idle */
#define BOX_PING_HANGUP_SEC 60            /* no valid traffic for this long: gone */
#define BOX_OUT_PAUSE_BYTES (1 * BOX_MIB) /* queued output above which we stop reading a peer */
#define BOX_OUT_RESUME_BYTES (256 * BOX_KIB)
#define BOX_OUT_BYTES_MAX (256 * BOX_MIB)  /* queued output at which the peer is given up */
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
#define BOX_TOKENS_MAX 2 /* valid at once, so that one can be changed */
#define BOX_TOKENS_TEXT_MAX (4 * BOX_KIB + BOX_TOKENS_MAX * BOX_TOKEN_MAX) /* of their file */
#define BOX_SESSION_ID_MAX 512 /* logical session id, bytes */
#define BOX_FILE_KEY_MAX 255   /* (wire) */
#define BOX_PATH_MAX 4096
#define BOX_IMAGES_MAX 32                             /* that the operator names */
#define BOX_IMAGE_NAME_MAX 127                        /* bytes */
#define BOX_VOLUMES_MAX 64                            /* (wire) of a session */
#define BOX_TIMEOUT_NONE_SEC (10LL * 365 * 24 * 3600) /* a timeout_sec that means: no end */
#define BOX_SESSION_TIME_SEC_MAX INT32_MAX /* (wire) of idle_timeout_sec and max_duration_sec */
#define BOX_SESSIONS_STOPPED_MAX 256       /* kept as names; the oldest of them goes */
#define BOX_EXEC_GRACE_MS 2000             /* (wire) of keep_on_timeout: SIGTERM, then SIGKILL */
#define BOX_SESSION_STOPPED_SEC 86400      /* (wire) and for how long */

/* Texts. */
#define BOX_ERROR_TEXT_MAX 4096 /* (wire) */

/* File transfers by __file_chunk. */
#define BOX_FILE_CHUNK_BYTES (16 * BOX_KIB)       /* (wire) */
#define BOX_FILES_MAX 128                         /* (wire) at once on a connection */
#define BOX_FILES_TOTAL_BYTES_MAX (256 * BOX_MIB) /* held by all connections together */

/* Files in boxes. */
#define BOX_FILE_OP_READ_BYTES_MAX \
	(8 * BOX_MIB) /* (wire) of one read: base64 of it fits a message */
#define BOX_FILE_OP_READS_BYTES_MAX \
	(64 * BOX_MIB)             /* (wire) of reads under way for one connection; others wait */
#define BOX_FILE_OP_LIST_MAX 10000 /* (wire) entries of one page */
#define BOX_FILE_OP_LIST_DEFAULT 1000            /* (wire) */
#define BOX_FILE_OP_LIST_BYTES_MAX (1 * BOX_MIB) /* names and targets of one page */
#define BOX_FILE_OPS_MAX 64                      /* (wire) under way in one session, with: */
#define BOX_FILE_OP_WATCHES_MAX 16               /* (wire) */
#define BOX_FILE_OP_MS 60000                     /* (wire) for one that is no watch */
#define BOX_FILE_OP_EVENTS_BYTES (64 * BOX_KIB)  /* of a watch on their way to the client */

/* Configuration. */
#define BOX_CONFIG_BYTES_MAX (1 * BOX_MIB) /* --config file, LANGBOT_BOX_CONFIG */
#define BOX_CONFIG_FINDINGS_MAX 32         /* errors and warnings of one file that are told */
#define BOX_CONFIG_REPORT_ENTRIES_MAX 48   /* what is told of a file and of the paths in it */
#define BOX_MOUNT_ROOTS_MAX 64
#define BOX_PATH_CHECK_MS 10000 /* --check-config: for one path */
#define BOX_HOST_STATE_TICKS 3  /* seconds after which boxd looks again at what boxes would get */

/* The least that one spec may ask for where the operator has set no ceiling, however small the host. */
#define BOX_CEILING_MEMORY_MB_MIN 2048
#define BOX_CEILING_CPUS_MIN 2

/* What box-rpc leaves for its successor. */
#define BOX_SAVED_STATE_BYTES_MAX (256 * BOX_MIB)

/* Output of commands held in box-rpc; what is beyond is dropped and counted. Each stream of a
 * command has the first, whatever the others do; what it has above that counts for the second. */
#define BOX_OUTPUT_BYTES_MIN (256 * BOX_KIB)
#define BOX_OUTPUTS_BYTES_MAX (512 * BOX_MIB) /* all together */

/* Input that managed processes have not taken. Each has the first, whatever the others do; what it has
 * above that counts for the last. */
#define BOX_PROCESS_INPUT_BYTES_MIN (512 * BOX_KIB)
#define BOX_PROCESS_INPUT_PAUSE_BYTES (16 * BOX_MIB) /* then whoever sends it is not read */
#define BOX_PROCESS_INPUT_BYTES_MAX (33 * BOX_MIB)   /* one message more, and its line end */
#define BOX_INPUTS_PAUSE_BYTES (256 * BOX_MIB) /* all together: then nobody may send far ahead */
#define BOX_INPUTS_BYTES_MAX (512 * BOX_MIB)
#define BOX_WS_RELAY_EARLY_BYTES_MAX (1 * BOX_MIB) /* of a relay that waits for its turn */

/* After a restart: boxes may take so long to say what became of their processes; then all are
 * served. */
#define BOX_INHERIT_MS 1000

/* Looks at the output of one managed process. */
#define BOX_PROCESS_LOG_BYTES_MIN (64 * 1024) /* (wire) of the last output of one with a log */
#define BOX_PROCESS_LOG_BYTES_MAX (16 * 1024 * 1024) /* (wire) */
#define BOX_PROCESS_PEEKS_MAX 16                     /* that wait */
#define BOX_PROCESS_PEEK_BYTES_MAX (60 * BOX_KIB)    /* (wire) in one answer */
#define BOX_PROCESS_PEEK_MS_MAX 60000                /* (wire) */

/* Waiting for one box. */
#define BOX_INIT_SOCKET_BYTES (512 * 1024)            /* in the kernel, each way */
#define BOX_INIT_QUEUE_RUNS_BYTES_MAX (128 * BOX_MIB) /* then it gets no new commands */
#define BOX_INIT_QUEUE_BYTES_MAX (256 * BOX_MIB)      /* then it is given up */

/* Of one box, beside memory, processes and processors. Those that are SHARED count where all boxes are
 * one user: the kernel then counts them for that user too, who has 128 instances as a rule. */
#define BOX_OPEN_FILES_MAX 4096 /* of one process */
#define BOX_OPEN_FILES_MIN 1024 /* what programs may count on everywhere */
#define BOX_OPEN_FILES_SHARE 16 /* one box may have this part of fs.file-max, down to the least */
#define BOX_INOTIFY_INSTANCES 128
#define BOX_INOTIFY_INSTANCES_SHARED 24 /* more than BOX_FILE_OP_WATCHES_MAX */
#define BOX_INOTIFY_WATCHES 65536
#define BOX_INOTIFY_WATCHES_SHARED 8192
#define BOX_SIGNALS_PENDING 4096 /* queued signals and timers */
#define BOX_SIGNALS_PENDING_SHARED 1024
#define BOX_NETLINK_SOCKETS_MAX 256 /* then it ends, as when they hold more than its memory */
#define BOX_SOCKETS_CHECK_MS 200
#define BOX_LOCKED_BYTES_MAX (8 * BOX_MIB) /* by mlock; the kernel's own default */

/* Boxes of one boxd, those that end counted too: more than max_sessions can be. */
#define BOX_BOXES_MAX 5120
/* Of one box, groups for single processes; those that cannot be removed yet counted too. */
#define BOX_PROCESS_CGROUPS_MAX 1024

/* MicroVMs. */
#define BOX_MICROVM_MEMORY_BYTES_MIN (128 * BOX_MIB) /* less holds no kernel with a command */
#define BOX_MICROVM_OVERHEAD_BYTES (128 * BOX_MIB)   /* for what runs one, beside its memory */
#define BOX_MICROVM_TASKS_MAX 64        /* processes and threads of that, beside one for each cpu */
#define BOX_MICROVM_CPUS_MAX 64         /* of one */
#define BOX_MICROVM_OPEN_FILES 65536    /* of what runs one, where the host gives so many */
#define BOX_MICROVM_START_MS 10000      /* one must be there by then */
#define BOX_MICROVM_START_SLOW_MS 60000 /* where the host's KVM was found to be slow */
#define BOX_MICROVM_REPORT_MS 5000      /* more, for box-vmm to say what became of it */
#define BOX_MICROVM_PROBE_MS 120000     /* for the one guest that is tried */
#define BOX_MICROVMS_WAITING_MAX 1024   /* requests, until it is known whether there can be any */
#define BOX_MICROVM_RESERVE_BYTES_MIN (256 * BOX_MIB) /* of the host's memory that none gets, */
#define BOX_MICROVM_RESERVE_DIVISOR 16                /* and no less than this part of all of it */

/* A managed process with a limit of memory of its own: less would hold no program. */
#define BOX_PROCESS_MEMORY_MB_MIN 4

/* What box-vmm takes from boxd, and holds of a guest. */
#define BOX_VMM_BOOT_BYTES_MAX (8 * BOX_MIB)  /* the boot file */
#define BOX_VMM_INIT_BYTES_MAX (16 * BOX_MIB) /* box-init */
#define BOX_VMM_MEMORY_MIB_MIN 32             /* of a guest; less boots no kernel */
#define BOX_VMM_MEMORY_MIB_MAX (1024 * 1024)
#define BOX_VMM_CPUS_MAX 64
#define BOX_VMM_DEADLINE_MS_MAX 600000 /* for its first word */
#define BOX_VMM_CONSOLE_BYTES 4096     /* of its console's end */
#define BOX_VMM_MOUNTS_MAX 4096        /* of all commands of one box, at once */
#define BOX_VMM_CLOCK_SEC 30           /* then it is told the time again */

/* Terminals in one box, with those that commands make themselves. */
#define BOX_TERMINALS_MAX 64

/* What boxes with an allowlist may reach. */
#define BOX_EGRESS_ALLOW_MAX 64      /* (wire) entries; each is looked at for every packet */
#define BOX_EGRESS_HOST_PORTS_MAX 8  /* (wire) ports of the host; each is a socket of its own */
#define BOX_HOST_ADDRESSES_MAX 16384 /* on the host's loopback, for all runtimes of a host */
#define BOX_HOST_CONNECTIONS_MAX 256 /* of one box to ports of the host, at once */
#define BOX_PORT_PROXY_BYTES (16 * BOX_KIB) /* of one of them under way, each direction */

/* What others do for boxd: the skill store, artifacts, storage analysis. */
#define BOX_JOBS_MAX 16 /* programs that boxd has started beside box-rpc and boxes */
#define BOX_SKILLS_WAITING_BYTES_MAX (64 * BOX_MIB)   /* of requests to the skill store */
#define BOX_SKILLS_REQUEST_MS 15000                   /* for one request to it without an archive */
#define BOX_SKILLS_ARCHIVE_REQUEST_MS 60000           /* for one that has or follows an archive */
#define BOX_DIGEST_HEX_SIZE 65                        /* SHA-256, with its end */
#define BOX_ARTIFACT_MANIFEST_BYTES_MAX (4 * BOX_MIB) /* (wire) */
#define BOX_ARTIFACT_FILES_MAX 2048                   /* (wire) */
#define BOX_ARTIFACT_BYTES_MAX (256 * BOX_MIB)        /* (wire) of one, and of all in one box */
#define BOX_ARTIFACTS_PER_BOX_MAX 256                 /* (wire) in one box */
#define BOX_ARTIFACTS_MAX 1024                        /* kept by boxd */
#define BOX_ARTIFACTS_BYTES_MAX (1024 * BOX_MIB) /* and in boxes, unless the operator says more */
#define BOX_ARTIFACTS_WAITING_MAX 512            /* requests for one that is being filled */
#define BOX_ARTIFACT_MS 60000                    /* to fill one */
#define BOX_MEASURES_MAX 4                       /* folders or boxes measured at once */
#define BOX_MEASURES_WAITING_MAX 64              /* and waiting for that in boxd */
#define BOX_MEASURE_MS 30000                     /* for one; what takes longer is given up */
#define BOX_MEASURE_ENTRIES_MAX 1000000          /* seen in one walk */
#define BOX_MEASURE_DEPTH_MAX 512                /* folders in folders */
#define BOX_ANALYSIS_MS 25000 /* after that nothing more is measured for one request */

/* Folders of callers as the root of a box: of their /etc a copy is made. */
#define BOX_CALLERS_ROOTS_MAX 4 /* copied at once */
#define BOX_CALLERS_ROOTS_WAITING_MAX 256
#define BOX_CALLERS_ROOT_MS 10000               /* for one */
#define BOX_CALLERS_ETC_ENTRIES_MAX 4096        /* a usual one has a thousand or two */
#define BOX_CALLERS_ETC_BYTES_MAX (4 * BOX_MIB) /* of memory that is nobody's limit */
#define BOX_CALLERS_ROOT_TOP_MAX 512            /* names at its top, of any kind */

/* Workspace quotas of folders of the host. */
#define BOX_QUOTA_BYTES_MAX (4UL * 1024 * 1024 * BOX_MIB) /* one */
#define BOX_QUOTA_BYTES_MIN (1 * BOX_MIB)
#define BOX_QUOTAS_MAX 2            /* images worked on at once */
#define BOX_QUOTAS_WAITING_MAX 1024 /* and waiting for that in boxd */
#define BOX_QUOTA_MS 300000         /* for one; what is in the folder must be copied in that time */

/* Life. */
#define BOX_SHUTDOWN_GRACE_MS 5000 /* after SIGTERM: what runs may finish */
#define BOX_SHUTDOWN_KILL_MS 9000  /* then box-rpc is ended by force */
#define BOX_EOF_GRACE_MS 1000      /* after EOF on stdin: answers may still drain */
#define BOX_RESTART_PAUSE_MAX_MS 500

/* Archives that `box cp` reads. */
#define BOX_TAR_EXTRA_BYTES_MAX (1 * BOX_MIB) /* a pax header, a long name */
#define BOX_TAR_SIZE_MAX (1LL << 53)          /* one file */
#define BOX_COPY_DEPTH_MAX 256                /* folders in folders, each an open fd */
#define BOX_COPY_ERRORS_MAX 20                /* then they are only counted */

/* Skills. */
#define BOX_SKILL_NAME_MAX 64                  /* (wire) characters */
#define BOX_SKILL_TEXT_BYTES_MAX (1 * BOX_MIB) /* (wire) SKILL.md, and any file read or written */
#define BOX_SKILL_LIST_TEXT_BYTES_MAX (16 * BOX_MIB) /* (wire) of all skills of a tenant */
#define BOX_SKILL_LIST_DEPTH 6                       /* (wire) folders below the tenant's root */
#define BOX_SKILL_SCAN_DEPTH 2                  /* (wire) below a scanned folder, in an archive */
#define BOX_SKILL_ENTRIES_MAX 10000             /* (wire) looked at to find skills; of one folder */
#define BOX_SKILLS_MAX 1000                     /* (wire) of one tenant, of one archive */
#define BOX_SKILL_FILES_MAX 1000                /* (wire) in one answer */
#define BOX_SKILL_FILES_DEFAULT 200             /* (wire) */
#define BOX_SKILL_META_BYTES_MAX (64 * BOX_KIB) /* front matter */
#define BOX_SKILL_META_DEPTH_MAX 32             /* lists and maps in it */
#define BOX_SKILL_META_VALUES_MAX 10000         /* in it, merged ones counted again */
#define BOX_SKILL_META_ANCHORS_MAX 64           /* in it, and aliases: */
#define BOX_SKILL_META_ALIASES_MAX 256
#define BOX_SKILL_META_WORK_MAX 250000               /* values of all skills of a tenant */
#define BOX_SKILL_META_TEXT_MAX (64 * BOX_KIB)       /* one of its fields as text */
#define BOX_SKILL_DESCRIPTION_MAX 1024               /* characters; a longer one gets a warning */
#define BOX_SKILL_COMPATIBILITY_MAX 500              /* the same */
#define BOX_SKILL_WARNINGS_MAX 64                    /* of one skill */
#define BOX_SKILL_LINKS_MAX 40                       /* followed on the way to one file */
#define BOX_SKILL_LOCK_MS 3000                       /* for a lock on the staging folder */
#define BOX_SKILL_REMOVE_DEPTH 64                    /* folders open at once while removing */
#define BOX_SKILL_TENANTS_CACHED_MAX 64              /* whose lists are remembered */
#define BOX_SKILL_CACHED_BYTES_MAX (64 * BOX_MIB)    /* remembered, all tenants */
#define BOX_SKILLS_MEMORY_BYTES_MAX (1024 * BOX_MIB) /* of box-skills */
#define BOX_SKILL_CACHED_FDS_MAX 32768               /* folders and files held open with them */

/* Skill archives (ZIP). */
#define BOX_ARCHIVE_BYTES_MAX (20 * BOX_MIB)         /* (wire) packed */
#define BOX_ARCHIVE_ENTRIES_MAX 512                  /* (wire) */
#define BOX_ARCHIVE_ENTRY_BYTES_MAX (16 * BOX_MIB)   /* (wire) one entry, unpacked */
#define BOX_ARCHIVE_TOTAL_BYTES_MAX (64 * BOX_MIB)   /* (wire) all entries, unpacked */
#define BOX_ARCHIVE_RATIO_MAX 100                    /* (wire) unpacked to packed */
#define BOX_ARCHIVE_FOLDERS_MAX 1024                 /* with those that names only imply */
#define BOX_ARCHIVE_PART_BYTES_MAX 255               /* one component of a name */
#define BOX_ARCHIVE_DEPTH_MAX 32                     /* components of a name */
#define BOX_ARCHIVE_SHOWN_MAX 255                    /* characters of a name in an error */
#define BOX_ARCHIVE_NESTING_MAX 4                    /* archives in archives, below it */
#define BOX_ARCHIVE_NESTED_ENTRIES_MAX 16384         /* of all those together */
#define BOX_ARCHIVE_MS 30000                         /* to unpack one, if need be onto the disk */
#define BOX_ARCHIVE_CPU_SEC 20                       /* and of a processor */
#define BOX_ARCHIVE_MEMORY_BYTES_MAX (512 * BOX_MIB) /* of the process that unpacks */

/* The service of libbox. */
#define BOX_SERVICE_OUTPUT_CHARS 4000 /* of stdout and of stderr, unless configured */
#define BOX_SERVICE_OUTPUT_CHARS_MAX (1 << 24)
#define BOX_SERVICE_ERRORS_KEPT 50          /* the last ones */
#define BOX_SERVICE_ERROR_CHARS_MAX 1000    /* of the text of one that is kept */
#define BOX_SERVICE_TEMPLATE_BYTES_MAX 1024 /* of session ids */
#define BOX_SERVICE_JOBS_MAX 128 /* runs under way; more than the runtime takes at once */
#define BOX_PROFILES_MAX 64      /* of the operator's own */
#define BOX_PROFILE_NAME_MAX 64
#define BOX_WORKSPACE_ENTRIES_DEFAULT 100000 /* seen in one walk for the quota */
#define BOX_WORKSPACE_ENTRIES_MAX 1000000
#define BOX_WORKSPACE_DEPTH_MAX 256    /* folders in folders, each an open fd */
#define BOX_WORKSPACE_STEP_ENTRIES 512 /* seen in one turn of a loop */
