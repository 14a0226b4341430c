"""What machines' agents send and get.

Unlike users' bodies, an agent's may hold fields that we do not know: after an upgrade of the agent
a newer one may talk to an older control plane. Diagnostics are cut to what a row can hold instead
of being refused, because a refused heartbeat or hand-in would strand a machine with data on it.
"""
