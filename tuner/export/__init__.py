"""Exports: the recommended configuration in the forms that people deploy.

Pure functions of the study's result: texts by file name, each with its provenance.
"""

from tuner.export.configuration import PATCH_NAME, export_files

__all__ = ["PATCH_NAME", "export_files"]
