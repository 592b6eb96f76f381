/* The names of backends. An unknown name selects none: never a weaker backend instead. */
#include "runtime/backend/backend_select.h"

#include <stddef.h>
#include <string.h>

#include "base/macros.h"
#include "runtime/backend/local.h"
#ifdef BOX_FAKE_BACKEND
#include "runtime/backend/fake_backend.h"
#endif

/* The names that select native boxes, and the name that box_status then shows: clients compare it. */
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

static struct box_backend_choice choose_native(struct box_local *local, const char *answers)
{
	const char *missing = local ? box_local_missing(local)
				    : "boxes need boxd, which is not running";
	if (missing) {
		return (struct box_backend_choice){.missing = missing};
	}
	return (struct box_backend_choice){
		.backend = box_local_native_backend(local), .name = answers};
}

static bool is_microvm(const char *name)
{
	static const char *const names[] = {"krun", "libkrun", "microvm"};
	for (size_t i = 0; i < BOX_COUNT_OF(names); i++) {
		if (strcmp(names[i], name) == 0) {
			return true;
		}
	}
	return false;
}

/* Whether microVMs can run here is tested in the background; until then requests for one report that. */
static struct box_backend_choice choose_microvm(struct box_local *local)
{
	struct box_backend_choice choice = choose_native(local, "krun");
	if (choice.backend) {
		choice.backend = box_local_microvm_backend(local);
		box_local_probe_microvm(local);
	}
	return choice;
}

struct box_backend_choice box_backend_select(
	const char *name, struct uv_loop_s *loop, struct box_local *local)
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
		return choose_native(local, answers);
	}
	if (is_microvm(name)) {
		return choose_microvm(local);
	}
	return (struct box_backend_choice){
		.missing = "no backend has the configured name", .unknown = true};
}

bool box_backend_select_is_known(const char *name)
{
#ifdef BOX_FAKE_BACKEND
	if (strcmp(name, "fake") == 0) {
		return true;
	}
#endif
	return native_name(name) || is_microvm(name);
}
