/* How long libbox takes to make mounts of skills that are on this disk.
 *
 *   mounts_driver FOLDER COUNT    prints the microseconds, one line for each of 51 runs
 *
 * The skills are those of one answer of a runtime: COUNT packages FOLDER/skill-N, as with a runtime
 * that shares the file system. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/arena.h"
#include "base/value.h"
#include "client/skill_mounts.h"

#define TIMES 51

static bool is_here(void *arg, const char *package_root)
{
	struct stat st;
	(void)arg;
	return stat(package_root, &st) == 0 && S_ISDIR(st.st_mode);
}

static struct box_value make_answer(struct box_arena *arena, const char *folder, unsigned count)
{
	struct box_value skills = box_list_value();
	for (unsigned i = 0; i < count; i++) {
		struct box_value skill = box_map_value();
		const char *name = box_arena_printf(arena, "skill-%u", i);
		const char *root = box_arena_printf(arena, "%s/%s", folder, name);
		(void)box_map_add(arena, &skill, "name", box_cstr(name));
		(void)box_map_add(arena, &skill, "package_root", box_cstr(root));
		(void)box_list_add(arena, &skills, skill);
	}
	struct box_value answer = box_map_value();
	(void)box_map_add(arena, &answer, "skills", skills);
	return answer;
}

static double microseconds(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	unsigned count = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	if (count == 0) {
		(void)fprintf(stderr, "usage: mounts_driver FOLDER COUNT\n");
		return 2;
	}
	struct box_arena *source = box_arena_new();
	struct box_value answer = make_answer(source, argv[1], count);
	struct box_skill_mounts_options options = {.shares_filesystem = true, .is_here = is_here};
	for (int i = 0; i < TIMES; i++) {
		struct box_arena *arena = box_arena_new();
		struct box_value mounts;
		struct box_value warnings;
		double began = microseconds();
		box_skill_mounts(arena, &answer, &options, &mounts, &warnings);
		double took = microseconds() - began;
		if (mounts.count != count || warnings.count != 0) {
			(void)fprintf(stderr, "mounts_driver: %u mounts, %u warnings\n",
				mounts.count, warnings.count);
			return 1;
		}
		(void)printf("%.1f\n", took);
		box_arena_free(arena);
	}
	box_arena_free(source);
	return 0;
}
