/* archive_driver unpack|peek ZIP FOLDER: unpacks as box-skills does, for system tests.
 *
 * Prints `ok`, or the error's code and text, and the time it took in microseconds. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "skills/archive/archive.h"

int main(int argc, char **argv)
{
	static struct box_err err;
	if (argc != 4) {
		(void)fprintf(stderr, "usage: archive_driver unpack|peek ZIP FOLDER\n");
		return 2;
	}
	box_log_setup("archive_driver", BOX_LOG_WARNING, BOX_LOG_TEXT);
	int archive = open(argv[2], O_RDONLY | O_CLOEXEC);
	int out = open(argv[3], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (archive < 0 || out < 0) {
		perror("archive_driver");
		return 2;
	}
	bool is_peek = strcmp(argv[1], "peek") == 0;
	uint64_t start = box_clock_us();
	int r = is_peek ? box_archive_peek(archive, out, &err)
			: box_archive_unpack(archive, out, &err);
	uint64_t took = box_clock_us() - start;
	if (r < 0) {
		printf("%s\n%s\n%lu\n", box_code_name(err.code), err.text, (unsigned long)took);
		return 1;
	}
	printf("ok\n\n%lu\n", (unsigned long)took);
	return 0;
}
