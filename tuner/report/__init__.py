"""Reports: pure functions of a study's record.

``result`` computes every figure once; ``html``, ``markdown`` and ``text`` only write them down.
The same record gives the same bytes: no clock, no network, no other input.
"""
