"""The Helm chart and the Kustomize base: rendered by helm and kustomize, validated by kubeconform, and run by the real agent."""
import gzip
import json
import pathlib
import re
import ssl
import subprocess
import tempfile
import unittest

import rendered_chart
from rendered_chart import CHART, PROXY, PUSH, ROOT, SCRAPED, SEED, TABLE, configs, kubeconform, kustomize, of_kind, one_of, pods, render

import kube_node
import yaml
from agent import BINARY, Agent, free_port, nvidia_config, peer, samples, wait_until
from http_stub import HttpStub
from otlp_receiver import KINDS, Received

SCHEMAS = ("v1.30.14", "v1.34.4", "v1.37.2")


def agent_config(values, *sets, name="gl-nvidia"):
    return yaml.safe_load(configs(render(values, *sets))[name])


class Rendering(unittest.TestCase):
    """Every row of TABLE."""

    @classmethod
    def setUpClass(cls):
        rendered_chart.helm()
        cls.folder = rendered_chart.ConfigFolder()
        cls.addClassCleanup(cls.folder.remove)
        cls.rendered = {name: render(values) for name, values in TABLE.items()}

    def test_lint(self):
        for name in ("seed", "scraped", "restricted"):
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(TABLE[name])
                file.flush()
                done = subprocess.run([str(rendered_chart.helm()), "lint", "--strict", str(CHART), "-f", file.name, "--kube-version", "1.34.0"],
                                      capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("1 chart(s) linted, 0 chart(s) failed", done.stdout)

    def test_valid_in_three_versions(self):
        everything = [one for objects in self.rendered.values() for one in objects]
        for version in SCHEMAS:
            with self.subTest(version):
                self.assertEqual(kubeconform(everything, version), [])

    def test_schemas_refuse_what_is_wrong(self):
        wrong = json.loads(json.dumps(one_of(self.rendered["push"], "StatefulSet", "gl-gateway")))
        wrong["spec"]["template"]["spec"]["hostNetwrk"] = True
        self.assertIn("hostNetwrk", str(kubeconform([wrong], SCHEMAS[1])))
        monitor = json.loads(json.dumps(one_of(self.rendered["scraped"], "PodMonitor", "gl")))
        monitor["spec"]["podMetricsEndpoints"][0]["intervall"] = "15s"
        self.assertIn("intervall", str(kubeconform([monitor], SCHEMAS[1])))

    def test_configurations_are_accepted(self):
        count = 0
        for name, objects in self.rendered.items():
            self.folder.web(next((one["data"]["web.yml"] for one in of_kind(objects, "ConfigMap") if "web.yml" in one["data"]),
                                 "bearer_token_file: token\ntls_server_config: {cert_file: ../tls/tls.crt, key_file: ../tls/tls.key}\n"))
            for config_map, config in configs(objects).items():
                with self.subTest(f"{name}: {config_map}"):
                    code, report = self.folder.check(config)
                    self.assertEqual(code, 0, report + config)
                    count += 1
        self.assertGreaterEqual(count, len(TABLE))

    def test_a_wrong_configuration_is_refused(self):
        config = configs(render(PUSH, "monitoring.config.collectors.nvidia.intervall=1s"))["gl-nvidia"]
        code, report = self.folder.check(config)
        self.assertEqual(code, 2)
        self.assertIn("intervall", report)

    def test_one_daemonset_a_vendor(self):
        """l9-017"""
        for vendor in ("nvidia", "amd", "gaudi"):
            daemon_set = one_of(self.rendered["vendors"], "DaemonSet", f"gl-{vendor}")
            pod = daemon_set["spec"]["template"]["spec"]
            self.assertIn({"key": "nvidia.com/gpu", "operator": "Exists"}, pod["tolerations"])
            terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            self.assertGreater(len(terms), 1)
        self.assertEqual([one["metadata"]["name"] for one in of_kind(self.rendered["push"], "DaemonSet")], ["gl-nvidia"])

    def test_no_gpu_is_requested(self):
        """l9-017"""
        for name, objects in self.rendered.items():
            for workload, template in pods(objects):
                for container in template["spec"]["containers"]:
                    requested = {**container["resources"].get("requests", {}), **container["resources"].get("limits", {})}
                    self.assertLessEqual(set(requested), {"cpu", "memory"}, f"{name}: {workload}")

    def test_a_changed_configuration_rolls_the_pods(self):
        def annotations(*sets):
            return {name: template["metadata"].get("annotations") for name, template in pods(render(PUSH, *sets))}

        before, agents = annotations(), annotations("monitoring.interval=30")
        self.assertEqual(before, annotations())
        self.assertNotEqual(before["gl-nvidia"], agents["gl-nvidia"])
        self.assertEqual(before["gl-gateway"], agents["gl-gateway"], "the gateway's configuration is the same")
        self.assertNotEqual(before["gl-gateway"], annotations("otelCollector.otlpEndpoint=http://y")["gl-gateway"])

    def test_selectors_find_their_pods(self):
        """Services, monitors, budgets and policies select pods and Services that there are."""
        def matches(selector, labels):
            return selector.items() <= labels.items()

        for name, objects in self.rendered.items():
            labels = [template["metadata"]["labels"] for _, template in pods(objects)]
            services = [one["metadata"]["labels"] for one in of_kind(objects, "Service")]
            for one in objects:
                spec = one.get("spec", {})
                if one["kind"] == "Service":
                    selector, among = spec["selector"], labels
                elif one["kind"] in ("NetworkPolicy", "PodDisruptionBudget", "PodMonitor"):
                    selector, among = (spec.get("podSelector") or spec["selector"])["matchLabels"], labels
                elif one["kind"] == "ServiceMonitor":
                    selector, among = spec["selector"]["matchLabels"], services
                else:
                    continue
                with self.subTest(f"{name}: {one['kind']} {one['metadata']['name']}"):
                    self.assertTrue(any(matches(selector, one) for one in among), selector)

    def test_volumes_are_there(self):
        for name, objects in self.rendered.items():
            for workload, template in pods(objects):
                spec = template["spec"]
                claims = [one["metadata"]["name"] for kept in of_kind(objects, "StatefulSet", workload)
                          for one in kept["spec"].get("volumeClaimTemplates", [])]
                have = {one["name"] for one in spec.get("volumes", [])} | set(claims)
                used = {one["name"] for container in spec["containers"] for one in container.get("volumeMounts", [])}
                self.assertEqual(have, used, f"{name}: {workload}")

    def test_probes_are_of_what_is_served(self):
        scraped = one_of(self.rendered["scraped"], "DaemonSet", "gl-nvidia")["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(scraped["livenessProbe"]["httpGet"], {"path": "/-/healthy", "port": "http", "scheme": "HTTPS"})
        pushed = one_of(self.rendered["push"], "DaemonSet", "gl-nvidia")["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(pushed["livenessProbe"]["exec"]["command"], ["/usr/bin/gpulens", "check", "--alive"])
        self.assertNotIn("ports", pushed)


class SeedRows(unittest.TestCase):
    """Rows of the l9gpu seed, by number."""

    def test_l9_197_and_231_cluster_role(self):
        objects = render(PUSH, "rbac.create=true")
        rules = one_of(objects, "ClusterRole", "gpu-gl")["rules"]
        self.assertTrue(any("pods" in rule["resources"] and "list" in rule["verbs"] for rule in rules))
        binding = one_of(objects, "ClusterRoleBinding", "gpu-gl")
        self.assertEqual(binding["subjects"], [{"kind": "ServiceAccount", "name": "gl", "namespace": "gpu"}])
        none = render(PUSH, "rbac.create=false")
        self.assertEqual(of_kind(none, "ClusterRole") + of_kind(none, "ClusterRoleBinding"), [])

    def test_l9_213_and_228_gateway(self):
        objects = render("", "otelCollector.enabled=true")
        folder = rendered_chart.ConfigFolder()
        self.addCleanup(folder.remove)
        code, report = folder.check(configs(objects)["gl-gateway"])
        self.assertEqual(code, 0, report)
        self.assertIn("2 receivers", report)
        ports = {port["port"] for port in one_of(objects, "Service", "gl-gateway")["spec"]["ports"]}
        self.assertEqual(ports, {4317, 4318, 9095})
        one_of(objects, "StatefulSet", "gl-gateway")
        self.assertEqual(of_kind(render("monitoring: {sink: stdout}"), "StatefulSet"), [])

    def test_l9_223_vendors(self):
        images = "gaudi: {image: 'r/gaudi:1'}\n"
        for vendor in ("nvidia", "amd", "gaudi"):
            only = ",".join(f"collectors.{one}={str(one == vendor).lower()}" for one in ("nvidia", "amd", "gaudi"))
            enabled = agent_config(images + PUSH, only, name=f"gl-{vendor}")["collectors"]
            self.assertEqual([one for one in ("nvidia", "amd", "gaudi") if enabled[one]["enabled"]], [vendor])

    def test_l9_224_engines(self):
        targets = agent_config(PUSH, "collectors.vllm=true,collectors.sglang=true")["targets"]
        self.assertEqual([(one["name"], one["kind"]) for one in targets], [("vllm", "vllm"), ("sglang", "sglang")])
        targets = agent_config(PUSH, "collectors.triton=true,collectors.tgi=true,collectors.nim=true")["targets"]
        self.assertEqual([one["kind"] for one in targets], ["triton", "tgi", "nim"])

    def test_l9_225_fleet_health(self):
        for enabled in (True, False):
            config = agent_config(PUSH, f"fleetHealth.enabled={str(enabled).lower()}")
            self.assertIs(config["analyzers"]["fleet_health"]["enabled"], enabled)

    def test_l9_230_slurm(self):
        config = agent_config(SEED)
        self.assertEqual((config["collectors"]["slurm"], config["enrichers"]["slurm"]), ({"enabled": False}, {"enabled": False}))
        config = agent_config(PUSH, "monitoring.slurmEnabled=true")
        self.assertTrue(config["collectors"]["slurm"]["enabled"] and config["enrichers"]["slurm"]["enabled"])

    def test_l9_232_the_seeds_values(self):
        objects = render(SEED)
        config = yaml.safe_load(configs(objects)["gl-nvidia"])
        self.assertEqual([one["kind"] for one in config["targets"]], ["vllm"])
        self.assertFalse(config["analyzers"]["cost"]["enabled"])
        gateway = yaml.safe_load(configs(objects)["gl-gateway"])
        self.assertEqual(gateway["sinks"]["otlp"]["endpoint"], "https://otel-collector.example.com/v1")


class Running(unittest.TestCase):
    """Rendered configurations with the real agent."""

    def setUp(self):
        self.folder = rendered_chart.ConfigFolder()
        self.addCleanup(self.folder.remove)

    def place(self, config, **changes):
        """The configuration as it can run here: addresses and simulated GPUs of the test."""
        tree = yaml.safe_load(self.folder.place(config))
        # The agent's own arguments have the address; without TLS no password is needed there.
        tree["http"] = {"web_config": tree["http"]["web_config"]} if "web_config" in tree["http"] else {}
        tree.pop("websocket", None)
        for path, text in changes.items():
            at = tree
            *above, last = path.split("__")
            for name in above:
                at = at.setdefault(name, {})
            at[last] = text
        return yaml.safe_dump(tree)

    def behind_the_gateway(self, values, *sets, scheme="http", tls=None, authorization=None):
        """The gateway and an agent of one release, and a backend that records; the requests at the backend once an agent's metric is
        there, its resource, and the headers of its request."""
        requests = []

        def answer(request, body):
            requests.append((request.path, request.headers, body))
            return 200, {}, b""

        def arrived():
            for path, headers, body in list(requests):
                if path != "/v1/metrics":
                    continue
                message = KINDS[path]()
                message.ParseFromString(gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body)
                for resource, _, metric in Received(path, headers, message).metrics():
                    if metric.name == "gpu.power.draw":
                        return headers, resource
            return None

        with HttpStub(answer) as stub:
            objects = render(values, "otelCollector.enabled=true", f"otelCollector.otlpEndpoint={stub.origin}/v1", *sets)
            ports = {name: free_port() for name in ("http", "grpc", "rw")}
            gateway = self.place(configs(objects)["gl-gateway"], receivers__otlp__http={"listen": [f"127.0.0.1:{ports['http']}"]},
                                 receivers__otlp__grpc={"listen": [f"127.0.0.1:{ports['grpc']}"]},
                                 receivers__remote_write__http={"listen": [f"127.0.0.1:{ports['rw']}"]}, sinks__otlp__interval="1s")
            agent = self.place(configs(objects)["gl-nvidia"], sinks__otlp__endpoints=[f"{scheme}://127.0.0.1:{ports['http']}"],
                               sinks__otlp__interval="1s", collectors__nvidia=self.simulated(), collectors__host={"enabled": False},
                               enrichers__cloud={"enabled": False}, state_dir=str(self.folder.path / "agent"))
            with Agent(config=gateway, environment={"POD_NAME": "gl-gateway-0"}, tls=tls, authorization=authorization):
                with Agent(config=agent, environment={**self.nvml, "NODE_NAME": "node-7"}):
                    headers, resource = wait_until(arrived, what="an agent's metric behind the gateway")
        return requests, resource, headers

    def test_l9_229_v1_is_not_doubled(self):
        requests, resource, headers = self.behind_the_gateway("otlpSecretName: backend\n")
        self.assertEqual({path for path, _, _ in requests} - {"/v1/metrics", "/v1/logs", "/v1/traces"}, set())
        self.assertEqual(headers["Authorization"], "Bearer abcdef")
        self.assertEqual((resource["host.name"], resource["service.instance.id"], resource["service.name"]), ("node-7", "node-7", "gpulens"))

    def test_a_gateway_with_tls_and_token_takes_its_agents(self):
        values = "otelCollector: {tokenSecret: token, tlsSecret: tls}\n"
        self.folder.web(one_of(render(values, "otelCollector.enabled=true"), "ConfigMap", "gl-gateway-web")["data"]["web.yml"])
        context = ssl.create_default_context(cafile=str(self.folder.path / "etc/tls/tls.crt"))
        _, resource, _ = self.behind_the_gateway(values, scheme="https", tls=context, authorization="Bearer " + rendered_chart.TOKEN)
        self.assertEqual(resource["host.name"], "node-7")

    def simulated(self):
        config, self.nvml = nvidia_config("checks.yaml")
        return yaml.safe_load(config)["collectors"]["nvidia"]

    def test_l9_226_and_225_price_and_health(self):
        config = self.place(configs(render("costMonitor: {enabled: true, costPerGpuHour: 6.88}\n" + PUSH))["gl-nvidia"],
                            collectors__nvidia=self.simulated(), collectors__host={"enabled": False}, enrichers__kubernetes={"enabled": False},
                            sinks__otlp={"enabled": False})
        with Agent(config=config, environment=self.nvml) as agent:
            prices = wait_until(lambda: samples(agent.page(), "gpu_cost_per_gpu_hour_USD"), what="a price")
            self.assertEqual({one.value for one in prices}, {6.88})
            wait_until(lambda: samples(agent.page(), "gpu_health_score_ratio"), what="a score")

    def test_l9_227_price_from_the_instance(self):
        """Without a price the rendered configuration queries the metadata service, and finds the type's price."""
        def answer(request, _):
            if request.path == "/latest/api/token":
                return 200, {}, b"t"
            document = {"instanceType": "p5.48xlarge", "region": "us-east-1", "availabilityZone": "us-east-1a", "accountId": "1",
                        "instanceId": "i-1", "imageId": "ami-1"}
            pages = {"/latest/dynamic/instance-identity/document": json.dumps(document).encode()}
            return (200, {}, pages[request.path]) if request.path in pages else (404, {}, b"")

        class Puts(HttpStub):
            def __init__(self, function):
                super().__init__(function)
                handler = self._server.RequestHandlerClass
                handler.do_PUT = handler.do_GET

        with Puts(answer) as stub:
            config = self.place(configs(render(PUSH, f"cloud.endpoint={stub.origin}", "cloud.provider=aws"))["gl-nvidia"],
                                collectors__nvidia=self.simulated(), collectors__host={"enabled": False},
                                enrichers__kubernetes={"enabled": False}, sinks__otlp={"enabled": False})
            with Agent(config=config, environment=self.nvml) as agent:
                found = wait_until(lambda: samples(agent.page(), "gpu_cost_per_gpu_hour_USD"), what="a price of the list")
                self.assertEqual({one.value for one in found}, {6.88})

    def test_names_of_pods_by_what_the_chart_grants(self):
        """The rendered paths below /host lead to the kubelet, and the API server is requested for nothing but what the ClusterRole has."""
        for kubelet in ("/var/lib/kubelet", "/var/lib/k0s/kubelet"):
            with self.subTest(kubelet):
                self.names_of_pods(kubelet)

    def names_of_pods(self, folder):
        objects = render(PUSH, f"monitoring.hostPaths.kubelet={folder}")
        socket = self.folder.path / f"host{folder}/pod-resources/kubelet.sock"
        socket.parent.mkdir(parents=True)
        mounts = {one["mountPath"] for _, template in pods(objects) for container in template["spec"]["containers"]
                  for one in container["volumeMounts"]}
        self.assertIn(f"/host{folder}/pod-resources", mounts)
        kubelet, api = kube_node.Kubelet(socket), kube_node.ApiServer()
        self.addCleanup(kubelet.stop)
        self.addCleanup(api.stop)
        config = yaml.safe_load(self.place(configs(objects)["gl-nvidia"], collectors__nvidia=self.simulated(), collectors__host={"enabled": False},
                                           enrichers__cloud={"enabled": False}, sinks__otlp={"enabled": False}))
        config["enrichers"]["kubernetes"]["kubeconfig"] = str(api.kubeconfig(self.folder.path / "kubeconfig"))
        with Agent(config=yaml.safe_dump(config), environment={**self.nvml, "NODE_NAME": "n1"}) as agent:
            gpus = wait_until(lambda: samples(agent.page(), "gpu_info"), what="GPUs")
            api.put(kube_node.pod("llama-0", "0e1d2c3b-4a59-6877-8695-a4b3c2d1e0f1", labels={"app": "llama"}))
            kubelet.hold("llama-0", "nvidia.com/gpu", [gpus[0].labels["gpu_uuid"]])
            wait_until(lambda: samples(agent.page(), "gpu_power_draw_watts", k8s_pod_name="llama-0", k8s_namespace_name="ml", k8s_node_name="n1"),
                       what="the name of a pod")
        granted = {(resource, verb) for rule in one_of(objects, "ClusterRole", "gpu-gl")["rules"]
                   for resource in rule["resources"] for verb in rule["verbs"]}
        for path in api.requested:
            path, _, query = path.partition("?")
            resource, *name = path.split("/api/v1/" if path.startswith("/api/") else "/v1/", 1)[-1].split("/")
            self.assertIn((resource, "watch" if "watch" in query else "get" if name else "list"), granted, path)
        self.assertEqual({path.partition("?")[0] for path in api.requested} >= {"/api/v1/pods", "/api/v1/nodes/n1"}, True)

    def test_listener_needs_its_token(self):
        """A page with token and TLS, as the chart configures it, and the probes that the kubelet sends."""
        objects = render(SCRAPED)
        web = one_of(objects, "ConfigMap", "gl-web")["data"]["web.yml"]
        self.folder.web(web)
        config = yaml.safe_load(self.folder.place(configs(objects)["gl-nvidia"]))
        config.pop("websocket")
        config["http"].pop("listen")  # the agent's own argument has it
        config.update({"collectors": {"nvidia": self.simulated(), "host": {"enabled": False}}, "enrichers": {}})
        context = ssl.create_default_context(cafile=str(self.folder.path / "etc/tls/tls.crt"))
        token = "Bearer " + rendered_chart.TOKEN
        with Agent(config=yaml.safe_dump(config), environment=self.nvml, tls=context, authorization=token) as agent:
            self.assertEqual(agent.get("/metrics", tls=context).status, 401)
            self.assertEqual(agent.get("/-/healthy", tls=context).status, 200)
            self.assertEqual(agent.get("/metrics", tls=context, Authorization=token).status, 200)


class Refusals(unittest.TestCase):
    """What the chart refuses, each with a message that says what to do."""

    CASES = {
        "": "nothing would get the agents' numbers. Choose",
        "collectors: {nvidia: false}": "nothing would be installed",
        "listener: {enabled: true}": "everyone in the cluster could read the agents' pages",
        "listener: {enabled: true, tokenSecret: t}": "as plain text. Set listener.tlsSecret",
        "listener: {enabled: true, tokenSecret: t, webConfigSecret: w}": "webConfigSecret holds everything",
        "monitors: {podMonitor: true}\nmonitoring: {sink: stdout}": "set listener.enabled: true",
        "monitors: {podMonitor: true, serviceMonitor: true}\n" + SCRAPED: "read every agent twice",
        "nccl: {enabled: true}\n" + PUSH: "the chart loads nothing into the pods of jobs",
        "podSecurity: restricted\nxpuPerf: {enabled: true}\n" + PUSH: "takes a container with CAP_BPF",
        "xpuPerf: {enabled: true}\nmonitoring: {hostPID: false}\n" + PUSH: "set monitoring.hostPID: true",
        "xpuPerf: {enabled: true, probes: [cuda]}\n" + PUSH: "set xpuPerf.targets",
        "collectors: {gaudi: true}\n" + PUSH: "needs gaudi.image",
        "collectors: {vllm: true, nim: true}\n" + PUSH: "the same page",
        "collectors: {nvidia: false, vllm: true}\n" + PUSH: "are read by agents",
        "podSecurity: restricted\nprobes: {enabled: true}\n" + PUSH: "probes.enabled takes a privileged container",
        "podSecurity: restricted\nmonitoring: {hostNetwork: true}\n" + PUSH: "monitoring.hostNetwork needs podSecurity: privileged",
        "podSecurity: restricted\ncollectors: {gaudi: true}\ngaudi: {image: 'a:b'}\n" + PUSH: "devices of the node",
        "otelCollector: {enabled: true, otlpEndpoint: ''}": "a gateway that sends nowhere",
        "networkPolicy: {enabled: false}\n" + PUSH: "everyone in the cluster could send to the gateway",
        "otelCollector: {enabled: true, tokenSecret: t}": "Set otelCollector.tlsSecret",
        "probes: {enabled: true}\n" + SCRAPED: "nothing would get its events",
        "scaler: {enabled: true}\n" + PUSH: "set scaler.selector",
        "monitoring: {enabled: false}\nscaler: {enabled: true, selector: app=chat}\nnetworkPolicy: {enabled: false}": "everyone in the cluster could query it",
        "proxy: {enabled: true}\n" + PUSH: "set proxy.config.providers",
        "proxy: {enabled: true, config: {providers: [{name: a}]}}\n" + PUSH: "set proxy.keysSecret",
        "proxy: {enabled: true, keysSecret: k, config: {providers: [{name: a}]}}\n" + PUSH: "Set proxy.tlsSecret",
        PROXY.replace("stores:", "store_s:"): "charges would end with the pod",
        PROXY.replace("budget_engine:", "budget_engines:"): "the whole of each budget",
        "alerts: {enabled: true, thresholds: {NoSuchAlert: 1}}\n" + PUSH: "there is no alert NoSuchAlert",
        # The schema: unknown keys and wrong types.
        "colectors: {nvidia: true}\n" + PUSH: "colectors",
        "monitoring: {intervall: 60}\n" + PUSH: "intervall",
        "monitoring: {interval: 60s}\n" + PUSH: "interval",
        "collectors: {nvidia: 'yes'}\n" + PUSH: "nvidia",
        "podSecurity: baseline\n" + PUSH: "podSecurity",
        "otelCollector: {enabled: true, replicas: 0}": "replicas",
        "image: {digest: 'sha256:12'}\n" + PUSH: "digest",
        "dashboards: {enabled: true, sets: [ours]}\n" + PUSH: "dashboards.sets",
    }  # fmt: skip

    def test_refused_with_a_reason(self):
        for values, reason in self.CASES.items():
            with self.subTest(values):
                answer = render(values, strict=False)
                self.assertIsInstance(answer, str, "it was rendered")
                self.assertIn(reason, answer)


class Rules(unittest.TestCase):
    def rules(self, values, *sets):
        return {rule["alert"]: rule for one in of_kind(render("alerts: {enabled: true}\n" + PUSH + values, *sets), "PrometheusRule")
                for group in one["spec"]["groups"] for rule in group["rules"] if "alert" in rule}

    def test_rules_are_those_of_the_tree(self):
        for chosen, left_out in (("gpulens", {"l9gpu.yaml"}), ("l9gpu", None)):
            files = {path.name for path in (ROOT / "deploy" / "rules").glob("*.yaml")}
            files = files - left_out if left_out else {"l9gpu.yaml", "agent.yaml"}
            expected = {rule["alert"]: rule for name in files
                        for group in yaml.safe_load((ROOT / "deploy" / "rules" / name).read_text())["groups"]
                        for rule in group["rules"] if "alert" in rule}
            self.assertEqual(self.rules("", f"alerts.set={chosen}"), expected)

    def test_thresholds(self):
        alerts = self.rules("", "alerts.set=l9gpu", "alerts.thresholds.GPUTemperatureWarning=80", "alerts.thresholds.GPUIdleWaste=0.1",
                            "alerts.for.GPUIdleWaste=30m", "alerts.runbookUrl=https://wiki.example/gpu/")
        self.assertTrue(alerts["GPUTemperatureWarning"]["expr"].endswith("> 80"))
        self.assertIn("above 80 °C", alerts["GPUTemperatureWarning"]["annotations"]["description"])
        self.assertTrue(alerts["GPUIdleWaste"]["expr"].endswith("< 0.1"))
        self.assertIn("less than 10 %", alerts["GPUIdleWaste"]["annotations"]["description"])
        self.assertEqual(alerts["GPUIdleWaste"]["for"], "30m")
        self.assertEqual(alerts["GPUTemperatureWarning"]["annotations"]["runbook_url"], "https://wiki.example/gpu/heat-and-power.md")

    def test_an_alert_can_be_left_out(self):
        self.assertEqual(set(self.rules("")) - set(self.rules("", "json:alerts.disabled=[\"GpulensKernelLogUnread\"]")), {"GpulensKernelLogUnread"})
        self.assertIn("there is no alert Gpu in", render('alerts: {enabled: true, disabled: [Gpu]}\n' + PUSH, strict=False))

    def test_every_threshold_of_l9gpu_can_be_changed(self):
        names = [rule["alert"] for group in yaml.safe_load((ROOT / "deploy/rules/l9gpu.yaml").read_text())["groups"] for rule in group["rules"]]
        alerts = self.rules("", "alerts.set=l9gpu", *(f"alerts.thresholds.{name}=77" for name in names))
        for name in names:
            self.assertRegex(alerts[name]["expr"], r"77\s*$", name)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"groups": [{"name": "changed", "rules": list(alerts.values())}]}, file)
            file.flush()
            done = subprocess.run([peer("promtool"), "check", "rules", file.name], capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Dashboards(unittest.TestCase):
    def test_a_config_map_each(self):
        files = {path.name: path.read_text() for path in (ROOT / "deploy" / "dashboards").glob("*.json")}
        if not files:
            self.skipTest("no dashboards in deploy/dashboards")
        for sets, prefix in (("", "gpulens-"), (", sets: [zumik]", "zumik-"), (", sets: [gpulens, l9gpu, zumik]", "")):
            maps = {name: text for one in of_kind(render(f"dashboards: {{enabled: true{sets}}}\n" + PUSH), "ConfigMap")
                    if one["metadata"]["labels"].get("grafana_dashboard") == "1" for name, text in one["data"].items()}
            self.assertEqual(maps, {name: text for name, text in files.items() if name.startswith(prefix)})


class Generated(unittest.TestCase):
    """What tools/chart.py writes is what lies in the tree."""

    def test_nothing_is_old(self):
        rendered_chart.helm()
        old = [str(path.relative_to(ROOT)) for path, text in rendered_chart.chart_tool.outputs() if not path.exists() or path.read_text() != text]
        self.assertEqual(old, [], "tools/chart.py write")

    def test_every_value_is_described(self):
        keys = rendered_chart.chart_tool.read_values((CHART / "values.yaml").read_text())
        self.assertGreater(len(keys), 100)
        # `enabled` and the objects of Kubernetes explain themselves.
        plain = {"enabled", "create", "resources", "nodeSelector", "affinity", "tolerations", "podAnnotations", "podLabels", "annotations",
                 "serviceAnnotations", "schedule", "value", "replicas", "size", "serviceType", "pullPolicy", "provider", "otlpProtocol",
                 "concurrencyPolicy", "successfulJobsHistoryLimit", "failedJobsHistoryLimit", "interval", "port"}
        bare = [".".join(key.path) for key in keys if not key.description and not key.group and key.path[-1] not in plain]
        self.assertEqual(bare, [])


class HowTo(unittest.TestCase):
    """The values of docs/howto/kubernetes.md, and its scrape job."""

    def test_values_can_be_installed(self):
        page = (ROOT / "docs/howto/kubernetes.md").read_text()
        found = dict(re.findall(r"```yaml values\n# (\w+)\.yaml\n(.*?)```", page, re.S))
        self.assertEqual(set(found), {"scraped", "push", "l9gpu"})
        self.assertEqual(yaml.safe_load(found["l9gpu"]), yaml.safe_load(SEED))
        folder = rendered_chart.ConfigFolder()
        self.addCleanup(folder.remove)
        for name, values in found.items():
            if not any((ROOT / "deploy" / "dashboards").glob("*.json")):
                values = re.sub("dashboards: {enabled: true", "dashboards: {enabled: false", values)
            with self.subTest(name):
                objects = [one for one in render(values) if one["metadata"]["labels"]["app.kubernetes.io/component"] != "dashboards"]
                self.assertEqual(kubeconform(objects, SCHEMAS[1]), [])
                for config in configs(objects).values():
                    code, report = folder.check(config)
                    self.assertEqual(code, 0, report)

    def test_values_of_the_pages_are_those_of_the_chart(self):
        """Every `a.b` in backquotes that begins like a value is one."""
        keys = {".".join(key.path) for key in rendered_chart.chart_tool.read_values((CHART / "values.yaml").read_text())}
        tops = {key.partition(".")[0] for key in keys}
        for page in ("docs/howto/kubernetes.md", "docs/chart.md"):
            text = (ROOT / page).read_text().split("## Names of l9gpu's chart")[0]
            for word in re.findall(r"`([a-z]\w+(?:\.\w+)+)[:`]", text):
                if word.partition(".")[0] in tops and not word.endswith((".md", ".yaml")):
                    # Below a free map anything may follow.
                    self.assertTrue(word in keys or any(word.startswith(key + ".") for key in keys if key.endswith("config")), f"{page}: {word}")

    def test_scrape_job(self):
        page = (ROOT / "docs/howto/kubernetes.md").read_text()
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "prometheus.yml")
            text = re.search(r"```yaml scrape\n(.*?)```", page, re.S)[1]
            for name in ("token", "ca.crt"):
                pathlib.Path(folder, name).write_text("")
            # Debian's promtool has no discovery in Kubernetes.
            text, count = re.subn(r"kubernetes_sd_configs: .*", "static_configs: [{targets: ['127.0.0.1:9091']}]", text)
            self.assertEqual(count, 1)
            file.write_text(text.replace("/etc/prometheus/gpulens", folder))
            done = subprocess.run([peer("promtool"), "check", "config", "--syntax-only", str(file)], capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        labels = one_of(render(SCRAPED), "DaemonSet", "gl-nvidia")["spec"]["template"]["metadata"]["labels"]
        self.assertEqual(labels["gpulens/page"], "agent", "what the job keeps")


class Scaler(unittest.TestCase):
    """The scaler of KEDA: docs/howto/keda.md."""

    def test_rights_are_of_its_namespaces(self):
        objects = render(TABLE["scaler alone"])
        self.assertEqual({one["metadata"]["namespace"] for one in of_kind(objects, "Role")}, {"ml", "search"})
        self.assertEqual({str(one["rules"]) for one in of_kind(objects, "Role")},
                         {str([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])})
        self.assertEqual(of_kind(objects, "ClusterRole"), [])
        self.assertEqual(of_kind(objects, "DaemonSet"), [])
        self.assertEqual([one["metadata"]["name"] for one in of_kind(render(TABLE["scaler with TLS"]), "ClusterRole") if
                          one["metadata"]["name"].endswith("scaler")], ["gpu-gl-scaler"])

    def test_objects_of_the_page_are_those_of_keda(self):
        page = (ROOT / "docs/howto/keda.md").read_text()
        objects = [yaml.safe_load(text) for text in re.findall(r"```yaml keda\n(.*?)```", page, re.S)]
        self.assertEqual([one["kind"] for one in objects], ["ScaledObject", "TriggerAuthentication"])
        self.assertEqual(kubeconform(objects, SCHEMAS[1]), [])
        service = one_of(render(TABLE["scaler alone"]), "Service", "gl-scaler")
        for trigger in objects[0]["spec"]["triggers"]:
            self.assertTrue(trigger["metadata"]["scalerAddress"].endswith(f"-scaler.monitoring.svc:{service['spec']['ports'][0]['port']}"))

    def test_its_configuration(self):
        config = agent_config(TABLE["scaler alone"], name="gl-scaler")
        self.assertEqual(config["discovery"]["kubernetes"]["namespaces"], ["ml", "search"])
        self.assertEqual(config["sinks"]["keda"], {"listen": [":9099"], "insecure": True})
        self.assertFalse(agent_config(TABLE["scaler with TLS"], name="gl-scaler")["sinks"]["keda"]["insecure"])


class ProbeHost(unittest.TestCase):
    """The container that attaches probes: off by default, two or three rights, never privileged."""

    def container(self, values, *sets):
        daemon_set = one_of(render(values, *sets), "DaemonSet", "gl-nvidia")
        pod = daemon_set["spec"]["template"]["spec"]
        return pod, next((one for one in pod["containers"] if one["name"] == "probe-host"), None)

    def test_off_by_default(self):
        pod, container = self.container(PUSH)
        self.assertIsNone(container)
        for one in pod["containers"]:
            self.assertNotIn("add", one["securityContext"].get("capabilities", {}))

    def test_the_rights_of_its_container_and_of_no_other(self):
        pod, container = self.container(TABLE["eBPF probes"])
        self.assertTrue(pod["hostPID"])
        security = container["securityContext"]
        self.assertEqual(security["capabilities"], {"drop": ["ALL"], "add": ["BPF", "PERFMON", "SYS_PTRACE"]})
        self.assertFalse(security["privileged"] or security["allowPrivilegeEscalation"])
        self.assertTrue(security["readOnlyRootFilesystem"])
        agent = next(one for one in pod["containers"] if one["name"] == "gpulens")
        self.assertNotIn("add", agent["securityContext"]["capabilities"])
        shared = {mount["mountPath"] for mount in container["volumeMounts"]} & {mount["mountPath"] for mount in agent["volumeMounts"]}
        self.assertEqual(shared, {"/etc/gpulens", "/run/gpulens"}, "the socket and the configuration are the same")

    def test_without_rights_over_other_containers(self):
        _, container = self.container("xpuPerf: {enabled: true, otherContainers: false}\n" + PUSH)
        self.assertEqual(container["securityContext"]["capabilities"]["add"], ["BPF", "PERFMON"])

    def test_the_agent_reads_its_counts(self):
        config = agent_config(TABLE["eBPF probes"])
        self.assertEqual(config["collectors"]["probes"], {"enabled": True, "probes": ["cuda"], "targets": {"cgroups": ["/kubepods.slice"]}})
        self.assertNotIn("probes", agent_config(PUSH)["collectors"])


class Proxy(unittest.TestCase):
    """The LLM proxy: docs/proxy.md."""

    def check(self, values):
        """The configuration that `gpulens proxy --check` reads with files where a pod has them."""
        data = one_of(render(values), "ConfigMap", "gl-proxy")["data"]
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {"gpulens-providers/openai": "k", "gpulens-metrics/token": "t"}.items():
                pathlib.Path(folder, name).parent.mkdir()
                pathlib.Path(folder, name).write_text(text)
            for name in ("gpulens", "gpulens-keys"):
                pathlib.Path(folder, name).mkdir()
            for name, text in data.items():
                pathlib.Path(folder, "gpulens", name).write_text(text.replace("/etc/gpulens", f"{folder}/gpulens").replace("/var/lib/gpulens", f"{folder}/state"))
            made = subprocess.run([BINARY, "proxy", "keys", "new", "--id", "ada", "--tenant", "acme", "--file", f"{folder}/gpulens-keys/keys.tsv"],
                                  capture_output=True, text=True, timeout=30, check=False)
            self.assertEqual(made.returncode, 0, made.stderr)
            done = subprocess.run([BINARY, "proxy", "--check", "--config", f"{folder}/gpulens/proxy.yaml"], capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return yaml.safe_load(data["proxy.yaml"]), data, done.stdout

    def test_its_configuration_is_good(self):
        config, data, _ = self.check(TABLE["proxy"])
        self.assertEqual((config["listen"], config["insecure"]), ([":8080"], True))
        self.assertNotIn("web.yml", data)
        config, data, shown = self.check(PROXY)
        self.assertNotIn("insecure", config)
        self.assertEqual(config["budget_engine"], {"replica": "${POD_NAME:-proxy}", "url": "redis://valkey:6379"})
        self.assertIn("tls.crt", data["web.yml"])
        self.assertIn("budget all: 500", shown)

    def test_the_example_of_the_page(self):
        text = re.search(r"```yaml\n(proxy:.*?)```", (ROOT / "docs/chart.md").read_text(), re.S)[1]
        self.assertIn("budget acme: 500", self.check("monitoring: {enabled: false}\n" + text)[2])

    def test_its_pod_policy_and_monitor(self):
        objects = render(PROXY)
        spec = one_of(objects, "StatefulSet", "gl-proxy")["spec"]
        pod = spec["template"]["spec"]
        container, = pod["containers"]
        self.assertEqual((spec["replicas"], container["args"]), (3, ["proxy", "--config", "/etc/gpulens/proxy.yaml"]))
        self.assertEqual({container[f"{kind}Probe"]["httpGet"]["scheme"] for kind in ("startup", "liveness", "readiness")}, {"HTTPS"})
        self.assertFalse(pod["automountServiceAccountToken"])
        self.assertIn("emptyDir", next(volume for volume in pod["volumes"] if volume["name"] == "state"))
        self.assertIn("volumeClaimTemplates", one_of(render(TABLE["proxy"]), "StatefulSet", "gl-proxy")["spec"])
        rule, = one_of(objects, "NetworkPolicy", "gl-proxy")["spec"]["ingress"]
        self.assertEqual(rule["ports"], [{"port": 8080, "protocol": "TCP"}])
        self.assertEqual(rule["from"][0], {"podSelector": {}})
        endpoint, = one_of(objects, "ServiceMonitor", "gl-proxy")["spec"]["endpoints"]
        self.assertEqual((endpoint["scheme"], endpoint["authorization"]["credentials"]["name"]), ("https", "token"))


class Kustomize(unittest.TestCase):
    def test_base(self):
        objects = kustomize(ROOT / "deploy/kustomize/base")
        for version in SCHEMAS:
            self.assertEqual(kubeconform(objects, version), [])
        folder = rendered_chart.ConfigFolder()
        self.addCleanup(folder.remove)
        maps = configs(objects)
        self.assertEqual(len(maps), 2)
        for name, config in maps.items():
            self.assertEqual(folder.check(config)[0], 0, name)
            self.assertTrue(any(one["configMap"]["name"] == name for _, template in pods(objects) for one in template["spec"]["volumes"]
                                if one["name"] == "config"), f"{name}: no pod has it")

    def test_an_overlay_changes_namespace_image_and_configuration(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "base").symlink_to(ROOT / "deploy/kustomize/base")
            text = re.search(r"```yaml kustomization\n(.*?)```", (ROOT / "docs/howto/kubernetes.md").read_text(), re.S)[1]
            (folder / "overlay").mkdir()
            (folder / "overlay" / "kustomization.yaml").write_text(text)
            gateway = (ROOT / "deploy/kustomize/base/config/gpulens-gateway.yaml").read_text()
            (folder / "overlay" / "gateway.yaml").write_text(gateway.replace("http://otel-collector.monitoring.svc:4318", "https://mimir.example"))
            objects = kustomize(folder / "overlay")
        self.assertEqual({one["metadata"].get("namespace") for one in objects} - {None}, {"telemetry"})
        images = {container["image"] for _, template in pods(objects) for container in template["spec"]["containers"]}
        self.assertEqual(images, {"registry.example/gpulens:0.1.0"})
        self.assertIn("https://mimir.example", "".join(configs(objects).values()))
        self.assertEqual(of_kind(objects, "ClusterRoleBinding")[0]["subjects"][0]["namespace"], "telemetry")


if __name__ == "__main__":
    unittest.main()
