"""A headless Chromium, spoken to over the pipes of its DevTools protocol."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from select import select
from typing import Any

CHROMIUM = (
    shutil.which("chromium")
    or shutil.which("chromium-browser")
    or shutil.which("google-chrome")
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --remote-debugging-pipe"
)
PATIENCE = 60
"""Seconds after which a silent browser is given up, rather than waited for without end.
"""


class Browser:
    """One page: what it measures, what it complains about, what it asks the network
    for.
    """

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = (
            os.fdopen(to_browser, "wb"),
            os.fdopen(from_browser, "rb"),
        )
        self._numbers = count(1)
        self._unread = b""
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call(
            "Target.attachToTarget", targetId=target, flatten=True
        )["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        message |= {} if self._session is None else {"sessionId": self._session}
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, path: Path, width: int, scheme: str) -> None:
        """Load a file at a width in pixels, in the colour scheme ``"light"`` or
        ``"dark"``.
        """
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        self.call("Page.navigate", url=path.as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = self.call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key: ``"Tab"`` or ``"Enter"``."""
        code, text = {"Tab": (9, ""), "Enter": (13, "\r")}[key]
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                text=text,
            )

    def close(self) -> None:
        """End the browser in its own way, so that its processes stop writing."""
        self._session = None
        self.call("Browser.close")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            assert select([self._from], [], [], PATIENCE)[0], (
                "the browser does not answer"
            )
            received = os.read(self._from.fileno(), 2**16)
            assert received, "the browser went away"
            self._unread += received
        message, _, self._unread = self._unread.partition(b"\0")
        event: dict[str, Any] = json.loads(message)
        method = event.get("method")
        if method in (
            "Log.entryAdded",
            "Runtime.exceptionThrown",
            "Runtime.consoleAPICalled",
        ):
            self.complaints.append(json.dumps(event["params"]))
        if method == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])
        return event


@contextmanager
def running(profile: Path) -> Iterator[Browser]:
    """Start a browser with a profile of its own and end it."""
    assert CHROMIUM is not None
    read_commands, to_browser = os.pipe()
    from_browser, write_events = os.pipe()
    # the protocol reads from descriptor 3 and writes to 4
    command = f'exec "$@" 3<&{read_commands} 4>&{write_events}'
    process = subprocess.Popen(
        [
            "bash",
            "-c",
            command,
            "bash",
            CHROMIUM,
            *FLAGS.split(),
            f"--user-data-dir={profile}",
        ],
        pass_fds=(read_commands, write_events),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(read_commands)
    os.close(write_events)
    try:
        browser = Browser(to_browser, from_browser)
        yield browser
        browser.close()
        process.wait(timeout=30)
    finally:
        process.kill()
