/* The bridge of a microVM box: what it reports at the end, the guest's clock, and mounts that come
 * and go. */
#include "tests/unit/lib/vmm_bridge_fixture.h"

/* --- ends --- */

TEST(the_end_of_the_guest)
{
	start_ready();
	answer(BOX_INIT_STDOUT, 7, "last words", 10);
	(void)close(stream);
	ASSERT_INT(hear(bytes, sizeof(bytes)), 26);
	ASSERT_STR(hear_last(), "its guest hung up");
	ASSERT_INT(ended(), 0);
}

/* Its kernel prints the reason on the console, and the virtual machine ends after that. */
TEST(a_guest_that_panics)
{
	start_ready();
	static const char said[] = "[ 1.0] Kernel panic - not syncing: no init\x1b[0m\n"
				   "[ 1.1] Rebooting in 1 seconds..\n";
	ASSERT_INT(write(console, said, sizeof(said) - 1), sizeof(said) - 1);
	(void)close(stream);
	(void)usleep(50000);
	ASSERT_INT(kill(machine_pid, SIGTERM), 0); /* exits 0 */
	ASSERT_STR(hear_last(),
		"its kernel panicked; its console: [ 1.0] Kernel panic - not syncing: no "
		"init?[0m|[ 1.1] Rebooting in 1 seconds..");
	ASSERT_INT(ended(), 0);
}

TEST(a_machine_that_exits)
{
	start_ready();
	ASSERT_INT(kill(machine_pid, SIGTERM), 0);
	ASSERT_STR(hear_last(), "its guest rebooted, or its kernel panicked");
	ASSERT_INT(ended(), 0);
}

/* Output of the console keeps neither the guest nor the bridge alive. */
TEST(a_console_that_never_ends_at_the_end)
{
	start_ready();
	char much[1024];
	memset(much, 'x', sizeof(much));
	(void)signal(SIGPIPE, SIG_IGN);
	(void)close(stream);
	time_t began = time(NULL);
	while (write(console, much, sizeof(much)) > 0) {
		ASSERT(time(NULL) - began < 20);
	}
	const char *last = hear_last();
	ASSERT(strncmp(last, "its guest hung up; its console: xxx", 34) == 0);
	ASSERT(strlen(last) < 512);
	ASSERT_INT(ended(), 0);
}

/* --- the clock --- */

static void say_time(uint64_t token, uint64_t realtime_ns)
{
	struct box_microvm_time time = {token, realtime_ns};
	answer(BOX_MICROVM_TIME, 0, &time, sizeof(time));
}

