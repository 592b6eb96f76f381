/* The list of backends. A name that is not built in gives none: never a weaker one instead. */
#include "runtime/backend/select.h"

#include <stddef.h>
#include <string.h>

#include "runtime/backend/native.h"
#ifdef BOX_FAKE_BACKEND
#include "runtime/backend/fake.h"
#endif

/* What selects native boxes, and the name they answer to then: clients look at it. */
static const struct {
	const char *asked;
	const char *answers;
} native_names[] = {
	{"", "native"},
	{"native", "native"},
	{"local", "local"},
	{"nsjail", "nsjail"},
};

static const char *native_name(const char *asked)
{
	for (size_t i = 0; i < sizeof(native_names) / sizeof(native_names[0]); i++) {
		if (strcmp(native_names[i].asked, asked) == 0) {
			return native_names[i].answers;
		}
	}
	return NULL;
}

static struct box_backend_choice choose_native(struct box_native *native, const char *answers)
{
	const char *missing = native ? box_native_missing(native)
				     : "native boxes need boxd, and there is none";
	if (missing) {
		return (struct box_backend_choice){NULL, NULL, missing};
	}
	return (struct box_backend_choice){box_native_backend(native), answers, NULL};
}

struct box_backend_choice box_backend_select(
	const char *name, struct uv_loop_s *loop, struct box_native *native)
{
#ifdef BOX_FAKE_BACKEND
	if (strcmp(name, "fake") == 0) {
		return (struct box_backend_choice){box_fake_backend_new(loop), "fake", NULL};
	}
#else
	(void)loop;
#endif
	const char *answers = native_name(name);
	if (answers) {
		return choose_native(native, answers);
	}
	if (strcmp(name, "docker") == 0 || strcmp(name, "podman") == 0 ||
		strcmp(name, "e2b") == 0) {
		return (struct box_backend_choice){NULL, NULL,
			"no sandbox backend: the configured container engine is not supported; "
			"set box.backend to \"local\""};
	}
	if (strcmp(name, "krun") == 0 || strcmp(name, "libkrun") == 0 ||
		strcmp(name, "microvm") == 0) {
		return (struct box_backend_choice){NULL, NULL,
			"no sandbox backend: microVMs are not built into this runtime; "
			"set box.backend to \"native\""};
	}
	return (struct box_backend_choice){
		NULL, NULL, "no sandbox backend of the configured name is built into this runtime"};
}
