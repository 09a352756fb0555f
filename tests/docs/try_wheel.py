"""Install each wheel or sdist into an empty environment and use it there, away from the
source tree: `make wheel`.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"

CORE = """
import sys
from importlib.metadata import metadata, version
from pathlib import Path

import tailmetrics
from tailmetrics import LabelBuckets, PrecisionAtK, RecallAtK, TopKCollection

package = Path(tailmetrics.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert version("tailmetrics") == tailmetrics.__version__
assert "](docs/" not in metadata("tailmetrics")["Description"], "links of the README are relative"
assert (package / "py.typed").exists()
assert len(list((package / "configs").glob("*.yaml"))) >= 6

import torch

halves = LabelBuckets.from_assignment([0, 0, 1, 1], ["head", "tail"])
metrics = TopKCollection([PrecisionAtK(k=1), RecallAtK(k=2, buckets=halves, scope="global")])
metrics.update(torch.tensor([[0.9, 0.1, 0.4, 0.2], [0.8, 0.3, 0.1, 0.7]]), torch.tensor([[0, 2], [1, 3]]))
assert [float(value) for value in metrics.compute().values()] == [0.5, 0.5, 1.0]

from tailmetrics.ranking import native

assert native.available() == (sys.argv[1] == "compiled"), native.description()
"""


def python(environment: Path, *arguments: str, status: int = 0) -> str:
    """Run the Python of the environment, isolated from the source tree, and return what
    it prints.
    """
    command = [
        str(environment / ("Scripts" if sys.platform == "win32" else "bin") / "python"),
        "-I",
        *arguments,
    ]
    process = subprocess.run(command, cwd=environment, text=True, capture_output=True)
    if process.returncode != status:
        raise SystemExit(
            f"{' '.join(command[1:])} ended with {process.returncode}\n{process.stdout}{process.stderr}"
        )
    return process.stdout + process.stderr


def install(environment: Path, *packages: str) -> None:
    """Install packages at the versions that the tests use."""
    python(
        environment,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--constraint",
        str(CONSTRAINTS),
        *packages,
    )


def try_wheel(wheel: Path) -> None:
    """Use the core alone, and then the command line with its extra."""
    with TemporaryDirectory() as folder:
        environment = Path(folder) / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        install(environment, "torch")  # first and alone, as in the Makefile
        install(environment, str(wheel))
        kind = "pure" if wheel.name.endswith("-none-any.whl") else "compiled"
        python(environment, "-c", CORE, kind)
        print(f"{wheel.name}: core, {kind}: installed, imported, used")
        advice = python(
            environment, "-m", "tailmetrics", "evaluate", "--help", status=2
        )
        assert "tailmetrics[cli]" in advice, advice
        print("command line without its extra: says what to install")
        install(environment, f"{wheel}[cli]")
        assert "--preset" in python(
            environment, "-m", "tailmetrics", "evaluate", "--help"
        )
        preset = python(
            environment,
            "-m",
            "tailmetrics",
            "evaluate",
            "--preset",
            "xmc",
            "--print_config",
        )
        assert "PropensityScoredPrecisionAtK" in preset
        print("command line: --help, --preset xmc")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        try_wheel(Path(name).resolve())
