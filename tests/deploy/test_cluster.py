"""The chart's objects in a real API server: server-side dry run, Pod Security admission, and what the service accounts may do."""
import os
import re
import subprocess
import unittest

from rendered_chart import CHART, TABLE, configs, kustomize, of_kind, pods, render

import keda_calls
import yaml
from agent import ROOT, Agent, free_port, wait_until
from go_peers import GO_PEERS, go_peer
from kube_cluster import KubeCluster
from test_keda import Page, is_number

LEVELS = ("restricted", "baseline", "privileged")


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for peer in ("helm", "etcd", "kube-apiserver"):
            go_peer(peer)
        cls.rendered = {name: render(values) for name, values in TABLE.items()}
        cls.cluster = KubeCluster()
        cls.enterClassContext(cls.cluster)
        for name in ("gpu", "ml", "search"):
            cls.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for level in LEVELS:
            cls.make({"apiVersion": "v1", "kind": "Namespace",
                      "metadata": {"name": level, "labels": {"pod-security.kubernetes.io/enforce": level}}})
        cls.make({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "habana"}, "handler": "habana"})
        crds = GO_PEERS / "kube-schemas" / "crds"
        if not crds.exists():
            raise unittest.SkipTest("peer not here: tools/prepare_go_peers.sh makes kube-schemas")
        for path in crds.glob("*.yaml"):
            cls.make(yaml.safe_load(path.read_text()))
        wait_until(lambda: cls.cluster.request("GET", "/apis/monitoring.coreos.com/v1/namespaces/gpu/prometheusrules")[0] == 200, 30, "the CRDs")

    @classmethod
    def make(cls, one):
        status, answer, _ = cls.cluster.create(one)
        assert status == 201, answer

    def test_every_object_is_taken(self):
        count = 0
        for name, objects in self.rendered.items():
            for one in objects:
                with self.subTest(f"{name}: {one['kind']} {one['metadata']['name']}"):
                    status, answer, warnings = self.cluster.apply(one)
                    self.assertIn(status, (200, 201), answer)
                    self.assertEqual(warnings, [])
                    count += 1
        self.assertGreater(count, 100)

    def test_the_kustomize_base_is_taken(self):
        self.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpulens"}})
        for one in kustomize(ROOT / "deploy/kustomize/base"):
            status, answer, _ = self.cluster.apply(one)
            self.assertIn(status, (200, 201), answer)

    def helm(self, *arguments):
        done = subprocess.run([str(go_peer("helm")), *arguments, "-n", "lifecycle", "--kubeconfig", str(self.cluster.kubeconfig())],
                              capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, "HELM_CACHE_HOME": str(self.cluster.folder / "helm")})  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_install_upgrade_rollback_uninstall(self):
        """With the packed chart, as docs/howto/kubernetes.md does it. No controller is here: objects are made, and no pod runs."""
        self.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lifecycle"}})
        folder = self.cluster.folder
        values = folder / "values.yaml"
        values.write_text(TABLE["gateway with TLS"] + "dashboards: {enabled: true, sets: [gpulens, l9gpu, zumik]}\nalerts: {enabled: true}\n")
        packed = subprocess.run([str(go_peer("helm")), "package", str(CHART), "-d", str(folder)], capture_output=True, text=True, timeout=60, check=True)
        chart = packed.stdout.rsplit(": ", 1)[1].strip()

        def agents():
            return self.cluster.request("GET", "/apis/apps/v1/namespaces/lifecycle/daemonsets/gl-nvidia")[1]["spec"]["template"]["metadata"]["annotations"]

        def count(path):
            return len(self.cluster.request("GET", path)[1].get("items", []))

        notes = self.helm("install", "gl", chart, "-f", str(values))
        self.assertIn("exec ds/gl-nvidia -- /usr/bin/gpulens doctor", notes)
        self.assertIn("Programs send OTLP to https://gl-gateway.lifecycle.svc:4318", notes)
        first = agents()
        rules = "/apis/monitoring.coreos.com/v1/namespaces/lifecycle/prometheusrules"
        self.assertEqual(count(rules), len(list((ROOT / "deploy/rules").glob("*.yaml"))) - 1)
        dashboards = "/api/v1/namespaces/lifecycle/configmaps?labelSelector=grafana_dashboard"
        self.assertEqual(count(dashboards), len(list((ROOT / "deploy/dashboards").glob("*.json"))))
        self.helm("upgrade", "gl", chart, "-f", str(values), "--set", "monitoring.interval=30,alerts.enabled=false")
        self.assertNotEqual(agents(), first)
        self.assertEqual(count(rules), 0)
        self.helm("rollback", "gl", "1")
        self.assertEqual(agents(), first)
        self.helm("uninstall", "gl")
        for path in ("/apis/apps/v1/namespaces/lifecycle/daemonsets", "/apis/apps/v1/namespaces/lifecycle/statefulsets", dashboards, rules):
            self.assertEqual(count(path), 0, path)
        self.assertEqual(self.cluster.request("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/lifecycle-gl")[0], 404)

    def test_wrong_objects_are_refused(self):
        """So that the tests above mean something."""
        one = yaml.safe_load(yaml.safe_dump(of_kind(self.rendered["push"], "DaemonSet")[0]))
        one["spec"]["template"]["spec"]["containers"][0]["livenessProb"] = {}
        self.assertEqual(self.cluster.apply(one)[0], 500)
        service = yaml.safe_load(yaml.safe_dump(of_kind(self.rendered["push"], "Service")[0]))
        service["spec"]["ports"][0]["port"] = 70000
        self.assertEqual(self.cluster.apply(service)[0], 422)

    def level_of(self, workload, template):
        """The strictest level whose namespace admits a pod of this template."""
        answers = {}
        for level in LEVELS:
            pod = {"apiVersion": "v1", "kind": "Pod", "spec": {**template["spec"], "automountServiceAccountToken": False},
                   "metadata": {"name": "p", "namespace": level, "labels": template["metadata"]["labels"]}}
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": pod["spec"].get("serviceAccountName", "default"),
                                                                                   "namespace": level}}
            self.cluster.create(account)
            # A StatefulSet's claims become volumes of its pods.
            mounted = {mount["name"] for one in pod["spec"]["containers"] for mount in one.get("volumeMounts", [])}
            named = {volume["name"] for volume in pod["spec"].get("volumes", [])}
            pod["spec"]["volumes"] = [*pod["spec"].get("volumes", []),
                                      *({"name": name, "persistentVolumeClaim": {"claimName": name}} for name in mounted - named)]
            if pod["spec"].get("priorityClassName"):
                del pod["spec"]["priorityClassName"]  # it is not made in a dry run
            status, answers[level], _ = self.cluster.create(pod, dry_run=True)
            if status == 201:
                return level
            self.assertEqual(status, 403, f"{workload}: {answers[level]}")
            self.assertIn("violates PodSecurity", answers[level]["message"])
        raise AssertionError(f"{workload}: {answers}")

    def test_levels_are_those_of_the_page(self):
        """docs/chart.md lists which pods need more than `restricted`; Pod Security admission decides."""
        found = {name: {workload: self.level_of(f"{name}: {workload}", template) for workload, template in pods(self.rendered[name])}
                 for name in ("push", "restricted", "vendors", "rights", "gateway with TLS", "scaler alone")}
        self.assertEqual(found["scaler alone"], {"gl-scaler": "restricted"})
        self.assertEqual(found["restricted"], {"gl-nvidia": "restricted", "gl-gateway": "restricted"})
        self.assertEqual(found["push"], {"gl-nvidia": "privileged", "gl-gateway": "restricted"})
        self.assertEqual(found["gateway with TLS"]["gl-gateway"], "restricted")
        self.assertEqual(found["vendors"], {"gl-nvidia": "privileged", "gl-amd": "privileged", "gl-gaudi": "privileged", "gl-gateway": "restricted",
                                            "gl-check-nvidia": "restricted", "gl-check-amd": "privileged", "gl-check-gaudi": "privileged"})
        self.assertEqual(found["rights"], {"gl-nvidia": "privileged", "gl-probes": "privileged", "gl-gateway": "restricted",
                                           "gl-check-nvidia": "privileged"})

    def test_what_the_accounts_may_do(self):
        agent, gateway = "system:serviceaccount:gpu:gl", "system:serviceaccount:gpu:gl-gateway"
        may = self.cluster.may
        self.assertFalse(may(agent, "list", "pods"), "before anything is installed")
        for objects in (self.rendered["rights"], self.rendered["gateway alone"]):
            for one in objects:
                if one["kind"] in ("ClusterRole", "ClusterRoleBinding", "ServiceAccount"):
                    self.assertIn(self.cluster.apply(one, dry_run=False)[0], (200, 201))
        wait_until(lambda: may(agent, "list", "pods"), 30, "the binding")
        for verb, resource, group, sub in (("watch", "pods", "", ""), ("get", "nodes", "", ""), ("list", "resourceslices", "resource.k8s.io", ""),
                                           ("get", "nodes", "", "stats"), ("get", "nodes", "", "metrics")):
            self.assertTrue(may(agent, verb, resource, group, subresource=sub), f"{verb} {resource}/{sub}")
        for verb, resource, sub in (("get", "secrets", ""), ("list", "secrets", ""), ("list", "configmaps", ""), ("create", "pods", ""),
                                    ("delete", "pods", ""), ("create", "pods", "exec"), ("get", "nodes", "proxy"), ("list", "nodes", ""),
                                    ("update", "nodes", "")):
            self.assertFalse(may(agent, verb, resource, subresource=sub), f"{verb} {resource}/{sub}")
        wait_until(lambda: may(gateway, "list", "pods"), 30, "the gateway's binding")
        self.assertFalse(may(gateway, "get", "nodes"))
        self.assertFalse(may(gateway, "list", "secrets"))

    def test_the_scaler_reads_pods_and_its_objects_are_taken(self):
        for one in yaml.safe_load_all("---\n".join(re.findall(r"```yaml keda\n(.*?)```", (ROOT / "docs/howto/keda.md").read_text(), re.S))):
            status, answer, _ = self.cluster.apply(one)
            self.assertIn(status, (200, 201), answer)
        objects = self.rendered["scaler alone"]
        for one in objects:
            if one["kind"] in ("Role", "RoleBinding", "ServiceAccount"):
                self.assertIn(self.cluster.apply(one, dry_run=False)[0], (200, 201))
        account = "system:serviceaccount:gpu:gl-scaler"
        wait_until(lambda: self.cluster.may(account, "list", "pods", namespace="ml"), 30, "the binding")
        for verb, resource, name_space in (("list", "pods", "gpu"), ("watch", "pods", "ml"), ("list", "secrets", "ml"), ("list", "pods", "")):
            self.assertFalse(self.cluster.may(account, verb, resource, namespace=name_space), f"{verb} {resource} in {name_space}")
        page, port = Page(waiting=6), free_port()
        self.addCleanup(page.stop)
        self.cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "ml"}})
        self.make({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chat-0", "namespace": "ml", "labels": {"app": "chat"}},
                   "spec": {"automountServiceAccountToken": False, "containers": [{"name": "engine", "image": "x"}]}})  # fmt: skip
        config = yaml.safe_load(configs(objects)["gl-scaler"])
        # As it is in the chart, but for places: the API server, the page, the ports.
        config["discovery"]["kubernetes"].update(kubeconfig=str(self.cluster.kubeconfig()), port=page.port, refresh="1s")
        config["sinks"]["keda"] = {"listen": [f"127.0.0.1:{port}"]}
        config.update(interval="1s", state_dir=str(self.cluster.folder / "state"), http={}, websocket={})
        with Agent(config=yaml.safe_dump(config)), keda_calls.Scaler(port) as scaler:
            trigger = {"metric": "queue", "target": 4, "attributes": "k8s.pod.label.app=chat"}
            self.assertEqual(scaler.why(scaler.number, **trigger)[0], "UNAVAILABLE", "a pod that is not ready is none")
            ready = {"status": {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}],
                                "conditions": [{"type": "Ready", "status": "True"}]}}  # fmt: skip
            status, answer, _ = self.cluster.request("PATCH", "/api/v1/namespaces/ml/pods/chat-0/status", ready,
                                                     kind="application/merge-patch+json")
            self.assertEqual(status, 200, answer)
            wait_until(is_number(scaler, trigger, lambda number: number == 6), 30, "the queue of the pod")


if __name__ == "__main__":
    unittest.main()
