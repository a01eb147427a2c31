"""A real kube-apiserver with etcd, for tests: it validates, admits and authorizes, and runs nothing.

Nothing else of a cluster is there: no scheduler, no controllers, no kubelet. Requests go by HTTPS with a token of an administrator.
"""
import http.client
import json
import ssl
import subprocess
import urllib.parse

from agent import free_port
from go_peers import Process, go_peer

TOKEN = "administrator-of-a-test"


class KubeCluster(Process):
    """Use it in a with statement."""

    def __init__(self):
        super().__init__("kube")
        self.etcd_program, self.api_program = go_peer("etcd"), go_peer("kube-apiserver")
        self.etcd, self.port = Process("etcd"), free_port()
        self.plurals = {}

    def __enter__(self):
        client, peer = free_port(), free_port()
        url = f"http://127.0.0.1:{client}"
        self.etcd.start([self.etcd_program, "--data-dir", self.etcd.folder / "data", "--listen-client-urls", url, "--advertise-client-urls", url,
                         "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--unsafe-no-fsync"],
                        lambda: "ready to serve client requests" in self.etcd.log_text())  # fmt: skip
        key = self.folder / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True, timeout=60)
        (self.folder / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')
        try:
            return self.start([self.api_program, f"--etcd-servers={url}", f"--secure-port={self.port}", "--bind-address=127.0.0.1",
                               f"--cert-dir={self.folder}/certs", f"--token-auth-file={self.folder}/tokens.csv", "--authorization-mode=RBAC",
                               f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
                               "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16",
                               "--watch-cache=false", "--allow-privileged=true", "--endpoint-reconciler-type=none"],
                              lambda: self.ready())  # fmt: skip
        except BaseException:
            self.etcd.__exit__()
            raise

    def __exit__(self, *_):
        super().__exit__()
        self.etcd.__exit__()

    def kubeconfig(self):
        """The path of a file for clients."""
        path = self.folder / "kubeconfig"
        cluster = {"server": f"https://127.0.0.1:{self.port}", "insecure-skip-tls-verify": True}
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "k", "cluster": cluster}],
                                    "users": [{"name": "u", "user": {"token": TOKEN}}],
                                    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}))
        return path

    def ready(self):
        try:
            return self.request("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def request(self, method, path, body=None, kind="application/json", **headers):
        """(status, answer as JSON or text, warnings) of one request."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the server made its certificate itself
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context)
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind,
                                                **{name.replace("_", "-"): value for name, value in headers.items()}})  # fmt: skip
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        warnings = answer.headers.get_all("Warning") or []
        return answer.status, json.loads(text) if text.startswith("{") else text, warnings

    def path_of(self, one):
        """The path of an object's collection."""
        version, kind = one["apiVersion"], one["kind"]
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self.plurals:
            status, answer, _ = self.request("GET", base)
            if status != 200:
                return None
            self.plurals[version] = {each["kind"]: (each["name"], each["namespaced"]) for each in answer["resources"] if "/" not in each["name"]}
        name, namespaced = self.plurals[version][kind]
        inside = f"/namespaces/{one['metadata']['namespace']}" if namespaced else ""
        return f"{base}{inside}/{name}"

    def apply(self, one, dry_run=True):
        """Server-side apply with strict validation of fields: (status, answer, warnings)."""
        path = self.path_of(one)
        assert path, f"the server has no {one['apiVersion']}"
        query = {"fieldManager": "test", "force": "true", "fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
        return self.request("PATCH", f"{path}/{one['metadata']['name']}?{urllib.parse.urlencode(query)}", one, "application/apply-patch+yaml")

    def create(self, one, dry_run=False):
        query = "?fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
        return self.request("POST", self.path_of(one) + query, one)

    def may(self, user, verb, resource, group="", namespace="", subresource=""):
        """Whether a user may do it, asked as that user."""
        attributes = {"verb": verb, "resource": resource, "group": group, "namespace": namespace, "subresource": subresource}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
        status, answer, _ = self.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body, Impersonate_User=user)
        assert status == 201, answer
        return answer["status"]["allowed"]
