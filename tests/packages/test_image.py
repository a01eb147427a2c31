"""The image: what is inside, that it runs as its user in a read-only root, and that it reads GPUs once a container
toolkit has put the driver's library there; and under a rootless runtime."""
import base64
import contextlib
import gzip
import hashlib
import http.server
import json
import pathlib
import re
import shutil
import socket
import struct
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

import image_root
import packing
from image_root import USER, Archive, ImageRoot, Podman, image
from agent import free_port, wait_until
from own_network import own_network

WEB_CONFIG = "basic_auth_users: {alice: $2y$04$q5LhxlxD4e07/Nmn6a1ia.7Gs7jiUZ9w0Nru8eXqbVxxAlma4IeJK}\n"  # bcrypt of "secret"


def temporary(test):
    folder = tempfile.TemporaryDirectory(prefix="gpulens-image-")
    test.addCleanup(folder.cleanup)
    pathlib.Path(folder.name).chmod(0o755)
    return pathlib.Path(folder.name)


def get(url, seconds=30):
    """The text at a URL, once there is one."""

    def attempt():
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return None

    return wait_until(attempt, seconds, url)


class Contents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.archive = Archive(image())
        cls.members = {member.name: member for layer in cls.archive.layers() for member in layer}

    def text(self, path):
        for layer in self.archive.layers():
            if path in layer.getnames():
                return layer.extractfile(path).read().decode()
        raise AssertionError(f"no {path}")

    def test_the_same_package_gives_the_same_bytes(self):
        self.assertTrue(image().read_bytes() == image("second").read_bytes())

    def test_layers_are_those_of_the_configuration(self):
        blobs = [self.archive.blob(layer) for layer in self.archive.manifest["layers"]]
        found = ["sha256:" + hashlib.sha256(gzip.decompress(blob)).hexdigest() for blob in blobs]
        self.assertEqual(found, self.archive.config["rootfs"]["diff_ids"])
        self.assertEqual(self.archive.config["architecture"], image_root.ARCHITECTURE)

    def test_it_is_small_and_has_no_shell(self):
        self.assertLess(sum(member.size for member in self.members.values()), 40e6)
        programs = [name for name, member in self.members.items() if member.isreg() and member.mode & 0o111]
        self.assertEqual([name for name in programs if not re.search(r"/(ld-linux-|libc\.so)", name)], ["usr/bin/gpulens"])
        self.assertEqual([name for name, member in self.members.items() if member.mode & 0o6000], [])

    def test_all_is_of_root_but_the_folders_of_its_user(self):
        owned = {name for name, member in self.members.items() if member.uid or member.gid}
        self.assertEqual(owned, {"var/lib/gpulens", "run/gpulens"})
        self.assertEqual({self.members[name].uid for name in owned}, {USER})
        self.assertEqual(self.archive.config["config"]["User"], f"{USER}:{USER}")
        self.assertIn(f":{USER}:{USER}:", self.text("etc/passwd"))

    def test_runtimes_learn_that_it_wants_gpus(self):
        environment = self.archive.config["config"]["Env"]
        self.assertIn("NVIDIA_VISIBLE_DEVICES=all", environment)
        self.assertIn("NVIDIA_DRIVER_CAPABILITIES=utility", environment)
        self.assertEqual(self.archive.config["config"]["Entrypoint"], ["/usr/bin/gpulens", "agent"])

    def test_each_package_has_its_licence_and_is_known_to_scanners(self):
        names = [name.rpartition("/")[2] for name in self.members if name.startswith("var/lib/dpkg/status.d/")]
        self.assertIn("libc6", names)
        self.assertIn("ca-certificates", names)
        for name in names:
            self.assertIn("Version: ", self.text(f"var/lib/dpkg/status.d/{name}"))
            doc = self.members.get(f"usr/share/doc/{name}")
            folder = doc.linkname if doc is not None and doc.issym() else name
            self.assertIn(f"usr/share/doc/{folder}/copyright", self.members)
        for name in ("GPL-3", "LGPL-2.1", "Apache-2.0"):
            self.assertIn(f"usr/share/common-licenses/{name}", self.members)

    def test_certificates(self):
        self.assertGreater(self.text("etc/ssl/certs/ca-certificates.crt").count("BEGIN CERTIFICATE"), 100)


@contextlib.contextmanager
def serving(text):
    """The port of a server in the caller's network that answers each GET with a text."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


class NameServer(threading.Thread):
    """Answers each question for an A record with 127.0.0.1, at port 53 of the caller's network."""

    def __init__(self):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        self.names = []

    def run(self):
        while True:
            try:
                question, sender = self.socket.recvfrom(512)
            except OSError:
                return
            labels, at = [], 12
            while question[at]:
                labels.append(question[at + 1 : at + 1 + question[at]].decode())
                at += 1 + question[at]
            kind = struct.unpack(">H", question[at + 1 : at + 3])[0]
            self.names.append(".".join(labels))
            answer = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + bytes([127, 0, 0, 1]) if kind == 1 else b""
            header = question[:2] + struct.pack(">HHHHH", 0x8180, 1, bool(answer), 0, 0)
            self.socket.sendto(header + question[12 : at + 5] + answer, sender)


