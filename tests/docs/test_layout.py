"""The code follows the page on the architecture: layers, and no missing documentation
or broken references.
"""

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
from tailmetrics._signatures import TorchMetricsArguments, arguments
from tailmetrics.metrics import REGISTRY

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tailmetrics"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]

LAYERS = {
    **dict.fromkeys(("cli", "__main__"), 5),
    **dict.fromkeys(
        ("lightning", "evaluation", "significance", "report", "io", "engines"), 4
    ),
    **dict.fromkeys(("collection", "testing"), 3),
    **dict.fromkeys(("metrics", "functional"), 2),
    **dict.fromkeys(("ranking", "frequency", "buckets", "tree"), 1),
    **dict.fromkeys(
        (
            "_arguments",
            "_exact_metric",
            "_logged",
            "_transfer",
            "_compiling",
            "_extras",
            "_parameters",
            "_signatures",
        ),
        0,
    ),
    "_number_of_labels": 0,
}
ROOT_LAYER = 3
"""The package root exports names of up to this layer, and modules that import the root
are above it.
"""

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
    return ".".join(
        path.relative_to(PACKAGE.parent).with_suffix("").parts
    ).removesuffix(".__init__")


MODULES = {
    _dotted(path): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))
}
"""The syntax tree of every module by its dotted name."""


def imports(
    tree: ast.AST, leave_out: Iterable[ast.AST] = ()
) -> Iterator[tuple[str, int]]:
    """Yield what a module imports, and the line, except within the nodes to leave
    out.
    """
    left_out = {id(part) for node in leave_out for part in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield from (
                (f"{node.module}.{alias.name}", node.lineno) for alias in node.names
            )
        elif isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)


def layer_of(name: str) -> int:
    """Return the layer of a dotted name; names that the root exports are on the layer
    of the root.
    """
    parts = name.split(".")
    return LAYERS.get(parts[1], ROOT_LAYER) if len(parts) > 1 else ROOT_LAYER