TEST(a_guest_whose_clock_is_off)
{
	uint64_t token = start_ready();
	struct timespec now;
	struct box_microvm_clock clock;
	ASSERT_INT(clock_gettime(CLOCK_REALTIME, &now), 0);
	/* A wrong token, then a guest that is ten seconds behind. */
	say_time(token + 1, 5);
	say_time(token, ((uint64_t)now.tv_sec - 10) * 1000000000U + (uint64_t)now.tv_nsec);
	ASSERT_INT(read_packet((char *)&clock).kind, BOX_MICROVM_CLOCK);
	ASSERT_INT(clock.token, 0);
	ASSERT(clock.step_ns > 9900000000LL && clock.step_ns < 12000000000LL);
	/* Nobody requested this one. */
	say_time(token, 5);
	ASSERT(is_quiet(stream, 50));
	answer(BOX_INIT_STDOUT, 7, "good", 4);
	ASSERT_INT(hear(bytes, sizeof(bytes)), 20);
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* --- other ends --- */

TEST(the_end_of_the_machine)
{
	start_ready();
	ASSERT_INT(kill(machine_pid, SIGKILL), 0);
	ASSERT_STR(hear_last(), "its virtual machine was killed by signal 9");
	ASSERT_INT(ended(), 0);
}

TEST(the_end_of_who_mounts)
{
	start_ready();
	(void)close(mount_helper);
	ASSERT_STR(hear_last(), "the process that mounts for it is gone");
	ASSERT_INT(ended(), 0);
}

/* While its guest reads nothing, and while box-rpc does not. */
TEST(the_end_of_box_rpc)
{
	start_ready();
	ASSERT_INT(fcntl(control, F_SETFL, O_NONBLOCK), 0);
	size_t len = make_packet(packet, BOX_INIT_INPUT, 5, bytes, BOX_INIT_BYTES_MAX);
	for (int idle = 0; idle < 5;) {
		idle += send(control, packet, len, MSG_NOSIGNAL) < 0;
		(void)usleep(1000);
	}
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* Processor time of the bridge, in ticks. */
static long ticks(void)
{
	char name[64];
	long user = 0;
	long system_ticks = 0;
	(void)snprintf(name, sizeof(name), "/proc/%d/stat", bridge_pid);
	FILE *from = fopen(name, "re");
	ASSERT(from &&
		fscanf(from, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user,
			&system_ticks) == 2);
	(void)fclose(from);
	return user + system_ticks;
}

/* The guest is gone and its last packets wait for box-rpc: the bridge must not spin. */
TEST(a_dead_guest_costs_nothing)
{
	start_ready();
	ASSERT_INT(fcntl(stream, F_SETFL, O_NONBLOCK), 0);
	size_t len = make_packet(packet, BOX_INIT_STDOUT, 5, bytes, BOX_INIT_BYTES_MAX);
	size_t sent = 0;
	for (int idle = 0; idle < 20;) {
		ssize_t n = send(stream, packet + sent % len, len - sent % len, MSG_NOSIGNAL);
		idle = n > 0 ? 0 : idle + 1;
		sent += n > 0 ? (size_t)n : 0;
		(void)usleep(n < 0 ? 5000 : 0);
	}
	(void)close(stream);
	long before = ticks();
	(void)usleep(1000000);
	ASSERT(ticks() - before < 20);
	while (hear(bytes, sizeof(bytes)) > 0) {
	}
	ASSERT_INT(ended(), 0);
}

/* --- mounts --- */

struct mount_request {
	uint32_t action; /* 1: attach, 2: detach */
	uint32_t number;
};

static struct mount_request hear_request(void)
{
	struct mount_request request;
	struct pollfd fd = {.fd = mount_helper, .events = POLLIN};
	ASSERT_INT(poll(&fd, 1, WAIT_MS), 1);
	ASSERT_INT(recv(mount_helper, &request, sizeof(request), 0), sizeof(request));
	return request;
}

static void say_attached(uint32_t errnum)
{
	ASSERT_INT(send(mount_helper, &errnum, sizeof(errnum), MSG_NOSIGNAL), sizeof(errnum));
}

static void ask_mount(uint32_t id)
{
	ask(BOX_INIT_MOUNT, id, "/m", sizeof("/m"), STDERR_FILENO);
}

static void exit_of(uint32_t id)
{
	struct box_init_exit end = {0};
	answer(BOX_INIT_EXIT, id, &end, sizeof(end));
	ASSERT(hear(bytes, sizeof(bytes)) > 0);
}

TEST(mounts_are_attached_before_the_guest_hears_of_them)
{
	start_ready();
	ask_mount(9);
	ask(BOX_INIT_INPUT, 9, "x", 1, -1);
	struct mount_request request = hear_request();
	ASSERT_INT(request.action, 1);
	ASSERT_INT(request.number, 1);
	ASSERT(is_quiet(stream, 100));
	/* Answers are forwarded meanwhile. */
	answer(BOX_INIT_STDOUT, 3, "up", 2);
	ASSERT_INT(hear(bytes, sizeof(bytes)), 18);
	say_attached(0);
	struct box_init_header header = read_packet(bytes);
	ASSERT_INT(header.kind, BOX_INIT_MOUNT);
	ASSERT_INT(header.reserved, 1);
	ASSERT_STR(bytes, "/m");
	ASSERT_INT(read_packet(bytes).kind, BOX_INIT_INPUT);
	/* A mount that cannot be attached still has its number, with nothing at its path. */
	ask_mount(9);
	ASSERT_INT(hear_request().number, 2);
	say_attached(EPERM);
	ASSERT_INT(read_packet(bytes).reserved, 2);
	/* Mounts are removed with their command. */
	exit_of(8);
	ASSERT(is_quiet(mount_helper, 50));
	exit_of(9);
	uint32_t sum = 0;
	for (int i = 0; i < 2; i++) {
		request = hear_request();
		ASSERT_INT(request.action, 2);
		sum += request.number;
	}
	ASSERT_INT(sum, 1 + 2);
	ASSERT(is_quiet(mount_helper, 50));
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

TEST(mounts_without_an_fd)
{
	start_ready();
	ask(BOX_INIT_MOUNT, 9, "/m", sizeof("/m"), -1);
	ASSERT_INT(read_packet(bytes).reserved, BOX_MOUNT_NUMBERS_NONE);
	ASSERT(is_quiet(mount_helper, 50));
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* RESET ends the current commands; later ones are not affected. */
TEST(mounts_go_with_a_reset)
{
	start_ready();
	answer(BOX_INIT_RESET_DONE, 0, NULL, 0); /* that nobody requested */
	ASSERT_INT(hear(bytes, sizeof(bytes)), 16);
	ask_mount(4);
	ASSERT_INT(hear_request().number, 1);
	say_attached(0);
	ask(BOX_INIT_RESET, 0, NULL, 0, -1);
	ask_mount(5);
	ASSERT_INT(hear_request().number, 2);
	say_attached(0);
	for (int i = 0; i < 3; i++) {
		(void)read_packet(bytes);
	}
	ASSERT(is_quiet(mount_helper, 50));
	answer(BOX_INIT_RESET_DONE, 0, NULL, 0);
	struct mount_request request = hear_request();
	ASSERT_INT(request.action, 2);
	ASSERT_INT(request.number, 1);
	ASSERT(is_quiet(mount_helper, 50));
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

static void state_of(uint32_t id, uint32_t phase)
{
	struct box_init_process_state told = {
		.phase = phase, .pid = phase == BOX_INIT_PROCESS_RUNNING};
	answer(BOX_INIT_PROCESS_STATE, id, &told, sizeof(told));
	ASSERT(hear(bytes, sizeof(bytes)) > 0);
}

/* Mounts of a managed process stay until it has ended, also after a reset; a command with the same
 * number has its own. */
TEST(mounts_of_managed_processes)
{
	start_ready();
	ask_mount(4 | BOX_INIT_MOUNT_OF_PROCESS);
	ASSERT_INT(hear_request().number, 1);
	say_attached(0);
	ask_mount(4);
	ASSERT_INT(hear_request().number, 2);
	say_attached(0);
	ask_mount(5 | BOX_INIT_MOUNT_OF_PROCESS);
	ASSERT_INT(hear_request().number, 3);
	say_attached(0);
	ask(BOX_INIT_RESET, 0, NULL, 0, -1);
	for (int i = 0; i < 4; i++) {
		(void)read_packet(bytes);
	}
	answer(BOX_INIT_RESET_DONE, 0, NULL, 0);
	ASSERT_INT(hear(bytes, sizeof(bytes)), 16);
	ASSERT_INT(hear_request().number, 2);
	exit_of(4);
	state_of(4, BOX_INIT_PROCESS_RUNNING);
	ASSERT(is_quiet(mount_helper, 50));
	state_of(4, BOX_INIT_PROCESS_ENDED);
	struct mount_request request = hear_request();
	ASSERT_INT(request.action, 2);
	ASSERT_INT(request.number, 1);
	/* No end is reported of a process that is forgotten: its mounts are removed at once. */
	ask(BOX_INIT_FORGET_PROCESS, 5, NULL, 0, -1);
	ASSERT_INT(hear_request().number, 3);
	ASSERT_INT(read_packet(bytes).kind, BOX_INIT_FORGET_PROCESS);
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* START_PROCESS_IN has a number of box-rpc's own: it is forwarded unchanged. */
TEST(numbers_of_groups)
{
	start_ready();
	struct box_init_header header = {
		.size = sizeof(header), .kind = BOX_INIT_START_PROCESS_IN, .id = 3, .reserved = 64};
	ASSERT_INT(send(control, &header, sizeof(header), MSG_NOSIGNAL), sizeof(header));
	ASSERT_INT(read_packet(bytes).reserved, 64);
	(void)close(control);
	ASSERT_INT(ended(), 0);
}
