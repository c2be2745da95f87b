"""A tab of Chromium over the DevTools protocol: evaluates scripts, presses keys, takes screenshots, records every error."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

TIMEOUT = 60.0

# Keys by name: the Windows key code, and the text that they type.
KEYS = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    "End": (35, ""),
    "Home": (36, ""),
    "ArrowLeft": (37, ""),
    "ArrowRight": (39, ""),
    " ": (32, " "),
}


class WebSocket:
    """A client of RFC 6455, as far as DevTools needs it."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=TIMEOUT)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.read = b""
        while b"\r\n\r\n" not in self.read:
            self._more()
        head, _, self.read = self.read.partition(b"\r\n\r\n")
        assert b" 101 " in head.split(b"\r\n")[0], head

    def _more(self) -> None:
        data = self.socket.recv(1 << 16)
        assert data, "the browser closed the connection"
        self.read += data

    def _take(self, size: int) -> bytes:
        while len(self.read) < size:
            self._more()
        taken, self.read = self.read[:size], self.read[size:]
        return taken

    def send(self, text: str) -> None:
        data = text.encode()
        mask = os.urandom(4)
        size = len(data)
        head = bytes([0x81]) + (bytes([0x80 | size]) if size < 126 else bytes([0xFE]) + struct.pack(">H", size)
                                if size < 1 << 16 else bytes([0xFF]) + struct.pack(">Q", size))
        self.socket.sendall(head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(data)))

    def receive(self) -> str:
        message = b""
        while True:
            first, second = self._take(2)
            size = second & 0x7F
            if size == 126:
                [size] = struct.unpack(">H", self._take(2))
            elif size == 127:
                [size] = struct.unpack(">Q", self._take(8))
            data = self._take(size)
            if first & 0x0F in (0, 1):
                message += data
                if first & 0x80:
                    return message.decode()

    def close(self) -> None:
        self.socket.close()


class Tab:
    """A browser tab. `errors` has the exceptions of its scripts, and errors and warnings of the console."""

    def __init__(
        self, tools: str, url: str, width: int = 1280, height: int = 900, headers: dict[str, str] | None = None
    ) -> None:
        request = urllib.request.Request(f"{tools}/json/new?about:blank", method="PUT")
        target = json.load(urllib.request.urlopen(request, timeout=TIMEOUT))
        self.tools, self.id = tools, target["id"]
        self.connection = WebSocket(target["webSocketDebuggerUrl"])
        self.last = 0
        self.errors: list[str] = []
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")
        self.size(width, height)
        if headers:
            self.call("Network.setExtraHTTPHeaders", headers=headers)
        self.call("Page.navigate", url=url)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.last += 1
        self.connection.send(json.dumps({"id": self.last, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.connection.receive())
            self._note(message)
            if message.get("id") == self.last:
                assert "error" not in message, (method, message)
                return message["result"]

    def _note(self, message: dict[str, Any]) -> None:
        said = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                details = said["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details["text"]))
            case "Runtime.consoleAPICalled" if said["type"] in ("error", "warning", "assert"):
                self.errors.append(" ".join(str(value.get("value", value)) for value in said["args"]))
            case "Log.entryAdded" if said["entry"]["level"] in ("error", "warning"):
                self.errors.append(f"{said['entry']['text']} {said['entry'].get('url', '')}")

    def evaluate(self, expression: str) -> Any:
        """Returns the value of an expression; awaits it if it is a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Waits until an expression is true."""
        deadline = time.monotonic() + TIMEOUT / 2
        while not self._holds(expression):
            assert time.monotonic() < deadline, (expression, self.errors)
            time.sleep(0.05)

    def _holds(self, expression: str) -> bool:
        # Elements are missing while a page is loading.
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return bool("exceptionDetails" not in answer and answer["result"].get("value"))

    def press(self, key: str, shift: bool = False, control: bool = False) -> None:
        code, text = KEYS[key]
        name = "Space" if key == " " else key
        modifiers = 8 * shift + 2 * control
        common = {"key": key, "code": name, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def size(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def colours(self, scheme: str) -> None:
        """Sets the preferred color scheme, `light` or `dark`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path: Path) -> None:
        """Writes a screenshot of the whole page as PNG."""
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    def close(self) -> None:
        self.connection.close()
        urllib.request.urlopen(f"{self.tools}/json/close/{self.id}", timeout=TIMEOUT).read()
