"""GPUs, slices and processes under the names of their pods: a kubelet and an API server of our own, the real agent."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import kube_node
from agent import ROOT, Agent, free_port, nvidia_config, peer, prometheus_result, samples, value, wait_until

PROFILE = """model: H100
gpus: 4
load: {kind: constant, level: 0.5}
mig:
  - {gpu: 2, profile: 3g.40gb, instance: 1}
  - {gpu: 2, profile: 3g.40gb, instance: 2}
processes:
  - {gpu: 0, pid: 91000, memory: 8GiB}
  - {gpu: 3, pid: 93001, memory: 4GiB}
  - {gpu: 3, pid: 93002, memory: 2GiB}
"""
UID = "0e1d2c3b-4a59-6877-8695-a4b3c2d1e0f"


class Node:
    """A kubelet, an API server, a root with the files of a node, and the agent's configuration."""

    def __init__(self, test, api=True, more="", kubelet=kube_node.Kubelet):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-kube-"))
        test.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.socket = self.folder / "kubelet.sock"
        self.kubelet = kubelet(self.socket)
        test.addCleanup(self.kubelet.stop)
        self.api = kube_node.ApiServer()
        test.addCleanup(self.api.stop)
        proc = self.folder / "proc" / "2"
        proc.mkdir(parents=True)
        (proc / "stat").write_text("2 (kthreadd) S 0 0")
        kubeconfig = self.api.kubeconfig(self.folder / "kubeconfig")
        profile = self.folder / "profile.yaml"
        profile.write_text(PROFILE)
        config, environment = nvidia_config(str(profile), interval="200ms")
        config = config.rstrip().replace("}}\n", "}" + more + "}\n")
        server = f"kubeconfig: {kubeconfig}" if api else "api_server: 'off'"
        config += (f"\nenrichers: {{kubernetes: {{root: {self.folder}, pod_resources_socket: {self.socket}, node_name: n1, "
                   f"interval: 200ms, kubelet_timeout: 1s, {server}}}}}\n")
        self.agent = Agent(config=config, environment=environment)

    def process(self, pid, uid, container):
        folder = self.folder / "proc" / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "cgroup").write_text(f"0::/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice/cri-containerd-{container}.scope\n")

    def gpus(self, agent):
        """UUIDs by index, once all are there."""
        page = wait_until(lambda: (lambda p: p if len(samples(p, "gpu_info")) == 4 else "")(agent.page()), 20, "four GPUs")
        return {s.labels["gpu_index"]: s.labels["gpu_uuid"] for s in samples(page, "gpu_info")}

    def slices(self, agent):
        page = wait_until(lambda: (lambda p: p if len(samples(p, "gpu_mig_info")) == 2 else "")(agent.page()), 20, "MIG slices")
        return {s.labels["gpu_mig_instance_id"]: s.labels["gpu_mig_uuid"] for s in samples(page, "gpu_mig_info")}


def gpu_samples(page, index):
    return [s for s in samples(page, gpu_index=index) if s.name.startswith("gpu_")]


def whole_gpu(page, index):
    """The series of the board itself."""
    return [s for s in gpu_samples(page, index)
            if "gpu_mig_instance_id" not in s.labels and not s.name.startswith(("gpu_process_", "gpu_pod_"))]


def pods_of(found):
    return {s.labels.get("k8s_pod_name") for s in found}


