/* box-init as PID 1 of a box: the privileges of commands, and mounts of single commands. Needs
 * root. */
#include "tests/unit/lib/init_box.h"

static const char posture[] = "grep -E '^(Uid|Groups|Cap|NoNewPrivs|Seccomp:)' /proc/self/status";
static const char expected_posture[] = "Uid:\t1000\t1000\t1000\t1000\nGroups:\t \n"
				       "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n"
				       "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n"
				       "CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n";

TEST(posture_of_commands)
{
	struct child child;
	start_box(&child);
	ASSERT_OUT(run_one(&child, 1, (struct asked){.command = posture}), expected_posture);
	struct outcome *outcome = run_with(&child, 2, "/workspace/m", make_source("a"), posture);
	ASSERT_OUT(outcome, expected_posture);
	static const struct {
		const char *command;
		const char *out;
	} table[] = {
		{"echo $$ | grep -qx 1 && echo first", ""},
		{"kill -9 1; echo $?", "1\n"},
		{"kill -9 2; echo $?", "1\n"},
		{"cat /proc/1/environ /proc/1/maps /proc/2/maps; ls /proc/1/fd /proc/2/fd; echo $?",
			"2\n"},
		{"touch /x; echo $?", "1\n"},
		{"touch /usr/x; echo $?", "1\n"},
		{"touch /workspace/x /tmp/x; echo $?; stat -c '%u %g' /workspace/x",
			"0\n1000 1000\n"},
		{"sleep 0.2; expr $(cat /proc/self/oom_score_adj) - $(cat /proc/1/oom_score_adj)",
			"200\n"},
		{"sleep 0.2; expr $(cat /proc/2/oom_score_adj) - $(cat /proc/1/oom_score_adj)",
			"0\n"},
		{"grep -E '^Cap(Prm|Eff|Bnd)' /proc/1/status",
			"CapPrm:\t00000000000000e0\nCapEff:\t00000000000000e0\n"
			"CapBnd:\t0000000000000000\n"},
		{"grep -E '^Cap(Prm|Eff|Bnd)' /proc/2/status",
			"CapPrm:\t00000000002000c0\nCapEff:\t00000000002000c0\n"
			"CapBnd:\t0000000000000000\n"},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		outcome = run_one(&child, 3, (struct asked){.command = table[i].command});
		ASSERT_OUT(outcome, table[i].out);
	}
	outcome = run_with(&child, 4, "/workspace/m", make_source("b"),
		"sleep 0.2; expr $(cat /proc/self/oom_score_adj) - $(cat /proc/1/oom_score_adj); "
		"ls /proc/self/fd; touch /x; echo $?");
	ASSERT_OUT(outcome, "200\n0\n1\n2\n3\n1\n");
	stop_child(&child);
}

TEST(mounts_are_one_commands_own)
{
	struct child child;
	start_box(&child);
	char file[160];
	const char *source = make_source("a");
	(void)snprintf(file, sizeof(file), "%s/new", source);
	/* In the root, where commands cannot create folders. */
	struct outcome *outcome = run_with(&child, 1, "/skills/deep/er", source,
		"cat /skills/deep/er/file && echo more >/skills/deep/er/new; echo $?");
	ASSERT_OUT(outcome, "a\n0\n");
	struct stat st;
	ASSERT_INT(stat(file, &st), 0);
	ASSERT_INT(st.st_uid, FIRST_ID + PAYLOAD);
	outcome = run_one(&child, 2, (struct asked){.command = "ls -A /skills/deep/er"});
	ASSERT_OUT(outcome, "");
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	/* In a folder of the commands, created with their ids. */
	outcome = run_with(&child, 3, "/workspace/x/y", make_source("b"),
		"cat /workspace/x/y/file; stat -c %u /workspace/x");
	ASSERT_OUT(outcome, "b\n1000\n");
	/* Over an existing folder, with the workdir in it. */
	forget(4);
	send_mount(&child, 4, "/tmp", detach(make_source("c"), false));
	ask(&child, 4,
		(struct asked){.command = "pwd; cat file; cat ../file",
			.mounts = 1,
			.workdir = "/tmp/made"});
	(void)collect(&child, 4);
	ASSERT_STR(outcome_of(4)->err, "cat: file: No such file or directory\n");
	ASSERT_OUT(outcome_of(4), "/tmp/made\nc\n");
	stop_child(&child);
}

