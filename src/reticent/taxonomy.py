"""Taxonomy: a public hierarchy of labels."""

import os
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from reticent import errors
from reticent.labels import Label, by_label, plain, spelled
from reticent.numerics import text_files

_DEEPEST = 1_000  # levels
_LONGEST_TITLE = 2_000
_CODES = re.compile(r" \([A-Z]\w\w-[A-Z]\w\w\)$")  # ICD-10-CM ends titles of blocks and chapters with their codes


@dataclass(frozen=True)
class Taxonomy:
    """A public hierarchy of labels: what is too fine for the label space goes to its nearest known ancestor.

    Guarantees: the answer depends on the label and on public facts alone.     test_taxonomy_maps_to_nearest_ancestor

    Args:
        parents: From a label to its parent.
        otherwise: Where a label without a known ancestor goes, such as "unknown"; None drops it.
        titles: What labels of the hierarchy are called; public labels whose remap it is have these as their names.

    Example:
        >>> icd = Taxonomy.from_edges([("E10.2", "E10"), ("E10", "E08-E13")], otherwise="unknown")
        >>> icd.nearest("E10.2", {"E08-E13"}), icd.nearest("Z99", {"E08-E13"})
        ('E08-E13', 'unknown')
    """

    parents: Mapping[Label, Label] = field(hash=False)
    otherwise: Label | None = None
    titles: Mapping[Any, str] = field(default_factory=dict, hash=False, repr=False)

    def __post_init__(self) -> None:
        if not all(isinstance(title, str) and len(title) <= _LONGEST_TITLE for title in self.titles.values()):
            raise errors.InvalidValue(f"Expected titles that are texts of at most {_LONGEST_TITLE:,} characters.")
        parents = by_label(self.parents)
        parents = {label: spelled(parent, parents) for label, parent in parents.items()}
        depths: dict[Label, int] = {}
        for start in parents:
            path: dict[Label, None] = {}
            label = start
            while label in parents and label not in depths:
                if label in path:
                    raise errors.InvalidValue("Expected a hierarchy without cycles.")
                path[label] = None
                label = parents[label]
            above = depths.get(label, 0)
            depths |= {below: above + i for i, below in enumerate(reversed(path), start=1)}
        if max(depths.values(), default=0) > _DEEPEST:  # each example climbs it
            raise errors.InvalidValue(f"Expected a hierarchy of at most {_DEEPEST} levels.")
        object.__setattr__(self, "parents", MappingProxyType(parents))
        object.__setattr__(self, "titles", MappingProxyType(by_label(self.titles)))
        object.__setattr__(self, "otherwise", plain(self.otherwise))

    def __reduce__(self) -> tuple[Any, ...]:
        return Taxonomy, (dict(self.parents), self.otherwise, dict(self.titles))  # read-only views stay here

    @classmethod
    def from_edges(cls, edges: Iterable[tuple[Label, Label]], *, otherwise: Label | None = None) -> "Taxonomy":
        """Makes a taxonomy from (child, parent) pairs; a child has one parent."""
        pairs = list(edges)
        if len({child for child, _ in pairs}) < len(pairs):
            raise errors.InvalidValue("Expected one parent for each label, got several for some.")
        return cls(dict(pairs), otherwise)

    @classmethod
    def from_csv(cls, path: str | os.PathLike[str], *, otherwise: Label | None = None) -> "Taxonomy":
        """Reads a public CSV file with the columns child and parent."""
        edges = [
            (text_files.clean(path, line, child), text_files.clean(path, line, parent))
            for line, child, parent in text_files.read_pairs(path, "child", "parent")
        ]
        return cls.from_edges(edges, otherwise=otherwise)

    @classmethod
    def icd10cm(cls, *, otherwise: Label | None = None) -> "Taxonomy":
        """Reads ICD-10-CM from the package simple-icd-10-cm: code, category, block, chapter, each with its title."""
        try:
            import simple_icd_10_cm as icd
        except ImportError as error:
            raise errors.ReticentError("ICD-10-CM needs: pip install 'reticent[icd]'") from error
        parents: dict[Label, Label] = {}
        titles: dict[Label, str] = {}
        for code in icd.get_all_codes(with_dots=True):  # a few blocks are listed again as their only category
            parent = icd.get_parent(code)
            titles.setdefault(code, _CODES.sub("", " ".join(icd.get_description(code).split())))  # some have tabs
            if parent and parent != code:
                parents.setdefault(code, parent)
        return cls(parents, otherwise, titles)

    def nearest(self, label: Label, known: Container[Label]) -> Label | None:
        """Returns the label itself or its nearest ancestor among the known ones, as it is known; else `otherwise`."""
        at = spelled(label, self.parents)
        while at is not None:
            here = spelled(at, known)
            if here in known:
                return here
            at = self.parents.get(at)
        return self.otherwise