class Attribution(unittest.TestCase):
    KUBELET = kube_node.Kubelet

    def node(self, **more):
        return Node(self, kubelet=self.KUBELET, **more)

    def test_each_on_its_own_pod(self):
        node = self.node()
        node.api.put(kube_node.pod("train-6cd8-x", UID + "0", owner=("ReplicaSet", "train-6cd8"),
                                   labels={"app": "train", "pod-template-hash": "6cd8", "team": "secret"}))
        with node.agent as agent:
            gpus, slices = node.gpus(agent), node.slices(agent)
            first_slice, second_slice = sorted(slices)[:2]
            node.kubelet.hold("train-6cd8-x", "nvidia.com/gpu", [gpus["1"]])
            node.kubelet.hold("serve", "nvidia.com/gpu", [gpus["0"]])
            node.kubelet.hold("slice", "nvidia.com/mig-1g.10gb", [slices[first_slice]])
            node.kubelet.hold("share-a", "nvidia.com/gpu.shared", [gpus["3"] + "::0"])
            node.kubelet.hold("share-b", "nvidia.com/gpu.shared", [gpus["3"] + "::1"])
            node.process(91000, UID + "1", "a" * 64)
            node.process(93001, UID + "2", "b" * 64)
            node.process(93002, UID + "3", "c" * 64)
            node.api.put(kube_node.pod("serve", UID + "1", container_id="a" * 64),
                         kube_node.pod("share-a", UID + "2", container_id="b" * 64),
                         kube_node.pod("share-b", UID + "3", container_id="c" * 64))
            page = wait_until(lambda: (lambda p: p if {s.labels.get("k8s_pod_name") for s in samples(p, "gpu_process_memory_used_bytes")}
                                       == {"serve", "share-a", "share-b"} and value(p, "gpu_power_draw_watts", k8s_pod_name="serve")
                                       and samples(p, "gpu_power_draw_watts", gpu_allocation="shared", gpu_index="3")
                                       and samples(p, "gpu_power_draw_watts", gpu_allocation="shared", gpu_index="2")
                                       and len(samples(p, "gpu_pod_info")) == 5 else "")(agent.page()),
                              20, "the names of all pods")
            self.assertEqual(pods_of(whole_gpu(page, "0")), {"serve"})
            self.assertEqual(pods_of(whole_gpu(page, "1")), {"train-6cd8-x"})
            self.assertEqual(pods_of(whole_gpu(page, "3")), {None})
            for sample in whole_gpu(page, "3"):
                self.assertEqual(sample.labels["gpu_allocation"], "shared")
                self.assertEqual(sample.labels["k8s_pod_names"], "ml/share-a,ml/share-b")
            # One slice of two is held: what is measured on the board is not that pod's.
            self.assertEqual(pods_of(whole_gpu(page, "2")), {None})
            for sample in whole_gpu(page, "2"):
                self.assertEqual((sample.labels["gpu_allocation"], sample.labels["k8s_pod_names"]), ("shared", "ml/slice"))
            self.assertEqual({(s.labels["gpu_index"], s.labels["gpu_uuid"], s.labels.get("gpu_mig_instance_id"), s.labels["k8s_namespace_name"],
                               s.labels["k8s_pod_name"], s.labels["k8s_container_name"], s.labels["gpu_allocation"], s.value)
                              for s in samples(page, "gpu_pod_info")},
                             {("0", gpus["0"], None, "ml", "serve", "main", "exclusive", 1),
                              ("1", gpus["1"], None, "ml", "train-6cd8-x", "main", "exclusive", 1),
                              ("2", gpus["2"], first_slice, "ml", "slice", "main", "mig", 1),
                              ("3", gpus["3"], None, "ml", "share-a", "main", "shared", 1),
                              ("3", gpus["3"], None, "ml", "share-b", "main", "shared", 1)})
            for sample in gpu_samples(page, "1"):
                self.assertEqual(sample.labels["k8s_namespace_name"], "ml")
                self.assertEqual(sample.labels["k8s_deployment_name"], "train")
                self.assertEqual(sample.labels["k8s_container_name"], "main")
                self.assertEqual(sample.labels["k8s_node_name"], "n1")
                self.assertEqual(sample.labels["cloud_availability_zone"], "eu-1a")
                self.assertEqual(sample.labels["k8s_pod_label_app"], "train")
                self.assertNotIn("k8s_pod_label_team", sample.labels)
            slices_now = [s for s in gpu_samples(page, "2") if "gpu_mig_instance_id" in s.labels]
            self.assertEqual(pods_of(s for s in slices_now if s.labels["gpu_mig_instance_id"] == first_slice), {"slice"})
            self.assertEqual(pods_of(s for s in slices_now if s.labels["gpu_mig_instance_id"] == second_slice), {None})
            by_pid = {s.labels["process_pid"]: s.labels["k8s_pod_name"] for s in samples(page, "gpu_process_memory_used_bytes")}
            self.assertEqual(by_pid, {"91000": "serve", "93001": "share-a", "93002": "share-b"})
            self.assertTrue(samples(page, "target_info", cloud_availability_zone="eu-1a", k8s_node_name="n1"))
            self.assertEqual(value(page, "gpulens_enricher_up", enricher="kubernetes"), 1)

    def test_a_restart_is_never_mixed_up(self):
        node = self.node(api=False)
        with node.agent as agent:
            gpus = node.gpus(agent)
            node.kubelet.hold("job-0", "nvidia.com/gpu", [gpus["0"]])
            wait_until(lambda: pods_of(whole_gpu(agent.page(), "0")) == {"job-0"}, 20, "job-0 on GPU 0")
            for number in range(1, 6):
                # Each time another GPU: what was is wrong on the next page already.
                old, new = str((number - 1) % 2), str(number % 2)
                node.kubelet.replace(f"job-{number - 1}", f"job-{number}", "nvidia.com/gpu", [gpus[new]])
                wait_until(lambda: pods_of(whole_gpu(agent.page(), new)) == {f"job-{number}"}, 20, f"job-{number}")
                self.assertEqual(pods_of(whole_gpu(agent.page(), old)), {None}, "gone with its pod")
            node.kubelet.drop("job-5")
            wait_until(lambda: pods_of(whole_gpu(agent.page(), "1")) == {None}, 20, "no pod on GPU 1")
            energy = samples(agent.page(), "gpu_energy_consumption_joules_total", gpu_index="1")
            self.assertEqual(len(energy), 1)

    def test_a_late_kubelet_puts_no_gpu_on_the_wrong_pod(self):
        node = self.node(api=False)
        with node.agent as agent:
            gpus = node.gpus(agent)
            node.kubelet.hold("job-0", "nvidia.com/gpu", [gpus["0"]])
            wait_until(lambda: pods_of(whole_gpu(agent.page(), "0")) == {"job-0"}, 20, "job-0 on GPU 0")
            node.kubelet.delay = 3.0
            node.kubelet.replace("job-0", "job-1", "nvidia.com/gpu", [gpus["0"]])
            # No pod rather than the wrong one.
            wait_until(lambda: pods_of(whole_gpu(agent.page(), "0")) == {None}, 20, "no pod on GPU 0")
            wait_until(lambda: value(agent.page(), "gpulens_enricher_up", enricher="kubernetes") == 0, 20, "the enricher down")
            node.kubelet.delay = 0.0
            wait_until(lambda: pods_of(whole_gpu(agent.page(), "0")) == {"job-1"}, 20, "job-1 on GPU 0")

    def test_claims_by_their_slices(self):
        node = self.node()
        with node.agent as agent:
            gpus = node.gpus(agent)
            node.api.slices = [{"spec": {"driver": "gpu.nvidia.com", "pool": {"name": "n1"}, "devices": [
                {"name": f"gpu-{index}", "attributes": {"uuid": {"string": uuid}}} for index, uuid in gpus.items()]}}]
            node.kubelet.claim("dra", "gpu.nvidia.com", "n1", "gpu-1")
            wait_until(lambda: pods_of(whole_gpu(agent.page(), "1")) == {"dra"}, 20, "the claim's pod on GPU 1")
            self.assertEqual(pods_of(whole_gpu(agent.page(), "0")), {None})

    def test_without_a_right_to_the_api_server_there_is_less(self):
        node = self.node()
        node.api.token = "another"
        with node.agent as agent:
            gpus = node.gpus(agent)
            node.kubelet.hold("serve", "nvidia.com/gpu", [gpus["0"]])
            page = wait_until(lambda: (lambda p: p if pods_of(whole_gpu(p, "0")) == {"serve"} else "")(agent.page()), 20, "the pod")
            self.assertFalse(samples(page, k8s_deployment_name="train"))
            wait_until(lambda: "owners and labels are not reported" in agent.log_text(), 20, "the log line about owners and labels")


