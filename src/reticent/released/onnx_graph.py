"""The scorer of a model as an ONNX graph: features in, scores and labels out, for programs without Python.

It computes what `Model` computes, step by step: norms in float64, products in float32. A runtime may add up in another
order, so scores agree to about 1e-6 of their size. What cannot be a graph is refused in one sentence.
"""

import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from reticent import errors
from reticent.encoders.packages import require
from reticent.labels import UNKNOWN, labels_to_json
from reticent.privacy.statement import NOT_PRIVATE
from reticent.released.aggregate import argmax, entropy, median
from reticent.released.ensemble import Ensemble, Parts, adapter_values
from reticent.released.heads import BIAS, ROWS, WEIGHT
from reticent.released.model import MOST_SCORES, Model
from reticent.released.sums import Sums

EXTRA = "reticent[onnx]"
INPUT, ROW, SCORES, LABEL = "features", "row", "scores", "label"
_OPSET, _IR = 18, 9  # what runtimes of 2023 and later read
_PROBES = 61
_CLOSE = 1e-4  # of the largest score: float32 sums of thousands of products differ by less


class Graph:
    """Nodes and constants of a graph in the making; an operation returns the name of its result."""

    def __init__(self) -> None:
        self.onnx = require("onnx", extra=EXTRA, what="Exporting")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, operation: str, *inputs: str, result: str | None = None, **attributes: Any) -> str:
        """Adds an operation."""
        name = result or f"{operation.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operation, inputs, [name], **attributes))
        return name

    def constant(self, value: npt.ArrayLike) -> str:
        """Adds an array, with its type."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def float32(self, name: str) -> str:
        """Converts to float32."""
        return self("Cast", name, to=self.onnx.TensorProto.FLOAT)

    def float64(self, name: str) -> str:
        """Converts to float64."""
        return self("Cast", name, to=self.onnx.TensorProto.DOUBLE)

    def column_sums(self, name: str) -> str:
        """Adds up each row, and keeps the axis."""
        return self("ReduceSum", name, self.constant(np.array([1])), keepdims=1)

    def columns(self, name: str, places: npt.NDArray[np.int64], otherwise: float) -> str:
        """Takes columns; a place of -1 is a column of the value `otherwise`, whatever is in the row."""
        one = self("Slice", name, *(self.constant(np.array([n])) for n in (0, 1, 1)))
        never = self.constant(np.array(False))
        filled = self("Where", never, one, self.constant(np.float32(otherwise)))
        whole = self("Concat", name, filled, axis=1)
        return self("Gather", whole, self.constant(places), axis=1)


def scorer(model: Model) -> bytes:
    """Returns the scorer as an ONNX file.

    Input `features`, float32 (n, width). Outputs: `scores`, float32 (n, labels), NaN for a row that cannot be scored;
    `row`, int64 (n): which label is best, -1 for none; and `label`, its text, where all labels are texts. The metadata
    `labels` lists all labels as JSON, in the order of the scores.

    Guarantees:
      - The same labels as the model, and its scores to float32.      test_onnx_gives_the_labels_and_scores_of_the_model
      - What it cannot express is refused.                            test_what_cannot_be_exported_is_refused

    Args:
        model: From releases alone.
    """
    if len(model.labels) > MOST_SCORES:
        raise errors.InvalidValue(
            f"Expected at most {MOST_SCORES:,} labels to export, got {len(model.labels):,}. Use reticent serve."
        )
    graph, releases = Graph(), [release for release in model.releases if release.parameters]
    if isinstance(model.rule, Sums):
        found = model.rule.directions(releases, model.labels)
        rows, width = found.rows, found.weights.shape[1]
        _refuse_empty(rows)
        best, usable = _products(graph, found.weights, found.centre)
    elif isinstance(model.rule, Ensemble):
        parts = model.rule.parts(releases)
        rows = parts.rows
        _refuse_empty(rows)
        _refuse_adapted(parts)
        width = parts.heads[0][WEIGHT].shape[1]
        best, usable = _heads(graph, parts, model.rule.length)
    else:
        raise errors.InvalidValue("Expected a model of Cosine or PeftEnsemble: a rule of your own has no ONNX graph.")
    _outputs(graph, best, usable, rows, model)
    return _file(graph, model, width)


def check(content: bytes, model: Model) -> float:
    """Runs an exported scorer in onnxruntime on public probes, and refuses it where it differs from the model.

    Two labels whose scores agree to float32 may change places. Returns the largest difference of scores, as a part of
    the largest score.

    Args:
        content: What `scorer` returned.
        model: What it was made of.
    """
    runtime = require("onnxruntime", extra=EXTRA, what="Checking an export")
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    features = probes(given.shape[1])
    scores, rows = session.run([SCORES, ROW], {INPUT: features})
    expected = model.scores(features, None)
    wanted = model.top(features, None, 1)[0][:, 0]
    known = np.isfinite(expected)
    size = max(float(np.abs(expected[known]).max(initial=0.0)), 1e-30)
    apart = float(np.abs(scores[known] - expected[known]).max(initial=0.0)) / size
    same_kind = np.array_equal(np.isnan(scores), np.isnan(expected)) and np.array_equal(known, np.isfinite(scores))
    there = np.flatnonzero((rows >= 0) & (wanted >= 0))
    lost = np.abs(expected[there, rows[there]] - expected[there, wanted[there]]).max(initial=0.0) / size
    if not same_kind or apart > _CLOSE or lost > _CLOSE or not np.array_equal(rows < 0, wanted < 0):
        raise errors.ReticentError(
            "The exported graph differs from the model in this version of onnxruntime. Nothing was written; tell us."
        )
    return apart


def probes(width: int) -> npt.NDArray[np.float32]:
    """Returns features to compare on: waves of all lengths, and rows that have no direction.

    >>> probes(3).shape
    (66, 3)
    """
    waves = np.sin(np.outer(np.arange(1, _PROBES + 1), np.arange(1, width + 1)) ** 1.5)
    strange = np.zeros((5, width))
    strange[1], strange[2, 0], strange[3], strange[4] = np.nan, np.inf, 1e-30, 1e30
    return np.concatenate([waves, strange]).astype(np.float32)


# --- the parts


def _refuse_empty(rows: npt.NDArray[np.int64]) -> None:
    if not len(rows):
        raise errors.InvalidValue("Expected a model that knows a label: every answer of this one is UNKNOWN.")


def _refuse_adapted(parts: Parts) -> None:
    if any(map(adapter_values, parts.members)):
        raise errors.InvalidValue(
            "Expected heads on one encoder: the tasks of this model adapt theirs, so each reads other features. Use "
            "reticent serve, or learn with adapter=last_layer."
        )


def _unit_or_zero(graph: Graph, rows: str) -> tuple[str, str]:
    """Rows of length one as float32, zeros where there is no direction; and which rows have one, shape (n, 1)."""
    exact = graph.float64(rows)
    lengths = graph("Sqrt", graph.column_sums(graph("Mul", exact, exact)))
    above = graph("Greater", lengths, graph.constant(np.float64(0)))
    usable = graph("And", above, graph("Less", lengths, graph.constant(np.float64(np.inf))))
    one, zero = graph.constant(np.float64(1)), graph.constant(np.float64(0))
    unit = graph("Where", usable, graph("Div", exact, graph("Where", usable, lengths, one)), zero)
    return graph.float32(unit), usable


def _products(graph: Graph, weights: npt.NDArray[np.float32], centre: npt.NDArray[np.float32]) -> tuple[str, str]:
    """As `sums`: unit rows, from the centre, times weights."""
    unit, usable = _unit_or_zero(graph, INPUT)
    if centre.any():
        moved = graph("Sub", unit, graph.constant(centre))
        unit, _ = _unit_or_zero(graph, graph("Where", usable, moved, graph.constant(np.float32(0))))
    return graph("MatMul", unit, graph.constant(np.ascontiguousarray(weights.T))), usable


def _heads(graph: Graph, parts: Parts, length: float | None) -> tuple[str, str]:
    """As `ensemble`: the logits of each head, merged."""
    rows = INPUT
    if length is not None:
        exact = graph.float64(INPUT)
        lengths = graph("Sqrt", graph.column_sums(graph("Mul", exact, exact)))
        some = graph("Greater", lengths, graph.constant(np.float64(0)))
        divisor = graph("Where", some, lengths, graph.constant(np.float64(1)))
        rows = graph.float32(graph("Mul", exact, graph("Div", graph.constant(np.float64(length)), divisor)))
    values = []
    for head in parts.heads:
        weight = graph.constant(np.ascontiguousarray(head[WEIGHT].T.astype(np.float32)))
        logits = graph("Add", graph("MatMul", rows, weight), graph.constant(head[BIAS].astype(np.float32)))
        values.append(graph("Where", _finite(graph, logits), logits, graph.constant(np.float32(0))))
    usable = graph("Equal", graph.column_sums(graph.float32(graph("Not", _finite(graph, rows)))), _zero(graph))
    return _merged(graph, parts, values), usable


def _merged(graph: Graph, parts: Parts, values: Sequence[str]) -> str:
    """As `aggregate`: one score for each label that any head knows."""
    heads = [(head[ROWS].astype(np.int64), value) for head, value in zip(parts.heads, values, strict=True)]
    known = [(rows, value) for rows, value in heads if len(rows)]
    if parts.merge is entropy:
        weights = graph("Softmax", graph("Concat", *(graph("Neg", _doubt(graph, v)) for _, v in known), axis=1), axis=1)
        shares = [graph("Gather", weights, graph.constant(np.array([t])), axis=1) for t in range(len(known))]
        placed = [
            graph.columns(graph("Mul", value, share), _places(rows, parts.rows), 0.0)
            for (rows, value), share in zip(known, shares, strict=True)
        ]
        return graph("Sum", *placed)
    if parts.merge is median:
        known = [(rows, graph("Sub", value, _median(graph, value, len(rows)))) for rows, value in known]
    elif parts.merge is not argmax:
        raise errors.InvalidValue("Expected an aggregation of reticent: one of your own has no ONNX graph.")
    return graph("Max", *(graph.columns(value, _places(rows, parts.rows), float("-inf")) for rows, value in known))


def _median(graph: Graph, value: str, count: int) -> str:
    ordered = f"ordered_{len(graph.nodes)}"
    places = f"places_{len(graph.nodes)}"
    made = graph.onnx.helper.make_node("TopK", [value, graph.constant(np.array([count]))], [ordered, places], axis=1)
    graph.nodes.append(made)
    middle = graph.constant(np.array([(count - 1) // 2, count // 2]))
    return graph("ReduceMean", graph("Gather", ordered, middle, axis=1), graph.constant(np.array([1])), keepdims=1)


def _doubt(graph: Graph, value: str) -> str:
    log = graph("LogSoftmax", value, axis=1)
    return graph("Neg", graph.column_sums(graph("Mul", graph("Exp", log), log)))


def _places(mine: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each of the rows stands in mine, -1 for nowhere."""
    places = np.full(len(rows), -1, np.int64)
    places[np.searchsorted(rows, mine)] = np.arange(len(mine))
    return places


