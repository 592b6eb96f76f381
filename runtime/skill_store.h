/* The runtime's interface to the skill store, which is another program (box-skills), reached through the host. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/value.h"
#include "runtime/tenant.h"

struct box_runtime;

/* An internal action, not for clients: {name} -> {path} of a package, relative to the folder, for a mount. */
#define BOX_SKILL_STORE_FIND "find"

/* The answer is valid during the call; NULL with an error. */
typedef void box_skill_store_done(
	void *arg, const struct box_value *answer, const struct box_err *err);

/* A request to the store. The memory is the caller's, until `done` or a cancel. */
struct box_skill_store_request {
	struct box_list links;   /* the host's */
	bool refused;            /* the host's */
	char root[BOX_PATH_MAX]; /* the folder of all skills */
	char namespace[BOX_NAMESPACE_SIZE];
	const char *action;
	const struct box_value *data; /* a map */
	int archive;                  /* an fd, or -1; the host copies it */
	box_skill_store_done *done;
	void *arg;
};

/* Sends it; the caller has filled in all but `root` and `namespace`. `done` is called once, later, never from
 * inside this call. */
void box_skill_store_request(struct box_runtime *runtime, const struct box_context *context,
	struct box_skill_store_request *ask);
/* `done` will not be called. Work that has started continues. */
void box_skill_store_cancel(struct box_runtime *runtime, struct box_skill_store_request *ask);
