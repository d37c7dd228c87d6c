"""What the types of a Parquet file's columns say: which of them can be features, labels or ids."""

from typing import Any


def plain(kind: Any) -> Any:
    """Returns the type of the cells: of a dictionary (a pandas category) that of its entries."""
    return kind.value_type if str(kind).startswith("dictionary") else kind


def is_text(kind: Any) -> bool:
    """Returns whether cells are texts."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_number(kind: Any) -> bool:
    """Returns whether cells are numbers or truth values."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def is_features(kind: Any) -> bool:
    """Returns whether one column can be all features: a number, or a list of numbers of a fixed size."""
    return is_number(kind.value_type) if list_size(kind) else is_number(kind)


def list_size(kind: Any) -> int:
    """Returns how many cells each list of a column has; 0 where that is not fixed, or there are none."""
    from pyarrow import types

    return int(kind.list_size) if types.is_fixed_size_list(kind) else 0


def is_label(kind: Any) -> bool:
    """Returns whether cells can be labels."""
    from pyarrow import types

    return is_text(kind) or (is_number(kind) and not types.is_decimal(kind))


def is_id(kind: Any) -> bool:
    """Returns whether cells can say whose example it is."""
    from pyarrow import types

    dates, known = (types.is_date, types.is_timestamp), (types.is_binary, types.is_large_binary)
    return (
        is_text(kind)
        or is_number(kind)
        or any(of(kind) for of in (*dates, *known, types.is_fixed_size_binary))
        or str(kind) == "extension<arrow.uuid>"
    )
