/* The folder of the skills, and the program that works in it.
 *
 * boxd opens the folder as any that box-rpc names, and starts box-skills with it and with a socket
 * whose other end is box-rpc's. What the two say is none of boxd's business; it only opens packages
 * for mounts, beneath the folder that it has.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "runtime/keeper/identity.h"

struct box_errands;
struct box_mount_roots;
struct box_store_keeper;

/* `program` is the path of box-skills, "" when there is none; errands and ids outlive it. */
struct box_store_keeper *box_store_keeper_new(
	struct box_errands *errands, const char *program, const struct box_worker_ids *ids);
void box_store_keeper_free(struct box_store_keeper *keeper);

/* Makes the folder if it is missing, and starts box-skills. *ret_socket is box-rpc's end. One that
 * runs for an earlier box-rpc ends by itself when its socket does. */
int box_store_keeper_open(struct box_store_keeper *keeper, const char *path,
	struct box_mount_roots *mount_roots, int *ret_socket, struct box_err *err);

/* Where the folder really is; "" when that cannot be told. */
void box_store_keeper_path(const struct box_store_keeper *keeper, char *out, size_t size);

/* An O_PATH fd of a folder at a relative path in the store; no link is followed. */
int box_store_keeper_package(
	const struct box_store_keeper *keeper, const char *path, int *ret_fd, struct box_err *err);
