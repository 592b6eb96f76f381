/* The runtime as one object: its configuration, and the state that it records for the next box-rpc.
 *
 * Configuration is stored as layers, which are merged again whenever one of them changes, so a reload of the file
 * keeps what a client has set, and a client's init keeps what the operator has set.
 *
 * The pinned instance, the generations, the clients' configuration and the sessions are recorded as changes when
 * they happen, written as a whole to a new record, and read by the next box-rpc, which does not trust the record. */
#include "runtime/runtime.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "runtime/backend/backend_select.h"
#include "runtime/config/config_members.h"
#include "runtime/config/policy.h"
#include "runtime/skill_store.h"
#include "runtime/spec/fields.h"

struct box_init {
	struct box_runtime *runtime;
	struct box_arena *arena;
	struct box_value map;
	bool by_parent;
	box_runtime_init_done *done; /* NULL once cancelled */
	void *arg;
};

static void session_changed(void *arg, const struct box_value *change)
{
	struct box_runtime *runtime = arg;
	runtime->host->record(runtime->host_arg, change);
}

struct box_runtime *box_runtime_new(
	const struct box_runtime_setup *setup, const struct box_runtime_host *host, void *host_arg)
{
	struct box_runtime *runtime = box_alloc(sizeof(*runtime));
	runtime->setup = *setup;
	runtime->host = host;
	runtime->host_arg = host_arg;
	runtime->config = box_config_default();
	runtime->ignored.event = "message.ignored";
	runtime->generations = box_generations_new();
	runtime->session_rules.changed = session_changed;
	runtime->session_rules.changed_arg = runtime;
	runtime->sessions = box_sessions_new(&runtime->session_rules);
	box_list_init(&runtime->analyses);
	return runtime;
}

static void layer_clear(struct box_runtime_layer *layer)
{
	box_arena_free(layer->arena);
	layer->arena = NULL;
}

static void layer_set(struct box_runtime_layer *layer, const struct box_value *map)
{
	struct box_runtime_layer fresh = {.arena = box_arena_new()};
	fresh.map = box_value_copy(fresh.arena, map);
	layer_clear(layer);
	*layer = fresh;
}

static void backend_free(struct box_backend *backend)
{
	if (backend) {
		backend->ops->free(backend);
	}
}

void box_runtime_free(struct box_runtime *runtime)
{
	if (!runtime) {
		return;
	}
	for (int i = 0; i < BOX_RUNTIME_LAYERS_; i++) {
		layer_clear(&runtime->layers[i]);
	}
	box_sessions_free(runtime->sessions);
	backend_free(runtime->backend);
	box_generations_free(runtime->generations);
	box_config_free(runtime->config);
	free(runtime->instance);
	free(runtime);
}

/* --- configuration --- */

/* Members that a client sent and this version does not know: an older or newer client is not refused for them. */
static void log_unread(const struct box_value *map)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_config_findings *found = box_arena_alloc(arena, sizeof(*found));
	char names[512] = "";
	size_t len = 0;
	box_config_members_check(arena, map, BOX_CONFIG_MEMBERS_CLIENT, false, found);
	for (size_t i = 0; i < found->count; i++) {
		const char *name = found->items[i].path;
		if (len + strlen(name) + 3 > sizeof(names)) {
			break;
		}
		len += (size_t)snprintf(
			names + len, sizeof(names) - len, "%s%s", i ? ", " : "", name);
	}
	if (found->count > 0) {
		BOX_LOG(BOX_LOG_INFO, "config.unknown_members_ignored",
			box_log_str("from", "box_init"), box_log_str("members", names));
	}
}

/* LANGBOT_BOX_CONFIG comes from the process that started this one, and so does everything over stdio. */
static enum box_config_origin origin_of(enum box_runtime_layer_kind layer, bool by_parent)
{
	return layer == BOX_RUNTIME_LAYER_FILE ? BOX_CONFIG_OPERATOR
		: layer == BOX_RUNTIME_LAYER_VARIABLE ||
			(layer == BOX_RUNTIME_LAYER_INIT && by_parent)
		? BOX_CONFIG_PARENT
		: BOX_CONFIG_CLIENT;
}

/* Merges a layer's map over `present`, as a new configuration; NULL with err. */
static struct box_config *merge_over(const struct box_runtime *runtime,
	const struct box_config *present, enum box_runtime_layer_kind layer, bool by_parent,
	const struct box_value *map, struct box_err *err)
{
	struct box_config *merged = NULL;
	if (box_config_merge(present, map, origin_of(layer, by_parent),
		    runtime->setup.working_folder, &merged, err) < 0) {
		return NULL;
	}
	if (box_config_add_mount_roots(merged, runtime->setup.mount_roots, err) < 0) {
		box_config_free(merged);
		return NULL;
	}
	return merged;
}

