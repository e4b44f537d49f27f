"""The statistics behind every claim: NumPy and SciPy only, no I/O, no knowledge of servers.

One module per idea, and nothing is re-exported, so that importing the package costs nothing:

- ``paired``: the exact signed-rank test, estimate and interval on differences between arms
- ``power``: noise from identical instances, number of blocks, minimum detectable effect
- ``sequential``: looks after every block, and the exact test after the last
- ``margin``: the smallest difference worth having, as a band of ratios
- ``verdict``: from an estimate and a margin to better, worse, equivalent or inconclusive
- ``finalists``: several candidates in the same blocks
- ``diagnostics``: possible problems of a study, as values shown with its verdict
- ``noise``: the noise of a single figure, from repeated measurements
- ``polish``: levels of the arms of a block, without what whole rounds have in common
- ``surrogate``: predictions for configurations from the figures of similar ones
- ``race``: decisions during the search, before any claim

``docs/statistics.md`` describes the protocol as a whole.
"""
