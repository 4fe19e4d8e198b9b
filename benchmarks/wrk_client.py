"""wrk (https://github.com/wg/wrk) as the client of `serve.py`: it takes far less of the processor than Python does.

On a machine of two cores a client in Python takes one of them, and what the server does beside its event loop has to
wait.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from pathlib import Path

_QUANTILES = 1000  # of the latencies of a slice; they stand for all of them

_SCRIPT = """
local asked, at = {{}}, 0
for line in io.lines("{bodies}") do asked[#asked + 1] = line end
function request()
  at = at % #asked + 1
  return wrk.format("{method}", "{path}", {{["Content-Type"] = "application/json"}}, asked[at])
end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("\\n{{\\"requests\\": %d, \\"refused\\": %d, \\"lost\\": %d, \\"us\\": [",
    summary.requests, e.status, e.connect + e.read + e.write + e.timeout))
  for i = 1, {quantiles} do
    io.write(string.format("%d%s", latency:percentile(100 * (i - 0.5) / {quantiles}), i < {quantiles} and "," or "]}}"))
  end
  io.write("\\n")
end
"""


class WrkClient:
    """Several connections to a server, by a process of wrk for each slice.

    Parameters
    ----------
    port : int
    n_connections : int
    """

    def __init__(self, port: int, n_connections: int) -> None:
        self._port, self._n_connections = port, n_connections

    async def load(self, requests: list[bytes], seconds: float) -> tuple[Counter[int], list[float]]:
        """Ask for some time; see `Client.load`. Answers that are neither 2xx nor 3xx count as 500, lost ones as 0."""
        head = requests[0].split(b"\r\n", 1)[0].decode()
        method, path, _ = head.split(" ")
        with tempfile.TemporaryDirectory() as folder:
            bodies, script = Path(folder, "bodies"), Path(folder, "script.lua")
            bodies.write_bytes(b"".join(request.split(b"\r\n\r\n", 1)[1] + b"\n" for request in requests))
            script.write_text(_SCRIPT.format(bodies=bodies, method=method, path=path, quantiles=_QUANTILES))
            command = ["-t1", f"-c{self._n_connections}", f"-d{seconds:.0f}s", "-s", str(script)]
            url = f"http://127.0.0.1:{self._port}{path}"
            wrk = await asyncio.create_subprocess_exec("wrk", *command, url, stdout=asyncio.subprocess.PIPE)
            output, _ = await wrk.communicate()
        told = json.loads(output.decode().strip().splitlines()[-1])
        statuses = Counter({200: told["requests"] - told["refused"]})
        statuses.update({status: count for status, count in ((500, told["refused"]), (0, told["lost"])) if count})
        return statuses, [us / 1e6 for us in told["us"]]
