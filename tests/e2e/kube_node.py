"""A node of Kubernetes as far as an agent sees it: a kubelet's PodResources service, its pages, and an API server."""
import concurrent.futures
import http.server
import json
import subprocess
import threading
import time
import unittest
import urllib.parse

try:
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
except ImportError as missing:
    raise unittest.SkipTest(f"Python package not here: {missing.name}") from None
from go_peers import go_peer


def _messages():
    """The classes of the service's messages, from its published field numbers (k8s.io/kubelet, podresources v1)."""
    file = descriptor_pb2.FileDescriptorProto(name="podresources.proto", package="v1", syntax="proto3")
    kinds = {"string": 9, "int64": 3}

    def message(name, *fields):
        one = file.message_type.add(name=name)
        for number, (field, kind, repeated) in fields:
            added = one.field.add(name=field, number=number, label=3 if repeated else 1, type=kinds.get(kind, 11))
            if kind not in kinds:
                added.type_name = ".v1." + kind

    message("NUMANode", (1, ("ID", "int64", False)))
    message("TopologyInfo", (1, ("nodes", "NUMANode", True)))
    message("ContainerDevices", (1, ("resource_name", "string", False)), (2, ("device_ids", "string", True)),
            (3, ("topology", "TopologyInfo", False)))
    message("CDIDevice", (1, ("name", "string", False)))
    message("ClaimResource", (1, ("cdi_devices", "CDIDevice", True)), (2, ("driver_name", "string", False)),
            (3, ("pool_name", "string", False)), (4, ("device_name", "string", False)))
    message("DynamicResource", (2, ("claim_name", "string", False)), (3, ("claim_namespace", "string", False)),
            (4, ("claim_resources", "ClaimResource", True)))
    message("ContainerResources", (1, ("name", "string", False)), (2, ("devices", "ContainerDevices", True)),
            (3, ("cpu_ids", "int64", True)), (5, ("dynamic_resources", "DynamicResource", True)))
    message("PodResources", (1, ("name", "string", False)), (2, ("namespace", "string", False)),
            (3, ("containers", "ContainerResources", True)))
    message("ListPodResourcesRequest")
    message("ListPodResourcesResponse", (1, ("pod_resources", "PodResources", True)))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName("v1." + name))


MESSAGE = _messages()


class Holders:
    """The devices of each pod, as List returns them. `delay`, in seconds, makes the answer late. A change is in force when the call returns."""

    def __init__(self):
        self._delay, self._pods = 0.0, {}

    @property
    def delay(self):
        return self._delay

    @delay.setter
    def delay(self, seconds):
        self._delay = seconds
        self._send(self._world())

    def _world(self):
        """A ListPodResourcesResponse as JSON has it."""
        return {"pod_resources": [
            {"name": name, "namespace": name_space,
             "containers": [{"name": container, "cpu_ids": [1, 2, 300], "devices": devices, "dynamic_resources": claims}]}
            for (name_space, name), (container, devices, claims) in self._pods.items()]}

    def _put(self, pod, name_space, container="main", devices=(), claims=()):
        self._pods[(name_space, pod)] = (container, list(devices), list(claims))

    @staticmethod
    def _devices(resource, ids):
        # One entry a NUMA node, as the kubelet does.
        return [{"resource_name": resource, "device_ids": [device], "topology": {"nodes": [{"ID": 1}]}} for device in ids]

    def hold(self, pod, resource, ids, name_space="ml", container="main"):
        self._put(pod, name_space, container, self._devices(resource, ids))
        self._send(self._world())

    def claim(self, pod, driver, pool, device, name_space="ml"):
        self._put(pod, name_space, claims=[{
            "claim_name": "c", "claim_namespace": name_space,
            "claim_resources": [{"driver_name": driver, "pool_name": pool, "device_name": device}]}])
        self._send(self._world())

    def replace(self, old, new, resource, ids, name_space="ml"):
        """One pod ends and another gets its devices, in one moment."""
        self._pods.pop((name_space, old), None)
        self.hold(new, resource, ids, name_space)

    def drop(self, pod, name_space="ml"):
        self._pods.pop((name_space, pod), None)
        self._send(self._world())


class Kubelet(Holders):
    """Answers List on a Unix socket, in Python."""

    def __init__(self, socket):
        super().__init__()
        self._answer = MESSAGE("ListPodResourcesResponse")()
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        list_ = grpc.unary_unary_rpc_method_handler(
            self._list, request_deserializer=MESSAGE("ListPodResourcesRequest").FromString,
            response_serializer=MESSAGE("ListPodResourcesResponse").SerializeToString)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": list_}),))
        self._server.add_insecure_port(f"unix:{socket}")
        self._server.start()

    def _send(self, world):
        self._answer = json_format.ParseDict(world, MESSAGE("ListPodResourcesResponse")())

    def _list(self, _request, _context):
        threading.Event().wait(self.delay)
        return self._answer

    def stop(self):
        self._server.stop(0)


