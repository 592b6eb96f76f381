/* The store at a socket: requests in, answers out, one after the other, until the other end closes. */
#pragma once

#include "base/err.h"

/* 0 at the end, or negative with err. Both fds stay the caller's. */
int box_skills_serve(int socket, int folder, struct box_err *err);

/* Without a fence nothing is read: one error goes out, for the request that box-skills was started for,
 * and what comes is thrown away until box-rpc has hung up. */
void box_skills_serve_refusal(int socket, const struct box_err *err);
