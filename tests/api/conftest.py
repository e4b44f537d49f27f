"""The command line's fixtures, since the functions do what the commands do."""

from tests.cli.conftest import done, finished, host, tuner

__all__ = ["done", "finished", "host", "tuner"]
