/* All other requests to box-init: input, signals, resets, and malformed ones. */
#include <sys/syscall.h>

#include "protocol/init_process.h"
#include "tests/unit/lib/init_fixture.h"

static void reset(const struct child *child)
{
	reset_done = false;
	send_kind(child, BOX_INIT_RESET, 0, NULL, 0);
	while (!reset_done) {
		ASSERT(receive(child, CHILD_WAIT_MS));
	}
}

/* box-init still works, and nothing is left over. */
static void assert_sound(const struct child *child)
{
	struct outcome *outcome = run_one(child, 999, (struct asked){.command = "echo sound"});
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	ASSERT_OUT(outcome, "sound\n");
	ASSERT(!receive(child, 50));
}

static void wait_for_start(const struct child *child, uint32_t id)
{
	while (!outcome_of(id)->started) {
		ASSERT(receive(child, CHILD_WAIT_MS));
	}
}

TEST(input_and_its_end)
{
	struct child child;
	start_child(&child);
	ask(&child, 1, (struct asked){.command = "cat; echo end", .flags = BOX_INIT_RUN_STDIN});
	wait_for_start(&child, 1);
	send_kind(&child, BOX_INIT_INPUT, 1, "one ", 4);
	while (outcome_of(1)->out_len < 4) {
		ASSERT(receive(&child, CHILD_WAIT_MS));
	}
	ASSERT_OUT(outcome_of(1), "one ");
	send_kind(&child, BOX_INIT_INPUT, 1, "two\n", 4);
	send_kind(&child, BOX_INIT_INPUT, 1, NULL, 0);
	struct outcome *outcome = collect(&child, 1);
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	ASSERT_OUT(outcome, "one two\nend\n");
	ASSERT_INT(outcome->taken, 8);
	assert_sound(&child);
	stop_child(&child);
}

/* More than a pipe holds, as far as the window allows; taken input is reported. */
TEST(much_input)
{
	static char bytes[64000];
	struct child child;
	start_child(&child);
	ask(&child, 1, (struct asked){.command = "sleep 0.2; md5sum", .flags = BOX_INIT_RUN_STDIN});
	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] = (char)('a' + i % 26);
	}
	uint64_t sent = 0;
	for (int i = 0; i < 40; i++) {
		while (sent + sizeof(bytes) - outcome_of(1)->taken > BOX_INIT_INPUT_MAX) {
			ASSERT(receive(&child, CHILD_WAIT_MS));
		}
		send_kind(&child, BOX_INIT_INPUT, 1, bytes, sizeof(bytes));
		sent += sizeof(bytes);
	}
	send_kind(&child, BOX_INIT_INPUT, 1, NULL, 0);
	struct outcome *outcome = collect(&child, 1);
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	ASSERT_INT(outcome->taken, sent);
	/* The same in another way. */
	struct outcome *other = run_one(&child, 2,
		(struct asked){.command = "for i in $(seq 40); do yes abcdefghijklmnopqrstuvwxyz | "
					  "tr -d '\\n' | head -c 64000; done | md5sum"});
	ASSERT_BYTES(outcome->out, outcome->out_len, other->out, other->out_len);
	stop_child(&child);
}

TEST(too_much_input_ends_the_command)
{
	static char bytes[64000];
	struct child child;
	start_child(&child);
	ask(&child, 1, (struct asked){.command = "sleep 30", .flags = BOX_INIT_RUN_STDIN});
	for (size_t had = 0; had <= 2 * BOX_INIT_INPUT_MAX; had += sizeof(bytes)) {
		send_kind(&child, BOX_INIT_INPUT, 1, bytes, sizeof(bytes));
	}
	ASSERT_END(collect(&child, 1), BOX_INIT_END_SIGNAL, 9);
	assert_sound(&child);
	stop_child(&child);
}

