"""Workloads: requests, connections, arrivals and the protocol on the wire.

Takes a YAML file or the tally of an access log.
Gives a frozen `Workload`, its site and its arrival schedule.
"""
