/* The socket that a guest's one port leads to. */
#pragma once

/* Listens at a path that is free; whoever sees the path may connect. 0, or -errno. */
int box_bridge_listen(const char *path, int *ret_fd);