class InReadOnlyRoot(unittest.TestCase):
    def test_the_agent_serves_its_page(self):
        root = ImageRoot(temporary(self))
        with own_network(), root.agent("--demo") as agent:
            wait_until(lambda: "gpu_power_draw_watts{" in get("http://127.0.0.1:9091/metrics"), 30, "a GPU on the page")
            self.assertIsNone(agent.poll())
        self.assertNotEqual(list((root.folder / "var/lib/gpulens").iterdir()), [], "nothing was written to the folder for its state")
        self.assertEqual({path.stat().st_uid for path in (root.folder / "var/lib/gpulens").iterdir()}, {USER})

    def test_passwords(self):
        root = ImageRoot(temporary(self))
        root.write("/etc/gpulens/web.yml", WEB_CONFIG)
        root.write("/etc/gpulens/gpulens.yaml", "http: {web_config: /etc/gpulens/web.yml}\n")
        with own_network():
            with root.agent("--demo"):
                self.assertEqual(wait_until(lambda: self.status("secret"), 30), 200)
                self.assertEqual(self.status("other"), 401)
            for path in root.folder.glob("usr/lib/*/libcrypt.so.*"):
                path.unlink()
            self.assertIn("needs libcrypt", root.run(*root.entrypoint(), "--demo", code=1))

    def status(self, password):
        request = urllib.request.Request("http://127.0.0.1:9091/metrics")
        request.add_header("Authorization", "Basic " + base64.b64encode(f"alice:{password}".encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code if error.code != 503 else None
        except OSError:
            return None

    def test_names_are_resolved(self):
        root = ImageRoot(temporary(self))
        root.write("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:2 attempts:2\n")
        root.write("/etc/hosts", "127.0.0.1 localhost near\n")
        with own_network(), serving("vllm:num_requests_running 3\n") as port:
            server = NameServer()
            server.start()
            try:
                for name in ("far.example", "near"):
                    self.assertIn("vllm", root.run("/usr/bin/gpulens", "engines", "check", f"http://{name}:{port}/metrics"))
            finally:
                server.socket.close()
        self.assertIn("far.example", server.names)
        self.assertNotIn("near", server.names)


class AfterAContainerToolkit(unittest.TestCase):
    """Container toolkits put the driver's library, by the name with its version, into the folder that they choose; then the ldconfig of the
    host makes the link libnvidia-ml.so.1 and the loader's cache in the image's root."""

    NAME = "libnvidia-ml.so.580.95.05"

    def gpus(self, root):
        shutil.copy(image_root.PROFILE, root.folder / "etc/profile.yaml")
        devices = ("nvidiactl", "nvidia0")
        shown = root.run("/usr/bin/gpulens", "collect", "nvidia", "--once", environment={"GPULENS_FAKE_NVML": "/etc/profile.yaml"}, devices=devices)
        self.assertRegex(shown, r"gpu\.devices nvidia +8\n")

    def ldconfig(self, root, *arguments):
        program = shutil.which("ldconfig", path="/sbin:/usr/sbin")
        packing.run(program, "-r", root.folder, "-f", "/etc/ld.so.conf", "-C", "/etc/ld.so.cache", *arguments)

    def multiarch(self, root):
        # The library's folder is that of Debian where there is this file, else /usr/lib64.
        self.assertTrue((root.folder / "etc/debian_version").is_file())
        (folder,) = root.folder.glob("usr/lib/*-linux-gnu")
        return f"/{folder.relative_to(root.folder)}"

    def test_nothing_was_put_there(self):
        root = ImageRoot(temporary(self))
        shown = root.run("/usr/bin/gpulens", "collect", "nvidia", "--once", code=1, devices=("nvidiactl",))
        self.assertIn("libnvidia-ml.so.1", shown)

    def test_command_line_of_the_older_toolkits(self):
        root = ImageRoot(temporary(self))
        folder = self.multiarch(root)
        root.add_nvidia_library(folder, self.NAME)
        self.ldconfig(root, folder)
        self.assertGreater((root.folder / "etc/ld.so.cache").stat().st_size, 100)
        self.gpus(root)

    def test_device_interface_of_a_debian_host(self):
        root = ImageRoot(temporary(self))
        folder = self.multiarch(root)
        root.add_nvidia_library(folder, self.NAME)
        root.write("/etc/ld.so.conf.d/00-nvcr-123.conf", f"{folder}\n")
        self.ldconfig(root)
        self.gpus(root)

    def test_device_interface_of_an_enterprise_linux_host(self):
        root = ImageRoot(temporary(self))
        root.add_nvidia_library("/usr/lib64", self.NAME)
        root.write("/etc/ld.so.conf.d/00-nvcr-123.conf", "/usr/lib64\n")
        self.ldconfig(root)
        self.gpus(root)

    def test_links_without_a_cache(self):
        root = ImageRoot(temporary(self))
        folder = self.multiarch(root)
        root.add_nvidia_library(folder, self.NAME)
        self.ldconfig(root, "-N", folder)
        self.assertEqual((root.folder / "etc/ld.so.cache").stat().st_size, 0)
        self.gpus(root)

    def test_a_device_plugin_that_mounts_a_folder(self):
        root = ImageRoot(temporary(self))
        root.add_nvidia_library("/usr/local/nvidia/lib64", "libnvidia-ml.so.1")
        self.gpus(root)


class UnderPodman(unittest.TestCase):
    """Rootless: as a user that may map further users, and otherwise has no rights."""

    @classmethod
    def setUpClass(cls):
        cls.podman = Podman()
        cls.addClassCleanup(cls.podman.close)
        cls.image = cls.podman.load(image())

    def test_the_manifest_is_kept(self):
        digest = Archive(image()).index["manifests"][0]["digest"]
        self.assertIn(digest, self.podman.run("images", "--digests", "--no-trunc"))

    def test_the_agent_serves_its_page(self):
        port = free_port()
        options = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--publish", f"127.0.0.1:{port}:9091")
        open_to_others = ("--env", "GPULENS_HTTP_LISTEN=:9091", "--env", "GPULENS_HTTP_INSECURE=true")
        with self.podman.container(*options, *open_to_others, self.image, "--demo") as name:
            wait_until(lambda: "gpu_power_draw_watts{" in get(f"http://127.0.0.1:{port}/metrics"), 60, "a GPU on the page")
            self.assertIn("OK - gpu_num", self.podman.run("exec", name, "gpulens", "check", "gpu_num"))
            self.assertEqual(self.podman.run("exec", name, "gpulens", "version").split()[1], packing.version())
            self.assertIn("the agent of user gpulens", self.podman.run("exec", name, "gpulens", "doctor", "--demo"))
            # Confined inside the container's own limits, too.
            sandbox = json.loads(get(f"http://127.0.0.1:{port}/-/status"))["sandbox"]
            for process in sandbox["processes"]:
                off = [layer for layer in process["layers"] if not layer["on"]]
                self.assertEqual([layer for layer in off if "Landlock" not in layer["detail"]], [], process)
            self.assertIn("agent", [process["process"] for process in sandbox["processes"]])
            log = self.podman.run("logs", name)
        self.assertNotIn("Read-only file system", log)
        self.assertNotIn(" WARN ", log)

    def test_without_a_word_it_listens_on_its_own_loopback_address(self):
        with self.podman.container("--read-only", self.image, "--demo") as name:
            wait_until(lambda: "OK" in self.podman.run("exec", name, "gpulens", "check", "gpu_num", check=False), 60, "the agent")
            self.assertIn("http://127.0.0.1:9091/", self.podman.run("logs", name))

    def gpus(self, options=(), run=()):
        (folder,) = {f"/{pathlib.PurePosixPath(name).parent}" for name in self.libraries()}
        self.podman.device(folder, AfterAContainerToolkit.NAME)
        self.podman.write("profile.yaml", image_root.PROFILE.read_text())
        profile = ("--volume", f"{self.podman.folder}/profile.yaml:/etc/profile.yaml:ro", "--env", "GPULENS_FAKE_NVML=/etc/profile.yaml")
        gpus = ("--network=none", "--device", "nvidia.com/gpu=all", "--entrypoint", "gpulens")
        shown = self.podman.run(*options, "run", "--rm", *run, *profile, *gpus, self.image, "collect", "nvidia", "--once")
        self.assertRegex(shown, r"gpu\.devices nvidia +8\n")

    def test_gpus_by_the_container_device_interface(self):
        # crun 1.8 makes the root read-only before the hook runs, which then cannot write the loader's cache.
        self.gpus(run=["--cgroups=disabled"])

    def test_gpus_in_a_read_only_root(self):
        if not shutil.which("runc"):
            self.skipTest("no runc here")
        self.gpus(["--runtime=runc"], ["--read-only"])

    def libraries(self):
        return [name for layer in Archive(image()).layers() for name in layer.getnames() if name.endswith("/libm.so.6")]


if __name__ == "__main__":
    unittest.main()
