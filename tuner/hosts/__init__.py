"""Hosts behind one port: the one adapter is Ansible, for the local lab as for a fleet."""
