/* The store behind a socket: one request at a time, until the other end closes. Called by main.c. */
#pragma once

#include "base/err.h"

/* 0 at the end of the connection, or negative with err. Both fds stay the caller's. */
int box_skills_serve(int socket, int folder, struct box_err *err);

/* For a box-skills that could not be confined: answers the request that it was started for with this error,
 * and discards everything else until box-rpc hangs up. */
void box_skills_serve_refusal(int socket, const struct box_err *err);