TEST(files_and_read_only)
{
	struct child child;
	char file[160];
	start_box(&child);
	const char *source = make_source("a");
	(void)snprintf(file, sizeof(file), "%s/file", source);
	send_mount(&child, 1, "/one/file", detach(file, false));
	send_mount(&child, 1, "/workspace/two", detach(source, true));
	ask(&child, 1,
		(struct asked){.command = "cat /one/file /workspace/two/file; "
					  "echo x 2>/dev/null >>/workspace/two/file; echo $?; "
					  "echo b >>/one/file; cat /workspace/two/file",
			.mounts = 2});
	(void)collect(&child, 1);
	ASSERT_OUT(outcome_of(1), "a\na\n2\na\nb\n");
	stop_child(&child);
}

TEST(targets_that_cannot_be)
{
	static const struct {
		const char *target;
		int errnum;
	} table[] = {
		{"/workspace/link/x", ENOTDIR}, /* never through a link */
		{"/workspace/link", ENOTDIR},
		{"/bin/x", ENOTDIR},
		{"/usr/nosuch/x", EACCES},
		{"/proc/nosuch", ENOENT},
		{"/workspace/../tmp", EINVAL},
		{"/workspace/./tmp", EINVAL},
		{"/workspace//tmp", EINVAL},
		{"/workspace/tmp/", EINVAL},
		{"/dev/null", ENOTDIR},
	};
	struct child child;
	start_box(&child);
	struct outcome *outcome = run_one(&child, 1,
		(struct asked){.command = "ln -s / /workspace/link; mkdir /workspace/real"});
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	char source[128];
	(void)snprintf(source, sizeof(source), "%s", make_source("a"));
	for (size_t i = 0; i < COUNT(table); i++) {
		forget(2);
		send_mount(&child, 2, "/workspace/real", detach(source, false));
		send_mount(&child, 2, table[i].target, detach(source, false));
		ask(&child, 2, (struct asked){.command = "echo no", .mounts = 2});
		outcome = collect(&child, 2);
		if (outcome->end.value != table[i].errnum) {
			TEST_FAIL("%s: %s", table[i].target, strerror(outcome->end.value));
		}
		ASSERT_INT(outcome->end.end, BOX_INIT_END_FAILED);
		ASSERT_INT(outcome->end.step, BOX_INIT_STEP_MOUNT);
		ASSERT_INT(outcome->end.mount, 1);
		ASSERT_OUT(outcome, "");
	}
	/* A file over a link, and an fd that is no mount. */
	char file[160];
	(void)snprintf(file, sizeof(file), "%s/file", source);
	outcome = run_with(&child, 3, "/workspace/link", file, "true");
	ASSERT_END(outcome, BOX_INIT_END_FAILED, ELOOP);
	forget(3);
	send_mount(&child, 3, "/workspace/real", open(source, O_PATH | O_CLOEXEC));
	ask(&child, 3, (struct asked){.command = "true", .mounts = 1});
	ASSERT_END(collect(&child, 3), BOX_INIT_END_FAILED, EINVAL);
	ASSERT_INT(outcome_of(3)->end.step, BOX_INIT_STEP_MOUNT);
	/* Later steps fail as they do without mounts. */
	forget(3);
	send_mount(&child, 3, "/workspace/real", detach(source, false));
	ask(&child, 3, (struct asked){.command = "true", .mounts = 1, .workdir = "/proc/x"});
	ASSERT_END(collect(&child, 3), BOX_INIT_END_FAILED, ENOENT);
	ASSERT_INT(outcome_of(3)->end.step, BOX_INIT_STEP_WORKDIR);
	outcome = run_one(
		&child, 4, (struct asked){.command = "echo $$ >/dev/null; ls /workspace"});
	ASSERT_OUT(outcome, "link\nreal\n");
	stop_child(&child);
}