class RealKubelet(Holders):
    """A kubelet with Kubernetes' own messages and Go's gRPC: tests/peers/podresources."""

    def __init__(self, socket):
        super().__init__()
        self._process = subprocess.Popen([go_peer("podresources"), socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._send(self._world())

    def _send(self, world):
        self._process.stdin.write(f"{round(self.delay * 1000)} {json.dumps(world)}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "ok\n", "the kubelet took no world"

    def stop(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(20)


def pod(name, uid, name_space="ml", phase="Running", **more):
    """A pod as the API server returns it."""
    one = {"metadata": {"name": name, "namespace": name_space, "uid": uid, "labels": more.get("labels", {}),
                        "creationTimestamp": "2026-01-01T00:00:00Z"},
           "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
           "status": {"phase": phase, "conditions": []}}
    if more.get("owner"):
        kind, owner = more["owner"]
        one["metadata"]["ownerReferences"] = [{"kind": kind, "name": owner, "uid": "o", "controller": True}]
    if more.get("scheduled"):
        one["status"]["conditions"].append({"type": "PodScheduled", "status": "True",
                                            "lastTransitionTime": more["scheduled"]})
    if "container_id" in more or "restarts" in more:
        one["status"]["containerStatuses"] = [{"name": "main", "restartCount": more.get("restarts", 0), "ready": phase == "Running",
                                               "containerID": "containerd://" + more.get("container_id", "")}]
    return one


class ApiServer:
    """Lists and watches pods, one node, resource slices; the kubelet's pages, too. Keeps the requested paths."""

    def __init__(self, token="secret"):
        self.token, self.version, self.requested = token, 100, []
        self.pods, self.events, self.slices, self.pages = {}, [], [], {}
        self.labels = {"topology.kubernetes.io/zone": "eu-1a", "topology.kubernetes.io/region": "eu-1"}
        self.changed = threading.Condition()
        self.stopping = False
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer._serve(self)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def kubeconfig(self, path):
        path.write_text(json.dumps({"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                                    "clusters": [{"name": "k", "cluster": {"server": self.url}}],
                                    "users": [{"name": "u", "user": {"token": self.token}}]}))
        return path

    def put(self, *pods):
        with self.changed:
            for one in pods:
                self.version += 1
                one["metadata"]["resourceVersion"] = str(self.version)
                kind = "MODIFIED" if one["metadata"]["uid"] in self.pods else "ADDED"
                self.pods[one["metadata"]["uid"]] = one
                self.events.append((self.version, {"type": kind, "object": one}))
            self.changed.notify_all()

    def delete(self, uid):
        with self.changed:
            self.version += 1
            one = self.pods.pop(uid)
            one["metadata"]["resourceVersion"] = str(self.version)
            self.events.append((self.version, {"type": "DELETED", "object": one}))
            self.changed.notify_all()

    def _serve(self, request):
        parts = urllib.parse.urlsplit(request.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        self.requested.append(request.path)
        if parts.path in self.pages:
            return self._answer(request, 200, self.pages[parts.path])
        if request.headers.get("Authorization") != "Bearer " + self.token:
            return self._answer(request, 403, b"{}")
        if parts.path == "/api/v1/pods":
            return self._watch(request, query) if "watch" in query else self._list(request)
        if parts.path.startswith("/api/v1/namespaces/") and parts.path.endswith("/pods"):
            return self._list(request, parts.path.split("/")[4], query.get("labelSelector", ""))
        if parts.path == "/api/v1/nodes/n1":
            return self._answer(request, 200, {"metadata": {"name": "n1", "labels": self.labels}})
        if parts.path == "/apis/resource.k8s.io/v1/resourceslices":
            return self._answer(request, 200, {"metadata": {}, "items": self.slices})
        return self._answer(request, 404, b"{}")

    def _list(self, request, name_space=None, selector=""):
        """All pods, or those of a namespace that have each label of `selector`: "a=b,c=d"."""
        wanted = [each.split("=", 1) for each in selector.split(",") if each]
        with self.changed:
            found = [one for one in self.pods.values() if name_space in (None, one["metadata"]["namespace"]) and
                     all(one["metadata"]["labels"].get(key) == text for key, text in wanted)]
            body = {"kind": "PodList", "metadata": {"resourceVersion": str(self.version)}, "items": found}
        self._answer(request, 200, body)

    def _watch(self, request, query):
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        seen, end = int(query["resourceVersion"]), time.monotonic() + float(query.get("timeoutSeconds", 60))
        try:
            while not self.stopping and time.monotonic() < end:
                with self.changed:
                    due = [(version, event) for version, event in self.events if version > seen]
                    if not due:
                        self.changed.wait(0.2)
                        continue
                for version, event in due:
                    line = json.dumps(event).encode() + b"\n"
                    request.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                    seen = version
                request.wfile.flush()
            request.wfile.write(b"0\r\n\r\n")
        except OSError:
            request.close_connection = True

    @staticmethod
    def _answer(request, status, body):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def stop(self):
        self.stopping = True
        self._server.shutdown()
        self._server.server_close()
