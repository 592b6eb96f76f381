/* How jobs, programs that boxd started, end when boxd does. They are scripts here. */
#include <sys/stat.h>

#include "base/clock.h"
#include "boxd/jobs.h"
#include "boxd/program.h"
#include "tests/unit/lib/test.h"

#define HOUR_MS 3600000

static char folder[] = "/tmp/box-jobs-XXXXXX";
static struct box_jobs *jobs;

static void ended(void *arg)
{
	(void)arg;
	TEST_FAIL("nobody is told");
}

static char *path_of(const char *name)
{
	static char path[64];
	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void start(const char *name, const char *line, uint64_t limit_ms)
{
	struct box_err err;
	FILE *file = fopen(path_of(name), "we");
	ASSERT(file != NULL);
	(void)fprintf(file, "#!/bin/sh\n%s\necho x > %s/%s.done\n", line, folder, name);
	ASSERT_INT(fchmod(fileno(file), 0755), 0);
	ASSERT_INT(fclose(file), 0);
	struct box_program wanted = {.path = path_of(name), .name = name};
	ASSERT_INT(box_jobs_start(jobs, &wanted, limit_ms, ended, NULL, &err), 0);
}

static bool is_done(const char *name)
{
	char file[32];
	(void)snprintf(file, sizeof(file), "%s.done", name);
	return access(path_of(file), F_OK) == 0;
}

static void set_up(void)
{
	ASSERT(mkdtemp(folder) != NULL);
	jobs = box_jobs_new();
}

/* How long it takes. */
static uint64_t free_all(void)
{
	uint64_t before = box_clock_ms();
	box_jobs_free(jobs);
	return box_clock_ms() - before;
}

static void clean_up(void)
{
	char command[64];
	(void)snprintf(command, sizeof(command), "rm -r %s", folder);
	ASSERT_INT(system(command), 0);
}

TEST(one_that_ends_by_itself_gets_the_time)
{
	set_up();
	start("slow", "sleep 0.4", 0);
	start("slower", "sleep 0.6", 0);
	ASSERT(free_all() >= 500);
	ASSERT(is_done("slow") && is_done("slower"));
	clean_up();
}

TEST(but_not_for_ever)
{
	set_up();
	start("endless", "exec sleep 50", 0);
	start("too", "exec sleep 50", 0);
	uint64_t took = free_all();
	ASSERT(took >= 1400 && took < 10000);
	ASSERT(!is_done("endless") && !is_done("too"));
	clean_up();
}

TEST(one_with_a_limit_is_killed_at_once)
{
	set_up();
	start("limited", "exec sleep 50", HOUR_MS);
	ASSERT(free_all() < 1400);
	ASSERT(!is_done("limited"));
	clean_up();
}

TEST(so_is_one_that_nobody_wants_any_more)
{
	set_up();
	start("unwanted", "exec sleep 50", 0);
	box_jobs_kill(jobs, NULL);
	ASSERT(free_all() < 1400);
	ASSERT(!is_done("unwanted"));
	clean_up();
}
