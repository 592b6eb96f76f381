/* Stands in for libkrun and libkrunfw: reports each call on the fd that FAKE_KRUN_FD names, and
 * refuses the call that FAKE_KRUN_REFUSES names. Built with FAKE_OLD it is a version that cannot
 * lay files over a root yet, with FAKE_WITHOUT_NET one without a network. */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static int32_t say(const char *name, const char *format, ...)
{
	char line[512];
	const char *fd = getenv("FAKE_KRUN_FD");
	const char *refuses = getenv("FAKE_KRUN_REFUSES");
	va_list arguments;
	va_start(arguments, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): version 14 mistakes others' */
	(void)vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (fd) {
		(void)dprintf(atoi(fd), "%s(%s)\n", name, line);
	}
	return refuses && strcmp(refuses, name) == 0 ? -EBUSY : 0;
}

#define EXPORT __attribute__((visibility("default")))
#define CALL(name, arguments, ...)              \
	EXPORT int32_t name arguments;          \
	EXPORT int32_t name arguments           \
	{                                       \
		return say(#name, __VA_ARGS__); \
	}

CALL(krun_init_log, (int fd, uint32_t level, uint32_t style, uint32_t options), "%d,%u,%u,%u",
	fd > 0, level, style, options)
CALL(krun_set_vm_config, (uint32_t ctx, uint8_t cpus, uint32_t mib), "%u,%u,%u", ctx, cpus, mib)
CALL(krun_disable_implicit_init, (uint32_t ctx), "%u", ctx)
CALL(krun_set_console_output, (uint32_t ctx, const char *path), "%u,%s", ctx, path)
CALL(krun_disable_implicit_vsock, (uint32_t ctx), "%u", ctx)
CALL(krun_add_vsock, (uint32_t ctx, uint32_t tsi), "%u,%u", ctx, tsi)
CALL(krun_add_vsock_port2, (uint32_t ctx, uint32_t port, const char *path, bool listens),
	"%u,%u,%s,%d", ctx, port, path, listens)
CALL(krun_add_virtiofs3,
	(uint32_t ctx, const char *tag, const char *path, uint64_t dax, bool read_only),
	"%u,%s,%s,%d,%d", ctx, tag, path ? path : "-", dax != 0, read_only)
#ifndef FAKE_OLD
CALL(krun_fs_add_overlay_file,
	(uint32_t ctx, const char *tag, const char *path, const void *bytes, size_t size,
		uint32_t mode, bool once),
	"%u,%s,%s,%.*s,%o,%d", ctx, tag, path, (int)size, (const char *)bytes, mode, once)
#endif
#ifndef FAKE_WITHOUT_NET
CALL(krun_add_net_unixstream,
	(uint32_t ctx, const char *path, int fd, const uint8_t *mac, uint32_t features,
		uint32_t flags),
	"%u,%s,%d,%02x:%02x,%d,%u", ctx, path ? path : "-", fd, mac[0], mac[5], features != 0,
	flags)
#endif
CALL(krunfw_get_kernel, (void), "%s", "")

EXPORT int32_t krun_create_ctx(void);
EXPORT int32_t krun_create_ctx(void)
{
	return say("krun_create_ctx", "%s", "") < 0 ? -EBUSY : 3;
}

EXPORT int32_t krun_start_enter(uint32_t ctx);
EXPORT int32_t krun_start_enter(uint32_t ctx)
{
	(void)say("krun_start_enter", "%u", ctx);
	return -EINVAL; /* nothing boots here */
}
