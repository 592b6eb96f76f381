/* Addresses of the host's loopback that are a single box's, for all runtimes of the host.
 *
 * One that is taken is held by a lock that the kernel knows by name, in the network namespace that
 * the loopback belongs to. It ends with its holder, however that ends, and asks for no right and no
 * file.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* The lowest that nobody has (IPv4, network order). It is held as long as the lock is open. */
int box_host_ports_take_address(uint32_t *ret_address, int *ret_lock, struct box_err *err);