def _finite(graph: Graph, name: str) -> str:
    """Comparisons with NaN are false."""
    return graph("Less", graph("Abs", name), graph.constant(np.float32(np.inf)))


def _zero(graph: Graph) -> str:
    return graph.constant(np.float32(0))


# --- the file


def _outputs(graph: Graph, best: str, usable: str, rows: npt.NDArray[np.int64], model: Model) -> None:
    places = _places(rows, np.arange(len(model.labels), dtype=np.int64))
    every = graph.columns(best, places, float("-inf"))
    graph("Where", usable, every, graph.constant(np.float32(np.nan)), result=SCORES)
    winner = graph("Gather", graph.constant(rows), graph("ArgMax", best, axis=1, keepdims=1))
    chosen = graph("Where", usable, winner, graph.constant(np.int64(-1)))
    graph("Squeeze", chosen, graph.constant(np.array([1])), result=ROW)
    if _are_texts(model):
        texts = np.array([*(str(label).encode() for label in model.labels.labels), UNKNOWN.encode()], dtype=object)
        graph("Gather", graph.constant(texts), ROW, axis=0, result=LABEL)


def _are_texts(model: Model) -> bool:
    return all(isinstance(label, str) for label in model.labels.labels)


def _file(graph: Graph, model: Model, width: int) -> bytes:
    helper, kinds = graph.onnx.helper, graph.onnx.TensorProto
    outputs = [
        helper.make_tensor_value_info(SCORES, kinds.FLOAT, ["n", len(model.labels)]),
        helper.make_tensor_value_info(ROW, kinds.INT64, ["n"]),
        *([helper.make_tensor_value_info(LABEL, kinds.STRING, ["n"])] if _are_texts(model) else []),
    ]
    private = all(release.private for release in model.releases)
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "reticent",
            [helper.make_tensor_value_info(INPUT, kinds.FLOAT, ["n", width])],
            outputs,
            initializer=graph.constants,
        ),
        producer_name="reticent",
        producer_version=version("reticent"),
        doc_string="" if private else NOT_PRIVATE,
        ir_version=_IR,
        opset_imports=[helper.make_opsetid("", _OPSET)],
    )
    helper.set_model_props(
        made, {"labels": json.dumps(labels_to_json(model.labels.labels)), "private": json.dumps(private)}
    )
    graph.onnx.checker.check_model(made)
    content: bytes = made.SerializeToString()
    return content
