# group: calls
# opens: prctl-answer-calls-by-oneself prctl-timestamp-counter prctl-merge-pages-with-those-of-others
# file: plan/filter_options.c
s/(struct box_filter_rule box_filter_prctl = ).*/\1{.otherwise = 0};/
