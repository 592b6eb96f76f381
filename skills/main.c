/* box-skills: reads packed files from untrusted sources, for boxd and box-rpc.
 *
 * Started by boxd only, with its fds in place (protocol/skills.h): `box-skills store` keeps the skills of
 * all tenants; `box-skills DIGEST` copies one artifact and exits.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "protocol/boxd.h"
#include "protocol/skills.h"
#include "skills/artifact.h"
#include "skills/skills_confine.h"
#include "skills/skills_serve.h"
#include "skills/store/deferred_sync.h"

#ifdef BOX_SANITIZED
/* The leak checker stops all threads with ptrace at exit, which the seccomp filter forbids. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

/* The store keeps folders and files open to check them again cheaply. */
static void allow_many_fds(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* More than all limits of the store add up to: whoever gets around them ends this process, not others of the
 * machine. */
static void limit_memory(void)
{
#ifndef BOX_SANITIZED /* the sanitizer's shadow memory takes terabytes */
	struct rlimit limit;
	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_max > BOX_SKILLS_MEMORY_BYTES_MAX) {
		limit.rlim_cur = limit.rlim_max = BOX_SKILLS_MEMORY_BYTES_MAX;
		(void)setrlimit(RLIMIT_AS, &limit);
	}
#endif
}

static int keep_store(void)
{
	const struct box_skills_confine_folder rooms[] = {
		{.fd = BOX_SKILLS_FOLDER_FD, .writes = true, .moves = true}};
	struct box_err err;
	allow_many_fds();
	(void)box_deferred_sync_is_possible(); /* reads /proc, which is out of reach once confined */
	int r = box_skills_confine(rooms, 1, &err);
	bool is_fenced = r == 0;
	if (is_fenced) {
		r = box_skills_serve(BOX_SKILLS_SOCKET_FD, BOX_SKILLS_FOLDER_FD, &err);
	}
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "skills.failed", box_log_str("why", err.text));
	}
	if (!is_fenced) {
		box_skills_serve_refusal(BOX_SKILLS_SOCKET_FD, &err);
	}
	return r < 0 ? 1 : 0;
}

static int copy_artifact(const char *digest)
{
	const struct box_skills_confine_folder rooms[] = {
		{.fd = BOX_SKILLS_SOURCE_FD},
		{.fd = BOX_SKILLS_TARGET_FD, .writes = true},
	};
	struct box_artifact_report report = {0};
	struct box_err err;
	int r = box_skills_confine(rooms, 2, &err);
	if (r == 0) {
		r = box_artifact_copy(BOX_SKILLS_SOURCE_FD, BOX_SKILLS_MANIFEST_FD,
			BOX_SKILLS_TARGET_FD, digest, &err);
	}
	if (r < 0) {
		report.result = r;
		(void)snprintf(report.text, sizeof(report.text), "%.*s",
			(int)sizeof(report.text) - 1, err.text);
	}
	return write(BOX_SKILLS_REPORT_FD, &report, sizeof(report)) == (ssize_t)sizeof(report) ? 0
											       : 1;
}

int main(int argc, char **argv)
{
	struct stat status;
	box_log_setup("box-skills", BOX_LOG_INFO, BOX_LOG_TEXT);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)umask(022);
	limit_memory();
	if (argc != 2 || fstat(BOX_SKILLS_FOLDER_FD, &status) < 0 || !S_ISDIR(status.st_mode)) {
		(void)fprintf(stderr, "box-skills is started by boxd, not by hand\n");
		return 2;
	}
	return strcmp(argv[1], "store") == 0 ? keep_store() : copy_artifact(argv[1]);
}
