"""A real headless Chromium, driven over its DevTools protocol: a page, its console, its requests, its pixels."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-extensions"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    *("--disable-default-apps", "--no-default-browser-check", "--metrics-recording-only", "--mute-audio"),
    *("--hide-scrollbars", "--remote-debugging-port=0", "--remote-allow-origins=*"),
)
PATIENCE_SECONDS = 180.0


class Browser:
    """One page. `errors` are uncaught exceptions and console errors, `requests` the addresses that were asked for."""

    def __init__(self, profile: Path):
        import websocket

        self.errors: list[str] = []
        self.requests: list[str] = []
        self._number = 0
        self._process = subprocess.Popen(
            [PROGRAM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port = self._port(profile / "DevToolsActivePort")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=30) as answer:
                target = next(page for page in json.load(answer) if page["type"] == "page")
            self._socket = websocket.create_connection(target["webSocketDebuggerUrl"], timeout=PATIENCE_SECONDS)
        except BaseException:
            self._end()
            raise
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params):
        """One command of the protocol; events that come before its answer are taken in."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._take_in(message)

    def open(self, url: str, ready: str = "document.body?.dataset.ready === 'yes'") -> None:
        """Load a page and wait until it is `ready`."""
        self.errors, self.requests = [], []
        self.call("Page.navigate", url=url)
        self.wait(ready)

    def run(self, script: str):
        """The value of a JavaScript expression; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{script}: {result['exceptionDetails']['exception'].get('description')}")
        return result["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until a JavaScript expression is true."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.run(condition):
            if time.monotonic() > deadline:
                raise AssertionError(f"not so within {PATIENCE_SECONDS:.0f} s: {condition}; {self.errors}")
            time.sleep(0.05)

    def size(self, width: int, height: int) -> None:
        """The window, as on a telephone or a desk."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def dark(self, dark: bool) -> None:
        """What the system prefers."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def move(self, x: float, y: float) -> None:
        """The mouse to a place of the window."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        """A key, to whatever has the focus."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def picture(self, path: Path | None = None, whole: bool = False) -> bytes:
        """A PNG of the window, or of the whole page."""
        image = self.call("Page.captureScreenshot", captureBeyondViewport=whole, format="png")
        pixels = base64.b64decode(image["data"])
        if path is not None:
            path.write_bytes(pixels)
        return pixels

    def close(self) -> None:
        self._socket.close()
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _port(self, file: Path) -> int:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (file.exists() and file.read_text().strip()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("chromium did not start")
            time.sleep(0.05)
        return int(file.read_text().split()[0])

    def _take_in(self, message: dict) -> None:
        params = message.get("params", {})
        if message["method"] == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif message["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(part.get("value", part.get("description"))) for part in params["args"]))
        elif message["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif message["method"] == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
