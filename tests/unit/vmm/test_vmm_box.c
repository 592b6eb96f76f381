/* A microVM box, made as boxd makes one but without boxd: the real box-vmm in a jail, libkrun, a
 * guest, and box-init in it. Skipped unless BOX_KVM=1 says that KVM boots guests here. Needs root.
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "protocol/microvm.h"

/* Nested virtualization under TCG is slow. */
#define MACHINE_WAIT_MS 60000
#define MACHINE_TEST_SEC 240
#define CHILD_WAIT_MS 60000
#include "tests/unit/lib/init_box.h"

#define MOST (64U * 1024 * 1024)
#define ADDRESS 0x0a090902U /* 10.9.9.2 */
#define PORT 7000

static char text[BOX_MICROVM_TEXT_MAX];
static const char *workspace; /* a folder of the host, or NULL */
static uint32_t memory_mib = 256;
static uint32_t cpus = 1;
static bool network; /* a network of its own, with a server in it */

/* --- what boxd does --- */

static int machine_boot_file(void)
{
	const struct box_root_step root_steps[] = {
		{BOX_ROOT_STEP_TMPFS, 0, 0755, 0, MOST, 4096, "/", ""},
		{BOX_ROOT_STEP_TREE, BOX_ROOT_STEP_READ_ONLY, 0, 0, 0, 0, "/usr", "usr"},
		{BOX_ROOT_STEP_LINK, 0, 0, 0, 0, 0, "/bin", "usr/bin"},
		{BOX_ROOT_STEP_LINK, 0, 0, 0, 0, 0, "/sbin", "usr/sbin"},
		{BOX_ROOT_STEP_LINK, 0, 0, 0, 0, 0, "/lib", "usr/lib"},
		{BOX_ROOT_STEP_LINK, 0, 0, 0, 0, 0, "/lib64", "usr/lib64"},
		{BOX_ROOT_STEP_DEVICES, 0, 0, 0, 0, 0, "/dev", ""},
		{BOX_ROOT_STEP_PROC, 0, 0, 0, 0, 0, "/proc", ""},
		{BOX_ROOT_STEP_PTS, 0, 0, 0, 0, 0, "/dev/pts", ""},
		{BOX_ROOT_STEP_TMPFS, 0, 01777, 0, MOST, 4096, "/tmp", ""},
		{BOX_ROOT_STEP_TMPFS, BOX_ROOT_STEP_OF_PAYLOAD, 0755, 0, MOST, 4096, "/workspace",
			""},
		{BOX_ROOT_STEP_FREEZE, 0, 0, 0, 0, 0, "/", ""},
	};
	struct box_init_boot guest = {
		.size = sizeof(guest),
		.payload_uid = PAYLOAD,
		.payload_gid = PAYLOAD,
		.workspace = workspace != NULL,
		.workspace_path = "/workspace",
	};
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
	guest.landlock_abi = abi < 0 ? 0 : (uint32_t)abi;
	const struct box_init_path_rule rule = {BOX_INIT_MAY_WRITE, "/"};
	guest.rule_count = 1;
	struct box_microvm_boot machine = {
		.size = sizeof(machine),
		.root_step_count = COUNT(root_steps),
		.memory_mib = memory_mib,
		.cpus = cpus,
		.network = network,
		.address = htonl(ADDRESS),
		.prefix = 24,
		.gateway = htonl(ADDRESS - 1),
		.deadline_ms = MACHINE_WAIT_MS,
		.hostname = "in-a-box",
	};
	int fd = memfd_create("boot", MFD_CLOEXEC);
	ASSERT(fd >= 0);
	ASSERT_INT(write(fd, &guest, sizeof(guest)), sizeof(guest));
	ASSERT_INT(write(fd, &rule, sizeof(rule)), sizeof(rule));
	ASSERT_INT(write(fd, &machine, sizeof(machine)), sizeof(machine));
	ASSERT_INT(write(fd, root_steps, sizeof(root_steps)), sizeof(root_steps));
	return high(fd);
}

