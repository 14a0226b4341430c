"""Real Linux boxes without a container engine: the machines of the simulated providers.

Standard library only, so that any Python 3.11 on the host can keep a box alive.
"""
