/* Our stdout and stderr, which do not have to be nonblocking: others may share them. */
#include "cli/output.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"

#define PIPE_PIECE 4096 /* a pipe that is ready takes this much without waiting */
#define FILE_PIECE (1 * BOX_MIB)

void box_cli_output_open(struct cli_output *output, int fd)
{
	struct stat status;
	bool file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
	*output = (struct cli_output){.fd = fd,
		.bytes = box_buf(BOX_OUT_BYTES_MAX),
		.piece = file ? FILE_PIECE : PIPE_PIECE};
}

void box_cli_output_close(struct cli_output *output)
{
	box_buf_free(&output->bytes);
}

void box_cli_output_add(struct cli_output *output, struct box_str bytes)
{
	if (!output->broken) {
		(void)box_buf_append(&output->bytes, bytes.bytes, bytes.len);
	}
}

bool box_cli_output_pending(const struct cli_output *output)
{
	return output->bytes.len > output->written;
}

void box_cli_output_write(struct cli_output *output)
{
	size_t left = output->bytes.len - output->written;
	ssize_t written = write(output->fd, output->bytes.bytes + output->written,
		left < output->piece ? left : output->piece);
	if (written < 0 && (errno == EINTR || errno == EAGAIN)) {
		return;
	}
	output->broken = written < 0;
	output->written += written < 0 ? left : (size_t)written;
	if (!box_cli_output_pending(output)) {
		output->bytes.len = output->written = 0;
	}
}
