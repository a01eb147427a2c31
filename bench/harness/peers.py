"""The programs that we are compared with: fetched from the package registries and built in build/bench,
never installed. One that cannot be had is Absent, with the reason."""
import os
import pathlib
import shutil
import subprocess
import sys

from harness.measure import Absent, ROOT, RELEASE, WORK, output_of

PACKAGES = WORK / "packages"


def debian(*names):
    """Unpacks Debian packages below PACKAGES and returns that folder."""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise Absent("no apt-get here")
    PACKAGES.mkdir(parents=True, exist_ok=True)
    for name in names:
        mark = PACKAGES / f"{name}.unpacked"
        if mark.exists():
            continue
        output_of(["apt-get", "download", "-qq", name], cwd=PACKAGES)
        for archive in PACKAGES.glob(f"{name}_*.deb"):
            output_of(["dpkg", "-x", archive, PACKAGES])
            archive.unlink()
        mark.touch()
    return PACKAGES


def library_folder(folder):
    found = sorted((folder / "usr/lib").glob("*-linux-gnu"))
    if not found:
        raise Absent(f"no libraries below {folder.relative_to(ROOT)}")
    return found[0]


def go_programs():
    """Builds bench/go; returns the folder of its programs."""
    go = shutil.which("go") or next((p for p in ("/usr/local/go/bin/go", "/usr/lib/go/bin/go") if os.access(p, os.X_OK)), None)
    if not go:
        raise Absent("no Go toolchain here")
    target = WORK / "go"
    target.mkdir(parents=True, exist_ok=True)
    options = {"cwd": ROOT / "bench/go", "env": {**os.environ, "CGO_ENABLED": "0"}}
    output_of([go, "build", "-mod=readonly", "-trimpath", "-o", f"{target}/", "./cmd/..."], **options)
    return target


def prometheus_cpp():
    """Builds bench/prometheus_cpp_main.cc with Debian's library; returns (program, environment, version)."""
    folder = debian("libprometheus-cpp-core1.0", "prometheus-cpp-dev")
    libraries = library_folder(folder)
    program = WORK / "prometheus_cpp"
    archive = next(libraries.glob("libprometheus-cpp-core.so.*.*.*"), None)
    if archive is None:
        raise Absent("the package has no libprometheus-cpp-core.so")
    output_of(
        [
            "g++", "-std=c++20", "-O2", f"-I{ROOT}", f"-I{ROOT / 'src'}", f"-I{ROOT / 'include'}",
            f"-I{folder / 'usr/include'}", ROOT / "bench/prometheus_cpp_main.cc", f"-L{RELEASE}", "-lgpulens_wire", "-lgpulens_wire_exposition", "-lgpulens_base_hash",
            "-lgpulens_core", "-lgpulens_base", archive, "-ldeflate", "-lpthread", "-o", program,
        ]
    )  # fmt: skip
    return program, {**os.environ, "LD_LIBRARY_PATH": str(libraries)}, archive.name.partition(".so.")[2]


def nvitop_exporter():
    """An exporter of the same numbers, in a virtual environment of its own."""
    folder = WORK / "nvitop"
    program = folder / "bin/nvitop-exporter"
    if not program.exists():
        output_of([sys.executable, "-m", "venv", folder])
        output_of([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "nvitop-exporter==1.7.2"])
    return program


NGINX_CONFIG = """
worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; keepalive_timeout 60;
  open_file_cache max=100; gzip_static on; gzip_vary on; default_type "text/plain; version=0.0.4";
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:{port}; root {folder}/html; }}
}}
"""


def nginx(port, files):
    """Starts nginx on a port with `files` (name to bytes); returns (process, version). The caller ends it."""
    unpacked = debian("nginx", "libpcre2-8-0")
    program = unpacked / "usr/sbin/nginx"
    folder = WORK / "nginx"
    (folder / "html").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / "html" / name).write_bytes(content)
    config = folder / "nginx.conf"
    config.write_text(NGINX_CONFIG.format(folder=folder, port=port))
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library_folder(unpacked))}
    version = subprocess.run([program, "-v"], env=environment, capture_output=True, text=True, check=False).stderr
    if "nginx/" not in version:
        raise Absent(f"nginx does not run here: {version.strip()}")
    command = [program, "-p", folder, "-e", folder / "error.log", "-c", config]
    return subprocess.Popen(command, env=environment), version.strip().rpartition("nginx/")[2]


def tool_versions():
    """The versions of compilers, and the flags, for the page."""
    versions = {}
    for name, command in {"g++": ["g++", "-dumpfullversion"], "go": ["go", "version"]}.items():
        try:
            versions[name] = output_of(command).strip()
        except Absent:
            versions[name] = "absent"
    cache = pathlib.Path(RELEASE / "CMakeCache.txt")
    if cache.exists():
        for line in cache.read_text().splitlines():
            if line.startswith("CMAKE_CXX_FLAGS_RELEASE:"):
                versions["flags"] = line.partition("=")[2]
    return versions