/* Small enough for a file that the guest may create. It does not exist yet. */
static int make_jail(void)
{
	static const char *const folders[] = {"proc", "dev", "run", "share", "share/trees",
		"share/trees/usr", "share/workspace", "share/mounts"};
	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "private");
	must(mount("tmpfs", "/mnt", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m") == 0,
		"root");
	must(chdir("/mnt") == 0, "root");
	(void)umask(0);
	for (size_t i = 0; i < COUNT(folders); i++) {
		must(mkdir(folders[i], 0755) == 0, folders[i]);
	}
	must(mount("/usr", "share/trees/usr", NULL, MS_BIND, NULL) == 0, "usr");
	must(mount(NULL, "share/trees/usr", NULL,
		     MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) == 0,
		"usr read-only");
	mount_tmpfs("share/mounts", "mode=755,size=64k");
	mount_tmpfs("run", "mode=755,size=64k");
	must(mknod("dev/kvm", S_IFREG | 0666, 0) == 0, "dev/kvm");
	must(mount("/dev/kvm", "dev/kvm", NULL, MS_BIND, NULL) == 0, "dev/kvm");
	must(mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0, "proc");
	must(mount(NULL, ".", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV,
		     NULL) == 0,
		"read-only root");
	return fcntl(
		open("/mnt", O_PATH | O_DIRECTORY | O_CLOEXEC), F_DUPFD_CLOEXEC, CHILD_FDS_FROM);
}

/* A link without an uplink, with the box's address and another one where a server greets. */
static void make_network(void)
{
	must(system("ip link set lo up && ip link add out type dummy && "
		    "ip address add 10.9.9.2/24 dev out && ip address add 10.9.9.7/24 dev out && "
		    "ip link set out up && ip route add default via 10.9.9.1") == 0,
		"ip");
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr = {htonl(ADDRESS + 5)}};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0, "bind");
	must(listen(listener, 5) == 0, "listen");
	if (fork() == 0) {
		(void)prctl(PR_SET_PDEATHSIG, (long)SIGKILL);
		/* The box's sockets must be closed when the box ends. */
		must(dup2(listener, 3) == 3 && close_range(4, ~0U, 0) == 0, "fds");
		for (listener = 3;;) {
			int fd = accept(listener, NULL, NULL);
			must(fd >= 0 && write(fd, "greetings\n", 10) == 10, "greet");
			(void)close(fd);
		}
	}
	(void)close(listener);
}

_Noreturn static void become_vmm(int go, struct beginning *from)
{
	char byte;
	char name[] = "box-vmm";
	char *const arguments[] = {name, NULL};
	char *const environment[] = {NULL};
	must(read(go, &byte, 1) == 1, "go");
	uid_t id = one_id ? PAYLOAD : 0;
	must(setresgid(id, id, id) == 0 && setresuid(id, id, id) == 0, "ids");
	if (network) {
		make_network();
	}
	int jail = make_jail();
	int place = workspace ? high(open("/mnt/share/workspace", O_PATH | O_CLOEXEC)) : -1;
	if (one_id) {
		keep_capabilities();
	}
	must(dup2(from->control, BOX_INIT_CONTROL_FD) > 0, "control");
	must(dup2(from->report, BOX_INIT_REPORT_FD) > 0, "report");
	must(dup2(from->boot, BOX_INIT_BOOT_FD) > 0, "boot");
	must(dup2(jail, BOX_INIT_ROOT_FD) > 0, "root");
	must(dup2(from->orders, BOX_INIT_ORDER_FD) > 0, "orders");
	must(place < 0 || dup2(place, BOX_INIT_WORKSPACE_FD) > 0, "place");
	must(dup2(from->program, BOX_MICROVM_INIT_FD) > 0, "init");
	must(dup2(jail, BOX_MICROVM_JAIL_FD) > 0, "jail");
	const char *program = getenv("BOX_VMM");
	must(program != NULL, "BOX_VMM");
	(void)execve(program ? program : "", arguments, environment);
	must(false, "exec");
	_exit(1);
}

