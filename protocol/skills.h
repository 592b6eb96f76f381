/* The protocol between box-rpc and box-skills, over a stream socket that boxd has made.
 *
 * A message is a head and a msgpack map of `size` bytes. box-rpc sends one request at a time:
 *   {root}                       first, once: the folder's path as clients know it; no answer
 *   {namespace, action, data}    an archive's fd may come beside the head
 * and is answered with
 *   {data}  or  {code, errnum, text}
 * Each side treats the other as hostile: box-rpc reads what strangers send, box-skills what they store.
 */
#pragma once

#include <stdint.h>

#include "base/limits.h"

#define BOX_SKILLS_SOCKET_FD 3
#define BOX_SKILLS_FOLDER_FD 4

/* fds of box-skills when it fills an artifact. */
#define BOX_SKILLS_REPORT_FD 3
#define BOX_SKILLS_SOURCE_FD 4
#define BOX_SKILLS_MANIFEST_FD 5
#define BOX_SKILLS_TARGET_FD 6

struct box_skills_head {
	uint32_t size;
};

/* A client's request, and the map around it. */
#define BOX_SKILLS_BYTES_MAX (BOX_MESSAGE_BYTES_MAX + 64 * BOX_KIB)
