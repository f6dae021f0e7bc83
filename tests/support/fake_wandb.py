"""A W&B server on loopback, in memory: enough for runs, ``wandb sweep`` and ``wandb agent``."""

import contextlib
import gzip
import itertools
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml

from tests.support.waiting import PATIENCE_S, join

ENTITY = {"id": "E1", "name": "nobody"}
SERVER_INFO = {
    "cliVersionInfo": {"max_cli_version": "9.9.9"},
    "latestLocalVersionInfo": None,
    "features": [],
    "deploymentId": "loopback",
    "product": "local",
}
VIEWER = {
    "id": "U1",
    "entity": ENTITY["name"],
    "username": "nobody",
    "name": "nobody",
    "email": "nobody@localhost",
    "flags": "{}",
    "admin": False,
    "teams": {"edges": [{"node": {"name": ENTITY["name"]}}]},
    "apiKeys": {"edges": []},
    "organizations": [],
    "userEntity": ENTITY,
    "deletedAt": None,
}


class FakeWandb:
    """What arrived, by W&B run id, and a way to die.

    Args of a run: `config` (plain values), `group`, `tags`, `name`, `project`, `history` (rows),
    `summary`, and `exit_code` (None as long as the run goes on).
    """

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.sweeps: dict[str, dict[str, Any]] = {}  # config, the points left, agents
        self._lock = threading.Lock()
        self._frozen = threading.Event()
        self._connections: list[socket.socket] = []
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._server.connections = self._connections
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def kill(self) -> None:
        """Refuse new connections and cut the open ones, as a crash does."""
        stop = threading.Thread(target=self._server.shutdown, daemon=True)
        stop.start()
        join([stop])
        self._server.server_close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def freeze(self) -> None:
        """Keep accepting connections and never answer again."""
        self._frozen.set()

    def wait_if_frozen(self) -> None:
        if self._frozen.is_set():
            time.sleep(PATIENCE_S)

    def graphql(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        field = _first_field(query)
        if field == "viewer":
            return {"viewer": VIEWER, "serverInfo": SERVER_INFO}
        if field == "serverInfo":
            return {"serverInfo": SERVER_INFO}
        if field == "upsertBucket":
            return {"upsertBucket": self._upsert_run(variables)}
        if field == "createRunFiles":
            names = variables["files"]
            files = [{"name": name, "uploadUrl": f"{self.url}/storage/{name}"} for name in names]
            answer = {"runID": variables["run"], "uploadHeaders": [], "files": files}
            return {"createRunFiles": answer}
        if field == "upsertSweep":
            return {"upsertSweep": self._upsert_sweep(variables)}
        if field == "createAgent":
            agent = {"id": variables["sweep"], "name": variables["sweep"]}
            return {"createAgent": {"agent": agent}}
        if field == "agentHeartbeat":
            commands = json.dumps(self._commands(variables))
            return {"agentHeartbeat": {"agent": {"id": variables["id"]}, "commands": commands}}
        if field == "project" and "sweep" in variables:
            return {"project": {"sweep": self._sweep(variables["sweep"])}}
        return {field: None}

    def _upsert_sweep(self, variables: dict[str, Any]) -> dict[str, Any]:
        config = yaml.safe_load(variables["config"])
        parameters = config["parameters"]
        lists = [item.get("values", [item.get("value")]) for item in parameters.values()]
        points = [dict(zip(parameters, point, strict=True)) for point in itertools.product(*lists)]
        with self._lock:
            name = f"sweep{len(self.sweeps)}"
            self.sweeps[name] = {"config": config, "left": points, "sent": 0}
        project = {"id": "P1", "name": variables.get("projectName"), "entity": ENTITY}
        sweep = {"id": name, "name": name, "project": project}
        return {"sweep": sweep, "configValidationWarnings": []}

    def _commands(self, variables: dict[str, Any]) -> list[dict[str, Any]]:
        """The next point of a grid for an agent that is idle; the agent's id is its sweep's."""
        if json.loads(variables.get("runState") or "{}"):
            return []
        with self._lock:
            sweep = self.sweeps[variables["id"]]
            if not sweep["left"]:
                return [{"type": "exit"}]
            values, sweep["sent"] = sweep["left"].pop(0), sweep["sent"] + 1
            args = {key: {"value": value} for key, value in values.items()}
            run_id, program = f"{variables['id']}run{sweep['sent']}", sweep["config"].get("program")
        return [{"type": "run", "run_id": run_id, "program": program, "args": args}]

    def _sweep(self, name: str) -> dict[str, Any]:
        config = yaml.safe_dump(self.sweeps[name]["config"])
        return {
            "id": name,
            "name": name,
            "method": "grid",
            "state": "RUNNING",
            "config": config,
            "runs": {"edges": []},
        }

    def file_stream(self, run_id: str, body: dict[str, Any]) -> None:
        with self._lock:
            run = self.runs[run_id]
            for name, chunk in (body.get("files") or {}).items():
                rows = [json.loads(line) for line in chunk["content"]]
                if name == "wandb-history.jsonl":
                    run["history"].extend(rows)
                elif name == "wandb-summary.json":
                    run["summary"] = rows[-1]
            if body.get("complete"):
                run["exit_code"] = body["exitcode"]

    def _upsert_run(self, variables: dict[str, Any]) -> dict[str, Any]:
        run_id = variables["name"]
        with self._lock:
            inserted = run_id not in self.runs
            run = self.runs.setdefault(
                run_id, {"config": {}, "history": [], "summary": {}, "exit_code": None}
            )
            for key, item in json.loads(variables.get("config") or "{}").items():
                run["config"][key] = item["value"]
            renamed = {"groupName": "group", "tags": "tags", "displayName": "name"}
            for key, ours in renamed.items():
                if variables.get(key) is not None:
                    run[ours] = variables[key]
        bucket = {
            "id": run_id,
            "name": run_id,
            "displayName": run.get("name", run_id),
            "config": "{}",
            "historyLineCount": 0,
            "project": {"id": "P1", "name": variables.get("project"), "entity": ENTITY},
        }
        return {"bucket": bucket, "inserted": inserted}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    connections: list[socket.socket]

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.connections.append(connection)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: `kill` breaks connections on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeWandb

    def do_GET(self) -> None:
        self._answer({})

    def do_PUT(self) -> None:
        self._body()
        self._answer({})

    def do_POST(self) -> None:
        body = self._body()
        stream = re.fullmatch(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path)
        if self.path == "/graphql":
            request = json.loads(body)
            answer = self.fake.graphql(request["query"], request.get("variables") or {})
            self._answer({"data": answer})
        elif stream is not None:
            self.fake.file_stream(stream.group(1), json.loads(body))
            self._answer({"limits": {}})
        else:
            self._answer({})

    def log_message(self, *_args: Any) -> None:
        """Print nothing."""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(self._chunks())
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _answer(self, answer: dict[str, Any]) -> None:
        self.fake.wait_if_frozen()
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _first_field(query: str) -> str:
    """Name what a GraphQL query asks for first: its answer is shaped by that alone."""
    found = re.search(r"\{\s*(?:\w+\s*:\s*)?(\w+)", query)
    assert found is not None, query
    return found.group(1)
