"""Fakes and simulations, shipped for users who test their studies.

Takes a seed and a model of the host.
Gives the same ports as a real lab.
"""
