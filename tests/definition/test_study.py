"""Study definitions: a file, options that override it, and an answer to every mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tuner.definition.study import DEFAULT_STUDY, StudyDefinition, list_studies, load_study
from tuner.errors import DefinitionError
from tuner.goals.goals import goals_of

FULL = """\
name: mine
summary: Everything at once
server: nginx
space: nginx/static
workload: static
objective: p99.9
baseline: distro
trials: 40
time: 90s
rate: 2500
connections: 64
allow: [open_file_cache, access_log_buffer]
seed: 7
storage: sqlite:///x.db
effect: 0.03
margin: 1.5%
load: wrk2
sequential: yes
finalists: 3
"""


def load(tmp_path: Path, text: str, **overrides: object) -> StudyDefinition:
    """Read a study from text."""
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return load_study(path, overrides)


def test_a_file_holds_every_option(tmp_path: Path) -> None:
    """Under the names of the command line's options."""
    assert load(tmp_path, FULL) == StudyDefinition(
        name="mine",
        server="nginx",
        space="nginx/static",
        workload="static",
        objective=("p99.9",),
        baseline="distro",
        trials=40,
        time_s=90,
        rate_per_s=2500,
        connections=64,
        allow=("open_file_cache", "access_log_buffer"),
        seed=7,
        storage="sqlite:///x.db",
        effect=0.03,
        margin=0.015,
        load="wrk2",
        sequential=True,
        finalists=3,
    )


@pytest.mark.parametrize(
    ("given", "margin", "effect"),
    [
        ({}, 0.03, 0.05),
        ({"margin": "0.06"}, 0.06, 0.10),
        ({"margin": "1 %"}, 0.01, 0.05),
        ({"margin": "6%", "effect": 0.07}, 0.06, 0.10),
        ({"effect": 0.2}, 0.03, 0.20),
    ],
)
def test_the_margin_and_the_effect_beyond_it(
    given: dict[str, object], margin: float, effect: float
) -> None:
    """The margin is a share or percent; a study plans for an effect well beyond it."""
    study = load_study(overrides=given)
    assert (study.margin, study.goals.margin.share) == (margin, margin)
    assert study.effect == pytest.approx(effect)
    assert goals_of(study.as_dict()).margin == study.goals.margin


@pytest.mark.parametrize("margin", ["3", "0", "31%", "-1%", "3% of it", "three"])
def test_an_impossible_margin_is_refused(margin: str) -> None:
    """With the option, the value, and what is allowed."""
    with pytest.raises(DefinitionError, match=r"--margin.*(0.1% to 30%|expected a)"):
        load_study(overrides={"margin": margin})


def test_the_quickstart_is_p99_of_a_proxy_in_six_minutes() -> None:
    """The default study is sequential."""
    study = load_study(DEFAULT_STUDY)
    assert (study.name, study.space, study.objective) == ("quickstart", "nginx/proxy", ("p99",))
    assert (study.baseline, study.time_s, study.sequential) == ("stock", 360, True)


def test_auto_is_sequential_where_a_study_can_be() -> None:
    """One objective without constraints can be watched after every block."""
    assert load_study(overrides={"sequential": "auto"}).sequential
    limits = {"constraint": ("memory <= 1.2x baseline",)}
    assert not load_study(DEFAULT_STUDY, limits).sequential
    assert not load_study(DEFAULT_STUDY, {"objective": ("p99", "memory")}).sequential


def test_the_base_is_p99_of_static_files_in_ten_minutes() -> None:
    """A change of the default study does not change old records, which omit some keys."""
    study = load_study()
    assert (study.name, study.space, study.objective) == ("static", "nginx/static", ("p99",))
    assert (study.baseline, study.time_s, study.trials) == ("stock", 600, None)
    assert not study.sequential


def test_options_override_the_file(tmp_path: Path) -> None:
    """Those that are not given leave it as it is."""
    study = load(tmp_path, FULL, time="5m", trials=None, allow=(), objective="p50")
    assert (study.time_s, study.trials, study.objective) == (300, 40, ("p50",))
    assert study.allow == ("open_file_cache", "access_log_buffer")


def test_the_space_follows_from_the_workload() -> None:
    """``--workload proxy`` is enough: a backend needs a proxy in front of it."""
    assert load_study("static", {"workload": "proxy"}).space == "nginx/proxy"
    assert load_study("proxy", {"workload": "static"}).space == "nginx/static"


