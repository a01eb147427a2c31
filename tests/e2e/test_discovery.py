"""Targets that the agent finds by itself: by files in Prometheus's file_sd format, and by looking at processes."""
import contextlib
import http.client
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from agent import Agent, free_port, samples, wait_until

SCRIPT = pathlib.Path(__file__).resolve().parent / "discovery_page.py"
SERIES = "llamacpp:requests_processing"
DETECTS = {"GPULENS_DISCOVERY_LOCAL_ENABLED": "true"}


@contextlib.contextmanager
def page_server(folder, name="llama-server"):
    """The page, by a program of this name; its port."""
    script = pathlib.Path(folder) / name
    shutil.copy(SCRIPT, script)
    port = free_port()
    process = subprocess.Popen([sys.executable, str(script), "--port", str(port)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        yield port
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(20)


def page_of(agent):
    connection = http.client.HTTPConnection("127.0.0.1", agent.port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def lines(agent):
    return [line for line in page_of(agent).splitlines() if line.startswith(SERIES)]


class DiscoveryTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-discovery-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, text):
        part = self.folder / "targets.part"
        part.write_text(text)
        os.replace(part, self.folder / "targets.yaml")

    def test_file_sd_adds_and_removes_a_target(self):
        config = ("discovery: {local: {enabled: false}, file_sd: {files: [\"%s/*.yaml\"], kind: prometheus, "
                  "refresh: 200ms}}\n" % self.folder)
        with page_server(self.folder) as port, Agent(config=config) as agent:
            self.assertEqual(lines(agent), [])
            self.write(f"- targets: ['127.0.0.1:{port}']\n  labels: {{team: search}}\n")
            found = wait_until(lambda: lines(agent), what="the series of a target that was added")
            self.assertIn('team="search"', found[0])
            self.assertIn(f'target="127.0.0.1:{port}"', found[0])
            self.assertTrue(found[0].split("}")[1].startswith(" 3"), found[0])
            # An invalid file changes nothing, and is reported.
            self.write("- targets: [\n")
            wait_until(lambda: "file_sd_bad" in agent.log_text() or "last valid targets" in agent.log_text(), what="the line of log")
            self.assertTrue(lines(agent))
            self.write("[]\n")
            wait_until(lambda: not lines(agent), what="the end of the series of a target that was removed")

    def test_without_a_word_of_configuration_an_engine_is_read(self):
        with page_server(self.folder) as port, Agent(environment=DETECTS) as agent:
            def running():
                return samples(agent.page(), "inference_requests_running", target=f"llama.cpp-{port}")
            found = wait_until(running, seconds=60, what="the engine that runs here")
            self.assertEqual(found[0].labels["inference_engine"], "llama.cpp")
            self.assertEqual(found[0].value, 3)

    def test_an_engine_is_found_by_its_process(self):
        config = "discovery: {local: {kind: prometheus}}\n"
        with Agent(config=config, environment=DETECTS) as agent:
            with page_server(self.folder) as port:
                found = wait_until(lambda: [line for line in lines(agent) if f'target="llama.cpp-{port}"' in line],
                                   seconds=60, what="the series of an engine that was found")
                self.assertTrue(found[0].split("}")[1].startswith(" 3"), found[0])
            wait_until(lambda: not any(f"llama.cpp-{port}" in line for line in page_of(agent).splitlines()
                                       if line.startswith(SERIES)), seconds=60, what="the end of its series")

    def test_our_own_page_is_refused(self):
        agent = Agent()
        agent.config.write_text(
            f"targets: [{{name: me, url: 'http://127.0.0.1:{agent.port}/metrics'}}]\n")
        self.addCleanup(shutil.rmtree, agent.folder, ignore_errors=True)
        done = subprocess.run(agent.arguments, env=agent.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("this agent's own page", done.stderr)


if __name__ == "__main__":
    unittest.main()