TEST(as_many_as_may_be)
{
	struct child child;
	start_box(&child);
	char source[128];
	(void)snprintf(source, sizeof(source), "%s", make_source("a"));
	for (uint32_t i = 0; i < BOX_INIT_MOUNTS_MAX; i++) {
		char target[64];
		(void)snprintf(target, sizeof(target), "/workspace/m%" PRIu32, i);
		send_mount(&child, 1, target, detach(source, i % 2 == 0));
	}
	ask(&child, 1,
		(struct asked){.command = "cat /workspace/*/file | wc -l; exit 3",
			.mounts = BOX_INIT_MOUNTS_MAX});
	ASSERT_END(collect(&child, 1), BOX_INIT_END_EXIT, 3);
	ASSERT_OUT(outcome_of(1), "256\n");
	stop_child(&child);
}

TEST(many_with_mounts_side_by_side)
{
	struct child child;
	start_box(&child);
	char source[128];
	(void)snprintf(source, sizeof(source), "%s", make_source("a"));
	for (uint32_t id = 1; id <= 40; id++) {
		send_mount(&child, id, "/workspace/m", detach(source, false));
		char command[128];
		(void)snprintf(command, sizeof(command),
			id % 2 ? "cat /workspace/m/file; exit %" PRIu32 : "exit %" PRIu32, id);
		ask(&child, id, (struct asked){.command = command, .mounts = 1});
	}
	for (uint32_t id = 1; id <= 40; id++) {
		ASSERT_END(collect(&child, id), BOX_INIT_END_EXIT, (int)id);
		ASSERT_OUT(outcome_of(id), id % 2 ? "a\n" : "");
	}
	stop_child(&child);
}

TEST(timeout_kill_reset_and_input_with_mounts)
{
	struct child child;
	start_box(&child);
	char source[128];
	(void)snprintf(source, sizeof(source), "%s", make_source("a"));
	for (uint32_t id = 1; id <= 5; id++) {
		send_mount(&child, id, "/workspace/m", detach(source, false));
	}
	ask(&child, 1,
		(struct asked){
			.command = "echo 1; sleep 30 | sleep 30", .mounts = 1, .timeout_ms = 200});
	ask(&child, 2, (struct asked){.command = "sleep 30", .mounts = 1});
	send_kind(&child, BOX_INIT_KILL, 2, NULL, 0);
	ask(&child, 3, (struct asked){.command = "cat", .mounts = 1, .flags = BOX_INIT_RUN_STDIN});
	send_kind(&child, BOX_INIT_INPUT, 3, "input", 5);
	send_kind(&child, BOX_INIT_INPUT, 3, NULL, 0);
	ASSERT_END(collect(&child, 1), BOX_INIT_END_TIMEOUT, 0);
	ASSERT_OUT(outcome_of(1), "1\n");
	/* The mounter may have received it already, or not. */
	ASSERT(collect(&child, 2)->end.value == SIGKILL || outcome_of(2)->end.value == ECANCELED);
	ASSERT_END(collect(&child, 3), BOX_INIT_END_EXIT, 0);
	ASSERT(outcome_of(3)->started);
	ASSERT_OUT(outcome_of(3), "input");
	/* Wherever it is at the moment. */
	ask(&child, 4, (struct asked){.command = "sleep 577.5", .mounts = 1});
	ask(&child, 5, (struct asked){.command = "sleep 577.5", .mounts = 1});
	send_kind(&child, BOX_INIT_RESET, 0, NULL, 0);
	while (!reset_done) {
		ASSERT(receive(&child, CHILD_WAIT_MS));
	}
	struct outcome *outcome = run_one(&child, 6,
		(struct asked){
			.command = "sleep 0.3; for file in /proc/[0-9]*/cmdline; do "
				   "tr '\\0' ' ' <$file; echo; done | grep -c '^sleep 577'"});
	ASSERT_OUT(outcome, "0\n");
	outcome = run_with(&child, 7, "/workspace/m", source, "cat /workspace/m/file");
	ASSERT_OUT(outcome, "a\n");
	stop_child(&child);
}

