"""Files outside of the code agree with it: addresses, links on a registry, version, and
install commands.
"""

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
ADDRESS = re.compile(r"https://github\.com/[\w.-]+/tailmetrics\b")
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"\s]+)")
UNTIL_PUBLISHED = "Until the first release is on PyPI"
"""The start of paragraphs on installing from a clone, which the first release deletes.
"""


def registry_readme() -> str:
    """Return the README as it is in the metadata of the wheel, with the substitutions
    of pyproject.toml.
    """
    hook = SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = "".join(
        (ROOT / fragment["path"]).read_text() for fragment in hook["fragments"]
    )
    for substitution in hook["substitutions"]:
        text = re.sub(substitution["pattern"], substitution["replacement"], text)
    return text.replace("$HFPR_VERSION", tailmetrics.__version__)


def test_the_repository_has_one_address() -> None:
    """Every file that names the repository has the address of pyproject.toml."""
    addresses = {
        path.relative_to(ROOT).as_posix(): set(ADDRESS.findall(path.read_text()))
        for path in TEXTS
    }
    assert {
        path: repositories
        for path, repositories in addresses.items()
        if repositories - {REPOSITORY}
    } == {}
    assert {"pyproject.toml", "zensical.toml", "CITATION.cff", "SECURITY.md"} <= {
        path for path in addresses if addresses[path]
    }


def test_links_of_the_readme_are_absolute_on_a_registry() -> None:
    """On a registry the links of the README are absolute, and those to the repository
    lead to existing files at the tag of the version.
    """
    readme = registry_readme()
    prose = re.sub(r"^```.*?^```$", "", readme, flags=re.DOTALL | re.MULTILINE)
    targets = [markdown or html for markdown, html in LINK.findall(prose)]
    assert not [target for target in targets if not re.match(r"https?://|#", target)]
    at_the_tag = re.compile(
        rf"{REPOSITORY}/(?:blob|raw)/v{re.escape(tailmetrics.__version__)}/([^#]+)"
    )
    paths = [match[1] for match in map(at_the_tag.match, targets) if match]
    assert len(paths) >= 5
    assert not [path for path in paths if not (ROOT / path).exists()]
    assert not [
        target
        for target in targets
        if target.endswith(".png") and "/raw/" not in target
    ]


def test_the_citation_has_the_version_of_the_package() -> None:
    """Version, licence and authors of the citation are those of the package."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == tailmetrics.__version__
    assert citation["license"] == SETTINGS["project"]["license"]
    assert [author["name"] for author in citation["authors"]] == [
        "The tailmetrics authors"
    ]
    assert citation["authors"] == SETTINGS["project"]["authors"]


def test_pages_install_by_the_name_of_the_package() -> None:
    """Pages install by the name of the package; only paragraphs that the first release
    deletes install from a clone.
    """
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        if path.name == "CHANGELOG.md":
            continue
        for paragraph in path.read_text().split("\n\n"):
            from_clone = re.search(r"pip install '?\.", paragraph)
            assert not from_clone or paragraph.startswith(UNTIL_PUBLISHED), (
                f"{path.relative_to(ROOT)}: {paragraph}"
            )


def test_the_page_of_questions_lists_every_metric() -> None:
    """docs/questions.md names exactly the existing metrics."""
    page = (ROOT / "docs" / "questions.md").read_text()
    assert set(re.findall(r"`([A-Z]\w+)\(", page)) == set(REGISTRY)


def test_actions_are_pinned_by_the_digest_of_their_commit() -> None:
    """Actions of workflows are pinned by the digest of a commit, because a tag can be
    moved, and a comment gives the version.
    """
    lines = [
        line
        for path in (ROOT / ".github").rglob("*.yml")
        for line in path.read_text().splitlines()
    ]
    actions = [line.strip() for line in lines if re.search(r"\buses: ", line)]
    assert len(actions) > 15
    assert [
        line
        for line in actions
        if not re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)
    ] == []


def test_the_paper_and_its_references_agree() -> None:
    """`paper.bib` holds exactly the works that `paper.md` cites."""
    cited = set(
        re.findall(r"@([\w:-]+)", (ROOT / "paper.md").read_text().split("---", 2)[2])
    )
    assert cited == set(
        re.findall(r"^@\w+\{([\w:-]+),", (ROOT / "paper.bib").read_text(), re.MULTILINE)
    )
