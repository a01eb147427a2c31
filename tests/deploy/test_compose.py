"""The compose files of deploy/compose/: what Debian's docker-compose makes of them, and what they configure, run without Docker.

nginx hides /metrics however it is written; Prometheus with the shipped prometheus.yml scrapes an agent with the shipped token configuration.
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.parse
import urllib.request

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from agent import BINARY, ROOT, Agent, free_port, peer, prometheus_result, wait_until  # noqa: E402
from http_stub import HttpStub  # noqa: E402

DEPLOY = ROOT / "deploy"
ZUMIK = DEPLOY / "compose" / "zumik"
CORE, OVERLAY = ZUMIK / "infra/deploy/docker-compose.yml", ZUMIK / "infra/observability/docker-compose.observability.yml"
PROXY = ZUMIK / "infra/deploy/docker-compose.proxy.yml"
BOX = DEPLOY / "compose" / "single-box"
VERSION = re.search(r"project\(gpulens VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def compose(folder, *arguments, **environment):
    """Runs docker-compose in `folder`; skips the test where there is none."""
    program = ROOT / "build" / "compose" / "usr" / "bin" / "docker-compose"
    command = [str(program)]
    ours = {"PATH": os.environ["PATH"], **environment}
    if program.exists() and program.read_bytes()[:2] == b"#!":
        command = ["/usr/bin/python3", str(program)]
        ours["PYTHONPATH"] = str(ROOT / "build" / "compose" / "usr" / "lib" / "python3" / "dist-packages")
    elif not program.exists():
        raise unittest.SkipTest("docker-compose not here; ./dev test fetches it, as tools/prepare_peers.sh does alone")
    return subprocess.run([*command, *map(str, arguments)], cwd=folder, env=ours, capture_output=True, text=True, check=False)


def services(folder, *files, **environment):
    result = compose(folder, *[word for file in files for word in ("-f", file)], "config", **environment)
    assert result.returncode == 0, result.stderr
    found = yaml.safe_load(result.stdout)["services"]
    for service in found.values():  # in an order of its own each time
        service["networks"] = sorted(service["networks"])
        service["volumes"] = sorted(service.get("volumes", []))
    return found


def mounts(service):
    """(source, target) of the service's bind mounts."""
    return [tuple(volume.split(":")[:2]) for volume in service.get("volumes", []) if volume.startswith("/")]


@contextlib.contextmanager
def running(*command, log):
    with open(log, "wb") as output:
        process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def query(port, expression):
    """{labels as text: value}; empty while the server starts."""
    return {json.dumps(row["metric"], sort_keys=True): float(row["value"][1]) for row in prometheus_result(port, expression)}


class Common:
    """What holds for both stacks."""

    def check_images_and_limits(self, found):
        for name, service in found.items():
            with self.subTest(service=name):
                self.assertRegex(service["image"], r"^[\w./-]+:v?\d+\.\d+\.\d+$", "a tag that does not move")
                self.assertTrue(service.get("mem_limit") and service.get("cpus"))
                self.assertEqual(service["cap_drop"], ["ALL"])
                for source, target in mounts(service):
                    self.assertTrue(pathlib.Path(source).exists(), f"{target} comes from {source}, which is not there")
        self.assertEqual(found["gpulens"]["image"], f"gpulens:{VERSION}")

    def check_provisioning(self, grafana, found):
        at = {target: pathlib.Path(source) for source, target in mounts(grafana)}
        provider, = yaml.safe_load(next(at["/etc/grafana/provisioning/dashboards"].glob("*.yml")).read_text())["providers"]
        self.assertEqual(at[provider["options"]["path"]], DEPLOY / "dashboards")
        source, = yaml.safe_load(next(at["/etc/grafana/provisioning/datasources"].glob("*.yml")).read_text())["datasources"]
        self.assertEqual((source["type"], source["isDefault"]), ("prometheus", True))
        self.assertIn(urllib.parse.urlparse(source["url"]).hostname, found)
        titles = {json.loads(file.read_text())["title"] for file in (DEPLOY / "dashboards").glob("*.json")}
        self.assertLessEqual({"Zumik API (managed providers)", "BYOC runtime (GPU / KV cache)"}, titles)
        if os.environ.get("GPULENS_GRAFANA"):
            self.check_in_grafana(at, titles)

    def check_in_grafana(self, at, titles):
        """GPULENS_GRAFANA is the folder of a Grafana: it lists every dashboard after its start."""
        home, port = pathlib.Path(os.environ["GPULENS_GRAFANA"]), free_port()
        with tempfile.TemporaryDirectory() as folder:
            provisioning = pathlib.Path(folder) / "provisioning"
            for part in ("dashboards", "datasources"):
                shutil.copytree(at[f"/etc/grafana/provisioning/{part}"], provisioning / part)
            file = next((provisioning / "dashboards").glob("*.yml"))
            file.write_text(file.read_text().replace("/var/lib/grafana/dashboards", str(DEPLOY / "dashboards")))
            settings = {"paths.data": f"{folder}/data", "paths.provisioning": provisioning, "server.http_port": port, "auth.anonymous.enabled": "true"}
            words = [f"cfg:default.{key}={value}" for key, value in settings.items()]
            with running(home / "bin" / "grafana", "server", "--homepath", home, *words, log=f"{folder}/log"):
                def listed():
                    with contextlib.suppress(OSError, ValueError), urllib.request.urlopen(f"http://127.0.0.1:{port}/api/search?type=dash-db&limit=500") as answer:
                        return {row["title"] for row in json.load(answer)} >= titles
                    return False
                wait_until(listed, 120, "dashboards in Grafana")