/* The mounter is the first child that box-init has. */
static pid_t mounter_of(const struct child *child)
{
	char path[64];
	int pid = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", child->pid, child->pid);
	FILE *file = fopen(path, "re");
	ASSERT(file && fscanf(file, "%d", &pid) == 1 && pid > 1);
	ASSERT_INT(fclose(file), 0);
	return pid;
}

/* Requests a command with one mount. */
static void ask_with(const struct child *child, uint32_t id, const char *source, struct asked asked)
{
	forget(id);
	send_mount(child, id, "/workspace/m", detach(source, false));
	asked.mounts = 1;
	ask(child, id, asked);
}

/* The mounter dies: commands with mounts fail, the others continue, and so do background processes
 * of an earlier one. */
TEST(death_of_the_mounter)
{
	struct child child;
	start_box(&child);
	char source[128];
	(void)snprintf(source, sizeof(source), "%s", make_source("a"));
	struct outcome *outcome = run_with(&child, 1, "/workspace/m", source,
		"sleep 300 >/dev/null 2>&1 & echo $! >/tmp/left; cat /workspace/m/file");
	ASSERT_OUT(outcome, "a\n");
	ASSERT_INT(kill(mounter_of(&child), SIGKILL), 0);
	for (int i = 0; i < 3; i++) {
		outcome = run_with(&child, 2, "/workspace/m", source, "echo no");
		ASSERT_INT(outcome->end.end, BOX_INIT_END_FAILED);
		ASSERT_INT(outcome->end.step, BOX_INIT_STEP_MOUNTER);
		ASSERT_OUT(outcome, "");
	}
	outcome = run_one(
		&child, 3, (struct asked){.command = "kill -0 $(cat /tmp/left); echo $?"});
	ASSERT_OUT(outcome, "0\n");
	stop_child(&child);
}

/* Commands that are killed or time out before the mounter had their mounts end at once and never
 * run. */
TEST(commands_that_wait_for_the_mounter)
{
	struct child child;
	start_box(&child);
	char source[128];
	(void)snprintf(source, sizeof(source), "%s", make_source("a"));
	pid_t mounter = mounter_of(&child);
	ASSERT_INT(kill(mounter, SIGSTOP), 0);
	ask_with(&child, 1, source, (struct asked){.command = "exit 7"});
	ask_with(&child, 2, source, (struct asked){.command = "touch /workspace/2"});
	ask_with(&child, 3, source,
		(struct asked){.command = "touch /workspace/3", .timeout_ms = 100});
	ask_with(&child, 4, source,
		(struct asked){.command = "touch /workspace/4", .flags = BOX_INIT_RUN_STDIN});
	static const char bytes[BOX_INIT_BYTES_MAX];
	for (size_t had = 0; had <= 2 * BOX_INIT_INPUT_MAX; had += sizeof(bytes)) {
		send_kind(&child, BOX_INIT_INPUT, 4, bytes, sizeof(bytes)); /* too much */
	}
	send_kind(&child, BOX_INIT_KILL, 2, NULL, 0);
	ASSERT_END(collect(&child, 2), BOX_INIT_END_FAILED, ECANCELED);
	ASSERT_INT(outcome_of(2)->end.step, BOX_INIT_STEP_REQUEST);
	ASSERT_END(collect(&child, 3), BOX_INIT_END_TIMEOUT, 0);
	ASSERT(outcome_of(3)->end.duration_us >= 100000);
	ASSERT_END(collect(&child, 4), BOX_INIT_END_FAILED, ECANCELED);
	ASSERT(!outcome_of(1)->ended);
	ASSERT_INT(kill(mounter, SIGCONT), 0);
	ASSERT_END(collect(&child, 1), BOX_INIT_END_EXIT, 7);
	struct outcome *outcome = run_with(&child, 5, "/workspace/m", source, "ls /workspace");
	ASSERT_OUT(outcome, "m\n");
	stop_child(&child);
}

