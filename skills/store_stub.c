/* STUB */
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include "base/arena.h"
#include "base/buf.h"
#include "skills/store.h"
struct box_store { int fd; };
int box_store_open(int root_fd, const char *root_path, struct box_store **ret_store, struct box_err *err)
{ (void)root_path; (void)err; *ret_store = box_alloc(sizeof(**ret_store)); (*ret_store)->fd = root_fd; return 0; }
void box_store_close(struct box_store *store) { free(store); }
int box_store_serve(struct box_store *store, const char *namespace, const char *action, const struct box_value *data, int archive_fd, struct box_arena *arena, struct box_value *ret_answer, struct box_err *err)
{ (void)store;(void)namespace;(void)data;(void)archive_fd; (void)err; (void)action; *ret_answer = box_map_value(); box_map_add(arena, ret_answer, "skills", box_list_value()); return 0; }
int box_store_find_package(struct box_store *store, const char *namespace, const char *skill_name, struct box_buf *ret_path, struct box_err *err)
{ (void)store; (void)err; return box_buf_printf(ret_path, "tenants/%s/%s", namespace, skill_name); }
