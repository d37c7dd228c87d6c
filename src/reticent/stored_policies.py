"""Label policies as JSON, as ledgers and model directories hold them; a function is not stored."""

from collections.abc import Iterable, Mapping
from typing import Any

from reticent.budget import Budget
from reticent.labels import Label, LabelSpace, labels_from_json, labels_to_json, table_from_json
from reticent.policies import Policy, PublicLabels, ReleasedLabels
from reticent.privacy import count_weights, planning
from reticent.taxonomy import Taxonomy


def to_json(policy: Policy, budget: Budget, *, horizon: int | None = None) -> dict[str, Any]:
    """Returns the policy as plain JSON values, without the labels and where they are mapped.

    Guarantees: a weight that was left to the default is written down, so that a later default changes no model.
                                                                              test_the_weight_is_fixed_when_a_model_is_made

    Args:
        policy: Where labels come from.
        budget: What one person may lose over the stream.
        horizon: With memory: most tasks of an epoch.
    """
    if isinstance(policy, ReleasedLabels):
        kind = policy.selection.__name__ if policy.selection else None
        weighed = policy.selection is None and policy.class_size is None
        return {
            "kind": "released",
            "count_weight": policy.weight(budget, horizon=horizon) if weighed else None,
            "class_size": policy.class_size,
            "remember": policy.remember,
            "selection": kind,
            "share": policy.share,
        }
    return {"kind": "public"}


def public_json(policy: Policy) -> dict[str, Any]:
    """Returns remap and names as plain JSON values; there may be millions, so they are written once. No function is."""
    names = None if policy.names is None or callable(policy.names) else labels_to_json(policy.names.items())
    return {"remap": _remap_to_json(policy), "names": names}


def _remap_to_json(policy: Policy) -> dict[str, Any] | None:
    if not isinstance(policy, PublicLabels) or policy.remap is None:
        return None
    if isinstance(policy.remap, Taxonomy):
        (otherwise,) = labels_to_json([policy.remap.otherwise])
        parents, titles = (labels_to_json(table.items()) for table in (policy.remap.parents, policy.remap.titles))
        return {"parents": parents, "otherwise": otherwise, "titles": titles}
    if isinstance(policy.remap, Mapping):
        return {"table": labels_to_json(policy.remap.items())}
    return {"function": True}


def from_json(value: Mapping[str, Any], labels: Iterable[Label], public: Mapping[str, Any]) -> Policy:
    """Returns the policy that `to_json` wrote. A function is not stored; what it would place is dropped.

    Args:
        value: What `to_json` wrote.
        labels: The public labels.
        public: What `public_json` wrote; before there were names it had none.
    """
    names = None if (stored := public.get("names")) is None else table_from_json(stored)
    if value["kind"] == "released":
        kinds = {kind.__name__: kind for kind in planning.BY_SHARE.values()}
        fields = {key: value[key] for key in ("count_weight", "class_size", "remember", "share")}
        chosen = kinds[value["selection"]] if value["selection"] else None
        if chosen is None and fields["count_weight"] is None and fields["class_size"] is None:
            fields["count_weight"] = count_weights.WITHOUT_RECORD
        return ReleasedLabels(**fields, selection=chosen, names=names)
    remap, space = public.get("remap") or {}, LabelSpace(tuple(labels))
    if "parents" in remap:
        (otherwise,) = labels_from_json([remap["otherwise"]])
        tree = Taxonomy(table_from_json(remap["parents"]), otherwise, table_from_json(remap.get("titles", [])))
        return PublicLabels(space, tree, names)
    return PublicLabels(space, table_from_json(remap["table"]) if "table" in remap else None, names)
