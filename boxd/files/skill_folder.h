/* The folder of the skill store, and the program box-skills that works in it. Owned by rpc/serve.c.
 *
 * boxd opens the folder, and starts box-skills with it and with a socket whose other end goes to
 * box-rpc. It does not read what these two send each other; it only opens packages for mounts, below
 * the folder.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "boxd/identity.h"

struct box_jobs;
struct box_mount_roots;
struct box_skill_folder;

/* `program` is the path of box-skills, "" when there is none; jobs and ids must outlive it. */
struct box_skill_folder *box_skill_folder_new(
	struct box_jobs *jobs, const char *program, const struct box_identity *ids);
void box_skill_folder_free(struct box_skill_folder *skills);

/* Makes the folder if it is missing, and starts box-skills. *ret_socket is box-rpc's end. A box-skills
 * of an earlier box-rpc ends when its socket closes. */
int box_skill_folder_open(struct box_skill_folder *skills, const char *path,
	struct box_mount_roots *mount_roots, int *ret_socket, struct box_err *err);

/* The resolved path of the folder; "" when it cannot be determined. */
void box_skill_folder_path(const struct box_skill_folder *skills, char *out, size_t size);

/* An O_PATH fd of a folder at a relative path in the store; no link is followed. */
int box_skill_folder_open_package(
	const struct box_skill_folder *skills, const char *path, int *ret_fd, struct box_err *err);