class AttributionByKubernetesOwnMessages(Attribution):
    KUBELET = kube_node.RealKubelet


class Joins(unittest.TestCase):
    """The queries of docs/kubernetes.md, by Debian's Prometheus."""

    def queries(self):
        """The two samples of the page, unchanged."""
        text = (ROOT / "docs" / "kubernetes.md").read_text()
        part = text[text.index("### Joining in PromQL"):]
        return [" ".join(block.split()) for block in part.split("```promql")[1:3] for block in [block[:block.index("```")]]]

    def test_power_by_pod(self):
        program, port = peer("prometheus"), free_port()
        own, shared = self.queries()
        node = Node(self, api=False)
        with node.agent as agent:
            gpus = node.gpus(agent)
            node.kubelet.hold("alone", "example.com/gpu", [gpus["0"]])
            node.kubelet.hold("share-a", "nvidia.com/gpu", [gpus["3"] + "-0"])  # as HAMi names its shares
            node.kubelet.hold("share-b", "nvidia.com/gpu", [gpus["3"] + "-1"])
            node.kubelet.hold("away", "nvidia.com/gpu", ["GPU-00000000-0000-0000-0000-000000000000"])
            wait_until(lambda: len(samples(agent.page(), "gpu_pod_info")) == 3, 20, "three pods")
            wait_until(lambda: value(agent.page(), "gpulens_enricher_missing", enricher="kubernetes") == 1, 20, "a device that is not here")
            (node.folder / "prometheus.yml").write_text(
                "global: {scrape_interval: 1s, scrape_timeout: 900ms}\nscrape_configs:\n"
                f"  - {{job_name: gpulens, static_configs: [{{targets: ['127.0.0.1:{agent.port}']}}]}}\n")
            with open(node.folder / "log", "wb") as log:
                server = subprocess.Popen([program, f"--config.file={node.folder}/prometheus.yml", f"--storage.tsdb.path={node.folder}/data",
                                           f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)

            def instant_query(query):
                return {one["metric"]["k8s_pod_name"]: float(one["value"][1]) for one in prometheus_result(port, query)}

            try:
                wait_until(lambda: len(instant_query("gpu_pod_info")) == 3, 30, "a scrape")
                watts = {s.labels["gpu_index"]: s.value for s in samples(agent.page(), "gpu_power_draw_watts")}
                alone, halves = instant_query(own), instant_query(shared)
                self.assertEqual(set(alone), {"alone"})
                self.assertAlmostEqual(alone["alone"] / watts["0"], 1, delta=0.2)
                self.assertEqual(set(halves), {"share-a", "share-b"})
                self.assertAlmostEqual(halves["share-a"] / watts["3"], 0.5, delta=0.1)
            finally:
                server.terminate()
                server.wait(20)


class Collectors(unittest.TestCase):
    def test_usage_of_pods_and_kills(self):
        kubelet = kube_node.ApiServer()
        self.addCleanup(kubelet.stop)
        usage = {"time": "2026-01-01T00:00:00Z", "usageNanoCores": 500_000_000, "usageCoreNanoSeconds": 7_000_000_000}
        memory = {"time": "2026-01-01T00:00:00Z", "usageBytes": 4096, "workingSetBytes": 2048}
        del usage["time"], memory["time"]
        kubelet.pages["/stats/summary"] = {"node": {"nodeName": "n1", "cpu": usage, "memory": memory}, "pods": [
            {"podRef": {"name": "p", "namespace": "ml", "uid": "u1"}, "cpu": usage, "memory": memory, "network": {"rxBytes": 11},
             "containers": [{"name": "main", "cpu": usage, "memory": memory}]}]}

        def kills(count):
            kubelet.pages["/metrics/cadvisor"] = (
                "# TYPE container_oom_events_total counter\n"
                f'container_oom_events_total{{container="main",id="/x",namespace="ml",pod="p"}} {count}\n').encode()

        kills(3)
        config = f"interval: 200ms\ncollectors: {{kubelet_stats: {{url: \"{kubelet.url}\", interval: 200ms}}}}\n"
        with Agent(config=config) as agent:
            page = wait_until(lambda: (lambda p: p if samples(p, "k8s_container_oom_kills_total") else "")(agent.page()), 20, "usage")
            who = {"k8s_pod_name": "p", "k8s_namespace_name": "ml", "k8s_container_name": "main"}
            self.assertEqual(value(page, "container_cpu_time_seconds_total", **who), 7)
            self.assertEqual(value(page, "container_memory_working_set_bytes", **who), 2048)
            self.assertEqual(value(page, "k8s_pod_network_io_bytes_total", k8s_pod_name="p", network_io_direction="receive"), 11)
            self.assertEqual(value(page, "k8s_container_oom_kills_total", **who), 0, "earlier ones are not counted")
            kills(4)
            wait_until(lambda: value(agent.page(), "k8s_container_oom_kills_total", **who) == 1, 20, "a kill")

    def test_the_life_of_a_pod(self):
        server = kube_node.ApiServer()
        self.addCleanup(server.stop)
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        kubeconfig = server.kubeconfig(folder / "kubeconfig")
        server.put(kube_node.pod("p", "u1", phase="Pending"))
        config = f"interval: 200ms\ncollectors: {{k8s_cluster: {{kubeconfig: {kubeconfig}, node_name: n1, interval: 200ms}}}}\n"

        def phase(agent):
            return [s.labels["k8s_pod_status_phase"] for s in samples(agent.page(), "k8s_pod_status_phase", k8s_pod_name="p") if s.value == 1]

        with Agent(config=config) as agent:
            wait_until(lambda: phase(agent) == ["pending"], 20, "Pending")
            self.assertIsNone(value(agent.page(), "k8s_pod_scheduling_delay_seconds", k8s_pod_name="p"))
            server.put(kube_node.pod("p", "u1", scheduled="2026-01-01T00:00:04Z", restarts=0, container_id="a" * 64))
            wait_until(lambda: phase(agent) == ["running"], 20, "Running")
            self.assertEqual(value(agent.page(), "k8s_pod_scheduling_delay_seconds", k8s_pod_name="p"), 4)
            server.put(kube_node.pod("p", "u1", phase="Failed", scheduled="2026-01-01T00:00:04Z", restarts=2, container_id="a" * 64))
            wait_until(lambda: phase(agent) == ["failed"], 20, "Failed")
            self.assertEqual(value(agent.page(), "k8s_container_restart_count_restarts", k8s_pod_name="p", k8s_container_name="main")
                             or value(agent.page(), "k8s_container_restart_count", k8s_pod_name="p", k8s_container_name="main"), 2)
            server.delete("u1")
            wait_until(lambda: not samples(agent.page(), "k8s_pod_status_phase"), 20, "their end")


if __name__ == "__main__":
    unittest.main()
