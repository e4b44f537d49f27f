"""Fakes and simulations, shipped because users test their studies too.

Takes a seed and a model of the host.
Gives the same ports as a real lab.
"""
