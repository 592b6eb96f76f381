/* A hostile PID 1 of a guest. The name of the box's workspace says what it does (`modes`); it never
 * runs a command. */
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <stdint.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/microvm.h"

static char packet[BOX_INIT_PACKET_MAX];
static int host = -1;

/* --- what it says --- */

static void dial(void)
{
	struct sockaddr_vm address = {
		.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST, .svm_port = BOX_MICROVM_PORT};
	host = socket(AF_VSOCK, SOCK_STREAM, 0);
	(void)connect(host, (struct sockaddr *)&address, sizeof(address));
}

static void say(const void *bytes, size_t size)
{
	const char *from = bytes;
	while (size > 0) {
		ssize_t n = write(host, from, size);
		if (n <= 0) {
			return;
		}
		from += n;
		size -= (size_t)n;
	}
}

static void report(void)
{
	struct box_init_report ready = {0};
	dial();
	say(&ready, sizeof(ready));
}

static void hear(void *bytes, size_t size)
{
	char *to = bytes;
	while (size > 0) {
		ssize_t n = read(host, to, size);
		if (n <= 0) {
			return;
		}
		to += n;
		size -= (size_t)n;
	}
}

/* The id of the first command that arrives. */
static uint32_t await_command(void)
{
	struct box_init_header header = {0};
	do {
		hear(&header, sizeof(header));
		hear(packet, header.size - sizeof(header));
	} while (header.kind != BOX_INIT_RUN);
	return header.id;
}

/* --- what it does --- */

static void do_end(void)
{
}

static void do_reboot(void)
{
	(void)reboot(RB_AUTOBOOT);
}

/* Powers off without telling anyone. */
static void do_halt(void)
{
	(void)reboot(RB_POWER_OFF);
}

static void do_mute(void)
{
	static const char words[] = "I have\nnothing to say\n";
	int console = open("/dev/console", O_WRONLY);
	(void)!write(console < 0 ? STDOUT_FILENO : console, words, sizeof(words) - 1);
	dial();
}

static void do_nonsense(void)
{
	dial();
	memset(packet, 0xff, sizeof(packet));
	say(packet, sizeof(packet));
}

/* From here on its ready report has been accepted. */

static void do_later(void)
{
	report();
	(void)await_command();
	memset(packet, 0xff, sizeof(packet));
	say(packet, sizeof(packet));
}

/* Well-formed, and endless. */
static void do_flood(void)
{
	report();
	struct box_init_header header = {
		.size = sizeof(packet), .kind = BOX_INIT_STDOUT, .id = await_command()};
	memset(packet, 'x', sizeof(packet));
	memcpy(packet, &header, sizeof(header));
	for (int i = 0; i < 4096; i++) {
		say(packet, sizeof(packet));
	}
}

static void do_reboot_later(void)
{
	report();
	(void)await_command();
	do_reboot();
}

static const struct {
	const char *name;
	void (*run)(void);
	int lives;
} modes[] = {
	{"/end", do_end, 0},
	{"/reboot", do_reboot, 0},
	{"/halt", do_halt, 1},
	{"/mute", do_mute, 1},
	{"/nonsense", do_nonsense, 1},
	{"/later", do_later, 1},
	{"/flood", do_flood, 1},
	{"/reboot-later", do_reboot_later, 1},
};

int main(void)
{
	struct box_init_boot boot = {0};
	int file = open(BOX_MICROVM_BOOT, O_RDONLY);
	if (read(file, &boot, sizeof(boot)) != (ssize_t)sizeof(boot)) {
		return 2;
	}
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(boot.workspace_path, modes[i].name) == 0) {
			modes[i].run();
			while (modes[i].lives) {
				(void)pause();
			}
		}
	}
	return 1;
}
