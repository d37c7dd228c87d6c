"""Ray: parts of a task on the machines of a Ray cluster. Whole numbers come back; noise is drawn here, once."""

import contextlib
import io
import os
import socket
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar
from urllib.parse import urlsplit

from reticent import errors
from reticent.encoders.packages import require
from reticent.sensitive.engines.machines import Machine, machine_here, one_kind, unheard

Part = TypeVar("Part")
Result = TypeVar("Result")

_RETRIES = 3  # of a part whose worker died; what it computes is the same whenever it is computed
_PATIENCE = 60.0  # seconds for each machine to say what it is, and for an address to answer


@dataclass(frozen=True, kw_only=True)
class Ray:
    """Workers of a Ray cluster: of one that runs already, or of one that is started on this machine.

    Parts go out, and partial results come back: exact whole numbers, so that a release is the same, to the bit, for any
    number of workers. What is spent, which rows of a person count and what noise is drawn is decided in this process.

    Guarantees:
      - A release is that of one process, to the bit, for 1, 2 and 3 workers.   test_releases_are_the_same_on_a_cluster
      - A worker that is killed changes nothing: its part is computed again.       test_a_killed_worker_changes_nothing
      - What a worker's exception says, and what it prints, does not leave it.     test_workers_say_nothing
      - Nothing that was sent or returned stays in the cluster's memory.           test_nothing_stays_on_a_cluster
      - A cluster that cannot be reached, or whose machines have other versions, other processors or not these files,
        is refused before anything is spent.
        test_unreachable_clusters_are_refused, test_other_machines_are_refused_before_a_spend

    A process is connected to one cluster: where `ray.init` was called before, that cluster is used. Who can reach a Ray
    cluster can run code on it, and read what is worked on: see docs/cluster.md.

    Args:
        address: "auto" for the cluster that runs on this machine, whoever started it; "host:port", or "ray://host:port"
            from outside; None starts one on this machine, which ends with this process.
        workers: How many parts are worked on at once; by default, one for each processor of the cluster.

    Example:
        >>> Ray(address="auto", workers=8)
        Ray(address='auto', workers=8)
    """

    address: str | None = None
    workers: int | None = None
    shares_memory: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.address is not None and not isinstance(self.address, str):
            raise errors.InvalidValue('Expected address to be None, "auto", "host:port" or "ray://host:port".')
        if self.workers is not None:
            errors.set_whole(self, "workers", at_least=1)

    def ready(self, files: Iterable[Path] = ()) -> int:
        """Connects, or starts a cluster; refuses one that cannot do the work. Returns how many parts run at once.

        Args:
            files: What the workers will read; every machine must see the same.
        """
        return self._joined(tuple(files))[2]

    def map(
        self,
        work: Callable[[Part], Result],
        parts: Iterable[Part],
        *,
        lost: Callable[[Part], Result] | None = None,
    ) -> Iterator[Result]:
        """Yields what work returns for each part, in any order; a part is taken as a worker becomes free.

        Args:
            work: A frozen value that can be pickled, of public facts: it is sent once to each worker, which keeps
                it until it gets another.
            parts: Sensitive.
            lost: Where parts are public: what to yield for one whose workers die again and again. Else learning fails.
        """
        ray, machine, at_once = self._joined()
        task = ray.remote(_worked).options(
            num_cpus=1, max_retries=_RETRIES, retry_exceptions=False, enable_task_events=False
        )
        order = _Order(uuid.uuid4().hex, [ray.put(work)], machine)  # in a list: fetched by a worker when it needs it
        running: dict[Any, Part] = {}
        try:
            for part in parts:
                running[task.remote(order, part)] = part
                del part  # the next one is made before this name is used again
                if len(running) >= at_once:
                    yield _next(ray, running, lost)
            while running:
                yield _next(ray, running, lost)
        finally:
            for left in running:  # somebody stopped, or something failed: what else there is need not be computed
                with contextlib.suppress(Exception):
                    ray.cancel(left, force=True)
            left = None
            running.clear()  # the frames of an exception must not keep anything alive
            del order

    def _joined(self, files: Sequence[Path] = ()) -> tuple[Any, Machine, int]:
        """Returns Ray, connected; what its machines are; and how many parts they work on at once."""
        with _environment(RAY_DEDUP_LOGS_SKIP_REGEX="."):  # read once: that a worker died could tell about its rows
            ray = require("ray", extra="reticent[ray]", what="The engine Ray")
        if not ray.is_initialized():
            self._connect(ray)
        try:
            machine = one_kind(machine_here(files), _machines(ray, files))
            processors = int(ray.cluster_resources().get("CPU", 0))
        except (ray.exceptions.RayError, ConnectionError, RuntimeError) as error:
            raise errors.ReticentError(
                f"The machines of the Ray cluster do not answer ({type(error).__name__}). Nothing was spent. See "
                "that their workers have enough memory, and the versions that are installed here."
            ) from None
        return ray, machine, max(1, processors if self.workers is None else self.workers)

    def _connect(self, ray: Any) -> None:
        quiet = {"log_to_driver": False, "configure_logging": False}
        try:
            with _environment(RAY_USAGE_STATS_ENABLED="0"), contextlib.redirect_stderr(io.StringIO()):
                if self.address is None:
                    ray.init(
                        num_cpus=self.workers,
                        include_dashboard=False,
                        _system_config={"automatic_object_spilling_enabled": False},  # sums stay off the disk
                        **quiet,
                    )
                else:
                    _refuse_unreachable(self.address)
                    ray.init(address=self.address, **quiet)
        except errors.ReticentError:
            raise
        except Exception as error:  # of Ray: no cluster, another version, no authentication
            if self.address == "auto" and isinstance(error, ConnectionError):
                raise errors.ReticentError(
                    "No Ray cluster runs on this machine. Nothing was spent. Start one with `ray start --head`, or "
                    'give the address of another, as "host:port".'
                ) from None
            said = " ".join(str(error).split())[:300] or type(error).__name__
            where = "started here" if self.address is None else f"reached at {self.address}"
            raise errors.ReticentError(
                f"No Ray cluster could be {where}: {said.rstrip('.')}. Nothing was spent. One that wants a token needs "
                "RAY_AUTH_MODE=token here, too."
            ) from None


