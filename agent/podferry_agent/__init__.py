"""The agent: our program on each rented machine. It imports nothing of the control plane."""

AGENT_VERSION = "0.1.0"
