import struct

import pytest

import protocol.api
from protocol.apis import APIS, ApiKey
from protocol.errors import DecodeError, EncodeError
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
