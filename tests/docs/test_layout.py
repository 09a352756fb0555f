"""The tree is what the architecture page says: layers, one place for everything, nothing undocumented or dangling."""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pydoc import locate
from types import SimpleNamespace
from typing import Any

import processes
from tailmetrics._arguments import TorchMetricsArguments, arguments
from tailmetrics.metrics import REGISTRY

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tailmetrics"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]

LAYERS = {
    **dict.fromkeys(("cli", "__main__"), 5),
    **dict.fromkeys(("lightning", "evaluation", "significance", "report", "io", "engines"), 4),
    **dict.fromkeys(("collection", "testing"), 3),
    **dict.fromkeys(("metrics", "functional"), 2),
    **dict.fromkeys(("ranking", "frequency", "buckets", "tree"), 1),
    **dict.fromkeys(("_arguments", "_exact_metric", "_logged", "_transfer", "_compiling", "_extras", "_parameters"), 0),
    "_number_of_labels": 0,
}
ROOT_LAYER = 3
"""The package root re-exports what is up to here; what imports the root must stand above."""

OPTIONAL = {
    "rich",
    "matplotlib",
    "jinja2",
    "scipy",
    "pyarrow",
    "duckdb",
    "pytorch_lightning",
    "lightning",
    "yaml",
}


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {_dotted(path): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
"""The syntax of every module by its dotted name, read once."""


def imports(tree: ast.AST, leave_out: Iterable[ast.AST] = ()) -> Iterator[tuple[str, int]]:
    """Yield what a module imports, wherever in it but in what is left out, and the line."""
    left_out = {id(part) for node in leave_out for part in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)


def layer_of(name: str) -> int:
    """Return the layer of a dotted name; what the root re-exports is on the layer of the root."""
    parts = name.split(".")
    return LAYERS.get(parts[1], ROOT_LAYER) if len(parts) > 1 else ROOT_LAYER


def test_everything_has_a_layer() -> None:
    """A new file or folder of the package is put on a layer before anything else."""
    names = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert names - {"__init__"} == set(LAYERS)


def test_imports_go_down_only() -> None:
    """Also those within functions; the root may import up to its layer, and `evaluate` when it is asked for."""
    up = [
        f"{name}:{line} {imported}"
        for name, tree in MODULES.items()
        for imported, line in imports(tree)
        if imported.split(".")[0] == "tailmetrics" and layer_of(imported) > layer_of(name)
    ]
    assert [line.partition(":")[0] for line in up] == ["tailmetrics"], up
    assert up[0].endswith("tailmetrics.evaluation.evaluate")


def run_imports() -> dict[str, set[str]]:
    """Return the modules of the package that each of them imports when it runs, so not for types alone."""
    modules_by_name = {}
    for name, tree in MODULES.items():
        for_types = []
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
                for_types += node.body
        modules = set()
        for imported, _ in imports(tree, leave_out=for_types):
            modules.add(imported if imported in MODULES else imported.rpartition(".")[0])
        modules_by_name[name] = modules & MODULES.keys()
    return modules_by_name


def test_no_imports_form_a_circle() -> None:
    """Neither between files, imports within functions included, nor between the folders and files of one layer.

    The error of ``prepare`` names the files of a circle.
    """
    imports_of_files = run_imports()
    imports_of_places: dict[str, set[str]] = {}
    for name, imported in imports_of_files.items():
        goals = imports_of_places.setdefault(".".join(name.split(".")[:2]), set())
        goals.update(".".join(goal.split(".")[:2]) for goal in imported)
    for graph in (imports_of_files, imports_of_places):
        TopologicalSorter({name: goals - {name} for name, goals in graph.items()}).prepare()


def test_files_of_metrics_never_import_one_another() -> None:
    """They share what is in the files that begin with an underscore."""
    families = {path.stem for path in (PACKAGE / "metrics").glob("[a-z]*.py")}
    for name, tree in MODULES.items():
        if not name.startswith("tailmetrics.metrics."):
            continue
        for imported, line in imports(tree):
            parts = imported.split(".")
            assert not (parts[:2] == ["tailmetrics", "metrics"] and parts[2] in families), f"{name}:{line} {imported}"


def test_importing_the_root_imports_no_optional_dependency() -> None:
    """Neither those of the extras nor layer 4 and 5, beyond what TorchMetrics itself imports."""

    code = (
        "import sys, torch, torchmetrics; vars(torch).pop('_dynamo', None); "
        "[sys.modules.pop(name) for name in [*sys.modules] if name.startswith('torch._dynamo')]; "
        "before = {*sys.modules}; import tailmetrics; "
        "every = [getattr(tailmetrics, name) for name in tailmetrics.__all__ if name != 'evaluate']; "
        "result = {*sys.modules} - before"
    )
    own = processes.run_in_process(code)
    assert "tailmetrics.collection" in own
    assert not {name.partition(".")[0] for name in own} & OPTIONAL
    assert "torch._dynamo" not in own, "torch.compile takes longer to import than all else here"
    assert not [name for name in own if name.startswith("tailmetrics.") and layer_of(name) > ROOT_LAYER]


def test_a_star_import_brings_the_public_names_and_no_module_but_functional() -> None:
    """Every metric, its base classes and what goes with them; `map` stays the builtin; extras may be missing."""
    code = (
        "import sys, torchmetrics; sys.modules.update(dict.fromkeys(('rich', 'jinja2', 'pyarrow')));"
        "before = {*globals(), 'before'}; from tailmetrics import *; result = {*globals()} - before;"
        "assert [*map(abs, [-1])] == [1]"
    )
    ranked = ("Ranking", "rank")
    other_names = (*ranked, "LabelBuckets", "LabelFrequency", "LabelTree", "TopKCollection", "evaluate")
    assert processes.run_in_process(code) == {
        *REGISTRY,
        *other_names,
        "functional",
        "RatioMetric",
        "RowMeanMetric",
        "TopKMetric",
    }


def test_every_public_name_is_in_the_reference() -> None:
    """Names of the root, of every `__all__` and of the report; and the reference names nothing else."""
    import tailmetrics
    from tailmetrics import evaluation, functional, io, lightning, report, significance

    packages = (evaluation, functional, io, lightning, report, significance)
    rendered = {
        name
        for page in (ROOT / "docs" / "reference").glob("*.md")
        for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)
    }
    own = {
        name
        for name, value in ((name, getattr(tailmetrics, name)) for name in dir(tailmetrics))
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", "tailmetrics").startswith("tailmetrics")
    }
    root = {*tailmetrics.__all__, "REGISTRY"} - {"functional"}  # what else there is, metrics are written with
    public = {f"tailmetrics.{name}" if name in root else f"tailmetrics.metrics.{name}" for name in {*own, *root}}
    public |= {
        f"{module.__name__}.{name}"
        for module in packages
        for name in getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
        if getattr(module, name) is not getattr(tailmetrics, name, None)
    }
    assert public <= rendered, sorted(public - rendered)


