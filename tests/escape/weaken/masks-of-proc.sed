# group: mounts
# opens: masked-interrupts masked-keys masked-key-users pressure-trigger
# file: runtime/plan/plan.c
s/\(void\)box_maker_add\(maker, BOX_STEP_MASK, masks\[i\]\.path\)/(void)maker/
