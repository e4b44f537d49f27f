"""The statistics behind every claim: NumPy and SciPy only, no I/O, no knowledge of servers.

One module per idea, and nothing is re-exported, so that importing the package costs nothing:

- ``paired``: the exact signed-rank test, estimate and interval on differences between arms
- ``power``: noise from identical instances, number of blocks, minimum detectable effect
- ``sequential``: the always-valid test and interval, for looks after every block
- ``verdict``: from an estimate and a margin to better, worse, equivalent or inconclusive
- ``finalists``: several candidates in the same blocks
- ``diagnostics``: what might be wrong with a study, as values shown with its verdict
- ``noise``: of a single figure, from what was measured several times
- ``polish``: levels of the arms of a block, what whole rounds shared taken out
- ``surrogate``: what figures of some configurations say of others that are like them
- ``race``: what may be decided during the search, before anything is claimed

``docs/statistics.md`` describes the protocol as a whole.
"""