def test_every_module_has_a_layer() -> None:
    """Every file and folder of the package has a layer."""
    names = {
        path.stem
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert names - {"__init__"} == set(LAYERS)


def test_modules_import_only_from_their_layer_and_below() -> None:
    """Modules import, also within functions, only from their own layer and below.

    The one exception is the root, which imports `evaluate` when it is first used.
    """
    upward_imports = [
        f"{name}:{line} {imported}"
        for name, tree in MODULES.items()
        for imported, line in imports(tree)
        if imported.split(".")[0] == "tailmetrics"
        and layer_of(imported) > layer_of(name)
    ]
    assert [line.partition(":")[0] for line in upward_imports] == ["tailmetrics"], (
        upward_imports
    )
    assert upward_imports[0].endswith("tailmetrics.evaluation.evaluate")


def imports_of_modules() -> dict[str, set[str]]:
    """Return the modules of the package that each module imports, also within functions
    and for types.

    The root is left out: it imports ``evaluate`` only when that is used.
    """
    modules_by_name = {}
    for name, tree in MODULES.items():
        modules = {
            imported if imported in MODULES else imported.rpartition(".")[0]
            for imported, _ in imports(tree)
        }
        modules_by_name[name] = modules & MODULES.keys() - {"tailmetrics"}
    return modules_by_name


def test_imports_form_no_cycle() -> None:
    """Imports form no cycle between files, also within functions and for types, nor
    between folders.

    The error of ``prepare`` names the files of a cycle.
    """
    imports_of_files = imports_of_modules()
    imports_of_folders: dict[str, set[str]] = {}
    for name, imported in imports_of_files.items():
        imported_folders = imports_of_folders.setdefault(
            ".".join(name.split(".")[:2]), set()
        )
        imported_folders.update(".".join(module.split(".")[:2]) for module in imported)
    for graph in (imports_of_files, imports_of_folders):
        TopologicalSorter(
            {
                name: imported_folders - {name}
                for name, imported_folders in graph.items()
            }
        ).prepare()


def test_files_of_metrics_never_import_one_another() -> None:
    """Files of metrics do not import one another; shared code is in files that start
    with an underscore.
    """
    families = {path.stem for path in (PACKAGE / "metrics").glob("[a-z]*.py")}
    for name, tree in MODULES.items():
        if not name.startswith("tailmetrics.metrics."):
            continue
        for imported, line in imports(tree):
            parts = imported.split(".")
            assert not (
                parts[:2] == ["tailmetrics", "metrics"] and parts[2] in families
            ), f"{name}:{line} {imported}"


def test_importing_the_root_imports_no_optional_dependency() -> None:
    """Importing the package and using its public names imports no optional dependency,
    no module of the layers 4 and 5, and not torch.compile, beyond what TorchMetrics
    imports.
    """

    code = (
        "import sys, torch, torchmetrics; vars(torch).pop('_dynamo', None); "
        "[sys.modules.pop(name) for name in [*sys.modules] if name.startswith('torch._dynamo')]; "
        "before = {*sys.modules}; import tailmetrics; "
        "every = [getattr(tailmetrics, name) for name in tailmetrics.__all__ if name != 'evaluate']; "
        "result = {*sys.modules} - before"
    )
    imported = processes.run_in_process(code)
    assert "tailmetrics.collection" in imported
    assert not {name.partition(".")[0] for name in imported} & OPTIONAL
    assert "torch._dynamo" not in imported, (
        "torch.compile takes longer to import than all else here"
    )
    assert not [
        name
        for name in imported
        if name.startswith("tailmetrics.") and layer_of(name) > ROOT_LAYER
    ]


def test_a_star_import_gives_the_public_names() -> None:
    """A star import gives every metric, its base classes, the other public names and
    the module `functional`, without extras, and leaves the builtin `map`.
    """
    code = (
        "import sys, torchmetrics; sys.modules.update(dict.fromkeys(('rich', 'jinja2', 'pyarrow')));"
        "before = {*globals(), 'before'}; from tailmetrics import *; result = {*globals()} - before;"
        "assert [*map(abs, [-1])] == [1]"
    )
    ranked = ("Ranking", "rank")
    other_names = (
        *ranked,
        "LabelBuckets",
        "LabelFrequency",
        "LabelTree",
        "TopKCollection",
        "evaluate",
    )
    assert processes.run_in_process(code) == {
        *REGISTRY,
        *other_names,
        "functional",
        "RatioMetric",
        "RowMeanMetric",
        "TopKMetric",
    }


def test_docstrings_have_no_two_blank_lines_in_a_row() -> None:
    """A blank line ends a paragraph of a docstring, also of an attribute."""
    places = [
        f"{name}:{node.lineno}"
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and re.search(r"\n *\n *\n", str(node.value.value))
    ]
    assert not places


def test_every_public_name_is_in_the_reference() -> None:
    """Every public name of the root, of every `__all__` and of the reports is in the
    reference.
    """
    import tailmetrics
    from tailmetrics import evaluation, functional, io, lightning, report, significance

    packages = (evaluation, functional, io, lightning, report, significance)
    documented = {
        name
        for page in (ROOT / "docs" / "reference").glob("*.md")
        for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)
    }
    root_names = {
        name
        for name, value in (
            (name, getattr(tailmetrics, name)) for name in dir(tailmetrics)
        )
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", "tailmetrics").startswith("tailmetrics")
    }
    # other names are for custom metrics
    root = {*tailmetrics.__all__, "REGISTRY"} - {"functional"}
    public = {
        f"tailmetrics.{name}" if name in root else f"tailmetrics.metrics.{name}"
        for name in {*root_names, *root}
    }
    public |= {
        f"{module.__name__}.{name}"
        for module in packages
        for name in getattr(
            module,
            "__all__",
            [name for name in vars(module) if not name.startswith("_")],
        )
        if getattr(module, name) is not getattr(tailmetrics, name, None)
    }
    assert public <= documented, sorted(public - documented)


