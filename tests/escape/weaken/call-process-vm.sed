# group: calls
# opens: process-vm-writev-to-own-child
# file: plan/filter_table.c
s/(DENY|LACK)\(process_vm_readv\)/BOTH(process_vm_readv)/
s/(DENY|LACK)\(process_vm_writev\)/BOTH(process_vm_writev)/
