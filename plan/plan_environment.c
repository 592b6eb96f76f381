/* The environment that every command begins with.
 *
 * Nothing of boxd's own goes in. TMPDIR and TERM are left out on purpose: /tmp is what tools take
 * without the first, and who gives a command a terminal knows what it is.
 */
#include "plan/plan.h"

const char *const box_plan_environment[] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	("HOME=" BOX_PLAN_HOME),
	"USER=box",
	"LOGNAME=box",
	"SHELL=/bin/sh",
	"LANG=C.UTF-8",
	/* What a program printed before its time was up is part of the answer; clients have come to
	 * rely on it. */
	"PYTHONUNBUFFERED=1",
	NULL,
};
