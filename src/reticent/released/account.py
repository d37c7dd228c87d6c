"""What the rows of a ledger add up to, read one by one: the work for a row does not grow with the rows before it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reticent import names
from reticent.budget import Budget
from reticent.privacy.events import Event
from reticent.privacy.statement import Act, Spend, Statement
from reticent.released import ledger_rows
from reticent.released.settings import epoch_of, persons_of

_GENESIS = "reticent ledger"


@dataclass(kw_only=True)
class Account:
    """The state of a ledger after its first rows.

    Args:
        rows: How many rows were read.
        chain: The hash of the last one, which covers all rows before it.
        kinds: How often each kind of row occurred.
        first: The row that opened the ledger, with its budget.
        settings: What the model directory was last set to; None for a ledger without a model.
        releases: File and digest of each published release, in order.
        spends: By row.
        by_task: The rows of each task.
        alike: The names of tasks that are easily taken for each other, by what they have in common (`names.folded`).
        leading: The spend of each task, and under None of all, that was made while no other was live. It says which may
            follow, also after it was voided: else whoever voids could choose that by what later releases show.
        live: How many spends were not voided.
        acts: Public acts that cost nothing.
    """

    rows: int = 0
    chain: str = _GENESIS
    kinds: dict[str, int] = field(default_factory=dict)
    first: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] | None = None
    releases: list[dict[str, str]] = field(default_factory=list)
    spends: dict[int, Spend] = field(default_factory=dict)
    by_task: dict[str, tuple[int, ...]] = field(default_factory=dict)
    alike: dict[str, tuple[str, ...]] = field(default_factory=dict)
    leading: dict[str | None, Event] = field(default_factory=dict)
    live: int = 0
    acts: list[Act] = field(default_factory=list)

    def copy(self) -> "Account":
        """Returns the same state, to go on from without changing this one."""
        return replace(
            self,
            kinds=dict(self.kinds),
            releases=list(self.releases),
            spends=dict(self.spends),
            by_task=dict(self.by_task),
            alike=dict(self.alike),
            leading=dict(self.leading),
            acts=list(self.acts),
        )

    @property
    def budget(self) -> Budget:
        """The budget that the ledger was made with."""
        return Budget.from_json(dict(self.first or {}))

    @property
    def identity(self) -> str:
        """A random name, repeated in the manifest and the releases that belong to it."""
        return str((self.first or {})["identity"])

    @property
    def head(self) -> dict[str, int | str]:
        """How far the ledger has come, as a manifest notes it."""
        return {"row": self.rows, "hash": self.chain}

    def link(self, kind: str, text: str) -> str:
        """Returns the hash that the next row has if nobody changed it."""
        return hashlib.sha256(json.dumps([self.chain, self.rows + 1, kind, text]).encode()).hexdigest()

    def add(self, kind: str, text: str) -> int:
        """Takes over the next row, and returns its number."""
        row, body = self.rows + 1, ledger_rows.read(kind, text)
        match kind:
            case "spend":
                spent = Spend(
                    row=row,
                    at=body["at"],
                    task=body["task"],
                    event=body["event"],
                    private=body["private"],
                    persons=body["persons"],
                )
                if not self.live:
                    self.leading[None] = spent.event
                if not any(self.spends[of].voided is None for of in self.by_task.get(spent.task, ())):
                    self.leading[spent.task] = spent.event
                self.live += 1
                self.spends[row] = spent
                if spent.task not in self.by_task:
                    like = names.folded(spent.task)
                    self.alike[like] = (*self.alike.get(like, ()), spent.task)
                self.by_task[spent.task] = (*self.by_task.get(spent.task, ()), row)
            case "publish":
                for of in body["of"]:
                    self.spends[of] = replace(self.spends[of], published=True)
                if body.get("release") is not None:
                    self.releases.append(body["release"])
            case "void":
                self.live -= self.spends[body["of"]].voided is None
                self.spends[body["of"]] = replace(self.spends[body["of"]], voided=body["reason"])
            case "act":
                self.acts.append(Act(row=row, at=body["at"], text=body["text"]))
            case "releases":
                self.releases = list(body["releases"])
            case "open":
                self.first = self.first or body
        if kind in ("open", "settings"):
            self.settings = body.get("settings", self.settings)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        self.chain, self.rows = self.link(kind, text), row
        return row

    def spends_like(self, task: str) -> list[Spend]:
        """Returns the spends, without voided ones, of a task and of those whose names are easily taken for its name."""
        rows = sorted(row for name in self.alike.get(names.folded(task), ()) for row in self.by_task[name])
        return [self.spends[row] for row in rows if self.spends[row].voided is None]

    def statement(self, *, name: str | None = None) -> Statement:
        """Returns what has been spent, as facts, under the name of the model's folder."""
        return Statement(
            budget=self.budget,
            spends=tuple(self.spends.values()),
            acts=tuple(self.acts),
            identity=self.identity,
            head=self.chain,
            memory=epoch_of(self.settings or {}),
            name=name,
            persons=persons_of(self.settings or {}),
        )
