"""Reports: pure functions of a study's or a contest's results.

``judge`` computes every figure once; here ``view`` puts them in order, ``study_tables`` and
``contest_tables`` have the columns, and ``html``, ``markdown``, ``text`` and ``data`` write them.
The same record gives the same bytes: no clock, no network, no other input.
"""
