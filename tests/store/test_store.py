"""Contract of the record on every Optuna storage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt
import optuna
import pytest
import sqlalchemy

from tests.measurement.windows import raw_window, window
from tests.phases.rig import HAND, SPACE, STOCK
from tuner.errors import StoreError
from tuner.goals.goals import goals_of
from tuner.judge import scoring
from tuner.judge.ranking import pooled_all
from tuner.measurement.gates import Gates
from tuner.measurement.measuring import measure
from tuner.measurement.stalls import CYCLES
from tuner.record.model import (
    SCHEMA_VERSION,
    BlockInstance,
    Calibration,
    Phase,
    Protocol,
    TrialOrigin,
)
from tuner.record.small import small_of_search
from tuner.search.dimensions import dimensions_of
from tuner.stats.paired import FloatArray
from tuner.stats.polish import arm_levels
from tuner.store.listing import list_names
from tuner.store.store import Header, Storage, Store, sqlite_url
from tuner.testing.lab import SimulatedHost

NAME = "a study"
CALIBRATION = Calibration(
    capacity_per_s=4_000.5,
    generator_bound=True,
    rate_per_s=2_800.0,
    rate_source="70 %",
    sigma_d=0.05,
    sigma_d_upper=0.07,
    degrees_of_freedom=6,
    half_width=0.04,
    minimum_detectable_effect=0.06,
    correlation=-0.1,
    warnings=("one", "two"),
)
PROTOCOL = Protocol(
    frozen_unix_s=1.5,
    digest="0123456789ab",
    estimand="ratio",
    baseline=STOCK.digest,
    candidate=HAND.digest,
    objective="p99",
    rate_per_s=2_800.0,
    blocks=12,
    rounds=6,
    window_s=1.5,
    seed=1,
    alpha=0.05,
    margin=0.03,
    stall_rule=CYCLES,
    gates=Gates(samples_needed=10_000),
)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Set by hand."""
    return Clock()


