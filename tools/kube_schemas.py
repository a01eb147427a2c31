#!/usr/bin/env python3
"""Makes JSON Schemas of Kubernetes' objects, as kubeconform -strict reads them, out of released modules.

    tools/kube_schemas.py FOLDER

FOLDER/v1.34.4/KIND-GROUP-VERSION.json    from api/openapi-spec/swagger.json of that version of the module k8s.io/kubernetes
FOLDER/crds/NAME.yaml, FOLDER/crd/KIND-GROUP-VERSION.json    the custom resources of the Prometheus operator's module, and KEDA's
Modules come through the Go toolchain's own settings, into a folder that is removed again.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import yaml

# The oldest that the chart supports (Chart.yaml: kubeVersion), the one of tests/peers/kube-apiserver, the newest.
KUBERNETES = ("v1.30.14", "v1.34.4", "v1.37.2")
KINDS = ("ClusterRole", "ClusterRoleBinding", "ConfigMap", "CronJob", "DaemonSet", "Deployment", "Job", "Namespace", "NetworkPolicy",
         "PersistentVolumeClaim", "Pod", "PodDisruptionBudget", "PriorityClass", "Role", "RoleBinding", "Secret", "Service",
         "ServiceAccount", "StatefulSet")
# (module, version, files of its custom resources, their names)
CUSTOM = (("github.com/prometheus-operator/prometheus-operator", "v0.85.0", "example/prometheus-operator-crd/monitoring.coreos.com_{}.yaml",
           ("servicemonitors", "podmonitors", "prometheusrules")),
          ("github.com/kedacore/keda/v2", "v2.21.0", "config/crd/bases/keda.sh_{}.yaml", ("scaledobjects", "triggerauthentications")))


def module_zip(path, version, folder):
    """The archive of a module, downloaded into a cache below `folder`."""
    done = subprocess.run(["go", "mod", "download", "-json", f"{path}@{version}"], capture_output=True, text=True, check=False,
                          cwd=folder, timeout=900, env={**os.environ, "GOMODCACHE": str(folder / "modules"),
                                                        "GOFLAGS": "-modcacherw", "GOWORK": "off"})
    answer = json.loads(done.stdout or "{}")
    if "Zip" not in answer:
        raise RuntimeError(answer.get("Error") or done.stderr.strip() or f"no module {path} {version}")
    return zipfile.ZipFile(answer["Zip"])


def file_name(kind, group, version):
    return "-".join([kind.lower(), *([group.split(".")[0]] if group else []), version]) + ".json"


def inline(schema, definitions, above=()):
    """The schema with every reference replaced, closed to keys that it does not have."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        # Schemas of custom resources contain themselves; nothing here has one.
        return {} if name in above else inline(definitions[name], definitions, (*above, name))
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        return {"oneOf": [{"type": "string"}, {"type": "integer"}]}
    out = {key: schema[key] for key in ("type", "enum", "pattern", "minimum", "maximum", "required", "minItems") if key in schema}
    if "properties" in schema:
        out["properties"] = {key: inline(value, definitions, above) for key, value in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            out["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            out[key] = inline(schema[key], definitions, above)
    return out


def write(folder, kind, group, version, schema):
    schema["properties"].update({"apiVersion": {"enum": [f"{group}/{version}" if group else version]}, "kind": {"enum": [kind]}})
    schema["required"] = sorted({*schema.get("required", ()), "apiVersion", "kind"})
    (folder / file_name(kind, group, version)).write_text(json.dumps(schema))


def kubernetes(version, folder, work):
    with module_zip("k8s.io/kubernetes", version, work) as archive:
        definitions = json.loads(archive.read(f"k8s.io/kubernetes@{version}/api/openapi-spec/swagger.json"))["definitions"]
    folder.mkdir(parents=True)
    for definition in definitions.values():
        for name in definition.get("x-kubernetes-group-version-kind", ()):
            if name["kind"] in KINDS and re.fullmatch(r"v\d+", name["version"]):
                write(folder, name["kind"], name["group"], name["version"], inline(definition, definitions))


def custom(folder, work):
    (folder / "crds").mkdir()
    (folder / "crd").mkdir()
    for path, version, file, names in CUSTOM:
        with module_zip(path, version, work) as archive:
            for name in names:
                text = archive.read(f"{path}@{version}/{file.format(name)}").decode()
                (folder / "crds" / f"{name}.yaml").write_text(text)
                spec = yaml.safe_load(text)["spec"]
                for one in spec["versions"]:
                    schema = inline(one["schema"]["openAPIV3Schema"], {})
                    schema["properties"]["metadata"] = {"type": "object"}
                    write(folder / "crd", spec["names"]["kind"], spec["group"], one["name"], schema)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    new = folder.with_name(folder.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="gpulens-modules-") as work:
        work = pathlib.Path(work)
        for version in KUBERNETES:
            kubernetes(version, new / version, work)
            shutil.rmtree(work / "modules")
        custom(new, work)
    (new / "made_by.py").write_bytes(pathlib.Path(__file__).read_bytes())
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)


if __name__ == "__main__":
    main()