/* Merges one layer over *config, which is replaced on success. */
static int merge_layer(const struct box_runtime *runtime, enum box_runtime_layer_kind layer,
	const struct box_value *map, struct box_config **config, struct box_err *err)
{
	struct box_config *merged = merge_over(
		runtime, *config, layer, runtime->parent_configures, map, err);
	if (!merged) {
		return -EINVAL;
	}
	box_config_free(*config);
	*config = merged;
	return 0;
}

static int check_host_backend(
	const struct box_runtime *runtime, const struct box_config *config, struct box_err *err)
{
	if (strcmp(config->backend, "host") != 0) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_VALIDATION, ENOTSUP, "%s",
		runtime->setup.host_backend_allowed
			? "host backend is not supported"
			: "host backend requires local stdio control or WebSocket control protected "
			  "by LANGBOT_BOX_CONTROL_TOKEN");
}

bool box_runtime_knows_backend(const char *name)
{
	return box_backend_select_is_known(name);
}

const char *box_runtime_backend_names(void)
{
	return BOX_BACKEND_SELECT_NAMES;
}

/* Sessions keep the backend that they were made with, so the backend is changed only while there are
 * none. */
void box_runtime_choose_backend(struct box_runtime *runtime)
{
	struct box_session_rules *rules = &runtime->session_rules;
	const struct box_config *config = runtime->config;
	if (box_sessions_count_boxes(runtime->sessions) > 0) {
		return;
	}
	struct box_backend_choice choice = box_backend_select(
		config->backend, runtime->setup.loop, runtime->setup.local);
	backend_free(runtime->backend);
	runtime->backend = choice.backend;
	rules->backend = choice.backend;
	rules->backend_name = choice.name;
	rules->backend_missing = choice.missing;
	if (choice.unknown) {
		_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
		bool engine = strcmp(config->backend, "docker") == 0 ||
			strcmp(config->backend, "podman") == 0 ||
			strcmp(config->backend, "e2b") == 0;
		(void)snprintf(runtime->no_backend, sizeof(runtime->no_backend),
			"no backend %s: %sset backend to one of " BOX_BACKEND_SELECT_NAMES,
			box_fields_echo(arena, box_str(config->backend)),
			engine ? "container engines and services are not supported; " : "");
		rules->backend_missing = runtime->no_backend;
	}
}

/* Activates a checked configuration. */
static void apply(struct box_runtime *runtime, struct box_config *config)
{
	struct box_session_rules *rules = &runtime->session_rules;
	box_config_free(runtime->config);
	runtime->config = config;
	rules->max_sessions = config->limits.max_sessions;
	rules->session_ttl_sec = config->session_ttl_sec;
	rules->max_output_bytes = config->limits.max_output_bytes;
	rules->max_processes = config->limits.max_managed_processes;
	rules->max_completed = config->limits.max_completed_processes;
	rules->retention_sec = config->limits.completed_process_retention_sec;
	rules->ceilings = box_ceilings_from_limits(&config->limits, &runtime->setup.host_size);
	box_runtime_choose_backend(runtime);
	if (runtime->host->configured) {
		runtime->host->configured(runtime->host_arg);
	}
}

/* `file`: the map of the --config file if it differs from the active one, or NULL. */
static int check_policy(const struct box_runtime *runtime, const struct box_value *file,
	const struct box_config *config, struct box_err *err)
{
	const struct box_runtime_layer *present = &runtime->layers[BOX_RUNTIME_LAYER_FILE];
	return box_policy_check(file     ? file
			: present->arena ? &present->map
					 : NULL,
		config, runtime->setup.working_folder, err);
}

/* Merges and checks all layers, with `map` in place of one of them; NULL with err. */
static struct box_config *merge_all(const struct box_runtime *runtime,
	enum box_runtime_layer_kind layer, const struct box_value *map, struct box_err *err)
{
	_cleanup_(box_config_free_p) struct box_config *config = box_config_default();
	int r = 0;
	for (int i = 0; i < BOX_RUNTIME_LAYERS_ && r == 0; i++) {
		const struct box_value *from = i == (int)layer ? map
			: runtime->layers[i].arena             ? &runtime->layers[i].map
							       : NULL;
		r = from ? merge_layer(runtime, (enum box_runtime_layer_kind)i, from, &config, err)
			 : 0;
	}
	if (r == 0) {
		r = check_policy(
			runtime, layer == BOX_RUNTIME_LAYER_FILE ? map : NULL, config, err);
	}
	if (r == 0) {
		r = check_host_backend(runtime, config, err);
	}
	if (r == 0 && runtime->config->admission.required && !config->admission.required) {
		r = box_err_set(err, BOX_ERR_VALUE, EPERM,
			"box.admission cannot be turned off without a restart");
	}
	return r < 0 ? NULL : TAKE_PTR(config);
}

