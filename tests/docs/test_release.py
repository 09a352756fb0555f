"""The notes of a release name each file, and jobs that sign or publish install only
packages with a hash.
"""

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".github" / "requirements"
CHANGELOG = """# Changelog

## 0.2.0 (2027-01-31)

- Counted in whole numbers ([why](docs/why.md), [who](https://example.org)).

## 0.1.0 ({})

- Began.
"""


@pytest.fixture(scope="module")
def release() -> Any:
    spec = importlib.util.spec_from_file_location(
        "release", ROOT / ".ci" / "release.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    return dict(
        yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())[
            "jobs"
        ]
    )


def test_release_notes_list_size_and_checksum_of_each_file(
    release: Any, tmp_path: Path
) -> None:
    """Release notes are the section of the version, with links to its tag, and the size
    and checksum of each file.

    The checksums are those of NIST's examples "abc" and the empty text.
    """
    (tmp_path / "tailmetrics-0.2.0.tar.gz").write_bytes(b"abc")
    (tmp_path / "tailmetrics-0.2.0-py3-none-win_amd64.whl").write_bytes(b"")
    notes = release.notes(CHANGELOG, sorted(tmp_path.iterdir()))
    assert "- Counted in whole numbers ([why](https://github.com/" in notes
    assert "/blob/v0.2.0/docs/why.md), [who](https://example.org))." in notes
    assert "Began" not in notes
    for name, size, checksum in (
        (
            "0-py3-none-win_amd64.whl",
            0,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        (
            "0.tar.gz",
            3,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
    ):
        assert (
            f"| tailmetrics-0.2.{name} | {size} | `{checksum}` |" in notes.splitlines()
        )


def test_release_notes_need_the_date_of_the_version(
    release: Any, tmp_path: Path
) -> None:
    """Release notes of a version whose section has no date are refused; with a date
    they are the section.
    """
    (tmp_path / "tailmetrics-0.1.0.tar.gz").write_bytes(b"")
    with pytest.raises(
        SystemExit, match=r"no '## 0.1.0 \(YYYY-MM-DD\)'; write the date"
    ):
        release.notes(CHANGELOG.format("unreleased"), [*tmp_path.iterdir()])
    assert release.notes(
        CHANGELOG.format("2026-12-01"), [*tmp_path.iterdir()]
    ).startswith("- Began.")


def test_jobs_that_sign_or_publish_install_only_hashed_packages(
    jobs: dict[str, Any],
) -> None:
    """Jobs with write permissions install only packages with a hash, run no command of
    the Makefile, and use no cache, which another workflow could fill.
    """
    privileged = {
        name for name, job in jobs.items() if "write" in job["permissions"].values()
    }
    assert {"build", "wheels", "publish", "notes", "site"} == privileged
    installs = re.compile(
        r"pip install (?!--require-hashes --requirement \.github/requirements/release\.txt$)|\bmake\b|try_"
    )
    for name in privileged:
        for step in jobs[name]["steps"]:
            assert not installs.search(step.get("run", "")), step
            assert "cache" not in step.get("with", {}), step
            assert (
                "build" not in step.get("run", "")
                or "--no-isolation" in step["run"]
                or "cibuildwheel" in step["run"]
            )


def test_every_tool_of_a_release_has_a_hash(jobs: dict[str, Any]) -> None:
    """Each package in release.txt has hashes, and the packages that build the project
    are among them.
    """
    if sys.version_info < (3, 11):
        import tomli as tomllib
    else:
        import tomllib
    lines = [
        line
        for line in (TOOLS / "release.txt").read_text().splitlines()
        if "#" not in line
    ]
    versions = [line for line in lines if not line.startswith(" ")]
    assert all(line.endswith(" \\") for line in versions)
    assert len(versions) >= 10
    assert all(
        re.fullmatch(r" {4}--hash=sha256:[0-9a-f]{64}( \\)?", line)
        for line in lines
        if line.startswith(" ")
    )
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    build_requirements = {
        re.split("[<>=]", require)[0]
        for require in settings["build-system"]["requires"]
    }
    packages = {
        line
        for line in (TOOLS / "release.in").read_text().splitlines()
        if not line.startswith("#")
    }
    assert (
        {*build_requirements, "build", "cibuildwheel"}
        == packages
        <= {line.split("==")[0] for line in versions}
    )
    assert settings["tool"]["cibuildwheel"]["build-frontend"]["args"] == [
        "--no-build-isolation"
    ]
    assert "--require-hashes" in settings["tool"]["cibuildwheel"]["before-build"]
