"""A page of llama.cpp's families on 127.0.0.1, for test_discovery.py, which runs it under another name.

Serves until its standard input ends, so it never outlives the test. The port is the value of --port.
"""
import http.server
import os
import sys
import threading

PAGE = b"# TYPE llamacpp:requests_processing gauge\nllamacpp:requests_processing 3\n"


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = self.path == "/metrics"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(PAGE) if found else 0))
        self.end_headers()
        if found:
            self.wfile.write(PAGE)

    def log_message(self, *args):
        pass


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)


main()
