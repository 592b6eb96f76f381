/* The default environment of every command.
 *
 * Nothing of boxd's own environment goes in. TMPDIR and TERM are left out on purpose: tools use /tmp
 * without the first, and the client that gives a command a terminal knows its type.
 */
#include "plan/plan.h"

const char *const box_plan_environment[] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	("HOME=" BOX_PLAN_HOME),
	"USER=box",
	"LOGNAME=box",
	"SHELL=/bin/sh",
	"LANG=C.UTF-8",
	/* PYTHONUNBUFFERED: output that a program printed before its timeout must not be lost in a
	 * buffer; clients rely on that. */
	"PYTHONUNBUFFERED=1",
	NULL,
};
