"""Each kind of configuration answers in the lab, or is refused at once and a way out works."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.hosts.nginxes import needs_nginx
from tests.own.kinds import KINDS, REFUSED, Kind
from tests.own.real import statuses
from tuner.errors import DefinitionError
from tuner.own.nginx.server import OwnNginx, adapt, read
from tuner.own.server import OwnOptions
from tuner.servers import nginx
from tuner.space.space import SpaceFacts, bind_space
from tuner.workload.below import moved_below
from tuner.workload.workload import Workload, load_workload

pytestmark = needs_nginx


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the lab's account may enter."""
    with tempfile.TemporaryDirectory(prefix="tuner-kinds-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def options(kind: Kind, folder: Path) -> tuple[OwnOptions, Workload]:
    """Return the options for a configuration that is written to a folder, and its workload."""
    (folder / "nginx.conf").write_text(kind.text)
    wishes = OwnOptions(str(folder / "nginx.conf"), kind.server_name)
    return wishes, load_workload(kind.workload)


def adapted(wishes: OwnOptions, workload: Workload) -> tuple[OwnNginx, tuple[str, ...]]:
    """Return the configuration in the lab, with its notes."""
    own, server = read(wishes, workload), nginx.detect()
    proxied = workload.backend is not None
    facts = SpaceFacts(
        1,
        32,
        8 << 30,
        server.version_tuple,
        server.modules,
        tls=own.workload.wire.tls is not None,
        proxied=proxied,
        upstream=own.workload.backend.protocols if own.workload.backend else ("http",),
    )
    return adapt(own, bind_space(f"nginx/{'proxy' if proxied else 'static'}", facts), server)


@pytest.mark.parametrize("name", KINDS)
def test_a_configuration_is_bound_and_answers(name: str, folder: Path, back: int) -> None:
    """Its baseline can be recorded, its notes are true, and the lab answers every request."""
    kind = KINDS[name]
    made, notes = adapted(*options(kind, folder))
    assert msgspec.json.encode(msgspec.to_builtins(made.bound.baseline))
    for part in kind.said:
        assert any(part in note for note in notes), notes
    for part in kind.not_said:
        assert not any(part in note for note in notes), notes
    for parameter, value in (kind.fixed or {}).items():
        assert made.bound.baseline.values[parameter] == value
    assert set(statuses(made, made.own.workload, folder, back)) == {200}


def test_an_answer_with_another_status_is_refused(folder: Path) -> None:
    """With the status, Nginx's own reason, and the line of the server."""
    kind = Kind(
        """
        server { listen 80; secure_link $arg_key; secure_link_md5 "x$uri"; root /srv;
            location / { try_files /gone =503; } }""",
        workload="static",
    )
    with pytest.raises(DefinitionError, match=r"/index.html is answered with 503 .*expects 200"):
        adapted(*options(kind, folder))


def test_a_file_of_the_users_own_that_is_missing_is_named(folder: Path) -> None:
    """A workload that expects any status is not refused."""
    own = folder / "own.yaml"
    own.write_text("workload: mine\nsite: own\nrequests: [{path: /gone}]\n")
    kind = Kind("server { listen 80; root /usr/share; }", workload=str(own))
    with pytest.raises(DefinitionError, match=r"404 \(open\(\) .*/usr/share/gone.* failed"):
        adapted(*options(kind, folder))
    own.write_text("workload: mine\nsite: own\nrequests: [{path: /gone, expect: {status: 404}}]\n")
    adapted(*options(kind, folder))


@pytest.mark.parametrize("name", REFUSED)
def test_a_configuration_is_refused_before_anything_starts(
    name: str, folder: Path, back: int
) -> None:
    """The refusal names the line and the reason, and its way out answers."""
    kind = REFUSED[name]
    wishes, workload = options(kind, folder)
    with pytest.raises(DefinitionError) as error:
        read(wishes, workload)
    for part in kind.said:
        assert part in str(error.value)
    if not kind.way_out:
        return
    assert kind.way_out in error.value.message
    words = kind.way_out.split()
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option == "--workload":
            workload = load_workload(value)
        elif option == "--server-name":
            wishes = replace(wishes, server_name=value)
    if "--location" in words:
        workload = moved_below(words[words.index("--location") + 1], workload)
    made, _ = adapted(wishes, workload)
    assert set(statuses(made, made.own.workload, folder, back)) == {200}