static struct box_init_report start_microvm(struct child *child)
{
	int go[2];
	if (geteuid() != 0 || !getenv("BOX_KVM")) {
		SKIP("needs root, and a KVM that boots guests (BOX_KVM=1)");
	}
	(void)alarm(MACHINE_TEST_SEC);
	ASSERT_INT(chmod("/dev/kvm", 0666), 0);
	struct beginning from = {
		.program = copy_program(),
		.boot = machine_boot_file(),
		.root = -1,
		.orders = order_that_came(workspace ? detach(workspace, false) : -1),
	};
	open_child(child, &from);
	ASSERT_INT(pipe2(go, O_CLOEXEC), 0);
	unsigned long namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
		CLONE_NEWIPC | CLONE_NEWUTS;
	child->pid = (pid_t)syscall(SYS_clone, namespaces | SIGCHLD, NULL, NULL, NULL, NULL);
	ASSERT(child->pid >= 0);
	if (child->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, (long)SIGKILL);
		become_vmm(go[0], &from);
	}
	write_map(child->pid, "uid_map");
	write_map(child->pid, "gid_map");
	ASSERT_INT(write(go[1], "", 1), 1);
	close_beginning(&from);
	struct box_microvm_report words;
	ASSERT_INT(read(child->report, &words, sizeof(words)), sizeof(words));
	(void)snprintf(text, sizeof(text), "%s", words.text);
	return words.report;
}

static void start(struct child *child)
{
	struct box_init_report said = start_microvm(child);
	if (said.step != 0) {
		TEST_FAIL("step %u, errno %d: %s", said.step, said.errnum, text);
	}
}

static void make_folder(void)
{
	ASSERT(mkdtemp(folder));
	ASSERT_INT(atexit(remove_folder), 0);
	ASSERT_INT(chmod(folder, 0755), 0);
}

/* Prints the errors of a command that should have succeeded. */
static struct outcome *run_well(struct child *child, uint32_t id, const char *command)
{
	struct outcome *outcome = run_one(child, id, (struct asked){.command = command});
	if (outcome->end.end != BOX_INIT_END_EXIT || outcome->end.value != 0) {
		TEST_FAIL("%s: end %u, value %d, step %u: %.*s%.*s", command, outcome->end.end,
			outcome->end.value, outcome->end.step, (int)outcome->out_len,
			outcome->out ? outcome->out : "", (int)outcome->err_len, outcome->err);
	}
	return outcome;
}

/* The child of box-vmm with that name. */
static pid_t child_of(const struct child *child, const char *name)
{
	char path[64];
	char line[4096] = "";
	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", child->pid, child->pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT(fd >= 0 && read(fd, line, sizeof(line) - 1) > 0);
	(void)close(fd);
	for (char *at = line; *at >= '0';) {
		char comm[32] = "";
		long pid = strtol(at, &at, 10);
		at += strspn(at, " ");
		(void)snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		ASSERT(fd >= 0 && read(fd, comm, sizeof(comm) - 1) > 0);
		(void)close(fd);
		if (strncmp(comm, name, strlen(name)) == 0) {
			return (pid_t)pid;
		}
	}
	TEST_FAIL("no %s among %s", name, line);
}

/* --- tests --- */

TEST(a_guest_runs_commands)
{
	struct child child;
	static const struct {
		const char *command;
		const char *out;
	} table[] = {
		{"echo hello; id -u; hostname", "hello\n1000\nin-a-box\n"},
		{"touch /x 2>/dev/null || echo no", "no\n"},
		{"touch /usr/x 2>/dev/null || echo no", "no\n"},
		{"cd /workspace && echo a > f && cat f", "a\n"},
		{"cat /workspace/f", "a\n"},
		{"head -c 300000 /dev/zero | wc -c", "300000\n"},
		{"cmp /usr/bin/env /usr/bin/env && echo same", "same\n"},
		{"ls /init.krun /boot.box /share 2>/dev/null | wc -l", "0\n"},
		{"date +%s | grep -c '^[1-9][0-9]*$'", "1\n"},
	};
	start(&child);
	for (size_t i = 0; i < COUNT(table); i++) {
		struct outcome *outcome = run_one(
			&child, 1, (struct asked){.command = table[i].command});
		ASSERT_OUT(outcome, table[i].out);
	}
	struct outcome *outcome = run_one(&child, 2, (struct asked){.command = "uname -r; exit 7"});
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 7);
	ASSERT(outcome->out && strncmp(outcome->out, "6.12.", 5) == 0);
	outcome = run_one(&child, 3,
		(struct asked){.command = "head -c 4000000 /dev/zero; date +%s", .limit = 8000000});
	ASSERT(outcome->out_len > 4000000);
	long there = strtol(outcome->out + 4000000, NULL, 10);
	long here = (long)time(NULL);
	ASSERT(there >= here - 2 && there <= here + 2);
	stop_child(&child);
}

