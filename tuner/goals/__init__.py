"""Goals of a study: metrics, objectives, constraints and capacity under a latency limit.

Takes their text and the measurements of an arm.
Gives the figures that a study compares.
"""
