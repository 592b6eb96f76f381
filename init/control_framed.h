/* Requests out of a stream, in a microVM: what goes with an fd elsewhere has a number there. */
#pragma once

#include "init/control.h"

/* As box_control_receive; `packet` is its buffer, and stays the same from one to the next. After
 * nonsense nobody knows where the next packet begins: then the stream is at its end. */
int box_control_receive_framed(char *packet, struct box_control_request *ret_request);
