/* STUB until six-store is merged */
#pragma once
#include "base/err.h"
#include "base/value.h"
struct box_arena; struct box_buf; struct box_store;
int box_store_open(int root_fd, const char *root_path, struct box_store **ret_store, struct box_err *err);
void box_store_close(struct box_store *store);
int box_store_serve(struct box_store *store, const char *namespace, const char *action, const struct box_value *data, int archive_fd, struct box_arena *arena, struct box_value *ret_answer, struct box_err *err);
int box_store_find_package(struct box_store *store, const char *namespace, const char *skill_name, struct box_buf *ret_path, struct box_err *err);
