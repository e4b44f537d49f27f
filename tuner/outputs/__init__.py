"""Documents for other tools: pure functions of the record, like the reports.

`tuner.outputs.documents` lists the formats. Records come from anywhere, so each format escapes
names and texts by its own rules.
"""
