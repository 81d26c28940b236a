import struct
from typing import Any

import pytest

import protocol.api
from protocol.apis import APIS, ApiKey
from protocol.errors import DecodeError, EncodeError, ErrorCode, UnsupportedVersion
from protocol.headers import (
    RequestHeader,
    ResponseHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
)
from protocol.messages import api_versions, heartbeat


def test_request_headers() -> None:
    header = RequestHeader(12, 4, 7, "client")
    plain = b"\0\x0c\0\x04\0\0\0\x07\0\x06client"
    assert encode_request_header(1, header) == plain
    # The client id is not compact in version 2 either.
    assert encode_request_header(2, header) == plain + b"\0"
    assert decode_request_header(1, plain + b"body") == (header, len(plain))
    assert decode_request_header(2, plain + b"\0body") == (header, len(plain) + 1)
    assert decode_request_header(2, plain + b"\x01\x05\x01x")[0].tagged == ((5, b"x"),)
    anonymous = b"\0\x0c\0\x04\0\0\0\x07\xff\xff"
    assert decode_request_header(1, anonymous) == (RequestHeader(12, 4, 7, None), 10)
    with pytest.raises(DecodeError, match=r"RequestHeader\.client_id: length -2"):
        decode_request_header(1, anonymous[:-1] + b"\xfe")


def test_response_headers() -> None:
    assert decode_response_header(0, b"\0\0\x01\x02!") == (ResponseHeader(258), 4)
    assert decode_response_header(1, b"\0\0\x01\x02\0!") == (ResponseHeader(258), 5)


def test_headers_that_there_are_not() -> None:
    for decode, versions in [(decode_request_header, (0, 3)), (decode_response_header, (-1, 2))]:
        for version in versions:
            with pytest.raises(UnsupportedVersion, match=f"header version {version}"):
                decode(version, bytes(100))


def test_which_version_has_which_header() -> None:
    assert [heartbeat.API.request_header_version(version) for version in (3, 4)] == [1, 2]
    assert [heartbeat.API.response_header_version(version) for version in (3, 4)] == [0, 1]
    assert [api_versions.API.request_header_version(version) for version in (2, 3)] == [1, 2]
    assert [api_versions.API.response_header_version(version) for version in (2, 3)] == [0, 0]


def test_whole_frames() -> None:
    api = heartbeat.API
    request = heartbeat.HeartbeatRequest("g", 1, "m")
    for version in (0, 4):
        frame = api.request_frame(version, 9, "me", request)
        assert struct.unpack_from(">ihhih", frame) == (len(frame) - 4, 12, version, 9, 2)
        header, parsed = api.parse_request(version, frame[4:])
        assert (header, parsed) == (RequestHeader(12, version, 9, "me"), request)
        assert frame.endswith(api.encode_request(version, request))
        answer = api.response_frame(version, 9, heartbeat.HeartbeatResponse(0, 27))
        assert struct.unpack_from(">ii", answer) == (len(answer) - 4, 9)
        assert api.parse_response(version, answer[4:]) == (9, heartbeat.HeartbeatResponse(0, 27))
    assert len(api.response_frame(4, 9, heartbeat.HeartbeatResponse())) == 4 + 4 + 1 + 6 + 1
    with pytest.raises(EncodeError, match="correlation_id"):
        api.response_frame(4, 2**31, heartbeat.HeartbeatResponse())
    with pytest.raises(EncodeError, match="client_id"):
        api.request_frame(4, 1, "x" * 32768, request)


