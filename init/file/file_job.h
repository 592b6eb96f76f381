/* Work on files of the box, in a process of its own with the rights of a command. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "init/file/path_walk.h"
#include "protocol/init_file.h"

struct box_launch;

/* One request under way, in its own process. */
struct box_file_job {
	struct box_init_file ask;
	const char *texts[4];
	int root;
	int in; /* bytes to write */
	int out;
	struct box_path_walk walk; /* of the path */
	struct box_path_walk to;   /* of `to` */
	struct box_init_file_answer answer;
};

/* As box_launch: forks the process that does what the body of a RUN asks for. */
pid_t box_file_job_launch(struct box_launch *launch);

/* Does it, and answers on `err`. All fds stay the caller's. */
void box_file_job_serve(struct box_file_job *job, int err);

/* --- for the kinds of requests: 0 or -errno, with job->answer --- */

/* The walk of the path, or of `to`. */
int box_file_job_walk(struct box_file_job *job, unsigned flags);
int box_file_job_walk_target(struct box_file_job *job);
/* All of the bytes to stdout; they are counted. */
int box_file_job_put_data(struct box_file_job *job, const void *bytes, size_t size);
struct box_init_file_facts box_file_job_facts(const struct stat *st);
/* A name that nobody else has, for something on its way; 24 bytes. */
int box_file_job_temporary_name(char name[24]);
/* By the call itself: some C libraries have no function for it. 0 or -errno. */
int box_file_job_rename(int from, const char *from_name, int to, const char *to_name, bool replace);
/* The same without replacing anything, where the file system cannot do that in one step: by steps
 * of which none replaces. */
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
