# A client can use every instance, including the operator's, and end its boxes.
# group: host
# opens: operators-sessions-by-a-token operators-sessions-end-with-a-clients
# file: handlers/dispatch.c
s/\(peer->is_operator \&\&$/(instance.len > 0 \&\&/
s/^\t\t\t\(box_tenant_instance_id_valid\(instance\) \|\|$/\t\t\t(instance.len > 0 ||/
# file: runtime/session/session_expiry.c
s/if \(box_str_same\(session->owner.instance, instance\)\)/if (instance.len > 0)/
