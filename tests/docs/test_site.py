"""What stands outside of the code is one with it: addresses, links as a registry shows them, version, install commands."""

import re
import sys
from pathlib import Path
from typing import Any

import yaml

import tailmetrics
from tailmetrics.metrics import REGISTRY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
REPOSITORY: str = SETTINGS["project"]["urls"]["Repository"]
TEXTS = [
    *(ROOT / name for name in ("pyproject.toml", "zensical.toml", "CITATION.cff")),
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / ".github").rglob("*.yml"),
]
OWN = re.compile(r"https://github\.com/[\w.-]+/tailmetrics\b")
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"\s]+)")
UNTIL_PUBLISHED = "Until the first release is on PyPI"
"""How the paragraphs begin that tell to install from a clone; the release deletes them."""


def on_the_registry() -> str:
    """Return the README as the wheel's metadata has it, by the substitutions of pyproject.toml."""
    hook = SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = "".join((ROOT / fragment["path"]).read_text() for fragment in hook["fragments"])
    for substitution in hook["substitutions"]:
        text = re.sub(substitution["pattern"], substitution["replacement"], text)
    return text.replace("$HFPR_VERSION", tailmetrics.__version__)


def test_the_repository_has_one_address() -> None:
    """It is decided in pyproject.toml; every file that names it names the same."""
    named = {path.relative_to(ROOT).as_posix(): set(OWN.findall(path.read_text())) for path in TEXTS}
    assert {path: repositories for path, repositories in named.items() if repositories - {REPOSITORY}} == {}
    assert {"pyproject.toml", "zensical.toml", "CITATION.cff", "SECURITY.md"} <= {path for path in named if named[path]}


def test_links_of_the_readme_are_absolute_on_a_registry() -> None:
    """They lead to files of the tree, at the tag of the version."""
    shown = on_the_registry()
    prose = re.sub(r"^```.*?^```$", "", shown, flags=re.DOTALL | re.MULTILINE)
    targets = [markdown or html for markdown, html in LINK.findall(prose)]
    assert not [target for target in targets if not re.match(r"https?://|#", target)]
    at_the_tag = re.compile(rf"{REPOSITORY}/(?:blob|raw)/v{re.escape(tailmetrics.__version__)}/([^#]+)")
    ours = [match[1] for match in map(at_the_tag.match, targets) if match]
    assert len(ours) >= 5
    assert not [path for path in ours if not (ROOT / path).exists()]
    assert not [target for target in targets if target.endswith(".png") and "/raw/" not in target]


def test_the_citation_is_of_this_version() -> None:
    """Version, licence and authors are those of the package."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == tailmetrics.__version__
    assert citation["license"] == SETTINGS["project"]["license"]
    assert [author["name"] for author in citation["authors"]] == ["The tailmetrics authors"]
    assert citation["authors"] == SETTINGS["project"]["authors"]


def test_installing_is_told_in_one_way() -> None:
    """By the name of the package, everywhere; from a clone only in a paragraph that the first release deletes."""
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        if path.name == "CHANGELOG.md":
            continue
        for paragraph in path.read_text().split("\n\n"):
            from_clone = re.search(r"pip install '?\.", paragraph)
            assert not from_clone or paragraph.startswith(UNTIL_PUBLISHED), f"{path.relative_to(ROOT)}: {paragraph}"


def test_the_page_of_questions_lists_every_metric() -> None:
    """Each metric answers a question there, and nothing is named that is not there."""
    page = (ROOT / "docs" / "questions.md").read_text()
    assert set(re.findall(r"`([A-Z]\w+)\(", page)) == set(REGISTRY)


def test_actions_are_pinned_by_the_digest_of_their_commit() -> None:
    """A tag can be moved to other code; the comment says which version it is."""
    lines = [line for path in (ROOT / ".github").rglob("*.yml") for line in path.read_text().splitlines()]
    used = [line.strip() for line in lines if re.search(r"\buses: ", line)]
    assert len(used) > 15
    assert [line for line in used if not re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)] == []


def test_the_paper_and_its_references_agree() -> None:
    """Each work that `paper.md` cites is in `paper.bib`, and nothing else."""
    cited = set(re.findall(r"@([\w:-]+)", (ROOT / "paper.md").read_text().split("---", 2)[2]))
    assert cited == set(re.findall(r"^@\w+\{([\w:-]+),", (ROOT / "paper.bib").read_text(), re.MULTILINE))
