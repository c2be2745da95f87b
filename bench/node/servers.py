"""Starts the compared servers, each with its own folder, port and configuration, and stops them by pid."""

import base64
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from slow_origin import COUNTS_PATH
from tools import fail

ACCESS_KEY, SECRET_KEY = "benchmark", "benchmark-secret"
BUCKET = "bench"
STARTUP_SECONDS = 20
MEMORY = "1GiB"
# A node is settled once its counters have not changed for this long.
QUIET_SECONDS = 0.25
SETTLE_SECONDS = 60


def _environment():
    """Returns our environment without variables that would change the servers' configuration."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "STYLOBATE_"))}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _cpu_seconds(pid):
    # The fields after the name, which may contain spaces; fields 14 and 15 of proc(5): user and system.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Server:
    """A process that listens on a port. Use as a context manager."""

    def __init__(self, name, command, port, folder, environment=None):
        self.name, self.port = name, port
        self.log = Path(folder) / f"{name}-{port}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=_environment() | (environment or {}), cwd=folder)
        self._await_port()

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    def _await_port(self):
        until = time.monotonic() + STARTUP_SECONDS
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        self.stop()
        fail(f"{self.name} did not start:\n{self.log.read_text(errors='replace')[-2000:]}")

    def _pids(self):
        """Returns the pids of the process and its workers."""
        pid = self.process.pid
        return [pid, *Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def cpu_seconds(self):
        """Returns the processor time used so far."""
        return sum(_cpu_seconds(pid) for pid in self._pids())

    def device_bytes(self):
        """Returns the bytes read from block devices so far, that is, past the page cache."""
        shown = [Path(f"/proc/{pid}/io").read_text() for pid in self._pids()]
        return sum(int(re.search(r"^read_bytes: (\d+)$", text, re.MULTILINE).group(1)) for text in shown)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def s3_origin(programs, folder, root):
    """Starts a real S3 server over a folder; its one bucket is `BUCKET`."""
    (root / BUCKET).mkdir(parents=True)
    port = free_port()
    return Server("s3s-fs", [
        programs["s3s-fs"], "--host", "127.0.0.1", "--port", port,
        "--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY, root,
    ], port, folder)


class Node(Server):
    """A storage node that serves `bucket` from `origin`, a URL or a folder. Requests and bytes are counted since its
    start; `signed` enables verification of signatures."""

    # Configured memory and peak resident size in bytes of each stopped node.
    peaks = []

    def __init__(self, programs, folder, bucket, origin, signed=False, memory=MEMORY, flight="off", more=(),
                 environment=None):
        port, self.admin = free_port(), free_port()
        self.signed, self.memory, self.flight = signed, memory, flight
        command = [
            programs["stylobate"], "serve", "--origin", f"{bucket}={origin}",
            "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{self.admin}", "--flight", flight,
            "--memory", memory, "--log", "warn", *more,
        ]
        if signed:
            command += ["--access-key", f"{ACCESS_KEY}:{SECRET_KEY}"]
        super().__init__("stylobate-signed" if signed else "stylobate", command, port, folder, environment)

    def document(self, path="/api/stats"):
        """Returns the statistics of the admin door, or the document at another path."""
        return self._ask("GET", path)

    def post(self, path):
        """Sends a request without settings to the admin door."""
        return self._ask("POST", path, "{}", {"Content-Type": "application/json"})

    def _ask(self, method, path, body=None, headers=None):
        headers = dict(headers or {})
        if self.signed:
            token = base64.b64encode(f"{ACCESS_KEY}:{SECRET_KEY}".encode()).decode()
            headers["Authorization"] = f"Basic {token}"
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=10)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status != 200:
            fail(f"{path} answered {answer.status}")
        return json.loads(body)

    def stats(self):
        """Returns the read counters of the bucket so far."""
        return self.document()["buckets"][0]["reads"]

    def origin_requests(self):
        reads = self.stats()
        return reads["origin_gets"] + reads["origin_heads"]

    def origin_bytes(self):
        """Returns the bytes received from the origin so far, cached or not."""
        reads = self.stats()
        return reads["bytes_origin"] + reads["bytes_passed_through"]

    def settle(self):
        """Waits until no fetch is in flight and nothing is being written to the disk tier."""
        until = time.monotonic() + SETTLE_SECONDS
        before, since = None, 0.0
        while time.monotonic() < until:
            shown = self.document()
            reads = shown["buckets"][0]["reads"]
            now = (reads["bytes_origin"], reads["bytes_passed_through"], shown["cache"]["disk_written"])
            if now != before or reads["in_flight"]:
                before, since = now, time.monotonic()
            elif time.monotonic() - since > QUIET_SECONDS:
                return
            time.sleep(0.02)
        fail(f"the node did not settle in {SETTLE_SECONDS} s")

    def peak_resident_bytes(self):
        """Returns `VmHWM` of proc(5); `None` once the process has exited."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return None
        # A zombie has no memory.
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        return int(found.group(1)) << 10 if found else None

    def stop(self):
        self._note_peak()
        super().stop()

    def kill(self):
        """Kills the process. A clean stop would let a node of a cluster serve its peers for a while."""
        self._note_peak()
        self.process.kill()
        self.process.wait()

    def _note_peak(self):
        if self.process.poll() is None and (peak := self.peak_resident_bytes()) is not None:
            self.peaks.append((size_bytes(self.memory), peak))