int box_runtime_check(const struct box_runtime *runtime, enum box_runtime_layer_kind layer,
	const struct box_value *map, struct box_err *err)
{
	_cleanup_(box_config_free_p) struct box_config *config = merge_all(
		runtime, layer, map, err);
	return config ? 0 : -EINVAL;
}

int box_runtime_configure(struct box_runtime *runtime, enum box_runtime_layer_kind layer,
	const struct box_value *map, struct box_err *err)
{
	struct box_config *config = merge_all(runtime, layer, map, err);
	if (!config) {
		return err ? -err->errnum : -EINVAL;
	}
	layer_set(&runtime->layers[layer], map);
	apply(runtime, config);
	return 0;
}

void box_runtime_needs_restart(struct box_runtime *runtime, const char *members)
{
	(void)snprintf(runtime->needs_restart, sizeof(runtime->needs_restart), "%s", members);
}

/* Stores an admission section in the init layer or, if it was refused, in a layer of its own. */
static void overlay_admission(
	struct box_runtime *runtime, const struct box_value *map, bool refused)
{
	const struct box_value *section = box_map_get(map, "admission");
	if (!section) {
		return;
	}
	layer_clear(&runtime->layers[BOX_RUNTIME_LAYER_REFUSED]);
	if (refused) {
		_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
		struct box_value alone = box_map_value();
		box_map_add(arena, &alone, "admission", *section);
		layer_set(&runtime->layers[BOX_RUNTIME_LAYER_REFUSED], &alone);
	}
}

/* The name of a layer's changes in the record; NULL: the layer is not recorded. */
static const char *const layer_changes[BOX_RUNTIME_LAYERS_] = {
	[BOX_RUNTIME_LAYER_INIT] = "init",
	[BOX_RUNTIME_LAYER_REFUSED] = "refused",
};

static void emit_layers(const struct box_runtime *runtime,
	void (*emit)(void *arg, const struct box_value *change), void *arg)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	for (int i = 0; i < BOX_RUNTIME_LAYERS_; i++) {
		if (layer_changes[i] && runtime->layers[i].arena) {
			struct box_value change = box_map_value();
			box_map_add(arena, &change, layer_changes[i], runtime->layers[i].map);
			emit(arg, &change);
		}
	}
}

/* Merges `map` over the init layer: by top-level key, but limits one by one; an admission section that must not be
 * turned off stays. */
static void overlay_init(
	struct box_runtime *runtime, const struct box_value *map, bool keep_admission)
{
	struct box_runtime_layer *layer = &runtime->layers[BOX_RUNTIME_LAYER_INIT];
	struct box_runtime_layer fresh = {.arena = box_arena_new()};
	fresh.map = layer->arena ? box_value_copy(fresh.arena, &layer->map) : box_map_value();
	for (uint32_t i = 0; i < map->count; i++) {
		const struct box_pair *pair = &map->pairs[i];
		struct box_value value = box_value_copy(fresh.arena, &pair->value);
		struct box_str key = {
			box_arena_strndup(fresh.arena, pair->key.bytes, pair->key.len),
			pair->key.len};
		if (!box_config_allows(key, BOX_CONFIG_CLIENT) ||
			(box_str_eq(key, "admission") && keep_admission)) {
			continue;
		}
		const struct box_value *old = box_map_get(&fresh.map, "limits");
		if (box_str_eq(key, "limits") && old && old->type == BOX_MAP &&
			value.type == BOX_MAP) {
			struct box_value limits = *old;
			for (uint32_t j = 0; j < value.count; j++) {
				box_map_set(fresh.arena, &limits, value.pairs[j].key,
					value.pairs[j].value);
			}
			value = limits;
		}
		box_map_set(fresh.arena, &fresh.map, key, value);
	}
	layer_clear(layer);
	*layer = fresh;
}

