"""The host of a tuned service, with the environment of its program."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from tuner.errors import HostError
from tuner.hosts.agent import Agent


class ServiceHome:
    """``tuner.own.home.Home`` on another host, with the environment that the service has.

    Args:
        agent: channel to the host.
        program: path of the program that the service runs.

    Raises:
        HostError: not exactly one process runs it.
    """

    remedy = "in the environment of the service"
    is_copy = False

    def __init__(self, agent: Agent, program: str) -> None:
        self._agent = agent
        self._program = program
        answer = agent.ask("service", program=program)
        if "refused" in answer:
            raise HostError(answer["refused"])
        self._variables: Mapping[str, str] = answer["environment"]

    @property
    def variables(self) -> Mapping[str, str]:
        """Implement ``Home``; the values stay in memory only."""
        return self._variables

    def located(self, path: str) -> str:
        """Implement ``Home``: the service reads its own files."""
        return path

    def read(self, path: str) -> bytes:
        """Implement ``Files``."""
        return self._agent.read(path)

    def matches(self, pattern: str) -> list[str]:
        """Implement ``Files``."""
        return self._agent.matches(pattern)

    def run(self, *arguments: str, cwd: str) -> tuple[int, str, str]:
        """Implement ``Home``."""
        command = (self._program, *arguments)
        return self._agent.run_command(command, environment=self._variables, cwd=cwd)

    @contextlib.contextmanager
    def folder(self) -> Iterator[str]:
        """Implement ``Home``."""
        with self._agent.folder() as path:
            yield path

    def write(self, path: str, content: bytes) -> None:
        """Implement ``Home``."""
        self._agent.put(path, content)