def test_several_baselines_the_first_is_the_studys(tmp_path: Path) -> None:
    """As a list in the file, or by giving the option several times; files count from the file."""
    text = "workload: static\nbaseline: [distro, mine.yaml, published]\npublished: blog.yaml\n"
    study = load(tmp_path, text)
    assert study.baseline == "distro"
    assert study.others == (str(tmp_path / "mine.yaml"), "published")
    assert study.published == str(tmp_path / "blog.yaml")
    assert load(tmp_path, yaml.safe_dump(study.as_dict())) == study
    given = load(tmp_path, text, baseline=["stock", "hand"])
    assert (given.baseline, given.others) == ("stock", ("hand",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("baseline: [stock, stock]\n", "'stock' is given twice"),
        ("baseline: published\n", "names no published configuration"),
        ("baseline: []\n", "write 1 to 4 baselines"),
        ("published: somewhere\n", "is not a file"),
    ],
)
def test_baselines_that_cannot_be(tmp_path: Path, text: str, words: str) -> None:
    """Said at the file's line."""
    with pytest.raises(DefinitionError, match=words) as caught:
        load(tmp_path, text)
    assert caught.value.line == 1


def test_a_definition_survives_being_written_and_read(tmp_path: Path) -> None:
    """The definition in a record is a study file."""
    study = load(tmp_path, FULL)
    assert load(tmp_path, yaml.safe_dump(study.as_dict())) == study
    short = load_study()
    assert load(tmp_path, yaml.safe_dump(short.as_dict())) == short


GOALS = """\
objective: [capacity, memory]
slo: p99<5ms
constraint:
  - cpu <= 1.1x baseline
  - memory <= 64M
choose: memory <= 1.2x baseline
"""


def test_what_is_wanted_is_kept_in_one_spelling(tmp_path: Path) -> None:
    """And reads as the same goals again, from the record for instance."""
    study = load(tmp_path, GOALS)
    assert study.objective == ("capacity", "memory")
    assert (study.slo, study.choose) == ("p99 <= 5ms", "memory <= 1.2x baseline")
    assert study.constraint == ("cpu <= 1.1x baseline", "memory <= 64M")
    assert goals_of(study.as_dict()) == study.goals
    assert load(tmp_path, yaml.safe_dump(study.as_dict())) == study
    single = load(tmp_path, "seed: 1", objective=["p75"], constraint=["errors < 1%"])
    assert (single.objective, single.constraint) == (("p75",), ("errors <= 1%",))


def test_paths_in_a_file_count_from_its_folder(tmp_path: Path) -> None:
    """So a study moves with its files; an option's path counts from where it is given."""
    text = "workload: static\nbaseline: mine.yaml\n"
    assert load(tmp_path, text).baseline == str(tmp_path / "mine.yaml")
    assert load(tmp_path, text, baseline="other.yaml").baseline == "other.yaml"


def test_a_copied_folder_counts_from_the_file_that_names_it(tmp_path: Path) -> None:
    """Its path on the server stays; an option's folder counts from where it is given."""
    text = "config: nginx.conf\nprefix: /etc/nginx=copy\nlocation: /app/\nenv_file: caddy.env\n"
    study = load(tmp_path, text)
    assert study.prefix == (f"/etc/nginx={tmp_path}/copy",)
    assert (study.location, study.env_file) == ("/app/", str(tmp_path / "caddy.env"))
    assert load(tmp_path, yaml.safe_dump(study.as_dict())) == study
    assert load(tmp_path, text, prefix=["/a=b", "/c=d"]).prefix == ("/a=b", "/c=d")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prefix: /etc/nginx=copy\n", "belongs to a configuration of your own"),
        ("location: /app/\n", "belongs to a configuration of your own"),
        ("config: a\nprefix: copy\n", "'copy' does not name a copied folder; write /etc/nginx="),
        ("config: a\nprefix: etc=copy\n", "does not name a copied folder"),
        ("config: a\nlocation: app\n", "'app' is not a path; it begins with a slash"),
    ],
)
def test_a_copy_or_a_location_that_cannot_be(tmp_path: Path, text: str, words: str) -> None:
    """The refusal shows how it is written."""
    with pytest.raises(DefinitionError, match=words):
        load(tmp_path, text)


def test_a_file_names_its_study() -> None:
    """Unless the file or an option does."""
    assert load_study("proxy").name == "proxy"
    assert load_study("proxy", {"name": "again"}).name == "again"


