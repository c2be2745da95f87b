#!/usr/bin/env python3
"""Checks that the code keeps the rules of ARCHITECTURE.md. Prints a line for each violation.

Checked are: the paths that ARCHITECTURE.md names, the arrows between our crates, which crate may name which
dependency, that the tests and the wheel share one build, names and first lines of source files, circles of modules, `unsafe`, and where threads begin.

`--map [FOLDER ...]` checks nothing: it prints the path and the first doc line of each source file, of all crates or
of the folders given.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Crate by crate, which crates of ours it may depend on.
ARROWS = {
    "client": set(),
    "storage": {"client"},
    "columnar": {"storage"},
    "datafusion": {"client", "columnar", "storage"},
    "datagen": {"columnar", "storage"},
    "graph": {"columnar", "storage"},
    "server": {"client", "columnar", "datafusion", "storage"},
    "cli": {"client", "columnar", "datafusion", "datagen", "graph", "server", "storage"},
    "python": {"cli", "client", "columnar", "datafusion", "datagen", "graph", "server", "storage"},
    "cluster-sim": {"client"},
    "columns": {"columnar", "storage"},
    "graphar": {"columnar", "graph", "storage"},
    "sql": {"columnar", "datafusion", "storage"},
    "store": {"columnar", "graph", "storage"},
    "write": {"columnar", "storage"},
}
# Which crates may name these dependencies; the others may not, neither in Cargo.toml nor in their sources.
ONLY = {"s3s": {"server"}, "axum": {"server"},
        "arrow-flight": {"server"}, "tonic": {"server", "datafusion"}, "quick_cache": {"columnar"}, "datafusion": {"datafusion", "liquidcache", "sql"}, "orc-rust": {"columnar"}, "pyo3": {"python"}}
# What a crate may not name, under whatever feature.
NEVER = {"storage": {"arrow", "parquet", "orc"}}
VAGUE = {"common", "core", "types", "utils", "util", "prelude", "helpers", "misc"}
MANIFESTS = ("crates/*/Cargo.toml", "python/Cargo.toml", "bench/*/Cargo.toml")
UNSAFE_IN = ("crates/storage/src/sink/uring", "crates/columnar/src/kernels/codes", "crates/columnar/src/kernels/prefetch",
             "crates/columnar/src/kernels/utf8", "crates/storage/src/page_cache/disk/aligned",
             "crates/storage/src/page_cache/disk/uring", "crates/cli/src/allocator", "python/src/allocator",
             "python/src/interop/imported", "python/src/interop/sorted_maps")
# Files whose code, apart from tests, may start threads by themselves.
THREADS_IN = ("crates/storage/src/threads/", "crates/storage/src/sink/mod.rs", "crates/storage/src/sink/sync.rs",
              "crates/storage/src/page_cache/disk/mod.rs", "crates/storage/src/page_cache/disk/sync.rs",
              "crates/storage/src/page_cache/disk/recover.rs", "crates/graph/src/graphar/write/sort/order.rs",
              "crates/columnar/src/parallel/decode_threads.rs", "crates/datagen/src/ordered.rs", "crates/server/src/traces.rs", "crates/cli/src/replay/play.rs")
STARTS_A_THREAD = re.compile(r"\bspawn_blocking\b|\bthread::(?:spawn|scope|Builder)\b")


def main() -> int:
    if sys.argv[1:2] == ["--map"]:
        return print_map(sys.argv[2:])

    manifests = [path for pattern in MANIFESTS for path in sorted(ROOT.glob(pattern))]
    crates = {path.parent.name: path.parent for path in manifests}
    checks = [documented_paths(), dependencies(crates), builds(), names_in_sources(crates), threads(crates),
              files(crates), circles(crates)]
    lines = [line for check in checks for line in check]
    print(*lines, sep="\n", end="\n" if lines else "")
    return int(any(not line.startswith("warning: ") for line in lines))


# The map


def print_map(folders: list[str]) -> int:
    """Prints the path and the first doc line of each source file, aligned. Without folders: of the `src` of all crates."""
    roots = [ROOT / folder for folder in folders] or [
        path.parent / "src" for pattern in MANIFESTS for path in sorted(ROOT.glob(pattern))
    ]
    if missing := [folder for folder, root in zip(folders, roots) if not root.exists()]:
        print(*(f"{folder}: no such file or folder" for folder in missing), sep="\n", file=sys.stderr)
        return 1

    paths = [path for root in roots for path in ([root] if root.is_file() else rust_files(root))]
    width = max((len(where(path)) for path in paths), default=0)
    try:
        for path in paths:
            print(f"{where(path):{width}}  {first_doc_line(path)}".rstrip())
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough. Nothing is left to flush when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def first_doc_line(path: Path) -> str:
    """The first line of a file's documentation; empty if it has none."""
    with path.open() as file:
        line = file.readline()
    return line.removeprefix("//!").strip() if line.startswith("//!") else ""


