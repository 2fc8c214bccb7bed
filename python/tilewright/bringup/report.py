"""report.json and report.html, written after every step, so that a crash leaves what was known."""

from __future__ import annotations

import json
import math
import os
import time
from typing import Any

from .failure import BringupError, ExitCode
from .page import page

#: docs/report-schema.md. A field that is added keeps the version; one that changes its meaning or goes raises it.
SCHEMA = {"name": "tilewright.bringup", "version": 1}


class Report:
    def __init__(self, spec: str, folder: str) -> None:
        self.folder = folder
        self.data: dict[str, Any] = {
            "schema": SCHEMA,
            "status": "running",
            "spec": spec,
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "seconds": 0.0,
            "exit_code": None,
            "verdict": None,
            "next": [],
            "errors": [],
            "findings": [],
            "steps": [],
        }
        self._start = time.perf_counter()

    @staticmethod
    def read(folder: str) -> Report:
        with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
            data = json.load(file)
        report = Report(data["spec"], folder)
        report.data = data
        return report

    def fail(self, failure: BringupError, step: str) -> None:
        self.data["errors"].append(failure.to_dict(step))

    def find(self, step: str, text: str) -> None:
        """Something worth knowing that is no error."""
        self.data["findings"].append({"step": step, "text": text})

    @property
    def exit_code(self) -> int:
        """The first error's: what follows from it comes later."""
        return self.data["errors"][0]["code"] if self.data["errors"] else int(ExitCode.OK)

    def finish(self) -> None:
        self.data["status"] = "failed" if self.data["errors"] else "ok"
        self.data["exit_code"] = self.exit_code

    def write(self) -> None:
        """Both files, each replaced as a whole."""
        self.data["seconds"] = max(self.data["seconds"], time.perf_counter() - self._start)
        os.makedirs(self.folder, exist_ok=True)
        text = json.dumps(_plain(self.data), indent=1, ensure_ascii=False, allow_nan=False)
        for name, content in (("report.json", text + "\n"), ("report.html", page(json.loads(text)))):
            path = os.path.join(self.folder, name)
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(content)
            os.replace(path + ".new", path)


def _plain(value: Any) -> Any:
    """JSON knows neither NaN nor infinity: they become the words "nan", "inf", "-inf"."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