/* Merges over the current layer (another init may have arrived meanwhile) and applies. */
static int init_apply(struct box_runtime *runtime, const struct box_value *map, bool by_parent,
	struct box_err *err)
{
	struct box_config *config = merge_over(
		runtime, runtime->config, BOX_RUNTIME_LAYER_INIT, by_parent, map, err);
	if (!config) {
		return -EINVAL;
	}
	log_unread(map);
	if (box_map_get(map, "local")) {
		runtime->parent_configures = by_parent;
	}
	bool refused = runtime->config->admission.required && config->admission.error;
	overlay_init(runtime, map, refused);
	overlay_admission(runtime, map, refused);
	apply(runtime, config);
	if (config->admission.error) {
		BOX_LOG(BOX_LOG_ERROR, "config.admission_malformed",
			box_log_str("why", config->admission.error));
	}
	emit_layers(runtime, runtime->host->record, runtime->host_arg);
	return 0;
}

static int folder_error(const struct box_config *config, int result, struct box_err *err)
{
	/* A folder that may not be made was only checked. */
	if (result == -ENOENT && box_config_may_make_workspace(config, err) < 0) {
		return -EPERM;
	}
	switch (result) {
	case -EXDEV:
		/* A client may have other folders than the operator: a mount of them is refused later,
		 * with an error that says what to do, and everything else works. */
		BOX_LOG(BOX_LOG_WARNING, "config.workspace_outside",
			box_log_str("path", config->default_workspace),
			box_log_str("why",
				"it is outside the mount roots: start boxd with --mount-root, or "
				"write local.host_root in its --config file"));
		return 0;
	case -ENOTDIR:
		return box_err_set(err, BOX_ERR_VALIDATION, ENOTDIR,
			"box.local.default_workspace must point to a directory on the Box runtime "
			"host");
	case -EPERM:
		return box_err_set(err, BOX_ERR_VALIDATION, EPERM,
			"box.local.default_workspace %s is blocked for security",
			config->default_workspace);
	default:
		return box_err_set(err, BOX_ERR_OS, -result,
			"box.local.default_workspace %s cannot be made: %s",
			config->default_workspace, box_err_strerror(-result));
	}
}

/* The configuration that `map` would lead to, or NULL with err. */
static struct box_config *candidate(struct box_runtime *runtime, const struct box_value *map,
	bool by_parent, struct box_err *err)
{
	_cleanup_(box_config_free_p) struct box_config *config = merge_over(
		runtime, runtime->config, BOX_RUNTIME_LAYER_INIT, by_parent, map, err);
	if (!config || check_host_backend(runtime, config, err) < 0 ||
		check_policy(runtime, NULL, config, err) < 0) {
		return NULL;
	}
	return TAKE_PTR(config);
}

static void init_free(struct box_init *init)
{
	box_arena_free(init->arena);
}

static void init_folder_done(void *arg, int result)
{
	struct box_init *init = arg;
	struct box_err err;
	int r = 0;
	if (!init->done) {
		init_free(init);
		return;
	}
	if (result < 0) {
		_cleanup_(box_config_free_p) struct box_config *config = candidate(
			init->runtime, &init->map, init->by_parent, &err);
		r = config ? folder_error(config, result, &err) : -EINVAL;
	}
	if (r == 0) {
		r = init_apply(init->runtime, &init->map, init->by_parent, &err);
	}
	box_runtime_init_done *done = init->done;
	void *done_arg = init->arg;
	init_free(init);
	done(done_arg, r < 0 ? &err : NULL);
}

int box_runtime_init(struct box_runtime *runtime, const struct box_value *map, bool by_parent,
	box_runtime_init_done *done, void *arg, struct box_init **ret_init, struct box_err *err)
{
	_cleanup_(box_config_free_p) struct box_config *config = candidate(
		runtime, map, by_parent, err);
	if (!config) {
		return -EINVAL;
	}
	if (!config->default_workspace) {
		return init_apply(runtime, map, by_parent, err);
	}
	if (by_parent && runtime->host->mount_roots) {
		runtime->host->mount_roots(runtime->host_arg, config);
	}
	struct box_arena *arena = box_arena_new();
	struct box_init *init = box_arena_alloc(arena, sizeof(*init));
	*init = (struct box_init){runtime, arena, box_value_copy(arena, map), by_parent, done, arg};
	bool may_make = box_config_may_make_workspace(config, NULL) == 0;
	*ret_init = init;
	runtime->host->folder(runtime->host_arg, config->default_workspace,
		may_make ? BOX_RUNTIME_FOLDER_MAKE : BOX_RUNTIME_FOLDER_CHECK, init_folder_done,
		init);
	return 1;
}

void box_runtime_init_cancel(struct box_init *init)
{
	init->done = NULL;
}

/* --- the trusted instance, and generations --- */