TEST(input_that_nobody_reads)
{
	struct child child;
	start_child(&child);
	ask(&child, 1,
		(struct asked){.command = "exec <&-; echo closed; sleep 0.3",
			.flags = BOX_INIT_RUN_STDIN});
	while (outcome_of(1)->out_len < 7) {
		ASSERT(receive(&child, CHILD_WAIT_MS));
	}
	for (int i = 0; i < 5; i++) {
		send_kind(&child, BOX_INIT_INPUT, 1, "lost", 4);
	}
	ASSERT_END(collect(&child, 1), BOX_INIT_END_EXIT, 0);
	ASSERT_INT(outcome_of(1)->taken, 20);
	/* One that has no stdin at all. */
	ask(&child, 2, (struct asked){.command = "sleep 0.2; cat"});
	send_kind(&child, BOX_INIT_INPUT, 2, "lost", 4);
	ASSERT_END(collect(&child, 2), BOX_INIT_END_EXIT, 0);
	ASSERT_OUT(outcome_of(2), "");
	stop_child(&child);
}

TEST(signals_and_kill)
{
	static const uint32_t term = SIGTERM;
	static const uint32_t usr1 = SIGUSR1;
	struct child child;
	start_child(&child);
	ask(&child, 1,
		(struct asked){.command = "trap 'echo usr1; exit 4' USR1; echo ready; "
					  "while :; do sleep 0.05; done"});
	while (outcome_of(1)->out_len < 6) {
		ASSERT(receive(&child, CHILD_WAIT_MS));
	}
	send_kind(&child, BOX_INIT_SIGNAL, 1, &usr1, sizeof(usr1));
	ASSERT_END(collect(&child, 1), BOX_INIT_END_EXIT, 4);
	ASSERT_OUT(outcome_of(1), "ready\nusr1\n");
	ask(&child, 2, (struct asked){.command = "exec sleep 30"});
	send_kind(&child, BOX_INIT_SIGNAL, 2, &term, sizeof(term));
	ASSERT_END(collect(&child, 2), BOX_INIT_END_SIGNAL, SIGTERM);
	/* The whole process group is killed, so the pipe ends, too. */
	ask(&child, 3, (struct asked){.command = "trap '' TERM INT; echo up; sleep 30 | sleep 30"});
	while (outcome_of(3)->out_len < 3) {
		ASSERT(receive(&child, CHILD_WAIT_MS));
	}
	send_kind(&child, BOX_INIT_KILL, 3, NULL, 0);
	ASSERT_END(collect(&child, 3), BOX_INIT_END_SIGNAL, SIGKILL);
	assert_sound(&child);
	stop_child(&child);
}

TEST(reset_in_the_middle)
{
	struct child child;
	start_child(&child);
	reset(&child);
	for (uint32_t id = 1; id <= 20; id++) {
		char command[64];
		(void)snprintf(command, sizeof(command), "sleep 3%02" PRIu32 ".25; echo no", id);
		ask(&child, id, (struct asked){.command = command});
	}
	ask(&child, 21,
		(struct asked){.command = "yes"}); /* blocks box-init, because nobody reads */
	static const struct box_init_run part = {.workdir_size = 2, .command_size = 1000};
	send_body(&child, 22, &part, "/\0begin", 7);
	(void)usleep(100000);
	forget(21);
	outcome_of(21)->out = calloc(1, OUTPUT_MAX + 1);
	reset(&child);
	for (uint32_t id = 1; id <= 22; id++) {
		ASSERT(!outcome_of(id)->ended);
	}
	/* The ids are free again, and the processes are gone. */
	struct outcome *outcome = run_one(&child, 1,
		(struct asked){
			.command = "sleep 0.1; ps -eo args | grep -c '^sleep 3[0-9][0-9].25'"});
	ASSERT_OUT(outcome, "0\n");
	for (uint32_t id = 2; id <= 22; id++) {
		outcome = run_one(&child, id, (struct asked){.command = "exit 5"});
		ASSERT_END(outcome, BOX_INIT_END_EXIT, 5);
	}
	stop_child(&child);
}

/* A background process of a command holds its pipe; the EXIT does not wait for that. */
TEST(background_process_holds_the_pipe)
{
	struct child child;
	start_child(&child);
	uint64_t begin = now_us();
	struct outcome *outcome = run_one(
		&child, 1, (struct asked){.command = "(sleep 0.4; echo late) & echo early"});
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	ASSERT_OUT(outcome, "early\n");
	ASSERT(now_us() - begin < 400000);
	/* It can write without limit. */
	char folder[] = "/tmp/init_background_XXXXXX";
	ASSERT(mkdtemp(folder));
	char command[256];
	(void)snprintf(command, sizeof(command),
		"setsid sh -c 'sleep 0.1; head -c 5000000 /dev/zero && echo done >%s/done' & :",
		folder);
	outcome = run_one(&child, 2, (struct asked){.command = command});
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	(void)snprintf(command, sizeof(command),
		"until [ -s %s/done ]; do sleep 0.05; done; cat %s/done; rm -r %s", folder, folder,
		folder);
	outcome = run_one(&child, 3, (struct asked){.command = command, .timeout_ms = 15000});
	ASSERT_OUT(outcome, "done\n");
	stop_child(&child);
}