OWN_RANGE = (api_versions.ApiVersion(18, 0, 3),)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("api_keys", [(), OWN_RANGE], ids=["before 2.4", "since 2.4"])
def test_a_server_without_the_version_of_api_versions(version: int, api_keys: tuple[Any, ...]) -> None:
    """It answers in version 0, which is how the answer is read, and written, in every other (KIP-511)."""
    api = api_versions.API
    raw = b"\0\x23" + struct.pack(">i", len(api_keys)) + bytes.fromhex("0012 0000 0003") * len(api_keys)
    answer = api_versions.ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, api_keys)
    for buffer in (raw, memoryview(raw), bytearray(raw)):
        assert api.decode_response(version, buffer) == (answer, len(raw))
    assert api.decode_response(version, b"before" + raw + b"after", 6) == (answer, 6 + len(raw))
    assert api.parse_response(version, b"\0\0\0\x09" + raw + b"after") == (9, answer)
    assert api.encode_response(version, answer) == raw
    assert api.response_frame(version, 9, answer) == struct.pack(">ii", len(raw) + 4, 9) + raw
    # What version 0 lacks goes, as it may.
    assert api.encode_response(version, answer._replace(throttle_time_ms=5, zk_migration_ready=True)) == raw
    for size in range(len(raw)):
        with pytest.raises(DecodeError):
            api.decode_response(version, raw[:size])


@pytest.mark.parametrize("version", range(5))
def test_other_errors_are_answered_in_the_version_asked(version: int) -> None:
    api = api_versions.API
    for error in (ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.for_code(0x2300)):
        answer = api_versions.ApiVersionsResponse(error, OWN_RANGE, throttle_time_ms=5 if version else 0)
        raw = api.response_codec(version).encode(answer)
        assert api.encode_response(version, answer) == raw
        assert api.decode_response(version, raw) == (answer, len(raw))


def test_the_same_error_of_another_api_has_the_version_asked() -> None:
    answer = heartbeat.HeartbeatResponse(0, ErrorCode.UNSUPPORTED_VERSION)
    for version in range(5):
        raw = heartbeat.API.response_codec(version).encode(answer)
        assert heartbeat.API.encode_response(version, answer) == raw
        assert heartbeat.API.decode_response(version, raw) == (answer, len(raw))
    # Its error code is at the beginning in version 0, like that of ApiVersions.
    metadata_v0 = b"\0\x23" + bytes(6)
    with pytest.raises(DecodeError):
        APIS[ApiKey.METADATA].decode_response(0, metadata_v0)


@pytest.mark.parametrize("version", [-1, 5, 77, 2**15 - 1])
def test_a_version_of_api_versions_that_is_not_known(version: int) -> None:
    """The way that `parse_request` tells of: the header can be read, and the answer is version 0."""
    api = api_versions.API
    newer = b"a header's and a body's fields, whatever they will be"
    frame = struct.pack(">hhih", 18, version, 5, 2) + b"me" + newer
    with pytest.raises(UnsupportedVersion, match=f"ApiVersions version {version}"):
        api.parse_request(version, frame)
    with pytest.raises(UnsupportedVersion):
        api.response_frame(version, 5, api_versions.ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, ()))
    header, _ = decode_request_header(1, frame)
    assert header == RequestHeader(18, version, 5, "me")
    answer = api_versions.ApiVersionsResponse(
        ErrorCode.UNSUPPORTED_VERSION, (api_versions.ApiVersion(api.key, *api.versions),)
    )
    sent = api.response_frame(0, header.correlation_id, answer)
    for asked in range(5):
        assert api.parse_response(asked, sent[4:]) == (5, answer)


def test_a_frame_has_no_more_bytes_than_its_size_can_say(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = heartbeat.HeartbeatResponse()
    size = len(heartbeat.API.response_frame(4, 9, answer)) - 4
    monkeypatch.setattr("protocol.api._MAX_FRAME", size)
    heartbeat.API.response_frame(4, 9, answer)
    monkeypatch.setattr("protocol.api._MAX_FRAME", size - 1)
    with pytest.raises(EncodeError, match=f"the frame takes {size} bytes"):
        heartbeat.API.response_frame(4, 9, answer)
    with pytest.raises(EncodeError, match="HeartbeatRequest: the frame takes"):
        heartbeat.API.request_frame(4, 9, "me", heartbeat.HeartbeatRequest("g", 1, "m"))


def test_the_largest_size_is_an_int32() -> None:
    assert protocol.api._MAX_FRAME == 2**31 - 1


def test_keys_and_names_are_kafkas() -> None:
    assert [int(key) for key in ApiKey] == list(range(93))
    for key, api in APIS.items():
        assert api.key == key
        assert ApiKey(key).name.replace("_", "") == api.name.upper()
