"""The documentation's examples run, and the stubs list exactly the public names."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stylobate as st
from stylobate import _stylobate

MODULES = [
    "stylobate",
    *(
        f"stylobate.{name}"
        for name in (
            "cluster", "errors", "filesystem", "filters", "flight", "generate", "graph", "graph_store", "graph_write", "orc", "rows", "scan",
            "sequential", "sql",
            "store_data", "store_results", "store_snapshot", "store_traversal", "store_writer", "write", "_datafusion", "_optional",
        )
    ),
]
README = Path(__file__).parents[2] / "python" / "README.md"
STUBS = Path(st.__file__).parent / "_stylobate.pyi"


def documented() -> Iterator[tuple[str, str]]:
    """Yields the name and documentation of everything that has examples."""
    seen: set[str] = set()
    for name in [*MODULES, "stylobate._stylobate"]:
        module = importlib.import_module(name)
        for path, value in walked(name, module):
            text = inspect.getdoc(value) or ""
            if ">>> " in text and text not in seen:
                seen.add(text)
                yield path, text


def walked(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield name, value
    for member, inner in vars(value).items():
        if inspect.isclass(inner) and inspect.ismodule(value) and inner.__module__.startswith("stylobate"):
            yield from walked(f"{name}.{member}", inner)
        elif (
            callable(inner)
            or isinstance(inner, (property, staticmethod))
            or inspect.isgetsetdescriptor(inner)
        ):
            yield f"{name}.{member}", inner


@pytest.mark.parametrize(
    ("name", "text"), list(documented()), ids=lambda value: value if len(value) < 60 else ""
)
def test_an_example_runs(name: str, text: str, trips: Path) -> None:
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=report.append)
    assert not report, "".join(report)


def test_there_are_many_examples() -> None:
    assert len(list(documented())) >= 15


def test_the_readme_runs(trips: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(README), "exec"), {})


def test_what_is_public_is_documented() -> None:
    for name in st.__all__:
        value = getattr(st, name)
        assert name == "__version__" or inspect.getdoc(value), name
        if inspect.isclass(value) and value.__module__.startswith("stylobate"):
            for member, inner in vars(value).items():
                if not member.startswith("_") and callable(inner):
                    assert inspect.getdoc(inner), f"{name}.{member}"


def names_in_stubs() -> dict[str, set[str]]:
    """Returns the public names of the stubs: of the module under "", and of each class."""
    names: dict[str, set[str]] = {"": set()}
    for node in ast.parse(STUBS.read_text()).body:
        if isinstance(node, ast.ClassDef):
            names[""].add(node.name)
            names[node.name] = {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            names[""].add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[""].add(node.target.id)
    return names


def test_the_stubs_name_what_the_module_has() -> None:
    def public(value: Any) -> set[str]:
        return {name for name in vars(value) if not name.startswith("_")}

    stubs = names_in_stubs()
    assert {name for name in stubs[""] if name != "__version__"} == public(_stylobate)
    for name, members in stubs.items():
        if name:
            assert {member for member in members if not member.startswith("_")} == public(
                getattr(_stylobate, name)
            ), name


def test_all_names_can_be_had_and_listed() -> None:
    assert set(st.__all__) <= set(dir(st))
    with pytest.raises(AttributeError, match="nonsense"):
        st.nonsense  # noqa: B018


def run(*command: str) -> None:
    ran = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_stubs_have_the_signatures_of_the_module(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.write_text(
        "".join(rf"stylobate\._stylobate\.{name}" + os.linesep for name in ("_close_all", "__all__"))
    )
    run(
        "mypy.stubtest",
        "--ignore-disjoint-bases",
        "--allowlist",
        str(allowed),
        "--ignore-unused-allowlist",
        "stylobate._stylobate",
    )


def test_the_sources_are_well_typed(tmp_path: Path) -> None:
    config = tmp_path / "mypy.ini"
    config.write_text(
        "[mypy]\nstrict = true\nignore_missing_imports = true\nfollow_imports = silent\n"
        "warn_return_any = false\ndisallow_subclassing_any = false\n"
    )
    run("mypy", "--config-file", str(config), "--cache-dir", str(tmp_path / "cache"), "-p", "stylobate")
