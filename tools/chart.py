#!/usr/bin/env python3
"""Writes what follows from the Helm chart: its schema, the reference of its values, and the Kustomize base.

    tools/chart.py write      deploy/helm/gpulens/values.schema.json, the table in docs/chart.md, deploy/kustomize/base
    tools/chart.py check      exit 1 when one of them is old

values.yaml is the source of schema and reference: the comment above a key is its description, and "@type", "@enum", "@items",
"@values", "@min", "@pattern" there say what the default does not. Helm is build/go_peers/helm (tools/prepare_go_peers.sh), or $HELM.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "helm" / "gpulens"
KUSTOMIZE = ROOT / "deploy" / "kustomize"
REFERENCE = ROOT / "docs" / "chart.md"
MARK = "<!-- From here on made by tools/chart.py write; a test compares it. -->\n"
KUBE_VERSION = "1.34.0"
# Groups of keys that are Kubernetes' own objects: any key is allowed in them, and Kubernetes checks it.
FREE = ("resources", "nodeLabels")


def helm_program():
    return os.environ.get("HELM", str(ROOT / "build" / "go_peers" / "helm" / "helm"))


def render(values=(), sets=(), release="gpulens", namespace="gpulens", chart=CHART, strict=True):
    """`helm template`: its objects, or the message when it fails and `strict` is off."""
    command = [helm_program(), "template", release, str(chart), "-n", namespace, "--kube-version", KUBE_VERSION]
    for file in values:
        command += ["-f", str(file)]
    for one in sets:
        command += ["--set-json" if one.startswith("json:") else "--set", one.removeprefix("json:")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode == 0:
        return [one for one in yaml.safe_load_all(done.stdout) if one]
    message = "\n".join(line for line in done.stderr.splitlines() if "found symbolic link" not in line)
    if strict:
        raise RuntimeError(f"{' '.join(command[1:])}: {message}")
    return message


class Key:
    """A key of values.yaml: path, default, description and what is said about its type."""

    def __init__(self, path, default, description, hints):
        self.path, self.default, self.description, self.hints = path, default, description, hints

    @property
    def open_map(self):
        return self.default == {} or self.path[-1] in FREE

    @property
    def group(self):
        return isinstance(self.default, dict) and not self.open_map


def read_values(text):
    """The keys of values.yaml in their order."""
    tree = yaml.safe_load(text)
    keys, above, path = [], [], []
    for line in text.splitlines():
        comment = re.match(r" *# ?(.*)", line)
        key = re.match(r"( *)([\w.-]+):", line)
        if comment:
            above.append(comment[1])
        elif not line.strip():
            above = []
        elif key and len(key[1]) % 2 == 0:
            depth = len(key[1]) // 2
            path = path[:depth] + [key[2]]
            default = tree
            for name in path:
                default = default.get(name) if isinstance(default, dict) else None
            inside = any(one.path == path[: len(one.path)] and one.open_map for one in keys)
            if len(path) == depth + 1 and not inside:
                hints = dict(re.match(r"@(\w+) (.*)", one).groups() for one in above if one.startswith("@"))
                keys.append(Key(list(path), default, " ".join(one for one in above if not one.startswith("@")), hints))
            above = []
    return keys


def schema_of(key):
    default, hints = key.default, key.hints
    schema = {"description": key.description} if key.description else {}
    if "enum" in hints:
        return {**schema, "enum": hints["enum"].split(",")}
    if "type" in hints:
        kinds = hints["type"].split(",")
        return {**schema, "type": kinds}
    if isinstance(default, bool):
        schema["type"] = "boolean"
    elif isinstance(default, int):
        schema["type"] = "integer"
    elif isinstance(default, str):
        schema["type"] = "string"
    elif isinstance(default, list):
        schema["type"] = "array"
        schema["items"] = {"type": hints.get("items", "object")}
    else:
        schema["type"] = "object"
        if "values" in hints:
            schema["additionalProperties"] = {"type": hints["values"].split(",")}
    if "min" in hints:
        schema["minimum"] = int(hints["min"])
    if "pattern" in hints:
        schema["pattern"] = hints["pattern"]
    return schema


def make_schema(keys):
    top = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart gpulens", "type": "object",
           "additionalProperties": False, "properties": {"global": {"type": "object"}}}
    for key in keys:
        place = top
        for name in key.path[:-1]:
            place = place["properties"][name]
        place["properties"][key.path[-1]] = schema_of(key)
        if key.group:
            place["properties"][key.path[-1]].update({"additionalProperties": False, "properties": {}})
    return json.dumps(top, indent=1, ensure_ascii=False) + "\n"


def make_reference(keys):
    out = ["\n## Values\n\n| value | default | meaning |\n|---|---|---|\n"]
    for key in keys:
        if key.group:
            if key.description:
                out.append(f"| **{'.'.join(key.path)}** | | {key.description} |\n")
            continue
        default = json.dumps(key.default, ensure_ascii=False).replace("|", "\\|") if key.default not in ("", [], {}) else "–"
        text = key.description
        if "enum" in key.hints:
            choices = ", ".join(f"`{one}`" if one else "empty" for one in key.hints["enum"].split(","))
            text = (text + " " if text else "") + f"One of {choices}."
        shown = default if default == "–" else f"`{default}`"
        out.append(f"| `{'.'.join(key.path)}` | {shown} | {text} |\n")
    return "".join(out)


def make_kustomize():
    """The files of the base: an object each, and the configurations apart, so that overlays can replace them."""
    files, resources, generators = {}, [], []
    for one in render([KUSTOMIZE / "values.yaml"]):
        labels = one["metadata"].get("labels", {})
        for unwanted in ("app.kubernetes.io/managed-by", "helm.sh/chart"):
            labels.pop(unwanted, None)
        pod = one.get("spec", {}).get("template", {}).get("metadata", {})
        for unwanted in ("app.kubernetes.io/managed-by", "helm.sh/chart"):
            pod.get("labels", {}).pop(unwanted, None)
        # The generator's name has the hash of the content, which rolls the pods.
        if pod.get("annotations", {}).pop("gpulens/config", None) and not pod["annotations"]:
            del pod["annotations"]
        name = one["metadata"]["name"]
        if one["kind"] == "ConfigMap":
            file = f"config/{name}.yaml"
            files[file] = one["data"]["gpulens.yaml"]
            generators.append({"name": name, "namespace": one["metadata"]["namespace"], "files": [f"gpulens.yaml={file}"],
                               "options": {"labels": labels}})
            continue
        file = f"{one['kind'].lower()}-{name}.yaml"
        files[file] = yaml.safe_dump(one, sort_keys=False, width=120)
        resources.append(file)
    files["kustomization.yaml"] = "# Made by tools/chart.py write, from deploy/helm/gpulens with the values of ../values.yaml.\n" + yaml.safe_dump(
        {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": sorted(resources),
         "configMapGenerator": sorted(generators, key=lambda one: one["name"])}, sort_keys=False, width=120)
    return files


def outputs():
    """What each generated file should be, by path."""
    keys = read_values((CHART / "values.yaml").read_text())
    made = {CHART / "values.schema.json": make_schema(keys),
            REFERENCE: REFERENCE.read_text().split(MARK)[0] + MARK + make_reference(keys)}
    yield from made.items()
    # Rendering needs the schema of above.
    for name, text in make_kustomize().items():
        yield KUSTOMIZE / "base" / name, text


def main():
    if sys.argv[1:] not in (["write"], ["check"]):
        sys.exit(__doc__)
    old, seen = [], set()
    for path, text in outputs():
        seen.add(path)
        if path.exists() and path.read_text() == text:
            continue
        old.append(path)
        if sys.argv[1] == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for path in (KUSTOMIZE / "base").rglob("*.yaml"):
        if path not in seen:
            old.append(path)
            if sys.argv[1] == "write":
                path.unlink()
    if sys.argv[1] == "check" and old:
        print("old, write them with tools/chart.py write: " + ", ".join(str(one.relative_to(ROOT)) for one in old))
        sys.exit(1)


if __name__ == "__main__":
    main()
