/* The options that every command has, as --help tells them. */
#pragma once

#define BOX_CLI_COMMON_USAGE                                                           \
	"      --endpoint URL     the runtime at ws://HOST[:PORT] or unix:/PATH\n"     \
	"                         (BOX_ENDPOINT)\n"                                    \
	"      --instance ID      the instance that the runtime serves\n"              \
	"                         (LANGBOT_BOX_TRUSTED_INSTANCE_UUID, else \"box\")\n" \
	"      --workspace ID     whose boxes (\"box\")\n"                             \
	"  -v, --verbose          show the log of a boxd that is started\n"            \
	"  -h, --help             print this, and exit\n"