static struct box_value pin_change(struct box_arena *arena, const char *instance)
{
	struct box_value change = box_map_value();
	box_map_add(arena, &change, "pin", box_cstr(instance));
	return change;
}

static struct box_value generation_change(
	struct box_arena *arena, const struct box_context *context)
{
	struct box_value change = box_map_value();
	struct box_value placement = box_list_value();
	box_list_add(arena, &placement, box_text(context->instance));
	box_list_add(arena, &placement, box_text(context->workspace));
	box_list_add(arena, &placement, box_int(context->generation));
	box_map_add(arena, &change, "fence", placement);
	return change;
}

void box_runtime_pin_instance(struct box_runtime *runtime, struct box_str instance)
{
	if (runtime->instance) {
		return;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	runtime->instance = box_strdup(box_arena_strndup(arena, instance.bytes, instance.len));
	BOX_LOG(BOX_LOG_INFO, "instance.claimed", box_log_str("instance", runtime->instance));
	struct box_value change = pin_change(arena, runtime->instance);
	runtime->host->record(runtime->host_arg, &change);
}

int box_runtime_enter_generation(struct box_runtime *runtime, const struct box_context *context,
	bool *ret_advanced, struct box_err *err)
{
	int r = box_generations_observe(runtime->generations, context,
		(size_t)runtime->config->limits.max_admission_records, ret_advanced, err);
	if (r < 0 || !*ret_advanced) {
		return r;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value change = generation_change(arena, context);
	runtime->host->record(runtime->host_arg, &change);
	return 0;
}

/* --- the record --- */

void box_runtime_dump(const struct box_runtime *runtime,
	void (*emit)(void *arg, const struct box_value *change), void *arg)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value change;
	if (runtime->instance) {
		change = pin_change(arena, runtime->instance);
		emit(arg, &change);
	}
	emit_layers(runtime, emit, arg);
	uint64_t position = 0;
	struct box_context context;
	while (box_generations_next(runtime->generations, &position, &context)) {
		change = generation_change(arena, &context);
		emit(arg, &change);
	}
	box_sessions_dump(runtime->sessions, emit, arg);
}

static void replay_generation(struct box_runtime *runtime, const struct box_value *placement)
{
	if (placement->type != BOX_LIST || placement->count != 3 ||
		placement->items[0].type != BOX_STR || placement->items[1].type != BOX_STR ||
		placement->items[2].type != BOX_INT || box_str_has_nul(placement->items[0].str)) {
		return;
	}
	struct box_context context = {
		placement->items[0].str, placement->items[1].str, placement->items[2].integer};
	bool advanced;
	/* A record stays even if the limit is lower now. */
	(void)box_generations_observe(runtime->generations, &context, SIZE_MAX, &advanced, NULL);
}

static void replay_layer(
	struct box_runtime *runtime, enum box_runtime_layer_kind layer, const struct box_value *map)
{
	struct box_err err;
	if (map && map->type == BOX_MAP && box_runtime_configure(runtime, layer, map, &err) < 0) {
		BOX_LOG(BOX_LOG_WARNING, "state.config_refused", box_log_str("why", err.text));
	}
}

void box_runtime_replay(struct box_runtime *runtime, const struct box_value *change)
{
	const struct box_value *pin = box_map_get(change, "pin");
	const struct box_value *generation = box_map_get(change, "fence");
	if (pin && pin->type == BOX_STR && !runtime->instance && !box_str_has_nul(pin->str)) {
		_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
		runtime->instance = box_strdup(
			box_arena_strndup(arena, pin->str.bytes, pin->str.len));
	}
	for (int i = 0; i < BOX_RUNTIME_LAYERS_; i++) {
		if (layer_changes[i]) {
			replay_layer(runtime, (enum box_runtime_layer_kind)i,
				box_map_get(change, layer_changes[i]));
		}
	}
	if (generation) {
		replay_generation(runtime, generation);
	}
	box_sessions_replay(runtime->sessions, change);
}

/* --- the skill store --- */

void box_skill_store_request(struct box_runtime *runtime, const struct box_context *context,
	struct box_skill_store_request *ask)
{
	/* A copy: the configuration may change while the request waits. */
	(void)snprintf(ask->root, sizeof(ask->root), "%s", runtime->config->skills_root);
	ask->refused = false;
	box_tenant_namespace(context, ask->namespace);
	box_list_init(&ask->links);
	runtime->host->ask_skills(runtime->host_arg, ask);
}

void box_skill_store_cancel(struct box_runtime *runtime, struct box_skill_store_request *ask)
{
	runtime->host->cancel_skills(runtime->host_arg, ask);
}
