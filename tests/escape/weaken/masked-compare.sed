# The filter compares 64 bits where the kernel looks at 32.
# group: limits
# opens: tiocsti-with-high-bits tiocsti-with-all-high-bits
# file: runtime/plan/filter.c
s/SCMP_CMP_MASKED_EQ, match->mask,/SCMP_CMP_MASKED_EQ, match->mask | 0xffffffff00000000ULL,/
