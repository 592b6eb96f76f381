/* The list of backends. A name that is not built in gives none: never a weaker one instead. */
#include "runtime/backend/select.h"

#include <stddef.h>
#include <string.h>

#ifdef BOX_FAKE_BACKEND
#include "runtime/backend/fake.h"
#endif

struct box_backend_choice box_backend_select(const char *name, struct uv_loop_s *loop)
{
#ifdef BOX_FAKE_BACKEND
	if (strcmp(name, "fake") == 0) {
		return (struct box_backend_choice){box_fake_backend_new(loop), "fake", NULL};
	}
#else
	(void)loop;
#endif
	if (strcmp(name, "docker") == 0 || strcmp(name, "podman") == 0 ||
		strcmp(name, "e2b") == 0) {
		return (struct box_backend_choice){NULL, NULL,
			"no sandbox backend: the configured container engine is not supported; "
			"set box.backend to \"local\""};
	}
	return (struct box_backend_choice){
		NULL, NULL, "no sandbox backend is built into this runtime"};
}
