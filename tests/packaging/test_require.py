"""Tests of `make` when the system lacks a program: it reports or installs it, or explains how."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
TOOLS = ("bash", "cut", "dirname", "env", "head", "sed", "sort")


@dataclass(frozen=True, slots=True)
class Machine:
    """A system with nothing on its PATH but a few tools and the programs that a test puts there."""

    folder: Path

    def program(self, name: str, script: str) -> None:
        """Put a program there; every call of it is also written down."""
        path = self.folder / "bin" / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >> "{self.folder}/log"\n{script}\n')
        path.chmod(0o755)

    def require(self, what: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `.ci/require` on this machine."""
        # The script looks in these places too; here they must not lead out of the machine.
        text = (TOP / ".ci/require").read_text(encoding="utf-8")
        script = self.folder / "top" / ".ci" / "require"
        script.write_text(
            text.replace(":/usr/sbin:/sbin:/usr/local/go/bin:", ":"), encoding="utf-8"
        )
        environment = {"PATH": str(self.folder / "bin"), "HOME": str(self.folder), **variables}
        return subprocess.run(
            [str(self.folder / "bin" / "bash"), str(script), what],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def log(self) -> list[str]:
        """Return the calls of the programs, in order."""
        path = self.folder / "log"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A Debian-like machine without Nginx, Rust and Python; the user is root."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "top" / ".ci").mkdir(parents=True)
    (tmp_path / "top" / "loadgen").mkdir()
    (tmp_path / "top" / "loadgen" / "Cargo.toml").write_text('rust-version = "1.88"\n')
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / "bin" / tool).symlink_to(found)
    machine = Machine(tmp_path)
    machine.program("id", "echo 0")
    machine.program(
        "apt-get", f'case "$*" in *nginx*) /bin/ln -s /bin/true {tmp_path}/bin/nginx;; esac'
    )
    return machine


def offers(packages: Mapping[str, str]) -> str:
    """Return a script that answers like apt-cache of a system with these packages."""
    cases = "".join(
        f"policy\\ {name}) echo '  Candidate: {version}';;\n" for name, version in packages.items()
    )
    return f'case "$*" in\n{cases}pkgnames*) echo "{" ".join(packages)}";;\nesac'


def test_a_program_that_is_there_is_left_alone(machine: Machine) -> None:
    """The second run does nothing."""
    machine.program("nginx", "")
    done = machine.require("nginx")
    assert (done.returncode, done.stderr, machine.log()) == (0, "", [])


def test_root_installs_what_is_missing_and_says_so(machine: Machine) -> None:
    """Said before it is done, and nothing of the user's is removed for it."""
    done = machine.require("nginx")
    assert done.returncode == 0, done.stderr
    assert "Nginx is missing" in done.stderr
    (install,) = [call for call in machine.log() if "install" in call]
    assert install.endswith("--no-install-recommends nginx")
    assert "--no-remove" in install


def test_sudo_is_used_where_there_is_no_root(machine: Machine) -> None:
    """The user's own sudo asks for the password, if it wants one."""
    machine.program("id", "echo 1000")
    machine.program("sudo", '"$@"')
    assert machine.require("nginx").returncode == 0
    assert [call.split()[:2] for call in machine.log() if call.startswith("sudo")] == [
        ["sudo", "apt-get"],
        ["sudo", "env"],
    ]


def test_without_root_and_sudo_the_whole_line_to_run_is_printed(machine: Machine) -> None:
    """Nothing is tried that cannot work."""
    machine.program("id", "echo 1000")
    done = machine.require("nginx")
    assert done.returncode == 1
    assert "apt-get install -y --no-remove --no-install-recommends nginx" in done.stderr
    assert not [call for call in machine.log() if call.startswith("apt-get")]


def test_without_a_known_package_manager_the_program_is_named(machine: Machine) -> None:
    """An unusual system is not guessed at."""
    (machine.folder / "bin" / "apt-get").unlink()
    done = machine.require("nginx")
    assert done.returncode == 1
    assert "Nginx is missing" in done.stderr
    assert "no package manager" in done.stderr


@pytest.mark.parametrize(
    ("packages", "chosen"),
    [
        ({"cargo": "1.96.0+dfsg1-1"}, "cargo"),
        # Debian 13: the plain one is too old.
        ({"cargo": "1.85.1+dfsg1-1+deb13u1", "cargo-web": "1.96.0+dfsg1-1"}, "cargo-web"),
        # Debian 12: the plain one is numbered otherwise.
        ({"cargo": "0.66.0+ds1-1", "cargo-web": "1.96.0+dfsg1-1~deb12u2"}, "cargo-web"),
        # Ubuntu: one package per release.
        (
            {"cargo": "1.75.0", "cargo-1.85": "1.85.1", "cargo-1.89": "1.89.0"},
            "cargo-1.89",
        ),
    ],
)
def test_the_package_of_rust_is_the_first_that_is_recent_enough(
    machine: Machine, packages: dict[str, str], chosen: str
) -> None:
    """The first package of Rust that is recent enough for the crate is installed."""
    machine.program("apt-cache", offers(packages))
    bin_ = machine.folder / "bin"
    machine.program("apt-get", f'case "$*" in *{chosen}) /bin/cp {bin_}/new {bin_}/cargo;; esac')
    machine.program("new", 'echo "cargo 1.96.0 (abc 2026-01-01)"')
    machine.program("cc", "")
    done = machine.require("cargo")
    assert done.returncode == 0, done.stderr
    (install,) = [call for call in machine.log() if "install" in call]
    assert install.endswith(f" {chosen}")


