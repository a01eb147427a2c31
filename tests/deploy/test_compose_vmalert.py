"""VictoriaMetrics and vmalert with the command lines of deploy/compose/single-box: they scrape a demo and evaluate the rules."""
import pathlib
import re
import tempfile
import unittest

from test_compose import BOX, DEPLOY, Agent, free_port, query, running, services, wait_until
from go_peers import go_peer


class SingleBoxRuns(unittest.TestCase):
    """The command lines of the file, without containers."""

    def test_victoria_metrics_and_vmalert(self):
        found = services(BOX, BOX / "docker-compose.yml", GRAFANA_ADMIN_PASSWORD="x")
        victoria, vmalert = go_peer("victoria-metrics"), go_peer("vmalert")
        with tempfile.TemporaryDirectory() as folder, Agent("--demo", config=(BOX / "gpulens.yaml").read_text(), environment={"GPULENS_DEMO_SCENARIO": ""}) as agent:
            port = free_port()
            scrape = pathlib.Path(folder) / "scrape.yml"
            scrape.write_text((BOX / "scrape.yml").read_text().replace("gpulens:9091", f"127.0.0.1:{agent.port}").replace("127.0.0.1:8428", f"127.0.0.1:{port}"))
            rules = pathlib.Path(folder) / "rules"
            rules.mkdir()
            for file in (DEPLOY / "rules").glob("*.yaml"):
                (rules / file.name).write_text(re.sub(r"(?m)^( *interval:) .*$", r"\1 5s", file.read_text()))
            words = {"/data": f"{folder}/data", "/etc/scrape.yml": str(scrape), "/etc/rules": str(rules), "http://victoria-metrics:8428": f"http://127.0.0.1:{port}"}

            def here(command):
                for there, place in words.items():
                    command = [re.sub(rf"(?<==){re.escape(there)}", place, word) for word in command]
                return command
            with running(victoria, *here(found["victoria-metrics"]["command"]), f"-httpListenAddr=127.0.0.1:{port}", log=f"{folder}/vm.log"):
                wait_until(lambda: query(port, "up"), 60, "a first scrape")
                with running(vmalert, *here(found["vmalert"]["command"]), f"-httpListenAddr=127.0.0.1:{free_port()}", log=f"{folder}/vmalert.log") as process:
                    wait_until(lambda: query(port, "last_over_time(cluster:gpu_devices_ok:count[2m])") or process.poll() is not None, 90, "recorded series")
                    self.assertIsNone(process.poll(), pathlib.Path(folder, "vmalert.log").read_text()[-2000:])
                    wait_until(lambda: query(port, 'last_over_time(ALERTS{alertname="GpuIdleButAllocated"}[2m])'), 90, "an alert that waits")


if __name__ == "__main__":
    unittest.main()
