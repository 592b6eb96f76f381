/* The list of backends. A name that is not built in gives none: never a weaker one instead. */
#include "runtime/backend/backend_select.h"

#include <stddef.h>
#include <string.h>

#include "base/macros.h"
#include "runtime/backend/local.h"
#ifdef BOX_FAKE_BACKEND
#include "runtime/backend/fake_backend.h"
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
	for (size_t i = 0; i < BOX_COUNT_OF(native_names); i++) {
		if (strcmp(native_names[i].asked, asked) == 0) {
			return native_names[i].answers;
		}
	}
	return NULL;
}

static struct box_backend_choice choose_native(struct box_local *native, const char *answers)
{
	const char *missing = native ? box_local_missing(native)
				     : "boxes need boxd, and there is none";
	if (missing) {
		return (struct box_backend_choice){.missing = missing};
	}
	return (struct box_backend_choice){
		.backend = box_local_native_backend(native), .name = answers};
}

static bool is_machine(const char *name)
{
	static const char *const names[] = {"krun", "libkrun", "microvm"};
	for (size_t i = 0; i < BOX_COUNT_OF(names); i++) {
		if (strcmp(names[i], name) == 0) {
			return true;
		}
	}
	return false;
}

/* Whether they can be had is found out behind our back, and said to whoever asks for one. */
static struct box_backend_choice choose_machines(struct box_local *native)
{
	struct box_backend_choice choice = choose_native(native, "krun");
	if (choice.backend) {
		choice.backend = box_local_microvm_backend(native);
		box_local_probe_microvm(native);
	}
	return choice;
}

struct box_backend_choice box_backend_select(
	const char *name, struct uv_loop_s *loop, struct box_local *native)
{
#ifdef BOX_FAKE_BACKEND
	if (strcmp(name, "fake") == 0) {
		return (struct box_backend_choice){
			.backend = box_fake_backend_new(loop), .name = "fake"};
	}
#else
	(void)loop;
#endif
	const char *answers = native_name(name);
	if (answers) {
		return choose_native(native, answers);
	}
	if (is_machine(name)) {
		return choose_machines(native);
	}
	return (struct box_backend_choice){
		.missing = "there is no backend of the configured name", .unknown = true};
}

bool box_backend_select_is_known(const char *name)
{
#ifdef BOX_FAKE_BACKEND
	if (strcmp(name, "fake") == 0) {
		return true;
	}
#endif
	return native_name(name) || is_machine(name);
}