/* Every kind of file operation on the share. */
static const char file_work[] =
	"set -e; cd /workspace; mkdir d; echo one > d/a; ln d/a d/b; ln -s a d/c; mkfifo d/p; "
	"mv d/b e; mv e d/e; cat d/c; chmod 600 d/a; stat -c %a d/a; touch -d @5 d/a; stat -c %Y d/a; "
	"truncate -s 3 d/a; stat -c %s d/a; fallocate -l 100 d/f; stat -c %s d/f; cp d/f d/g; "
	"sync d/a; ls d | tr '\\n' ' '; rm -r d/p d/e; readlink d/c; chown 1000:1000 d/a; df . | wc -l; "
	"dd if=/dev/zero of=d/z bs=1M count=3 conv=fsync 2>/dev/null; wc -c < d/z; "
	"(echo x >> d/a); exec 3< d/a; rm d/a; cat <&3 | wc -c; rm -r d; ls | wc -l";

TEST(a_folder_of_the_host)
{
	struct child child;
	struct stat st;
	char file[160];
	make_folder();
	workspace = make_source("w");
	(void)snprintf(file, sizeof(file), "%s/made", workspace);
	start(&child);
	struct outcome *outcome = run_well(&child, 1, file_work);
	ASSERT_OUT(outcome, "one\n600\n5\n3\n100\na c e f g p a\n2\n3145728\n5\n1\n");
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	outcome = run_one(&child, 2,
		(struct asked){.command = "cat /workspace/file; echo > /workspace/made"});
	ASSERT_OUT(outcome, "w\n");
	ASSERT_INT(stat(file, &st), 0);
	ASSERT_INT(st.st_uid, payload_outside());
	stop_child(&child);
}

TEST(mounts_of_single_commands)
{
	struct child child;
	make_folder();
	start(&child);
	struct outcome *outcome = run_with(&child, 1, "/workspace/.skills/a", make_source("a"),
		"cat /workspace/.skills/a/file; echo b > /workspace/.skills/a/file && echo done");
	ASSERT_OUT(outcome, "a\ndone\n");
	outcome = run_one(&child, 2, (struct asked){.command = "ls -A /workspace/.skills/a"});
	ASSERT_OUT(outcome, "");
	forget(3);
	send_mount(&child, 3, "/workspace/ro", detach(make_source("c"), true));
	ask(&child, 3,
		(struct asked){
			.command = "cat /workspace/ro/file; touch /workspace/ro/x 2>/dev/null "
				   "|| echo no",
			.mounts = 1});
	ASSERT_OUT(collect(&child, 3), "c\nno\n");
	/* A mount that never arrived: the command fails with an error, and the box survives. */
	forget(4);
	send_kind(&child, BOX_INIT_MOUNT, 4, "/workspace/x", sizeof("/workspace/x"));
	ask(&child, 4, (struct asked){.command = "true", .mounts = 1});
	outcome = collect(&child, 4);
	ASSERT_INT(outcome->end.end, BOX_INIT_END_FAILED);
	outcome = run_one(&child, 5, (struct asked){.command = "echo still"});
	ASSERT_OUT(outcome, "still\n");
	stop_child(&child);
}

