"""Applications: the work of the commands, assembled from phases and adapters.

Takes a definition.
Gives a finished study and its files. The only room that builds real adapters.
"""
