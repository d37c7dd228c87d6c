"""Files of releases: what nobody vouches for is not read whole."""

import json
import tracemalloc

from reticent.released import store

LARGE = 1 << 26


def test_of_unlisted_releases_only_the_header_is_read(tmp_path):
    about = {"task": "march", "event": "{}", "private": "true", "ledger": "mine"}
    arrays = {"sums": {"dtype": "U8", "shape": [LARGE], "data_offsets": [0, LARGE]}}
    header = json.dumps({"__metadata__": about, **arrays}).encode()
    file = tmp_path / store.RELEASES / "0001.safetensors"
    file.parent.mkdir()
    with open(file, "wb") as stream:
        stream.write(len(header).to_bytes(8, "little") + header)
        stream.truncate(8 + len(header) + LARGE)  # takes no room on the disk
    tracemalloc.start()
    try:
        found = list(store.unlisted(tmp_path, []))
        store.remove_unlisted(tmp_path, [], "another")
        assert tracemalloc.get_traced_memory()[1] < LARGE / 2
    finally:
        tracemalloc.stop()
    assert found == [store.Unlisted(f"{store.RELEASES}/{file.name}", "march", "mine", False)]
    assert file.exists()
    store.remove_unlisted(tmp_path, [], "mine")
    assert not file.exists()