TEST(where_one_id_is_all_there_is)
{
	struct child child;
	one_id = true;
	make_folder();
	workspace = make_source("w");
	start(&child);
	struct outcome *outcome = run_well(&child, 1, file_work);
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	outcome = run_one(&child, 2, (struct asked){.command = "id -u; cat /workspace/file"});
	ASSERT_OUT(outcome, "1000\nw\n");
	stop_child(&child);
}

TEST(a_network)
{
	struct child child;
	network = true;
	start(&child);
	(void)child_of(&child, "passt");
	struct outcome *outcome = run_well(
		&child, 1, "bash -c 'head -n 1 < /dev/tcp/10.9.9.7/7000'");
	ASSERT_OUT(outcome, "greetings\n");
	outcome = run_one(&child, 2,
		(struct asked){
			.command = "timeout 5 bash -c 'head -n 1 < /dev/tcp/10.9.9.7/7001'"});
	ASSERT(outcome->end.value != 0);
	ASSERT_OUT(outcome, "");
	stop_child(&child);
}

/* --- ends --- */

static void box_ends_with(const char *name, const char *words)
{
	struct child child;
	struct box_init_header header;
	char last[BOX_INIT_PACKET_MAX] = "";
	start(&child);
	ASSERT_INT(kill(child_of(&child, name), SIGKILL), 0);
	ssize_t size = recv(child.control, last, sizeof(last) - 1, 0);
	ASSERT(size > (ssize_t)sizeof(header));
	ASSERT_INT(box_init_check_answer(last, (size_t)size), 0);
	memcpy(&header, last, sizeof(header));
	ASSERT_INT(header.kind, BOX_INIT_BOX_ENDS);
	ASSERT(strncmp(last + sizeof(header), words, strlen(words)) == 0);
	ASSERT_INT(recv(child.control, last, 1, 0), 0);
	ASSERT_INT(waitpid(child.pid, NULL, 0), child.pid);
	(void)close(child.control);
}

TEST(the_box_ends_with_its_machine)
{
	box_ends_with("box-microvm", "its virtual machine was killed by signal 9");
}

TEST(the_box_ends_with_who_mounts)
{
	box_ends_with("box-mnt-helper", "the process that mounts for it ");
}

/* What an attacker would have who took over the virtual machine's process. */
TEST(posture_of_the_processes)
{
	struct child child;
	static const struct {
		const char *name;
		const char *shown;
	} table[] = {
		{"box-microvm",
			"Uid:\t1879049192\tCapPrm:\t0000000000000000\tCapEff:\t0000000000000000\t"
			"CapBnd:\t0000000000000000\tNoNewPrivs:\t1\tSeccomp:\t2\t"},
		{"box-mnt-helper",
			"Uid:\t1879048192\tCapPrm:\t0000000000200000\tCapEff:\t0000000000200000\t"
			"CapBnd:\t0000000000000000\tNoNewPrivs:\t1\tSeccomp:\t2\t"},
		{NULL,
			"Uid:\t1879048192\tCapPrm:\t0000000000000000\tCapEff:\t0000000000000000\t"
			"CapBnd:\t0000000000000000\tNoNewPrivs:\t1\tSeccomp:\t2\t"},
	};
	start(&child);
	for (size_t i = 0; i < COUNT(table); i++) {
		char command[256];
		char shown[1024] = "";
		pid_t pid = table[i].name ? child_of(&child, table[i].name) : child.pid;
		(void)snprintf(command, sizeof(command),
			"grep -hE '^(Uid|CapPrm|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/%d/status "
			"| cut -f1,2 | tr '\\n' '\\t'",
			pid);
		FILE *from = popen(command, "re");
		ASSERT(from && fgets(shown, sizeof(shown), from));
		(void)pclose(from);
		ASSERT_STR(shown, table[i].shown);
		(void)snprintf(command, sizeof(command), "ls /proc/%d/root/ | tr '\\n' ' '", pid);
		from = popen(command, "re");
		ASSERT(from && fgets(shown, sizeof(shown), from));
		(void)pclose(from);
		ASSERT_STR(shown, "dev proc run share ");
	}
	stop_child(&child);
}
