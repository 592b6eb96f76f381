# group: mounts
# opens: masked-interrupts masked-keys masked-key-users pressure-trigger
# file: plan/plan.c
s/\(void\)box_plan_add_step\(maker, BOX_PLAN_STEP_MASK, masks\[i\]\.path\)/(void)maker/
