"""The scripted upstream and the load generator, which are C programs: compile, start and use them."""

from __future__ import annotations

import glob
import http.client
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

SOURCES = Path(__file__).parent
BUILD = SOURCES.parent.parent / "build" / "bench"
TICKS = os.sysconf("SC_CLK_TCK")

INSTRUMENT, SERVER = 5, 1
"""Real-time priorities. The instruments must never wait for a server, nor either for other programs."""


class LabError(Exception):
    """The instruments cannot be built or a server cannot be started here."""


class Window(msgspec.Struct):
    """What happened while all streams were open."""

    ms: float
    deltas: int
    cpu_ms: float
    memory_kb: int
    open: int
    """How many streams had begun and not ended when the window closed."""


class Load(msgspec.Struct):
    """The result of one run of the load generator. Three numbers are the median, the 99th percentile and the
    maximum; -1 if there are none."""

    good: int
    bad: int
    unfinished: int
    wall_ms: float
    cpu_ms: float
    deltas: int
    first_event_ms: tuple[float, float, float]
    first_text_ms: tuple[float, float, float]
    total_ms: tuple[float, float, float]
    lag_ms: tuple[float, float, float]
    marks: list[float]
    first_error: str
    window: Window | None = None
    system_share: float = 0.0
    """The part of the CPU time that was spent in the kernel."""

    @property
    def lost(self) -> int:
        return self.bad + self.unfinished

    def checked(self) -> Load:
        """Raise if a stream was not complete and lawful: its cost would mean nothing."""
        if self.lost or not self.good:
            raise RuntimeError(f"{self.lost} streams failed, {self.good} succeeded: {self.first_error}")
        return self


def build() -> None:
    """Compile what is missing or out of date. Without OpenSSL's headers, the upstream has no TLS."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    newest = max(path.stat().st_mtime for path in SOURCES.glob("*.[ch]"))
    BUILD.mkdir(parents=True, exist_ok=True)
    for name, variants in (
        ("upstream", (["-DWITH_TLS", "-lssl", "-lcrypto"], [])),
        ("loadgen", ([],)),
    ):
        target = BUILD / name
        if target.exists() and target.stat().st_mtime > newest:
            continue
        if compiler is None:
            raise LabError("the benchmarks need a C compiler (cc, gcc or clang) on the PATH")
        for options in variants:
            command = [compiler, "-O2", "-o", str(target), str(SOURCES / f"{name}.c"), *options]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0:
                break
        else:
            raise LabError(f"{name}.c does not compile:\n{done.stderr}")


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    parents = {}
    for entry in glob.glob("/proc/[0-9]*/stat"):
        with suppress(OSError):
            fields = Path(entry).read_text().rpartition(")")[2].split()
            parents[int(entry.split("/")[2])] = int(fields[1])
    found = [pid]
    for each in found:  # grows while it is read
        found += [child for child, parent in parents.items() if parent == each]
    return found


def set_priority(pids: Sequence[int], priority: int) -> bool:
    """Give every thread a real-time priority; 0 is the ordinary one. Return whether it was allowed."""
    policy = os.SCHED_RR if priority else os.SCHED_OTHER
    try:
        for pid in pids:
            for task in os.listdir(f"/proc/{pid}/task"):
                os.sched_setscheduler(int(task), policy, os.sched_param(priority))
    except OSError:
        return False
    return True


def has_priorities() -> bool:
    """Whether this process may give real-time priorities."""
    own = [os.getpid()]
    return set_priority(own, SERVER) and set_priority(own, 0)


def memory_kb(pids: Sequence[int], kind: str = "Rss") -> int:
    """Return the resident memory of processes, or `Pss`, which counts shared pages in part."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(f"{kind}:"):
                total += int(line.split()[1])
    return total


def _cpu_ticks(pids: Sequence[int]) -> tuple[int, int]:
    """Return user and system time."""
    user = system = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        user, system = user + int(fields[11]), system + int(fields[12])
    return user, system


def cpu_ms(pids: Sequence[int]) -> float:
    """Return the CPU time that the threads of processes have used, more exactly than in ticks."""
    total = 0
    for pid in pids:
        for file in glob.glob(f"/proc/{pid}/task/*/schedstat"):
            total += int(Path(file).read_text().split()[0])
    return total / 1e6


@dataclass(frozen=True)
class Certificate:
    chain: Path
    key: Path
    authority: Path


def certificate(folder: Path) -> Certificate:
    """Write a certificate for 127.0.0.1."""
    import trustme

    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    made = Certificate(folder / "chain.pem", folder / "key.pem", folder / "authority.pem")
    made.chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    made.key.write_bytes(issued.private_key_pem.bytes())
    authority.cert_pem.write_to_path(str(made.authority))
    return made


@contextmanager
def upstream(tls: Certificate | None = None) -> Iterator[str]:
    """Run a scripted upstream; yield its URL."""
    options = [str(tls.chain), str(tls.key)] if tls else []
    command = [str(BUILD / "upstream"), "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        port = process.stdout.readline().strip()
        if not port:
            raise LabError(process.stderr.read().strip())
        set_priority([process.pid], INSTRUMENT)
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@contextmanager
def loading(port: int, pids: Sequence[int], spec: str, body: bytes, *options: object) -> Iterator[list[Load]]:
    """Run the load generator while the `with` block runs; the list has its result afterwards."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(body)
        file.flush()
        command = [str(BUILD / "loadgen"), "-p", str(port), "-b", file.name, "-s", spec, *map(str, options)]
        if pids:
            command += ["-P", ",".join(map(str, pids))]
        before = _cpu_ticks(pids)
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        set_priority([process.pid], INSTRUMENT)
        results: list[Load] = []
        try:
            yield results
            output = process.communicate()[0]
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        raise RuntimeError(f"the load generator failed: {' '.join(command)}")
    result = msgspec.json.decode(output, type=Load)
    user, system = (b - a for a, b in zip(before, _cpu_ticks(pids), strict=True))
    result.system_share = system / max(1, user + system)
    results.append(result)


def post(port: int, body: bytes) -> None:
    """Make one request and read its answer to the end."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/v1/responses", body, {"content-type": "application/json"})
        answer = connection.getresponse().read()
        if b"response.completed" not in answer:
            raise RuntimeError(f"a turn failed: {answer[-300:].decode(errors='replace')}")
    finally:
        connection.close()


def load(port: int, pids: Sequence[int], spec: str, body: bytes, *options: object) -> Load:
    """Run the load generator to its end."""
    with loading(port, pids, spec, body, *options) as results:
        pass
    return results[0]
