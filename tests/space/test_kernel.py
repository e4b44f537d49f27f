"""The kernel's part of a configuration: bound to a host, written, exported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spaces import load_space
from tuner.errors import DefinitionError
from tuner.space.configuration import Configuration
from tuner.space.kernel import (
    ALGORITHMS,
    BUILT_IN,
    LAYER,
    OPEN_FILES,
    KernelState,
    checked,
    joined,
    open_files,
    server_part,
    setting_of,
    settings_of,
    sysctl_file,
)
from tuner.space.never_list import never_list
from tuner.space.space import Space

FOUND = {
    OPEN_FILES: "1024",
    "net.core.somaxconn": "128",
    "net.ipv4.tcp_max_syn_backlog": "512",
    "net.ipv4.ip_local_port_range": "32768 60999",
    "net.ipv4.tcp_tw_reuse": "2",
    "net.ipv4.tcp_notsent_lowat": "4294967295",
    "net.ipv4.tcp_slow_start_after_idle": "1",
    "net.ipv4.tcp_autocorking": "1",
    "net.ipv4.tcp_rmem": "4096 131072 6291456",
    "net.ipv4.tcp_wmem": "4096 16384 4194304",
    "net.core.rmem_max": "212992",
    "net.core.wmem_max": "212992",
    "net.ipv4.tcp_congestion_control": "htcp",
    "net.core.busy_poll": "0",
    ALGORITHMS: "reno cubic htcp",
}
MISSING = {"net.ipv4.tcp_migrate_req": "is not there: Linux 5.10"}
SEEN = KernelState(FOUND, MISSING)


def load(name: str) -> Space:
    """Return a space on small facts."""
    return load_space(name, server_cores=2, connections=100)


@pytest.fixture(scope="module")
def space() -> Space:
    """Nginx's static space with the kernel's behind it."""
    return joined(load("nginx/static"), load(BUILT_IN), SEEN)


def test_the_stock_kernel_is_as_it_was_found(space: Space) -> None:
    """Every setting: writing the baseline's values changes nothing."""
    for name in ("stock", "distro"):
        settings = settings_of(space.baseline(name), SEEN)
        assert settings == {n: t for n, t in FOUND.items() if n not in (OPEN_FILES, ALGORITHMS)}


def test_the_hand_tuned_kernel_has_the_files_values(space: Space) -> None:
    """Settings come from the file (the last of three fields), else from the host."""
    settings = settings_of(space.baseline("hand"), SEEN)
    assert settings["net.core.somaxconn"] == "65535"
    assert settings["net.ipv4.tcp_rmem"] == "4096 131072 16777216"
    assert settings["net.ipv4.ip_local_port_range"] == "10240 65535"
    assert settings["net.ipv4.tcp_slow_start_after_idle"] == "0"
    assert settings["net.ipv4.tcp_congestion_control"] == "htcp"


def test_only_algorithms_that_the_kernel_has_loaded(space: Space) -> None:
    """And the one in use, known or not."""
    assert space.parameter("net.ipv4.tcp_congestion_control").choices == ("cubic", "reno", "htcp")


def test_what_the_target_lacks_is_left_out_with_the_reason(space: Space) -> None:
    """So is what is set to something that the file does not know."""
    assert dict(space.left_out)["net.ipv4.tcp_migrate_req"] == "is not there: Linux 5.10"
    odd = KernelState({**FOUND, "net.ipv4.tcp_autocorking": "7"}, MISSING)
    left_out = dict(joined(load("nginx/static"), load(BUILT_IN), odd).left_out)
    assert "'7' here" in left_out["net.ipv4.tcp_autocorking"]


def test_neutral_settings_are_searched_and_trades_only_when_allowed(space: Space) -> None:
    """The floor of open files is never searched."""
    kernels = {p.name for p in space.searched() if "." in p.name}
    assert kernels == {
        "net.core.somaxconn",
        "net.ipv4.tcp_max_syn_backlog",
        "net.ipv4.tcp_notsent_lowat",
        "net.ipv4.tcp_autocorking",
    }
    allowed = {p.name for p in space.searched(["net.core.busy_poll"])}
    assert "net.core.busy_poll" in allowed