/* box-rpc waits 5 s for the end of a command that is killed. */
TEST(a_mounter_that_hangs_is_given_up)
{
	struct child child;
	start_box(&child);
	char source[128];
	(void)snprintf(source, sizeof(source), "%s", make_source("a"));
	uint64_t begin = now_us();
	ASSERT_INT(kill(mounter_of(&child), SIGSTOP), 0);
	ask_with(&child, 1, source, (struct asked){.command = "true"});
	send_kind(&child, BOX_INIT_KILL, 1, NULL, 0);
	ASSERT_END(collect(&child, 1), BOX_INIT_END_FAILED, ESRCH);
	ASSERT_INT(outcome_of(1)->end.step, BOX_INIT_STEP_MOUNTER);
	ASSERT(now_us() - begin < 4500000);
	ASSERT_OUT(run_one(&child, 2, (struct asked){.command = "echo yes"}), "yes\n");
	stop_child(&child);
}

/* While nobody reads our answers, the mounter's answers are not read either: it must not be blamed
 * for that. */
TEST(a_mounter_that_is_not_heard)
{
	struct child child;
	start_box(&child);
	char source[128];
	(void)snprintf(source, sizeof(source), "%s", make_source("a"));
	ask(&child, 1, (struct asked){.command = "yes | head -c 4000000"});
	(void)usleep(200000);
	ask_with(&child, 2, source, (struct asked){.command = "exit 7"});
	(void)usleep(3500000);
	ASSERT_END(collect(&child, 2), BOX_INIT_END_EXIT, 7);
	ASSERT_OUT(run_with(&child, 3, "/workspace/m", source, "cat /workspace/m/file"), "a\n");
	stop_child(&child);
}

TEST(one_id_for_all)
{
	struct child child;
	one_id = true;
	start_box(&child);
	static const char command[] = "grep -E '^(Uid|Cap|NoNewPrivs|Seccomp:)' /proc/self/status";
	static const char expected[] = "Uid:\t1000\t1000\t1000\t1000\n"
				       "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n"
				       "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n"
				       "CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n";
	ASSERT_OUT(run_one(&child, 1, (struct asked){.command = command}), expected);
	char source[128];
	(void)snprintf(source, sizeof(source), "%s", make_source("a"));
	ASSERT_OUT(run_with(&child, 2, "/workspace/m", source, command), expected);
	struct outcome *outcome = run_with(&child, 3, "/skills/a", source,
		"cat /skills/a/file; echo b >/skills/a/new; echo $?; touch /x /skills/x; echo $?; "
		"sleep 0.2; expr $(cat /proc/self/oom_score_adj) - $(cat /proc/1/oom_score_adj)");
	ASSERT_OUT(outcome, "a\n0\n1\n200\n");
	outcome = run_with(&child, 4, "/workspace/x/y", source, "cat /workspace/x/y/file");
	ASSERT_OUT(outcome, "a\n");
	/* PID 1 gets no signals from inside; its memory and fds are not accessible. */
	outcome = run_one(&child, 5,
		(struct asked){.command = "kill -9 1; kill -STOP 1; cat /proc/1/maps; "
					  "ls /proc/1/fd; echo $?; "
					  "sleep 0.2; expr $(cat /proc/self/oom_score_adj) - "
					  "$(cat /proc/1/oom_score_adj)"});
	ASSERT_OUT(outcome, "2\n200\n");
	ASSERT_OUT(run_one(&child, 6, (struct asked){.command = "echo lives"}), "lives\n");
	stop_child(&child);
}
