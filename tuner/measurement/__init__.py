"""One measured window: latencies, stalls, resources, and the gates that make it valid.

Takes what a generator and the counters of the hosts reported.
Gives a frozen `Measurement`.
"""
