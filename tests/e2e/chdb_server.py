"""ClickHouse's HTTP interface before chdb, which is ClickHouse's own engine in a Python package: each statement is parsed and
run by ClickHouse, and only the HTTP side is ours. Run by the Python that has chdb: chdb_server.py FOLDER USER PASSWORD; prints
its port on standard output. /fault?kind=…&count=… makes the next INSERTs of rows fail:
  lose    runs it and hangs up without an answer
  refuse  answers 503 and does nothing
  cut     hangs up and does nothing"""
import http.server
import os
import re
import sys
import tempfile
import threading
import urllib.parse

from chdb import session

FOLDER, USER, PASSWORD = sys.argv[1:4]
# HTTP status of ClickHouse's error codes, as its own server has them; others are 500.
STATUS = {60: 404, 81: 404, 47: 404, 62: 400, 117: 400, 6: 400, 26: 400, 27: 400, 41: 400, 72: 400, 164: 500}
OF_HTTP = ("database", "query", "wait_end_of_query")


class Engine:
    def __init__(self):
        self.session = session.Session(FOLDER)
        self.lock = threading.Lock()
        self.fault, self.left = "", 0

    def run(self, database, sql):
        with self.lock:
            self.session.query(f"USE `{database}`", "TabSeparated")
            return self.session.query(sql, "TabSeparated").bytes()

    def take_fault(self, sql):
        with self.lock:
            if self.left == 0 or "RowBinary" not in sql:
                return ""
            self.left -= 1
            return self.fault


ENGINE = Engine()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=UTF-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        try:
            self.serve()
        except ConnectionError:  # the client has gone
            self.close_connection = True

    def serve(self):
        url = urllib.parse.urlsplit(self.path)
        parameters = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if url.path == "/fault":
            ENGINE.fault, ENGINE.left = parameters["kind"], int(parameters["count"])
            return self.answer(200, b"")
        if (self.headers.get("X-ClickHouse-User", "default"), self.headers.get("X-ClickHouse-Key", "")) != (USER, PASSWORD):
            return self.answer(403, b"Code: 516. DB::Exception: " + USER.encode() + b": Authentication failed: password is incorrect, "
                               b"or there is no user with such name. (AUTHENTICATION_FAILED) (version 0)\n")  # fmt: skip
        fault = ENGINE.take_fault(parameters.get("query", ""))
        if fault == "cut":
            return self.connection.close()
        if fault == "refuse":
            return self.answer(503, b"Code: 202. DB::Exception: Too many simultaneous queries. (TOO_MANY_SIMULTANEOUS_QUERIES)\n")
        try:
            out = self.run(parameters, body)
        except Exception as error:  # noqa: BLE001 - chdb's own type is private
            code = re.search(r"Code: (\d+)", str(error))
            return self.answer(STATUS.get(int(code[1]) if code else 0, 500), str(error).encode() + b"\n")
        if fault == "lose":
            return self.connection.close()
        return self.answer(200, out)

    def run(self, parameters, body):
        database = parameters.get("database", "default")
        if "query" not in parameters:
            return ENGINE.run(database, body.decode())
        settings = ", ".join(f"{key}='{value}'" for key, value in parameters.items() if key not in OF_HTTP)
        statement, form = parameters["query"].rsplit(" FORMAT ", 1)
        with tempfile.NamedTemporaryFile() as data:
            data.write(body)
            data.flush()
            return ENGINE.run(database, f"{statement} FROM INFILE '{data.name}' SETTINGS {settings} FORMAT {form.strip()}")


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
