/* A backend that runs nothing, for tests of what is above backends. Never in a release build.
 *
 * A command is one of a few words, see fake_backend.c. */
#pragma once

struct box_backend;
struct uv_loop_s;

struct box_backend *box_fake_backend_new(struct uv_loop_s *loop);
