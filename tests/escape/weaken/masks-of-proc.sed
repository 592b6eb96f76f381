# group: mounts
# opens: masked-interrupts masked-keys masked-key-users pressure-trigger
# file: runtime/plan/plan.c
s/\(void\)add\(maker, BOX_STEP_MASK, masks\[i\]\.path\)/(void)maker/
