/* Runs a fuzz harness over saved inputs, for builds without libFuzzer: each argument is a file or a
 * folder of files. Prints how many were run; none at all is a failure. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tests/fuzz/common.h"

static int run_file(const char *path)
{
	struct stat st;
	FILE *file = fopen(path, "re");
	if (!file || fstat(fileno(file), &st) < 0) {
		(void)fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(1);
	}
	/* Exactly its size, so that a sanitizer detects a read past it. */
	size_t size = (size_t)st.st_size;
	uint8_t *data = malloc(size ? size : 1);
	if (!data || fread(data, 1, size, file) != size) {
		(void)fprintf(stderr, "%s: cannot be read\n", path);
		exit(1);
	}
	(void)fclose(file);
	(void)LLVMFuzzerTestOneInput(data, size);
	free(data);
	return 1;
}

static int run_path(const char *path)
{
	DIR *folder = opendir(path);
	if (!folder) {
		return run_file(path);
	}
	int count = 0;
	for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
		char inner[PATH_MAX];
		if (entry->d_name[0] == '.') {
			continue;
		}
		if (snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name) >=
			(int)sizeof(inner)) {
			(void)fprintf(stderr, "%s: name too long\n", path);
			exit(1);
		}
		count += run_file(inner);
	}
	(void)closedir(folder);
	return count;
}

int main(int argc, char **argv)
{
	int count = 0;
	for (int i = 1; i < argc; i++) {
		count += run_path(argv[i]);
	}
	printf("%d inputs\n", count);
	return count > 0 ? 0 : 1;
}