def size_bytes(text):
    """Parses `64MiB` into a number."""
    number, unit = re.fullmatch(r"(\d+)(KiB|MiB|GiB)", text).groups()
    return int(number) << {"KiB": 10, "MiB": 20, "GiB": 30}[unit]


def s3_node(programs, folder, bucket, origin_port, more=(), **options):
    """Starts a node in front of the S3 server at `origin_port`."""
    return Node(programs, folder, bucket, f"s3://{bucket}", more=[
        "--option", f"endpoint=http://127.0.0.1:{origin_port}", "--option", "allow_http=true",
        "--option", f"access_key_id={ACCESS_KEY}", "--option", f"secret_access_key={SECRET_KEY}",
        "--option", "region=us-east-1", *more,
    ], **options)


def cachey(programs, folder, origin_port, memory=MEMORY, disk=None, disk_capacity=None):
    """Starts cachey in front of the origin, in memory only unless `disk` is a folder. It always listens on all
    addresses."""
    port = free_port()
    command = [programs["cachey"], "--memory", memory, "--port", port]
    if disk:
        command += ["--disk-path", disk, "--disk-kind", "fs", "--disk-capacity", disk_capacity]
    return Server("cachey", command, port, folder, {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{origin_port}", "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_EC2_METADATA_DISABLED": "true", "RUST_LOG": "warn",
    })


NGINX = """
daemon off;
{user}
worker_processes auto;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile on;
    # With it, the last packet of a slice waits 40 ms for the client's acknowledgement.
    tcp_nopush off;
    tcp_nodelay on;
    keepalive_requests 100000000;
    open_file_cache max=4096 inactive=1h;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{http}
}}
"""

NGINX_CACHE = """
    proxy_cache_path {folder}/cache levels=1:2 keys_zone=pages:16m max_size={capacity} inactive=1d use_temp_path=off;
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        {reads}
        location = {path} {{
            slice 1m;
            proxy_cache pages;
            proxy_cache_key $uri$slice_range;
            proxy_cache_valid 200 206 1d;
            proxy_cache_lock on;
            proxy_set_header Range $slice_range;
            proxy_http_version 1.1;
            proxy_pass http://127.0.0.1:{origin_port}{signed_path};
            add_header X-Cache-Status $upstream_cache_status;
        }}
    }}
"""

NGINX_FILES = """
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        root {root};
        if ($args ~ list-type=2) {{
            rewrite ^ /listing last;
        }}
        location = /listing {{
            internal;
            default_type application/xml;
            return 200 '{listing}';
        }}
    }}
"""
# A node lists the bucket when it starts, to check that it is accessible.
LISTING = '<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>'


def start_nginx(programs, folder, name, http):
    home = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder))
    if os.geteuid() == 0:
        user = "user root;"
    else:
        user = ""
    port = free_port()
    configuration = home / "nginx.conf"
    configuration.write_text(NGINX.format(user=user, folder=home, http=http(home, port)))
    command = [programs["nginx"], "-p", home, "-c", configuration, "-e", home / "error.log"]
    return Server(name, command, port, home)


def nginx_cache(programs, folder, origin_port, path, signed_path, capacity="1g", direct=False):
    """Starts nginx in front of the origin: a cache of 1 MiB slices. It cannot sign, so it gets a presigned URL. With
    `direct` it reads slices with direct I/O, in threads."""
    reads = "directio 1; aio threads;" if direct else ""
    return start_nginx(programs, folder, "nginx-direct" if direct else "nginx", lambda home, port: NGINX_CACHE.format(
        folder=home, port=port, path=path, origin_port=origin_port, signed_path=signed_path, capacity=capacity,
        reads=reads))


def nginx_files(programs, folder, root):
    """Starts nginx as an origin of files: it supports ETags, ranges and If-Match, and costs next to nothing. Its
    listings are empty."""
    return start_nginx(
        programs, folder, "files", lambda _, port: NGINX_FILES.format(port=port, root=root, listing=LISTING))


class SinkOrigin(Server):
    """An origin that discards what it receives, see `sink_origin.py`."""

    def __init__(self, folder, megabytes_per_second):
        self.name = "sink"
        self.log = Path(folder) / "sink-origin.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("sink_origin.py")),
                 "--megabytes-per-second", str(megabytes_per_second)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        self.port = int(self.process.stdout.readline())


class SlowOrigin(Server):
    """The origin at `port`, slowed down, see `slow_origin.py`."""

    def __init__(self, folder, upstream, delay_ms, connection_mb=0, total_mb=0):
        self.name = "slow-origin"
        self.log = Path(folder) / "slow-origin.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("slow_origin.py")), "--upstream", str(upstream),
                 "--delay-ms", str(delay_ms), "--connection-mb", str(connection_mb), "--total-mb", str(total_mb)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        if not line:
            fail(f"the slow origin did not start:\n{self.log.read_text()}")
        self.port = int(line)

    def counts(self):
        """Returns the requests by kind, and the body bytes, that the origin has sent so far."""
        connection = http.client.HTTPConnection(self.host, timeout=10)
        connection.request("GET", COUNTS_PATH)
        counts = json.loads(connection.getresponse().read())
        connection.close()
        return counts