/* The number of pipes that are kept open is limited. */
TEST(many_background_processes)
{
	struct child child;
	if (geteuid() != 0) {
		SKIP("needs root: the fds of box-init are nobody else's to see");
	}
	start_child(&child);
	for (int i = 0; i < 100; i++) {
		struct outcome *outcome = run_one(
			&child, 1, (struct asked){.command = "sleep 2.5 & echo x"});
		ASSERT_OUT(outcome, "x\n");
	}
	char command[96];
	(void)snprintf(command, sizeof(command), "ls /proc/%d/fd | wc -l", child.pid);
	FILE *pipe = popen(command, "re");
	int count = 0;
	ASSERT(pipe && fscanf(pipe, "%d", &count) == 1);
	ASSERT_INT(pclose(pipe), 0);
	ASSERT(count >= 64 && count < 64 + 16);
	assert_sound(&child);
	stop_child(&child);
}

/* Other commands come and go: a background process that writes is not killed for them. */
TEST(a_background_process_among_many)
{
	struct child child;
	char folder[] = "/tmp/init_among_XXXXXX";
	char command[256];
	ASSERT(mkdtemp(folder));
	start_child(&child);
	(void)snprintf(command, sizeof(command),
		"(until [ -e %s/go ]; do sleep 0.05; done; echo x && echo done >%s/done) & :",
		folder, folder);
	(void)run_one(&child, 1, (struct asked){.command = command});
	for (int i = 0; i < 100; i++) {
		(void)run_one(&child, 2, (struct asked){.command = "sleep 0.01 & :"});
	}
	(void)snprintf(command, sizeof(command), "touch %s/go; sleep 0.5; cat %s/done; rm -r %s",
		folder, folder, folder);
	ASSERT_OUT(run_one(&child, 3, (struct asked){.command = command}), "done\n");
	stop_child(&child);
}

TEST(no_more_places)
{
	struct child child;
	start_child(&child);
	static const struct box_init_run part = {.workdir_size = 2, .command_size = 100};
	for (uint32_t id = 1; id <= BOX_INIT_RUNS_MAX; id++) {
		send_body(&child, id, &part, "/", 2);
	}
	struct outcome *outcome = run_one(&child, 600, (struct asked){.command = "true"});
	ASSERT_END(outcome, BOX_INIT_END_FAILED, EAGAIN);
	ASSERT_INT(outcome->end.step, BOX_INIT_STEP_REQUEST);
	send_kind(&child, BOX_INIT_KILL, 7, NULL, 0);
	ASSERT_END(collect(&child, 7), BOX_INIT_END_FAILED, ECANCELED);
	ASSERT_END(run_one(&child, 600, (struct asked){.command = "true"}), BOX_INIT_END_EXIT, 0);
	reset(&child);
	assert_sound(&child);
	stop_child(&child);
}

/* The total size of bodies that are announced and do not arrive is limited. */
TEST(too_much_is_promised)
{
	struct child child;
	start_child(&child);
	static const struct box_init_run big = {
		.workdir_size = 2, .command_size = BOX_INIT_BODY_MAX - 2};
	for (uint32_t id = 1; id <= 3; id++) {
		send_body(&child, id, &big, "/", 2);
	}
	send_body(&child, 4, &big, "/", 2);
	struct outcome *outcome = collect(&child, 4);
	ASSERT_END(outcome, BOX_INIT_END_FAILED, ENOMEM);
	ASSERT_INT(outcome->end.step, BOX_INIT_STEP_MEMORY);
	for (uint32_t id = 1; id <= 3; id++) {
		send_kind(&child, BOX_INIT_KILL, id, NULL, 0);
		(void)collect(&child, id);
	}
	forget(4);
	send_body(&child, 4, &big, "/", 2);
	ASSERT(!receive(&child, 100));
	stop_child(&child);
}