def test_members_of_the_reference_exist() -> None:
    """What a page shows of a class is a member of it; mkdocstrings says nothing of a name that is gone."""
    entry = re.compile(r"^::: ([\w.]+)\n(?:    .*\n)*?.*\bmembers: \[(.+)\]", re.MULTILINE)
    gone = []
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for name, members in entry.findall(page.read_text()):
            owner: Any = locate(name)
            attributes = {*dir(owner)}.union(*map(inspect.get_annotations, owner.__mro__))
            gone += [f"{name}.{member}" for member in members.split(", ") if member not in attributes]
    assert gone == []


def links() -> Iterator[tuple[Path, str]]:
    """Yield page and target of every link and picture of the pages, code aside."""
    for page in PAGES:
        prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        yield from ((page, target) for target in re.findall(r"\]\(([^)\s]+)\)", prose))


def slugs(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as Python-Markdown makes them."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE), re.M
    )
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


def test_relative_links_resolve() -> None:
    """Of README, changelog, contributing guide and documentation, down to the heading."""
    num_links = 0
    for page, target in links():
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{page.relative_to(ROOT)}: {target}"
        is_page = goal.suffix == ".md"  # of a picture, "only-dark" says where it is shown
        assert not anchor or not is_page or anchor in slugs(goal), f"{page.relative_to(ROOT)}: {target}"
        num_links += 1
    assert num_links > 30


def test_no_page_is_left_out_of_the_navigation() -> None:
    """Every page of docs is in zensical.toml, and every page named there exists."""
    named = re.findall(r'= "([\w/-]+\.md)" }', (ROOT / "zensical.toml").read_text())
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(named) == sorted(pages)


def test_continuous_integration_runs_the_commands_of_the_makefile() -> None:
    """Each `make` of the workflow is a target, and each file that it hands to pytest exists."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert (
        {"test", "oldest", "coverage", "lint", "types", "docs", "wheel", "sanitized"}
        == set(re.findall(r"run: make (\w+)", workflow))
        <= targets
    )
    paths = re.findall(r"tests/[\w/.]+", workflow)
    assert paths
    assert not [path for path in paths if not (ROOT / path).exists()]


def test_an_entry_of_the_reference_lists_every_argument_of_a_metric() -> None:
    """What the documentation makes of a metric's docstring holds each argument, buckets and scope before those of TorchMetrics."""
    spec = spec_from_file_location("docstrings", PACKAGE.parents[1] / "docs" / "docstrings.py")
    assert spec is not None
    assert spec.loader is not None
    docstrings = module_from_spec(spec)
    spec.loader.exec_module(docstrings)
    for name, kind in REGISTRY.items():
        entry = SimpleNamespace(is_class=True, name=name, path=f"{kind.__module__}.{name}", docstring=None)
        documented = re.findall(r"^    (\w+):", docstrings._whole(entry).partition("Args:")[2], re.MULTILINE)
        assert set(arguments(kind)) - set(TorchMetricsArguments.__annotations__) <= set(documented), name
        assert "buckets" not in documented or documented.index("buckets") < documented.index("name"), name


def test_the_page_of_the_architecture_names_what_exists() -> None:
    """Every constant, class, function and argument that the page sets as code stands in the package."""
    page = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text()
    sources = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    words = set(re.findall(r"\w+", sources))
    for name in re.findall(r"`([A-Za-z_]+)`", page):
        assert name in words, name