def test_members_of_the_reference_exist() -> None:
    """Every member of a class that the reference lists exists, which mkdocstrings does
    not check.
    """
    entry = re.compile(
        r"^::: ([\w.]+)\n(?:    .*\n)*?.*\bmembers: \[(.+)\]", re.MULTILINE
    )
    missing = []
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for name, members in entry.findall(page.read_text()):
            owner: Any = locate(name)
            attributes = {*dir(owner)}.union(
                *map(inspect.get_annotations, owner.__mro__)
            )
            missing += [
                f"{name}.{member}"
                for member in members.split(", ")
                if member not in attributes
            ]
    assert missing == []


def links() -> Iterator[tuple[Path, str]]:
    """Yield page and target of every link and picture of the pages, code excluded."""
    for page in PAGES:
        prose = re.sub(
            r"^```.*?^```$|`[^`\n]*`",
            "",
            page.read_text(),
            flags=re.DOTALL | re.MULTILINE,
        )
        yield from ((page, target) for target in re.findall(r"\]\(([^)\s]+)\)", prose))


def slugs(page: Path) -> set[str]:
    """Return the anchors of a page's headings as Python-Markdown builds them."""
    headings = re.findall(
        r"^#+ (.*)$",
        re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE),
        re.M,
    )
    return {
        re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())
        for heading in headings
    }


def test_relative_links_resolve() -> None:
    """Every relative link of README, changelog, contributing guide and documentation
    leads to an existing file and heading.
    """
    num_links = 0
    for page, target in links():
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        target_path = (page.parent / path).resolve() if path else page
        assert target_path.exists(), f"{page.relative_to(ROOT)}: {target}"
        # the anchor "only-dark" of a picture is a theme
        is_page = target_path.suffix == ".md"
        assert not anchor or not is_page or anchor in slugs(target_path), (
            f"{page.relative_to(ROOT)}: {target}"
        )
        num_links += 1
    assert num_links > 30


def test_the_navigation_lists_every_page() -> None:
    """zensical.toml lists exactly the pages of docs."""
    listed_pages = re.findall(
        r'= "([\w/-]+\.md)" }', (ROOT / "zensical.toml").read_text()
    )
    pages = [
        page.relative_to(ROOT / "docs").as_posix()
        for page in (ROOT / "docs").rglob("*.md")
    ]
    assert sorted(listed_pages) == sorted(pages)


def test_continuous_integration_runs_the_commands_of_the_makefile() -> None:
    """Each `make` command of the workflow is a target of the Makefile, and each test
    file that it names exists.
    """
    targets = set(
        re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )
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
    """The entry of a metric in the reference lists each argument of the metric, buckets
    and scope before those of TorchMetrics.
    """
    spec = spec_from_file_location(
        "docstrings", PACKAGE.parents[1] / "docs" / "docstrings.py"
    )
    assert spec is not None
    assert spec.loader is not None
    docstrings = module_from_spec(spec)
    spec.loader.exec_module(docstrings)
    for name, kind in REGISTRY.items():
        entry = SimpleNamespace(
            is_class=True, name=name, path=f"{kind.__module__}.{name}", docstring=None
        )
        documented = re.findall(
            r"^    (\w+):", docstrings._whole(entry).partition("Args:")[2], re.MULTILINE
        )
        assert set(arguments(kind)) - set(TorchMetricsArguments.__annotations__) <= set(
            documented
        ), name
        assert "buckets" not in documented or documented.index(
            "buckets"
        ) < documented.index("name"), name


def test_names_on_the_page_of_the_architecture_exist() -> None:
    """Every name that the page on the architecture sets as code occurs in the
    package.
    """
    page = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text()
    sources = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    words = set(re.findall(r"\w+", sources))
    for name in re.findall(r"`([A-Za-z_]+)`", page):
        assert name in words, name