def test_a_configuration_is_taken_apart(space: Space) -> None:
    """The server's template sees its own parameters only; the digest is of both."""
    stock = space.baseline("stock")
    tuned = space.complete({"net.ipv4.tcp_autocorking": False}, stock)
    assert server_part(tuned) == server_part(stock) == load("nginx/static").baseline("stock")
    assert tuned.digest != stock.digest
    assert settings_of(tuned, SEEN)["net.ipv4.tcp_autocorking"] == "0"
    assert settings_of(tuned, None) == {}


def test_open_files_are_a_floor(space: Space) -> None:
    """The limit of open files covers what the connections need."""
    assert open_files(space.baseline("stock")) == 4 * 100 + 1024
    assert open_files(Configuration.of("x", {})) == 0


def test_the_export_holds_what_changed_and_where_it_comes_from(space: Space) -> None:
    """The export is a file for sysctl.d(5) with changed settings only; without any it is empty."""
    stock = space.baseline("stock")
    before = settings_of(stock, SEEN)
    tuned = space.complete({"net.core.somaxconn": 4096, "worker_processes": 2}, stock)
    text = sysctl_file(settings_of(tuned, SEEN), before, ["From a\nstudy."])
    lines = text.splitlines()
    assert lines[0] == "# From a study."
    assert [line for line in lines if not line.startswith("#")] == ["net.core.somaxconn = 4096"]
    assert "# was 128" in lines
    assert sysctl_file(before, before, []) == ""


def kernel_space(tmp_path: Path, parameter: str) -> Space:
    """Return a user's own kernel space with one parameter."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        "space: kernel/mine\nserver: kernel\nparameters:\n"
        f"  {parameter}: {{type: boolean, default: off}}\n"
    )
    return load(str(path))


@pytest.mark.parametrize("name", sorted(never_list(LAYER).listed))
def test_what_protects_the_host_is_never_searched(tmp_path: Path, name: str) -> None:
    """Refused with the reason, even when a user's own space names it; the list is a file's."""
    with pytest.raises(DefinitionError, match="is never searched") as caught:
        kernel_space(tmp_path, name)
    assert f"{never_list(LAYER).listed[name].why}; take it out" in str(caught.value)


def test_a_part_of_a_setting_is_no_way_around_the_list(tmp_path: Path) -> None:
    """Such as the last of its three fields."""
    with pytest.raises(DefinitionError, match="tcp_mem is never tuned"):
        checked(kernel_space(tmp_path, "net.ipv4.tcp_mem.max"))


@pytest.mark.parametrize("name", ["vm.swappiness", "kernel.sched_latency_ns", "net.ipv6.x", "fs.x"])
def test_nothing_else_of_the_kernel_is_tuned(tmp_path: Path, name: str) -> None:
    """Settings of net.core and net.ipv4 alone."""
    with pytest.raises(DefinitionError, match=r"not a setting of net\.core or net\.ipv4"):
        checked(kernel_space(tmp_path, name))


def test_a_servers_space_is_no_layer() -> None:
    """And the kernel's is not a server's."""
    with pytest.raises(DefinitionError, match="not of the kernel"):
        checked(load("nginx/static"))
    assert setting_of("net.ipv4.tcp_rmem.max") == "net.ipv4.tcp_rmem"


def test_the_space_fits_the_published_schema() -> None:
    """So an editor completes it, dots and all."""
    import jsonschema
    import yaml

    from tuner.paths import data_dir

    folder = data_dir("spaces")
    schema = json.loads((folder / "space.schema.json").read_text(encoding="utf-8"))
    written = (folder / f"{BUILT_IN}.yaml").read_text(encoding="utf-8")
    jsonschema.validate(yaml.load(written, Loader=yaml.BaseLoader), schema)  # noqa: S506 - text only