# Documents


def documented_paths() -> Iterator[str]:
    """Each path in backticks exists: below the root, below crates/, or below the folder that its heading names."""
    document = ROOT / "ARCHITECTURE.md"
    if not document.is_file():
        yield "ARCHITECTURE.md is missing"
        return
    folder, fenced = ROOT, False
    for number, line in enumerate(document.read_text().splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        quoted = re.findall(r"`([^`]+)`", line)
        if line.startswith("#"):
            folder = next((ROOT / text for text in quoted if (ROOT / text).is_dir()), ROOT)
        for text in filter(looks_like_a_path, quoted):
            if not any((base / text).exists() for base in (ROOT, ROOT / "crates", folder)):
                yield f"ARCHITECTURE.md:{number}: `{text}` does not exist"


def looks_like_a_path(text: str) -> bool:
    is_file = re.search(r"\.(rs|py|toml|md|html|svg|lua|lock|sh)$", text)
    ours = re.match(r"(crates|tests|bench|tools|docs|fuzz|python|\.ci)/", text)
    is_folder = text.endswith("/")
    return bool(re.fullmatch(r"[\w./-]+", text) and not text.startswith("/") and (is_file or is_folder or ours))


# Crates


def dependencies(crates: dict[str, Path]) -> Iterator[str]:
    """Our crates depend on each other downwards only, and none on what lies beyond a wall. What tests use is theirs,
    unless it is never to be named."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)["packages"]
    ours = {package["name"]: Path(package["manifest_path"]).parent.name for package in packages}
    for package in packages:
        crate = ours[package["name"]]
        if crate not in ARROWS:
            yield f"crates/{crate}: {Path(__file__).name} does not know it: say in ARROWS what it may depend on"
        for name, kind in sorted((found["name"], found["kind"] or "") for found in package["dependencies"]):
            families = forbidden(crate) if kind != "dev" else NEVER.get(crate, set())
            beyond = any(is_of(name, family) for family in families)
            if beyond or ours.get(name, crate) not in ARROWS.get(crate, set()) | {crate}:
                yield f"crates/{crate}/Cargo.toml: {crate} may not depend on {name}"
    for crate in sorted(ARROWS.keys() - crates.keys()):
        yield f"crates/{crate}: named in ARROWS of {Path(__file__).name}, but not there"


def builds() -> Iterator[str]:
    """The wheel has its dependencies built as the workspace has them: what was built for one serves the other."""
    wheel = ["--package", "stylobate-python", "--edges", "normal,build", "--features"]
    test = ["--workspace", "--edges", "normal,build,dev"]
    release = ["--edges", "normal,build"]  # The default members.
    for profile, members, features in (("test", test, "extension-module,tested"),
                                       ("release", release, "extension-module")):
        shared = built_features(members)
        for crate, asked in sorted(built_features([*wheel, features]).items()):
            if crate in shared and asked != shared[crate] and not crate.startswith(("pyo3", "stylobate-python")):
                yield (f"python/Cargo.toml: the wheel ({profile}) has {crate} built with the features {sorted(asked)}, "
                       f"the workspace with {sorted(shared[crate])}")


def built_features(selection: list[str]) -> dict[str, set[str]]:
    """The features that each crate of a selection is built with: a set, since build scripts may have a build of their own."""
    command = ["cargo", "tree", "--prefix", "none", "--format", "{p}|{f}", *selection]
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    features: dict[str, set[str]] = {}
    for line in lines:
        package, _, named = line.removesuffix(" (*)").partition("|")
        features.setdefault(" ".join(package.split()[:2]), set()).add(named)
    return features


def forbidden(crate: str) -> set[str]:
    return {name for name, allowed in ONLY.items() if crate not in allowed} | NEVER.get(crate, set())


def is_of(name: str, family: str) -> bool:
    """Whether a crate is of a family: `arrow-array` of `arrow`, `parquet_derive` of `parquet`, `orc-rust` of `orc`."""
    return re.fullmatch(rf"{family}([-_].*)?", name) is not None


def names_in_sources(crates: dict[str, Path]) -> Iterator[str]:
    """No source names a crate beyond a wall, and none is unsafe that UNSAFE_IN does not list."""
    for crate, folder in crates.items():
        beyond = rf"(?:::)?\b((?:{'|'.join(sorted(forbidden(crate)))})(?:_\w+)?)"
        crossing = re.compile(rf"(?<![\w:]){beyond}::|\buse\s+{beyond}\b")
        for path in rust_files(folder):
            if path.relative_to(folder).parts[0] != "src":
                continue
            for number, line in enumerate(code(path).splitlines(), 1):
                if found := crossing.search(line):
                    yield f"{where(path)}:{number}: {crate} may not name {found[1] or found[2]}"
                if re.search(r"\bunsafe\b", line) and not where(path).startswith(UNSAFE_IN):
                    yield f"{where(path)}:{number}: unsafe is allowed in {' and '.join(UNSAFE_IN)} only"


def threads(crates: dict[str, Path]) -> Iterator[str]:
    """Threads begin in storage/src/threads, and where THREADS_IN lists an exception."""
    for crate, folder in crates.items():
        for path in rust_files(folder / "src"):
            parts = path.relative_to(folder).with_suffix("").parts
            if "bench" in folder.parts or "tests" in parts or where(path).startswith(THREADS_IN):
                continue
            for number, line in enumerate(without_tests(code(path)).splitlines(), 1):
                if STARTS_A_THREAD.search(line):
                    yield f"{where(path)}:{number}: use run_blocking or stream_from_thread of the storage crate"


# Files


def rust_files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*.rs")) if "target" not in path.parts)


def where(path: Path) -> str:
    return str(path.relative_to(ROOT))


def code(path: Path) -> str:
    """The source without comments and texts, in as many lines."""
    pattern = r'//[^\n]*|/\*.*?\*/|r(#+)".*?"\1|r"[^"]*"|"(?:\\.|[^"\\])*"|\'(?:\\.[^\']*|[^\'\\\n])\''
    return re.sub(pattern, lambda found: '""' + "\n" * found[0].count("\n"), path.read_text(), flags=re.DOTALL)


def files(crates: dict[str, Path]) -> Iterator[str]:
    """Names say something, the first line says what the file is, and `lib.rs` defines nothing."""
    kinds = "fn|struct|enum|union|trait|type|impl|const|static|macro_rules!"
    defines = re.compile(rf"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:unsafe |async |const )*({kinds})(?!\w)")
    for folder in crates.values():
        for path in rust_files(folder):
            for part in path.relative_to(folder).with_suffix("").parts:
                if part in VAGUE:
                    yield f"{where(path)}: {part} says nothing: name it after what it holds"
            lines = path.read_text().splitlines()
            if not lines or not lines[0].startswith("//!"):
                yield f"{where(path)}:1: the first line must say what the file is (//! ...)"
        library = folder / "src/lib.rs"
        if library.is_file():
            for number, line in enumerate(code(library).splitlines(), 1):
                if found := defines.match(line):
                    yield f"{where(library)}:{number}: lib.rs defines nothing, but has a {found[1]}"


# Modules


Module = tuple[str, ...]


class Modules:
    """The modules of a crate, what each gives out under another's name, and what each names."""

    def __init__(self, source: Path) -> None:
        self.files: dict[Module, Path] = {}
        for path in rust_files(source):
            parts = path.relative_to(source).with_suffix("").parts
            if parts[-1] in ("mod", "lib", "main"):
                parts = parts[:-1]
            if "tests" not in parts:
                self.files[parts] = path
        self.uses = {module: list(paths_in(without_tests(code(path)))) for module, path in self.files.items()}
        self.given = {
            module: {path[-1]: path for path in paths if len(path) > 1} for module, paths in self.uses.items()
        }

    def resolve(self, module: Module, path: Module, depth: int = 0) -> Module | None:
        """The module that defines what `path` names when it stands in `module`, if that is of this crate."""
        first, *rest = path
        at: Module
        if first == "crate":
            at = ()
        elif first in ("self", "super"):
            at = module if first == "self" else module[:-1]
            while rest and rest[0] == "super":
                at, rest = at[:-1], rest[1:]
        elif (*module, first) in self.files:
            at = (*module, first)
        else:
            return None
        for segment in rest:
            if (*at, segment) in self.files:
                at = (*at, segment)
                continue
            given = self.given.get(at, {}).get(segment)
            if given and depth < 8:
                return self.resolve(at, given, depth + 1) or at
            break
        return at

    def arrows(self) -> Iterator[tuple[Module, Module]]:
        for module, paths in self.uses.items():
            for path in paths:
                target = self.resolve(module, path)
                if target is not None and target != module:
                    yield module, target


def without_tests(text: str) -> str:
    """Inline tests may use what they like; they are the last of a file."""
    return re.split(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod\s+\w+", text, maxsplit=1)[0]


def paths_in(text: str) -> Iterator[Module]:
    """Every path below crate, self or super, and every path of a `use`, with its braces opened."""
    for found in re.finditer(r"\buse\s+([^;]+);", text):
        yield from opened("", re.sub(r"\s+", " ", found[1]))
    for found in re.finditer(r"\b(?:crate|self|super)(?:::\w+)+", re.sub(r"\buse\s+[^;]+;", "", text)):
        yield tuple(found[0].split("::"))


def opened(prefix: str, text: str) -> Iterator[Module]:
    head, brace, rest = text.partition("{")
    if not brace:
        path = re.sub(r"\s+as\s+\w+", "", prefix + text).replace(" ", "")
        yield tuple(part for part in path.split("::") if part and part != "*")
        return
    depth, start, inner = 0, 0, rest.rstrip(" ").removesuffix("}")
    for at, letter in enumerate(inner + ","):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            part = inner[start:at].strip()
            start = at + 1
            if part:
                yield from opened(prefix + head.strip(), "" if part == "self" else part)


def circles(crates: dict[str, Path]) -> Iterator[str]:
    """In no folder do modules need each other in a circle; a folder counts as one. Parent and child may."""
    for folder in crates.values():
        arrows = sorted(set(Modules(folder / "src").arrows()))
        siblings: dict[Module, dict[str, dict[str, str]]] = {}
        for source, target in arrows:
            shared = next((i for i, (a, b) in enumerate(zip(source, target)) if a != b), None)
            if shared is not None:
                needs = siblings.setdefault(source[:shared], {}).setdefault(source[shared], {})
                needs.setdefault(target[shared], f"{'/'.join(source)} -> {'/'.join(target)}")
        for parent, graph in sorted(siblings.items()):
            for circle in circular(graph):
                steps = sorted(graph[a][b] for a in circle for b in graph.get(a, {}) if b in circle)
                place = "/".join((where(folder / "src"), *parent))
                yield f"{place}: a circle of {', '.join(circle)}: {'; '.join(steps)}"


def circular(graph: dict[str, dict[str, str]]) -> list[list[str]]:
    """The sets of nodes that reach each other."""
    def reached(start: str) -> set[str]:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            for node in graph.get(waiting.pop(), {}):
                if node not in found:
                    found.add(node)
                    waiting.append(node)
        return found

    reach = {node: reached(node) for node in graph}
    sets = {tuple(sorted(other for other in reach[node] if node in reach.get(other, ()))) for node in graph}
    return [list(circle) for circle in sorted(sets) if circle]


if __name__ == "__main__":
    sys.exit(main())
