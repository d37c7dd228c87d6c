"""Drives a real headless Chromium over its debugging pipe: no driver, no port, no download."""

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--remote-debugging-pipe",
)


def _pipe() -> tuple[int, int]:
    """Both ends out of the way of descriptors 3 and 4."""
    import fcntl  # Windows has none, and imports this module

    low = os.pipe()
    high = fcntl.fcntl(low[0], fcntl.F_DUPFD_CLOEXEC, 10), fcntl.fcntl(low[1], fcntl.F_DUPFD_CLOEXEC, 10)
    for end in low:
        os.close(end)
    return high


class Chromium:
    """One browser with one tab; remembers what the console said and what was requested."""

    def __init__(self, program: str, home: Path) -> None:
        read_commands, self._commands = _pipe()
        self._answers, write_answers = _pipe()
        # Chromium reads commands from descriptor 3 and writes answers to 4.
        start = f'exec "$@" 3<&{read_commands} 4>&{write_answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", start, "bash", program, *FLAGS, f"--user-data-dir={home}/profile", "about:blank"],
            pass_fds=(read_commands, write_answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(home)},
        )
        os.close(read_commands)
        os.close(write_answers)
        self._buffer, self._number, self._session = b"", 0, ""
        self.said: list[str] = []
        self.requested: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                return dict(message["result"])

    def open(self, path: Path) -> None:
        self.said.clear()
        self.requested.clear()
        self.call("Page.navigate", url=path.as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def run(self, script: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def key(self, key: str, code: int, text: str = "") -> None:
        facts = {"key": key, "code": key if key != " " else "Space", "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **facts)
        self.call("Input.dispatchKeyEvent", type="keyUp", **facts)

    def screen(self, *, width: int = 1100, dark: bool = False, media: str = "screen") -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )

    def scripts(self, *, allowed: bool) -> None:
        self.call("Emulation.setScriptExecutionDisabled", value=not allowed)

    def shot(self, *, whole: bool = False) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def close(self) -> None:
        os.close(self._commands)  # the browser ends with its pipe
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answers)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._answers, 1 << 20)
            assert more, "Chromium has ended"
            self._buffer += more
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        facts = message.get("params", {})
        match message.get("method"):
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.said.append(json.dumps(facts))
            case "Log.entryAdded":
                self.said.append(facts["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requested.append(facts["request"]["url"])
        return message