@pytest.fixture(params=["sqlite", "memory", "postgresql"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """A storage that outlives the ``Store``s on it."""
    if request.param == "memory":
        return optuna.storages.InMemoryStorage()
    if request.param == "postgresql":
        url: str = request.getfixturevalue("url")
        return url
    return sqlite_url(tmp_path)


@pytest.fixture
def header() -> Header:
    """The header of a record."""
    return SimulatedHost().header(NAME, STOCK, "p99")


@pytest.fixture
def store(storage: Storage, header: Header, clock: Clock) -> Store:
    """A record that has just begun."""
    begun = Store.create(storage, header, clock)
    begun.add_configuration(SimulatedHost().describe(STOCK))
    return begun


@pytest.fixture
def reopen(storage: Storage, clock: Clock) -> Callable[[], Store]:
    """The same record, as another process opens it."""
    return lambda: Store.open(storage, NAME, clock)


def planned(*labels: str, trial: int | None = None) -> tuple[BlockInstance, ...]:
    """Return instances before a block runs."""
    return tuple(
        BlockInstance(label, STOCK.digest, trial if label != "baseline" else None, "planned", "")
        for label in labels
    )


def new_trial(store: Store, origin: TrialOrigin = "hand") -> int:
    """Return a trial of the hand tuning."""
    return store.open_trial(HAND, origin, *dimensions_of(SPACE, (), HAND))


class TestStore:
    """The contract of storages."""

    def test_a_new_record_holds_its_header_and_its_baseline(
        self, store: Store, header: Header
    ) -> None:
        """Nothing else yet."""
        record = store.record()
        assert record.schema_version == SCHEMA_VERSION
        assert (record.name, record.host, record.server) == (NAME, header.host, header.server)
        assert (record.cores, record.generator) == (header.cores, header.generator)
        assert record.definition == header.definition
        assert record.baseline == STOCK.digest
        assert record.configurations[STOCK.digest].values == STOCK.values
        assert (record.blocks, record.trials) == ((), ())
        assert (record.calibration, record.protocol, record.ended_unix_s) == (None, None, None)

    def test_what_is_read_by_another_process_is_what_was_written(
        self, store: Store, reopen: Callable[[], Store]
    ) -> None:
        """Calibration, protocol, importance and end come back equal, types and all."""
        store.add_configuration(SimulatedHost().describe(HAND))
        store.set_calibration(CALIBRATION)
        store.set_protocol(PROTOCOL)
        store.set_importance({"fast": 0.75, "size": 0.25})
        store.set_code({"/usr/sbin/nginx": "0" * 64})
        store.set_ended()
        record = reopen().record()
        assert record.calibration == CALIBRATION
        assert record.protocol == PROTOCOL
        assert record.importance == {"fast": 0.75, "size": 0.25}
        assert record.code == {"/usr/sbin/nginx": "0" * 64}
        assert record.ended_unix_s == 1_000.0
        assert record == store.record()

    def test_every_window_is_kept_as_it_ends(
        self, store: Store, reopen: Callable[[], Store]
    ) -> None:
        """Before the block is over, another process can read them, equal in every field."""
        number = store.open_block("confirm", 0, 7, planned("baseline", "c1"))
        spans = ((1, 2), (3, 4))
        full = measure(
            raw_window(generator_spans=spans, server_spans=spans, errors={"reset": 1}),
            CYCLES,
            Gates(samples_needed=1),
        )
        empty = replace(window("c1", 0, 100), server_cpu_s=None, server_rss_bytes=None)
        store.add_window(number, full)
        store.add_window(number, empty)
        (block,) = reopen().record().blocks
        assert block.state == "running"
        assert {w.window_id: w for w in block.windows} == {
            full.window_id: full,
            empty.window_id: empty,
        }
        assert (block.phase, block.index, block.seed) == ("confirm", 0, 7)

    def test_a_window_of_the_search_is_kept_as_a_report_needs_it(
        self, store: Store, reopen: Callable[[], Store]
    ) -> None:
        """Its histograms are most of its size; figures come from its percentiles."""
        number = store.open_block("search", 0, 7, planned("baseline"))
        full = measure(raw_window(), None, Gates(samples_needed=1))
        assert full.raw.hdr
        store.add_window(number, full)
        record = reopen().record()
        assert record.blocks[0].windows == (small_of_search(full, goals_of(record.definition)),)
        assert record.blocks[0].windows[0].raw == replace(full.raw, hdr="")

    def test_an_empty_windows_figures_stay_not_a_number(
        self, store: Store, reopen: Callable[[], Store]
    ) -> None:
        """NaN survives the storage; it does not become zero or an error."""
        number = store.open_block("search", 0, 7, planned("baseline"))
        store.add_window(number, measure(raw_window([]), None, Gates(samples_needed=1)))
        (block,) = reopen().record().blocks
        assert block.windows[0].raw.p99_us != block.windows[0].raw.p99_us

    def test_windows_come_back_in_the_order_of_time(
        self, store: Store, reopen: Callable[[], Store]
    ) -> None:
        """Windows are ordered by their start, in any order of the storage's attributes."""
        number = store.open_block("search", 0, 7, planned("baseline", "c1"))
        for round_ in (0, 1, 2):
            for label in ("c1", "baseline") if round_ % 2 else ("baseline", "c1"):
                started = 100.0 * round_ + (label == "c1") * (1 - 2 * (round_ % 2))
                store.add_window(
                    number, replace(window(label, round_, 100), started_unix_s=started)
                )
        (block,) = reopen().record().blocks
        times = [w.started_unix_s for w in block.windows]
        assert times == sorted(times)

    @pytest.mark.parametrize("state", ["complete", "invalid", "failed"])
    def test_a_block_ends_with_its_state_reason_and_times(
        self, store: Store, reopen: Callable[[], Store], clock: Clock, state: str
    ) -> None:
        """A block keeps its state and reason, and its times by the store's clock."""
        number = store.open_block("confirm", 3, 7, planned("baseline", "candidate"))
        clock.now = 1_060.0
        ended = tuple(replace(i, state="live") for i in planned("baseline", "candidate"))
        store.close_block(number, state, "because", ended, 0.8)  # type: ignore[arg-type]
        (block,) = reopen().record().blocks
        assert (block.state, block.reason, block.instances) == (state, "because", ended)
        assert (block.started_unix_s, block.ended_unix_s) == (1_000.0, 1_060.0)

    def test_blocks_are_numbered_in_order_of_time(self, store: Store) -> None:
        """Over all phases."""
        numbers = []
        for phase in ("capacity", "aa", "search"):
            numbers.append(store.open_block(phase, 0, 7, planned("baseline")))
            store.close_block(numbers[-1], "complete", "", planned("baseline"), 0.5)
        assert numbers == [0, 1, 2]
        assert [b.number for b in store.record().blocks] == numbers

    def test_a_trial_ends_as_requested(self, store: Store, reopen: Callable[[], Store]) -> None:
        """A trial keeps its state and message; its losses come from the windows."""
        number = new_trial(store)
        assert store.record().trials[0].state == "racing"
        block = store.open_block("search", 0, 7, planned("baseline", "c1", trial=number))
        for measured in (window("baseline", 0, 100), window("c1", 0, 50)):
            store.add_window(block, measured)
        store.close_block(block, "complete", "", planned("baseline", "c1", trial=number), 0.5)
        store.report_loss(number, block, -0.69)
        store.close_trial(number, "dropped", {block: -0.69}, "too slow")
        (trial,) = reopen().record().trials
        assert (trial.state, trial.message, trial.origin) == ("dropped", "too slow", "hand")
        assert trial.digest == HAND.digest
        assert trial.losses == {block: pytest.approx(-0.693, abs=1e-3)}

    def test_the_figures_of_a_block_are_computed_once(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However often the record is read: the k-th proposal must not pay for k blocks again."""
        worked_out = []

        def counted(values: npt.ArrayLike) -> FloatArray:
            worked_out.append(values)
            return arm_levels(values)

        monkeypatch.setattr(scoring, "arm_levels", counted)
        store.set_calibration(CALIBRATION)
        number, blocks = new_trial(store), 4
        for index in range(blocks):
            block = store.open_block("search", index, 7, planned("baseline", "c1", trial=number))
            for measured in (window("baseline", 0, 100), window("c1", 0, 50)):
                store.add_window(block, measured)
            store.close_block(block, "complete", "", planned("baseline", "c1", trial=number), 0.5)
            store.record()
            assert len(store.record().trials[0].losses) == index + 1
        assert len(worked_out) == blocks

    def test_a_host_that_measures_keeps_the_figures_of_a_search_and_not_its_windows(
        self, store: Store, reopen: Callable[[], Store]
    ) -> None:
        """Blocks from before it was resumed likewise; a report and other readers have all."""
        number = new_trial(store)

        def measured(by: Store, phase: Phase, index: int) -> None:
            planned_ones = planned("baseline", "c1", trial=number)
            block = by.open_block(phase, index, 7, planned_ones)
            for one in (window("baseline", 0, 100), window("c1", 0, 50 + index)):
                by.add_window(block, one)
            by.close_block(block, "complete", "", planned_ones, 0.5)

        measured(store, "aa", 0)
        measured(store, "search", 0)
        again = reopen()
        assert [len(block.windows) for block in again.record().blocks] == [2, 2]
        measured(again, "search", 1)
        measured(again, "confirm", 0)
        kept, whole = again.record(), reopen().record()
        goals = goals_of(whole.definition)
        assert [len(block.windows) for block in kept.blocks] == [2, 0, 0, 2]
        assert [len(block.windows) for block in whole.blocks] == [2, 2, 2, 2]
        assert kept.trials == whole.trials
        assert pooled_all(kept.blocks, goals, CALIBRATION) == pooled_all(
            whole.blocks, goals, CALIBRATION
        )
        assert again.record_for_report() == whole

    def test_the_figures_of_a_running_block_change_with_its_windows(self, store: Store) -> None:
        """Only one that has ended is not looked at again."""
        number = new_trial(store)
        block = store.open_block("search", 0, 7, planned("baseline", "c1", trial=number))
        looks = []
        for round_, latency_us in enumerate((50, 100, 200)):
            store.add_window(block, window("baseline", round_, 100))
            store.add_window(block, window("c1", round_, latency_us))
            looks.append(store.record().trials[0].losses[block])
        assert looks == sorted(set(looks))

    def test_optunas_own_tools_see_the_search(self, store: Store, storage: Storage) -> None:
        """Values, parameters with their domains, intermediate values, and what is infeasible."""
        good = new_trial(store)
        store.report_loss(good, 4, -0.5)
        store.close_trial(good, "complete", {4: -0.5, 6: -0.7}, "")
        odd = SPACE.complete({"fast": True, "boost": 9}, STOCK)
        bad = store.open_trial(odd, "proposed", *dimensions_of(SPACE, (), odd))
        store.close_trial(bad, "infeasible", {}, "no")
        study = optuna.load_study(study_name=NAME, storage=storage)
        assert study.best_value == pytest.approx(-0.6)
        assert study.best_params["fast"] is True
        assert study.best_params["boost kind"] == 0
        assert study.trials[0].intermediate_values == {4: -0.5}
        assert study.trials[1].params["boost"] == 9
        assert study.trials[1].state is optuna.trial.TrialState.PRUNED
        assert max(study.trials[1].constraints.values()) > 0
        assert "baseline" in study.metric_names[0]  # type: ignore[index]

    def test_a_configuration_outside_the_ranges_can_be_a_trial(self, store: Store) -> None:
        """A user's own value has no place in Optuna's domain; the record has it all the same."""
        values, domains = dimensions_of(SPACE, (), HAND)
        number = store.open_trial(HAND, "proposed", {**values, "size": 5}, domains)
        store.close_trial(number, "complete", {0: 0.1}, "")
        assert store.record().trials[0].digest == HAND.digest

    def test_a_frozen_protocol_is_never_replaced(self, store: Store) -> None:
        """The same one may be written again; another one is refused."""
        store.set_protocol(PROTOCOL)
        store.set_protocol(PROTOCOL)
        with pytest.raises(StoreError, match="frozen already and cannot be replaced"):
            store.set_protocol(replace(PROTOCOL, digest="another", margin=0.01))
        assert store.record().protocol == PROTOCOL

    def test_a_name_is_taken_once(self, store: Store, storage: Storage, header: Header) -> None:
        """The message says how to go on with it, and what else to do."""
        with pytest.raises(StoreError, match=r"already in .*--resume.*--name"):
            Store.create(storage, header)
        assert store.record().name == NAME

    def test_an_unknown_name_is_said(self, store: Store, storage: Storage) -> None:
        """With where to find the known ones."""
        assert store.record().name == NAME
        with pytest.raises(StoreError, match=r"no study called 'other'.*tuner studies"):
            Store.open(storage, "other")

    def test_another_schema_is_not_guessed_at(self, store: Store, storage: Storage) -> None:
        """The message names both versions."""
        assert store.record().name == NAME
        study = optuna.load_study(study_name=NAME, storage=storage)
        study.set_user_attr("schema_version", 99)
        with pytest.raises(StoreError, match=f"schema 99, this tuner reads {SCHEMA_VERSION}"):
            Store.open(storage, NAME)

    def test_a_record_that_was_cut_short_before_it_began_is_said(self, storage: Storage) -> None:
        """A record that was interrupted before it began cannot be resumed."""
        optuna.create_study(study_name=NAME, storage=storage)
        with pytest.raises(StoreError, match="interrupted before its start"):
            Store.open(storage, NAME)

    def test_what_was_cut_short_before_it_began_is_begun_again(
        self, tmp_path: Path, header: Header
    ) -> None:
        """There is nothing in it; in a database it may be another host's that begins just now."""
        url = sqlite_url(tmp_path)
        optuna.create_study(study_name=NAME, storage=url)
        with pytest.raises(StoreError, match="nothing to resume; begin it again"):
            Store.open(url, NAME)
        Store.create(url, replace(header, name=NAME))
        assert Store.open(url, NAME).record().blocks == ()
        with pytest.raises(StoreError, match="already in"):
            Store.create(url, replace(header, name=NAME))

    def test_a_record_that_is_not_signed_yet_has_not_begun(
        self, tmp_path: Path, header: Header
    ) -> None:
        """An end in between would leave a record that nobody here seems to have made."""
        url = sqlite_url(tmp_path)

        def interrupted(_: Store) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Store.create(url, header, begin=interrupted)
        with pytest.raises(StoreError, match="nothing to resume"):
            Store.open(url, header.name)

    def test_names_are_of_studies_not_of_their_blocks(
        self, store: Store, storage: Storage, header: Header
    ) -> None:
        """Two Optuna studies make one record."""
        assert store.record().name == NAME
        Store.create(storage, replace(header, name="another"))
        assert list_names(storage) == [NAME, "another"]

    # --- recovery -----------------------------------------------------------------------------

    def test_a_block_that_was_cut_short_keeps_its_windows(
        self, store: Store, reopen: Callable[[], Store], clock: Clock
    ) -> None:
        """An interrupted block has failed, ends with its last window and keeps all of them."""
        number = store.open_block("confirm", 0, 7, planned("baseline"))
        measured = replace(window("baseline", 0, 100), started_unix_s=1_010.0)
        store.add_window(number, measured)
        clock.now = 9_999.0
        again = reopen()
        assert again.recover() == ["block 0 was interrupted; its 1 windows are kept"]
        (block,) = again.record().blocks
        assert (block.state, block.reason) == ("failed", "interrupted")
        assert block.windows == (measured,)
        assert block.ended_unix_s == 1_011.0
        assert again.recover() == []

    def test_a_trial_that_was_racing_goes_on_racing(
        self, store: Store, reopen: Callable[[], Store]
    ) -> None:
        """A racing trial takes further losses and its end from the process that resumes it."""
        number = new_trial(store)
        again = reopen()
        again.recover()
        assert again.record().trials[0].state == "racing"
        again.report_loss(number, 0, -0.2)
        again.close_trial(number, "complete", {0: -0.2}, "")
        assert again.record().trials[0].state == "complete"

    def test_recovering_what_needs_no_recovery_does_nothing(self, store: Store) -> None:
        """Finished trials and blocks are as they were."""
        block = store.open_block("aa", 0, 7, planned("baseline"))
        store.close_block(block, "complete", "", planned("baseline"), 0.5)
        store.close_trial(new_trial(store), "complete", {0: 0.0}, "")
        before = store.record()
        assert store.recover() == []
        assert store.record() == before

    def test_importance_of_too_few_trials_is_nothing(self, store: Store) -> None:
        """Rather than equal shares."""
        store.close_trial(new_trial(store), "complete", {0: 0.0}, "")
        assert store.importance(list) == {}


def test_a_storage_that_cannot_be_opened_is_said_without_its_password(header: Header) -> None:
    """Errors end up in logs and reports."""
    with pytest.raises(StoreError) as raised:
        Store.create("postgresql+nodriver://me:secret@db/tuner", header)
    assert "secret" not in str(raised.value)
    assert "db/tuner" in str(raised.value)


def test_a_folder_that_cannot_be_written_is_said(header: Header, tmp_path: Path) -> None:
    """The message names the storage."""
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.create(sqlite_url(tmp_path / "missing"), header)


def test_a_full_disk_is_said_and_nothing_that_was_written_is_lost(
    header: Header, tmp_path: Path
) -> None:
    """With how to go on; here the database may not grow any more."""
    store = Store.create(sqlite_url(tmp_path), header)
    number = store.open_block("search", 0, 7, planned("baseline"))
    store.add_window(number, window("baseline", 0, 100))
    again = Store.open(sqlite_url(tmp_path), NAME)
    database = again._search._storage._backend  # type: ignore[attr-defined]

    @sqlalchemy.event.listens_for(database.engine, "connect")
    def no_room(connection: Any, _: object) -> None:
        connection.execute("PRAGMA max_page_count=1")

    database.engine.dispose()

    def fill() -> None:
        for index in range(100):
            again.open_block("search", index, 7, planned("baseline"))

    with pytest.raises(StoreError, match=r"cannot be written: .*full.*can go on once"):
        fill()
    record = Store.open(sqlite_url(tmp_path), NAME).record()
    assert len(record.blocks[0].windows) == 1


def test_text_that_is_no_url_is_said(header: Header) -> None:
    """A slip of the keyboard is not a traceback."""
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.create("record.db", header)


def test_a_host_that_measures_reads_trials_and_attributes_once(
    store: Store, reopen: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record has all writes, as another process reads them, without reading all again."""
    store.open_block("search", 0, 1, planned("baseline"))
    store.record()
    reads: list[str] = []
    get_trials, user_attrs = optuna.Study.get_trials, vars(optuna.Study)["user_attrs"].fget

    def counted(study: optuna.Study, *args: Any, **options: Any) -> Any:
        reads.append(study.study_name)
        return get_trials(study, *args, **options)

    def counted_attrs(study: optuna.Study) -> Any:
        reads.append(study.study_name)
        return user_attrs(study)

    monkeypatch.setattr(optuna.Study, "get_trials", counted)
    monkeypatch.setattr(optuna.Study, "user_attrs", property(counted_attrs))
    store.add_configuration(SimulatedHost().describe(HAND), proposed=True)
    racing, ended = new_trial(store), new_trial(store, "proposed")
    store.report_loss(ended, 0, -0.1)
    store.close_trial(ended, "dropped", {0: -0.1}, "slow")
    store.set_calibration(CALIBRATION)
    record = store.record()
    assert NAME not in reads
    monkeypatch.undo()
    assert record == reopen().record()
    assert [(trial.number, trial.state) for trial in record.trials] == [
        (racing, "racing"),
        (ended, "dropped"),
    ]


def test_a_record_that_breaks_while_it_is_open_is_named_with_the_databases_words(
    tmp_path: Path, header: Header
) -> None:
    """The report at the end of a study reads all of it again."""
    store = Store.create(sqlite_url(tmp_path), header)
    path = tmp_path / "record.db"
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(StoreError, match=r"the record of 'a study': .* not a database"):
        store.record_for_report()
