#!/usr/bin/env python3
"""Lists the crates that a binary of this workspace is built from.

components.py sbom PACKAGE TARGET      a CycloneDX document
components.py licences PACKAGE TARGET  the licence texts, as every redistribution must carry them
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LICENCE_FILES = ("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*", "UNLICENSE*")


def crates_of(package: str, target: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The package itself, and every crate that is compiled into it. Build scripts and tests do not count."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    packages = {entry["id"]: entry for entry in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    members = {packages[member]["name"]: member for member in metadata["workspace_members"]}
    if package not in members:
        sys.exit(f"error: the workspace has no package '{package}'")
    root = members[package]
    reached, waiting = {root}, [root]
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_linked and dependency["pkg"] not in reached:
                reached.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    crates = sorted((packages[crate] for crate in reached), key=lambda crate: (crate["name"], crate["version"]))
    return packages[root], [crate for crate in crates if crate["id"] != root]


def component(crate: dict[str, Any], kind: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": kind,
        "bom-ref": f"pkg:cargo/{crate['name']}@{crate['version']}",
        "name": crate["name"],
        "version": crate["version"],
        "purl": f"pkg:cargo/{crate['name']}@{crate['version']}",
    }
    if crate["license"]:
        # Old crates write MIT/Apache-2.0 where SPDX wants an operator.
        entry["licenses"] = [{"expression": crate["license"].replace("/", " OR ")}]
    return entry


def sbom(package: str, target: str) -> str:
    root, crates = crates_of(package, target)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(root, "application")},
        "components": [component(crate, "library") for crate in crates],
    }
    return json.dumps(document, indent=2) + "\n"


def licences(package: str, target: str) -> str:
    """Crates with the same text share one entry: most texts differ only in the names of the authors."""
    _, crates = crates_of(package, target)
    users: dict[str, list[str]] = {}
    without_text = []
    for crate in crates:
        if crate["source"] is None:
            continue
        name = f"{crate['name']} {crate['version']} ({crate['license'] or 'no licence named'})"
        folder = Path(crate["manifest_path"]).parent
        texts = sorted({path for pattern in LICENCE_FILES for path in folder.glob(pattern) if path.is_file()})
        if not texts:
            without_text.append(name)
        for path in texts:
            users.setdefault(path.read_text(errors="replace").strip(), []).append(name)
    parts = ["The licences of the crates that avfs is built from.\n"]
    for text, names in sorted(users.items(), key=lambda entry: entry[1]):
        parts.append("=" * 79 + "\n" + "\n".join(names) + "\n" + "-" * 79 + f"\n{text}\n")
    if without_text:
        parts.append("=" * 79 + "\nThese carry no text of their own:\n" + "\n".join(without_text) + "\n")
    return "\n".join(parts)


def main() -> None:
    forms = {"sbom": sbom, "licences": licences}
    match sys.argv[1:]:
        case [form, package, target] if form in forms:
            sys.stdout.write(forms[form](package, target))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