TEST(malformed_requests)
{
	struct child child;
	start_child(&child);
	static char bytes[BOX_INIT_PACKET_MAX + 1000];
	static const struct box_init_run run = {.workdir_size = 2, .command_size = 4};
	/* Any kind with any size. */
	for (uint32_t kind = 0; kind < 80; kind++) {
		for (size_t size = 0; size < 120; size += 7) {
			if (kind == BOX_INIT_RESET || kind == BOX_INIT_RUN ||
				kind == BOX_INIT_QUERY_PROCESS || kind == BOX_INIT_START_PROCESS ||
				kind == BOX_INIT_START_PROCESS_IN) {
				continue;
			}
			send_kind(&child, kind, 77, bytes, size);
		}
	}
	ASSERT(!receive(&child, 100));
	/* Less than a header, more than a packet. */
	send_bytes(&child, bytes, 1, -1);
	send_bytes(&child, bytes, 15, -1);
	send_bytes(&child, bytes, sizeof(bytes), -1);
	ASSERT(!receive(&child, 100));
	/* A malformed RUN always gets an answer. */
	send_kind(&child, BOX_INIT_RUN, 78, bytes, 20);
	struct outcome *outcome = collect(&child, 78);
	ASSERT_END(outcome, BOX_INIT_END_FAILED, EBADMSG);
	ASSERT_INT(outcome->end.step, BOX_INIT_STEP_REQUEST);
	/* A packet with an fd that does not belong to it. */
	struct {
		struct box_init_header header;
		struct box_init_run run;
		char body[6];
	} with_fd = {
		.header = {.size = sizeof(with_fd.header) + sizeof(run) + 6,
			.kind = BOX_INIT_RUN,
			.id = 79},
		.run = run,
		.body = {'/', '\0', 't', 'r', 'u', 'e'},
	};
	send_bytes(&child, &with_fd, with_fd.header.size, STDERR_FILENO);
	ASSERT_END(collect(&child, 79), BOX_INIT_END_FAILED, EBADMSG);
	assert_sound(&child);
	stop_child(&child);
}

TEST(requests_out_of_turn)
{
	struct child child;
	start_child(&child);
	static const struct box_init_run run = {
		.workdir_size = 2, .command_size = 6, .output_limit = 100, .credit = 100};
	/* MORE for an unknown command. */
	send_kind(&child, BOX_INIT_MORE, 1, "x", 1);
	/* A duplicate id: the first command is not affected. */
	ask(&child, 2, (struct asked){.command = "sleep 0.3; echo first"});
	ask(&child, 2, (struct asked){.command = "echo second"});
	ASSERT_OUT(collect(&child, 2), "first\n");
	/* A duplicate while the first is incomplete. */
	send_body(&child, 3, &run, "/\0ec", 4);
	send_body(&child, 3, &run, "/\0echo 1", 8);
	send_kind(&child, BOX_INIT_MORE, 3, "ho 2", 4);
	ASSERT_OUT(collect(&child, 3), "2\n");
	/* More bytes than were announced. */
	send_body(&child, 4, &run, "/\0ec", 4);
	send_kind(&child, BOX_INIT_MORE, 4, "ho 2 3", 6);
	ASSERT_END(collect(&child, 4), BOX_INIT_END_FAILED, EMSGSIZE);
	ASSERT_INT(outcome_of(4)->end.step, BOX_INIT_STEP_REQUEST);
	/* More bytes than its body, while it runs. */
	ask(&child, 5, (struct asked){.command = "sleep 0.2; echo 5"});
	send_kind(&child, BOX_INIT_MORE, 5, "x", 1);
	ASSERT_OUT(collect(&child, 5), "5\n");
	/* Mounts that never arrived. */
	ask(&child, 6, (struct asked){.command = "true", .mounts = 2});
	ASSERT_END(collect(&child, 6), BOX_INIT_END_FAILED, EINVAL);
	ASSERT_INT(outcome_of(6)->end.step, BOX_INIT_STEP_REQUEST);
	assert_sound(&child);
	stop_child(&child);
}