@pytest.mark.parametrize("allow", ["[a, b]", "a,b", "'a, b'"])
def test_allowed_names_are_a_list_or_stand_between_commas(tmp_path: Path, allow: str) -> None:
    """As they are on the command line."""
    assert load(tmp_path, f"allow: {allow}").allow == ("a", "b")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("tme: 5m", "s.yaml:1: unknown key 'tme'; did you mean 'time'?"),
        ("time: soon", "s.yaml:1: time: expected a duration such as 90s or 10m, found 'soon'"),
        ("time: 0s", "s.yaml:1: time: 0 s is out of range; allowed: 1 s to 720 h"),
        ("rate: 1e9", "rate: 1,000,000,000 is out of range; allowed: 1 to 10,000,000"),
        (
            "objective: p100",
            "objective: unknown objective 'p100'; allowed: a percentile such as p50",
        ),
        (
            "objective: p50\nconstraint:\n  - memory <= 1x baseline\n  - memory = 3",
            "s.yaml:4: constraint: 'memory = 3' is not a limit; allowed: FIGURE <= VALUE",
        ),
        ("objective: capacity", "s.yaml:1: objective: the objective capacity needs a latency"),
        ("objective: capacity\nslo: 5ms", "s.yaml:2: slo: '5ms' is not a limit"),
        ("objective: p99\nslo: p99<5ms", "s.yaml:2: slo: only --objective capacity has"),
        ("objective: [p99, p50, cpu]", "s.yaml:1: objective: found 3 objectives; allowed: one"),
        (
            "sequential: yes\nconstraint: memory <= 1x baseline",
            "s.yaml:1: sequential: only one objective without constraints can be watched",
        ),
        ("sequential: yes\nobjective: [p99, cpu]", "s.yaml:1: sequential: only one objective"),
        (
            "finalists: 2\nobjective: [p99, cpu]",
            "s.yaml:1: finalists: with two objectives only one",
        ),
        ("choose: p99=1", "s.yaml:1: choose: a choice needs two objectives"),
        ("server: lighttpd", "server: 'lighttpd' is not allowed; allowed: nginx, apache"),
        ("baseline: best", "baseline: 'best' is not allowed; allowed: stock, distro, hand, pub"),
        ("trials: 0", "trials: 0 is out of range"),
        ("rate: fast", "rate: expected a number, found 'fast'"),
        ("seed: -1", "seed: -1 is out of range"),
        ("effect: 5%", "effect: expected a number, found '5%'"),
        ("allow: 'a,,b'", "allow: a name is empty"),
        ("workload: nothing", "there is no workload 'nothing'"),
        ("name: results", "s.yaml:1: name: 'results' is reserved; choose another name"),
        ("name: ../up", "s.yaml:1: name: '../up' is not a name; allowed: up to 64 letters"),
        ("name: .hidden", "name: '.hidden' is not a name"),
        (f"name: {'x' * 65}", "is not a name"),
        ("- time", "s.yaml:1: expected a mapping, found a list"),
    ],
)
def test_a_wrong_file_is_answered_at_its_line(tmp_path: Path, text: str, answer: str) -> None:
    """With the bad value and what is allowed."""
    with pytest.raises(DefinitionError) as raised:
        load(tmp_path, text)
    assert answer in str(raised.value)


def test_a_wrong_option_is_answered_by_its_name(tmp_path: Path) -> None:
    """The same words as for the file."""
    with pytest.raises(DefinitionError, match=r"^--time: expected a duration such as 90s or 10m"):
        load(tmp_path, FULL, time="soon")
    with pytest.raises(DefinitionError, match=r"^--trails: unknown option; did you mean 'trials'"):
        load(tmp_path, FULL, trails=3)


def test_an_unknown_study_is_answered_with_those_there_are() -> None:
    """And with how to name one's own."""
    with pytest.raises(
        DefinitionError, match="'quikstart'; built in: proxy, quickstart, static; did you"
    ):
        load_study("quikstart")
    with pytest.raises(DefinitionError, match="cannot be read: No such file"):
        load_study("none.yaml")


def test_a_seed_is_drawn_unless_given(tmp_path: Path) -> None:
    """Each study draws its own; one that a file, an option or the caller names stays."""
    drawn = {load(tmp_path, "time: 5m").seed for _ in range(5)}
    assert len(drawn) == 5
    assert all(0 <= seed < 2**32 for seed in drawn)
    assert load(tmp_path, "seed: 7").seed == 7
    assert load(tmp_path, "time: 5m", seed=8).seed == 8
    known = load(tmp_path, "time: 5m").as_dict()
    assert load_study(overrides=known).seed == known["seed"]
    assert load_study(overrides={"seed": 9}, seed=4).seed == 9
    assert load_study(seed=4).seed == 4


def test_every_built_in_study_can_be_read() -> None:
    """And says what it is for."""
    summaries = list_studies()
    assert [summary.name for summary in summaries] == ["proxy", "quickstart", "static"]
    for summary in summaries:
        assert summary.summary
        assert load_study(summary.path).name == summary.name
