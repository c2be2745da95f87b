"""Headless Chromium, and the sites whose pages it opens: a page runs a script and sends the outcome back to its site."""

from __future__ import annotations

import functools
import http.server
import json
import os
import queue
import shutil
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from servers import Server, environment, target, wait_for

TIMEOUT = 120.0
UNPACKED = target() / "tools" / "debian" / "chromium-headless-shell"
PACKAGES = target() / "browser"
PROGRAMS = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]

# A script is the body of an async function. Its return value, or exception, is sent back as JSON.
PAGE = """<!doctype html>
<script type="importmap">{imports}</script>
<script type="module">
const answer = outcome => fetch("/outcome", {{ method: "POST", body: JSON.stringify(outcome) }});
const run = async () => {{
{script}
}};
try {{
  await answer({{ value: (await run()) ?? null }});
}} catch (error) {{
  await answer({{ thrown: error.name, message: error.message }});
}}
</script>
"""


class Thrown(Exception):
    """An exception thrown by a page's script: the name of the error, such as `TypeError`, and its message."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class Chromium(Server):
    """A headless browser, controlled through its DevTools port."""

    def __init__(self, folder: Path, *flags: str) -> None:
        folder.mkdir(parents=True)
        profile = folder / "profile"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"]
        options += ["--remote-debugging-port=0", f"--user-data-dir={profile}"]
        program, libraries = _program()
        env = environment(**({"LD_LIBRARY_PATH": libraries} if libraries else {}))
        super().__init__([program, *options, *flags, "about:blank"], folder / "chromium.log", env)
        told = profile / "DevToolsActivePort"
        port = wait_for("Chromium", lambda: self._alive() and told.is_file() and told.read_text().split("\n")[0], TIMEOUT)
        self.tools = f"http://127.0.0.1:{port}"

    def _alive(self) -> bool:
        assert self.running(), self.log()
        return True

    def open(self, url: str) -> str:
        """Opens a page in a tab of its own, and returns the tab's id."""
        request = urllib.request.Request(f"{self.tools}/json/new?{url}", method="PUT")
        return json.load(urllib.request.urlopen(request, timeout=TIMEOUT))["id"]

    def close(self, tab: str) -> None:
        urllib.request.urlopen(f"{self.tools}/json/close/{tab}", timeout=TIMEOUT).read()


def _program() -> tuple[str, str]:
    """Returns the browser, and its library folders if it was only unpacked."""
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found, ""
    unpacked = UNPACKED / "usr" / "lib" / "chromium" / "chromium-headless-shell"
    if not unpacked.is_file():
        assert os.environ.get("CI") != "true", "no Chromium: make test-clients-all unpacks it"
        pytest.skip("no Chromium: make test-clients-all unpacks it")
    libraries = {str(file.parent) for file in UNPACKED.glob("usr/lib/*-linux-*/**/*.so*")}
    return str(unpacked), ":".join(sorted(libraries))


class Site:
    """A web server with its own origin. Its pages may import modules from a folder."""

    def __init__(self, browser: Chromium, host: str = "127.0.0.1", folder: Path | None = None) -> None:
        self.browser = browser
        self.page = b""
        self.outcomes: queue.Queue[dict[str, Any]] = queue.Queue()
        handler = functools.partial(_Handler, self, directory=str(folder or os.devnull))
        self.server = _Server(("127.0.0.1", 0), handler)
        self.origin = f"http://{host}:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def run(self, script: str, imports: dict[str, str] | None = None, **values: Any) -> Any:
        """Opens a page that runs a script with the given named values, and returns its result."""
        given = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in values.items())
        self.page = PAGE.format(imports=json.dumps({"imports": imports or {}}), script=given + script).encode()
        tab = self.browser.open(f"{self.origin}/page")
        try:
            outcome = self.outcomes.get(timeout=TIMEOUT)
        except queue.Empty:
            raise AssertionError(f"the page said nothing: {self.browser.log()[-4000:]}") from None
        finally:
            self.browser.close(tab)
        if "thrown" in outcome:
            raise Thrown(outcome["thrown"], outcome["message"])
        return outcome["value"]

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores connections broken by closed tabs."""


class _Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, site: Site, *args: Any, **options: Any) -> None:
        self.site = site
        super().__init__(*args, **options)

    def do_GET(self) -> None:
        if self.path != "/page":
            return super().do_GET()
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(self.site.page)))
        self.send_header("cache-control", "no-store")
        self.end_headers()
        self.wfile.write(self.site.page)

    def do_POST(self) -> None:
        self.site.outcomes.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: the tests' assertions are enough."""
