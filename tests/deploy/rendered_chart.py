"""What the tests of the chart share: rendering, the objects by kind, their configurations below a temporary folder."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tools")]
try:
    import yaml
except ImportError as missing:
    raise unittest.SkipTest(f"Python package not here: {missing.name}") from None
import chart as chart_tool  # noqa: E402
from agent import BINARY  # noqa: E402
from go_peers import GO_PEERS, go_peer  # noqa: E402

CHART = chart_tool.CHART
# The seed's values, its two blocks `collectors` as one.
SEED = """
collectors: {nvidia: true, amd: false, gaudi: false, vllm: true, triton: false, sglang: false, tgi: false}
fleetHealth: {enabled: true}
costMonitor: {enabled: false, costPerGpuHour: 6.88}
otelCollector: {enabled: true, otlpEndpoint: "https://otel-collector.example.com/v1"}
monitoring: {slurmEnabled: false}
rbac: {create: true}
"""
TOKEN = "0123456789abcdef0123456789abcdef"
PUSH = "otelCollector: {enabled: true}\n"
SCRAPED = "listener: {enabled: true, tokenSecret: token, tlsSecret: tls}\n"
ALL_ENGINES = "vllm: true, triton: true, sglang: true, tgi: true"
# Three replicas of the LLM proxy, which share a budget.
PROXY = """
monitors: {serviceMonitor: true}
proxy:
  enabled: true
  replicas: 3
  keysSecret: keys
  providersSecret: providers
  metricsTokenSecret: token
  tlsSecret: tls
  persistence: {enabled: false}
  config:
    providers: [{name: openai, url: "https://api.openai.com", api_key: "${file:/etc/gpulens-providers/openai}"}]
    stores: [{name: pg, url: "postgresql://db/charges"}]
    budgets: [{name: all, usd: 500, mode: hard, shared: true}]
    budget_engine: {url: "redis://valkey:6379"}
