"""The `OTEL_*` variables: what each does, and what a wrong value says."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from penstock.errors import ConfigError
from penstock.gateway.telemetry.otel.variables import OtelVariables, OtlpEndpoint, read_variables
from tests.net.certificates import certificate_files

BASE = "OTEL_EXPORTER_OTLP"


def read(**environment: str) -> OtelVariables:
    return read_variables(environment)


def endpoint(signal: str = "traces", **environment: str) -> OtlpEndpoint:
    return read(**environment).endpoints[signal]  # type: ignore[index]


def test_without_variables_there_are_the_defaults_of_the_specification() -> None:
    found = read()
    assert {signal: each.url for signal, each in found.endpoints.items()} == {
        "traces": "http://localhost:4318/v1/traces",
        "metrics": "http://localhost:4318/v1/metrics",
    }
    assert found.endpoints["traces"] == OtlpEndpoint(url="http://localhost:4318/v1/traces")
    assert (found.queue, found.batch, found.span_delay, found.metric_interval) == (2048, 512, 5.0, 60.0)
    assert not found.is_disabled
    assert found.resource == {}


def test_an_empty_variable_is_not_set() -> None:
    assert (
        read(OTEL_TRACES_SAMPLER="", OTEL_SDK_DISABLED=" ", **{f"{BASE}_ENDPOINT": ""}).endpoints
        == read().endpoints
    )


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({f"{BASE}_ENDPOINT": "http://c:1"}, "http://c:1/v1/traces"),
        ({f"{BASE}_ENDPOINT": "https://c/otlp/"}, "https://c/otlp/v1/traces"),
        ({f"{BASE}_ENDPOINT": "HTTP://c/?key=1"}, "http://c/v1/traces?key=1"),
        ({f"{BASE}_TRACES_ENDPOINT": "http://c:1/as/is/"}, "http://c:1/as/is/"),
        ({f"{BASE}_TRACES_ENDPOINT": "http://t", f"{BASE}_ENDPOINT": "http://c"}, "http://t"),
        ({f"{BASE}_METRICS_ENDPOINT": "http://m"}, "http://localhost:4318/v1/traces"),
    ],
)
def test_the_endpoint_of_traces(environment: dict[str, str], url: str) -> None:
    assert endpoint(**environment).url == url


def test_a_signal_can_have_settings_of_its_own(tmp_path: Path) -> None:
    ca_file, _ = certificate_files(trustme.CA(), tmp_path, "c")
    common = {
        f"{BASE}_HEADERS": "Authorization=Bearer%20a,x-b = 1%2C2 ,",
        f"{BASE}_TIMEOUT": "2500",
        f"{BASE}_COMPRESSION": "gzip",
        f"{BASE}_PROTOCOL": "http/json",
        f"{BASE}_CERTIFICATE": ca_file,
        f"{BASE}_METRICS_TIMEOUT": "1",
        f"{BASE}_METRICS_COMPRESSION": "none",
        f"{BASE}_METRICS_HEADERS": "x=y",
        f"{BASE}_METRICS_PROTOCOL": "http/protobuf",
    }
    traces, metrics = endpoint(**common), endpoint("metrics", **common)
    assert traces.headers == {"authorization": "Bearer a", "x-b": "1,2"}
    assert (traces.timeout, traces.is_compressed, traces.protocol) == (2.5, True, "http/json")
    assert traces.ca_file == metrics.ca_file == ca_file
    assert (metrics.timeout, metrics.is_compressed, metrics.protocol) == (0.001, False, "http/protobuf")
    assert metrics.headers == {"x": "y"}


def test_a_signal_can_be_left_out() -> None:
    assert set(read(OTEL_TRACES_EXPORTER="none").endpoints) == {"metrics"}
    assert set(read(OTEL_TRACES_EXPORTER="otlp", OTEL_METRICS_EXPORTER="none").endpoints) == {"traces"}


def test_the_service_name_comes_before_the_resource_attributes() -> None:
    found = read(
        OTEL_RESOURCE_ATTRIBUTES="service.name=a,deployment.environment.name=pr%20od", OTEL_SERVICE_NAME="b"
    )
    assert found.resource == {"service.name": "b", "deployment.environment.name": "pr od"}
    assert read(OTEL_RESOURCE_ATTRIBUTES="service.name=a").resource == {"service.name": "a"}


def test_the_limits_of_the_queue() -> None:
    found = read(
        OTEL_BSP_MAX_QUEUE_SIZE="100",
        OTEL_BSP_MAX_EXPORT_BATCH_SIZE="512",
        OTEL_BSP_SCHEDULE_DELAY="50",
        OTEL_METRIC_EXPORT_INTERVAL="1000",
        OTEL_SDK_DISABLED="TRUE",
    )
    assert (found.queue, found.batch, found.span_delay, found.metric_interval) == (100, 100, 0.05, 1.0)
    assert found.is_disabled


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (f"{BASE}_ENDPOINT", "localhost:4318", "must be a URL that starts with http:// or https://"),
        (f"{BASE}_ENDPOINT", "http://", "must be a URL"),
        (f"{BASE}_ENDPOINT", "http://[", "is not a URL"),
        (f"{BASE}_ENDPOINT", "http://a:x", "is not a URL"),
        (f"{BASE}_ENDPOINT", "http://a/ b", "percent-encoded"),
        (f"{BASE}_TRACES_ENDPOINT", "http://user:planted@a", "use OTEL_EXPORTER_OTLP_HEADERS"),
        (f"{BASE}_PROTOCOL", "grpc", "usually 4318"),
        (f"{BASE}_METRICS_PROTOCOL", "http", "protocol"),
        (f"{BASE}_COMPRESSION", "zip", "compression"),
        (f"{BASE}_TIMEOUT", "10s", "a number of milliseconds"),
        (f"{BASE}_TIMEOUT", "0", "a number of milliseconds"),
        (f"{BASE}_HEADERS", "planted", "pair 1 is not one"),
        (f"{BASE}_HEADERS", "a=1,=planted", "pair 2 is not one"),
        (f"{BASE}_HEADERS", "a=%0Aplanted", "must be one line"),
        (f"{BASE}_METRICS_HEADERS", "a b=planted", "must be one line"),
        (f"{BASE}_CERTIFICATE", "/no/such/file", "cannot be used"),
        (f"{BASE}_CLIENT_KEY", "/no/such/file", "requires client_cert"),
        ("OTEL_TRACES_EXPORTER", "console", "exporter"),
        ("OTEL_TRACES_SAMPLER", "always", "did you mean always_on"),
        ("OTEL_TRACES_SAMPLER_ARG", "2", "from 0 to 1"),
        ("OTEL_TRACES_SAMPLER_ARG", "half", "from 0 to 1"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "a whole number"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1.5", "a number of milliseconds"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name", "NAME=VALUE"),
    ],
)
def test_a_wrong_value_is_named_and_no_secret_is_shown(name: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(**{name: value})
    assert str(caught.value).startswith(f"{name}: ")
    assert says in str(caught.value)
    assert "planted" not in str(caught.value)


def test_an_endpoint_shows_no_secret() -> None:
    found = endpoint(**{f"{BASE}_ENDPOINT": "http://c/?key=planted", f"{BASE}_HEADERS": "a=planted"})
    assert "planted" not in f"{found!r} {found.shown}"
    assert found.shown == "http://c/v1/traces"
    assert found.address.query == "key=planted"


@pytest.mark.parametrize(("url", "port"), [("http://c", 80), ("https://c", 443), ("https://c:8443", 8443)])
def test_the_port_of_an_address(url: str, port: int) -> None:
    found = endpoint(**{f"{BASE}_ENDPOINT": url}).address
    assert (found.host, found.port) == ("c", port)
