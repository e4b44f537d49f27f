"""Load generators behind one protocol: tuner-loadgen, and wrk2 and h2load where installed.

Takes a plan of windows.
Gives one `Measurement` for each window.
"""