class _Order(NamedTuple):
    """What comes with every part: which work it is, where to fetch it, and what machine it is for."""

    name: str
    work: list[Any]
    machine: Machine


class _Failed:
    """What a worker returns in place of an exception, whose text and frames would hold values of rows."""


_held: dict[str, Any] = {}  # in a worker: the work of the last order; the encoder of the last one stays loaded


def _worked(order: _Order, part: Any) -> Any:
    """In a worker: the partial result of a part, or that there is none."""
    import ray

    try:
        with unheard():
            if machine_here() != order.machine:  # one that has joined since
                return _Failed()
            if order.name not in _held:
                _held.clear()
                _held[order.name] = ray.get(order.work[0])
            return _held[order.name](part)
    except Exception:  # also MemoryError: what it was could depend on a row
        return _Failed()


def _next(ray: Any, running: dict[Any, Part], lost: Callable[[Part], Result] | None) -> Result:
    """Returns the result of one that is done, and forgets it: nobody else has a reference to it."""
    (done,), _ = ray.wait(list(running), num_returns=1)
    part = running.pop(done)
    try:
        result: Result | _Failed = ray.get(done)
    except ray.exceptions.RayError:  # it has died more often than it may, or has no memory left
        result = _Failed() if lost is None else lost(part)
    del done, part  # see above
    if isinstance(result, _Failed):
        raise errors.LearningFailed() from None
    return result


def _machines(ray: Any, files: Sequence[Path]) -> list[Machine]:
    """Asks every machine of the cluster that works on parts what it is."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0)]
    ask, same = ray.remote(machine_here), {"num_cpus": 0, "max_retries": _RETRIES, "enable_task_events": False}
    places = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
    return list(
        ray.get([ask.options(scheduling_strategy=at, **same).remote(tuple(files)) for at in places], timeout=_PATIENCE)
    )


def _refuse_unreachable(address: str) -> None:
    """Refuses an address at which nobody listens; Ray would try for minutes."""
    if address == "auto":
        return
    try:
        found = urlsplit(address if "://" in address else f"//{address}")
        host, port = found.hostname, found.port
    except ValueError:
        host = port = None
    if host is None or port is None or found.scheme not in ("", "ray"):
        raise errors.InvalidValue('Expected address to be None, "auto", "host:port" or "ray://host:port".')
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError as error:
        raise errors.ReticentError(
            f"Nobody answers at {address} ({error.strerror or type(error).__name__}). Nothing was spent. Start the "
            "cluster with `ray start --head`, or correct the address."
        ) from None


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Sets variables that are not set, for processes that start within."""
    new = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]
