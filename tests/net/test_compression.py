"""The libraries that decompress bodies."""

from __future__ import annotations

import pytest

from penstock.net import compression, encodings
from penstock.net.compression import zstd_decoder, zstd_library
from penstock.net.encodings import decoder_for
from penstock.net.network_errors import UndecodableBody, disconnected


def test_a_decoder_of_zstd_refuses_a_window_beyond_the_limit() -> None:
    zstd = zstd_library()
    for window_log, is_refused in ((compression.WINDOW_LOG, False), (compression.WINDOW_LOG + 1, True)):
        encoder = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: window_log})
        data = encoder.compress(b"text") + encoder.flush()
        if is_refused:
            with pytest.raises(zstd.ZstdError):
                zstd_decoder().decompress(data)
        else:
            assert zstd_decoder().decompress(data) == b"text"


def test_without_brotli_an_answer_is_refused_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encodings, "has_brotli", lambda: False)
    decoder = decoder_for("br")
    assert decoder is not None
    decoder.feed(b"anything")
    with pytest.raises(UndecodableBody) as caught:
        decoder.read()
    assert "pip install 'penstock[brotli]'" in str(disconnected(caught.value, "example.com"))