/* When the other end of the socket closes, box-init ends, and its commands with it. */
TEST(end_of_the_socket)
{
	struct child child;
	start_child(&child);
	ask(&child, 1, (struct asked){.command = "exec sleep 431.5"});
	(void)usleep(200000);
	stop_child(&child);
	(void)usleep(100000);
	FILE *pipe = popen("ps -eo args | grep -c '^sleep 431.5'", "re");
	int count = -1;
	ASSERT(pipe && fscanf(pipe, "%d", &count) == 1);
	(void)pclose(pipe);
	ASSERT_INT(count, 0);
}

/* For a boot that fails. Takes the fds. */
static struct box_init_report failed_boot(int boot, int orders)
{
	struct child child;
	struct beginning from = {
		.program = open_program(),
		.boot = boot,
		.root = high(open("/", O_PATH | O_CLOEXEC)),
		.orders = orders,
	};
	open_child(&child, &from);
	pid_t pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0) {
		become_init(&from);
	}
	close_beginning(&from);
	struct box_init_report said = take_report(&child);
	int status;
	ASSERT_INT(waitpid(pid, &status, 0), pid);
	ASSERT(WIFEXITED(status));
	ASSERT_INT(WEXITSTATUS(status), 1);
	return said;
}

static struct box_init_report boot_report(int boot)
{
	return failed_boot(boot, order_that_came(-1));
}

TEST(boot_that_fails)
{
	int empty = high(memfd_create("boot", MFD_CLOEXEC));
	struct box_init_report said = boot_report(empty);
	ASSERT_INT(said.step, BOX_INIT_BOOT_READ);
	ASSERT_INT(said.errnum, EBADMSG);
	/* More rules than the file has. */
	said = boot_report(boot_file((struct box_init_boot){.rule_count = 1}, NULL, NULL));
	ASSERT_INT(said.step, BOX_INIT_BOOT_READ);
	ASSERT_INT(said.errnum, EBADMSG);
	/* A filter program that the kernel refuses: boot does not continue. */
	static const struct sock_filter wrong[] = {{.code = BPF_LD | BPF_W | BPF_ABS}};
	said = boot_report(
		boot_file((struct box_init_boot){.same_uid = 1, .filter_count = 1}, NULL, wrong));
	ASSERT_INT(said.step, BOX_INIT_BOOT_FILTER);
	ASSERT_INT(said.errnum, EINVAL);
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 1) {
		SKIP("no Landlock here");
	}
	static const struct box_init_path_rule nowhere[] = {{.path = "/nosuch/folder"}};
	said = boot_report(
		boot_file((struct box_init_boot){.same_uid = 1, .landlock_abi = 1, .rule_count = 1},
			nowhere, NULL));
	ASSERT_INT(said.step, BOX_INIT_BOOT_LANDLOCK);
	ASSERT_INT(said.errnum, ENOENT);
}

TEST(orders_that_are_none)
{
	const struct box_init_boot plain = {.same_uid = 1};
	const struct box_init_boot mounting = {.same_uid = 1, .workspace = 1};
	/* The process that prepared it is gone, before or while it waits for its order. */
	int pair[2];
	ASSERT_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ASSERT_INT(close(pair[0]), 0);
	struct box_init_report said = failed_boot(boot_file(plain, NULL, NULL), high(pair[1]));
	ASSERT_INT(said.step, BOX_INIT_BOOT_ORDER);
	ASSERT_INT(said.errnum, EOWNERDEAD);
	/* A workspace is missing, not expected, or not a mount. */
	said = failed_boot(boot_file(mounting, NULL, NULL), order_that_came(-1));
	ASSERT_INT(said.step, BOX_INIT_BOOT_WORKSPACE);
	ASSERT_INT(said.errnum, EBADMSG);
	said = failed_boot(boot_file(plain, NULL, NULL), order_that_came(STDERR_FILENO));
	ASSERT_INT(said.step, BOX_INIT_BOOT_WORKSPACE);
	ASSERT_INT(said.errnum, EBADMSG);
	said = failed_boot(boot_file(mounting, NULL, NULL), order_that_came(STDERR_FILENO));
	ASSERT_INT(said.step, BOX_INIT_BOOT_WORKSPACE);
	ASSERT(said.errnum != 0);
}