def test_an_old_rust_that_the_system_cannot_replace_names_rustup(machine: Machine) -> None:
    """The version that is there, the one that is needed, and the line that gets it."""
    machine.program("apt-cache", offers({"cargo": "1.70.0"}))
    machine.program("cargo", 'echo "cargo 1.70.0 (abc 2023-01-01)"')
    done = machine.require("cargo")
    assert done.returncode == 1
    assert "needs Rust 1.88 or newer; found: 1.70.0" in done.stderr
    assert "https://sh.rustup.rs" in done.stderr


def test_the_first_python_that_really_runs_is_taken(machine: Machine) -> None:
    """An old one and a version manager's empty shim are passed over."""
    machine.program("python3", "exit 1")  # too old
    machine.program("python3.13", "exit 127")  # a shim for nothing
    machine.program("python3.12", "exit 0")
    done = machine.require("python")
    assert (done.returncode, done.stdout) == (0, "python3.12\n")


def test_the_python_that_the_user_names_comes_first(machine: Machine) -> None:
    """`make PYTHON=…` is the way out where the guess is wrong."""
    machine.program("python3", "exit 0")
    machine.program("mine", "exit 0")
    assert machine.require("python", PYTHON="mine").stdout == "mine\n"


def test_no_suitable_python_says_which_is_needed(machine: Machine) -> None:
    """The version that was found is named."""
    machine.program("python3", '[ "$1" = --version ] && echo Python 3.9.2 || exit 1')
    done = machine.require("python")
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed; found: Python 3.9.2" in done.stderr


def test_hosts_of_the_tests_bring_debootstrap_and_ssh(machine: Machine) -> None:
    """Without them every test on a remote host would be skipped."""
    done = machine.require("hosts")
    assert done.returncode == 0, done.stderr
    brought = {word for call in machine.log() if "install" in call for word in call.split()}
    assert {"debootstrap", "openssh-client", "iproute2", "util-linux", "patch"} <= brought


def test_applications_come_from_debians_packages(machine: Machine) -> None:
    """PHP-FPM may be there under the name of its version, and uwsgi needs a plugin."""
    machine.program("php-fpm8.2", "")
    machine.program("uwsgi", "exit 1")
    assert machine.require("applications").returncode == 0
    (install,) = [call for call in machine.log() if "install" in call]
    assert install.endswith(" uwsgi-core uwsgi-plugin-python3")
    machine.program("uwsgi", "")
    (machine.folder / "bin" / "php-fpm8.2").unlink()
    assert machine.require("applications").returncode == 0
    (*_, install) = [call for call in machine.log() if "install" in call]
    assert install.endswith(" php-fpm")


def test_without_root_and_sudo_the_tests_on_hosts_are_left_out_aloud(machine: Machine) -> None:
    """Without root and sudo, `make` reports that tests on hosts are left out, and succeeds."""
    machine.program("id", "echo 1000")
    done = machine.require("hosts")
    assert done.returncode == 0
    assert "left out: tests on remote hosts" in done.stderr
    assert not [call for call in machine.log() if call.startswith("apt-get")]


@pytest.mark.parametrize(
    ("what", "package"), [("h2load", "nghttp2-client"), ("compose", "docker-compose")]
)
def test_a_second_opinion_comes_from_debians_package(
    machine: Machine, what: str, package: str
) -> None:
    """A skip means that the program cannot be had, not that nobody asked for it."""
    assert machine.require(what).returncode == 0
    (install,) = [call for call in machine.log() if "install" in call]
    assert install.endswith(f" {package}")


def with_rust(machine: Machine) -> Path:
    """Put Rust for x86_64 there; return the folder of the library for aarch64."""
    libraries = machine.folder / "lib" / "rustlib"
    (libraries / "x86_64-unknown-linux-gnu" / "lib").mkdir(parents=True)
    for name, answer in {
        "cargo": "cargo 1.96.0 (abc 2026-01-01)",
        "rustc": str(machine.folder),
        "uname": "x86_64",
    }.items():
        machine.program(name, f'echo "{answer}"')
    for name in ("cc", "objcopy"):
        machine.program(name, "")
    return libraries / "aarch64-unknown-linux-gnu" / "lib"


def test_rustup_adds_the_other_machine_of_a_release(machine: Machine) -> None:
    """Rust's library for it, and an objcopy that takes the symbols out of its generator."""
    library = with_rust(machine)
    machine.program("rustup", f"/bin/mkdir -p {library}")
    assert machine.require("cross").returncode == 0
    assert "rustup target add aarch64-unknown-linux-gnu" in machine.log()
    (install,) = [call for call in machine.log() if "install" in call]
    assert install.endswith(" binutils-aarch64-linux-gnu")


