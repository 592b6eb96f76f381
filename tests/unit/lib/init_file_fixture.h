/* Requests for file work to a box-init, and their answers. */
#pragma once

#include "protocol/init_file.h"
#include "tests/unit/lib/init_fixture.h"

static const char *const no_env[] = {NULL};

/* A request for a path of the root. */
static inline struct asked file_of(uint32_t kind, const char *path)
{
	static char command[sizeof(struct box_init_file) + 512];
	struct box_init_file file = {.kind = kind, .size = 100, .limit = 10};
	const char *texts[] = {"/", path, "", ""};
	size_t size = sizeof(file);
	for (int i = 0; i < 4; i++) {
		file.sizes[i] = (uint32_t)strlen(texts[i]) + 1;
		memcpy(command + size, texts[i], file.sizes[i]);
		size += file.sizes[i];
	}
	memcpy(command, &file, sizeof(file));
	return (struct asked){
		.command = command,
		.command_size = size,
		.env = no_env,
		.flags = BOX_INIT_RUN_FILE,
	};
}

static inline struct box_init_file_answer answer_of(const struct outcome *outcome)
{
	struct box_init_file_answer answer;
	ASSERT_INT(outcome->err_len, sizeof(answer));
	memcpy(&answer, outcome->err, sizeof(answer));
	return answer;
}
