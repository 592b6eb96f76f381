/* Between the two halves of the runtime; nobody else includes this. */
#pragma once

struct box_runtime;
struct box_value;

/* The layers of configuration that clients made, each as a change. */
void box_runtime_emit_layers(const struct box_runtime *runtime,
	void (*emit)(void *arg, const struct box_value *change), void *arg);
