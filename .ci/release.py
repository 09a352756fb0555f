"""Rehearse a release, write its notes, and see what it breaks.

`make rehearsal`, `make api` and the workflow Release run this file.
"""

import os
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / ".github" / "requirements" / "release.txt"


def table_of(files: list[Path]) -> str:
    """Return size and checksum of each file, as Markdown."""
    rows = (
        (
            f"| {one.name} | {one.stat().st_size:,} | "
            f"`{sha256(one.read_bytes()).hexdigest()}` |"
        )
        for one in files
    )
    return "\n".join(["| file | bytes | SHA-256 |", "| --- | ---: | --- |", *rows])


def notes(changelog: str, files: list[Path]) -> str:
    """Return the notes of a release: its part of the changelog, and its files.

    Links of the changelog lead to the tag of the release.

    Raises:
        SystemExit: If the changelog has no dated part for the version of the files.
    """
    version = (
        next(one.name for one in files if one.name.endswith(".tar.gz"))
        .split("-")[1]
        .removesuffix(".tar.gz")
    )
    part = re.search(
        rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$(.*?)(?=^## |\Z)",
        changelog,
        re.M | re.DOTALL,
    )
    if part is None:
        raise SystemExit(
            f"CHANGELOG.md: no '## {version} (YYYY-MM-DD)'; write the date in the "
            "place of 'unreleased'."
        )
    repository = re.findall(
        r'^Repository = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M
    )[0]
    text = re.sub(r"\]\((?!\w+:)", f"]({repository}/blob/v{version}/", part[1].strip())
    verified = (
        "`gh attestation verify FILE --repo "
        f"{repository.removeprefix('https://github.com/')}`"
    )
    return (
        f"{text}\n\n### Files\n\n{table_of(files)}\n\n{verified} says whether a file "
        "was built here from this tag."
    )


def built(folder: Path, python: Path) -> list[Path]:
    """Clone the last commit into a folder, build it there, and return the files.

    They are all files that this machine can build.
    """
    subprocess.run(
        ["git", "clone", "--quiet", "--no-local", str(ROOT), str(folder)], check=True
    )
    log = ["git", "log", "-1", "--format=%ct"]
    epoch = subprocess.run(
        log, cwd=folder, check=True, text=True, capture_output=True
    ).stdout.strip()
    for native, *what in (("0",), ("1", "--wheel")):  # as the jobs of release.yml do
        environment = {
            **os.environ,
            "SOURCE_DATE_EPOCH": epoch,
            "TAILMETRICS_NATIVE": native,
        }
        build = [str(python), "-m", "build", "--no-isolation", *what]
        subprocess.run(
            build, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL
        )
    return sorted((folder / "dist").iterdir())


def rehearse() -> None:
    """Check that two fresh clones build equal bytes, and that each file works.

    Each file is tried in an empty environment.
    """
    with TemporaryDirectory() as place:
        tools = Path(place) / "tools"
        subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True)
        python = tools / "bin" / "python"
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run(
            [*pip, "--require-hashes", "--requirement", str(TOOLS)], check=True
        )
        first, second = (
            built(Path(place) / name, python) for name in ("one", "another")
        )
        if table_of(first) != table_of(second):
            raise SystemExit(
                f"two clones gave other bytes:\n{table_of(first)}\n{table_of(second)}"
            )
        print(f"the same bytes from two clones:\n{table_of(first)}", flush=True)
        subprocess.run(
            [sys.executable, str(ROOT / "tests/docs/try_wheel.py"), *map(str, first)],
            check=True,
        )


def api() -> None:
    """Print what of the public API is broken since the last release.

    The program ends with 1 if a patch version breaks some.
    """
    latest = ["git", "tag", "--list", "v*", "--sort=-v:refname"]
    tags = subprocess.run(
        latest, cwd=ROOT, check=True, text=True, capture_output=True
    ).stdout.split()
    if not tags:
        print("no release yet: nothing to break")
        return
    tag = tags[0]
    check = [
        sys.executable,
        "-m",
        "griffe",
        "check",
        "tailmetrics",
        "--search",
        "src",
        "--against",
        tag,
    ]
    broken = subprocess.run(check, cwd=ROOT).returncode
    source = (ROOT / "src/tailmetrics/__init__.py").read_text()
    version = re.findall(r'__version__ = "(\d+\.\d+)', source)[0]
    if broken and tag.startswith(f"v{version}."):
        raise SystemExit(
            f"since {tag}: a version {version}.* may not break these; "
            "docs/stability.md says what may."
        )
    print(
        f"since {tag}: "
        f"{'broken as above; the changelog names each' if broken else 'nothing is broken'}"
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["rehearse"]:
            rehearse()
        case ["api"]:
            api()
        case ["notes", folder]:
            print(
                notes(
                    (ROOT / "CHANGELOG.md").read_text(), sorted(Path(folder).iterdir())
                )
            )
        case _:
            raise SystemExit("release.py rehearse | api | notes FOLDER")