""" + SCRAPED
# One of each kind of installation; every one of them is rendered, validated and, with --peers, taken by an API server.
TABLE = {
    "seed": SEED,
    "push": PUSH,
    "straight": "monitoring: {sink: otel, cluster: c1}\notlpSecretName: backend\notelCollector: {otlpHeaders: {X-Scope-OrgID: a}}\n",
    "stdout": "monitoring: {sink: stdout, hostPaths: {state: ''}}\n",
    "scraped": SCRAPED + "monitors: {podMonitor: true, labels: {release: prom}}\nalerts: {enabled: true}\n",
    "service monitor": SCRAPED + "monitors: {serviceMonitor: true}\n" + PUSH,
    "open": "listener: {enabled: true, allowUnauthenticated: true}\nnetworkPolicy: {scrapers: []}\n",
    "token alone": "listener: {enabled: true, tokenSecret: token, allowUnencrypted: true}\notelCollector: {enabled: true, tokenSecret: token, allowUnencrypted: true}\n",
    "web config": "listener: {enabled: true, webConfigSecret: web, webConfigTls: true}\nmonitors: {podMonitor: true}\n",
    "restricted": "podSecurity: restricted\n" + PUSH + SCRAPED,
    "vendors": "collectors: {amd: true, gaudi: true, %s}\ngaudi: {image: 'r/gaudi:1', runtimeClassName: habana}\n"
               "healthChecks: {enabled: true, nodes: 4}\n" % ALL_ENGINES + PUSH,
    "rights": "probes: {enabled: true}\npriorityClass: {create: true}\nnvidia: {hostDriver: {enabled: true}, nodeLabels: []}\nhealthChecks: {enabled: true}\n"
              "monitoring: {slurmEnabled: true, hostNetwork: true, hostFilesystems: true, kubeletStats: true, kubeletInsecureTls: true,"
              " hostPaths: {programs: /run/gpulens, slurmJobMapping: /var/run/jobs}, config: {collectors: {host: {per_cpu: true}}}}\n" + PUSH,
    "eBPF probes": "xpuPerf: {enabled: true, probes: [cuda], targets: {cgroups: [/kubepods.slice]}}\n" + PUSH,
    "gateway alone": "monitoring: {enabled: false}\notelCollector: {enabled: true, replicas: 3, clusterMetrics: true, remoteWriteUrl: 'http://vm/api/v1/write',"
                     " persistence: {enabled: false}}\n",
    "gateway with TLS": "otelCollector: {enabled: true, replicas: 2, tokenSecret: token, tlsSecret: tls}\n"
                        "monitors: {serviceMonitor: true}\n" + SCRAPED,
    "foreign names": "monitoring: {names: [l9gpu, zernel, dcgm]}\nalerts: {enabled: true, set: l9gpu}\nnameOverride: telemetry\n" + PUSH,
    "files of its own": SCRAPED + "monitors: {serviceMonitor: true, metricRelabelings: [{action: drop, sourceLabels: [__name__], regex: 'gpu_ecc_.*'}]}\n"
                        "monitoring: {extraVolumes: [{name: own, secret: {secretName: own}}], extraVolumeMounts: [{name: own, mountPath: /etc/own, readOnly: true}]}\n"
                        "otelCollector: {enabled: true, extraVolumes: [{name: ca, configMap: {name: ca}}], extraVolumeMounts: [{name: ca, mountPath: /etc/ca, readOnly: true}]}\n",
    "scaler alone": "monitoring: {enabled: false}\nscaler: {enabled: true, selector: 'app in (chat,search)', namespaces: [ml, search]}\n",
    "scaler with TLS": "scaler: {enabled: true, selector: app=chat, namespaces: ['*'], tlsSecret: tls}\n" + PUSH,
    "proxy": "monitoring: {enabled: false}\nproxy: {enabled: true, keysSecret: keys, allowUnencrypted: true, config: {providers: [{name: lab, url: 'http://lab:8000'}]}}\n",
    "proxy with all": PROXY,
    "l9gpu's price": "costMonitor: {enabled: true, costPerGpuHour: 6.88}\n" + PUSH,
}  # fmt: skip


def helm():
    """The path of helm, which tools/chart.py uses, too; skips where there is none."""
    program = go_peer("helm")
    chart_tool.os.environ["HELM"] = str(program)
    return program


def render(values, *sets, strict=True, chart=CHART):
    """The objects that the chart makes of these values, as YAML text; with strict=False the message if it refuses them."""
    helm()
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(values)
        file.flush()
        return chart_tool.render([file.name], sets, release="gl", namespace="gpu", strict=strict, chart=chart)


def kustomize(folder):
    """The objects of `kustomize build`."""
    done = subprocess.run([str(go_peer("kustomize")), "build", str(folder)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def of_kind(objects, kind, name=None):
    return [one for one in objects if one["kind"] == kind and (name is None or one["metadata"]["name"] == name)]


def one_of(objects, kind, name):
    found = of_kind(objects, kind, name)
    assert len(found) == 1, f"{len(found)} objects {kind} {name} of {[(one['kind'], one['metadata']['name']) for one in objects]}"
    return found[0]


def pods(objects):
    """(name of the workload, its pod template) of all workloads."""
    for one in objects:
        spec = one.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template") if isinstance(spec, dict) else None
        if template:
            yield one["metadata"]["name"], template


def configs(objects):
    """{name of the ConfigMap: configuration} of those for gpulens."""
    return {one["metadata"]["name"]: one["data"]["gpulens.yaml"] for one in of_kind(objects, "ConfigMap") if "gpulens.yaml" in one["data"]}


class ConfigFolder:
    """What a pod has at /etc/gpulens and /var/lib/gpulens, below a temporary folder: the paths in configurations are replaced."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-chart-"))
        for name, text in {"gateway/token": TOKEN, "gateway/ca.crt": "", "backend/token": "abcdef", "web/token": TOKEN,
                           "slurm/squeue": "", "jobs/0": ""}.items():
            file = self.path / "etc" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (self.path / "etc" / "tls").mkdir()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,DNS:gl-gateway,IP:127.0.0.1",
                        "-keyout", self.path / "etc/tls/tls.key", "-out", self.path / "etc/tls/tls.crt"],
                       check=True, capture_output=True, timeout=30)
        shutil.copy(self.path / "etc/tls/tls.crt", self.path / "etc/gateway/ca.crt")
        shutil.copy(self.path / "etc/tls/tls.crt", self.path / "etc/tls/ca.crt")
        self.web("bearer_token_file: token\ntls_server_config: {cert_file: ../tls/tls.crt, key_file: ../tls/tls.key}\n")

    def web(self, text):
        (self.path / "etc/web/web.yml").write_text(text.replace("/etc/gpulens-", str(self.path / "etc") + "/"))

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)

    def place(self, config):
        """The configuration, with this folder's paths in it."""
        return config.replace("/etc/gpulens-", str(self.path / "etc") + "/").replace("/var/lib/gpulens", str(self.path / "state")).replace(
            "/run/gpulens-programs", str(self.path / "run")).replace("/host", str(self.path / "host"))

    def check(self, config):
        """(exit code, the report of `gpulens config check`) of a configuration."""
        file = self.path / "checked.yaml"
        file.write_text(self.place(config))
        done = subprocess.run([str(BINARY), "config", "check", str(file)], capture_output=True, text=True, timeout=30, check=False)
        return done.returncode, done.stdout + done.stderr


def kubeconform(objects, version):
    """Validates objects strictly against the schemas of one version of Kubernetes; returns what is wrong."""
    schemas = GO_PEERS / "kube-schemas"
    if not schemas.exists():
        why = GO_PEERS / "kube-schemas.why"
        raise unittest.SkipTest(why.read_text().strip() if why.exists() else "peer not here: tools/prepare_go_peers.sh makes kube-schemas")
    text = "\n---\n".join(json.dumps(one) for one in objects)
    where = [f"{schemas}/{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json" for folder in (version, "crd")]
    done = subprocess.run([str(go_peer("kubeconform")), "-strict", "-summary", "-output", "text", "-schema-location", where[0],
                           "-schema-location", where[1], "-"], input=text, capture_output=True, text=True, timeout=120, check=False)
    valid = re.search(r"Valid: (\d+)", done.stdout)
    return [] if done.returncode == 0 and valid and int(valid[1]) == len(objects) else [done.stdout + done.stderr]