def test_debians_rust_gets_the_library_of_the_other_machine_from_debian(machine: Machine) -> None:
    """The package belongs to the one that cargo came from, as that of clippy does."""
    library = with_rust(machine)
    machine.program("dpkg-query", 'echo "cargo-web: /usr/bin/cargo"')
    machine.program("dpkg", "")
    machine.program(
        "apt-get", f'case "$*" in *libstd-rust-web-dev:arm64) /bin/mkdir -p {library};; esac'
    )
    assert machine.require("cross").returncode == 0
    assert "dpkg --add-architecture arm64" in machine.log()


def test_qemu_is_installed_for_the_machines_that_this_one_is_not(machine: Machine) -> None:
    """A release has wheels for two machines, and one of them runs here by itself."""
    machine.program("uname", "echo x86_64")
    assert machine.require("qemu").returncode == 0
    (install,) = [call for call in machine.log() if "install" in call]
    assert install.endswith(" qemu-user-static")
    machine.program("qemu-aarch64-static", "")
    assert "for aarch64" not in machine.require("qemu").stderr


@pytest.mark.parametrize(
    ("version", "installed"), [("2:1.24~2", True), ("2:1.19~1", False), ("(none)", False)]
)
def test_go_is_installed_if_it_can_fetch_a_newer_one(
    machine: Machine, version: str, installed: bool
) -> None:
    """Go before 1.21 runs neither benchstat nor actionlint, so that `make` reports the reason."""
    machine.program("apt-cache", offers({"golang-go": version}))
    done = machine.require("go")
    assert [call.endswith(" golang-go") for call in machine.log() if "install" in call] == (
        [True] if installed else []
    )
    assert (done.returncode == 0) == installed
    assert ("left out" in done.stderr) != installed


@pytest.mark.parametrize(
    ("owner", "packages"),
    [
        ("cargo", "rustfmt rust-clippy"),
        ("cargo-web", "rustfmt-web rust-web-clippy"),
        ("cargo-1.89", "rustfmt-1.89 rust-1.89-clippy"),
    ],
)
def test_lints_come_from_the_package_that_cargo_came_from(
    machine: Machine, owner: str, packages: str
) -> None:
    """The plain clippy is of another Rust than Debian's cargo-web."""
    lints = machine.folder / "lints"
    machine.program(
        "cargo",
        f'case "$1" in --version) echo "cargo 1.96.0 (abc 2026-01-01)";; *) [ -e {lints} ];; esac',
    )
    machine.program("cc", "")
    machine.program("dpkg-query", f'echo "{owner}: /usr/bin/cargo"')
    machine.program("apt-get", f'case "$*" in *install*) : > {lints};; esac')
    done = machine.require("rust-lints")
    assert done.returncode == 0, done.stderr
    (install,) = [call for call in machine.log() if "install" in call]
    assert install.endswith(f" {packages}")


def test_rustup_adds_its_own_lints(machine: Machine) -> None:
    """Named first, as every installation is."""
    lints = machine.folder / "lints"
    machine.program(
        "cargo",
        f'case "$1" in --version) echo "cargo 1.96.0 (abc 2026-01-01)";; *) [ -e {lints} ];; esac',
    )
    machine.program("cc", "")
    machine.program("rustup", f": > {lints}")
    done = machine.require("rust-lints")
    assert done.returncode == 0, done.stderr
    assert "rustfmt and clippy are missing" in done.stderr
    assert "rustup component add rustfmt clippy" in machine.log()


def test_a_debian_without_python_gets_one(machine: Machine) -> None:
    """A minimal root has none."""
    made = machine.folder / "bin" / "python3"
    machine.program("apt-get", f'case "$*" in *install*) /bin/ln -sf /bin/true {made};; esac')
    done = machine.require("python")
    assert (done.returncode, done.stdout) == (0, "python3\n"), done.stderr
    (install,) = [call for call in machine.log() if "install" in call]
    assert install.endswith(" python3 python3-venv")


def test_make_test_requires_everything_that_a_test_could_skip_for() -> None:
    """Each of these is something that .ci/require knows."""
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    (system,) = re.findall(r"^SYSTEM := (.*)$", makefile, re.MULTILINE)
    known = re.findall(
        r"^    ([a-z0-9-]+)\) require_", (TOP / ".ci/require").read_text(), re.MULTILINE
    )
    assert {"hosts", "h2load", "nghttpx", "haproxy", "apache", "chromium", "postgresql"} <= set(
        system.split()
    )
    assert set(system.split()) <= set(known)


@pytest.mark.parametrize(("arguments", "account"), [((), "root"), (("AS=user",), "user")])
def test_make_fresh_runs_as_root_by_default(arguments: tuple[str, ...], account: str) -> None:
    """Make has a variable AS of its own, which names the assembler."""
    make = ["make", "--dry-run", "--no-print-directory", "-C", str(TOP), "fresh", *arguments]
    environment = {
        key: value for key, value in os.environ.items() if key not in {"AS", "MAKEFLAGS"}
    }
    done = subprocess.run(make, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[-1] == f".ci/fresh {account}"
