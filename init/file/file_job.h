/* A file operation in the box, in a process of its own with the rights of a command. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "init/file/path_walk.h"
#include "protocol/init_file.h"

struct box_launch;

/* One operation, in its own process. */
struct box_file_job {
	struct box_init_file request;
	const char *texts[4];      /* base and path, base and path of the target; see init_file.h */
	int root;                  /* O_PATH, the root of the box */
	int in;                    /* bytes to write to a file */
	int out;                   /* for the requested bytes */
	struct box_path_walk walk; /* of the path */
	struct box_path_walk to;   /* of the target of a MOVE */
	struct box_init_file_answer answer;
};

/* As box_launch: forks the process for the file operation in the body of a RUN. */
pid_t box_file_job_launch(struct box_launch *launch);

/* Performs the operation, and writes its answer to `err`. All fds stay the caller's. */
void box_file_job_serve(struct box_file_job *job, int err);

/* --- for the operations, which return 0 or -errno and fill in job->answer --- */

/* Walks the path, or that of the target. */
int box_file_job_walk(struct box_file_job *job, unsigned flags);
int box_file_job_walk_target(struct box_file_job *job);
/* Writes bytes to `out` and counts them. */
int box_file_job_put_data(struct box_file_job *job, const void *bytes, size_t size);
struct box_init_file_facts box_file_job_facts(const struct stat *st);
/* A random temporary name. */
int box_file_job_temporary_name(char name[24]);
/* renameat2 as a raw system call, because some C libraries have no function for it. 0 or -errno. */
int box_file_job_rename(int from, const char *from_name, int to, const char *to_name, bool replace);
/* The same without replacing anything, for file systems that cannot do that in one step: in steps of which
 * none replaces anything. */
int box_file_job_rename_in_steps(int from, const char *from_name, int to, const char *to_name);

int box_file_job_read(struct box_file_job *job);
int box_file_job_write(struct box_file_job *job);
int box_file_job_list(struct box_file_job *job);
int box_file_job_stat(struct box_file_job *job);
int box_file_job_mkdir(struct box_file_job *job);
int box_file_job_remove(struct box_file_job *job);
int box_file_job_move(struct box_file_job *job);
int box_file_job_watch(struct box_file_job *job);
int box_file_job_measure(struct box_file_job *job);
