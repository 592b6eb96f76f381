/* The folder of the skills, and the program that works in it.
 *
 * boxd opens the folder as any that box-rpc names, and starts box-skills with it and with a socket
 * whose other end is box-rpc's. What the two say is none of boxd's business; it only opens packages
 * for mounts, beneath the folder that it has.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "boxd/identity.h"

struct box_jobs;
struct box_mount_roots;
struct box_skill_folder;

/* `program` is the path of box-skills, "" when there is none; errands and ids outlive it. */
struct box_skill_folder *box_skill_folder_new(
	struct box_jobs *errands, const char *program, const struct box_identity *ids);
void box_skill_folder_free(struct box_skill_folder *keeper);

/* Makes the folder if it is missing, and starts box-skills. *ret_socket is box-rpc's end. One that
 * runs for an earlier box-rpc ends by itself when its socket does. */
int box_skill_folder_open(struct box_skill_folder *keeper, const char *path,
	struct box_mount_roots *mount_roots, int *ret_socket, struct box_err *err);

/* Where the folder really is; "" when that cannot be told. */
void box_skill_folder_path(const struct box_skill_folder *keeper, char *out, size_t size);

/* An O_PATH fd of a folder at a relative path in the store; no link is followed. */
int box_skill_folder_open_package(
	const struct box_skill_folder *keeper, const char *path, int *ret_fd, struct box_err *err);
