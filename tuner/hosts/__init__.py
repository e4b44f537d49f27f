"""Hosts: deployment through Ansible, and the kernel's counters, here and over SSH.

Takes instances to start and the inventory.
Gives ports, processes and facts; it leaves no instance behind.
"""
