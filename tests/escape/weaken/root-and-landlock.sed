# Three defences: the owner, the read-only mount, Landlock.
# group: mounts
# opens: write-to-the-root
# file: plan/plan.c
s/maker, "\/", ROOT_BYTES, BOX_PLAN_OWNER_INIT, 0755/maker, "\/", ROOT_BYTES, BOX_PLAN_OWNER_INIT, 01777/
s/\(void\)box_plan_add_step\(maker, BOX_PLAN_STEP_FREEZE, "\/"\)/(void)maker/
s/plan->landlock_abi = host->landlock_abi > 0 \? host->landlock_abi : 0/plan->landlock_abi = 0/
