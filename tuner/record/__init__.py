"""The record of a study as plain data, and as one compressed file.

Takes what the store reads, or a JSON file.
Gives a frozen `Record`, from which every report is computed.
"""
