"""What the first bytes of a connection say of the client."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.messages import api_versions, fetch, metadata
from shim.net.first_request import MOST_BYTES, first_request

SHORT = 14  # bytes before the client id


@pytest.mark.parametrize(
    ("frame", "kind", "names"),
    [
        (metadata.API.request_frame(0, 1, "etl", metadata.MetadataRequest(topics=())), 3 << 16, False),
        (fetch.API.request_frame(12, 1, "etl", fetch.FetchRequest()), 1 << 16 | 12, False),
        (api_versions.API.request_frame(2, 1, "etl", api_versions.ApiVersionsRequest()), 18 << 16 | 2, False),
        (api_versions.API.request_frame(3, 1, "etl", api_versions.ApiVersionsRequest("a", "1")), 18 << 16 | 3, True),
    ],
)
def test_real_requests(frame: bytes, kind: int, names: bool) -> None:
    for end in range(len(frame) + 1):
        found = first_request(memoryview(frame)[:end])
        if end < SHORT + len("etl"):
            assert found is None
        else:
            assert found is not None
            assert (found.kind, found.may_name_software, found.client_id) == (kind, names, "etl")


def test_a_client_without_an_id() -> None:
    found = first_request(metadata.API.request_frame(0, 1, None, metadata.MetadataRequest(topics=())))
    assert found is not None
    assert found.client_id == ""


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    """Once it is told, more bytes change nothing, and so many tell it in any case."""
    found = first_request(data)
    assert found is None or first_request(data + b"more") == found
    assert found is not None or len(data) < MOST_BYTES