class Zumik(Common, unittest.TestCase):
    PASSWORD = {"GRAFANA_ADMIN_PASSWORD": "x"}

    def setUp(self):
        # Its place in the tree stays empty, so that no token is ever committed.
        handle, self.token = tempfile.mkstemp(text=True)
        os.write(handle, b"s3cret-token-of-the-test\n")
        os.close(handle)
        self.addCleanup(os.unlink, self.token)

    def test_core_alone_needs_no_password(self):
        self.assertEqual(set(services(ZUMIK, CORE)), {"gpulens", "nginx"})

    def test_overlay_refuses_to_start_without_password(self):
        for environment in ({}, {"GRAFANA_ADMIN_PASSWORD": ""}):
            result = compose(ZUMIK, "-f", CORE, "-f", OVERLAY, "config", **environment)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("GRAFANA_ADMIN_PASSWORD", result.stderr)

    def test_documented_command(self):
        text = (ROOT / "docs" / "howto" / "compose.md").read_text(encoding="utf-8")
        command = re.search(r"docker compose (--env-file(?:[^\n]*\\\n)*[^\n]*up -d prometheus grafana)", text)[1].replace("\\\n", " ").split()
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ZUMIK, folder, dirs_exist_ok=True)
            example = pathlib.Path(folder, "infra/deploy/.env.example").read_text()
            pathlib.Path(folder, "infra/deploy/.env").write_text(example.replace("GRAFANA_ADMIN_PASSWORD=", "GRAFANA_ADMIN_PASSWORD=x"))
            result = compose(folder, *command[:command.index("up")], "config", "--services")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertLessEqual(set(command[command.index("-d") + 1:]), set(result.stdout.split()))

    def test_nothing_but_nginx_is_published(self):
        found = services(ZUMIK, CORE, PROXY, OVERLAY, **self.PASSWORD)
        self.assertEqual({name for name, service in found.items() if service.get("ports")}, {"nginx"})
        for name in ("gpulens", "llm-proxy", "prometheus", "grafana"):
            self.assertEqual(found[name]["networks"], ["internal"], "reached over the internal network only")
            self.assertNotIn("network_mode", found[name])

    def test_bounds(self):
        command = services(ZUMIK, CORE, OVERLAY, **self.PASSWORD)["prometheus"]["command"]
        self.assertIn("--storage.tsdb.retention.size=8GB", command)
        self.assertIn("--storage.tsdb.retention.time=15d", command)

    def test_images_limits_provisioning(self):
        found = services(ZUMIK, CORE, PROXY, OVERLAY, **self.PASSWORD)
        self.check_images_and_limits(found)
        self.assertEqual(found["llm-proxy"]["image"], found["gpulens"]["image"])
        self.check_provisioning(found["grafana"], found)
        self.assertNotIn("ports", found["grafana"])

    def configuration(self, folder, port):
        """prometheus.yml as shipped, with files and target where they are in the test."""
        text = (ZUMIK / "infra/observability/prometheus.yml").read_text()
        for there, here in (("/etc/prometheus/rules", DEPLOY / "rules"), ("/etc/prometheus/byoc", f"{folder}/byoc"), ("/run/secrets/metrics_token", self.token),
                            ("gpulens:9091", f"127.0.0.1:{port}"), ("scrape_interval: 15s", "scrape_interval: 1s")):
            self.assertIn(there, text)
            text = text.replace(there, str(here))
        file = pathlib.Path(folder) / "prometheus.yml"
        file.write_text(text)
        return file

    def test_prometheus_scrapes_with_the_token(self):
        """Rows zu-013 and zu-015; without the token, and with another one, the agent answers 401."""
        core = (ZUMIK / "infra/deploy/gpulens.yaml").read_text()
        with tempfile.TemporaryDirectory() as folder:
            web = pathlib.Path(folder) / "web.yaml"
            web.write_text((ZUMIK / "infra/deploy/web.yaml").read_text().replace("/run/secrets/metrics_token", self.token))
            config = core.replace("/etc/gpulens/web.yaml", str(web))
            self.assertNotEqual(config, core)
            token = pathlib.Path(self.token).read_text().strip()
            with Agent("--demo", config=config, authorization=f"Bearer {token}") as agent:
                self.assertEqual(agent.get("/metrics").status, 401)
                self.assertEqual(agent.get("/metrics", Authorization="Bearer other").status, 401)
                file, port = self.configuration(folder, agent.port), free_port()
                checked = subprocess.run([peer("promtool"), "check", "config", file], capture_output=True, text=True, check=False)
                self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
                with running(peer("prometheus"), f"--config.file={file}", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}", log=f"{folder}/log"):
                    wait_until(lambda: set(query(port, 'up{job="gpulens"}').values()) == {1.0}, 60, "the target")
                    self.assertTrue(query(port, "gpu_info"))
                    pathlib.Path(self.token).write_text("another token\n")  # Prometheus and the agent read it again: both have it now
                    web.write_text(web.read_text().replace(self.token, f"{folder}/old"))
                    pathlib.Path(folder, "old").write_text(token)
                    agent.process.send_signal(signal.SIGHUP)
                    wait_until(lambda: set(query(port, 'up{job="gpulens"}').values()) == {0.0}, 60, "a refused target")

    def test_prometheus_scrapes_the_proxy_with_the_token(self):
        """Rows zu-012, zu-013 and zu-015 with the shipped proxy.yaml: its commands as in the overlay, and a page that needs the token."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            port = free_port()
            text = (ZUMIK / "infra/deploy/proxy.yaml").read_text()
            for there, here in (('":8080"', f'"127.0.0.1:{port}"'), ("/run/secrets/metrics_token", self.token), ("/var/lib/gpulens/proxy", f"{folder}/state")):
                self.assertIn(there, text)
                text = text.replace(there, here)
            (folder / "proxy.yaml").write_text(text)
            service = services(ZUMIK, CORE, PROXY)["llm-proxy"]
            self.assertEqual(service["entrypoint"][0], "/usr/bin/gpulens")
            environment = {"PATH": os.environ["PATH"], **service["environment"]}
            command = [word.replace("/etc/gpulens", str(folder)) for word in [str(BINARY), *service["entrypoint"][1:], *service["command"]]]
            made = re.search(r"run --rm llm-proxy (.*)", PROXY.read_text())[1].replace("/etc/gpulens", str(folder)).split()
            key = subprocess.run([*command[:2], *made], env=environment, capture_output=True, text=True, check=True).stdout.strip()
            self.assertRegex(key, "^gpl_api-core_")
            token = pathlib.Path(self.token).read_text().strip()
            with open(folder / "log", "wb") as log, subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process:
                try:
                    def status(path, **fields):
                        try:
                            with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=fields), timeout=10) as answer:
                                return answer.status
                        except urllib.error.HTTPError as error:
                            return error.code
                        except OSError:
                            return process.poll() is not None and (folder / "log").read_text()
                    self.assertEqual(wait_until(lambda: status("/health"), 30, "the proxy"), 200)
                    self.assertEqual(status("/metrics"), 401)
                    self.assertEqual(status("/metrics", Authorization="Bearer other"), 401)
                    self.assertEqual(status("/metrics", Authorization=f"Bearer {key}"), 401, "a virtual key is not the token")
                    self.assertEqual(status("/metrics", Authorization=f"Bearer {token}"), 200)
                    file, scraper = self.configuration(folder, free_port()), free_port()
                    shipped = file.read_text()
                    named = re.search(r"dns_sd_configs:\s+- {names: \[llm-proxy\], type: A, port: (\d+), refresh_interval: 30s}", shipped)
                    self.assertEqual(named[1], "8080")
                    file.write_text(shipped.replace(named[0], f"static_configs: [{{targets: ['127.0.0.1:{port}']}}]"))
                    with running(peer("prometheus"), f"--config.file={file}", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{scraper}", log=folder / "scrapes"):
                        wait_until(lambda: set(query(scraper, 'up{job="llm-proxy"}').values()) == {1.0}, 60, "the target")
                        self.assertTrue(wait_until(lambda: query(scraper, "gpulens_proxy_journal_up"), 30, "its metrics"))
                finally:
                    process.send_signal(signal.SIGTERM)
                    process.wait(60)

    def test_nginx_hides_metrics(self):
        """Row zu-014: in every form that leads to /metrics; all else goes to the API."""
        seen = []

        def answer(request, _):
            seen.append(request.path)
            return 200, {}, b"from the API"
        with tempfile.TemporaryDirectory() as folder, HttpStub(answer) as api:
            port = free_port()
            os.chmod(folder, 0o755)
            text = (ZUMIK / "infra/deploy/nginx/nginx.conf").read_text()
            for there, here in (("listen 80;", f"listen 127.0.0.1:{port};"), ("http://api-core:8080", api.origin), ("/dev/stdout", f"{folder}/access"),
                                ("http {", "http {" + "".join(f" {name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")))):
                self.assertIn(there, text)
                text = text.replace(there, here)
            pathlib.Path(folder, "nginx.conf").write_text(text)
            shutil.copy(ZUMIK / "infra/deploy/nginx/metrics-internal.conf", folder)
            unpacked = pathlib.Path(peer("promtool")).parent.parent / "sbin" / "nginx"
            nginx = unpacked if unpacked.exists() else shutil.which("nginx")
            if not nginx:
                self.skipTest("nginx not here; ./dev test fetches it, as tools/prepare_peers.sh does alone")
            with running(nginx, "-p", folder, "-e", f"{folder}/error", "-c", f"{folder}/nginx.conf", "-g", f"daemon off; pid {folder}/pid;", log=f"{folder}/log"):
                def get(path):
                    with contextlib.suppress(ConnectionRefusedError):
                        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                        connection.putrequest("GET", path, skip_host=False)
                        connection.endheaders()
                        answer = connection.getresponse()
                        answer.read()
                        connection.close()
                        return answer.status
                    return None
                wait_until(lambda: get("/v1/models") == 200, 30, "nginx")
                for path in ("/metrics", "/metrics/", "//metrics", "///metrics//", "/%6detrics", "/%6D%65trics", "/METRICS", "/Metrics", "/./metrics", "/v1/../metrics",
                             "/v1/..%2fmetrics", "/%2fmetrics", "/metrics?x=1", "/metrics%2f", "/metrics/x", "/metrics;a=b", "/metrics%3Ba", "/%5cmetrics", "/metrics%5c", "/metrics#x",
                             "http://api-core:8080/metrics"):
                    with self.subTest(path=path):
                        self.assertIn(get(path), (400, 404))
                for path in ("/v1/chat/completions", "/v1/metrics-of-mine", "/metricsx", "/v1/metrics"):
                    with self.subTest(path=path):
                        self.assertEqual(get(path), 200)
            self.assertFalse([path for path in seen if re.match(r"(?i)/*(%6d|m)etrics(/|\?|;|$)", path)], seen)


class SingleBox(Common, unittest.TestCase):
    PASSWORD = {"GRAFANA_ADMIN_PASSWORD": "x"}
    FILE, GPU = BOX / "docker-compose.yml", BOX / "docker-compose.gpu.yml"

    def test_images_limits_provisioning(self):
        found = services(BOX, self.FILE, **self.PASSWORD)
        self.assertEqual(set(found), {"gpulens", "victoria-metrics", "vmalert", "grafana"})
        self.check_images_and_limits(found)
        self.check_provisioning(found["grafana"], found)

    def test_grafana_alone_is_published_on_loopback(self):
        found = services(BOX, self.FILE, self.GPU, **self.PASSWORD)
        self.assertEqual({name: service["ports"] for name, service in found.items() if service.get("ports")}, {"grafana": ["127.0.0.1:3000:3000/tcp"]})
        result = compose(BOX, "-f", self.FILE, "config")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("GRAFANA_ADMIN_PASSWORD", result.stderr)

    def test_the_gpu_is_an_overlay(self):
        without, with_gpu = (services(BOX, self.FILE, *more, **self.PASSWORD) for more in ((), (self.GPU,)))
        self.assertNotIn("nvidia", json.dumps(without))
        device, = with_gpu["gpulens"]["deploy"]["resources"]["reservations"]["devices"]
        self.assertEqual((device["driver"], device["count"], device["capabilities"]), ("nvidia", "all", ["utility"]))
        for name in set(without) - {"gpulens"}:
            self.assertEqual(without[name], with_gpu[name])

    def test_configuration(self):
        environment = services(BOX, self.FILE, **self.PASSWORD)["gpulens"]["environment"]
        result = subprocess.run([BINARY, "config", "check", BOX / "gpulens.yaml"], env={**os.environ, **environment}, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_vmalert_has_the_rules_that_exist(self):
        words = services(BOX, self.FILE, **self.PASSWORD)["vmalert"]["command"]
        files = {word.rsplit("/", 1)[1] for word in words if word.startswith("-rule=")}
        self.assertEqual(files | {"l9gpu.yaml"}, {file.name for file in (DEPLOY / "rules").glob("*.yaml")})


if __name__ == "__main__":
    unittest.main()
