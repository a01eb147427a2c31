"""The chart's pods in the image: rendered containers, run by rootless podman with what their specifications grant and no more."""
import pathlib
import shutil
import ssl
import sys
import unittest
import urllib.error
import urllib.request

import rendered_chart
from rendered_chart import PUSH, ROOT, SCRAPED, one_of, render

sys.path.insert(0, str(ROOT / "tests" / "packages"))
import image_root
import test_image
from agent import free_port, wait_until

RESTRICTED = "podSecurity: restricted\n" + PUSH


class Pods(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        rendered_chart.helm()
        cls.podman = image_root.Podman()
        cls.addClassCleanup(cls.podman.close)
        cls.image = cls.podman.load(image_root.image())
        cls.secrets = rendered_chart.ConfigFolder()
        cls.addClassCleanup(cls.secrets.remove)

    def options(self, objects, kind, name, *more):
        """What podman is to run a rendered pod's container with; folders of the node are empty ones, emptyDir and claims are tmpfs."""
        template = one_of(objects, kind, name)["spec"]["template"]["spec"]
        (container,) = template["containers"]
        pod, own = template["securityContext"], container["securityContext"]
        self.assertEqual(own["capabilities"], {"drop": ["ALL"]}, "privileged containers are not for this test")
        options = ["--user", f"{pod['runAsUser']}:{pod['runAsGroup']}", "--cap-drop=all", "--entrypoint", container["command"][0]]
        if own["readOnlyRootFilesystem"]:
            options += ["--read-only", "--read-only-tmpfs=false"]
        if not own["allowPrivilegeEscalation"]:
            options += ["--security-opt=no-new-privileges"]
        for one in container["env"]:
            options += ["--env", f"{one['name']}={one.get('value', 'from-the-pod')}"]
        volumes = {one["name"]: one for one in template.get("volumes", [])}
        for mount in container["volumeMounts"]:
            volume = volumes.get(mount["name"], {"emptyDir": {}})
            if "emptyDir" in volume or mount["name"] == "state":
                options += ["--tmpfs", f"{mount['mountPath']}:mode=1777"]
                continue
            folder = self.podman.folder / f"{kind}-{name}-{mount['name']}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            sources = volume.get("projected", {}).get("sources", [volume])
            for source in sources:
                if "configMap" in source:
                    for file, text in one_of(objects, "ConfigMap", source["configMap"]["name"])["data"].items():
                        (folder / file).write_text(text)
                elif "secret" in source:
                    for file in ("web/token", "tls/tls.crt", "tls/tls.key"):
                        path = self.secrets.path / "etc" / file
                        (folder / path.name).write_bytes(path.read_bytes())
            for path in (folder, *folder.iterdir()):
                path.chmod(0o755 if path.is_dir() else 0o644)
            options += ["--volume", f"{folder}:{mount['mountPath']}:ro"]
        return [*options, *more, self.image, *container["args"]], container

    def alive(self, name):
        """Whether the probe of agents without a listener succeeds: the command of the pod, in the container."""
        return "OK - the agent at 127.0.0.1:9091 answers" in self.podman.run("exec", name, "/usr/bin/gpulens", "check", "--alive", check=False)

    def test_gateway(self):
        port = free_port()
        options, container = self.options(render(RESTRICTED), "StatefulSet", "gl-gateway", "--publish", f"127.0.0.1:{port}:9091")
        with self.podman.container(*options) as name:
            probe = container["startupProbe"]["httpGet"]["path"]
            self.assertEqual(test_image.get(f"http://127.0.0.1:{port}{probe}").strip(), "ready")
            self.assertEqual(test_image.get(f"http://127.0.0.1:{port}{container['livenessProbe']['httpGet']['path']}"), "ok")
            log = self.podman.run("logs", name)
        for way in ("OTLP over HTTP", "OTLP over gRPC", "remote write"):
            self.assertIn(f"receiving {way}", log)
        self.assertNotIn("Read-only file system", log)

    def test_agents_with_each_level(self):
        for values in (RESTRICTED, PUSH):
            with self.subTest(values):
                options, container = self.options(render(values), "DaemonSet", "gl-nvidia")
                self.assertEqual(container["livenessProbe"]["exec"]["command"], ["/usr/bin/gpulens", "check", "--alive"])
                with self.podman.container(*options) as name:
                    wait_until(lambda: self.alive(name), 60, "the probe's success")
                    log = self.podman.run("logs", name)
                self.assertNotIn("Read-only file system", log)

    def test_secrets_are_where_the_configuration_looks(self):
        port = free_port()
        context = ssl.create_default_context(cafile=str(self.secrets.path / "etc/tls/tls.crt"))

        def status(**headers):
            request = urllib.request.Request(f"https://127.0.0.1:{port}/metrics", headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=5, context=context) as answer:
                    return answer.status
            except urllib.error.HTTPError as refused:
                return refused.code
            except OSError:
                return None

        options, _ = self.options(render(SCRAPED + "podSecurity: restricted\n"), "DaemonSet", "gl-nvidia", "--publish", f"127.0.0.1:{port}:9091")
        with self.podman.container(*options):
            self.assertEqual(wait_until(status, 60, "the page"), 401)
            self.assertEqual(status(Authorization="Bearer " + rendered_chart.TOKEN), 200)

    def test_gpus_in_a_restricted_pod(self):
        """With the device interface of NVIDIA's container toolkit and its simulated library."""
        if not shutil.which("runc"):
            self.skipTest("no runc here; crun 1.8 makes the root read-only before the toolkit's hook")
        (folder,) = {f"/{pathlib.PurePosixPath(name).parent}" for layer in image_root.Archive(image_root.image()).layers()
                     for name in layer.getnames() if name.endswith("/libm.so.6")}
        self.podman.device(folder, test_image.AfterAContainerToolkit.NAME)
        self.podman.write("profile.yaml", image_root.PROFILE.read_text())
        profile = ("--volume", f"{self.podman.folder}/profile.yaml:/etc/profile.yaml:ro", "--env", "GPULENS_FAKE_NVML=/etc/profile.yaml")
        options, _ = self.options(render(RESTRICTED), "DaemonSet", "gl-nvidia", "--device", "nvidia.com/gpu=all", "--network=none", *profile)
        at = options.index(self.image)
        shown = self.podman.run("--runtime=runc", "run", "--rm", *options[:at], self.image, "check", "gpu_num", "--direct")
        self.assertIn("OK - gpu_num: 8 of 8 GPUs answer", shown)


if __name__ == "__main__":
    unittest.main()
