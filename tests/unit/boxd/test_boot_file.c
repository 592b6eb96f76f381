/* The guest's part of a boot file: it matches the plan, and box-init can parse it. */
#include <errno.h>
#include <sys/mman.h>

#include "boxd/box/boot_file.h"
#include "boxd/box/boot_file_root_steps.h"
#include "tests/unit/lib/test.h"

static struct box_plan_request ask;
static struct box_policy policy;
static struct box_plan_host host;
static struct box_plan plan;
static struct box_err err;

static void add_entry(const char *name, const char *link)
{
	struct box_root_entry *entry = &host.root_entries[host.root_entry_count++];
	(void)snprintf(entry->name, sizeof(entry->name), "%s", name);
	(void)snprintf(entry->link, sizeof(entry->link), "%s", link);
}

static void set_up(void)
{
	ask = (struct box_plan_request){.name = "s1",
		.kind = BOX_PLAN_KIND_MICROVM,
		.mount_path = "/workspace",
		.memory_bytes = 512 * BOX_MIB,
		.pids = 128,
		.cpu_milli = 1500};
	host = (struct box_plan_host){.root = true,
		.id_ranges = true,
		.cgroups = true,
		.network = true,
		.own_etc = true,
		.cpus = 4};
	add_entry("usr", "");
	add_entry("bin", "usr/bin");
}

static void make(void)
{
	if (box_plan_make(&ask, &policy, &host, &plan, &err) < 0) {
		TEST_FAIL("no plan: %s", err.text);
	}
}

/* One step per line: kind, flags, mode, target, source. */
static void describe(char *out, size_t room)
{
	static const char *const kinds[] = {
		"tmpfs", "tree", "folder", "link", "devices", "proc", "pts", "freeze"};
	static struct box_root_step pieces[BOX_PLAN_STEPS_MAX];
	size_t count = box_boot_file_count_root_steps(&plan);
	size_t at = 0;
	box_boot_file_fill_root_steps(&plan, pieces);
	for (size_t i = 0; i < count; i++) {
		at += (size_t)snprintf(out + at, room - at, "%s %u %04o %s%s%s\n",
			kinds[pieces[i].kind], pieces[i].flags, pieces[i].mode, pieces[i].target,
			pieces[i].source[0] ? " " : "", pieces[i].source);
	}
}

TEST(the_whole_list)
{
	static char text[16384];
	set_up();
	make();
	describe(text, sizeof(text));
	ASSERT_STR(text,
		"tmpfs 0 0755 /\n"
		"folder 0 0755 /usr\n"
		"tree 1 0000 /usr usr\n"
		"link 0 0000 /bin usr/bin\n"
		"folder 0 0755 /etc\n"
		"tree 1 0000 /etc etc\n"
		"folder 0 0755 /dev\n"
		"devices 2 0000 /dev\n"
		"pts 2 0000 /dev/pts\n"
		"tmpfs 2 1777 /dev/shm\n"
		"folder 0 0755 /proc\n"
		"proc 2 0000 /proc\n"
		"folder 0 0755 /tmp\n"
		"tmpfs 0 1777 /tmp\n"
		"folder 0 0755 /run\n"
		"tmpfs 4 0755 /run\n"
		"folder 4 0755 /run/lock\n"
		"folder 0 0755 /home/box\n"
		"tmpfs 4 0755 /home/box\n"
		"folder 0 0755 /mnt\n"
		"folder 0 0755 /opt\n"
		"folder 0 0755 /srv\n"
		"folder 0 0755 /var\n"
		"folder 0 0755 /var/cache\n"
		"folder 0 0755 /var/lib\n"
		"folder 0 0755 /var/log\n"
		"link 0 0000 /var/lock /run/lock\n"
		"link 0 0000 /var/run /run\n"
		"link 0 0000 /var/tmp /tmp\n"
		"folder 4 0755 /workspace\n"
		"tmpfs 4 0755 /workspace\n"
		"freeze 0 0000 /\n");
}

/* A host folder comes with the box's order: here is only its mount point. */
TEST(a_host_folder_is_no_root_step)
{
	static char text[16384];
	set_up();
	ask.host_mode = BOX_PLAN_MOUNT_RW;
	(void)snprintf(ask.host_path, sizeof(ask.host_path), "/srv/w");
	make();
	describe(text, sizeof(text));
	ASSERT(strstr(text, "folder 4 0755 /workspace\nfreeze 0 0000 /\n") != NULL);
}

TEST(numbers)
{
	const struct box_network_slot slot = {
		.box_address = 0x0100007f, .router_address = 0x0200007f};
	struct box_microvm_boot boot;
	set_up();
	make();
	box_boot_file_describe_microvm(&plan, NULL, &boot);
	ASSERT_INT(boot.size, sizeof(boot));
	ASSERT_INT(boot.root_step_count, 32);
	ASSERT_INT(boot.memory_mib, 512);
	ASSERT_INT(boot.cpus, 2);
	ASSERT_INT(boot.network, 0);
	ASSERT_INT(boot.address, 0);
	ASSERT_INT(boot.deadline_ms, 10000);
	ASSERT_INT(boot.pids, 128);
	ASSERT_INT(boot.open_files, 16384);
	ASSERT_STR(boot.hostname, "box");
	box_boot_file_describe_microvm(&plan, &slot, &boot);
	ASSERT_INT(boot.network, 1);
	ASSERT_INT(boot.address, 0x0100007f);
	ASSERT_INT(boot.gateway, 0x0200007f);
	ASSERT_INT(boot.prefix, 31);
}

/* box-init can read what boxd writes and box-vmm appends its order to. */
TEST(box_init_finds_its_way)
{
	static struct box_host_state host_state;
	struct box_microvm_parts parts;
	struct box_microvm_order order = {.order = 1};
	int fd = -1;
	set_up();
	host.id_ranges = false; /* the user that runs boxd does not matter to the guest */
	host.root = false;
	make();
	ASSERT_INT(box_filter_compile((struct box_filter_kind){.profile = BOX_FILTER_DEFAULT},
			   &host_state.filters[0][0].commands, &err),
		0);
	ASSERT_INT(box_boot_file_make(&host_state, &plan, NULL, &fd), 0);
	off_t size = lseek(fd, 0, SEEK_END);
	char *bytes = calloc(1, (size_t)size + sizeof(order));
	ASSERT(bytes != NULL);
	ASSERT_INT(pread(fd, bytes, (size_t)size, 0), size);
	memcpy(bytes + size, &order, sizeof(order));
	ASSERT_INT(box_microvm_find_parts(bytes, (size_t)size + sizeof(order), &parts), 0);
	ASSERT_INT(parts.boot.root_step_count, box_boot_file_count_root_steps(&plan));
	ASSERT_INT(parts.order.order, 1);
	const struct box_init_boot *boot = (const void *)bytes;
	ASSERT_INT(boot->same_uid, 0);
	ASSERT_INT(boot->payload_uid, 1000);
	/* Sealed: it cannot be changed on its way. */
	ASSERT_INT(pwrite(fd, "x", 1, 0), -1);
	box_filter_free(&host_state.filters[0][0].commands);
	free(bytes);
	(void)close(fd);
}
